//! Transactions whose owner is killed: they go on with the next one, and nobody has written in between.

use crate::kit::{Process, create, open, signal, with_options};
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const MODES: [&str; 3] = ["delete", "truncate", "persist"];
pub(crate) const ALL_MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
pub(crate) const ROWS: i64 = 2000;
/// A process that does not run for so long behind the death of its owner is late.
const LATE: Duration = Duration::from_millis(500);

/// A database with an owner that is another process, and this process as a member.
pub(crate) struct Orphan {
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Process>,
    vfs: litefoot::Vfs,
    pub(crate) member: Connection,
    _directory: tempfile::TempDir,
}

/// A database of some hundred pages that nobody has open.
pub(crate) fn database(mode: &str) -> (PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, mode);
    db.execute_batch(&format!(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS}) \
         INSERT INTO t SELECT 1, i, zeroblob(500) FROM c"
    ))
    .unwrap();
    (path, directory)
}

impl Orphan {
    pub(crate) fn new(mode: &str) -> Orphan {
        let (path, directory) = database(mode);
        let owner = Process::start("obey", &path, 1);
        let (vfs, member) = open(&path);
        member.execute_batch("PRAGMA cache_size=10").unwrap();
        assert!(count(&member) == ROWS && owner.has_open(&path));
        Orphan { path, owner: Some(owner), vfs, member, _directory: directory }
    }

    pub(crate) fn run(&self, sql: &str) {
        self.member.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) fn kill_owner(&mut self) {
        self.owner.take().unwrap().kill();
    }
}

pub(crate) fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

pub(crate) fn check(path: &Path, rows: i64) {
    let stock = stock(path);
    let integrity: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((integrity.as_str(), count(&stock)), ("ok", rows));
}

/// Stock SQLite, which does not wait.
pub(crate) fn stock(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db
}

/// Kills the owner before each step of a transaction, which must succeed, beside what `beside` answers.
pub(crate) fn die_at_any_step<T>(beside: impl Fn(&Orphan) -> T, ends: impl Fn(Orphan, T, &str)) {
    let insert = |n: i64| format!("INSERT INTO t VALUES(2, {n}, randomblob(700))");
    let steps = [
        "BEGIN".to_owned(),
        "SELECT count(*) FROM t".to_owned(),
        insert(1),
        "UPDATE t SET data = zeroblob(501) WHERE n % 50 = 7".to_owned(),
        "SAVEPOINT a".to_owned(),
        insert(2),
        "ROLLBACK TO a".to_owned(),
        insert(3),
        "COMMIT".to_owned(),
        insert(4),
    ];
    for mode in ALL_MODES {
        for (first, begin) in ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"].into_iter().enumerate() {
            // Each step in one of the modes.
            for dies_before in (1..steps.len()).filter(|step| step % 3 == first) {
                let steps = std::iter::once(begin).chain(steps.iter().skip(1).map(String::as_str));
                let (orphan, there) = die_before(dies_before, Orphan::new(mode), steps, &beside);
                ends(orphan, there, &format!("{mode}, {begin}, {dies_before}"));
            }
        }
    }
}

/// Kills the owner before a step; each of them must succeed.
fn die_before<'a, T>(
    dies_before: usize,
    mut orphan: Orphan,
    steps: impl Iterator<Item = &'a str>,
    beside: impl Fn(&Orphan) -> T,
) -> (Orphan, T) {
    let there = beside(&orphan);
    for (number, step) in steps.enumerate() {
        if number == dies_before {
            orphan.kill_owner();
        }
        let done = orphan.member.execute_batch(step);
        assert!(done.is_ok(), "the owner dies before step {dies_before}: {step}: {done:?}");
    }
    (orphan, there)
}

#[test]
fn a_transaction_outlives_its_owner_at_any_step() {
    die_at_any_step(|_| (), |orphan, (), what| ends_with(orphan, ROWS + 3, what));
}

/// The rows that are there, for the member and, once nobody has the database open, for stock SQLite.
fn ends_with(orphan: Orphan, rows: i64, what: &str) {
    assert_eq!(count(&orphan.member), rows, "{what}");
    let Orphan { path, member, vfs, _directory, .. } = orphan;
    drop((member, vfs));
    check(&path, rows);
}

/// Megabytes of pages, which SQLite does not keep in its cache, and which go to the owner in several messages.
#[test]
fn a_large_transaction_outlives_its_owner() {
    for (mode, dies_before) in [
        ("delete", 2),
        ("truncate", 3),
        ("persist", 4),
        ("delete", 6),
        ("wal", 2),
        ("wal", 3),
        ("wal", 4),
        ("wal", 6),
    ] {
        let (orphan, ()) = die_in_large(mode, dies_before, |_| ());
        ends_with(orphan, LARGE_ROWS, &format!("{mode}, {dies_before}"));
    }
}

/// Rows behind the steps of a large transaction.
pub(crate) const LARGE_ROWS: i64 = ROWS + 3000 - 4 - 6;

/// Kills the owner before a step of a transaction of megabytes.
pub(crate) fn die_in_large<T>(mode: &str, dies_before: usize, beside: impl Fn(&Orphan) -> T) -> (Orphan, T) {
    let large = |n: i64| {
        format!(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) \
             INSERT INTO t SELECT 2, {n} + i, randomblob(900) FROM c"
        )
    };
    let steps = [
        "BEGIN",
        &large(0),
        "UPDATE t SET data = zeroblob(501) WHERE writer = 1",
        "SAVEPOINT a",
        &large(3000),
        "ROLLBACK TO a",
        "COMMIT",
        "DELETE FROM t WHERE n % 500 = 1",
    ];
    die_before(dies_before, Orphan::new(mode), steps.into_iter(), beside)
}

#[test]
fn a_reader_goes_on_in_the_middle_of_a_statement() {
    for mode in ALL_MODES {
        let mut orphan = Orphan::new(mode);
        let owner = orphan.owner.take();
        let mut statement = orphan.member.prepare("SELECT n, length(data) FROM t ORDER BY n").unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut next = || rows.next().unwrap().map(|row| (row.get(0).unwrap(), row.get(1).unwrap()));
        for n in 1..=300 {
            assert_eq!(next(), Some((n, 500)), "{mode}");
        }
        owner.unwrap().kill();
        for n in 301..=ROWS {
            assert_eq!(next(), Some((n, 500)), "{mode}");
        }
        assert_eq!(next(), None);
    }
}

#[test]
fn nobody_has_the_database_while_a_transaction_waits_for_its_application() {
    for begin in ["BEGIN IMMEDIATE", "BEGIN"] {
        let mut orphan = Orphan::new("delete");
        orphan.run(&format!("{begin}; INSERT INTO t VALUES(2, 1, 'a')"));
        orphan.kill_owner();
        std::thread::sleep(Duration::from_millis(300));
        let stranger = stock(&orphan.path);
        let written = stranger.execute_batch("INSERT INTO t VALUES(3, 1, 'a')");
        assert!(written.is_err(), "{begin}: a transaction that writes is under way");
        orphan.run("INSERT INTO t VALUES(2, 2, 'a'); COMMIT");
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        stranger.execute_batch("INSERT INTO t VALUES(3, 1, 'a')").unwrap();
        assert_eq!(count(&orphan.member), ROWS + 3);
    }
}

/// A connection that goes back to the normal locking mode has its lock still. The owner has noted one commit with that, and not the next.
#[test]
fn a_note_of_one_commit_does_not_count_for_the_next() {
    for round in 0..8 {
        let mut orphan = Orphan::new("delete");
        orphan.run(
            "PRAGMA locking_mode=EXCLUSIVE; INSERT INTO t VALUES(2, 1, 'a'); PRAGMA locking_mode=NORMAL",
        );
        orphan.kill_owner();
        orphan.run("INSERT INTO t VALUES(2, 2, 'b')");
        ends_with(orphan, ROWS + 2, &format!("round {round}"));
    }
}

#[test]
fn a_transaction_outlives_an_owner_that_exits() {
    for begin in ["BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 1, 'a')", "BEGIN; SELECT count(*) FROM t"] {
        let mut orphan = Orphan::new("delete");
        orphan.run(begin);
        orphan.owner.take().unwrap().end();
        orphan.run("INSERT INTO t VALUES(2, 2, 'a'); DELETE FROM t WHERE n = 7; COMMIT");
        assert_eq!(count(&orphan.member), ROWS + i64::from(begin.contains("INSERT")));
    }
}

#[test]
fn transactions_of_several_processes_go_on() {
    for mode in MODES {
        let mut orphan = Orphan::new(mode);
        let mut others: Vec<Process> =
            (2..=4).map(|writer| Process::start("obey", &orphan.path, writer)).collect();
        for other in &mut others {
            other.run("BEGIN; SELECT count(*) FROM t");
        }
        orphan.run("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 1, 'a')");
        orphan.kill_owner();
        let committed =
            orphan.member.busy_timeout(Duration::ZERO).and_then(|()| orphan.member.execute_batch("COMMIT"));
        assert!(
            committed.is_err(),
            "{mode}: the others, which have said nothing since, have the time to come"
        );
        for other in &mut others {
            other.run("SELECT sum(length(data)) FROM t");
        }
        for other in &mut others {
            other.run("COMMIT");
        }
        orphan.run("COMMIT");
        for other in others {
            other.end();
        }
        assert_eq!(count(&orphan.member), ROWS + 1);
    }
}

/// Each of two processes may be the next owner. It is killed as well, before the other one's application has gone on.
#[test]
fn a_transaction_that_waits_for_its_application_outlives_two_owners() {
    for mode in ALL_MODES {
        for round in 0..3 {
            let what = format!("{mode}, round {round}");
            let mut orphan = Orphan::new(mode);
            let mut members: Vec<Process> =
                (2..=3).map(|writer| Process::start("obey", &orphan.path, writer)).collect();
            members[0].run("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 1, 'a')");
            members[1].run("BEGIN; SELECT count(*) FROM t");
            orphan.kill_owner();
            std::thread::sleep(Duration::from_millis(100));
            let heir = members.iter().position(|member| member.has_open(&orphan.path)).unwrap();
            members.remove(heir).kill();
            std::thread::sleep(Duration::from_millis(700));
            let mut last = members.pop().unwrap();
            last.tell("SELECT sum(length(data)) FROM t");
            assert_eq!(last.await_answer(), "done", "{what}, behind the {heir}");
            last.run("COMMIT");
            last.end();
            ends_with(orphan, ROWS + i64::from(heir == 1), &what);
        }
    }
}

#[test]
fn processes_without_a_transaction_leave_the_file_to_others() {
    for mode in ALL_MODES {
        let mut orphan = Orphan::new(mode);
        let mut idle: Vec<Process> =
            (2..=5).map(|writer| Process::start("obey", &orphan.path, writer)).collect();
        for process in &mut idle {
            process.run("SELECT count(*) FROM t");
        }
        orphan.run("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 1, 'a')");
        orphan.kill_owner();
        std::thread::sleep(Duration::from_millis(20));
        orphan.run("COMMIT");
        idle.into_iter().for_each(Process::end);
        assert_eq!(count(&orphan.member), ROWS + 1, "{mode}");
    }
}

/// The next owner has no connection any more once its own transaction has ended, and stays the owner for those that may come.
#[test]
fn a_transaction_goes_on_behind_the_end_of_the_next_owners_own() {
    for mode in ALL_MODES {
        let is_shown = (0..5).any(|_| {
            let mut orphan = Orphan::new(mode);
            let mut late = Process::start("obey", &orphan.path, 2);
            // There is something in the logs.
            orphan.owner.as_mut().unwrap().run("INSERT INTO t VALUES(3, 1, 'a')");
            late.run("BEGIN; SELECT count(*) FROM t");
            orphan.run("BEGIN; SELECT count(*) FROM t");
            signal(&late, "-STOP");
            orphan.kill_owner();
            let begun = Instant::now();
            orphan.run("SELECT sum(length(data)) FROM t");
            orphan.run("COMMIT");
            std::thread::sleep(Duration::from_millis(30));
            signal(&late, "-CONT");
            late.tell("SELECT sum(length(data)) FROM t");
            let answer = late.await_answer();
            let is_in_time = begun.elapsed() < LATE;
            assert!(answer == "done" || !is_in_time, "{mode}: {answer}");
            late.tell("COMMIT");
            late.await_answer();
            late.end();
            assert_eq!(count(&orphan.member), ROWS + 1);
            is_in_time
        });
        assert!(is_shown, "{mode}: the machine is too busy");
    }
}

/// While it stays for others it is no stranger to connections of its own process that have other options.
#[test]
fn the_next_owner_is_found_by_connections_with_other_options() {
    for mode in ALL_MODES {
        let mut orphan = Orphan::new(mode);
        orphan.run("BEGIN; SELECT count(*) FROM t");
        orphan.kill_owner();
        orphan.run("SELECT sum(length(data)) FROM t");
        orphan.run("COMMIT");
        let uri = format!("file:{}?max_wal_size=1M", orphan.path.display());
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let other = Connection::open_with_flags_and_vfs(uri, flags, orphan.vfs.name()).unwrap();
        other.busy_timeout(Duration::from_secs(20)).unwrap();
        other.execute_batch("INSERT INTO t VALUES(2, 1, 'a')").unwrap();
        assert_eq!((count(&other), count(&orphan.member)), (ROWS + 1, ROWS + 1), "{mode}");
        assert_eq!(metric_or_zero(&other, "sharing_changes"), 0, "{mode}");
    }
}

#[test]
fn a_next_owner_that_ends_at_once_leaves_no_file_behind() {
    for mode in ALL_MODES {
        let (path, directory) = database(mode);
        let mut owner = Process::start("obey", &path, 1);
        // It keeps void logs between its connections.
        let mut heir = Process::start("obey anew", &path, 2);
        owner.run("INSERT INTO t VALUES(3, 1, 'a')");
        (0..4).for_each(|_| heir.run("SELECT count(*) FROM t"));
        owner.kill();
        (0..2).for_each(|_| heir.run("SELECT sum(length(data)) FROM t"));
        heir.end();
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["app.db"], "{mode}");
        check(&path, ROWS + 1);
    }
}

#[test]
fn a_transaction_that_comes_too_late_fails() {
    let reads = "BEGIN; SELECT count(*) FROM t";
    let writes = "BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 3, 'a')";
    for (mode, begin) in MODES.map(|mode| (mode, reads)).into_iter().chain([("wal", writes)]) {
        let mut orphan = Orphan::new(mode);
        let mut late = Process::start("obey", &orphan.path, 2);
        late.run(begin);
        signal(&late, "-STOP");
        orphan.kill_owner();
        orphan.run("INSERT INTO t VALUES(2, 1, 'a')");
        signal(&late, "-CONT");
        late.tell(if begin == reads { "SELECT sum(length(data)) FROM t" } else { "COMMIT" });
        let answer = late.await_answer();
        assert!(answer.starts_with("failed: "), "{mode}: {answer}: somebody has written since");
        late.tell("ROLLBACK");
        late.await_answer();
        late.run("INSERT INTO t VALUES(2, 2, 'a')");
        late.end();
        assert_eq!(count(&orphan.member), ROWS + 2);
    }
}

#[test]
fn each_commit_is_made_once_whenever_its_owner_dies() {
    count_while_owners_die("count", 24, "FULL");
}

#[test]
fn each_large_commit_is_made_once_whenever_its_owner_dies() {
    count_while_owners_die("count largely", 12, "FULL");
}

#[test]
fn each_commit_that_is_not_synced_is_made_once_whenever_its_owner_dies() {
    count_while_owners_die("count", 24, "NORMAL");
    count_while_owners_die("count", 8, "OFF");
}

fn count_while_owners_die(work: &str, rounds: usize, synchronous: &str) {
    count_beside(work, rounds, synchronous, |_| ());
}

/// The same beside what others do with the database until the counting has ended.
pub(crate) fn count_beside<T>(work: &str, rounds: usize, synchronous: &str, others: impl Fn(&Path) -> T) {
    let begin = |path: &Path, writer| {
        let mut command = with_options("sharing=group");
        command.env("GROUP_FIRST", format!("PRAGMA synchronous={synchronous}"));
        Process::start_by(command, work, path, writer)
    };
    let mut random = Random::new(7);
    for round in 0..rounds {
        let (path, _directory) = database(ALL_MODES[round % 4]);
        let owner = Process::start("obey", &path, 1);
        let members: Vec<Process> = (2..=3).map(|writer| begin(&path, writer)).collect();
        let there = others(&path);
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        owner.kill();
        std::thread::sleep(Duration::from_millis(40));
        let counted: i64 = members
            .into_iter()
            .map(|member| {
                let said = member.end_with_output();
                let number = said.split("counted ").nth(1).unwrap().split_whitespace().next().unwrap();
                number.parse::<i64>().unwrap()
            })
            .sum();
        drop(there);
        let (_vfs, db) = open(&path);
        let sum: i64 = db.query_row("SELECT n FROM sums", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, counted, "round {round}, synchronous={synchronous}");
    }
}
