//! Processes in other network namespaces, as those of several containers are: they see no name of the others, and the files.

use crate::kit::{Process, count, create_with, open_with};
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const BY_FILE: &str = "sharing=group&group_socket=file";

/// A command that runs a program of this test in a network namespace of its own; `None`, with a message, where the system makes none.
fn container(list: &str) -> Option<Command> {
    for options in ["-n", "-rn"] {
        let made = Command::new("unshare").args([options, "true"]).output();
        if made.is_ok_and(|made| made.status.success()) {
            let mut command = Command::new("unshare");
            command.arg(options).arg(std::env::current_exe().unwrap()).env("GROUP_OPTIONS", list);
            return Some(command);
        }
    }
    println!("skipped: no network namespace can be made here");
    None
}

fn socket(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-group", path.display()))
}

#[test]
fn a_file_leads_processes_of_other_containers_to_the_group() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _vfs, db) = create_with(&directory, mode, BY_FILE);
        let Some(command) = container(BY_FILE) else { return };
        let mut member = Process::start_by(command, "obey", &path, 1);
        member.run("INSERT INTO t VALUES(1, 1, 'from another container')");
        assert_eq!((count(&db), metric_or_zero(&db, "sharing_changes")), (1, 0), "{mode}: it is no stranger");
        assert!(socket(&path).exists());
        member.end();
        drop(db);
        // A thread for the member may have the database for a moment longer.
        let begun = Instant::now();
        while socket(&path).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{mode}: nothing is left");
            std::thread::yield_now();
        }
        // Without the file it would be one.
        let (_vfs, db) = open_with(&path, "sharing=group");
        db.execute_batch("DELETE FROM t").unwrap();
        let mut stranger = Process::start_by(container("sharing=group").unwrap(), "obey", &path, 2);
        stranger.run("INSERT INTO t VALUES(2, 1, 'from outside')");
        assert!(metric_or_zero(&db, "sharing_changes") > 0, "{mode}");
        stranger.end();
    }
}

#[test]
fn the_file_of_an_owner_that_was_killed_is_the_next_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (path, vfs, db) = create_with(&directory, "wal", BY_FILE);
    drop((db, vfs));
    let start = |writer| Some(Process::start_by(container(BY_FILE)?, "obey", &path, writer));
    let (Some(owner), Some(mut member)) = (start(1), start(2)) else { return };
    member.run("INSERT INTO t VALUES(2, 1, 'before')");
    owner.kill();
    assert!(socket(&path).exists());
    member.run("INSERT INTO t VALUES(2, 2, 'behind')");
    let (_vfs, db) = open_with(&path, BY_FILE);
    assert_eq!(count(&db), 2);
    member.run("INSERT INTO t VALUES(2, 3, 'together')");
    assert_eq!(count(&db), 3);
    member.end();
    drop(db);
    // This process has been the owner for a moment, and a thread of its own closes the database.
    let begun = Instant::now();
    while socket(&path).exists() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Another database has the name of one that is open: who opens it joins nobody.
#[test]
fn a_database_in_the_place_of_another_has_a_group_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _vfs, _db) = create_with(&directory, "delete", BY_FILE);
    let other = directory.path().join("other.db");
    let made = Connection::open(&other).unwrap();
    made.execute_batch("CREATE TABLE t(writer, n, data); INSERT INTO t VALUES(7, 7, 'another database')")
        .unwrap();
    drop(made);
    let away = directory.path().join("away");
    std::fs::create_dir(&away).unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("app.db") && entry.path() != socket(&path) {
            std::fs::rename(entry.path(), away.join(name)).unwrap();
        }
    }
    std::fs::rename(&other, &path).unwrap();
    let Some(command) = container(BY_FILE) else { return };
    let mut process = Process::start_by(command, "obey", &path, 1);
    process.run("INSERT INTO t SELECT 1, n, data FROM t WHERE writer = 7");
    process.end();
    assert_eq!(count(&Connection::open(&path).unwrap()), 2);
}
