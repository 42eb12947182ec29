//! Members commit, read and lock as connections of the owner do, and answer as stock SQLite does.

use crate::kit::{MODES, Process, count, create, create_with, open, with_options};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::{metric_or_zero, stock};
use std::time::Duration;

#[test]
fn members_see_and_make_commits_as_connections_of_the_owner_do() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut one = Process::start("obey", &path, 1);
        let mut two = Process::start("obey", &path, 2);
        for (process, sql) in [
            (&mut one, "INSERT INTO t VALUES(1, 1, 'a')"),
            (&mut two, "INSERT INTO t SELECT 2, n, data FROM t WHERE writer = 1"),
        ] {
            process.tell(sql);
            process.await_line("done");
        }
        assert_eq!(count(&db), 2, "{mode}");
        db.execute_batch("INSERT INTO t VALUES(0, 1, 'b')").unwrap();
        one.tell("INSERT INTO t SELECT 3, count(*), 'c' FROM t");
        one.await_line("done");
        let counted: i64 = db.query_row("SELECT n FROM t WHERE writer = 3", [], |row| row.get(0)).unwrap();
        assert_eq!(counted, 3, "{mode}");
        // A transaction of a member keeps the others out, and its death gives them the lock.
        two.tell("BEGIN IMMEDIATE; INSERT INTO t VALUES(9, 9, 'never')");
        two.await_line("done");
        db.busy_timeout(Duration::ZERO).unwrap();
        let refused = db.execute_batch("INSERT INTO t VALUES(0, 2, 'd')").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
        two.kill();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db.execute_batch("INSERT INTO t VALUES(0, 2, 'd')").unwrap();
        assert_eq!(count(&db), 5, "{mode}");
        one.end();
        assert_eq!(metric_or_zero(&db, "sharing_changes"), 0, "{mode}");
        drop(db);
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["app.db"], "{mode}");
        assert_eq!(count(&Connection::open(&path).unwrap()), 5, "{mode}, stock");
    }
}

#[test]
fn members_come_also_once_the_vfs_of_the_owner_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "wal");
    drop(vfs);
    let mut member = Process::start("obey", &path, 1);
    member.run("INSERT INTO t VALUES(1, 1, 'a')");
    assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (1, 0), "it is no stranger");
    member.end();
}

/// Statements as an application makes them, of all kinds that end a transaction or keep it open.
fn random_statement(random: &mut Random, n: i64) -> String {
    let key = random.below(60);
    match random.below(22) {
        0 => "BEGIN".to_owned(),
        1 => "BEGIN IMMEDIATE".to_owned(),
        2 | 3 => "COMMIT".to_owned(),
        4 => "ROLLBACK".to_owned(),
        5 => "SAVEPOINT a".to_owned(),
        6 => "ROLLBACK TO a".to_owned(),
        7 => "RELEASE a".to_owned(),
        8 => format!("INSERT INTO t VALUES({key}, {n}, zeroblob({}))", random.below(900_000)),
        9 => format!("DELETE FROM t WHERE writer < {}", random.below(60)),
        10 => "VACUUM".to_owned(),
        11 => format!("PRAGMA cache_size={}", 10 + random.below(100)),
        12 => format!("UPDATE sums SET n = n + {n}; UPDATE t SET n = -n WHERE writer = {key}"),
        13 => format!("PRAGMA user_version={n}"),
        14 => format!("CREATE TABLE IF NOT EXISTS x{}(a, b UNIQUE)", random.below(4)),
        15 => format!("DROP TABLE IF EXISTS x{}", random.below(4)),
        16 => format!("PRAGMA synchronous={}", ["OFF", "NORMAL", "FULL"][random.below(3) as usize]),
        17 => format!(
            "PRAGMA journal_mode={}",
            ["delete", "truncate", "persist", "memory"][random.below(4) as usize]
        ),
        18 => format!("INSERT INTO t SELECT writer, n + 1, data FROM t WHERE writer > {key}"),
        19 => format!("INSERT INTO t VALUES({key}, {n}, 'a'), ({key}, {n}, 'a')"),
        _ => format!("INSERT INTO t VALUES({key}, {n}, hex(zeroblob({})))", random.below(3000)),
    }
}

fn content(db: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    for sql in [
        "SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY 1",
        "SELECT writer || ' ' || n || ' ' || length(data) || ' ' || hex(substr(data, 1, 4)) FROM t ORDER BY writer, n",
        "SELECT 'sum ' || n FROM sums",
        "SELECT 'version ' || user_version FROM pragma_user_version",
        "SELECT integrity_check FROM pragma_integrity_check",
    ] {
        let mut statement = db.prepare(sql).unwrap();
        found.extend(statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap));
    }
    found
}

/// Two members and stock SQLite run the same statements, one connection at a time.
#[test]
fn members_answer_as_stock_sqlite_does() {
    for (seed, mode) in (0..6).map(|seed| (seed, "delete")).chain((6..10).map(|seed| (seed, "wal"))) {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let stock_path = directory.path().join("stock.db");
        db.execute("VACUUM INTO ?1", [stock_path.to_str().unwrap()]).unwrap();
        stock(&stock_path).execute_batch(&format!("PRAGMA journal_mode={mode}")).unwrap();
        let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
        let stock = [(); 2].map(|()| stock(&stock_path));
        let mut log = Vec::new();
        for n in 0..150 {
            let at = random.below(2) as usize;
            let sql = random_statement(&mut random, n);
            // The other one is in no transaction, or both would wait for each other.
            let other = 1 - at;
            if !stock[other].is_autocommit() {
                let _ = stock[other].execute_batch("COMMIT");
                members[other].tell("COMMIT");
                members[other].await_answer();
            }
            let expected = stock[at].execute_batch(&sql);
            members[at].tell(&sql);
            let found = members[at].await_answer();
            log.push(format!("{at}: {sql}: {expected:?} {found}"));
            assert_eq!(found == "done", expected.is_ok(), "seed {seed}\n{}", log.join("\n"));
            if n % 10 == 9 && stock.iter().all(Connection::is_autocommit) {
                assert_eq!(content(&db), content(&stock[0]), "seed {seed}\n{}", log.join("\n"));
            }
        }
        members.into_iter().for_each(Process::end);
        for one in &stock {
            let _ = one.execute_batch("ROLLBACK");
        }
        assert_eq!(content(&db), content(&stock[0]), "seed {seed}\n{}", log.join("\n"));
        drop(db);
        assert_eq!(content(&Connection::open(&path).unwrap()), content(&stock[1]), "seed {seed}, by stock");
    }
}

#[test]
fn small_commits_of_members_are_deltas() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let list = "sharing=group&commit_log=deltas";
        let (path, _vfs, db) = create_with(&directory, mode, list);
        let start = |writer| Process::start_by(with_options(list), "obey", &path, writer);
        let mut members = [1, 2].map(start);
        let made = |figure| metric_or_zero(&db, figure);
        let before = made("commits_deltas") + made("commits_pages");
        for n in 0..80 {
            members[n % 2].run(&format!("INSERT INTO t VALUES(1, {n}, 'a')"));
        }
        let deltas = made("commits_deltas");
        assert_eq!(deltas + made("commits_pages") - before, 80, "{mode}");
        assert!(deltas >= 40, "{mode}: {deltas}");
        members.into_iter().for_each(Process::end);
        drop(db);
        assert_eq!(count(&Connection::open(&path).unwrap()), 80, "{mode}, stock");
    }
}

/// What the owner answers while two members commit a hundred times, in turns.
fn calls_of_a_hundred_commits(mode: &str, synchronous: &str) -> i64 {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, mode);
    let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
    for member in &mut members {
        member.run(&format!("PRAGMA synchronous={synchronous}"));
    }
    let mut commit = |numbers: std::ops::Range<i64>| {
        for n in numbers {
            members[n as usize % 2].run(&format!("INSERT INTO t VALUES(1, {n}, 'some text')"));
        }
    };
    commit(0..8);
    let before = metric_or_zero(&db, "member_calls");
    commit(8..108);
    let calls = metric_or_zero(&db, "member_calls") - before;
    assert_eq!(count(&db), 108);
    calls
}

#[test]
fn a_commit_of_a_member_is_few_messages() {
    // The lock, the lock to write alone, the commit; now and then a page that is new to the member.
    let calls = calls_of_a_hundred_commits("delete", "FULL");
    assert!((300..=330).contains(&calls), "{calls} for 100 commits");
    // The turn; the frames; the commit.
    let calls = calls_of_a_hundred_commits("wal", "FULL");
    assert!((300..=340).contains(&calls), "{calls} for 100 commits in WAL mode");
    // The turn; the frames, which the owner gives to the system at once. The next one may come before the end of that commit.
    let calls = calls_of_a_hundred_commits("wal", "NORMAL");
    assert!((200..=240).contains(&calls), "{calls} for 100 commits that are not synced");
}

#[test]
fn a_member_whose_commit_has_returned_is_in_nobodys_way() {
    for synchronous in ["FULL", "NORMAL", "OFF"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, "wal");
        let mut members = [1, 2].map(|writer| Process::start("obey", &path, writer));
        for member in &mut members {
            member.run(&format!("PRAGMA synchronous={synchronous}; PRAGMA busy_timeout=0"));
        }
        db.busy_timeout(Duration::ZERO).unwrap();
        for n in 0..300 {
            // It does not know when it reads that it is going to write.
            let sql =
                format!("BEGIN; SELECT count(*) FROM t; INSERT INTO t VALUES(1, {n}, 'some text'); COMMIT");
            members[n % 2].run(&sql);
            if n % 7 == 0 {
                db.execute_batch("BEGIN; SELECT count(*) FROM t; DELETE FROM t; COMMIT").unwrap();
            }
            if n % 40 == 0 {
                members[1 - n % 2].run("PRAGMA wal_checkpoint(TRUNCATE)");
            }
        }
        members.into_iter().for_each(Process::end);
    }
}

#[test]
fn a_scan_of_a_member_is_few_messages_and_finds_all() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT 1, i, randomblob(1000) FROM n; PRAGMA wal_checkpoint(TRUNCATE);
             CREATE TABLE expected AS SELECT n, data FROM t",
        )
        .unwrap();
        let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let mut member = Process::start("obey", &path, 1);
        // It changes what it reads as well: pages that were read ahead are no newer, and no older, than the others.
        for (sql, most) in [
            ("SELECT sum(length(data)) FROM t", pages / 10),
            (
                "BEGIN; UPDATE t SET data = zeroblob(900) WHERE n % 100 = 7; SELECT sum(length(data)) FROM t",
                pages,
            ),
            ("ROLLBACK", 20),
            ("CREATE TABLE found AS SELECT n, data FROM t", 4 * pages),
        ] {
            let before = metric_or_zero(&db, "member_calls");
            member.run(sql);
            let calls = metric_or_zero(&db, "member_calls") - before;
            assert!(calls <= most, "{mode}: {calls} calls for {pages} pages: {sql}");
        }
        let differ = "SELECT count(*) FROM (SELECT * FROM expected EXCEPT SELECT * FROM found)";
        let differ: i64 = db.query_row(differ, [], |row| row.get(0)).unwrap();
        assert_eq!(differ, 0, "{mode}");
        member.end();
    }
}

#[test]
fn who_waits_for_the_turn_to_write_is_seen() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut member = Process::start("obey", &path, 1);
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(0, 1, 'a')").unwrap();
        assert_eq!(metric_or_zero(&db, "writers_waiting"), 0, "{mode}");
        member.tell("INSERT INTO t VALUES(1, 1, 'b')");
        // Between two waits it asks again.
        while metric_or_zero(&db, "writers_waiting") == 0 {
            std::thread::yield_now();
        }
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(member.await_answer(), "done", "{mode}");
        assert_eq!(metric_or_zero(&db, "writers_waiting"), 0, "{mode}");
        member.end();
    }
}

/// Nobody may meet its lock, also without a busy timeout: it has given that back before its statement ends.
#[test]
fn a_read_of_a_member_that_has_ended_is_in_nobodys_way() {
    for mode in ["delete", "truncate"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        db.busy_timeout(Duration::ZERO).unwrap();
        let mut one = Process::start("obey", &path, 1);
        let mut two = Process::start("obey", &path, 2);
        two.run("PRAGMA busy_timeout=0");
        for n in 0..150 {
            one.run("SELECT count(*) FROM t");
            db.execute("INSERT INTO t VALUES(0, ?1, 'a')", [n]).unwrap();
            one.run("SELECT count(*) FROM t");
            two.run(&format!("INSERT INTO t VALUES(2, {n}, 'b')"));
        }
        assert_eq!(count(&db), 300);
        one.end();
        two.end();
    }
}

#[test]
fn a_member_in_exclusive_mode_keeps_its_lock_and_what_it_commits_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        member.await_answer()
    };
    for sql in [
        "INSERT INTO t VALUES(1, 1, 'a')",
        "PRAGMA locking_mode=EXCLUSIVE",
        "INSERT INTO t VALUES(1, 2, 'b')",
        "BEGIN; INSERT INTO t VALUES(1, 3, zeroblob(100000)); ROLLBACK",
        "INSERT INTO t VALUES(1, 4, 'c')",
    ] {
        assert_eq!(run(sql), "done", "{sql}");
    }
    db.busy_timeout(Duration::ZERO).unwrap();
    assert!(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).is_err(), "it is locked");
    assert_eq!(run("PRAGMA locking_mode=NORMAL; SELECT count(*) FROM t"), "done");
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(count(&db), 3);
}

#[test]
fn a_transaction_of_a_member_over_two_databases_is_whole_after_a_rollback() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "delete");
    let other = directory.path().join("other.db");
    let (_other_vfs, other_db) = open(&other);
    other_db.execute_batch("CREATE TABLE o(a UNIQUE)").unwrap();
    let mut member = Process::start("obey", &path, 1);
    let mut run = |sql: &str| {
        member.tell(sql);
        member.await_answer()
    };
    assert_eq!(run(&format!("ATTACH '{}' AS other", other.display())), "done");
    for n in 0..3 {
        for sql in [
            "BEGIN",
            &format!("INSERT INTO t VALUES(1, {n}, 'a')"),
            &format!("INSERT INTO o VALUES({n})"),
            "COMMIT",
        ] {
            assert_eq!(run(sql), "done", "{sql}");
        }
        assert!(
            run(&format!("BEGIN; INSERT INTO t VALUES(2, {n}, 'a'); INSERT INTO o VALUES({n}); COMMIT"))
                .contains("UNIQUE")
        );
        assert_eq!(run("ROLLBACK"), "done");
        let others: i64 = other_db.query_row("SELECT count(*) FROM o", [], |row| row.get(0)).unwrap();
        assert_eq!((count(&db), others), (n + 1, n + 1));
    }
}
