//! Members that hold snapshots in WAL mode while strangers come: nobody is refused whom stock SQLite would not refuse.

use crate::kit::{Process, await_owned, calls, count, open};
use crate::snapshots::{CHANGE, CHECKPOINT, Group, LOOK, ROWS, database, look};
use litefoot::rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::time::Duration;

/// A stranger that waits for nobody.
fn stranger(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db
}

/// What a statement answers first, or that it was refused.
fn answer(db: &Connection, sql: &str) -> String {
    let mut statement = match db.prepare(sql) {
        Ok(statement) => statement,
        Err(error) => return error.to_string(),
    };
    let mut rows = statement.query([]).unwrap();
    match rows.next() {
        Ok(Some(row)) => format!("{:?}", row.get_ref(0).unwrap()),
        Ok(None) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// What a stranger does in one visit, beside somebody that holds a snapshot.
const VISIT: [&str; 12] = [
    "SELECT count(*) FROM t",
    "PRAGMA wal_checkpoint(PASSIVE)",
    "BEGIN IMMEDIATE",
    "UPDATE sums SET n = n + 1",
    "UPDATE t SET data = printf('%08d', (SELECT n FROM sums)) || substr(data, 9)",
    "COMMIT",
    "PRAGMA wal_checkpoint(PASSIVE)",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "VACUUM",
    "PRAGMA wal_checkpoint(RESTART)",
    "PRAGMA journal_mode=DELETE",
    "SELECT n FROM sums",
];

/// The answers of three visits.
fn visits(path: &Path, is_still: impl Fn()) -> Vec<String> {
    let mut answers = Vec::new();
    for _ in 0..3 {
        let stranger = stranger(path);
        for sql in VISIT {
            answers.push(format!("{sql}: {}", answer(&stranger, sql)));
            is_still();
        }
    }
    answers
}

/// What is answered once nobody holds a snapshot any more.
fn afterwards(path: &Path) -> Vec<String> {
    let stranger = stranger(path);
    let sql = ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode", "SELECT n FROM sums"];
    sql.map(|sql| format!("{sql}: {}", answer(&stranger, sql))).to_vec()
}

/// The same with stock SQLite throughout: what one that holds a snapshot is in the way of.
fn of_stock(changes: &[&str]) -> Vec<String> {
    let (path, _directory) = database();
    let [idle, holder] = [(); 2].map(|()| Connection::open(&path).unwrap());
    changes.iter().for_each(|sql| idle.execute_batch(sql).unwrap());
    holder.execute_batch("PRAGMA cache_size=10; BEGIN").unwrap();
    let number = look(&holder).unwrap();
    let mut answers = visits(&path, || assert_eq!(look(&holder).unwrap(), number));
    holder.execute_batch("COMMIT").unwrap();
    answers.extend(afterwards(&path));
    answers
}

#[test]
fn strangers_meet_a_member_that_reads_as_they_meet_stock_sqlite() {
    // Pages of the snapshot that are in the file only; in the log; in both.
    for changes in [&[][..], &[CHANGE], &[CHANGE, CHECKPOINT, CHANGE, CHANGE]] {
        let expected = of_stock(changes);
        for owner_reads in [false, true] {
            let mut group = Group::new();
            let mut other = Process::start("obey", &group.path, 2);
            changes.iter().for_each(|sql| group.owner().run(sql));
            group.run("BEGIN");
            let number = look(&group.member).unwrap();
            if owner_reads {
                group.owner().run("BEGIN; SELECT count(*) FROM t");
            }
            let still = || assert_eq!(look(&group.member).unwrap(), number, "the snapshot is another one");
            let mut answers = visits(&group.path, still);
            assert!(!group.member.is_autocommit());
            group.run("COMMIT");
            if owner_reads {
                group.owner().run("COMMIT");
            }
            answers.extend(afterwards(&group.path));
            assert_eq!(answers, expected, "{} changes, owner reads: {owner_reads}", changes.len());
            let last = number + 3;
            assert_eq!(look(&group.member).unwrap(), last);
            await_owned(&group.member);
            other.run(CHANGE);
            assert_eq!(look(&group.member).unwrap(), last + 1);
            other.end();
            group.check(last + 1);
        }
    }
}

#[test]
fn a_member_that_is_left_behind_goes_on_to_read_and_not_to_write() {
    let mut group = Group::new();
    group.owner().run(CHANGE);
    group.run("BEGIN");
    assert_eq!(look(&group.member).unwrap(), 1);
    let stranger = stranger(&group.path);
    assert_eq!(count(&stranger), ROWS);
    for _ in 0..2 {
        let refused = group.member.execute_batch("UPDATE sums SET n = n + 1").unwrap_err();
        let code = refused.sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::DatabaseBusy), "{refused}");
        stranger.execute_batch(CHANGE).unwrap();
        assert_eq!(look(&group.member).unwrap(), 1);
    }
    group.run("ROLLBACK");
    group.run(CHANGE);
    assert_eq!((look(&group.member).unwrap(), look(&stranger).unwrap()), (4, 4));
    drop(stranger);
    group.check(4);
}

#[test]
fn a_member_that_is_left_behind_and_would_write_keeps_no_writer_out_for_a_moment() {
    const ATTEMPTS: usize = 400;
    let group = Group::new();
    let mut member = Process::start("obey", &group.path, 2);
    ["BEGIN", LOOK].iter().for_each(|sql| member.run(sql));
    let stranger = stranger(&group.path);
    assert_eq!(count(&stranger), ROWS);
    for _ in 0..8 {
        (0..ATTEMPTS).for_each(|_| member.tell("UPDATE sums SET n = n + 1"));
        for _ in 0..ATTEMPTS {
            stranger.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
        }
        assert!((0..ATTEMPTS).all(|_| member.await_answer() == "failed: database is locked"));
    }
    member.run("ROLLBACK");
    member.run(CHANGE);
    drop(stranger);
    group.check(1);
}

#[test]
fn members_that_are_left_behind_and_die_are_in_nobodys_way() {
    let mut group = Group::new();
    group.owner().run(CHANGE);
    let mut dying = Process::start("obey", &group.path, 2);
    ["PRAGMA cache_size=10", "BEGIN", LOOK].iter().for_each(|sql| dying.run(sql));
    let stranger = stranger(&group.path);
    stranger.execute_batch(CHANGE).unwrap();
    assert!(answer(&stranger, "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("Integer(1)"), "it reads");
    dying.run(LOOK);
    dying.kill();
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    assert!(answer(&stranger, "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("Integer(0)"));
    group.run(CHANGE);
    drop(stranger);
    group.check(3);
}

/// Only its owner, which has its slot, knows for how long the file is kept.
#[test]
fn a_member_that_is_left_behind_asks_for_pages_of_the_file_and_reads_the_log_in_memory() {
    let (path, _directory) = database();
    let (_vfs, owner) = open(&path);
    let mut member = Process::start("obey", &path, 1);
    // Two tables, of which the second is in the log.
    owner.execute_batch("CREATE TABLE u AS SELECT n, data FROM t LIMIT 500").unwrap();
    let [of_file, of_log] = ["t", "u"].map(|table| format!("SELECT sum(length(data)) FROM {table}"));
    ["PRAGMA cache_size=10", "BEGIN", &of_file, &of_log].iter().for_each(|sql| member.run(sql));
    let mut asks = |sql: &str| calls(&owner, || member.run(sql));
    let before = [&of_file, &of_log].map(|sql| asks(sql));
    let stranger = stranger(&path);
    assert_eq!(count(&stranger), ROWS);
    let behind = [&of_file, &of_log].map(|sql| asks(sql));
    assert!(before == [0, 0] && behind[0] > 10 && behind[1] < 5, "{before:?}, and then {behind:?}");
    drop(stranger);
}

/// What it needs may be in memory. Otherwise nobody keeps strangers from writing it.
#[test]
fn a_snapshot_that_is_left_behind_is_what_it_was_or_fails_where_its_owner_dies() {
    let mut failures = 0;
    for before in [&[][..], &[CHANGE], &[CHANGE, CHECKPOINT, "UPDATE sums SET n = n"]] {
        for writes in [1, 2] {
            let mut group = Group::new();
            before.iter().for_each(|sql| group.owner().run(sql));
            group.run("BEGIN");
            let number = look(&group.member).unwrap();
            let stranger = stranger(&group.path);
            stranger.execute_batch(CHANGE).unwrap();
            assert_eq!(look(&group.member).unwrap(), number);
            group.kill_owner();
            for _ in 1..writes {
                stranger.execute_batch(CHANGE).unwrap();
                assert!(answer(&stranger, "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("Integer(0)"));
            }
            match look(&group.member) {
                Ok(found) => assert_eq!(found, number),
                Err(failed) => {
                    assert_eq!(failed.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{failed}");
                    failures += 1;
                }
            }
            let _ = group.member.execute_batch("ROLLBACK");
            assert_eq!(look(&group.member).unwrap(), number + writes);
            group.run(CHANGE);
            assert_eq!(look(&stranger).unwrap(), number + writes + 1);
            drop(stranger);
            group.check(number + writes + 1);
        }
    }
    assert!(failures > 0, "each was in memory");
}

/// Readers that are stock SQLite's would refuse none of it.
#[test]
fn a_stranger_that_waits_for_nobody_comes_and_goes_beside_members_that_hold_snapshots() {
    let group = Group::new();
    let holders: Vec<Process> =
        (2..=4).map(|holder| Process::start("hold snapshots", &group.path, holder)).collect();
    for number in 1..=60 {
        let stranger = stranger(&group.path);
        assert_eq!(look(&stranger).unwrap(), number - 1);
        stranger.execute_batch(CHANGE).unwrap();
        let checkpoint = answer(&stranger, CHECKPOINTS[number as usize % CHECKPOINTS.len()]);
        assert!(checkpoint.starts_with("Integer("), "{checkpoint}");
        assert_eq!(look(&stranger).unwrap(), number);
    }
    for holder in holders {
        let said = holder.end_with_output();
        assert!(said.contains("held"), "{said}");
    }
    await_owned(&group.member);
    group.check(60);
}

const CHECKPOINTS: [&str; 3] =
    ["PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(RESTART)"];
