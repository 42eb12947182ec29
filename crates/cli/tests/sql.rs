//! `litefoot sql`, `stat` and `check` as a user meets them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::process::Stdio;
use support::{Watchdog, finish, litefoot, run, stderr_of, succeed};

#[test]
fn results_come_aligned_as_json_and_as_csv() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(
        directory,
        &["sql", "a.db", "CREATE TABLE t(n INTEGER, s TEXT); INSERT INTO t VALUES (7,'x,y'),(1234,NULL)"],
    );
    let select = "SELECT * FROM t ORDER BY n";
    assert_eq!(succeed(directory, &["sql", "a.db", select]), "   n  s\n----  ----\n   7  x,y\n1234  NULL\n");
    assert_eq!(
        succeed(directory, &["sql", "--json", "a.db", select]),
        "[\n  {\"n\":7,\"s\":\"x,y\"},\n  {\"n\":1234,\"s\":null}\n]\n"
    );
    assert_eq!(succeed(directory, &["sql", "--csv", "a.db", select]), "n,s\n7,\"x,y\"\n1234,\n");
    assert_eq!(succeed(directory, &["sql", "--json", "a.db", "SELECT 1 WHERE 0"]), "[]\n");
}

#[test]
fn a_script_stops_at_its_first_error_and_rolls_back_what_was_open() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = litefoot(directory.path(), &["sql", "a.db"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "CREATE TABLE t(a);\nINSERT INTO t VALUES\n(1);\n.tables\nBEGIN;\nINSERT INTO t VALUES (2);\n\
                  INSERT INTO missing VALUES (3);\nINSERT INTO t VALUES (4);\n";
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr_of(&output), "litefoot: line 7: a.db: no such table: missing\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t\n");
    assert_eq!(succeed(directory.path(), &["sql", "--csv", "a.db", "SELECT a FROM t"]), "a\n1\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let directory = tempfile::tempdir().unwrap();
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    let mut child = litefoot(directory.path(), &["sql", ":memory:", endless])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    let mut first = [0; 64];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = finish(child);
    assert_eq!((output.status.code(), stderr_of(&output).as_str()), (Some(141), ""));
}

#[test]
fn stat_and_check_describe_a_healthy_database() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(
        directory,
        &["sql", "a.db", "PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES (1)"],
    );
    let stat: serde_json::Value =
        serde_json::from_str(&succeed(directory, &["stat", "--json", "a.db"])).unwrap();
    assert_eq!(stat["header"]["journal_mode"], "wal");
    assert_eq!(stat["header"]["page_bytes"], 4096);
    assert_eq!(stat["bytes"], 4096 * stat["header"]["pages"].as_u64().unwrap());
    assert_eq!(stat["owner"]["state"], "nobody");
    let text = succeed(directory, &["stat", "a.db"]);
    assert!(text.lines().any(|line| line.split_ascii_whitespace().eq(["journal", "mode", "wal"])), "{text}");
    assert_eq!(succeed(directory, &["check", "a.db"]), "a.db: in order\n");
}

#[test]
fn check_finds_broken_references_and_damaged_pages() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let sql = "PRAGMA foreign_keys = off; CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p(id)); INSERT INTO c VALUES (9)";
    succeed(directory, &["sql", "a.db", sql]);
    let output = run(directory, &["check", "a.db"]);
    assert_eq!(output.status.code(), Some(1));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(found, "a.db: foreign key: row 1 of c refers to a row of p that is not there\n");

    // The cell pointer of the only row now leads nowhere.
    succeed(directory, &["sql", "b.db", "CREATE TABLE t(a); INSERT INTO t VALUES ('x')"]);
    let mut bytes = std::fs::read(directory.join("b.db")).unwrap();
    bytes[4096 + 8..4096 + 10].copy_from_slice(&[0, 3]);
    std::fs::write(directory.join("b.db"), bytes).unwrap();
    let output = run(directory, &["check", "b.db"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// A program on a terminal, and everything that the terminal is sent.
fn on_a_terminal(directory: &std::path::Path, arguments: &str) -> String {
    let command = format!("{} {arguments}", support::PROGRAM);
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--command", &command, "/dev/null"]).current_dir(directory).stdin(Stdio::null());
    String::from_utf8_lossy(&support::output_of(script).stdout).into_owned()
}

#[test]
fn no_escape_of_a_database_or_a_name_reaches_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let escape = "SELECT 'a' || char(27) || ']0;gotcha' || char(7) || char(155) AS x";
    for format in ["", "--json", "--csv"] {
        let shown = on_a_terminal(directory, &format!("sql {format} :memory: \"{escape}\""));
        assert!(shown.contains("gotcha"), "{format}: {shown:?}");
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{format}: {shown:?}");
    }
    // A pipe gets every byte.
    assert!(
        succeed(directory, &["sql", "--csv", ":memory:", escape]).contains("a\u{1b}]0;gotcha\u{7}\u{9b}")
    );
    let strange = "a\u{1b}[31mb.db";
    std::fs::write(directory.join(strange), "no database, and long enough to be looked at").unwrap();
    for command in ["stat", "check", "recover", "sql"] {
        let output = run(directory, &[command, strange]);
        assert!(!output.status.success(), "{command}");
        assert!(!stderr_of(&output).contains('\u{1b}'), "{command}: {:?}", stderr_of(&output));
    }
}
