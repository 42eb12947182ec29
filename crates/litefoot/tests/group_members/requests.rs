//! A connection for each request: what a process keeps of its owner between its connections, and for how long.

use crate::kit::{MODES, Process, calls, check, count, create_with, there_are, with_options};
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::metric_or_zero;
use std::process::Command;
use std::time::{Duration, Instant};

/// Requests of each process.
const REQUESTS: i64 = 40;

/// The command of a process that joins by itself.
fn by_itself() -> Command {
    with_options("")
}

fn insert(n: i64) -> String {
    format!("INSERT INTO t VALUES(1, {n}, 'a')")
}

#[test]
fn a_request_is_few_messages_and_finds_what_was_committed_last() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create_with(&directory, mode, "");
        let mut member = Process::start_by(by_itself(), "obey anew", &path, 1);
        for n in 1..4 {
            member.run(&insert(n));
        }
        for n in 4..7 {
            let asked = calls(&db, || member.run(&insert(n)));
            assert_eq!(asked, 3, "{mode}: its turn, the exclusive lock, the commit");
            let asked = calls(&db, || member.run(&there_are(2 * n - 4)));
            assert_eq!(asked, 0, "{mode}: it reads by its seat what has come with the first reply");
            // What another process commits in between.
            db.execute("INSERT INTO t VALUES(0, ?1, 'b')", [n]).unwrap();
            let asked = calls(&db, || member.run(&there_are(2 * n - 3)));
            assert!(asked <= 1, "{mode}: {asked}");
        }
        member.end();
        assert_eq!(check(&db, &path, 0..2), 0);
    }
}

#[test]
fn a_request_in_wal_mode_asks_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create_with(&directory, "wal", "sharing=group");
    let mut member = Process::start_by(with_options("sharing=group"), "obey anew", &path, 1);
    (1..4).for_each(|n| member.run(&insert(n)));
    for n in 4..7 {
        let asked = calls(&db, || member.run(&insert(n)));
        // It was twice as many with the file, its companions and its log opened, and closed, call by call.
        assert!(asked < 16, "{asked}");
        db.execute("INSERT INTO t VALUES(0, ?1, 'b')", [n]).unwrap();
        member.run(&there_are(2 * n - 3));
    }
    member.end();
    // The log is left, and the mode, as one process does.
    db.execute_batch("PRAGMA journal_mode=delete; PRAGMA journal_mode=wal").unwrap();
    assert_eq!(count(&db), 9);
}

#[test]
fn requests_of_several_processes_find_what_was_acknowledged() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let list = if mode == "wal" { "sharing=group" } else { "" };
        let (path, _vfs, db) = create_with(&directory, mode, list);
        let mut members: Vec<Process> =
            [1, 2, 3].map(|number| Process::start_by(with_options(list), "obey anew", &path, number)).into();
        let mut rows = 0;
        for n in 0..REQUESTS {
            let turn = usize::try_from(n % 3).unwrap();
            members[turn].run(&format!("INSERT INTO t VALUES({turn}, {n}, randomblob(300))"));
            rows += 1;
            // One that has read before, and one that has written last.
            for reader in [(turn + 1) % 3, turn] {
                members[reader].run(&there_are(rows));
            }
            if n % 5 == 0 {
                db.execute("DELETE FROM t WHERE n = ?1", [n - 3]).unwrap();
                rows = count(&db);
                members[(turn + 2) % 3].run(&there_are(rows));
            }
        }
        members.into_iter().for_each(Process::end);
        assert_eq!(count(&db), rows, "{mode}");
    }
}

#[test]
fn the_file_is_given_back_soon_behind_the_last_connection() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create_with(&directory, "delete", "");
    let mut member = Process::start_by(by_itself(), "obey anew", &path, 1);
    (0..3).for_each(|n| member.run(&insert(n)));
    let threads = |member: &Process| {
        let named = |name: &String| ["litefoot-lent", "litefoot-retain"].contains(&name.as_str());
        member.threads().iter().filter(|name| named(name)).count()
    };
    // A thread that has just been started has no name yet.
    let await_both = |member: &mut Process| {
        let begun = Instant::now();
        while threads(member) < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60), "a file, and who gives it back");
            member.run("DELETE FROM t WHERE n < 0");
        }
    };
    await_both(&mut member);
    let begun = Instant::now();
    while threads(&member) > 0 || member.open_descriptors(&path) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Also what it has kept is gone, and the next request begins anew.
    db.execute_batch("INSERT INTO t VALUES(0, 0, 'b'); DELETE FROM t WHERE n = 2").unwrap();
    member.run(&there_are(3));
    member.run(&insert(2));
    await_both(&mut member);
    member.end();
}

#[test]
fn an_owner_without_a_connection_stays_the_owner_while_others_keep_its_file() {
    const SLOW: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT max(i) FROM n, t";
    for list in ["", "sharing=group"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create_with(&directory, "delete", list);
        db.execute("INSERT INTO t VALUES(0, 0, 'b')", []).unwrap();
        drop((db, vfs));
        let start = |number| Process::start_by(with_options(list), "obey anew", &path, number);
        let (mut owner, mut member) = (start(1), start(2));
        owner.tell(SLOW);
        while owner.open_descriptors(&path) == 0 {
            std::thread::yield_now();
        }
        (1..4).for_each(|n| member.run(&insert(n)));
        assert_eq!(owner.await_answer(), "done");
        // No connection is open now, in neither of them.
        for n in 4..7 {
            assert!(owner.open_descriptors(&path) > 0 && !member.has_open(&path), "{list}: {n}");
            member.run(&insert(n));
            owner.run(&there_are(n + 1));
        }
        let begun = Instant::now();
        while owner.open_descriptors(&path) + member.open_descriptors(&path) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{list}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Nothing is left that another program would have to bring home.
        let stock = Connection::open(&path).unwrap();
        assert_eq!(count(&stock), 7, "{list}");
        owner.end();
        member.end();
    }
}

#[test]
fn a_request_behind_the_death_of_the_owner_finds_what_the_next_one_has() {
    for mode in ["delete", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, vfs, db) = create_with(&directory, mode, "");
        drop((db, vfs));
        let mut owner = Process::start_by(by_itself(), "obey", &path, 1);
        let mut members = [2, 3].map(|number| Process::start_by(by_itself(), "obey anew", &path, number));
        for n in 0..5 {
            // Both keep pages of this owner's, which counts its commits as the next one does.
            members[0].run(&insert(3 * n));
            members[1].run(&there_are(3 * n + 1));
            let next = Process::start_by(by_itself(), "obey", &path, 1);
            owner.run(&insert(3 * n + 1));
            owner.kill();
            owner = next;
            members[1].run(&insert(3 * n + 2));
            members[0].run(&there_are(3 * n + 3));
        }
        owner.end();
        members.into_iter().for_each(Process::end);
    }
}

#[test]
fn a_forked_child_has_nothing_of_what_its_parent_keeps() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, db) = create_with(&directory, "delete", "");
    let mut member = Process::start_by(by_itself(), "obey anew", &path, 1);
    (0..3).for_each(|n| member.run(&insert(n)));
    // The child opens the database, and ends, while its parent keeps the file.
    let asked = calls(&db, || member.run("fork INSERT INTO t VALUES(7, 7, 'c')"));
    assert!(asked > 3, "the child is a member of its own: {asked}");
    member.run(&there_are(4));
    let asked = calls(&db, || member.run(&insert(3)));
    assert_eq!(asked, 3, "its stream still lives");
    member.end();
    assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (5, 0), "nobody is a stranger");
}

#[test]
fn requests_one_behind_the_other_need_no_busy_timeout() {
    for mode in MODES {
        for stays in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let list = if mode == "wal" { "sharing=group" } else { "" };
            let (path, _vfs, db) = create_with(&directory, mode, list);
            let mut members =
                [1, 2].map(|number| Process::start_by(with_options(list), "obey anew", &path, number));
            // The owner serves its members also where it has no connection of its own.
            let db = Some(db).filter(|_| stays);
            for n in 0..60 {
                let turn = n % 2;
                members[turn].run(&format!("PRAGMA busy_timeout=0; {}", insert(n as i64)));
                members[1 - turn].run(&format!("PRAGMA busy_timeout=0; {}", there_are(n as i64 + 1)));
                if n % 10 == 0 {
                    let sql = "PRAGMA busy_timeout=0; BEGIN; SELECT count(*) FROM t; UPDATE t SET data = 'b'; COMMIT";
                    members[turn].run(sql);
                }
            }
            members.into_iter().for_each(Process::end);
            drop(db);
        }
    }
}
