//! The last visitor leaves, and the database is owned again: while the application makes no calls, since the watcher hears of the closing, and
//! while it makes no pause between its transactions.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_storage::file::{File, FileKind, LeaseAnswer, Medium, OnBreak, OpenMode, Result};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use litefoot_testkit::at_end::AtEnd;
use litefoot_testkit::process::own_process;
use litefoot_testkit::sqlite::{number, stock};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::RawFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

const DATABASE: &str = "LITEFOOT_TEST_DATABASE";
/// A visitor says this when it has read.
const HERE: &str = "here";
/// The pause of a watcher that hears of closings, and was told of none lately.
const QUIET_PAUSE: Duration = Duration::from_secs(5);
/// A machine may be as slow as this.
const DEADLINE: Duration = Duration::from_secs(100);
/// A closing is told in less than [`QUIET_PAUSE`] in one of so many attempts.
const ATTEMPTS: usize = 5;
/// A transaction waits for so long until another one has begun.
const OVERLAPS: Duration = Duration::from_millis(10);

/// A request for the lease on the database: the one way to find out if all others have left.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    answer: LeaseAnswer,
}

/// The looks of all threads but one.
struct Looks {
    except: ThreadId,
    seen: Mutex<Vec<Look>>,
    changed: Condvar,
}

impl Looks {
    fn note(&self, answer: LeaseAnswer) {
        if std::thread::current().id() != self.except {
            self.seen.lock().unwrap().push(Look { at: Instant::now(), answer });
            self.changed.notify_all();
        }
    }

    /// The looks, once they are as they should be.
    fn when(&self, what: &str, is_so: impl Fn(&[Look]) -> bool) -> Vec<Look> {
        let seen = self.seen.lock().unwrap();
        let (seen, waited) = self.changed.wait_timeout_while(seen, DEADLINE, |seen| !is_so(seen)).unwrap();
        assert!(!waited.timed_out(), "{what}: {} looks", seen.len());
        seen.clone()
    }
}

/// The files of this machine; looks are noted.
struct Watched {
    system: OsMedium,
    looks: Arc<Looks>,
}

struct WatchedFile {
    file: Arc<dyn File>,
    looks: Arc<Looks>,
}

impl Medium for Watched {
    pass_on!(system: delete, rename, rename_new, info, identity, unlinked_identity, glance, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.system.open(path, kind, mode)?;
        Ok(Arc::new(WatchedFile { file, looks: self.looks.clone() }))
    }
}

impl File for WatchedFile {
    pass_on!(file: read_at, read_vectored_at, write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len);
    pass_on!(file: allocate, id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, release_lease);

    fn raw_descriptor(&self) -> Option<RawFd> {
        self.file.raw_descriptor()
    }

    fn take_lease(&self, on_break: OnBreak) -> LeaseAnswer {
        let answer = self.file.take_lease(on_break);
        self.looks.note(answer);
        answer
    }
}

/// Another process that has read the database with SQLite, and keeps it open.
struct Visitor {
    process: Child,
    _output: BufReader<ChildStdout>,
}

impl Visitor {
    fn come(path: &Path) -> Visitor {
        let mut visitor = own_process("visitor");
        visitor.arg("--nocapture").env(DATABASE, path);
        let mut process = visitor.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with(&format!("{HERE}\n")) {
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the visitor found: {line}");
        }
        Visitor { process, _output: output }
    }

    fn leave(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
#[ignore = "is a process of the test below"]
fn visitor() {
    let Ok(path) = std::env::var(DATABASE) else { return };
    let db = stock(Path::new(&path));
    assert!(number(&db, "SELECT count(*) FROM t") > 0);
    println!("{HERE}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A look that comes sooner than the watcher's pause is over was not made by its timer, on however slow a machine.
#[test]
fn the_watcher_acts_on_the_closing_of_the_last_visitor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let except = std::thread::current().id();
    let looks = Arc::new(Looks { except, seen: Mutex::default(), changed: Condvar::new() });
    let medium = Watched { system: OsMedium, looks: looks.clone() };
    let vfs = Vfs::builder("last-visitor").medium(Arc::new(medium)).register().unwrap();
    let db = vfs.open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES(0)").unwrap();
    for attempt in 1..=ATTEMPTS {
        assert!(vfs.databases()[0].is_owned(), "{attempt}");
        looks.seen.lock().unwrap().clear();
        let [first, last] = [Visitor::come(&path), Visitor::come(&path)];
        // From here on, the application makes no calls.
        first.leave();
        // It looked, was told of nothing for a moment, and sleeps now.
        let is_quiet = |looks: &[Look]| matches!(looks, [.., one, last] if last.at - one.at >= QUIET_PAUSE);
        let before = looks.when("no pause", is_quiet);
        last.leave();
        let after =
            looks.when("not owned", |looks| looks.iter().any(|look| look.answer == LeaseAnswer::Granted));
        let pause = after[before.len()].at - before[before.len() - 1].at;
        db.execute("INSERT INTO t VALUES(1)", []).unwrap();
        if pause < QUIET_PAUSE {
            assert!(vfs.databases()[0].is_owned());
            return;
        }
    }
    panic!("only its timer has made the watcher look");
}

/// Transaction after transaction. Each ends when one of the other connection's has begun, or after a while, so that one of the two
/// is inside at any moment, unless something holds both back.
fn transactions(db: &Connection, begun: [&AtomicU64; 2], is_over: &AtomicBool) {
    let [mine, others] = begun;
    while !is_over.load(Ordering::Acquire) {
        db.execute_batch("BEGIN").unwrap();
        let seen = others.load(Ordering::SeqCst);
        assert!(number(db, "SELECT count(*) FROM t") > 0);
        mine.fetch_add(1, Ordering::SeqCst);
        let end = Instant::now() + OVERLAPS;
        while others.load(Ordering::SeqCst) == seen && Instant::now() < end {
            std::thread::yield_now();
        }
        db.execute_batch("COMMIT").unwrap();
    }
}

#[test]
fn a_process_that_is_always_in_a_transaction_owns_its_database_again() {
    let vfs = Vfs::builder("returning").register().unwrap();
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let both = [(); 2].map(|()| vfs.open(&path).unwrap());
        let set_up = format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v); INSERT INTO t VALUES(0)");
        both[0].execute_batch(&set_up).unwrap();
        let is = |owned: bool| {
            let end = Instant::now() + DEADLINE;
            while vfs.databases()[0].is_owned() != owned && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            vfs.databases()[0].is_owned() == owned
        };
        assert!(is(true), "{mode}");
        let (begun, is_over) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
        let (was_shared, was_owned) = std::thread::scope(|scope| {
            for (number, db) in both.into_iter().enumerate() {
                let (begun, is_over) = ([&begun[number], &begun[1 - number]], &is_over);
                scope.spawn(move || transactions(&db, begun, is_over));
            }
            let _ends = AtEnd(|| is_over.store(true, Ordering::Release));
            let visitor = Visitor::come(&path);
            let was_shared = is(false);
            visitor.leave();
            (was_shared, is(true))
        });
        assert!(was_shared, "{mode}: the visitor was not let in");
        assert!(was_owned, "{mode}");
    }
}
