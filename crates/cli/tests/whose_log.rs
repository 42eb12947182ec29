//! Databases that are removed and made anew after their program was killed.
//!
//! These tests need `liblitefoot.so` beside the program under test; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use support::{litefoot, output_of, stderr_of, stdout_of, succeed};

/// Rows of a table, one transaction each; then the program is killed.
const KILLED: &str = "
import os, sqlite3, sys
db = sqlite3.connect('app.db', isolation_level=None)
db.execute('PRAGMA journal_mode=' + sys.argv[1])
db.execute('CREATE TABLE old(n INTEGER PRIMARY KEY, filler)')
for n in range(50):
    db.execute('INSERT INTO old VALUES(?, ?)', (n, 'x' * 500))
os.kill(os.getpid(), 9)
";

const ANEW: &str = "
import sqlite3
db = sqlite3.connect('app.db')
db.execute('CREATE TABLE new(n)')
db.execute('INSERT INTO new VALUES(7)')
db.commit()
print(db.execute('SELECT name FROM sqlite_schema').fetchall(), db.execute('PRAGMA integrity_check').fetchall())
db.close()
";

fn names(directory: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(directory).unwrap().map(name).collect()
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_database_made_anew_after_a_crash_gets_nothing_of_the_one_that_was_removed() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        // Deltas would lie in another log.
        let arguments = ["run", "--set", "commit_log=pages", "--", "python3", "-c", KILLED, mode];
        let killed = output_of(litefoot(directory, &arguments));
        assert!(!killed.status.success() && directory.join("app.db-wal").exists(), "{mode}");
        let log = std::fs::read(directory.join("app.db-wal")).unwrap();
        std::fs::remove_file(directory.join("app.db")).unwrap();
        let output = output_of(litefoot(directory, &["run", "--", "python3", "-c", ANEW]));
        assert!(stderr_of(&output).contains("kept as"), "{mode}: {}", stderr_of(&output));
        assert_eq!(stdout_of(output, mode), "[('new',)] [('ok',)]\n", "{mode}");
        assert!(std::fs::read(directory.join("app.db-wal.set-aside-1")).unwrap() == log, "{mode}");
        let left = names(directory);
        assert!(left.iter().all(|name| name == "app.db" || name.contains(".set-aside-")), "{mode}: {left:?}");
        let mut stock = Command::new("sqlite3");
        stock.args(["app.db", "PRAGMA integrity_check; SELECT n FROM new"]).current_dir(directory);
        assert_eq!(stdout_of(output_of(stock), mode), "ok\n7\n", "{mode}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_database_that_was_moved_with_its_log_after_a_crash_recovers() {
    for copied in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        output_of(litefoot(directory, &["run", "--", "python3", "-c", KILLED, "delete"]));
        for suffix in ["", "-wal"] {
            let from = directory.join(format!("app.db{suffix}"));
            let to = directory.join(format!("moved.db{suffix}"));
            if copied {
                std::fs::copy(from, to).unwrap();
            } else {
                std::fs::rename(from, to).unwrap();
            }
        }
        let count = succeed(
            directory,
            &[
                "run",
                "--",
                "python3",
                "-c",
                "import sqlite3; print(sqlite3.connect('moved.db').execute('SELECT count(*) FROM old').fetchone()[0])",
            ],
        );
        assert_eq!(count, "50\n", "copied: {copied}");
        assert!(!names(directory).iter().any(|name| name.contains(".set-aside-")), "copied: {copied}");
    }
}
