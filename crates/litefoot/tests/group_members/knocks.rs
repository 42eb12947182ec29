//! Processes that come to an owner which is alone, and has no name: they knock, and are members.

use crate::OPENINGS;
use crate::kit::{MODES, Process, await_owned, check, count, create, has_name, open, signal, with_options};
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TABLES: &str = "CREATE TABLE IF NOT EXISTS t(writer INTEGER, n INTEGER, data BLOB, PRIMARY KEY(writer, n)); \
                      CREATE TABLE IF NOT EXISTS sums(n INTEGER); INSERT INTO sums SELECT 0 WHERE NOT EXISTS(SELECT 1 FROM sums)";

fn begin(path: &Path, writer: u32) -> Process {
    Process::begin_by(Command::new(std::env::current_exe().unwrap()), "obey", path, writer)
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_owner_that_is_alone_has_neither_a_name_nor_a_thread_for_others() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owner = Process::start("obey", &path, 1);
        owner.run("INSERT INTO t VALUES(1, 0, 'alone')");
        let pays = |owner: &Process| {
            has_name(&path)
                || owner
                    .threads()
                    .iter()
                    .any(|name| name.starts_with("litefoot-group") || name.starts_with("litefoot-member"))
        };
        assert!(!pays(&owner), "{mode}: {:?}", owner.threads());
        for n in 1..4 {
            let mut member = Process::start("obey", &path, 2);
            member.run(&format!("INSERT INTO t VALUES(2, {n}, 'a')"));
            owner.run(&format!("INSERT INTO t VALUES(1, {n}, 'a')"));
            assert!(owner.has_open(&path) && !member.has_open(&path), "{mode}: it is a member");
            assert!(has_name(&path) && owner.threads().iter().any(|name| name.starts_with("litefoot-group")));
            member.end();
            if n < 3 {
                await_that("the group ends behind its last member", || !pays(&owner));
            }
        }
        owner.end();
        let (_vfs, db) = open(&path);
        assert_eq!(count(&db), 7, "{mode}");
    }
}

/// Its lease tells of others from the moment at which it has opened the file.
#[test]
fn a_process_that_has_not_used_the_database_yet_has_no_name_and_is_found() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let (_vfs, db) = open(&path);
        assert!(!has_name(&path), "{mode}");
        let mut member = Process::start("obey", &path, 1);
        assert!(!member.has_open(&path), "{mode}");
        member.run("INSERT INTO t VALUES(1, 1, 'a')");
        assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (1, 0), "{mode}");
        member.end();
    }
}

/// While others have the file there is no lease that could tell of a third one.
#[test]
fn an_owner_has_its_name_while_a_stranger_is_there_and_not_behind_it() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let stranger = Connection::open(&path).unwrap();
        assert_eq!(count(&stranger), 0, "{mode}");
        await_that("the owner takes its name", || has_name(&path));
        drop(stranger);
        await_owned(&db);
        await_that("the group ends", || !has_name(&path));
    }
}

/// Connections of the owner read and write while the first member comes.
#[test]
fn transactions_of_the_owner_go_on_while_a_member_comes() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        let reader = vfs.open(&path).unwrap();
        db.execute_batch("INSERT INTO t VALUES(0, 1, 'a')").unwrap();
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&reader), 1);
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        db.execute_batch("INSERT INTO t VALUES(0, 2, 'b')").unwrap();
        let mut member = begin(&path, 1);
        if mode == "wal" {
            // A writer has a slot of the index: the member waits for its end.
            std::thread::sleep(Duration::from_millis(50));
            db.execute_batch("COMMIT").unwrap();
        }
        member.await_line("ready");
        assert!(!member.has_open(&path), "{mode}");
        assert_eq!(count(&reader), 1, "{mode}: its snapshot");
        if mode == "wal" {
            member.run("INSERT INTO t VALUES(1, 1, 'c')");
            assert_eq!(count(&reader), 1, "its snapshot");
        }
        reader.execute_batch("COMMIT").unwrap();
        if mode != "wal" {
            db.execute_batch("COMMIT").unwrap();
            member.run("INSERT INTO t VALUES(1, 1, 'c')");
        }
        assert_eq!((count(&reader), count(&db)), (3, 3), "{mode}");
        assert_eq!(metric_or_zero(&db, "sharing_changes"), 0, "{mode}");
        member.end();
    }
}

/// In WAL mode one that has read may write, where nobody has committed.
#[test]
fn a_reader_of_the_owner_may_write_behind_the_coming_of_a_member() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create(&directory, "wal");
    db.execute_batch("INSERT INTO t VALUES(0, 1, 'a'); BEGIN").unwrap();
    assert_eq!(count(&db), 1);
    let mut member = Process::start("obey", &path, 1);
    db.execute_batch("INSERT INTO t VALUES(0, 2, 'b'); COMMIT").unwrap();
    member.run("INSERT INTO t SELECT 1, count(*), 'c' FROM t");
    assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (3, 0));
    member.end();
}

#[test]
fn several_that_come_at_once_are_members_of_one_owner() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        for round in 0..3 {
            let mut members: Vec<_> = (1..5).map(|writer| begin(&path, writer)).collect();
            members.iter_mut().for_each(|member| drop(member.await_line("ready")));
            for (writer, member) in (1..).zip(&mut members) {
                assert!(!member.has_open(&path), "{mode}");
                member.run(&format!("INSERT INTO t VALUES({writer}, {round} + 1, 'a')"));
            }
            members.into_iter().for_each(Process::end);
        }
        assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (12, 0), "{mode}");
    }
}

#[test]
fn processes_that_begin_at_the_same_time_have_one_owner() {
    for mode in ["delete", "wal"] {
        for _ in 0..4 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("app.db");
            let first = format!("PRAGMA journal_mode={mode}; {TABLES}");
            let mut processes: Vec<_> = (1..5)
                .map(|writer| {
                    let mut command = with_options("sharing=group");
                    command.env("GROUP_FIRST", &first);
                    Process::begin_by(command, "obey", &path, writer)
                })
                .collect();
            processes.iter_mut().for_each(|process| drop(process.await_line("ready")));
            let owners = processes.iter().filter(|process| process.has_open(&path)).count();
            assert_eq!(owners, 1, "{mode}");
            for (writer, process) in (1..).zip(&mut processes) {
                process.run(&format!("INSERT INTO t VALUES({writer}, 1, 'a')"));
            }
            processes.into_iter().for_each(Process::end);
            let stock = Connection::open(&path).unwrap();
            assert_eq!(count(&stock), 4);
            check(&stock, &path, 0..0);
        }
    }
}

/// The owner opens and closes, and so does another process: nobody waits for one that has gone.
#[test]
fn who_comes_while_the_owner_closes_is_the_next_owner() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut processes: Vec<_> = (1..4)
            .map(|writer| {
                let command = Command::new(std::env::current_exe().unwrap());
                Process::begin_by(command, "open again", &path, writer)
            })
            .collect();
        for process in &mut processes {
            let longest: u64 = process.await_line("longest").parse().unwrap();
            assert!(longest < 1500, "{mode}: {longest} ms");
        }
        processes.into_iter().for_each(Process::end);
        let stock = Connection::open(&path).unwrap();
        assert_eq!(count(&stock), 3 * OPENINGS, "{mode}");
    }
}

#[test]
fn one_that_knocks_at_an_owner_that_dies_is_the_next_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    for n in 0..3 {
        let mut owner = Process::start("obey", &path, 1);
        owner.run(&format!("INSERT INTO t VALUES(1, {n}, 'a')"));
        // It answers nothing.
        signal(&owner, "-STOP");
        let mut next = begin(&path, 2);
        std::thread::sleep(Duration::from_millis(100 * n));
        let begun = Instant::now();
        owner.kill();
        next.await_line("ready");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(next.has_open(&path));
        next.run(&format!("INSERT INTO t VALUES(2, {n}, 'b')"));
        next.end();
    }
    assert_eq!(count(&Connection::open(&path).unwrap()), 6);
}

#[test]
fn an_owner_that_is_stopped_has_a_stranger_and_goes_on_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    let mut owner = Process::start("obey", &path, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    signal(&owner, "-STOP");
    let mut other = begin(&path, 2);
    // It waits at the door, and then in its `open`.
    std::thread::sleep(Duration::from_millis(700));
    signal(&owner, "-CONT");
    other.await_line("ready");
    other.run("INSERT INTO t VALUES(2, 1, 'b')");
    owner.run("INSERT INTO t VALUES(1, 2, 'c')");
    other.run("INSERT INTO t SELECT 3, count(*), 'd' FROM t");
    owner.end();
    other.end();
    let stock = Connection::open(&path).unwrap();
    let n: i64 = stock.query_row("SELECT n FROM t WHERE writer = 3", [], |row| row.get(0)).unwrap();
    assert_eq!(n, 3);
}

#[test]
fn processes_that_do_not_fit_together_are_strangers_soon() {
    for (owners, others) in [
        ("sharing=separate", "sharing=group"),
        ("sharing=group", "sharing=separate"),
        ("sharing=group", "sharing=group&flush_interval_ms=50"),
        ("sharing=group&commit_log=pages", "sharing=group"),
        ("sharing=group", "sharing=group&atomic=off"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, "delete");
        drop((db, vfs));
        let mut owner = Process::start_by(with_options(owners), "obey", &path, 1);
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        let begun = Instant::now();
        let mut other = Process::start_by(with_options(others), "obey", &path, 2);
        // Without an answer it would wait longer.
        assert!(begun.elapsed() < Duration::from_millis(290), "{owners}, {others}: {:?}", begun.elapsed());
        assert!(owner.has_open(&path) && other.has_open(&path), "{owners}, {others}");
        other.run("INSERT INTO t VALUES(2, 1, 'a')");
        owner.run("INSERT INTO t VALUES(1, 2, 'a')");
        owner.end();
        other.end();
        assert_eq!(count(&Connection::open(&path).unwrap()), 3);
    }
}

/// While a stranger has the file open there is no lease: the owner has its name then.
#[test]
fn a_process_that_comes_beside_a_stranger_is_a_member() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owner = Process::start("obey", &path, 1);
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        let stranger = Connection::open(&path).unwrap();
        stranger.busy_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(count(&stranger), 1, "{mode}");
        await_that("the owner takes its name", || has_name(&path));
        // This process has the file open itself, by another VFS.
        let (_vfs, db) = open(&path);
        let mut member = Process::start("obey", &path, 2);
        assert!(!member.has_open(&path), "{mode}");
        for (n, sql) in (1..).zip(["stock", "member", "this"]) {
            let sql = format!("INSERT INTO t SELECT 2, {n}, '{sql}' || count(*) FROM t");
            match n {
                1 => stranger.execute_batch(&sql).unwrap(),
                2 => member.run(&sql),
                _ => db.execute_batch(&sql).unwrap(),
            }
        }
        owner.run("INSERT INTO t SELECT 3, count(*), 'a' FROM t");
        let seen: Vec<String> = {
            let mut rows = stranger.prepare("SELECT data FROM t WHERE writer = 2 ORDER BY n").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(seen, ["stock1", "member2", "this3"], "{mode}");
        drop(stranger);
        await_owned(&db);
        assert!(has_name(&path), "{mode}: members are there");
        member.run("INSERT INTO t VALUES(2, 9, 'alone again')");
        assert_eq!(count(&db), 6, "{mode}");
        drop(db);
        member.end();
        owner.run("INSERT INTO t VALUES(1, 9, 'alone')");
        await_that("the group ends", || !has_name(&path));
        owner.end();
    }
}

#[test]
fn joiners_and_strangers_that_come_together_are_both_let_in() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        for n in 0..12_i64 {
            let mut member = begin(&path, 1);
            for visit in 0..4 {
                let stranger = Connection::open(&path).unwrap();
                stranger.busy_timeout(Duration::from_secs(20)).unwrap();
                stranger.execute("INSERT INTO t VALUES(100, ?1, NULL)", [n * 4 + visit]).unwrap();
                std::thread::sleep(Duration::from_millis(n.unsigned_abs()));
            }
            member.await_line("ready");
            member.run(&format!("INSERT INTO t VALUES(1, {n}, 'a')"));
            member.end();
        }
        assert_eq!(count(&db), 60, "{mode}");
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok", "{mode}");
    }
}

/// An application asks whether there is a schema, and makes it by several transactions: nobody comes in between. A machine that is busy elsewhere may
/// make a pause between two of them.
#[test]
fn a_member_that_comes_while_the_database_is_made_finds_all_of_it() {
    let finds_all = || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let (_vfs, db) = open(&path);
        db.execute_batch("CREATE TABLE t(writer, n, data)").unwrap();
        let mut command = with_options("sharing=group");
        command.env(
            "GROUP_FIRST",
            "CREATE TABLE IF NOT EXISTS last(n); INSERT INTO t SELECT 1, count(*), 'a' FROM last",
        );
        let mut member = Process::begin_by(command, "obey", &path, 1);
        let begun = Instant::now();
        for n in 0.. {
            db.execute_batch(&format!("CREATE TABLE made{n}(a)")).unwrap();
            let next = Instant::now() + Duration::from_millis(3);
            while Instant::now() < next {
                std::thread::yield_now();
            }
            if begun.elapsed() > Duration::from_millis(120) {
                break;
            }
        }
        db.execute_batch("CREATE TABLE IF NOT EXISTS last(n); INSERT INTO last VALUES(1)").unwrap();
        member.await_line("ready");
        member.end();
        assert_eq!(metric_or_zero(&db, "sharing_changes"), 0, "it is a member");
        db.query_row("SELECT n = 1 FROM t", [], |row| row.get::<_, bool>(0)).unwrap()
    };
    assert!((0..20).any(|_| finds_all()));
}

/// What a crash has left waits for recovery. Somebody comes after the file was opened, and before it is used.
#[test]
fn a_visitor_of_a_database_that_is_not_used_yet_leaves_what_waits_for_recovery() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "wal");
    drop((db, vfs));
    let mut killed = Process::start("obey", &path, 1);
    for n in 0..50 {
        killed.run(&format!("INSERT INTO t VALUES(1, {n}, 'a')"));
    }
    killed.kill();
    let log = directory.path().join("app.db-commits");
    assert!(std::fs::metadata(&log).is_ok_and(|log| log.len() > 0), "commits wait");
    let (_vfs, db) = open(&path);
    let visited = Command::new("sh").args(["-c", ": < \"$0\""]).arg(&path).status().unwrap();
    assert!(visited.success());
    assert_eq!(count(&db), 50);
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}

/// The owner goes on with the listener of the one that has knocked, and is found there by its own number.
#[test]
fn one_that_has_knocked_is_taken_for_the_owner_by_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    let mut owner = Process::start("obey", &path, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    let knocked = Process::start("obey", &path, 2);
    signal(&knocked, "-STOP");
    let mut late = Process::start("obey", &path, 3);
    late.run("INSERT INTO t VALUES(3, 1, 'b')");
    knocked.kill();
    late.run("INSERT INTO t VALUES(3, 2, 'c')");
    let (_vfs, db) = open(&path);
    signal(&owner, "-STOP");
    let refused = db.execute_batch("INSERT INTO t VALUES(4, 1, 'd')").unwrap_err();
    signal(&owner, "-CONT");
    assert!(refused.to_string().contains("I/O") || refused.to_string().contains("locked"), "{refused}");
    late.end();
    owner.end();
}

/// A connection of a process goes on as a member of the process's own, once another connection has made that the owner.
#[test]
fn a_member_goes_on_where_its_own_process_is_the_next_owner() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owner = Process::start("obey", &path, 1);
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        let (vfs, member) = open(&path);
        member.execute_batch("INSERT INTO t VALUES(0, 1, 'b')").unwrap();
        owner.kill();
        let next = vfs.open(&path).unwrap();
        next.busy_timeout(Duration::from_secs(20)).unwrap();
        next.execute_batch("INSERT INTO t VALUES(0, 2, 'c')").unwrap();
        member.execute_batch("INSERT INTO t SELECT 0, 3, count(*) FROM t").unwrap();
        assert_eq!((count(&next), count(&member)), (4, 4), "{mode}");
        assert_eq!(metric_or_zero(&next, "sharing_changes"), 0, "{mode}");
    }
}

/// Nobody has been told to join. In WAL mode a group gains less where a sync takes next to nothing, as in memory.
#[test]
fn by_themselves_processes_join_outside_of_wal_mode() {
    for (mode, owners, others, joins) in [
        ("delete", "sharing=auto", "sharing=auto", true),
        ("truncate", "sharing=auto", "sharing=group", true),
        ("persist", "sharing=group", "sharing=auto", true),
        ("wal", "sharing=auto", "sharing=auto", false),
        ("wal", "sharing=auto", "sharing=group", false),
        ("wal", "sharing=group", "sharing=auto", false),
        ("delete", "sharing=auto", "sharing=separate", false),
        ("delete", "sharing=auto", "sharing=auto&group_socket=file", false),
    ] {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owner = Process::start_by(with_options(owners), "obey", &path, 1);
        owner.run("INSERT INTO t VALUES(1, 1, 'a')");
        let mut other = Process::start_by(with_options(others), "obey", &path, 2);
        assert_eq!(other.has_open(&path), !joins, "{mode}: {owners}, {others}");
        other.run("INSERT INTO t VALUES(2, 1, 'a')");
        owner.run("INSERT INTO t SELECT 3, count(*), 'a' FROM t");
        other.end();
        owner.end();
        let stock = Connection::open(&path).unwrap();
        let n: i64 = stock.query_row("SELECT n FROM t WHERE writer = 3", [], |row| row.get(0)).unwrap();
        assert_eq!(n, 2, "{mode}: {owners}, {others}");
    }
}

/// Those that are members already stay so, and no other comes by itself where syncs are short.
#[test]
fn by_itself_a_process_stays_a_member_where_the_database_goes_over_to_wal_mode() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    let auto = || with_options("sharing=auto");
    let mut owner = Process::start_by(auto(), "obey", &path, 1);
    owner.run("INSERT INTO t VALUES(1, 1, 'a')");
    let mut member = Process::start_by(auto(), "obey", &path, 2);
    let mut next = Process::start_by(auto(), "obey", &path, 3);
    next.run("PRAGMA journal_mode=WAL");
    member.run("INSERT INTO t VALUES(2, 1, 'a')");
    next.run("INSERT INTO t VALUES(3, 1, 'a')");
    owner.kill();
    member.run("INSERT INTO t VALUES(2, 2, 'a')");
    next.run("INSERT INTO t VALUES(3, 2, 'a')");
    assert!(member.has_open(&path) != next.has_open(&path), "one of them is the owner of both");
    let late = Process::start_by(auto(), "obey", &path, 4);
    assert!(late.has_open(&path));
    member.run("INSERT INTO t VALUES(2, 3, 'a')");
    [late, member, next].into_iter().for_each(Process::end);
    assert_eq!(count(&Connection::open(&path).unwrap()), 6);
}
