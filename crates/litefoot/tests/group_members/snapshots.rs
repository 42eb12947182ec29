//! Snapshots in WAL mode whose owner is killed: their transactions go on to read exactly that.

use crate::kit::{Process, await_owned, create, open, signal};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_sim::Random;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const ROWS: i64 = 2000;
/// Changes each row, so that all have the same number.
pub(crate) const CHANGE: &str = "BEGIN IMMEDIATE; UPDATE sums SET n = n + 1; \
     UPDATE t SET data = printf('%08d', (SELECT n FROM sums)) || substr(data, 9); COMMIT";
/// The number of all rows, where that is one.
pub(crate) const LOOK: &str =
    "SELECT min(substr(data, 1, 8)), max(substr(data, 1, 8)), (SELECT n FROM sums), sum(length(data)) FROM t";
/// Fails unless all rows have the first number.
pub(crate) const IS_STILL: &str = "SELECT iif(min(substr(data, 1, 8)) = '00000000' AND max(substr(data, 1, 8)) = '00000000', 1, \
     abs(-9223372036854775807 - 1)) FROM t";
/// As much of the log goes to the file as readers let, who are waited for a moment.
pub(crate) const CHECKPOINT: &str =
    "PRAGMA busy_timeout=20; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout=20000";

/// A database of some hundred pages in WAL mode that nobody has open.
pub(crate) fn database() -> (PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "wal");
    db.execute_batch(&format!(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS}) \
         INSERT INTO t SELECT 1, i, printf('%08d%.500c', 0, 'x') FROM c"
    ))
    .unwrap();
    (path, directory)
}

/// The number of the snapshot.
pub(crate) fn look(db: &Connection) -> litefoot::rusqlite::Result<i64> {
    let found: (String, String, i64, i64) =
        db.query_row(LOOK, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let (least, most, number, bytes) = found;
    assert!(least == most && least.parse() == Ok(number), "{least} to {most}, {number}");
    assert_eq!(bytes, ROWS * 508);
    Ok(number)
}

/// An owner that is another process, and this process as a member that keeps no page in its cache.
pub(crate) struct Group {
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Process>,
    /// The next owner, where that is another process.
    heir: Option<Process>,
    _vfs: litefoot::Vfs,
    pub(crate) member: Connection,
    _directory: tempfile::TempDir,
}

impl Group {
    pub(crate) fn new() -> Group {
        let (path, directory) = database();
        let owner = Process::start("obey", &path, 1);
        let (vfs, member) = open(&path);
        member.execute_batch("PRAGMA cache_size=10").unwrap();
        assert!(look(&member).unwrap() == 0 && owner.has_open(&path));
        Group { path, owner: Some(owner), heir: None, _vfs: vfs, member, _directory: directory }
    }

    pub(crate) fn owner(&mut self) -> &mut Process {
        self.owner.as_mut().unwrap()
    }

    pub(crate) fn kill_owner(&mut self) {
        self.owner.take().unwrap().kill();
    }

    pub(crate) fn run(&self, sql: &str) {
        self.member.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Ends all connections, and looks by stock SQLite.
    pub(crate) fn check(self, number: i64) {
        let Group { path, owner, heir, _vfs, member, _directory } = self;
        drop((owner, heir, member, _vfs));
        check(&path, number);
    }
}

fn check(path: &Path, number: i64) {
    let stock = Connection::open(path).unwrap();
    let integrity: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((integrity.as_str(), look(&stock).unwrap()), ("ok", number));
}

#[test]
fn a_reader_in_wal_mode_goes_on_in_the_middle_of_a_statement() {
    // Changes before the snapshot; in the file, or in the log.
    for in_log in [false, true] {
        let mut group = Group::new();
        group.owner().run(CHANGE);
        if !in_log {
            group.owner().run(CHECKPOINT);
        }
        let owner = group.owner.take();
        let mut statement =
            group.member.prepare("SELECT n, CAST(substr(data, 1, 8) AS INTEGER) FROM t ORDER BY n").unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut next = || rows.next().unwrap().map(|row| (row.get(0).unwrap(), row.get(1).unwrap()));
        for n in 1..=300 {
            assert_eq!(next(), Some((n, 1)));
        }
        owner.unwrap().kill();
        for n in 301..=ROWS {
            assert_eq!(next(), Some((n, 1)), "in the log: {in_log}");
        }
        assert_eq!(next(), None);
    }
}

#[test]
fn a_snapshot_outlives_its_owner_and_what_others_write_behind_it() {
    for (begins, changes) in [
        // Pages that are in the file only; in the log; in both, where a checkpoint could not go on.
        ("BEGIN", &[][..]),
        ("BEGIN", &[CHANGE]),
        ("BEGIN", &[CHANGE, CHECKPOINT, "UPDATE sums SET n = n"]),
        ("BEGIN; SELECT 1", &[CHANGE, CHANGE]),
    ] {
        let mut group = Group::new();
        let mut other = Process::start("obey", &group.path, 2);
        other.run("SELECT count(*) FROM t");
        changes.iter().for_each(|change| group.owner().run(change));
        group.run(begins);
        let before = look(&group.member).unwrap();
        // A commit, and a checkpoint that does not get as far as the end, beside the snapshot.
        group.owner().run(CHANGE);
        group.owner().run("PRAGMA wal_checkpoint(PASSIVE)");
        group.kill_owner();
        for sql in [CHANGE, "PRAGMA wal_checkpoint(PASSIVE)", "VACUUM", CHANGE, CHECKPOINT] {
            other.run(sql);
            assert_eq!(look(&group.member).unwrap(), before, "{changes:?}, behind {sql}");
        }
        group.run("PRAGMA cache_size=20; COMMIT");
        let newest = before + 3;
        assert_eq!(look(&group.member).unwrap(), newest);
        other.run(CHECKPOINT);
        group.run(CHANGE);
        other.end();
        group.check(newest + 1);
    }
}

/// Its connection makes no call until others have had all the time that they wanted.
#[test]
fn a_snapshot_outlives_its_owner_while_its_application_does_something_else() {
    let mut group = Group::new();
    let mut other = Process::start("obey", &group.path, 2);
    other.run("SELECT count(*) FROM t");
    group.run("BEGIN");
    assert_eq!(look(&group.member).unwrap(), 0);
    group.kill_owner();
    std::thread::sleep(Duration::from_millis(300));
    [CHANGE, CHECKPOINT, CHANGE, CHECKPOINT].iter().for_each(|sql| other.run(sql));
    assert_eq!(look(&group.member).unwrap(), 0);
    group.run("COMMIT");
    assert_eq!(look(&group.member).unwrap(), 2);
    other.end();
    group.check(2);
}

#[test]
fn a_snapshot_outlives_one_owner_after_the_other() {
    let mut group = Group::new();
    let mut others: Vec<Process> =
        (2..=4).map(|writer| Process::start("obey", &group.path, writer)).collect();
    others.iter_mut().for_each(|other| other.run("SELECT count(*) FROM t"));
    group.owner().run(CHANGE);
    group.run("BEGIN");
    assert_eq!(look(&group.member).unwrap(), 1);
    group.kill_owner();
    let mut number = 1;
    while !others.is_empty() {
        assert_eq!(look(&group.member).unwrap(), 1, "{} others", others.len());
        for other in &mut others {
            other.run(CHANGE);
            other.run(CHECKPOINT);
            number += 1;
        }
        // The next owner is among them, or is this process.
        let at = others.iter().position(|other| other.has_open(&group.path)).unwrap_or(0);
        others.swap_remove(at).kill();
    }
    assert_eq!(look(&group.member).unwrap(), 1);
    group.run("COMMIT");
    assert_eq!(look(&group.member).unwrap(), number);
    group.check(number);
}

/// A process whose only transaction is kept by the next owner takes over from that, too.
#[test]
fn a_snapshot_outlives_the_owner_that_keeps_it() {
    let (path, _directory) = database();
    let [owner, mut heir, mut reader] = [1, 2, 3].map(|writer| Process::start("obey", &path, writer));
    heir.run("SELECT count(*) FROM t");
    ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| reader.run(sql));
    signal(&reader, "-STOP");
    owner.kill();
    heir.run(LOOK);
    signal(&reader, "-CONT");
    reader.run(IS_STILL);
    [CHANGE, CHECKPOINT].iter().for_each(|sql| heir.run(sql));
    reader.run(IS_STILL);
    heir.kill();
    reader.run(IS_STILL);
    reader.run("COMMIT");
    reader.run(CHANGE);
    reader.end();
    check(&path, 2);
}

/// Neither of two processes has another transaction: one keeps the file for both, and dies as well.
#[test]
fn a_snapshot_outlives_an_owner_that_has_nothing_but_a_snapshot() {
    let (path, _directory) = database();
    let owner = Process::start("obey", &path, 1);
    let mut readers: Vec<Process> = (2..=3).map(|writer| Process::start("obey", &path, writer)).collect();
    for reader in &mut readers {
        ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| reader.run(sql));
    }
    owner.kill();
    readers.iter_mut().for_each(|reader| reader.run(IS_STILL));
    let at = readers.iter().position(|reader| reader.has_open(&path)).unwrap();
    readers.swap_remove(at).kill();
    let mut last = readers.pop().unwrap();
    last.run(IS_STILL);
    last.run("COMMIT");
    last.run(CHANGE);
    last.end();
    check(&path, 1);
}

/// A process that runs a little later than the next owner. On a busy machine it may be later than that waits, and another attempt is made.
#[test]
fn a_checkpoint_waits_for_snapshots_that_may_come() {
    let holds = |_| {
        let mut group = Group::new();
        let mut late = Process::start("obey", &group.path, 2);
        ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| late.run(sql));
        group.owner().run(CHANGE);
        signal(&late, "-STOP");
        group.kill_owner();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(40));
                signal(&late, "-CONT");
            });
            group.run(CHECKPOINT);
        });
        late.tell(IS_STILL);
        late.await_answer() == "done"
    };
    assert!((0..8).any(holds), "the file is written at once");
}

/// The next owner lets snapshots come before it writes to the file.
#[test]
fn snapshots_come_before_the_first_checkpoint() {
    for _ in 0..4 {
        let mut group = Group::new();
        let mut readers: Vec<Process> =
            (2..=4).map(|reader| Process::start("obey", &group.path, reader)).collect();
        for reader in &mut readers {
            ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| reader.run(sql));
        }
        group.owner().run(CHANGE);
        group.kill_owner();
        group.run(CHECKPOINT);
        for reader in &mut readers {
            reader.run(IS_STILL);
            reader.run("COMMIT");
        }
        readers.into_iter().for_each(Process::end);
        group.check(1);
    }
}

/// Nobody keeps the file for a process that is stopped.
#[test]
fn a_snapshot_that_comes_too_late_fails() {
    type Meanwhile = fn(&mut Group);
    let cases: [(&str, Meanwhile); 4] = [
        ("the next owner has written to the file, and has died as well", |group| {
            let heir = group.heir.take().unwrap();
            heir.kill();
        }),
        ("a checkpoint has begun", |group| group.run(CHECKPOINT)),
        ("a stranger has come and gone", |group| {
            let stranger = Connection::open(&group.path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            stranger.execute_batch(CHECKPOINT).unwrap();
            drop(stranger);
            await_owned(&group.member);
        }),
        ("the database has left WAL mode, and the file is as it was", |group| {
            group.run("PRAGMA journal_mode=DELETE");
            group.run(CHANGE);
        }),
    ];
    for (what, meanwhile) in cases {
        let mut group = Group::new();
        let mut late = Process::start("obey", &group.path, 2);
        let mut heir = Process::start("obey", &group.path, 3);
        heir.run("SELECT count(*) FROM t");
        ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| late.run(sql));
        let has_log = !what.ends_with("as it was");
        group.owner().run(if has_log { CHANGE } else { "SELECT 1" });
        signal(&late, "-STOP");
        if what.starts_with("the next owner") {
            // This process has no reason to be it.
            group.kill_owner();
            [LOOK, CHECKPOINT].iter().for_each(|sql| heir.run(sql));
            group.heir = Some(heir);
        } else {
            heir.end();
            group.kill_owner();
        }
        assert_eq!(look(&group.member).unwrap(), i64::from(has_log));
        meanwhile(&mut group);
        assert_eq!(look(&group.member).unwrap(), 1);
        signal(&late, "-CONT");
        late.tell(LOOK);
        let answer = late.await_answer();
        assert!(answer.starts_with("failed: "), "{answer}: {what}");
        late.tell("ROLLBACK");
        late.await_answer();
        // One that has its log open is to be opened again where the database has left WAL mode.
        if has_log {
            late.run(CHANGE);
        }
        late.end();
        group.check(1 + i64::from(has_log));
    }
}

#[test]
fn a_reader_goes_on_to_write_behind_its_owner_unless_another_one_has_committed() {
    let updates = CHANGE.trim_start_matches("BEGIN IMMEDIATE; ").trim_end_matches("; COMMIT");
    for another_commits in [false, true] {
        let mut group = Group::new();
        group.run("BEGIN");
        assert_eq!(look(&group.member).unwrap(), 0);
        let mut other = Process::start("obey", &group.path, 3);
        group.kill_owner();
        assert_eq!(look(&group.member).unwrap(), 0);
        if another_commits {
            other.run(CHANGE);
            let refused = group.member.execute_batch(updates).unwrap_err();
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{refused}");
            assert_eq!(look(&group.member).unwrap(), 0);
            group.run("ROLLBACK");
            group.run(CHANGE);
        } else {
            group.run(updates);
            group.run("COMMIT");
        }
        other.end();
        group.check(1 + i64::from(another_commits));
    }
}

#[test]
fn snapshots_are_what_they_were_whenever_their_owner_dies() {
    let mut random = Random::new(11);
    for round in 0..24 {
        let (path, _directory) = database();
        let owner = Process::start("obey", &path, 1);
        let readers: Vec<Process> =
            (2..=4).map(|reader| Process::start("hold snapshots", &path, reader)).collect();
        let mut owner = Some(owner);
        let mut writer = Process::start("obey", &path, 5);
        let dies_at = random.below(12);
        for step in 0..16 {
            if step == dies_at {
                std::thread::sleep(Duration::from_micros(random.below(4000)));
                owner.take().unwrap().kill();
            }
            // Its transaction may fail with the owner.
            writer.tell(if random.below(3) == 0 { CHECKPOINT } else { CHANGE });
            let answer = writer.await_answer();
            if answer != "done" {
                writer.tell("ROLLBACK");
                writer.await_answer();
            }
        }
        for reader in readers {
            let said = reader.end_with_output();
            assert!(said.contains("held"), "round {round}: {said}");
        }
        writer.end();
        let (_vfs, db) = open(&path);
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
        look(&db).unwrap();
    }
}

/// Begins, looks again and again for a while, and ends, until that is to end. Each look of a transaction finds the same.
pub(crate) fn hold_until_told(db: &Connection, seed: i64, ends: &AtomicBool) {
    let mut random = Random::new(seed as u64);
    db.execute_batch("PRAGMA cache_size=10").unwrap();
    let (mut held, mut last) = (0, 0);
    while !ends.load(Ordering::Acquire) {
        // Before the first look nothing is read, and SQLite's busy handler waits.
        db.execute_batch("BEGIN").unwrap();
        let number = look(db).unwrap();
        assert!(number >= last, "{number} behind {last}");
        for _ in 0..random.below(6) {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            assert_eq!(look(db).unwrap(), number, "the snapshot is another one");
        }
        db.execute_batch("COMMIT").unwrap();
        (held, last) = (held + 1, number);
    }
    println!("held {held}");
}
