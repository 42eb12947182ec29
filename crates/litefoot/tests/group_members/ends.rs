//! Members and owners that are killed, stopped, or end: what was acknowledged is there, and the others go on.

use crate::KEEPS_LOG;
use crate::kit::{MODES, Process, acknowledged, check, count, create, open, signal, with_options};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot::{Options, Vfs, clear_last_error, last_error};
use litefoot_sim::Random;
use litefoot_testkit::sqlite::metric_or_zero;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn the_death_of_members_costs_nothing_that_was_acknowledged() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        let mut random = Random::new(7);
        let mut members: Vec<_> = (1..4).map(|writer| Process::start("write", &path, writer)).collect();
        let mut next = 4;
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(random.below(120)));
            let at = random.below(members.len() as u64) as usize;
            members.swap_remove(at).kill();
            db.execute_batch("UPDATE sums SET n = n").unwrap();
            members.push(Process::start("write", &path, next));
            next += 1;
        }
        members.into_iter().for_each(Process::end);
        let total = check(&db, &path, 1..next);
        assert!(total > 20, "{mode}: {total}");
        drop(db);
        check(&Connection::open(&path).unwrap(), &path, 1..next);
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn members_go_on_after_the_death_of_their_owner() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("write", &path, 1);
        let mut members: Vec<_> = (2..5).map(|writer| Process::start("write", &path, writer)).collect();
        std::thread::sleep(Duration::from_millis(500));
        owner.kill();
        std::thread::sleep(Duration::from_millis(500));
        let before: Vec<_> = (2..5)
            .map(|writer| std::fs::read_to_string(acknowledged(&path, writer)).unwrap().len())
            .collect();
        std::thread::sleep(Duration::from_millis(1000));
        for (writer, before) in (2..5).zip(before) {
            let after = std::fs::read_to_string(acknowledged(&path, writer)).unwrap().len();
            assert!(after > before, "{mode}: process {writer} goes on");
        }
        // The next owner is one of them.
        for member in members.drain(..2) {
            member.kill();
        }
        std::thread::sleep(Duration::from_millis(300));
        members.into_iter().for_each(Process::end);
        let (_vfs, db) = open(&path);
        assert!(check(&db, &path, 1..5) > 20, "{mode}");
    }
}

/// Two members that have used the log, of an owner that is killed.
fn orphans(directory: &tempfile::TempDir) -> (std::path::PathBuf, Vfs, Connection, Process) {
    let (path, vfs, db) = create(directory, "wal");
    drop((db, vfs));
    let owner = Process::start("obey", &path, 1);
    let (vfs, db) = open(&path);
    let mut other = Process::start("obey", &path, 2);
    db.execute_batch("INSERT INTO t VALUES(0, 1, 'a')").unwrap();
    other.run("INSERT INTO t VALUES(2, 1, 'a')");
    owner.kill();
    (path, vfs, db, other)
}

/// Commits that were made litefoot's way, and not by SQLite's own protocol.
fn commits(db: &Connection) -> i64 {
    metric_or_zero(db, "commits_deltas") + metric_or_zero(db, "commits_pages")
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn members_in_wal_mode_go_on_where_a_new_process_is_the_next_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db, mut other) = orphans(&directory);
    let mut next = Process::start("obey", &path, 3);
    next.run("INSERT INTO t VALUES(3, 1, 'b')");
    let before = commits(&db);
    db.execute_batch("INSERT INTO t VALUES(0, 2, 'b')").unwrap();
    other.run("INSERT INTO t VALUES(2, 2, 'b')");
    assert_eq!((count(&db), commits(&db) - before), (5, 2));
    for process in [next, other] {
        process.end();
    }
}

/// SQLite asks once more where the file is when it closes it. Each process of an application of short-lived ones closes behind an owner.
#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_member_closes_without_an_error_behind_its_owner() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("obey", &path, 1);
        let (_vfs, db) = open(&path);
        db.execute_batch("INSERT INTO t VALUES(0, 1, 'a')").unwrap();
        owner.kill();
        clear_last_error();
        drop(db);
        assert_eq!(last_error(), None, "{mode}");
        assert_eq!(count(&Connection::open(&path).unwrap()), 1, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn members_in_wal_mode_go_on_where_one_of_them_is_the_next_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db, mut other) = orphans(&directory);
    other.run("INSERT INTO t VALUES(2, 2, 'b')");
    let before = commits(&db);
    db.execute_batch("INSERT INTO t VALUES(0, 2, 'b')").unwrap();
    let mut another = Process::start("obey", &path, 3);
    another.run("INSERT INTO t VALUES(3, 1, 'b')");
    assert_eq!((count(&db), commits(&db) - before), (5, 2));
    for process in [another, other] {
        process.end();
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_member_that_has_slept_through_an_owner_sees_what_was_committed_and_brought_home() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owner = Process::start("obey", &path, 1);
        let (_vfs, db) = open(&path);
        assert_eq!(count(&db), 0, "{mode}: and SQLite keeps the pages");
        owner.run("INSERT INTO t VALUES(1, 1, 'a'), (1, 2, 'b')");
        // The next owner finds the log as the first one has found it.
        owner.run("PRAGMA wal_checkpoint(TRUNCATE)");
        owner.kill();
        let next = Process::start("obey", &path, 2);
        assert_eq!(count(&db), 2, "{mode}");
        db.execute_batch("INSERT INTO t VALUES(0, 1, 'c')").unwrap();
        assert_eq!(check(&db, &path, 0..0), 0, "{mode}");
        next.end();
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_member_gives_an_owner_up_that_is_stopped_and_goes_on_with_it_later() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let owner = Process::start("obey", &path, 1);
        let (_vfs, db) = open(&path);
        db.execute_batch("INSERT INTO t VALUES(2, 1, 'a')").unwrap();
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 2, 'b')").unwrap();
        signal(&owner, "-STOP");
        db.busy_timeout(Duration::from_millis(300)).unwrap();
        let lost = db.execute_batch("COMMIT").unwrap_err();
        assert!(lost.to_string().contains("disk I/O error"), "{mode}: {lost}");
        let _ = db.execute_batch("ROLLBACK");
        for sql in ["INSERT INTO t VALUES(2, 3, 'c')", "SELECT count(*) FROM t"] {
            let refused = db.query_row(sql, [], |_| Ok(())).unwrap_err();
            // In WAL mode nobody can wait for a lock to read.
            let expected = if mode == "wal" { ErrorCode::SystemIoFailure } else { ErrorCode::DatabaseBusy };
            assert_eq!(refused.sqlite_error_code(), Some(expected), "{mode}: {sql}: {refused}");
        }
        let mut options = Options::default();
        options.set_list("sharing=group").unwrap();
        let another = Vfs::builder("another").options(options).register().unwrap();
        let refused = another.open(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("is stopped"), "{mode}: {refused}");
        signal(&owner, "-CONT");
        if mode == "wal" {
            // Its connection has to be opened again.
            drop(db);
            owner.end();
            continue;
        }
        db.busy_timeout(Duration::from_secs(20)).unwrap();
        db.execute_batch("INSERT INTO t VALUES(2, 4, 'd')").unwrap();
        // The commit that was under way may be there, or not; what was refused is not.
        let found: i64 =
            db.query_row("SELECT count(*) FROM t WHERE n IN (1, 3, 4)", [], |row| row.get(0)).unwrap();
        assert_eq!(found, 2, "{mode}");
        owner.end();
        assert!(count(&db) >= 2, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn an_owner_that_ends_in_order_lets_transactions_end_and_nobody_fails() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, mode);
        drop((db, vfs));
        let mut owners = vec![Process::start("obey", &path, 1)];
        let mut member = Process::start("obey", &path, 2);
        let mut writers: Vec<_> = (3..5).map(|writer| Process::start("write", &path, writer)).collect();
        for n in 0..3 {
            // In the middle of a transaction the owner ends. It waits.
            for sql in [
                "PRAGMA busy_timeout=20000".to_owned(),
                "BEGIN IMMEDIATE".to_owned(),
                format!("INSERT INTO t VALUES(2, {}, zeroblob(5000))", n + 1),
            ] {
                member.tell(&sql);
                assert_eq!(member.await_answer(), "done", "{mode}: {sql}");
            }
            let mut owner = owners.remove(0);
            owner.end_input();
            std::thread::sleep(Duration::from_millis(100));
            member.tell("COMMIT");
            assert_eq!(member.await_answer(), "done", "{mode}, {n}");
            assert!(owner.child.wait().unwrap().success());
            // The next owner is one of those that write, or this one: it ends, too.
            let next = writers.remove(0);
            writers.push(Process::start("write", &path, 5 + n));
            owners.push(Process::start("obey", &path, 100 + n));
            let said = next.end_with_output();
            assert!(!said.contains("failed: "), "{mode}, {n}: {said}");
        }
        for process in writers.into_iter().chain(owners).chain([member]) {
            let said = process.end_with_output();
            assert!(!said.contains("failed: "), "{mode}: {said}");
        }
        let (_vfs, db) = open(&path);
        assert!(check(&db, &path, 1..9) > 3, "{mode}");
        let committed: i64 =
            db.query_row("SELECT count(*) FROM t WHERE writer = 2", [], |row| row.get(0)).unwrap();
        assert_eq!(committed, 3, "{mode}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_group_whose_processes_end_in_order_leaves_the_database_file_alone_and_complete() {
    for mode in MODES {
        for owner_is_in_transaction in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (path, vfs, db) = create(&directory, mode);
            drop((db, vfs));
            let mut owner = Process::start("obey", &path, 1);
            let mut member = Process::start("obey", &path, 2);
            owner.run("INSERT INTO t VALUES(1, 1, zeroblob(5000))");
            member.run("INSERT INTO t VALUES(2, 1, zeroblob(5000))");
            if owner_is_in_transaction {
                owner.run("BEGIN; INSERT INTO t VALUES(1, 2, 'a')");
            }
            owner.end();
            // It has no transaction any more, and is no owner.
            member.end();
            let left: Vec<_> = ["-wal", "-commits", "-journal"]
                .map(|suffix| format!("{}{suffix}", path.display()))
                .into_iter()
                .filter(|path| std::fs::metadata(path).is_ok())
                .collect();
            assert!(left.is_empty(), "{mode}: {left:?}");
            let copy = directory.path().join("copy.db");
            std::fs::copy(&path, &copy).unwrap();
            assert_eq!(count(&Connection::open(copy).unwrap()), 2, "{mode}");
        }
    }
}

/// SQLite makes no checkpoint where connections are closed at once: each meets the locks of the others. Here it never does.
#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn a_group_that_ends_without_a_checkpoint_leaves_its_commits_to_stock_sqlite() {
    for first_to_end in [Some(0), Some(1), None] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create(&directory, "wal");
        drop((db, vfs));
        let mut processes = [1, 2].map(|writer| {
            let mut command = with_options("sharing=group&commit_log=deltas");
            command.env(KEEPS_LOG, "1");
            Process::start_by(command, "obey", &path, writer)
        });
        for n in 0..50 {
            for (writer, process) in processes.iter_mut().enumerate() {
                process.run(&format!("INSERT INTO t VALUES({writer}, {n}, 'a')"));
            }
        }
        if let Some(first) = first_to_end {
            processes[first].end_input();
            assert!(processes[first].child.wait().unwrap().success());
        }
        processes.iter_mut().for_each(Process::end_input);
        processes.into_iter().for_each(Process::end);
        // What any other program finds.
        let copy = directory.path().join("copy.db");
        for suffix in ["", "-wal"] {
            let name = |path: &std::path::Path| format!("{}{suffix}", path.display());
            std::fs::copy(name(&path), name(&copy)).unwrap();
        }
        assert_eq!(count(&Connection::open(copy).unwrap()), 100, "{first_to_end:?}");
        assert_eq!(count(&open(&path).1), 100, "{first_to_end:?}");
    }
}

#[test]
#[ignore = "processes that die beside others: cargo xtask members"]
fn nobody_is_refused_because_of_a_member_that_has_died() {
    for mode in ["delete", "persist", "truncate"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create(&directory, mode);
        db.busy_timeout(Duration::ZERO).unwrap();
        db.execute_batch(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 4000) \
             INSERT INTO t SELECT 1, n, randomblob(1000) FROM c; UPDATE sums SET n = 571",
        )
        .unwrap();
        for n in 0..6 {
            let mut member = Process::start("obey", &path, 2);
            member.run("PRAGMA cache_size=20; BEGIN IMMEDIATE; UPDATE t SET data = randomblob(1000)");
            // What it has sent last waits in its stream when it dies.
            member.tell("UPDATE t SET data = randomblob(1000)");
            std::thread::sleep(Duration::from_millis(5 * n));
            member.kill();
            assert_eq!(count(&db), 4000, "{mode}, {n}");
            let written = db.execute_batch("UPDATE sums SET n = n");
            assert!(written.is_ok(), "{mode}, {n}: {written:?}");
        }
    }
}

/// Lets a process have no more open files than so many, and answers how many it might have.
fn limit_open_files(process: &Process, most: libc::rlim_t) -> libc::rlim_t {
    let (pid, mut former) = (process.child.id() as libc::pid_t, libc::rlimit { rlim_cur: 0, rlim_max: 0 });
    // SAFETY: a process of this test's own, and structures that outlive the calls.
    let results = unsafe {
        let asked = libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut former);
        let limit = libc::rlimit { rlim_cur: most, ..former };
        [asked, libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())]
    };
    assert_eq!(results, [0, 0]);
    former.rlim_cur
}

#[test]
fn an_owner_that_has_no_descriptor_for_a_moment_takes_members_behind_that() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create(&directory, "delete");
    drop((db, vfs));
    let owner = Process::start("obey", &path, 1);
    let mut member = Process::start("obey", &path, 2);
    member.run("INSERT INTO t VALUES(2, 0, 'a')");
    let most = limit_open_files(&owner, 0);
    let program = Command::new(std::env::current_exe().unwrap());
    let mut late = Process::begin_by(program, "obey", &path, 3);
    std::thread::sleep(Duration::from_millis(500));
    limit_open_files(&owner, most);
    late.await_line("ready");
    late.run("INSERT INTO t VALUES(3, 0, 'a')");
    // The system had a descriptor for one of them before.
    let last = Process::start("obey", &path, 4);
    assert!(owner.has_open(&path) && !late.has_open(&path) && !last.has_open(&path), "they are members");
    for process in [last, late, member, owner] {
        process.end();
    }
}
