//! A member whose owners end, at any of its calls: it goes on with the next one.

use super::channel::Channel;
use super::joining::{Met, greeting, receive};
use super::link::{Link, Opening};
use super::member_companion::MemberCompanion;
use super::member_file::{MOST_OWNERS, MemberFile};
use super::of_test::{READS, SPILLS, group_on, inserting, vfs_on};
use super::protocol::{
    BY_ITSELF, Call, FileOf, IS_NEW, Incoming, Keeps, NO_SEAT, Operation, Outcome, Reply, Seen, VERSION,
};
use crate::commit::sync_time::of_test::Device;
use crate::error::Error;
use crate::ffi::api::Api;
use crate::ffi::codes::{
    SQLITE_ACCESS_EXISTS, SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_READWRITE, SQLITE_OPEN_WAL,
};
use crate::files::handle::{Control, Handle, Handled, PragmaCall};
use crate::files::vfs::Vfs;
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::open::joiners::name_of;
use crate::options::{Options, Sharing};
use crate::sync::lock_table::Level;
use crate::sync::wal_index::WRITE_SLOT;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::os::{LocalListener, LocalSocket, OsMedium};
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const REGION: usize = 32768;
const OPEN_LOG: c_int = SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE;

/// Page 1 of a database in WAL mode.
fn first_page() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[..16].copy_from_slice(crate::db::MAGIC);
    page[16..18].copy_from_slice(&512_u16.to_be_bytes());
    page[18..20].copy_from_slice(&[2, 2]);
    page
}

/// The functions of an SQLite that is never called.
fn no_sqlite() -> &'static Api {
    unsafe extern "C" fn nothing() -> c_int {
        panic!("there is no SQLite in this test")
    }
    // SAFETY: none of them is called.
    let api = unsafe { Api::from_symbols(|_| nothing as *const std::ffi::c_void) };
    Box::leak(Box::new(api.unwrap()))
}

/// Serves one member until it is asked for something, and then nothing any more; the member hears of it once the stream is dropped.
fn serve_until(listener: &LocalListener, last: Operation) -> LocalSocket {
    let (socket, mut incoming) = (listener.accept().unwrap(), Incoming::default());
    loop {
        let frame = incoming.next(&socket).unwrap().expect("the member goes on");
        let (call, wants_reply) = Call::decode(frame).unwrap();
        if call.operation == last {
            return socket;
        }
        let value = if call.operation == Operation::Hello { NO_SEAT } else { 0 };
        let first = first_page();
        let data = match call.operation {
            Operation::Read => &first[call.a as usize..(call.a + call.b) as usize],
            _ => &[],
        };
        let mut reply = Vec::new();
        Reply { value, data, ..Reply::DONE }.encode(&mut reply);
        if wants_reply {
            socket.send(&reply, None).unwrap();
        }
    }
}

/// One owner after the other, each of which ends where it is asked for something; the last one serves the member until that leaves.
fn serve_in_turn(
    name: &str,
    mut listener: LocalListener,
    ends: &[Operation],
    last: (Arc<Vfs>, Arc<OpenDatabase>),
) {
    for end in ends {
        let stream = serve_until(&listener, *end);
        drop(listener);
        // Before the member can be the next one.
        listener = LocalListener::bind(name).unwrap().unwrap();
        drop(stream);
    }
    receive(&Arc::new(listener.accept().unwrap()), last.0, last.1);
}

/// Has a member at owners that end one after the other, and looks at the last one.
fn with_owners(ends: &[Operation], member_does: impl FnOnce(&Arc<Link>, &mut MemberFile)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    std::fs::write(&path, first_page()).unwrap();
    let medium = SimMedium::new();
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    file.write_at(&first_page(), 0).unwrap();
    // To a lease that would be another process.
    drop(file);
    let (owners_vfs, database) = group_on(&medium);
    let vfs = vfs_on(Arc::new(OsMedium));
    vfs.set_shared();
    let name = name_of(OsMedium.identity(&path).unwrap().unwrap());
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let flags = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE;
    let opening = opening_of(&path);
    std::thread::scope(|scope| {
        let last = (owners_vfs, database.clone());
        scope.spawn(|| serve_in_turn(&name, listener, ends, last));
        let Ok(Met::Owner(channel)) = vfs.meet(&path, flags, &opening, 0, std::time::Duration::ZERO) else {
            panic!("there is an owner")
        };
        let link = Link::new(opening, vfs.weak(), channel, None);
        let mut member = MemberFile::new(link.clone());
        member.control(Control::Connected).unwrap();
        member.lock(Level::Shared).unwrap();
        member_does(&link, &mut member);
        assert!(!database.is_native(), "{ends:?}: commits go to a file");
        Box::new(member).close().unwrap();
    });
}

#[test]
fn a_member_that_has_opened_its_log_goes_on_at_the_next_owner() {
    use Operation::*;
    for ends in [
        &[ShmMap][..],
        &[ShmMap, Hello],
        &[ShmMap, Control],
        &[ShmMap, Lock],
        &[ShmMap, Read],
        &[ShmMap, Open, ShmMap],
        &[ShmMap, ShmMap, ShmMap],
    ] {
        with_owners(ends, |link, member| {
            let (log, _) = MemberCompanion::open(link.clone(), FileOf::Wal, OPEN_LOG).unwrap();
            let mapped = member.shm_map(0, REGION, true);
            assert!(matches!(mapped, Ok(Some(_))), "{ends:?}: {:?}", mapped.err());
            member.shm_unmap(false).unwrap();
            Box::new(log).close().unwrap();
        });
    }
}

/// Where nobody has been told to join, newcomers come outside of WAL mode, and where a sync takes long. Those that are members already go on.
#[test]
fn newcomers_come_to_a_database_in_wal_mode_where_both_were_told_to_or_syncs_are_long() {
    // The device is asked where there is a number.
    for (sharing, flags, in_wal_mode, long, is_served, asked) in [
        (Sharing::Group, IS_NEW, true, None, true, 0),
        (Sharing::Group, IS_NEW | BY_ITSELF, true, None, false, 0),
        (Sharing::Group, IS_NEW | BY_ITSELF, false, None, true, 0),
        (Sharing::Auto, IS_NEW, true, None, false, 0),
        (Sharing::Auto, IS_NEW, false, None, true, 0),
        (Sharing::Auto, BY_ITSELF, true, None, true, 0),
        (Sharing::Group, IS_NEW, true, Some(0xE001), true, 0),
        (Sharing::Group, IS_NEW | BY_ITSELF, true, Some(0xE002), true, 1),
        (Sharing::Auto, IS_NEW, true, Some(0xE003), true, 1),
        (Sharing::Auto, IS_NEW | BY_ITSELF, true, Some(0xE003), true, 0),
        (Sharing::Auto, IS_NEW | BY_ITSELF, false, Some(0xE004), true, 0),
        (Sharing::Auto, BY_ITSELF, true, Some(0xE005), true, 0),
    ] {
        let device = Arc::new(Device::new(long.unwrap_or_default()));
        let medium: Arc<dyn Medium> = match long {
            Some(_) => device.clone(),
            None => Arc::new(device.medium.clone()),
        };
        let mut page = first_page();
        if !in_wal_mode {
            page[18..20].copy_from_slice(&[1, 1]);
        }
        let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
        file.write_at(&page, 0).unwrap();
        let vfs = vfs_on(medium.clone());
        let mut setup = DatabaseSetup::of_test(medium, Path::new("/app.db"));
        setup.options.sharing = sharing;
        let options = setup.options.clone();
        let database = vfs.databases.get_or_insert(setup.file.id(), || OpenDatabase::new(setup));
        let greeting = greeting(database.db().file().id(), &options);
        // Another build's is refused before.
        for (greeting, is_served) in [("another", false), (greeting.as_str(), is_served)] {
            let name = format!("litefoot-newcomers-{}", std::process::id());
            let listener = LocalListener::bind(&name).unwrap().unwrap();
            let (vfs, database) = (vfs.clone(), database.clone());
            let there =
                std::thread::spawn(move || receive(&Arc::new(listener.accept().unwrap()), vfs, database));
            let socket = LocalSocket::connect(&name).unwrap().unwrap();
            let channel = Channel::new(socket, Path::new("/app.db"));
            let said = Keeps::default().encode(greeting);
            let call = Call::new(Operation::Hello, FileOf::Main, VERSION, flags).with(&said);
            let answer = channel.tell(&call);
            assert_eq!(answer.is_ok(), is_served, "{sharing:?} {flags} {in_wal_mode} {long:?}: {answer:?}");
            drop(channel);
            there.join().unwrap();
            assert_eq!(device.asked(), if is_served { asked } else { 0 }, "{sharing:?} {flags} {long:?}");
        }
    }
}

/// An open of a file that is to be read and written, with the default options.
fn opening_of(path: &Path) -> Opening {
    Opening {
        path: path.to_owned(),
        flags: SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE,
        options: Options::default(),
        api: no_sqlite(),
        read_only: false,
        powersafe_overwrite: true,
    }
}

/// Another connection of the process may wait for a lock that this one has, and its stream with it.
#[test]
fn each_connection_of_a_process_asks_by_its_own_stream() {
    let (vfs, path) = (vfs_on(Arc::new(OsMedium)), Path::new("/litefoot/app.db"));
    let opening = opening_of(path);
    let name = format!("litefoot-streams-{}", std::process::id());
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let connections = [1, 2, 3].map(|number| {
        let channel = Arc::new(Channel::new(LocalSocket::connect(&name).unwrap().unwrap(), path));
        let link = Link::new(opening.clone(), vfs.weak(), channel, None);
        vfs.links.add(&link);
        let socket = listener.accept().unwrap();
        // An owner that answers once, and says so.
        let serve = move || {
            let mut incoming = Incoming::default();
            let Ok(Some(frame)) = incoming.next(&socket) else { return None };
            let operation = Call::decode(frame).map(|(call, _)| call.operation);
            let mut reply = Vec::new();
            Reply { flag: true, ..Reply::DONE }.encode(&mut reply);
            socket.send(&reply, None).unwrap();
            operation.map(|operation| (number, operation))
        };
        (link, std::thread::spawn(serve))
    });
    let companion = Path::new("/litefoot/app.db-journal");
    let [_, second, third] = [0, 1, 2].map(|number: usize| Some(connections[number].0.clone()));
    assert!(vfs.access(companion, SQLITE_ACCESS_EXISTS, second).unwrap());
    vfs.delete(companion, true, third).unwrap();
    let served = connections.map(|(link, owner)| {
        drop(link);
        owner.join().unwrap()
    });
    assert_eq!(served, [None, Some((2, Operation::Access)), Some((3, Operation::Delete))]);
}

/// What SQLite asks where a transaction begins.
type Beginning = fn(&Arc<Link>, &mut MemberFile) -> Result<(), Error>;

#[test]
fn a_transaction_that_has_read_nothing_begins_anew_at_the_next_owner() {
    let cases: [(Operation, Beginning); 6] = [
        (Operation::Open, |link, _| MemberCompanion::open(link.clone(), FileOf::Wal, OPEN_LOG).map(drop)),
        (Operation::Access, |link, _| link.access(FileOf::Wal, SQLITE_ACCESS_EXISTS).map(drop)),
        (Operation::Size, |_, member| member.size().map(drop)),
        (Operation::IsReserved, |_, member| member.is_reserved().map(drop)),
        (Operation::Read, |_, member| member.read(&mut [0; 16], 24)),
        (Operation::Read, |_, member| member.read(&mut [0; 512], 0)),
    ];
    for (end, asks) in cases {
        with_owners(&[end], |link, member| {
            assert!(matches!(asks(link, member), Err(Error::Busy)), "{end:?}: the busy handler decides");
            member.unlock(Level::None).unwrap();
            member.lock(Level::Shared).unwrap();
            asks(link, member).unwrap();
        });
    }
    with_owners(&[Operation::Read], |_, member| {
        let lost = member.read(&mut [0; 512], 512);
        assert!(matches!(lost, Err(Error::Io(_))), "the pages before were another owner's");
        member.unlock(Level::None).unwrap();
        member.lock(Level::Shared).unwrap();
    });
}

#[test]
fn a_pragma_of_sqlites_is_carried_out_where_no_owner_hears_of_it() {
    for (name, is_sqlites) in [("cache_size", true), ("litefoot_stats", false)] {
        let mut done = None;
        with_owners(&[Operation::Pragma; MOST_OWNERS + 1], |_, member| {
            member.unlock(Level::None).unwrap();
            let call = PragmaCall { name, value: None, answer: &mut None };
            done = Some(member.control(Control::Pragma(call)));
            member.lock(Level::Shared).unwrap();
        });
        assert_eq!(matches!(done, Some(Ok(Handled::No))), is_sqlites, "{name}");
    }
}

/// What it has read may have come without a message.
#[test]
fn a_statement_whose_owner_ends_behind_its_turn_begins_anew() {
    let (mut locked, mut has_slot) = (Ok(()), true);
    with_owners(&[Operation::Size], |_, member| {
        let lost = member.size();
        member.index.begin_turn_of_test();
        locked = lost.and(Ok(())).or_else(|_| member.shm_lock(WRITE_SLOT, 1, true));
        has_slot = member.index.has_exclusive_slot();
        member.shm_unlock(WRITE_SLOT, 1).unwrap();
        member.unlock(Level::None).unwrap();
        member.lock(Level::Shared).unwrap();
    });
    assert!(matches!(locked, Err(Error::Busy)) && !has_slot, "nothing is written yet");
}

/// An owner that refuses EXCLUSIVE, and remembers the data of each such call.
fn refuse_exclusive(socket: &LocalSocket) -> Vec<Vec<u8>> {
    let (mut incoming, mut asked) = (Incoming::default(), Vec::new());
    while let Ok(Some(frame)) = incoming.next(socket) {
        let (call, wants_reply) = Call::decode(frame).unwrap();
        let is_refused = call.operation == Operation::Lock && call.a == Level::Exclusive as u64;
        if is_refused {
            asked.push(call.data.to_vec());
        }
        let outcome = if is_refused { Outcome::Busy } else { Outcome::Done };
        let mut reply = Vec::new();
        Reply { outcome, ..Reply::DONE }.encode(&mut reply);
        if wants_reply {
            socket.send(&reply, None).unwrap();
        }
    }
    asked
}

/// What the owner is asked where SQLite wants EXCLUSIVE in these situations, one after the other.
fn asked_for_exclusive(
    is_known: bool,
    wants: impl FnOnce(&mut MemberFile, &dyn Fn(&mut MemberFile, c_int)),
) -> Vec<Vec<u8>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (vfs, path) = (vfs_on(Arc::new(OsMedium)), Path::new("/litefoot/spills.db"));
    let name = format!("litefoot-spills-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let opening = opening_of(path);
    let channel = Arc::new(Channel::new(LocalSocket::connect(&name).unwrap().unwrap(), path));
    let socket = listener.accept().unwrap();
    let owner = std::thread::spawn(move || refuse_exclusive(&socket));
    let link = Link::new(opening, vfs.weak(), channel, None);
    if is_known {
        link.set_handle(inserting());
    }
    let mut member = MemberFile::new(link);
    wants(&mut member, &|member, spills| {
        SPILLS.set(SPILLS.get() + spills);
        assert!(matches!(member.lock(Level::Exclusive), Err(Error::Busy)));
    });
    drop(member);
    owner.join().unwrap()
}

fn begin_to_write(member: &mut MemberFile) {
    member.lock(Level::Shared).unwrap();
    member.lock(Level::Reserved).unwrap();
}

#[test]
fn the_owner_is_told_what_is_a_spill_and_asked_for_each_commit() {
    let (commit, spill) = (vec![], vec![1]);
    let asked = asked_for_exclusive(true, |member, want| {
        // Before it writes SQLite takes EXCLUSIVE to roll a journal back.
        member.lock(Level::Shared).unwrap();
        want(member, 1);
        want(member, 1);
        SPILLS.set(100);
        member.lock(Level::Reserved).unwrap();
        want(member, 0);
        READS.set(1);
        want(member, 1);
        READS.set(0);
        want(member, 0);
        member.unlock(Level::Shared).unwrap();
        want(member, 1);
        member.lock(Level::Reserved).unwrap();
        want(member, 1);
        want(member, 0);
        member.unlock(Level::None).unwrap();
        begin_to_write(member);
        want(member, 1);
    });
    let first = [[&commit; 2]; 3].concat();
    assert_eq!(asked.iter().collect::<Vec<_>>(), [&first[..], &[&spill, &commit, &spill]].concat());
}

#[test]
fn spills_behind_one_that_was_refused_are_refused_without_a_message() {
    const MOST: usize = 1000;
    let begun = Instant::now();
    let asked = asked_for_exclusive(true, |member, want| {
        begin_to_write(member);
        (0..MOST).for_each(|_| want(member, 1));
    });
    // One refusal counts for 5 ms.
    let most = 1 + begun.elapsed().as_millis() as usize / 5;
    assert!(asked.iter().all(|data| *data == [1]) && asked.len() <= most, "{} of {most}", asked.len());
}

#[test]
fn where_sqlite_cannot_be_asked_one_refusal_of_a_transaction_is_waited_for() {
    let asked = asked_for_exclusive(false, |member, want| {
        for _ in 0..2 {
            begin_to_write(member);
            (0..3).for_each(|_| want(member, 1));
            member.unlock(Level::None).unwrap();
        }
    });
    assert_eq!(asked, [vec![], vec![1], vec![1], vec![], vec![1], vec![1]]);
}

/// What a member asks that reads twice, and whose file has another name in between; and whether it waits for the answers.
fn asked_between_transactions(has_lease: bool) -> Vec<(Operation, bool)> {
    let (directory, vfs) = (tempfile::tempdir().unwrap(), vfs_on(Arc::new(OsMedium)));
    vfs.set_shared();
    let path = directory.path().join("app.db");
    std::fs::write(&path, first_page()).unwrap();
    let name = format!("litefoot-idle-{}-{has_lease}", std::process::id());
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let channel = Arc::new(Channel::new(LocalSocket::connect(&name).unwrap().unwrap(), &path));
    channel.has_lease.store(has_lease, Ordering::Relaxed);
    let socket = listener.accept().unwrap();
    let owner = std::thread::spawn(move || {
        let (mut incoming, mut asked) = (Incoming::default(), Vec::new());
        while let Ok(Some(frame)) = incoming.next(&socket) {
            let (call, wants_reply) = Call::decode(frame).unwrap();
            asked.push((call.operation, wants_reply));
            let mut reply = Vec::new();
            Reply::DONE.encode(&mut reply);
            if wants_reply {
                socket.send(&reply, None).unwrap();
            }
        }
        asked
    });
    let link = Link::new(opening_of(&path), vfs.weak(), channel, OsMedium.identity(&path).unwrap());
    let mut member = Box::new(MemberFile::new(link));
    let has_moved = |member: &mut MemberFile| {
        let mut moved = 7;
        member.control(Control::HasMoved(&mut moved)).unwrap();
        moved
    };
    member.control(Control::Connected).unwrap();
    for _ in 0..2 {
        member.lock(Level::Shared).unwrap();
        (0..2).for_each(|_| member.unlock(Level::None).unwrap());
    }
    assert_eq!(has_moved(&mut member), 0);
    std::fs::rename(&path, directory.path().join("other.db")).unwrap();
    assert_eq!(has_moved(&mut member), 1);
    std::fs::write(&path, first_page()).unwrap();
    assert_eq!(has_moved(&mut member), 1, "another file");
    // The lock of a reader is the owner's affair.
    member.lock(Level::Shared).unwrap();
    assert_eq!(has_moved(&mut member), 0);
    member.unlock(Level::None).unwrap();
    member.close().unwrap();
    let mut asked = owner.join().unwrap();
    // This owner lends nothing.
    asked.retain(|(operation, _)| *operation != Operation::Marks);
    asked
}

#[test]
fn between_its_transactions_a_member_asks_nothing() {
    use Operation::{Begin, Close, Control, Unlock};
    for has_lease in [true, false] {
        let read = [(Begin, true), (Unlock, true)];
        // Where the owner has a lease nobody misses the close.
        let last = [(Begin, true), (Control, true), (Unlock, true), (Close, !has_lease)];
        let expected = [&[(Control, false)], &read[..], &read, &last].concat();
        assert_eq!(asked_between_transactions(has_lease), expected);
    }
}

/// What a member still asks its owner, which has said with its first lock what it has seen, and is asked these things.
fn asked_beside_what_was_seen(asks: impl FnOnce(&Arc<Link>, &mut MemberFile)) -> Vec<Operation> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (vfs, path) = (vfs_on(Arc::new(OsMedium)), Path::new("/litefoot/seen.db"));
    let name = format!("litefoot-seen-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let listener = LocalListener::bind(&name).unwrap().unwrap();
    let channel = Arc::new(Channel::new(LocalSocket::connect(&name).unwrap().unwrap(), path));
    let socket = listener.accept().unwrap();
    let owner = std::thread::spawn(move || {
        let (mut incoming, mut asked, mut seen) = (Incoming::default(), Vec::new(), Vec::new());
        Seen::encode(false, true, 7, &mut seen);
        while let Ok(Some(frame)) = incoming.next(&socket) {
            let (call, _) = Call::decode(frame).unwrap();
            let data = if call.operation == Operation::Begin { &seen[..] } else { &[] };
            if matches!(call.operation, Operation::Access | Operation::Size) {
                asked.push(call.operation);
            }
            let mut reply = Vec::new();
            Reply { value: 0, flag: false, data, ..Reply::DONE }.encode(&mut reply);
            socket.send(&reply, None).unwrap();
        }
        asked
    });
    let link = Link::new(opening_of(path), vfs.weak(), channel, None);
    let mut member = MemberFile::new(link.clone());
    member.lock(Level::Shared).unwrap();
    asks(&link, &mut member);
    drop((member, link));
    owner.join().unwrap()
}

#[test]
fn what_the_owner_has_seen_is_answered_once_and_before_anything_is_written() {
    fn look(link: &Arc<Link>, member: &mut MemberFile) -> (bool, bool, u64) {
        let is_there = |file| link.access(file, SQLITE_ACCESS_EXISTS).unwrap();
        (is_there(FileOf::Journal), is_there(FileOf::Wal), member.size().unwrap())
    }
    use Operation::{Access, Size};
    let all = [Access, Access, Size];
    let asked = asked_beside_what_was_seen(|link, member| {
        assert_eq!(look(link, member), (false, true, 7));
        assert_eq!(look(link, member), (false, false, 0), "as the owner answers");
    });
    assert_eq!(asked, all);
    let asked = asked_beside_what_was_seen(|link, member| {
        member.lock(Level::Reserved).unwrap();
        look(link, member);
    });
    assert_eq!(asked, all, "a journal may be there by now");
    let asked = asked_beside_what_was_seen(|link, member| {
        let _ = member.shm_map(0, REGION, false);
        look(link, member);
    });
    assert_eq!(asked, all, "others may write the file");
    let asked = asked_beside_what_was_seen(|link, member| {
        member.unlock(Level::None).unwrap();
        look(link, member);
    });
    assert_eq!(asked, all, "the lock is given up");
}

mod index;
