//! `litefoot recover`, and what opening does with a commit log.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use support::{crashed, crashed_in, crashed_with, litefoot, run, stderr_of, succeed};

/// Copies a crashed database to `b.db`, later than its log: then the log waits to be applied.
fn copied_after_its_log(directory: &Path) {
    fs::copy(directory.join("a.db-commits"), directory.join("b.db-commits")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::copy(directory.join("a.db"), directory.join("b.db")).unwrap();
    let refused = run(directory, &["sql", "b.db", "DELETE FROM t"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("litefoot recover --apply "), "{}", stderr_of(&refused));
}

/// Stock SQLite writes a crashed database, which can only be read then. Answers why, and leaves its log as it was.
fn overtaken_by_stock(directory: &Path) -> String {
    let log = || fs::read(directory.join("a.db-commits")).unwrap();
    let before = log();
    let stock = rusqlite::Connection::open(directory.join("a.db")).unwrap();
    stock.execute_batch("INSERT INTO t(v) VALUES('other')").unwrap();
    drop(stock);
    let refused = run(directory, &["sql", "a.db", "SELECT v FROM t; INSERT INTO t(v) VALUES(7)"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("other"), "it can be read");
    assert_eq!(log(), before);
    stderr_of(&refused)
}

#[test]
fn what_waits_is_shown_exported_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed(directory);
    let shown = succeed(directory, &["recover", "a.db"]);
    assert!(
        shown.contains("3 committed transactions with 4 statements") && shown.contains("replays"),
        "{shown}"
    );
    assert!(shown.contains("first: INSERT INTO t(v) VALUES('first')"), "{shown}");
    assert!(shown.contains("last:  INSERT INTO t(v) VALUES(0.1) (and 1 more)"), "{shown}");
    let sql = succeed(directory, &["recover", "a.db", "--sql", "-"]);
    assert!(sql.contains("INSERT INTO t(v) VALUES('it''s the second');"), "{sql}");
    succeed(directory, &["recover", "a.db", "--sql", "out.sql"]);
    assert_eq!(fs::read_to_string(directory.join("out.sql")).unwrap(), sql);
    let again = run(directory, &["recover", "a.db", "--sql", "out.sql"]);
    assert!(stderr_of(&again).contains("out.sql"));
    let rows = succeed(directory, &["sql", "a.db", "SELECT count(*) || '|' || max(v) AS found FROM t"]);
    assert!(rows.contains("2|it's the second"), "{rows}");
    assert!(!directory.join("a.db-commits").exists());
    assert!(succeed(directory, &["recover", "a.db"]).contains("nothing waits"));
}

/// The rows of the table, as stock SQLite sees them.
fn rows(database: &Path) -> Vec<String> {
    let stock = rusqlite::Connection::open(database).unwrap();
    let mut statement = stock.prepare("SELECT CAST(v AS TEXT) FROM t").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn deltas_are_shown_and_recovered_and_then_nothing_waits() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed_with(directory, "deltas");
    assert_eq!(
        rows(&directory.join("a.db")),
        [""; 0],
        "stock SQLite sees the last checkpoint, and does no harm"
    );
    let shown = succeed(directory, &["recover", "a.db"]);
    assert!(
        shown.contains("3 committed transactions, as deltas") && shown.contains("applies them"),
        "{shown}"
    );
    let refused = run(directory, &["recover", "a.db", "--sql", "out.sql"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("cannot be told as SQL"), "{}", stderr_of(&refused));
    assert!(!directory.join("out.sql").exists());
    let log = fs::read(directory.join("a.db-commits")).unwrap();
    let found = succeed(directory, &["sql", "a.db", "SELECT count(*) || '|' || max(v) AS found FROM t"]);
    assert!(found.contains("2|it's the second"), "{found}");
    // A crash before the log was removed.
    fs::write(directory.join("a.db-commits"), log).unwrap();
    let shown = succeed(directory, &["recover", "a.db"]);
    assert_eq!(shown, "a.db-commits: nothing waits in it; opening the database removes it\n");
}

#[test]
fn deltas_of_a_rollback_journal_database_are_recovered_and_stock_goes_on_in_its_mode() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let database = directory.join("a.db");
        crashed_in(directory, mode, "deltas");
        assert_eq!(rows(&database), [""; 0], "{mode}: stock SQLite sees the last checkpoint");
        let shown = succeed(directory, &["recover", "a.db"]);
        assert!(shown.contains("3 committed transactions, as deltas"), "{mode}: {shown}");
        let log = fs::read(directory.join("a.db-commits")).unwrap();
        let checked = succeed(directory, &["check", "a.db"]);
        assert!(checked.contains("in order"), "{mode}: {checked}");
        let found = succeed(directory, &["sql", "a.db", "SELECT count(*) || '|' || max(v) AS found FROM t"]);
        assert!(found.contains("2|it's the second"), "{mode}: {found}");
        for gone in ["a.db-commits", "a.db-wal"] {
            assert!(!directory.join(gone).exists(), "{mode}: {gone}");
        }
        assert_eq!(rows(&database), ["it's the second", "0.1"], "{mode}");
        let stock = rusqlite::Connection::open(&database).unwrap();
        let is = |what: &str| stock.query_row(what, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(
            (is("PRAGMA journal_mode").as_str(), is("PRAGMA integrity_check").as_str()),
            ("delete", "ok")
        );
        drop(stock);
        // A crash before the log was removed.
        fs::write(directory.join("a.db-commits"), log).unwrap();
        let shown = succeed(directory, &["recover", "a.db"]);
        assert_eq!(shown, "a.db-commits: nothing waits in it; opening the database removes it\n");
    }
}

#[test]
fn a_rollback_journal_database_whose_deltas_wait_can_be_given_to_stock_or_applied_to_its_copy() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed_in(directory, "delete", "deltas");
    copied_after_its_log(directory);
    assert_eq!(succeed(directory, &["recover", "b.db", "--apply"]), "b.db: 3 transactions were applied\n");
    succeed(directory, &["release", "a.db"]);
    for name in ["a.db", "b.db"] {
        assert_eq!(rows(&directory.join(name)), ["it's the second", "0.1"], "{name}");
        let found = succeed(directory, &["sql", name, "SELECT count(*) || '|' || max(v) AS found FROM t"]);
        assert!(found.contains("2|it's the second"), "{name}: {found}");
        assert!(!directory.join(format!("{name}-commits")).exists(), "{name}");
    }
}

#[test]
fn a_rollback_journal_database_that_stock_has_written_is_kept_from_writing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed_in(directory, "delete", "deltas");
    let message = overtaken_by_stock(directory);
    assert!(message.contains("3 committed transactions wait in"), "{message}");
}

#[test]
fn deltas_are_applied_to_a_copy_without_its_times() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed_with(directory, "deltas");
    copied_after_its_log(directory);
    assert!(succeed(directory, &["recover", "b.db"]).contains("(--apply)"));
    let applied = succeed(directory, &["recover", "b.db", "--apply"]);
    assert_eq!(applied, "b.db: 3 transactions were applied\n");
    assert_eq!(rows(&directory.join("b.db")), ["it's the second", "0.1"]);
    let again = run(directory, &["recover", "b.db", "--apply"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing waits"));
}

#[test]
fn a_log_that_another_program_has_overtaken_lets_nobody_write_until_it_is_moved_away() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed(directory);
    let log = fs::read(directory.join("a.db-commits")).unwrap();
    let message = overtaken_by_stock(directory);
    assert!(message.contains("a.db-commits") && message.contains("litefoot recover"), "{message}");
    assert!(succeed(directory, &["recover", "a.db"]).contains("was changed by another program"));
    let unsure = run(directory, &["recover", "a.db", "--discard"]);
    assert_eq!(unsure.status.code(), Some(2));
    succeed(directory, &["recover", "a.db", "--discard", "--yes"]);
    assert_eq!(fs::read(directory.join("a.db-commits.1")).unwrap(), log);
    let rows = succeed(directory, &["sql", "a.db", "SELECT v FROM t"]);
    assert!(rows.contains("other"), "{rows}");
}

#[test]
fn a_file_that_is_no_commit_log_is_never_touched() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    crashed(directory);
    let log = fs::read(directory.join("a.db-commits")).unwrap();
    // One of a later version, with transactions in it, and a file of somebody's.
    let mut later = log.clone();
    later[8] += 1;
    for (name, content) in [("later.commits", later), ("thesis.txt", b"chapter one".to_vec())] {
        fs::write(directory.join(name), &content).unwrap();
        let uri = format!("file:a.db?commit_log_path={}", directory.join(name).display());
        let refused = run(directory, &["sql", &uri, "DELETE FROM t"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr_of(&refused).contains(name), "{}", stderr_of(&refused));
        let kept = run(directory, &["recover", "a.db", "--log", name, "--discard", "--yes"]);
        assert_eq!(kept.status.code(), Some(1));
        assert!(stderr_of(&kept).contains("not a commit log"), "{}", stderr_of(&kept));
        assert_eq!(fs::read(directory.join(name)).unwrap(), content);
        // Beside the database it can be moved away.
        fs::write(directory.join("a.db-commits"), &content).unwrap();
        assert!(succeed(directory, &["recover", "a.db"]).contains("no commit log that"));
        assert_eq!(run(directory, &["sql", "a.db", "DELETE FROM t"]).status.code(), Some(1));
        succeed(directory, &["recover", "a.db", "--discard", "--yes"]);
    }
    assert_eq!(fs::read(directory.join("a.db-commits.2")).unwrap(), b"chapter one");
    fs::write(directory.join("a.db-commits"), log).unwrap();
    succeed(directory, &["sql", "a.db", "SELECT * FROM t"]);
}

#[test]
fn nothing_is_moved_while_the_database_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "PRAGMA journal_mode=wal; CREATE TABLE t(v)"]);
    let mut child = litefoot(directory, &["sql", "file:a.db?commit_log=statements"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "INSERT INTO t VALUES(1); SELECT 'done';").unwrap();
    input.flush().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 4]).unwrap();
    let refused = run(directory, &["recover", "a.db", "--discard", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("open"), "{}", stderr_of(&refused));
    assert!(directory.join("a.db-commits").exists() && !directory.join("a.db-commits.1").exists());
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn wrong_input_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = run(directory.path(), &["recover", "missing.db"]);
    assert_ne!(missing.status.code(), Some(0));
    assert!(stderr_of(&missing).contains("missing.db"));
}
