use super::*;
use crate::sync::stock_process::StockProcess;
use Level::*;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{self, FileKind, Medium, OpenMode};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::path::Path;

const ALL: [Level; 5] = [None, Shared, Reserved, Pending, Exclusive];

/// One process: its description of the file, and its locks.
struct Process {
    file: Arc<dyn File>,
    table: LockTable,
    locks: FileLocks,
}

impl Process {
    fn of(medium: &dyn Medium, path: &Path) -> Process {
        let file = medium.open(path, FileKind::Database, OpenMode::Create).unwrap();
        Process { file, table: LockTable::default(), locks: FileLocks::default() }
    }

    fn handle(&self) -> Arc<ReaderSlot> {
        self.table.new_reader_slot()
    }

    fn lock(&self, handle: &ReaderSlot, wanted: Level) -> bool {
        self.locks.lock(&*self.file, &self.table, handle, wanted).unwrap()
    }

    fn unlock(&self, handle: &ReaderSlot, to: Level) {
        self.locks.unlock(&*self.file, &self.table, handle, to).unwrap();
    }

    /// Brings a handle to a level, as SQLite does. PENDING needs a reader in the way, which is answered.
    fn bring(&self, handle: &ReaderSlot, to: Level, other: &Process) -> Option<Arc<ReaderSlot>> {
        let reader = (to == Pending).then(|| other.handle());
        assert!(reader.iter().all(|reader| other.lock(reader, Shared)));
        for step in [Shared, Reserved, Exclusive] {
            if step <= to || (to == Pending && step == Exclusive) {
                assert_eq!(self.lock(handle, step), step <= to, "{step:?} on the way to {to:?}");
            }
        }
        assert_eq!(handle.level(), to);
        reader
    }

    fn is_reserved(&self) -> bool {
        self.locks.is_reserved(&*self.file, &self.table).unwrap()
    }
}

fn two() -> [Process; 2] {
    let medium = SimMedium::new();
    [(); 2].map(|()| Process::of(&medium, Path::new("/a.db")))
}

#[test]
fn processes_meet_by_the_rules_of_lockingv3() {
    // (what the first process holds, what the second has and asks for, its level afterwards)
    for (held, has, wanted, after) in [
        (None, None, Shared, Shared),
        (Shared, None, Shared, Shared),
        (Reserved, None, Shared, Shared),
        (Pending, None, Shared, None),
        (Exclusive, None, Shared, None),
        (None, Shared, Reserved, Reserved),
        (Shared, Shared, Reserved, Reserved),
        (Reserved, Shared, Reserved, Shared),
        (Pending, Shared, Reserved, Shared),
        (None, Reserved, Exclusive, Exclusive),
        (Shared, Reserved, Exclusive, Pending),
        (Shared, Pending, Exclusive, Pending),
        // A hot journal, or the close of a connection in WAL mode.
        (None, Shared, Exclusive, Exclusive),
        (Shared, Shared, Exclusive, Shared),
        (Reserved, Shared, Exclusive, Shared),
        (Pending, Shared, Exclusive, Shared),
    ] {
        let [first, second] = two();
        let (one, other) = (first.handle(), second.handle());
        let case = format!("{held:?}: {has:?} asks for {wanted:?}");
        if held == Pending && has == Shared {
            assert!(second.lock(&other, Shared), "{case}");
        }
        let reader = first.bring(&one, held, &second);
        if !(has == Pending && held == Shared) {
            second.bring(&other, has, &first);
        } else {
            assert!(second.lock(&other, Reserved) && !second.lock(&other, Exclusive));
        }
        if has == None {
            reader.iter().for_each(|reader| second.unlock(reader, None));
        }
        assert_eq!(second.lock(&other, wanted), after == wanted, "{case}");
        assert_eq!(other.level(), after, "{case}");
        assert_eq!(
            first.is_reserved(),
            [held, has, after].iter().any(|level| [Reserved, Pending].contains(level)) || held == Exclusive,
            "{case}"
        );
        // Nothing is left behind that is not held.
        second.unlock(&other, None);
        reader.iter().for_each(|reader| second.unlock(reader, None));
        first.unlock(&one, None);
        for process in [&first, &second] {
            let handle = process.handle();
            assert!(
                [Shared, Reserved, Exclusive].into_iter().all(|level| process.lock(&handle, level)),
                "{case}"
            );
            process.unlock(&handle, None);
        }
    }
}

#[test]
fn the_file_has_the_highest_level_of_the_handles() {
    let [first, second] = two();
    let (a, b, other) = (first.handle(), first.handle(), second.handle());
    assert!(first.lock(&a, Shared) && first.lock(&b, Shared) && first.lock(&b, Reserved));
    assert!(second.lock(&other, Shared) && !second.lock(&other, Reserved) && second.is_reserved());
    second.unlock(&other, None);
    assert!(!first.lock(&b, Exclusive), "a reader of its own");
    assert_eq!(b.level(), Pending);
    assert!(second.lock(&other, Shared) && !second.lock(&other, Reserved), "RESERVED is on the file");
    first.unlock(&a, None);
    assert!(!first.lock(&b, Exclusive) && b.level() == Pending, "a reader of another process");
    second.unlock(&other, None);
    assert!(!second.lock(&other, Shared), "PENDING is on the file, too");
    first.unlock(&b, Shared);
    assert!(first.lock(&a, Shared) && second.lock(&other, Shared) && second.lock(&other, Reserved));
    assert!(!second.lock(&other, Exclusive) && other.level() == Pending);
    first.unlock(&a, None);
    assert!(!second.lock(&other, Exclusive), "the other handle reads on");
    first.locks.leave(&*first.file, &first.table, &b).unwrap();
    assert!(second.lock(&other, Exclusive) && !first.lock(&a, Shared));
    second.unlock(&other, Shared);
    assert!(first.lock(&a, Shared) && !first.is_reserved());
    assert!(!first.lock(&a, Exclusive) && a.level() == Shared);
    second.unlock(&other, None);
    assert!(first.lock(&a, Exclusive));
}

#[test]
fn what_is_locked_and_given_back_may_be_locked_by_the_other() {
    for level in ALL {
        for to in [None, Shared] {
            let [first, second] = two();
            let (one, other) = (first.handle(), second.handle());
            let reader = first.bring(&one, level, &second);
            first.unlock(&one, to);
            reader.iter().for_each(|reader| second.unlock(reader, None));
            assert!(second.lock(&other, Shared) && second.lock(&other, Reserved), "{level:?} {to:?}");
            let is_alone = to == None || level == None;
            assert_eq!(second.lock(&other, Exclusive), is_alone, "{level:?} {to:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_locked_shared_only() {
    let medium = SimMedium::new();
    let [mut reader, writer] = [(); 2].map(|()| Process::of(&medium, Path::new("/a.db")));
    reader.file = medium.open(Path::new("/a.db"), FileKind::Database, OpenMode::ReadOnly).unwrap();
    let (one, other) = (reader.handle(), writer.handle());
    assert!(reader.lock(&one, Shared) && writer.lock(&other, Shared) && writer.lock(&other, Reserved));
    assert!(!writer.lock(&other, Exclusive) && reader.is_reserved());
    writer.unlock(&other, None);
    reader.locks.lock(&*reader.file, &reader.table, &one, Reserved).unwrap_err();
    assert_eq!(one.level(), Shared);
    assert!(!reader.is_reserved() && writer.lock(&other, Shared) && writer.lock(&other, Reserved));
    writer.unlock(&other, None);
    assert!(owner_lock::try_acquire(&*writer.file, true).is_ok_and(|free| !free));
    assert!(reader.locks.change().end(&*reader.file, false).unwrap());
    assert!(writer.lock(&other, Shared) && !writer.lock(&other, Reserved));
    writer.unlock(&other, None);
    reader.locks.change().begin(&*reader.file, Shared).unwrap();
    assert!(writer.lock(&other, Shared) && writer.lock(&other, Reserved) && !writer.lock(&other, Exclusive));
}

/// A file that lets another process try after each call.
struct Watched<F> {
    file: Arc<dyn File>,
    after: F,
}

impl<F: Fn() + Send + Sync> File for Watched<F> {
    pass_on!(file: read_at, write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path, is_locked);

    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> file::Result<bool> {
        let locked = self.file.lock_range(offset, len, lock);
        (self.after)();
        locked
    }
}

#[test]
fn a_change_of_state_never_leaves_a_reader_unprotected() {
    for shares in [false, true] {
        let [first, second] = two();
        assert!(owner_lock::try_acquire(&*first.file, true).unwrap());
        let handle = first.handle();
        assert!(first.table.lock(&handle, Shared));
        let tries = Mutex::new(Vec::new());
        let watched = Watched {
            file: first.file.clone(),
            after: || {
                let other = second.handle();
                let reads = second.lock(&other, Shared);
                let writes = reads && second.lock(&other, Reserved) && second.lock(&other, Exclusive);
                second.locks.leave(&*second.file, &second.table, &other).unwrap();
                tries.lock().push((reads, writes));
            },
        };
        if !shares {
            first.table.unlock(&handle, None);
        }
        first.locks.change().begin(&watched, if shares { Shared } else { None }).unwrap();
        let all: &[_] = if shares { &[(false, false), (true, false)] } else { &[(true, true)] };
        assert_eq!(*tries.lock(), all);
        // The same the other way; a reader outside is in the way, and nothing changes then.
        let other = second.handle();
        assert!(second.lock(&other, Shared));
        assert!(!first.locks.change().end(&watched, true).unwrap());
        assert_eq!(second.lock(&other, Exclusive), !shares);
        second.unlock(&other, None);
        tries.lock().clear();
        assert!(first.locks.change().end(&watched, true).unwrap());
        assert_eq!(*tries.lock(), [(false, false)]);
        // Where others have the file already there is no owner lock to begin with.
        owner_lock::release(&*first.file).unwrap();
        tries.lock().clear();
        assert!(first.locks.change().begin_beside(&watched, shares).unwrap());
        let all: &[_] = if shares { &[(true, false); 3] } else { &[] };
        assert_eq!(*tries.lock(), all);
        if shares {
            first.unlock(&handle, None);
        }
        assert!(second.lock(&other, Shared) && second.lock(&other, Exclusive));
        assert_eq!(first.locks.change().begin_beside(&*first.file, shares).unwrap(), !shares);
    }
}

#[test]
fn a_handle_at_reserved_is_never_unprotected_where_others_are_let_in() {
    let [first, second] = two();
    assert!(owner_lock::try_acquire(&*first.file, true).unwrap());
    let handle = first.handle();
    assert!(first.table.lock(&handle, Shared) && first.table.lock(&handle, Reserved));
    let tries = Mutex::new(Vec::new());
    let watched = Watched {
        file: first.file.clone(),
        after: || {
            let other = second.handle();
            let reads = second.lock(&other, Shared);
            let writes = reads && second.lock(&other, Reserved);
            second.locks.leave(&*second.file, &second.table, &other).unwrap();
            tries.lock().push((reads, writes));
        },
    };
    first.locks.change().begin(&watched, Reserved).unwrap();
    assert_eq!(*tries.lock(), [(false, false), (true, false)]);
    let other = second.handle();
    assert!(second.lock(&other, Shared) && second.is_reserved());
    assert!(!first.lock(&handle, Exclusive) && handle.level() == Pending);
    second.unlock(&other, None);
    assert!(first.lock(&handle, Exclusive));
    first.unlock(&handle, None);
    assert!(second.lock(&other, Shared) && second.lock(&other, Reserved));
}

#[test]
fn a_reader_that_told_the_table_only_is_in_nobodys_way_for_long() {
    let [first, second] = two();
    assert!(owner_lock::try_acquire(&*first.file, true).unwrap());
    let [reader, other] = [first.handle(), second.handle()];
    assert!(first.table.lock(&reader, Shared));
    first.locks.change().begin(&*first.file, Shared).unwrap();
    first.table.unlock(&reader, None);
    assert!(second.lock(&other, Shared) && second.lock(&other, Reserved) && !second.lock(&other, Exclusive));
    first.locks.trim(&*first.file, &first.table).unwrap();
    assert!(second.lock(&other, Exclusive));
    first.locks.trim(&*first.file, &first.table).unwrap();
    assert!(!first.lock(&reader, Shared));
}

#[test]
fn a_lock_that_fails_leaves_the_handle_as_it_was() {
    struct Failing(Arc<dyn File>, Mutex<u32>);
    impl File for Failing {
        pass_on!(0: read_at, write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path);

        fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> file::Result<bool> {
            let mut left = self.1.lock();
            *left = left.wrapping_sub(1);
            if *left == 0 {
                return Err(file::DeviceError::new(
                    file::Operation::Lock,
                    self.path(),
                    std::io::Error::from_raw_os_error(libc::ENOLCK),
                ));
            }
            drop(left);
            self.0.lock_range(offset, len, lock)
        }
    }
    for (has, wanted, calls) in [(None, Shared, 3), (Shared, Reserved, 1), (Reserved, Exclusive, 2)] {
        for failing in 1..=calls {
            let [mut first, second] = two();
            let handle = first.handle();
            first.bring(&handle, has, &second);
            let file = first.file.clone();
            first.file = Arc::new(Failing(file.clone(), Mutex::new(failing)));
            let case = format!("call {failing} of {wanted:?}");
            first.locks.lock(&*first.file, &first.table, &handle, wanted).unwrap_err();
            assert_eq!(handle.level(), has, "{case}");
            first.file = file;
            first.unlock(&handle, None);
            let other = second.handle();
            assert!(second.lock(&other, Shared) && second.lock(&other, Exclusive), "{case}");
        }
    }
}

/// The statement by which stock SQLite asks for a level.
fn statement(wanted: Level) -> &'static str {
    match wanted {
        Shared => "SELECT count(*) FROM t",
        Reserved => "BEGIN IMMEDIATE",
        _ => "BEGIN EXCLUSIVE",
    }
}

#[test]
fn stock_sqlite_and_this_process_exclude_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let mut stock = StockProcess::start(&path);
    stock.ask("a", "CREATE TABLE t(x)");
    let ours = Process::of(&OsMedium, &path);
    let nobody = Process::of(&SimMedium::new(), &path);
    // (what stock holds, and by which statements, and whether we get SHARED, RESERVED, EXCLUSIVE)
    let begin = [("a", "BEGIN"), ("a", "SELECT count(*) FROM t")];
    let write = [("b", "BEGIN IMMEDIATE"), ("b", "INSERT INTO t VALUES (1)")];
    for (held, statements, granted) in [
        (None, vec![], [true; 3]),
        (Shared, begin.to_vec(), [true, true, false]),
        (Reserved, write.to_vec(), [true, false, false]),
        (Pending, [&begin[..], &write, &[("b", "COMMIT")]].concat(), [false; 3]),
        (Exclusive, vec![("b", "BEGIN EXCLUSIVE")], [false; 3]),
    ] {
        for (connection, sql) in &statements {
            assert_eq!(stock.may(connection, sql), *sql != "COMMIT", "{held:?}: {sql}");
        }
        let handle = ours.handle();
        assert_eq!(ours.is_reserved(), [Reserved, Exclusive, Pending].contains(&held), "{held:?}");
        let got = [Shared, Reserved, Exclusive]
            .map(|wanted| (wanted == Shared || handle.level() >= Shared) && ours.lock(&handle, wanted));
        assert_eq!(got, granted, "{held:?}");
        ours.unlock(&handle, None);
        for connection in ["a", "b"] {
            stock.ask(connection, "ROLLBACK");
        }
    }
    // What we hold, and whether stock gets SHARED, RESERVED, EXCLUSIVE.
    for (held, granted) in [
        (None, [true; 3]),
        (Shared, [true, true, false]),
        (Reserved, [true, false, false]),
        (Exclusive, [false; 3]),
    ] {
        let handle = ours.handle();
        ours.bring(&handle, held, &nobody);
        for (wanted, granted) in [Shared, Reserved, Exclusive].into_iter().zip(granted) {
            assert_eq!(stock.may("a", statement(wanted)), granted, "{held:?} {wanted:?}");
            stock.ask("a", "ROLLBACK");
        }
        ours.unlock(&handle, None);
    }
    // PENDING, which a reader outside keeps us at.
    let handle = ours.handle();
    assert!(begin.iter().all(|(connection, sql)| stock.may(connection, sql)));
    assert!(ours.lock(&handle, Shared) && ours.lock(&handle, Reserved) && !ours.lock(&handle, Exclusive));
    assert!(handle.level() == Pending && !StockProcess::start(&path).may("a", statement(Shared)));
    assert!(stock.may("a", "ROLLBACK") && ours.lock(&handle, Exclusive));
    ours.unlock(&handle, Shared);
    assert!(stock.may("b", "BEGIN IMMEDIATE"));
}

/// Raises a lock from what it is.
fn step(level: &mut Level, file: &dyn File, to: Level) {
    let before = *level;
    raise(level, file, before, to).unwrap();
}

/// The lock of a transaction goes from one open file to another, beside stock SQLite's readers and writers: nobody gets what it keeps from them.
#[test]
fn a_lock_is_taken_from_another_open_file() {
    for (level, owners) in [
        (Shared, Shared),
        (Shared, Reserved),
        (Shared, Pending),
        (Reserved, Reserved),
        (Reserved, Pending),
        (Reserved, Exclusive),
        (Exclusive, Exclusive),
    ] {
        let medium = SimMedium::new();
        let [former, own, stranger] =
            [(); 3].map(|()| medium.open(Path::new("/a.db"), FileKind::Database, OpenMode::Create).unwrap());
        let mut had = None;
        for to in [Shared, Reserved, Pending, Exclusive].into_iter().filter(|to| *to <= owners) {
            step(&mut had, &*former, to);
        }
        let from = |offset, len, lock| {
            let is_done = former.lock_range(offset, len, lock).unwrap();
            // Whatever the step, nobody gets EXCLUSIVE.
            let mut others = None;
            step(&mut others, &*stranger, Shared);
            assert!(others == None || level < Exclusive, "{level:?}: a reader beside one that is alone");
            step(&mut others, &*stranger, Exclusive);
            assert!(others < Exclusive, "{level:?} of {owners:?}");
            lower(&mut others, &*stranger, None).unwrap();
            is_done
        };
        assert!(take_from(&*own, from, level, || true).unwrap(), "{level:?} of {owners:?}");
        drop(former);
        let mut others = None;
        step(&mut others, &*stranger, Shared);
        assert_eq!(others == Shared, level < Exclusive, "{level:?} of {owners:?}");
        assert_eq!(is_reserved_by_others(&*stranger).unwrap(), level >= Reserved, "{level:?} of {owners:?}");
        step(&mut others, &*stranger, Exclusive);
        assert!(others < Exclusive, "{level:?} of {owners:?}");
    }
}

#[test]
fn a_lock_that_was_given_back_is_not_taken() {
    let medium = SimMedium::new();
    let [former, own, stranger] =
        [(); 3].map(|()| medium.open(Path::new("/a.db"), FileKind::Database, OpenMode::Create).unwrap());
    let from = |offset, len, lock| former.lock_range(offset, len, lock).unwrap();
    assert!(!take_from(&*own, from, Shared, || false).unwrap(), "others have given it back");
    lower(&mut Level::Exclusive, &*own, None).unwrap();
    let mut others = None;
    for to in [Shared, Reserved, Exclusive] {
        step(&mut others, &*stranger, to);
    }
    for level in [Shared, Reserved, Exclusive] {
        assert!(!take_from(&*own, from, level, || true).unwrap(), "{level:?}: somebody writes");
    }
}
