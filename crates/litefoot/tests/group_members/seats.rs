//! Members that read without a message, where there is no write-ahead log: what they see, and whose way they are in.

use crate::kit::{Process, await_owned, calls, count, create, open, signal, there_are};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_testkit::sqlite::metric_or_zero;
use std::time::{Duration, Instant};

const MODES: [&str; 3] = ["delete", "truncate", "persist"];

fn insert(db: &Connection, n: i64) -> Result<usize, litefoot::rusqlite::Error> {
    db.execute("INSERT INTO t VALUES(0, ?1, 'a')", [n])
}

#[test]
fn what_is_read_again_costs_no_message_and_is_what_was_committed_last() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut member = Process::start("obey", &path, 1);
        for n in 0..4 {
            member.run(&there_are(n));
            let count = calls(&db, || (0..20).for_each(|_| member.run(&there_are(n))));
            assert_eq!(count, 0, "{mode}");
            // What is not committed is not seen.
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            insert(&db, n).unwrap();
            assert_eq!(calls(&db, || member.run(&there_are(n))), 0, "{mode}");
            db.execute_batch("COMMIT").unwrap();
            member.run(&there_are(n + 1));
            // Nor is what is rolled back.
            db.execute_batch("BEGIN IMMEDIATE; DELETE FROM t; ROLLBACK").unwrap();
            member.run(&there_are(n + 1));
        }
        // Its own commit is one as well.
        assert_eq!(calls(&db, || member.run(&there_are(4))), 0, "{mode}");
        // It waits for its turn before it reads, as ever.
        assert_eq!(calls(&db, || member.run("INSERT INTO t VALUES(1, 1, 'b')")), 3, "{mode}");
        for _ in 0..3 {
            member.run(&there_are(5));
        }
        assert_eq!(calls(&db, || member.run(&there_are(5))), 0, "{mode}");
        member.end();
    }
}

/// What one connection of a process asks goes by its own stream: that of another one may wait for a lock that this one has.
#[test]
fn each_connection_of_a_process_commits_by_three_messages() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("obey", &path, 1);
        let (vfs, first) = open(&path);
        let second = vfs.open(&path).unwrap();
        // Behind a commit the figures cost a message as well.
        let insert = |db: &Connection, n: i64| {
            let run = || db.execute("INSERT INTO t VALUES(1, ?1, 'b')", [n]).map(drop).unwrap();
            calls(&first, run) - 1
        };
        // At first each asks for pages, too.
        for n in [0, 2] {
            insert(&first, n);
            insert(&second, n + 1);
        }
        for n in [4, 6, 8] {
            assert_eq!((insert(&first, n), insert(&second, n + 1)), (3, 3), "{mode}");
        }
        drop((first, second));
        owner.end();
    }
}

#[test]
fn a_read_by_a_seat_keeps_a_commit_waiting_until_it_ends_or_its_process_is_killed() {
    for mode in MODES {
        for is_killed in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (path, _vfs, db) = create(&directory, mode);
            let mut member = Process::start("obey", &path, 1);
            member.run(&there_are(0));
            let begun = calls(&db, || member.run(&format!("BEGIN; {}", there_are(0))));
            assert_eq!(begun, 0, "{mode}: by its seat");
            db.busy_timeout(Duration::ZERO).unwrap();
            let refused = insert(&db, 1).unwrap_err();
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
            if is_killed {
                member.kill();
                db.busy_timeout(Duration::from_secs(20)).unwrap();
                insert(&db, 1).unwrap();
                continue;
            }
            member.run(&there_are(0));
            member.run("COMMIT");
            insert(&db, 1).unwrap();
            member.run(&there_are(1));
            member.end();
        }
    }
}

#[test]
fn a_read_by_a_seat_goes_on_to_write_and_nobody_commits_in_between() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
        for n in 0..6 {
            for member in &mut members {
                member.run(&there_are(n));
            }
            let begun = calls(&db, || {
                members.iter_mut().for_each(|member| member.run(&format!("BEGIN; {}", there_are(n))));
            });
            assert_eq!(begun, 0, "{mode}: by their seats");
            let [one, other] = &mut members;
            one.run("PRAGMA busy_timeout=0");
            one.run(&format!("INSERT INTO t SELECT 1, {n}, count(*) FROM t"));
            other.tell("INSERT INTO t VALUES(2, 0, 'never')");
            assert!(other.await_answer().contains("locked"), "{mode}: another writes");
            one.tell("COMMIT");
            assert!(one.await_answer().contains("locked"), "{mode}: another reads");
            other.run(&there_are(n));
            other.run("COMMIT");
            one.run("COMMIT");
        }
        let seen: i64 =
            db.query_row("SELECT sum(CAST(data AS INTEGER) = n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((count(&db), seen), (6, 6), "{mode}");
        members.into_iter().for_each(Process::end);
    }
}

/// SQLite refuses to write to a file that it could not find again.
#[test]
fn a_read_by_a_seat_does_not_go_on_to_write_where_the_file_has_lost_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    member.run(&there_are(0));
    assert_eq!(calls(&db, || member.run(&format!("BEGIN; {}", there_are(0)))), 0, "by its seat");
    std::fs::rename(&path, directory.path().join("moved.db")).unwrap();
    member.run(&there_are(0));
    member.tell("INSERT INTO t VALUES(1, 1, 'a')");
    let refused = member.await_answer();
    assert!(refused.contains("readonly"), "{refused}");
    member.run("ROLLBACK");
}

#[test]
fn an_owner_that_ends_in_order_waits_for_a_read_by_a_seat_that_goes_on_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    let mut owner = Process::start("obey", &path, 1);
    let mut member = Process::start("obey", &path, 2);
    for _ in 0..3 {
        member.run(&there_are(0));
    }
    member.run(&format!("BEGIN; {}", there_are(0)));
    owner.end_input();
    std::thread::sleep(Duration::from_millis(100));
    for sql in ["INSERT INTO t VALUES(2, 1, 'a')", "COMMIT"] {
        member.run(sql);
    }
    assert!(owner.child.wait().unwrap().success());
    member.run(&there_are(1));
    member.end();
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn readers_see_whole_transactions_beside_writers_and_strangers() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut writer = Process::start("obey", &path, 1);
        let readers: Vec<_> = (2..4).map(|number| Process::start("read", &path, number)).collect();
        let insert = |n: i64| {
            format!(
                "BEGIN IMMEDIATE; INSERT INTO t VALUES(0, {}, 'a'); UPDATE sums SET n = n + 1; COMMIT",
                7 * n
            )
        };
        let before = metric_or_zero(&db, "member_calls");
        for n in 0..300 {
            if n % 2 == 0 {
                db.execute_batch(&insert(n)).unwrap()
            } else {
                writer.run(&insert(n))
            }
            std::thread::sleep(Duration::from_micros(700));
            if n % 100 == 50 {
                let stranger = Connection::open(&path).unwrap();
                stranger.busy_timeout(Duration::from_secs(20)).unwrap();
                stranger.execute_batch(&insert(1000 + n)).unwrap();
                drop(stranger);
                await_owned(&db);
            }
        }
        let calls = metric_or_zero(&db, "member_calls") - before;
        writer.end();
        let mut reads = 0;
        for reader in readers {
            let said = reader.end_with_output();
            let number = said.split("reads: ").nth(1).and_then(|rest| rest.split_whitespace().next());
            reads += number.unwrap().parse::<i64>().unwrap();
        }
        assert!(calls < 2 * reads, "{mode}: {calls} calls for {reads} reads, some by seats");
        assert_eq!(count(&db), 303, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn what_is_kept_of_an_owner_that_was_killed_is_read_no_more() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("obey", &path, 1);
        let mut member = Process::start("obey", &path, 2);
        member.run("PRAGMA busy_timeout=20000");
        for _ in 0..3 {
            member.run(&there_are(0));
        }
        owner.kill();
        // Stock SQLite, which hears of no board.
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        insert(&stranger, 1).unwrap();
        drop(stranger);
        member.run(&there_are(1));
        let (_vfs, db) = open(&path);
        insert(&db, 2).unwrap();
        member.run(&there_are(2));
        member.end();
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_stranger_is_let_in_beside_a_read_by_a_seat_and_writes_behind_its_end() {
    for mode in MODES {
        for ends in ["COMMIT", "INSERT INTO t VALUES(1, 1, 'b'); COMMIT", "is killed"] {
            let directory = tempfile::tempdir().unwrap();
            let (path, _vfs, db) = create(&directory, mode);
            let mut member = Process::start("obey", &path, 1);
            member.run(&there_are(0));
            let begun = calls(&db, || member.run(&format!("BEGIN; {}", there_are(0))));
            assert_eq!(begun, 0, "{mode}: by its seat");
            let came = Instant::now();
            let stranger = Connection::open(&path).unwrap();
            assert_eq!(count(&stranger), 0, "{mode}");
            assert!(came.elapsed() < Duration::from_millis(200), "{mode}: it waits for no reader");
            stranger.busy_timeout(Duration::from_millis(150)).unwrap();
            assert!(insert(&stranger, 1).is_err(), "{mode}: a member reads");
            if ends == "is killed" {
                member.kill();
                stranger.busy_timeout(Duration::from_secs(20)).unwrap();
                insert(&stranger, 1).unwrap();
                continue;
            }
            member.run(&there_are(0));
            member.run(ends);
            stranger.busy_timeout(Duration::ZERO).unwrap();
            insert(&stranger, 1).unwrap_or_else(|error| panic!("{mode}, {ends}: {error}"));
            let rows = if ends == "COMMIT" { 1 } else { 2 };
            member.run(&there_are(rows));
            drop(stranger);
            await_owned(&db);
            insert(&db, 2).unwrap();
            for _ in 0..3 {
                member.run(&there_are(rows + 1));
            }
            assert_eq!(calls(&db, || member.run(&there_are(rows + 1))), 0, "{mode}: by its seat again");
            member.end();
        }
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_member_that_is_stopped_in_a_read_by_its_seat_is_in_the_way_until_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    member.run(&there_are(0));
    member.run(&format!("BEGIN; {}", there_are(0)));
    signal(&member, "-STOP");
    db.busy_timeout(Duration::from_millis(100)).unwrap();
    assert!(insert(&db, 1).is_err());
    member.kill();
    db.busy_timeout(Duration::from_secs(20)).unwrap();
    insert(&db, 1).unwrap();
}
