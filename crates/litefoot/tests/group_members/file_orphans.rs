//! Transactions beside a stranger whose owner is killed: they end by themselves, and the stranger sees what stock SQLite would show.

use crate::heirs::{
    ALL_MODES, LARGE_ROWS, MODES, Orphan, ROWS, check, count, count_beside, die_at_any_step, die_in_large,
    stock,
};
use crate::held_thread::{HeldThread, serving};
use crate::kit::{Process, signal};
use litefoot::rusqlite::Connection;
use std::time::Duration;

/// A stranger that has the database open, and has read it.
fn stranger(orphan: &Orphan) -> Connection {
    let stranger = stock(&orphan.path);
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    assert!(count(&stranger) >= ROWS);
    stranger
}

/// The end of an orphan: what is there for all.
fn ends_with(orphan: Orphan, stranger: Connection, rows: i64, what: &str) {
    assert_eq!((count(&stranger), count(&orphan.member)), (rows, rows), "{what}");
    let path = orphan.path.clone();
    drop(stranger);
    check(&path, rows);
    drop(orphan);
}

#[test]
fn a_transaction_outlives_its_owner_at_any_step_beside_a_stranger() {
    die_at_any_step(stranger, |orphan, stranger, what| ends_with(orphan, stranger, ROWS + 3, what));
}

/// Strangers come in the middle of a transaction.
#[test]
fn a_transaction_that_strangers_have_met_outlives_its_owner() {
    for mode in MODES {
        for begin in ["BEGIN", "BEGIN IMMEDIATE"] {
            for before in ["SELECT count(*) FROM t", "INSERT INTO t VALUES(2, 1, 'a')"] {
                let what = format!("{mode}, {begin}, {before}");
                let mut orphan = Orphan::new(mode);
                orphan.run("PRAGMA cache_size=1000");
                orphan.run(begin);
                orphan.run(before);
                let stranger = stranger(&orphan);
                std::thread::sleep(Duration::from_millis(300));
                orphan.kill_owner();
                orphan.run("INSERT INTO t VALUES(2, 2, 'b')");
                assert_eq!(count(&stranger), ROWS, "{what}");
                orphan.run("COMMIT");
                ends_with(orphan, stranger, ROWS + 1 + i64::from(before.starts_with("INSERT")), &what);
            }
        }
    }
}

/// Megabytes of pages, some of which are in the file before the commit.
#[test]
fn a_large_transaction_outlives_its_owner_beside_a_stranger() {
    for mode in ALL_MODES {
        for dies_before in 1..=7 {
            let (orphan, stranger) = die_in_large(mode, dies_before, stranger);
            ends_with(orphan, stranger, LARGE_ROWS, &format!("{mode}, {dies_before}"));
        }
    }
}

#[test]
fn a_transaction_that_outlives_its_owner_beside_a_stranger_is_rolled_back() {
    for mode in ALL_MODES {
        for dies_before in 1..=3 {
            let mut orphan = Orphan::new(mode);
            let stranger = stranger(&orphan);
            let steps = ["BEGIN", "UPDATE t SET data = randomblob(500)", "DELETE FROM t", "ROLLBACK"];
            for (number, step) in steps.into_iter().enumerate() {
                if number == dies_before {
                    orphan.kill_owner();
                }
                orphan.run(step);
            }
            let sum: i64 =
                stranger.query_row("SELECT sum(length(data)) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, ROWS * 500, "{mode}, {dies_before}");
            ends_with(orphan, stranger, ROWS, mode);
        }
    }
}

#[test]
fn a_reader_goes_on_in_the_middle_of_a_statement_beside_a_stranger() {
    for mode in ALL_MODES {
        let mut orphan = Orphan::new(mode);
        let stranger = stranger(&orphan);
        stranger.busy_timeout(Duration::ZERO).unwrap();
        let owner = orphan.owner.take();
        let mut statement = orphan.member.prepare("SELECT n, length(data) FROM t ORDER BY n").unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut next = || rows.next().unwrap().map(|row| (row.get(0).unwrap(), row.get(1).unwrap()));
        for n in 1..=300 {
            assert_eq!(next(), Some((n, 500)), "{mode}");
        }
        owner.unwrap().kill();
        std::thread::sleep(Duration::from_millis(300));
        let written = stranger.execute_batch("DELETE FROM t WHERE n > 1000");
        assert_eq!(written.is_ok(), mode == "wal", "{mode}: a reader is in the way of others");
        let _ = stranger.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        for n in 301..=ROWS {
            assert_eq!(next(), Some((n, 500)), "{mode}");
        }
        assert_eq!(next(), None);
        drop(rows);
        drop(statement);
        stranger.execute_batch("DELETE FROM t WHERE n > 500").unwrap();
        ends_with(orphan, stranger, 500, mode);
    }
}

#[test]
fn transactions_of_several_processes_go_on_beside_a_stranger() {
    for mode in MODES {
        let mut orphan = Orphan::new(mode);
        let stranger = stranger(&orphan);
        let mut others: Vec<Process> =
            (2..=4).map(|writer| Process::start("obey", &orphan.path, writer)).collect();
        for other in &mut others {
            other.run("BEGIN; SELECT count(*) FROM t");
        }
        orphan.run("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 1, 'a')");
        orphan.kill_owner();
        let committed =
            orphan.member.busy_timeout(Duration::ZERO).and_then(|()| orphan.member.execute_batch("COMMIT"));
        assert!(committed.is_err(), "{mode}: the others read");
        for other in &mut others {
            other.run("SELECT sum(length(data)) FROM t");
        }
        for other in &mut others {
            other.run("COMMIT");
        }
        orphan.run("COMMIT");
        others.into_iter().for_each(Process::end);
        ends_with(orphan, stranger, ROWS + 1, mode);
    }
}

#[test]
fn each_commit_is_made_once_whenever_its_owner_dies_beside_a_stranger() {
    for (work, rounds, synchronous) in
        [("count", 24, "FULL"), ("count", 8, "NORMAL"), ("count", 8, "OFF"), ("count largely", 8, "FULL")]
    {
        count_beside(work, rounds, synchronous, |path| {
            let stranger = stock(path);
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(count(&stranger), ROWS);
            stranger
        });
    }
}

/// Has a member commit. The thread of the owner that serves it is held before one of its calls, and the owner is killed then. A stranger comes before the
/// transaction, or while the thread is held, where it can.
fn commits_where_its_owner_is_held_up_and_dies(mode: &str, stranger_is_first: bool) {
    let (mut call, mut is_held, mut read) = (0, true, 0);
    while is_held {
        call += 1;
        let what = format!("{mode}, call {call}");
        let mut orphan = Orphan::new(mode);
        let owner = orphan.owner.take().unwrap();
        let others = serving(&owner);
        let mut writer = Process::start("obey", &orphan.path, 2);
        // Another one serves the file that it has borrowed.
        let first = serving(&owner).difference(&others).copied().min().unwrap();
        writer.run("SELECT count(*) FROM t");
        writer.run("INSERT INTO t VALUES(2, 1, 'a')");
        let before = stranger_is_first.then(|| stranger(&orphan));
        let thread = HeldThread::hold(first);
        writer.tell("INSERT INTO t VALUES(2, 2, 'b')");
        is_held = thread.run_to_call(call);
        let stranger = before.unwrap_or_else(|| stock(&orphan.path));
        stranger.busy_timeout(Duration::from_millis(150)).unwrap();
        let seen = stranger.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        thread.kill_with(owner);
        assert_eq!(writer.await_answer(), "done", "{what}, behind a stranger that has found {seen:?}");
        read += usize::from(is_held && seen == Ok(ROWS + 2));
        writer.run("INSERT INTO t VALUES(2, 3, 'c')");
        writer.end();
        ends_with(orphan, stranger, ROWS + 3, &what);
    }
    assert!(
        call > 5 && (stranger_is_first || read > 0),
        "{mode}: of {call} calls {read} came behind the commit"
    );
}

#[test]
fn a_commit_is_made_once_where_its_owner_is_held_up_and_dies() {
    for mode in ["truncate", "wal"] {
        commits_where_its_owner_is_held_up_and_dies(mode, false);
    }
}

#[test]
fn a_commit_beside_a_stranger_is_made_once_where_its_owner_is_held_up_and_dies() {
    for mode in ["truncate", "wal"] {
        commits_where_its_owner_is_held_up_and_dies(mode, true);
    }
}

/// A stranger waits in its `open` for an owner that is killed: the transactions of the members come first.
#[test]
fn a_stranger_that_waits_for_a_dying_owner_comes_behind_its_heirs() {
    for mode in ALL_MODES {
        for work in ["INSERT INTO t VALUES(2, 1, 'a')", "SELECT count(*) FROM t"] {
            let mut orphan = Orphan::new(mode);
            let mut other = Process::start("obey", &orphan.path, 2);
            other.run("BEGIN; SELECT count(*) FROM t");
            orphan.run(if work.starts_with("INSERT") { "BEGIN IMMEDIATE" } else { "BEGIN" });
            orphan.run(work);
            signal(orphan.owner.as_ref().unwrap(), "-STOP");
            let path = orphan.path.clone();
            let stranger = std::thread::spawn(move || {
                let stranger = stock(&path);
                stranger.busy_timeout(Duration::from_secs(20)).unwrap();
                assert!(count(&stranger) >= ROWS);
                stranger
            });
            std::thread::sleep(Duration::from_millis(50));
            orphan.kill_owner();
            other.run("SELECT sum(length(data)) FROM t");
            other.run("COMMIT");
            orphan.run("INSERT INTO t VALUES(2, 2, 'b')");
            orphan.run("COMMIT");
            let stranger = stranger.join().unwrap();
            other.end();
            ends_with(orphan, stranger, ROWS + 1 + i64::from(work.starts_with("INSERT")), mode);
        }
    }
}

/// A connection that reads on behind its commit has its journal open, and so may somebody else by then.
#[test]
fn a_reader_whose_owner_dies_leaves_a_strangers_journal_alone() {
    for mode in ["truncate", "persist"] {
        let mut orphan = Orphan::new(mode);
        let stranger = stranger(&orphan);
        let owner = orphan.owner.take();
        let mut statement = orphan.member.prepare("SELECT n FROM t WHERE writer = 1").unwrap();
        let mut rows = statement.query([]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(1));
        orphan.run("INSERT INTO t VALUES(2, 1, 'a')");
        stranger.execute_batch("BEGIN IMMEDIATE; UPDATE t SET data = zeroblob(400)").unwrap();
        let journal = orphan.path.with_extension("db-journal");
        let before = std::fs::read(&journal).unwrap();
        assert!(before.len() > 1000, "{mode}: the stranger's");
        owner.unwrap().kill();
        std::thread::sleep(Duration::from_millis(300));
        let left = std::iter::from_fn(|| rows.next().unwrap().map(|_| ())).count();
        assert_eq!(left as i64, ROWS - 1, "{mode}");
        assert!(std::fs::read(&journal).unwrap() == before, "{mode}");
        drop(rows);
        drop(statement);
        stranger.execute_batch("ROLLBACK").unwrap();
        ends_with(orphan, stranger, ROWS + 1, mode);
    }
}
