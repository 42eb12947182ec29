//! Joining a group: finding the owner of a database, or becoming it.
//!
//! # Invariants
//! 1. The name is bound before the file is opened, and free once the database is closed: a process that finds it free finds
//!    no owner that serves. With `group_socket=file` the name is that of a file beside the database.
//! 2. A process that cannot join, for whatever reason, opens the database as a stranger: that is always correct.

use crate::error::{Error, Result};
use crate::ffi::codes::*;
use crate::files::group::channel::Channel;
use crate::files::group::link::{Link, Opening};
use crate::files::group::member_file::MemberFile;
use crate::files::group::owner::{Served, await_return, lend};
use crate::files::group::protocol::{
    BORROWS, Call, FileOf, Incoming, NO_SEAT, Operation, Outcome, POWERSAFE, READ_ONLY, Reply, VERSION,
};
use crate::files::requested_file::{is_true, read_only as to_read_only};
use crate::files::vfs::Vfs;
use crate::open::OpenDatabase;
use crate::open::group::Group;
use crate::options::{GroupSocket, Options, Sharing};
use litefoot_storage::file::{FileId, FileKind, beside};
use litefoot_storage::os::{LocalListener, LocalName, LocalSocket, Peer};
use litefoot_storage::thread;
use std::ffi::c_int;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time for which an owner that is just ending, or just beginning, is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks.
const GLANCE: Duration = Duration::from_millis(1);
/// The time that the first call, and its reply, may take. The owner opens nothing for it.
const GREETING: Duration = Duration::from_secs(5);
/// Most connections of members that a process serves.
const MOST_SERVED: usize = 1000;

/// The connections of members that this process serves.
static SERVED: AtomicUsize = AtomicUsize::new(0);

/// What a process finds that opens a database.
pub(crate) enum Met {
    /// Nobody: it is the owner, by this name.
    Nobody(LocalListener),
    /// An owner, which serves it.
    Owner(Arc<Channel>),
    /// An owner that is stopped: nobody can use the database.
    Stopped(u32),
    /// It opens the database as one that has no group.
    Stranger,
}

/// The name of the owner of a file.
pub(super) fn name_of(id: FileId) -> String {
    format!("litefoot-{:x}-{:x}", id.device, id.inode)
}

/// Where the processes of a group meet: at that name, or at a file beside the database.
fn place_of(id: FileId, path: &Path, options: &Options) -> LocalName {
    match options.group_socket {
        GroupSocket::Name => LocalName::Abstract(name_of(id)),
        GroupSocket::File => LocalName::File(beside(path, "-group")),
    }
}

/// What both have to be of one mind about: builds differ in what they make of the protocol's words, and a path may have become another file's.
fn greeting(id: FileId, options: &Options) -> String {
    let endian = if cfg!(target_endian = "big") { "big" } else { "little" };
    let build = format!("{} {endian}", env!("CARGO_PKG_VERSION"));
    match options.group_socket {
        GroupSocket::Name => build,
        GroupSocket::File => format!("{build} {:x} {:x}", id.device, id.inode),
    }
}

impl Vfs {
    /// Opens a database as a member, where an owner serves it; else this process may become the owner.
    pub(in crate::files) fn join_group(
        &self,
        path: &Path,
        flags: c_int,
        opening: impl FnOnce(bool) -> Opening,
    ) -> Result<Joined> {
        let read_only = |flags: c_int| flags & SQLITE_OPEN_READONLY != 0;
        let is_writable = match self.medium.info(path) {
            Ok(Some(info)) if info.readable => info.writable && !read_only(flags),
            Ok(None) => !read_only(flags),
            // What cannot be opened says why.
            Ok(Some(_)) | Err(_) => return Ok(Joined::Open(Met::Stranger)),
        };
        let opening = opening(!is_writable);
        let met = self.meet(path, flags, &opening)?;
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
        let link = Link::new(opening, self.weak(), channel);
        self.links.add(&link);
        let flags = if is_writable { flags } else { to_read_only(flags) };
        Ok(Joined::Member(MemberFile::new(link), flags))
    }

    /// Finds the owner of a database, or takes its name.
    pub(in crate::files) fn meet(&self, path: &Path, flags: c_int, opening: &Opening) -> Result<Met> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let Some(id) = self.identity_to_join(path, flags)? else { return Ok(Met::Stranger) };
            let name = place_of(id, path, &opening.options);
            if let Ok(Some(listener)) = LocalListener::bind_to(&name) {
                return Ok(Met::Nobody(listener));
            }
            let connected = match LocalSocket::connect_to(&name) {
                Ok(connected) => connected,
                // It is busy, or stopped.
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(_) => return Ok(Met::Stranger),
            };
            if let Some(socket) = connected {
                let Some(owner) = socket.peer().ok().filter(|peer| peer.is_trusted()) else {
                    return Ok(Met::Stranger);
                };
                if owner.is_stopped() {
                    return Ok(Met::Stopped(owner.process));
                }
                match greet(socket, id, path, opening) {
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
        if self.medium.identity(path)?.is_none() && flags & SQLITE_OPEN_CREATE != 0 {
            drop(self.open_file(path, FileKind::Database, flags & !SQLITE_OPEN_EXCLUSIVE)?);
        }
        let id = self.medium.identity(path)?;
        // A simulated medium has files that no other process has.
        let is_known = |id: &FileId| {
            std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (id.device, id.inode))
        };
        Ok(id.filter(is_known))
    }

    /// Serves members of a database from now on, for as long as that is open: also where the VFS is unregistered meanwhile.
    pub(in crate::files) fn serve_group(&self, database: &Arc<OpenDatabase>, listener: LocalListener) {
        let Some(vfs) = self.weak().upgrade() else { return };
        let Ok(board) = database.wal_index().begin_group() else { return };
        database.db().shared().begin_board(board);
        let there = Arc::downgrade(database);
        let Some(listener) = database.begin_group(Group::new(listener)) else { return };
        // Without a thread nobody is served, and the name is given up with the listener.
        let begun = thread::spawn("litefoot-group", move || accept(&listener, &vfs, &there));
        if begun.is_err() {
            database.end_group();
        }
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

fn greet(socket: LocalSocket, id: FileId, path: &Path, opening: &Opening) -> Greeting {
    let channel = Channel::new(socket, path);
    let flags = if opening.read_only { READ_ONLY } else { 0 }
        | if opening.powersafe_overwrite { POWERSAFE } else { 0 };
    let greeting = greeting(id, &opening.options);
    let call = Call::new(Operation::Hello, FileOf::Main, VERSION, flags).with(greeting.as_bytes());
    match channel.ask_until(Some(Instant::now() + GREETING), &call, |reply| Ok(reply.value)) {
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
    let greeting = greeting(id, &link.opening.options);
    let call = Call::new(Operation::Hello, FileOf::Main, VERSION, BORROWS).with(greeting.as_bytes());
    let until = Instant::now() + GREETING;
    let lent = channel.ask_until(Some(until), &call, |reply| Ok(reply.value)).ok()?;
    let file = channel.take_descriptor().filter(|_| lent == marks)?;
    let socket = channel.into_socket();
    socket.set_timeout(0).ok()?;
    Some((socket, file))
}

/// Accepts members until the database is closed.
fn accept(listener: &LocalListener, vfs: &Arc<Vfs>, database: &Weak<OpenDatabase>) {
    while let Ok(socket) = listener.accept() {
        let Some(database) = database.upgrade() else { return };
        // One that comes at the end looks for the next owner.
        if !socket.peer().is_ok_and(Peer::is_trusted) || database.group_end().has_begun() {
            continue;
        }
        // Where there is no thread, the member finds the stream closed, and tries again for a while.
        let vfs = vfs.clone();
        let _ = thread::spawn("litefoot-member", move || receive(&socket, vfs, database));
    }
}

/// Hears the first call of a member, and serves it.
pub(super) fn receive(socket: &LocalSocket, vfs: Arc<Vfs>, database: Arc<OpenDatabase>) {
    let _ = socket.set_timeout(GREETING.as_millis() as u32);
    let mut incoming = Incoming::default();
    let Ok(Some(frame)) = incoming.next(socket) else { return };
    let Some((call, true)) = Call::decode(frame) else { return };
    let flags = call.b;
    let greeting = greeting(database.db().file().id(), database.db().options());
    let is_welcome =
        call.operation == Operation::Hello && call.a == VERSION && call.data == greeting.as_bytes();
    let _ = socket.set_timeout(0);
    if is_welcome && flags & BORROWS != 0 {
        let is_lent = lend(socket, &database);
        // The database may be closed meanwhile.
        drop((database, vfs));
        return if is_lent {
            await_return(socket, &mut incoming)
        };
    }
    let is_served = is_welcome && SERVED.fetch_add(1, Ordering::Relaxed) < MOST_SERVED;
    let mut reply = Vec::new();
    if is_served {
        let served = Served::new(vfs, database, flags);
        let (seat, board) = served.place();
        Reply { value: seat.map_or(NO_SEAT, |seat| seat as u64), ..Reply::DONE }.encode(&mut reply);
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
}

/// Finds the next owner of a member's connection; this process may become it.
pub(super) fn join_again(link: &Arc<Link>) -> Result<Arc<Channel>> {
    let opening = &link.opening;
    let path = &opening.path;
    let vfs = link.vfs.upgrade().ok_or(Error::Busy)?;
    let flags = opening.flags & !(SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !link.channel().is_owner_stopped() {
        match vfs.meet(path, flags, opening)? {
            Met::Owner(channel) => return Ok(channel),
            Met::Stranger | Met::Stopped(_) => break,
            Met::Nobody(listener) => {
                // It is kept open until the connection is one of its members.
                let _database = vfs.own_for_group(opening, flags, listener)?;
                if let Met::Owner(channel) = vfs.meet(path, flags, opening)? {
                    return Ok(channel);
                }
            }
        }
    }
    let channel = link.channel();
    if channel.is_owner_stopped() && link.open_flags(FileOf::Wal).is_some() {
        // In WAL mode SQLite would ask again and again, and then speak of its protocol.
        return Err(channel.stopped());
    }
    // One is just beginning, or just ending: SQLite's busy handler decides.
    Err(Error::Busy)
}

/// True for an open that may join a group: by its options and parameters.
pub(in crate::files) fn may_join(sharing: Sharing, parameters: &[(String, String)]) -> bool {
    let is_unlocked =
        |(name, value): &(String, String)| matches!(name.as_str(), "nolock" | "immutable") && is_true(value);
    sharing == Sharing::Group && !crate::ffi::connection::is_internal() && !parameters.iter().any(is_unlocked)
}
