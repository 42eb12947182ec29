//! Commits that wait in the commit log where their owner is killed: while a process of the group lives, strangers find them, and nothing is lost.

use crate::heirs::{count, stock};
use crate::held_thread::HeldThread;
use crate::kit::{Process, create_with, open_with, signal, with_options};
use crate::{EXIT, FORK, LIFE_OF_CHILD};
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const OPTIONS: &str = "sharing=group&commit_log=deltas";
const MODES: [&str; 2] = ["delete", "wal"];
/// What the rows have, to be found in files.
const MARK: &str = "a row that is waiting";
/// Calls by which a thread takes the database over: at least, and at most.
const CALLS: std::ops::Range<usize> = 30..400;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the system has a stranger wait for a lease that nobody gives back (`/proc/sys/fs/lease-break-time`), or less.
const LEASE_BREAKS: Duration = Duration::from_secs(40);
/// Less than a database rests before what waits is brought home (`open/idle`).
const RESTS: Duration = Duration::from_millis(900);

/// An owner in another process, and a member in this one.
struct Waiting {
    path: PathBuf,
    owner: Option<Process>,
    member: Connection,
    rows: i64,
    others: Vec<Process>,
    vfs: litefoot::Vfs,
    _directory: tempfile::TempDir,
}

impl Waiting {
    /// A member that has not begun a transaction.
    fn new(mode: &str) -> Waiting {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create_with(&directory, mode, OPTIONS);
        drop((db, vfs));
        let owner = started(&path, 1);
        let (vfs, member) = open_with(&path, OPTIONS);
        Waiting { path, owner: Some(owner), member, rows: 0, others: Vec::new(), vfs, _directory: directory }
    }

    /// The member has ended two transactions: it has the owner's open file from now on.
    fn borrow(&self) {
        assert_eq!([count(&self.member), count(&self.member)], [self.rows; 2]);
        assert!(self.owner.as_ref().unwrap().has_open(&self.path));
    }

    fn commit(&mut self) {
        self.rows += 1;
        let sql = format!("INSERT INTO t VALUES(1, {}, '{MARK} {0}')", self.rows);
        self.owner.as_mut().unwrap().run(&sql);
    }

    /// Commits until one waits: the first ones are pages.
    fn commit_until_one_waits(&mut self, what: &str) {
        let begun = Instant::now();
        while self.rows == 0 || !self.waits() {
            assert!(begun.elapsed() < PATIENCE, "{what}: {} commits", self.rows);
            std::thread::sleep(Duration::from_millis(5));
            self.commit();
        }
    }

    /// True if the last row is in the commit log, and not in the redo log. To read the database file would be a visit.
    fn waits(&self) -> bool {
        let row = format!("{MARK} {}", self.rows);
        let has_it = |suffix: &str| {
            let content = std::fs::read(format!("{}{suffix}", self.path.display())).unwrap_or_default();
            content.windows(row.len()).any(|part| part == row.as_bytes())
        };
        has_it("-commits") && !has_it("-wal")
    }

    fn kill_owner(&mut self) {
        self.owner.take().unwrap().kill();
    }

    /// A stranger comes, finds all rows and writes one, and so does the member.
    fn goes_on(self, what: &str) {
        let stranger = stranger(&self.path);
        self.goes_on_with(stranger, what);
    }

    /// The same with a stranger that is there.
    fn goes_on_with(self, stranger: Connection, what: &str) {
        let goes_on = |db: &Connection, writer: i64| {
            assert_eq!(count(db), self.rows + writer - 2, "{what}");
            db.execute("INSERT INTO t VALUES(?1, 1, 'behind the death')", [writer]).unwrap();
            let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(integrity, "ok", "{what}");
        };
        goes_on(&stranger, 2);
        drop(stranger);
        goes_on(&self.member, 3);
    }
}

/// Another process of the group, which has read.
fn started(path: &Path, writer: u32) -> Process {
    Process::start_by(with_options(OPTIONS), "obey", path, writer)
}

/// Stock SQLite, which waits for locks.
fn stranger(path: &Path) -> Connection {
    let stranger = stock(path);
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    stranger
}

/// A stranger that waits in its `open`, once its owner is stopped.
fn coming(path: &Path) -> JoinHandle<Connection> {
    let path = path.to_owned();
    let coming = std::thread::spawn(move || stranger(&path));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!coming.is_finished());
    coming
}

#[test]
fn strangers_find_what_waits_though_no_member_begins_a_transaction() {
    for mode in MODES {
        for waits_in_open in [false, true] {
            let mut group = Waiting::new(mode);
            group.borrow();
            group.commit_until_one_waits(mode);
            (0..5).for_each(|_| group.commit());
            let early = waits_in_open.then(|| {
                signal(group.owner.as_ref().unwrap(), "-STOP");
                coming(&group.path)
            });
            group.kill_owner();
            let stranger = early.map_or_else(|| stranger(&group.path), |early| early.join().unwrap());
            group.goes_on_with(stranger, &format!("{mode}, waits in its open: {waits_in_open}"));
        }
    }
}

/// The members do not have the owner's open file, so that nobody keeps strangers from the database behind its death.
#[test]
fn strangers_find_what_was_committed_where_no_member_has_read() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        (0..5).for_each(|_| group.commit());
        group.kill_owner();
        group.goes_on(mode);
    }
}

/// The last process ends that has the file: commits are brought home at once, and not once the database rests. The system may not run a process for a while.
#[test]
fn strangers_find_what_was_committed_where_the_member_that_has_read_has_left() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        let is_home_at_once = (0..5).any(|_| {
            let mut reader = started(&group.path, 2);
            reader.run("SELECT count(*) FROM t");
            group.commit_until_one_waits(mode);
            let begun = Instant::now();
            reader.kill();
            while group.waits() {
                assert!(begun.elapsed() < PATIENCE, "{mode}");
                std::thread::sleep(Duration::from_millis(5));
            }
            begun.elapsed() < RESTS
        });
        assert!(is_home_at_once, "{mode}");
        group.commit();
        assert!(!group.waits(), "{mode}: nobody would recover it");
        group.kill_owner();
        group.goes_on(mode);
    }
}

/// A service that is stopped just behind the death of its owner.
#[test]
fn strangers_find_what_waits_where_the_last_process_ends_in_order() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        let mut reader = started(&group.path, 2);
        reader.run("SELECT count(*) FROM t");
        group.commit_until_one_waits(mode);
        // Its thread is not as far yet.
        signal(&reader, "-STOP");
        reader.tell(EXIT);
        group.kill_owner();
        signal(&reader, "-CONT");
        reader.end();
        group.goes_on(mode);
    }
}

/// A process that can only read recovers nothing: it is no heir.
#[test]
fn strangers_find_what_was_committed_where_others_only_read() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        let only_reads = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let path = &group.path;
        let reader = Connection::open_with_flags_and_vfs(path, only_reads, group.vfs.name()).unwrap();
        for _ in 0..20 {
            group.commit();
            assert_eq!(count(&reader), group.rows, "{mode}");
        }
        assert!(!group.waits(), "{mode}");
        group.kill_owner();
        group.goes_on(mode);
    }
}

/// Kills a process before such a call of those by which it takes the database over, where `prepare` has been called with it. The next one waits for that.
fn die_in_takeover(mode: &str, call: usize, prepare: impl FnOnce(&mut Process)) -> (Waiting, bool) {
    let mut group = Waiting::new(mode);
    let [mut heir, next] = [2, 3].map(|n| started(&group.path, n));
    heir.run("SELECT count(*) FROM t");
    group.commit_until_one_waits(mode);
    prepare(&mut heir);
    let thread = heir.named_threads().into_iter().find(|(_, name)| name == "litefoot-lent");
    let thread = HeldThread::hold(thread.unwrap().0);
    signal(&next, "-STOP");
    group.kill_owner();
    let is_held = thread.run_to_call_behind_waiting(call);
    thread.kill_with(heir);
    signal(&next, "-CONT");
    group.others.push(next);
    (group, is_held)
}

/// A child that was forked before keeps nothing of its parent's.
#[test]
fn strangers_find_what_waits_where_an_heir_dies_that_has_a_child() {
    for call in (1..CALLS.end).step_by(5) {
        let (group, is_held) = die_in_takeover("wal", call, |heir| heir.run(FORK));
        let begun = Instant::now();
        group.goes_on("wal");
        assert!(begun.elapsed() < LIFE_OF_CHILD, "before call {call}: its child lives for longer");
        if !is_held {
            break;
        }
    }
}

/// A stopped process has the file, and does nothing: the others let strangers in.
#[test]
fn a_stopped_process_keeps_nobody_from_what_others_recover() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        let [stopped, other] = [2, 3].map(|n| started(&group.path, n));
        group.others.push(other);
        group.commit_until_one_waits(mode);
        signal(&stopped, "-STOP");
        group.kill_owner();
        let begun = Instant::now();
        group.goes_on(mode);
        assert!(begun.elapsed() < LEASE_BREAKS, "{mode}");
    }
}

/// Nobody has told the owner of a transaction since it has the database alone again.
#[test]
fn strangers_find_what_waits_behind_others_that_have_come_and_gone() {
    for mode in MODES {
        let mut group = Waiting::new(mode);
        group.borrow();
        assert_eq!(count(&stranger(&group.path)), 0);
        group.commit_until_one_waits(mode);
        group.kill_owner();
        group.goes_on(mode);
    }
}

/// Whoever opens the database next owns it: the processes that have kept it meanwhile have closed it by then.
#[test]
fn the_next_owner_is_alone_behind_members_that_do_nothing() {
    for mode in MODES {
        // The system may not run a process for longer than it is waited for.
        let is_alone = (0..5).any(|_| {
            let mut group = Waiting::new(mode);
            let mut late = started(&group.path, 2);
            let _idle = [3, 4].map(|n| started(&group.path, n));
            late.run("SELECT count(*) FROM t");
            group.commit_until_one_waits(mode);
            signal(&late, "-STOP");
            group.kill_owner();
            // The others wait for it for half a second, recover the database, and wait once more.
            std::thread::sleep(Duration::from_millis(700));
            let path = group.path.clone();
            let opening = std::thread::spawn(move || {
                let (vfs, next) = open_with(&path, OPTIONS);
                let rows = count(&next);
                (rows, metric_or_zero(&next, "sharing_changes"), next, vfs)
            });
            std::thread::sleep(Duration::from_millis(50));
            signal(&late, "-CONT");
            let (rows, changes, _next, _vfs) = opening.join().unwrap();
            assert_eq!(rows, group.rows, "{mode}");
            changes == 0
        });
        assert!(is_alone, "{mode}");
    }
}

/// One process takes the database over, and is killed before any of the calls by which it does so.
#[test]
fn strangers_find_what_waits_wherever_the_heir_dies() {
    for mode in MODES {
        let mut last = 0;
        for call in (1..CALLS.end).step_by(7) {
            let (group, is_held) = die_in_takeover(mode, call, |_| ());
            group.goes_on(&format!("{mode}, before call {call}"));
            if !is_held {
                last = call;
                break;
            }
        }
        assert!(last > CALLS.start, "{mode}: {last} calls");
    }
}
