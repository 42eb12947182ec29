//! Databases that are replaced while a program has them open, that knows nothing of litefoot.
//!
//! These tests need `liblitefoot.so` beside the program under test; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Owner, litefoot, output_of, stdout_of};

/// Runs statements as they come. `fork` makes a child that lives as long as this.
const PROGRAM: &str = "
import os, sqlite3, sys, time
parent = os.getpid()
db = sqlite3.connect('app.db', isolation_level=None)
for line in sys.stdin:
    for statement in line.split(';'):
        if statement.strip() == 'fork':
            if os.fork() == 0:
                while os.getppid() == parent:
                    time.sleep(0.01)
                os._exit(0)
            continue
        try:
            for row in db.execute(statement):
                print(*row, sep='|')
        except sqlite3.Error as error:
            print('error:', error)
    sys.stdout.flush()
db.close()
";
const ROWS: i64 = 50;

fn owner(directory: &Path, mode: &str, commit_log: &str) -> Owner {
    let option = format!("commit_log={commit_log}");
    let command = litefoot(directory, &["run", "--set", &option, "--", "python3", "-c", PROGRAM]);
    let mut owner = Owner::start(command, &format!("PRAGMA journal_mode={mode}"));
    owner.tell("CREATE TABLE old(n INTEGER PRIMARY KEY, v)");
    for n in 1..=ROWS {
        owner.tell(&format!("INSERT INTO old VALUES({n}, randomblob(500))"));
    }
    // Whatever becomes of its name, it has one more.
    fs::hard_link(directory.join("app.db"), directory.join("kept.db")).unwrap();
    owner
}

fn stock(directory: &Path, name: &str, sql: &str) -> String {
    let mut command = Command::new("sqlite3");
    command.args([name, sql]).current_dir(directory);
    stdout_of(output_of(command), sql)
}

fn make_other(directory: &Path) {
    stock(directory, "other.db", "CREATE TABLE new(n); INSERT INTO new VALUES(7)");
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_shell_sees_the_new_database_and_not_the_log_of_the_old_one() {
    for (mode, commit_log) in [
        ("delete", "pages"),
        ("truncate", "pages"),
        ("persist", "pages"),
        ("wal", "pages"),
        ("wal", "deltas"),
    ] {
        let what = format!("{mode} {commit_log}");
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let directory = directory.path();
        let mut owner = owner(directory, mode, commit_log);
        let log = inode(&directory.join("app.db-wal"));
        assert!(log.is_some(), "{what}");
        // A child that has the parent's descriptors, and never starts another program.
        owner.tell("fork");
        make_other(directory);
        fs::rename(directory.join("other.db"), directory.join("app.db")).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while inode(&directory.join("app.db-wal")) == log || directory.join("app.db-commits").exists() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(stock(directory, "app.db", ".tables"), "new\n", "{what}");
        let use_it = "PRAGMA journal_mode=wal; INSERT INTO new VALUES(8); PRAGMA wal_checkpoint; PRAGMA integrity_check";
        let used = stock(directory, "app.db", use_it);
        assert!(used.starts_with("wal\n0|") && used.ends_with("\nok\n"), "{what}: {used}");
        owner.tell("INSERT INTO old VALUES(1000, 'late')");
        owner.end();
        assert_eq!(stock(directory, "app.db", "SELECT * FROM new; PRAGMA integrity_check"), "7\n8\nok\n");
        let kept = stock(directory, "kept.db", "SELECT count(*) >= 50 FROM old; PRAGMA integrity_check");
        assert_eq!(kept, "1\nok\n", "{what}");
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["app.db", "kept.db"], "{what}");
    }
}

/// The new file is as it was, and the old one has all that was committed with its log, wherever that is.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn an_owner_that_is_killed_behind_a_rename_has_lost_nothing() {
    let mut places = std::collections::BTreeSet::new();
    for (mode, commit_log) in [("delete", "pages"), ("wal", "pages")] {
        for wait_us in [0, 200, 500, 1_000, 2_000, 4_000, 7_000, 12_000, 50_000] {
            let what = format!("{mode}, killed behind {wait_us} us");
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let directory = directory.path();
            let owner = owner(directory, mode, commit_log);
            make_other(directory);
            let other = fs::read(directory.join("other.db")).unwrap();
            fs::rename(directory.join("other.db"), directory.join("app.db")).unwrap();
            std::thread::sleep(Duration::from_micros(wait_us));
            owner.kill();
            assert!(fs::read(directory.join("app.db")).unwrap() == other, "{what}");
            let logs = ["app.db-wal", "app.db-wal.set-aside-1"];
            let found: Vec<_> = logs.iter().filter(|log| directory.join(log).exists()).collect();
            assert!(found.len() <= 1, "{what}: {found:?}");
            // Put together again, as the manual says.
            if let Some(log) = found.first() {
                fs::rename(directory.join(log), directory.join("kept.db-wal")).unwrap();
            }
            places.insert(found.first().map(|log| log.to_string()));
            let count = "import sqlite3; print(sqlite3.connect('kept.db').execute('SELECT count(*) FROM old').fetchone()[0])";
            let count = output_of(litefoot(directory, &["run", "--", "python3", "-c", count]));
            assert_eq!(stdout_of(count, &what), format!("{ROWS}\n"), "{what}");
            assert_eq!(stock(directory, "kept.db", "PRAGMA integrity_check"), "ok\n", "{what}");
        }
    }
    println!("the logs were at {places:?}");
}
