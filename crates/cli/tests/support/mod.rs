//! The program under test, and what the test kit has for programs.

#![allow(dead_code, unused_imports)]

mod owner;

pub use litefoot_testkit::files::snapshot;
pub use litefoot_testkit::process::{Watchdog, finish, output_of, stderr_of, stdout_of};
pub use owner::Owner;

use litefoot_testkit::process;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_litefoot");

/// A command that runs the program in a directory.
pub fn litefoot(directory: &Path, arguments: &[&str]) -> Command {
    process::command(PROGRAM, directory, arguments)
}

/// Runs the program to its end.
pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    output_of(litefoot(directory, arguments))
}

/// Runs the program, which must succeed, and gives its standard output.
pub fn succeed(directory: &Path, arguments: &[&str]) -> String {
    stdout_of(run(directory, arguments), &format!("litefoot {arguments:?}"))
}

/// Runs a script that may mount file systems, on the directory `disk`; `None` where this system does not let us.
pub fn in_namespace(directory: &Path, script: &str) -> Option<Output> {
    fs::create_dir(directory.join("disk")).unwrap();
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).env("PROGRAM", PROGRAM);
        command.current_dir(directory).output()
    };
    if !run("mount -t tmpfs none disk").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system lets nobody make a mount namespace");
        return None;
    }
    Some(run(script).unwrap())
}

/// Commits statements to a WAL database and dies without closing it.
pub fn crashed(directory: &Path) {
    crashed_with(directory, "statements");
}

/// The same with another form of the commit log.
pub fn crashed_with(directory: &Path, commit_log: &str) {
    crashed_in(directory, "wal", commit_log);
}

/// The same in another journal mode.
pub fn crashed_in(directory: &Path, journal_mode: &str, commit_log: &str) {
    let schema = format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    succeed(directory, &["sql", "a.db", &schema]);
    let mut child = litefoot(directory, &["sql", &format!("file:a.db?commit_log={commit_log}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    if journal_mode != "wal" {
        writeln!(input, "PRAGMA journal_mode={journal_mode};").unwrap();
    }
    writeln!(input, "INSERT INTO t(v) VALUES('first');").unwrap();
    writeln!(input, "INSERT INTO t(v) VALUES('it''s the second');").unwrap();
    writeln!(input, "BEGIN; INSERT INTO t(v) VALUES(0.1); DELETE FROM t WHERE id = 1; COMMIT;").unwrap();
    writeln!(input, "SELECT 'done';").unwrap();
    input.flush().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("done") {
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut output, &mut byte).unwrap(), 1);
        read.push(byte[0]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let log = if commit_log == "pages" { "a.db-wal" } else { "a.db-commits" };
    assert!(directory.join(log).exists());
}
