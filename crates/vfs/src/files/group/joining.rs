//! Joining a group: finding the owner of a database, or becoming it.
//!
//! # Invariants
//! 1. The name is bound before the file is opened. It is free again once the lease of the owner tells of others, or the database is closed: who finds
//!    it free, and the file without a lease, finds no owner. With `group_socket=file` the name is that of a file beside the database, and kept.
//! 2. A process that cannot join, for whatever reason, opens the database as a stranger: that is always correct.

use crate::db::Shared;
use crate::error::{Error, Result};
use crate::ffi::codes::*;
use crate::files::group::batch::News;
use crate::files::group::borrowed_file::{Inheritance, inherit, left_with};
use crate::files::group::channel::{Channel, First};
use crate::files::group::held_txn::HeldTxn;
use crate::files::group::knocking::Knocked;
use crate::files::group::link::{Link, Opening};
use crate::files::group::member_file::MemberFile;
use crate::files::group::owner::{Counted, Served, lend, number_of_marks};
use crate::files::group::protocol::{
    BORROWS, BY_ITSELF, Call, FileOf, IS_NEW, Incoming, Keeps, NO_SEAT, Operation, Outcome, POWERSAFE,
    READ_ONLY, Reply, VERSION,
};
use crate::files::group::retained;
use crate::files::requested_file::{is_true, read_only as to_read_only};
use crate::files::vfs::{OpenedFile, Vfs};
use crate::open::OpenDatabase;
use crate::open::departures::Present;
use crate::open::group::Group;
use crate::open::idle::bring_deltas_home;
use crate::open::joiners::name_of;
use crate::options::{GroupSocket, Options, Sharing};
use litefoot_storage::file::{FileId, FileKind, beside};
use litefoot_storage::os::{LocalListener, LocalName, LocalSocket, Peer};
use litefoot_storage::thread;
use std::ffi::c_int;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time for which an owner that is just ending, or just beginning, is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks.
const GLANCE: Duration = Duration::from_millis(1);
/// The time that the first call, and its reply, may take. The owner opens nothing for it.
const GREETING: Duration = Duration::from_secs(5);
/// How long a group whose database is in use waits for a moment to begin.
const BEGINNING: Duration = Duration::from_millis(100);
/// How long the heir of an owner's has for taking its name. Whoever knocks meanwhile disturbs it.
const HEIR_BEGINS: Duration = Duration::from_millis(50);
/// How long a group without members goes on: processes may come and go. And how often it tries to end, where transactions are in the way.
const LINGER: Duration = Duration::from_secs(2);
const ATTEMPTS_TO_END: u32 = 30;
/// The time after which a stream is accepted for which there was no descriptor.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The time between two looks for deltas that no other process would recover, and how often that is looked for.
const COMMIT_ENDS: Duration = Duration::from_millis(50);
const ATTEMPTS_TO_BRING_HOME: u32 = 20;
/// Most connections of members that a process serves.
const MOST_SERVED: usize = 1000;

/// The connections of members that this process serves.
static SERVED: AtomicUsize = AtomicUsize::new(0);

/// What a process finds that opens a database.
pub(crate) enum Met {
    /// Nobody: it is the owner.
    Nobody(Vacancy),
    /// An owner, which serves it.
    Owner(Arc<Channel>),
    /// An owner that is stopped: nobody can use the database.
    Stopped(u32),
    /// It opens the database as one that has no group.
    Stranger,
}

/// The name of a group without an owner, and the file, where it is open already.
#[derive(Default)]
pub(crate) struct Vacancy {
    pub listener: Option<LocalListener>,
    pub opened: Option<(OpenedFile, c_int)>,
    /// The database, where this process has taken it over: it is open for as long as this is there.
    pub inherited: Option<Arc<OpenDatabase>>,
}

/// Where the processes of a group meet: at that name, or at a file beside the database.
fn place_of(id: FileId, path: &Path, options: &Options) -> LocalName {
    match options.group_socket {
        GroupSocket::Name => LocalName::Abstract(name_of(id)),
        GroupSocket::File => LocalName::File(beside(path, "-group")),
    }
}

/// What both have to be of one mind about: builds differ in what they make of the protocol's words, a path may have become another file's, and
/// the owner's options decide what a commit is, and when it is durable.
pub(super) fn greeting(id: FileId, options: &Options) -> String {
    let endian = if cfg!(target_endian = "big") { "big" } else { "little" };
    let build = format!("{} {endian}", env!("CARGO_PKG_VERSION"));
    let (form, atomic, flush) = (options.commit_log, options.atomic, options.flush_interval.as_millis());
    let log = options.commit_log_path.as_ref().map(|path| path.display());
    let log = log.map_or(String::new(), |log| log.to_string());
    let commits = format!("{form:?} {} {atomic:?} {flush} {log}", options.commit_log_size > 0);
    match options.group_socket {
        GroupSocket::Name => format!("{build} {commits}"),
        GroupSocket::File => format!("{build} {:x} {:x} {commits}", id.device, id.inode),
    }
}

impl Vfs {
    /// Opens a database as a member, where an owner serves it; else this process may become the owner.
    pub(in crate::files) fn join_group(
        &self,
        path: &Path,
        flags: c_int,
        options: &Options,
        opening: impl Fn(bool) -> Opening,
    ) -> Result<Joined> {
        // Mostly nobody is there.
        let Some(id) = self.identity_to_join(path, flags)? else { return Ok(Joined::Open(Met::Stranger)) };
        if flags & SQLITE_OPEN_EXCLUSIVE == 0
            && let Some(marks) = left_with(id, options)
            && let (Some(inherited), _) =
                self.inherit(&opening(!self.is_writable(path, flags).unwrap_or(false)), marks)
        {
            let listener = LocalListener::bind_to(&place_of(id, path, options)).ok().flatten();
            let vacancy = Vacancy { listener, inherited: Some(inherited), ..Vacancy::default() };
            return Ok(Joined::Open(Met::Nobody(vacancy)));
        }
        if let Some(met) = self.take_name(path, flags, options, id)? {
            return Ok(Joined::Open(met));
        }
        let Some(is_writable) = self.is_writable(path, flags) else { return Ok(Joined::Open(Met::Stranger)) };
        let opening = opening(!is_writable);
        let met = self.meet(path, flags, &opening, IS_NEW, Duration::ZERO)?;
        let channel = match met {
            Met::Owner(channel) => channel,
            Met::Stopped(process) => {
                return Err(Error::Refused(format!(
                    "{}: process {process}, which commits for this group of processes, is stopped; continue it, or end it, and open the \
                     database again",
                    path.display()
                )));
            }
            met => return Ok(Joined::Open(met)),
        };
        let link = Link::new(opening, self.weak(), channel, Some(id));
        self.links.add(&link);
        let flags = if is_writable { flags } else { to_read_only(flags) };
        Ok(Joined::Member(MemberFile::new(link), flags))
    }

    /// True if a handle with these flags may write; `None` for a file that cannot be opened, which says why.
    fn is_writable(&self, path: &Path, flags: c_int) -> Option<bool> {
        let may_write = flags & SQLITE_OPEN_READONLY == 0;
        match self.medium.info(path) {
            Ok(Some(info)) if info.readable => Some(info.writable && may_write),
            Ok(None) => Some(may_write),
            Ok(Some(_)) | Err(_) => None,
        }
    }

    /// Takes the name of a group, and opens the file where there is no owner; `None` where an owner, or somebody who looks for one, has the name.
    fn take_name(&self, path: &Path, flags: c_int, options: &Options, id: FileId) -> Result<Option<Met>> {
        let Ok(Some(listener)) = LocalListener::bind_to(&place_of(id, path, options)) else {
            return Ok(None);
        };
        // One that this process has open is not opened once more.
        if options.group_socket == GroupSocket::File || self.databases.get(id).is_some() {
            return Ok(Some(Met::Nobody(Vacancy { listener: Some(listener), ..Vacancy::default() })));
        }
        match self.knock(path, flags, listener)? {
            Knocked::Opened(listener, file, out) => {
                // Another file may have taken the path meanwhile.
                let listener = Some(listener).filter(|_| file.file.id() == id);
                Ok(Some(Met::Nobody(Vacancy { listener, opened: Some((file, out)), inherited: None })))
            }
            Knocked::Called => Ok(None),
            Knocked::Stranger => Ok(Some(Met::Stranger)),
        }
    }

    /// Finds the owner of a database, or takes its name, once another process has had so much time for that. `comes` is [`IS_NEW`], or 0 for a
    /// connection that has had an owner before.
    pub(super) fn meet(
        &self,
        path: &Path,
        flags: c_int,
        opening: &Opening,
        comes: u64,
        after: Duration,
    ) -> Result<Met> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let Some(id) = self.identity_to_join(path, flags)? else { return Ok(Met::Stranger) };
            if begun.elapsed() >= after
                && let Some(met) = self.take_name(path, flags, &opening.options, id)?
            {
                return Ok(met);
            }
            let connected = match LocalSocket::connect_to(&place_of(id, path, &opening.options)) {
                Ok(connected) => connected,
                // It is busy, or stopped.
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(_) if begun.elapsed() < after => None,
                Err(_) => return Ok(Met::Stranger),
            };
            if let Some(socket) = connected {
                let Some(owner) = socket.peer().ok().filter(|peer| peer.is_trusted()) else {
                    return Ok(Met::Stranger);
                };
                if owner.is_stopped() {
                    return Ok(Met::Stopped(owner.process));
                }
                match greet(socket, id, path, opening, comes) {
                    Greeting::Served(channel) => return Ok(Met::Owner(channel)),
                    Greeting::Refused => return Ok(Met::Stranger),
                    Greeting::Ending => {}
                }
            }
            std::thread::sleep(GLANCE);
        }
        Ok(Met::Stranger)
    }

    /// The identity of a file of the operating system's, which is made where the open is to make it.
    fn identity_to_join(&self, path: &Path, flags: c_int) -> Result<Option<FileId>> {
        // A simulated medium has files that no other process has.
        if !self.medium.is_the_systems() {
            return Ok(None);
        }
        let id = self.medium.identity(path)?;
        if id.is_some() || flags & SQLITE_OPEN_CREATE == 0 {
            return Ok(id);
        }
        // Where another process has made it meanwhile, that has a lease, and is told nothing that it would not be told by a knock.
        drop(self.open_file_at_once(path, FileKind::Database, flags & !SQLITE_OPEN_EXCLUSIVE)?);
        Ok(self.medium.identity(path)?)
    }

    /// Takes over what the owner with these marks has left, where it has died, and this process may; and how long another process has for taking its name that
    /// does so.
    fn inherit(&self, opening: &Opening, marks: u64) -> (Option<Arc<OpenDatabase>>, Duration) {
        match inherit(self, opening, marks) {
            Inheritance::Ours(file, claim) => {
                (self.own_inherited(opening, file, &claim).ok(), Duration::ZERO)
            }
            Inheritance::Anothers => (None, HEIR_BEGINS),
            Inheritance::Failed | Inheritance::Nobodys => (None, Duration::ZERO),
        }
    }

    /// The database may have members from now on, where it can be written. A process that has the name of its group waits for them.
    pub(in crate::files) fn host_group(&self, database: &Arc<OpenDatabase>, listener: Option<LocalListener>) {
        let Some(vfs) = self.weak().upgrade().filter(|_| database.db().writable()) else { return };
        // Also where the VFS is unregistered meanwhile.
        database.may_serve_by(move |database, listener| serve_group(&vfs, database, listener));
        if let Some(listener) = listener {
            database.await_joiners(listener);
        }
    }
}

/// Serves members of a database from now on, for as long as that is open, or until all have left.
fn serve_group(vfs: &Arc<Vfs>, database: &Arc<OpenDatabase>, listener: LocalListener) {
    let begun = Instant::now();
    while !database.prepare_group() {
        if begun.elapsed() > BEGINNING {
            return;
        }
        std::thread::sleep(GLANCE);
    }
    let Some(listener) = database.begin_group(Group::new(listener)) else { return };
    let (vfs, there) = (vfs.clone(), Arc::downgrade(database));
    // Without a thread nobody is served, and the name is given up with the listener.
    let begun = thread::spawn("litefoot-group", move || accept(&listener, &vfs, &there));
    if begun.is_err() {
        database.end_group();
    }
}

/// What an open has come to.
pub(crate) enum Joined {
    /// The file is opened.
    Open(Met),
    /// A member's handle, and its flags.
    Member(MemberFile, c_int),
}

/// How the first call has ended.
enum Greeting {
    Served(Arc<Channel>),
    /// The owner is another build, has another file, or serves enough already.
    Refused,
    /// The owner is closing the database.
    Ending,
}

fn greet(socket: LocalSocket, id: FileId, path: &Path, opening: &Opening, comes: u64) -> Greeting {
    let channel = Channel::new(socket, path);
    let flags = comes
        | if opening.read_only { READ_ONLY } else { 0 }
        | if opening.powersafe_overwrite { POWERSAFE } else { 0 }
        | if opening.options.sharing == Sharing::Auto { BY_ITSELF } else { 0 };
    let mut txn = HeldTxn::default();
    let mut keeps = Keeps::default();
    if comes == IS_NEW
        && let Some((marks, kept)) = retained::take_pages(path)
    {
        keeps = Keeps { marks, moment: kept.moment(), has_first: kept.has_first() };
        txn.kept = kept;
    }
    let said = keeps.encode(&greeting(id, &opening.options));
    let call = Call::new(Operation::Hello, FileOf::Main, VERSION, flags).with(&said);
    let read = |reply: &Reply<'_>| {
        let (marks, said) = reply.data.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let (header, said) = said.split_first_chunk().unzip();
        match said.and_then(News::decode) {
            Some(news) => txn.hear(&news),
            // The pages are of a moment that is not known to be one of this owner's.
            None => txn = HeldTxn::default(),
        }
        channel.borrowing.note_marks(u64::from_ne_bytes(*marks));
        channel.has_lease.store(reply.flag, Ordering::Relaxed);
        channel.note_first(First { txn, header: header.copied() });
        Ok(reply.value)
    };
    match channel.ask_until(Some(Instant::now() + GREETING), &call, read) {
        Ok(seat) => {
            let seat = usize::try_from(seat).ok().filter(|_| seat != NO_SEAT);
            Greeting::Served(channel.sit_down(seat))
        }
        Err(Error::Owners { .. }) => Greeting::Refused,
        Err(_) => Greeting::Ending,
    }
}

/// Borrows the open file of the owner whose marks have a number, with the stream by which that is known to live.
pub(super) fn borrow_file(link: &Link, marks: u64) -> Option<(LocalSocket, OwnedFd)> {
    let path = &link.opening.path;
    let id = link.vfs.upgrade()?.medium.identity(path).ok()??;
    let socket = LocalSocket::connect_to(&place_of(id, path, &link.opening.options)).ok()??;
    socket.peer().ok().filter(|peer| peer.is_trusted())?;
    let channel = Channel::new(socket, path);
    let said = Keeps::default().encode(&greeting(id, &link.opening.options));
    let flags = BORROWS | if link.opening.read_only { READ_ONLY } else { 0 };
    let call = Call::new(Operation::Hello, FileOf::Main, VERSION, flags).with(&said);
    let until = Instant::now() + GREETING;
    let lent = channel.ask_until(Some(until), &call, |reply| Ok(reply.value)).ok()?;
    let file = channel.take_descriptor().filter(|_| lent == marks)?;
    let socket = channel.into_socket();
    socket.set_timeout(0).ok()?;
    Some((socket, file))
}

/// Accepts members until the database is closed.
fn accept(listener: &LocalListener, vfs: &Arc<Vfs>, database: &Weak<OpenDatabase>) {
    loop {
        let accepted = listener.accept();
        let Some(database) = database.upgrade() else { return };
        let socket = match accepted {
            Ok(socket) => socket,
            // The listener was closed.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            // There is no descriptor or no memory just now; those that come wait.
            Err(_) => {
                drop(database);
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            }
        };
        // One that comes at the end looks for the next owner.
        if !socket.peer().is_ok_and(Peer::is_trusted) || database.group_end().has_begun() || !database.admit()
        {
            continue;
        }
        let (vfs, there, its) = (vfs.clone(), database.clone(), Arc::downgrade(&database));
        let serve = move || {
            let socket = Arc::new(socket);
            let present = receive(&socket, vfs, database);
            drop(socket);
            leave(&its, present);
        };
        // Where there is no thread, the member finds the stream closed, and tries again for a while.
        if thread::spawn("litefoot-member", serve).is_err() {
            there.dismiss();
        }
    }
}

/// A member's stream has ended. A group without members ends soon: an owner that is alone pays nothing for it.
fn leave(database: &Weak<OpenDatabase>, present: Option<Present>) {
    let is_empty = database.upgrade().is_some_and(|database| database.dismiss());
    drop(present);
    bring_home_without_heir(database);
    if !is_empty {
        return;
    }
    for _ in 0..ATTEMPTS_TO_END {
        std::thread::sleep(LINGER);
        if database.upgrade().is_none_or(|database| database.end_group_if_alone()) {
            return;
        }
    }
}

/// Brings deltas home that no other process would recover. One may have been under way when the last heir went: it is looked for once more.
fn bring_home_without_heir(database: &Weak<OpenDatabase>) {
    for attempt in 0..ATTEMPTS_TO_BRING_HOME {
        let is_needed = |database: &Arc<OpenDatabase>| database.db().shared().lacks_heir();
        let Some(database) = database.upgrade().filter(is_needed) else { return };
        if !bring_deltas_home(&database) && attempt > 0 {
            return;
        }
        drop(database);
        std::thread::sleep(COMMIT_ENDS);
    }
}

/// Hears the first call of a member, and serves it. What it answers ends once this thread has nothing of the database any more.
pub(super) fn receive(
    socket: &Arc<LocalSocket>,
    vfs: Arc<Vfs>,
    database: Arc<OpenDatabase>,
) -> Option<Present> {
    let _ = socket.set_timeout(GREETING.as_millis() as u32);
    let mut incoming = Incoming::default();
    let Ok(Some(frame)) = incoming.next(socket) else { return None };
    let (call, true) = Call::decode(frame)? else { return None };
    let flags = call.b;
    let greeting = greeting(database.db().file().id(), database.db().options());
    // Newcomers come to a group where both have been told to, or where it gains.
    let by_itself = flags & BY_ITSELF != 0 || database.db().options().sharing == Sharing::Auto;
    let may_come = || flags & IS_NEW == 0 || !by_itself || database.serves_by_itself();
    let is_hello = call.operation == Operation::Hello && call.a == VERSION;
    let keeps =
        Keeps::decode(call.data).filter(|(_, said)| is_hello && *said == greeting.as_bytes() && may_come());
    let is_welcome = keeps.is_some();
    let _ = socket.set_timeout(0);
    if is_welcome && flags & BORROWS != 0 {
        return Some(lend(socket, &mut incoming, database, flags & READ_ONLY == 0));
    }
    let is_served = is_welcome && SERVED.fetch_add(1, Ordering::Relaxed) < MOST_SERVED;
    let mut reply = Vec::new();
    if is_served {
        let _member = Counted::note(socket, &database, Shared::note_member);
        let mut served = Served::new(vfs, database.clone(), flags);
        let (seat, board) = served.place();
        let value = seat.map_or(NO_SEAT, |seat| seat as u64);
        let mut said = number_of_marks(&database).to_ne_bytes().to_vec();
        let flag = database.has_lease();
        drop(database);
        if let Some((keeps, _)) = keeps.filter(|_| flags & IS_NEW != 0) {
            served.tell_newcomer(keeps, &mut said);
        }
        Reply { value, flag, data: &said, ..Reply::DONE }.encode(&mut reply);
        // One that is gone already is found so by `serve`.
        let _ = socket.send(&reply, board.as_ref().map(|memory| memory.descriptor()));
        served.serve(socket, &mut incoming);
    } else {
        Reply { outcome: Outcome::Failed, flag: false, value: SQLITE_CANTOPEN as u64, data: b"" }
            .encode(&mut reply);
        let _ = socket.send(&reply, None);
    }
    if is_welcome {
        SERVED.fetch_sub(1, Ordering::Relaxed);
    }
    None
}

/// Finds the next owner of a member's connection that has lost one; this process may become it.
pub(super) fn join_again(link: &Arc<Link>, lost: &Arc<Channel>) -> Result<Arc<Channel>> {
    let opening = &link.opening;
    let path = &opening.path;
    let vfs = link.vfs.upgrade().ok_or(Error::Busy)?;
    let flags = opening.flags_again();
    let begun = Instant::now();
    // Before the file is asked for: to the lease of the open file this process would be somebody else.
    let one = vfs.databases.begin_opening_within(path, PATIENCE).ok_or(Error::Busy)?;
    let (inherited, after) = vfs.inherit(opening, lost.borrowing.marks());
    drop(one);
    while begun.elapsed() < PATIENCE && !lost.is_owner_stopped() {
        // Threads of this process look one after the other.
        let one = vfs.databases.begin_opening_within(path, PATIENCE).ok_or(Error::Busy)?;
        match vfs.meet(path, flags, opening, 0, after)? {
            Met::Owner(channel) => return Ok(channel),
            Met::Stranger | Met::Stopped(_) => break,
            Met::Nobody(vacancy) => {
                // It is kept open until the connection is one of its members.
                let _database = vfs.own_for_group(opening, flags, vacancy)?;
                drop(one);
                if let Met::Owner(channel) = vfs.meet(path, flags, opening, 0, Duration::ZERO)? {
                    return Ok(channel);
                }
            }
        }
    }
    drop(inherited);
    if lost.is_owner_stopped() && link.open_flags(FileOf::Wal).is_some() {
        // In WAL mode SQLite would ask again and again, and then speak of its protocol.
        return Err(lost.stopped());
    }
    // One is just beginning, or just ending: SQLite's busy handler decides.
    Err(Error::Busy)
}

/// True for an open that may join a group, or begin one: by its options and parameters. Without having been told to it joins none where that could be noticed.
pub(in crate::files) fn may_join(options: &Options, parameters: &[(String, String)]) -> bool {
    let is_unlocked =
        |(name, value): &(String, String)| matches!(name.as_str(), "nolock" | "immutable") && is_true(value);
    let is_plain = || {
        let shares_cache = |(name, value): &(String, String)| name == "cache" && value == "shared";
        options.tier.is_none()
            && !options.logs_statements()
            && options.group_socket == GroupSocket::Name
            && !parameters.iter().any(shares_cache)
    };
    options.sharing.joins()
        && (options.sharing == Sharing::Group || is_plain())
        && !crate::ffi::connection::is_internal()
        && !parameters.iter().any(is_unlocked)
}
