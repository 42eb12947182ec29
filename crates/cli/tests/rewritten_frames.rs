//! SQLite before 3.52 writes wrong checksums into its write-ahead log after a transaction that was spilled, changed what was
//! spilled once more, and took that back (`ROLLBACK TO`): after a crash that transaction and all after it are lost, although
//! they were acknowledged at `synchronous=FULL`. On litefoot they are there.
//!
//! These tests need `liblitefoot.so` beside the program under test, and the system's `sqlite3`.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{finish, litefoot, output_of, stdout_of, succeed};

const TRANSACTION: &str = "PRAGMA cache_size=5;
PRAGMA cache_spill=5;
BEGIN;
INSERT INTO u VALUES(2,'second');
SAVEPOINT s;
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<60) INSERT INTO t SELECT n, zeroblob(3000) FROM c;
UPDATE t SET b=zeroblob(3001);
ROLLBACK TO s;
RELEASE s;
INSERT INTO u VALUES(3,'third');
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<5) INSERT INTO t SELECT n, zeroblob(3000) FROM c;
COMMIT;
INSERT INTO u VALUES(4,'fourth');
";
const SCHEMA: &str = "PRAGMA journal_mode=wal;
CREATE TABLE t(a INTEGER PRIMARY KEY, b);
CREATE TABLE u(a INTEGER PRIMARY KEY, b);
INSERT INTO u VALUES(1,'first');
PRAGMA wal_checkpoint(TRUNCATE);
";
const ALL: &str = "first,second,third,fourth";
const ASK: &str = "SELECT group_concat(b) FROM u";

/// The command's answer to a script.
fn feed(mut command: Command, script: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    stdout_of(finish(child), "the shell")
}

/// The files as a crash after the last commit leaves them are in `copy`.
fn crash(directory: &Path, shell: Command) {
    let script = format!("{SCHEMA}{TRANSACTION}.shell mkdir copy; cp a.db* copy/\n");
    feed(shell, &script);
    assert!(directory.join("copy/a.db").exists());
}

fn sqlite3(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("sqlite3");
    command.args(arguments).current_dir(directory);
    command
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn nothing_is_lost_after_a_crash() {
    for set in ["commit_log=statements", "commit_log=pages"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crash(directory, litefoot(directory, &["run", "--set", set, "--", "sqlite3", "a.db"]));
        let answer = succeed(&directory.join("copy"), &["run", "--", "sqlite3", "a.db", ASK]);
        assert_eq!(answer.trim(), ALL, "{set}");
    }
    // The system's SQLite by itself, to see that the test is one: it loses three of four, where it is old enough.
    let version = stdout_of(output_of(sqlite3(Path::new("."), &["--version"])), "sqlite3");
    if version.starts_with("3.40.") {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crash(directory, sqlite3(directory, &["a.db"]));
        let answer = stdout_of(output_of(sqlite3(&directory.join("copy"), &["a.db", ASK])), "sqlite3");
        assert_eq!(answer.trim(), "first");
    }
}

/// The index of the log goes with the last connection that uses it; the next one makes it from the log in memory.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn nothing_is_lost_when_the_index_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // Another connection keeps the database open without looking at it.
    let script = format!(
        "{SCHEMA}{TRANSACTION}.dbconfig no_ckpt_on_close on\n.connection 1\n.open a.db\n.connection close 0\n{ASK};\n"
    );
    let shell = litefoot(directory, &["run", "--set", "commit_log=pages", "--", "sqlite3", "a.db"]);
    let answer = feed(shell, &script);
    assert_eq!(answer.lines().last().unwrap(), ALL, "{answer}");
    assert_eq!(succeed(directory, &["run", "--", "sqlite3", "a.db", ASK]).trim(), ALL);
}
