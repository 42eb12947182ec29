//! Moving in and out: `litefoot adopt` and `litefoot release`.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Owner, Watchdog, finish, litefoot, run, snapshot, stderr_of, stdout_of, succeed};

/// A database that stock SQLite has made, and has closed.
fn stock(directory: &Path, sql: &str) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(directory.join("a.db")).unwrap();
    db.execute_batch(sql).unwrap();
    db
}

/// A database that stock SQLite was using when it died: what lies beside it is there, too.
fn crashed(directory: &Path, sql: &str) {
    let elsewhere = tempfile::tempdir().unwrap();
    let db = stock(elsewhere.path(), sql);
    for (path, bytes) in snapshot(elsewhere.path()) {
        fs::write(directory.join(path.file_name().unwrap()), bytes).unwrap();
    }
    drop(db);
}

fn names(directory: &Path) -> Vec<String> {
    snapshot(directory).keys().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

const WAL: &str = "PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES(1)";
const HOT: &str = "CREATE TABLE t(a); INSERT INTO t VALUES(1); PRAGMA cache_size=5; BEGIN; \
                   INSERT INTO t SELECT zeroblob(4000) FROM (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL \
                   SELECT x+1 FROM c LIMIT 50) SELECT x FROM c)";

#[test]
fn adopting_writes_nothing_until_it_is_told_to() {
    for (sql, told, complete) in [
        ("CREATE TABLE t(a); INSERT INTO t VALUES(1)", "Nothing needs to be changed", true),
        ("PRAGMA journal_mode=persist; CREATE TABLE t(a)", "Nothing needs to be changed", true),
        ("", "Nothing needs to be changed", true),
        (WAL, "wait in its -wal", false),
        (HOT, "which was cut off, is rolled back", false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crashed(directory, sql);
        let before = snapshot(directory);
        let shown = succeed(directory, &["adopt", "a.db"]);
        assert!(shown.contains(told), "{sql}: {shown}");
        assert_eq!(shown.contains("adopt a.db --yes"), !complete, "{shown}");
        assert_eq!(shown.contains("litefoot run -- PROGRAM"), complete, "{shown}");
        let shown = succeed(directory, &["adopt", "a.db", "--journal", "wal"]);
        assert_eq!(shown.contains("becomes WAL"), !sql.contains("wal"), "{shown}");
        assert!(shown.contains("adopt a.db --journal wal --yes"), "{shown}");
        assert_eq!(snapshot(directory), before, "{sql}");
    }
}

#[test]
fn adopting_recovers_checks_and_leaves_a_plain_database() {
    for (sql, journal, mode) in
        [(WAL, "keep", "wal"), (HOT, "keep", "delete"), (HOT, "wal", "wal"), (WAL, "wal", "wal")]
    {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crashed(directory, sql);
        let shown = succeed(directory, &["adopt", "a.db", "--journal", journal, "--yes"]);
        assert!(shown.contains("integrity check: in order") && shown.contains("adopted"), "{shown}");
        assert!(!names(directory).iter().any(|name| name.ends_with("-wal") || name.ends_with("-journal")));
        let db = stock(directory, "");
        let rows: (String, i64, i64) = db
            .query_row("SELECT journal_mode, count(*), max(a) FROM pragma_journal_mode, t", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert_eq!(rows, (mode.to_owned(), 1, 1), "{sql} {journal}");
    }
}

#[test]
fn a_database_that_is_not_sound_is_not_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    drop(stock(directory, "CREATE TABLE t(a); CREATE INDEX i ON t(a); INSERT INTO t VALUES('findme')"));
    let sound = fs::read(directory.join("a.db")).unwrap();
    // In the table, not in the index, which comes later: the two differ then.
    let mut damaged = sound.clone();
    let at = damaged.windows(6).position(|bytes| bytes == b"findme").unwrap();
    damaged[at] ^= 1;
    let mut cut = sound;
    cut.truncate(cut.len() - 100);
    for (bytes, told) in [(damaged, "missing from index i"), (cut, "not a whole number of pages")] {
        fs::write(directory.join("a.db"), bytes).unwrap();
        let before = snapshot(directory);
        let output = run(directory, &["adopt", "a.db", "--journal", "wal", "--yes"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr_of(&output).contains("a.db: cannot be adopted like this"), "{}", stderr_of(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains(told));
        assert_eq!(snapshot(directory), before);
    }
}

#[test]
fn dangling_foreign_keys_are_noted_and_in_nobodys_way() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE p(a PRIMARY KEY); CREATE TABLE c(a REFERENCES p); PRAGMA foreign_keys=0; \
               INSERT INTO c VALUES(1)";
    drop(stock(directory.path(), sql));
    let shown = succeed(directory.path(), &["adopt", "a.db", "--yes"]);
    assert!(shown.contains("row 1 of c refers to a row of p") && shown.contains("adopted"), "{shown}");
}

/// A check of the table's that takes SQLite seconds for each row.
const SLOW: &str = "CREATE TABLE t(a CHECK(length(hex(zeroblob(a))) >= 0)); PRAGMA ignore_check_constraints=1; \
                    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 100000) \
                    INSERT INTO t SELECT 5000000 FROM c";

#[test]
fn ctrl_c_leaves_the_database_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    drop(stock(directory, SLOW));
    let before = snapshot(directory);
    let mut child = litefoot(directory, &["adopt", "a.db", "--journal", "wal", "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("becomes WAL")));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    assert_eq!(snapshot(directory), before);
}

#[test]
fn bad_input_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text.db"), "no database").unwrap();
    for command in ["adopt", "release"] {
        for (arguments, code, message) in [
            (&[command, "missing.db"][..], 1, "missing.db: no such file"),
            (&[command, "text.db"], 1, "text.db: is not a SQLite database"),
            (&[command, "."], 1, "Name a database file"),
            (&[command, "missing.db", "--journal", "off"], 2, "--journal"),
            (&[command], 2, "DATABASE"),
        ] {
            let output = run(directory, arguments);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}");
            assert!(stderr_of(&output).contains(message), "{arguments:?}: {}", stderr_of(&output));
        }
    }
}

#[test]
fn a_database_in_use_is_left_alone_and_its_owner_named() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let owner = Owner::start(litefoot(directory, &["sql", "a.db"]), "CREATE TABLE t(a)");
    for arguments in [&["adopt", "a.db", "--yes"][..], &["release", "a.db"]] {
        let output = run(directory, arguments);
        assert_eq!(output.status.code(), Some(1));
        let message = stderr_of(&output);
        let process = format!("process {} (litefoot) has this database open", owner.id());
        assert!(message.contains(&process) && message.contains("Close the other program"), "{message}");
    }
    owner.end();
}

#[test]
fn a_released_database_is_one_file() {
    for (sql, arguments, mode) in [
        (WAL, &["release", "a.db"][..], "wal"),
        (WAL, &["release", "a.db", "--journal", "delete"], "delete"),
        (HOT, &["release", "a.db"], "delete"),
        (
            "PRAGMA journal_mode=persist; CREATE TABLE t(a); INSERT INTO t VALUES(1)",
            &["release", "a.db"],
            "delete",
        ),
        ("CREATE TABLE t(a); INSERT INTO t VALUES(1)", &["release", "a.db", "--journal-mode", "wal"], "wal"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crashed(directory, sql);
        let said = succeed(directory, arguments);
        assert!(said.starts_with("a.db: complete, "), "{said}");
        assert_eq!(names(directory), ["a.db"], "{sql}");
        // A copy of the file alone is the database.
        fs::copy(directory.join("a.db"), directory.join("b.db")).unwrap();
        let copy = rusqlite::Connection::open(directory.join("b.db")).unwrap();
        let rows: (String, i64) = copy
            .query_row("SELECT journal_mode, max(a) FROM pragma_journal_mode, t", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(rows, (mode.to_owned(), 1));
    }
}

#[test]
fn a_log_that_was_not_finished_is_told_and_released() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    drop(stock(directory, "CREATE TABLE t(a); INSERT INTO t VALUES(1)"));
    fs::write(directory.join("a.db-wal.new"), [1; 9000]).unwrap();
    let said = succeed(directory, &["check", "a.db"]);
    assert!(said.contains("in order") && said.contains("a.db-wal.new is left of"), "{said}");
    succeed(directory, &["release", "a.db"]);
    assert_eq!(names(directory), ["a.db"]);
    assert_eq!(succeed(directory, &["check", "a.db"]), "a.db: in order\n");
}

#[test]
fn what_a_killed_owner_has_left_is_brought_home() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let sql = format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)"
        );
        Owner::start(litefoot(directory, &["sql", "a.db"]), &sql).kill();
        assert!(names(directory).len() > 1);
        succeed(directory, &["release", "a.db"]);
        assert_eq!(names(directory), ["a.db"], "{mode}");
        let count =
            Command::new("sqlite3").args(["a.db", "SELECT sum(a) FROM t"]).current_dir(directory).output();
        match count {
            Ok(output) => assert_eq!(stdout_of(output, "sqlite3"), "3\n"),
            Err(_) => eprintln!("skipped: there is no sqlite3"),
        }
    }
}
