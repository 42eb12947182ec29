//! Programs that do not belong to the group: they meet it as one owner.

use crate::kit::{Process, await_owned, check, count, create, open};
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::metric_or_zero;
use std::time::Duration;

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_stranger_comes_and_goes_beside_members() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let members: Vec<_> = (1..3).map(|writer| Process::start("write", &path, writer)).collect();
        for n in 0..5 {
            let stranger = Connection::open(&path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            stranger.execute("INSERT INTO t VALUES(100, ?1, NULL)", [n + 1]).unwrap();
            drop(stranger);
            std::thread::sleep(Duration::from_millis(100));
        }
        for member in members {
            let said = member.end_with_output();
            assert!(!said.contains("failed: "), "{mode}: {said}");
        }
        let strangers: i64 =
            db.query_row("SELECT count(*) FROM t WHERE writer = 100", [], |row| row.get(0)).unwrap();
        assert_eq!(strangers, 5, "{mode}");
        check(&db, &path, 1..3);
        assert!(metric_or_zero(&db, "sharing_changes") > 0, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_stranger_that_comes_in_the_middle_of_a_members_transaction_sees_it_whole_or_not() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut member = Process::start("obey", &path, 1);
        for n in 0..6 {
            for sql in [
                "BEGIN IMMEDIATE",
                &format!("INSERT INTO t VALUES(1, {n}, 'a')"),
                "UPDATE sums SET n = n + 1",
            ] {
                member.tell(sql);
                assert_eq!(member.await_answer(), "done", "{mode}");
            }
            let stranger = Connection::open(&path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            let seen = |stranger: &Connection| {
                let sum: i64 = stranger.query_row("SELECT n FROM sums", [], |row| row.get(0)).unwrap();
                (count(stranger), sum)
            };
            let committed = n / 2 + n % 2;
            assert_eq!(seen(&stranger), (committed, committed), "{mode}");
            // Every other one is rolled back.
            let commits = n % 2 == 0;
            member.tell(if commits { "COMMIT" } else { "ROLLBACK" });
            assert_eq!(member.await_answer(), "done", "{mode}");
            let committed = committed + i64::from(commits);
            assert_eq!(seen(&stranger), (committed, committed), "{mode}");
        }
        member.end();
        assert_eq!(count(&db), 3, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn what_a_stranger_writes_is_seen_by_members_that_keep_pages() {
    // Each way back takes longer than the one before.
    for (mode, rounds, expected) in
        [("delete", 4, &[0, 2, 3, 4, 6, 7, 9, 10, 11, 13][..]), ("wal", 2, &[0, 2, 3, 4, 6])]
    {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut member = Process::start("obey", &path, 1);
        for n in 0..rounds {
            // Its pages are kept now.
            member.run(&format!("INSERT INTO t SELECT 1, {n}, count(*) FROM t"));
            let stranger = Connection::open(&path).unwrap();
            stranger.busy_timeout(Duration::from_secs(20)).unwrap();
            stranger.execute("INSERT INTO t VALUES(100, ?1, 'theirs')", [n]).unwrap();
            if n % 2 == 0 {
                member.run(&format!("INSERT INTO t SELECT 2, {n}, count(*) FROM t"));
            }
            drop(stranger);
            await_owned(&db);
            member.run(&format!("INSERT INTO t SELECT 3, {n}, count(*) FROM t"));
        }
        let mut statement = db.prepare("SELECT data FROM t WHERE writer < 100 ORDER BY n, writer").unwrap();
        let counted: Vec<i64> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(counted, expected, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn in_wal_mode_a_stranger_stays_beside_members_and_the_death_of_their_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "wal");
    drop((db, vfs));
    let owner = Process::start("obey", &path, 1);
    let (_vfs, db) = open(&path);
    let mut member = Process::start("obey", &path, 2);
    db.execute_batch("INSERT INTO t VALUES(0, 1, 'before')").unwrap();
    member.run("INSERT INTO t VALUES(2, 1, 'before')");
    let stranger = Connection::open(&path).unwrap();
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    let mut all = 2;
    let mut round = |n: i64, member: &mut Process| {
        // Each of them sees what the others have committed.
        stranger.execute("INSERT INTO t VALUES(100, 70 * ?1 + 1, (SELECT count(*) FROM t))", [n]).unwrap();
        db.execute("INSERT INTO t VALUES(0, 70 * ?1 + 1, (SELECT count(*) FROM t))", [n]).unwrap();
        member.run(&format!("INSERT INTO t VALUES(2, 70 * {n} + 1, (SELECT count(*) FROM t))"));
        for (place, writer) in [(0, 100), (1, 0), (2, 2)] {
            let sql = "SELECT CAST(data AS INTEGER) FROM t WHERE writer = ?1 ORDER BY n DESC LIMIT 1";
            let seen: i64 = stranger.query_row(sql, [writer], |row| row.get(0)).unwrap();
            assert_eq!(seen, all + place, "round {n}, process {writer}");
        }
        all += 3;
    };
    for n in 1..4 {
        round(n, &mut member);
    }
    assert!(metric_or_zero(&db, "shared_since_ms") > 0);
    owner.kill();
    for n in 4..7 {
        round(n, &mut member);
    }
    let log = directory.path().join("app.db-wal");
    assert!(std::fs::metadata(log).is_ok_and(|file| file.len() > 0), "the stranger's log is a file");
    drop(stranger);
    await_owned(&db);
    member.run("INSERT INTO t VALUES(2, 2, 'alone again')");
    assert_eq!(count(&db), all + 1);
    member.end();
    check(&db, &path, 0..0);
    drop(db);
    assert_eq!(count(&Connection::open(&path).unwrap()), all + 1, "stock");
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn in_wal_mode_a_member_joins_and_another_dies_while_a_stranger_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "wal");
    let mut dying = Process::start("obey", &path, 1);
    dying.run("INSERT INTO t VALUES(1, 1, 'a')");
    let stranger = Connection::open(&path).unwrap();
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(count(&stranger), 1);
    let mut late = Process::start("obey", &path, 2);
    late.run("INSERT INTO t VALUES(2, 1, 'b')");
    let index = std::fs::metadata(directory.path().join("app.db-shm")).unwrap();
    assert!(index.len() < 1 << 20, "{} bytes: the file of strangers has no frames", index.len());
    for sql in ["BEGIN IMMEDIATE", "INSERT INTO t VALUES(1, 2, zeroblob(100000))"] {
        dying.run(sql);
    }
    stranger.busy_timeout(Duration::ZERO).unwrap();
    assert!(stranger.execute_batch("INSERT INTO t VALUES(100, 1, 'c')").is_err(), "a member writes");
    assert_eq!(count(&stranger), 2);
    dying.kill();
    stranger.busy_timeout(Duration::from_secs(20)).unwrap();
    stranger.execute_batch("INSERT INTO t VALUES(100, 1, 'c')").unwrap();
    late.run("INSERT INTO t SELECT 2, 2, count(*) FROM t");
    assert_eq!((count(&stranger), count(&db)), (4, 4));
    late.end();
    check(&stranger, &path, 0..0);
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_member_that_dies_beside_a_stranger_leaves_a_journal_that_rolls_back() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) \
             INSERT INTO t SELECT 1, i, hex(zeroblob(500)) FROM n",
        )
        .unwrap();
        let mut member = Process::start("obey", &path, 1);
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(count(&stranger), 300, "{mode}");
        // The pages do not fit, and some are in the file before the commit.
        for sql in ["PRAGMA cache_size=5", "BEGIN", "UPDATE t SET data = hex(randomblob(500)), n = -n"] {
            member.tell(sql);
            assert_eq!(member.await_answer(), "done", "{mode}: {sql}");
        }
        let journal = directory.path().join("app.db-journal");
        assert!(std::fs::metadata(journal).is_ok_and(|file| file.len() > 100_000), "{mode}: a file by now");
        member.kill();
        for one in [&stranger, &db] {
            one.busy_timeout(Duration::from_secs(20)).unwrap();
            let sum: i64 = one.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, 300 * 301 / 2, "{mode}");
            let integrity: String = one.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(integrity, "ok", "{mode}");
        }
    }
}

/// Without an order one of them may not commit for seconds.
#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn members_that_write_keep_their_order_beside_a_stranger() {
    for mode in crate::kit::MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let stranger = Connection::open(&path).unwrap();
        assert_eq!(count(&stranger), 0);
        let members: Vec<_> = (1..4).map(|writer| Process::start("count", &path, writer)).collect();
        std::thread::sleep(Duration::from_secs(2));
        let counted: Vec<i64> = members
            .into_iter()
            .map(|member| {
                let said = member.end_with_output();
                said.split("counted ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
            })
            .collect();
        let (least, most) = (counted.iter().min().unwrap(), counted.iter().max().unwrap());
        assert!(least * 4 > *most, "{mode}: {counted:?}");
        let sum: i64 = stranger.query_row("SELECT n FROM sums", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, counted.iter().sum::<i64>(), "{mode}");
        drop(db);
    }
}
