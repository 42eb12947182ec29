//! Programs that do not belong to the group: they meet it as one owner.

use crate::kit::{Process, await_owned, check, count, create};
use litefoot::rusqlite::Connection;
use std::time::Duration;

#[test]
fn a_stranger_comes_and_goes_beside_members() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let members: Vec<_> = (1..3).map(|writer| Process::start("write", &path, writer)).collect();
    for n in 0..5 {
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        stranger.execute("INSERT INTO t VALUES(100, ?1, NULL)", [n + 1]).unwrap();
        drop(stranger);
        std::thread::sleep(Duration::from_millis(100));
    }
    members.into_iter().for_each(Process::end);
    let strangers: i64 =
        db.query_row("SELECT count(*) FROM t WHERE writer = 100", [], |row| row.get(0)).unwrap();
    assert_eq!(strangers, 5);
    check(&db, &path, 1..3);
}

#[test]
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
fn what_a_stranger_writes_is_seen_by_members_that_keep_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        assert_eq!(member.await_answer(), "done", "{sql}");
    };
    for n in 0..4 {
        // Its pages are kept now.
        run(&format!("INSERT INTO t SELECT 1, {n}, count(*) FROM t"));
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        stranger.execute("INSERT INTO t VALUES(100, ?1, 'theirs')", [n]).unwrap();
        if n % 2 == 0 {
            run(&format!("INSERT INTO t SELECT 2, {n}, count(*) FROM t"));
        }
        drop(stranger);
        await_owned(&db);
        run(&format!("INSERT INTO t SELECT 3, {n}, count(*) FROM t"));
    }
    let mut statement = db.prepare("SELECT data FROM t WHERE writer < 100 ORDER BY n, writer").unwrap();
    let counted: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(counted, [0, 2, 3, 4, 6, 7, 9, 10, 11, 13]);
}

#[test]
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
