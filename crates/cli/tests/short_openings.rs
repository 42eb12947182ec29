//! Unmodified programs that open their database for each commit.
//!
//! These tests need `liblitefoot.so` beside the program under test; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::{Command, Output};
use support::{litefoot, output_of, run, stderr_of, stdout_of};

/// The journal modes, and the files that are kept in them.
const MODES: [(&str, &str); 2] = [("WAL", "app.db-wal"), ("DELETE", "app.db-journal")];

/// Runs a scenario of `short_openings.py` on litefoot.
fn scenario(directory: &Path, mode: &str, name: &str) -> Output {
    let script = format!("{}/tests/programs/short_openings.py", env!("CARGO_MANIFEST_DIR"));
    output_of(litefoot(directory, &["run", "--", "python3", &script, name, mode]))
}

/// The output of a scenario that ends by itself: the user is told nothing, and nothing is left but databases.
fn said(mode: &str, name: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = scenario(directory.path(), mode, name);
    assert_eq!(stderr_of(&output), "", "{name}");
    assert!(
        names(directory.path()).iter().all(|name| name.ends_with(".db")),
        "{:?}",
        names(directory.path())
    );
    stdout_of(output, name)
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

fn stock(directory: &Path, sql: &str) -> String {
    let mut command = Command::new("sqlite3");
    command.args(["app.db", sql]).current_dir(directory);
    stdout_of(output_of(command), sql)
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_kept_file_is_removed_when_the_process_exits() {
    for (mode, _) in MODES {
        assert_eq!(said(mode, "many"), "(52, 'ok')\n");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn stock_and_other_processes_read_and_write_between_short_openings() {
    assert_eq!(said("WAL", "in_turns"), "app.db\napp.db\n(14, 'ok') app.db app.db-wal\n");
    // Stock SQLite that only reads leaves a journal alone whose header is void.
    let expected = "app.db app.db-journal\napp.db\n(14, 'ok') app.db app.db-journal\n";
    assert_eq!(said("DELETE", "in_turns"), expected);
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn two_processes_with_short_openings_keep_one_file() {
    for (mode, kept) in MODES {
        let output = said(mode, "two");
        assert!(
            output.starts_with(&format!("app.db {kept}\n")) && output.ends_with("(44, 'ok')\n"),
            "{output}"
        );
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn the_exit_of_a_forked_child_leaves_the_file_to_its_parent() {
    for (mode, kept) in MODES {
        assert_eq!(said(mode, "forked"), format!("app.db\napp.db {kept}\n(7, 'ok')\n"));
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_database_is_copied_moved_removed_and_replaced_between_short_openings() {
    for (mode, _) in MODES {
        assert_eq!(said(mode, "moved"), "(3, 'ok') ok\n(3, 'ok')\n(1, 'ok')\n(2, 'ok') ok\n", "{mode}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_directory_is_removed_between_short_openings() {
    for (mode, kept) in MODES {
        let line = format!("(3, 'ok') ['app.db', '{kept}']\n");
        assert_eq!(said(mode, "directory_removed"), line.repeat(2));
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_kept_file_has_the_rights_that_its_database_has_been_given() {
    for (mode, _) in MODES {
        assert_eq!(said(mode, "rights"), "0o600\n(4, 'ok')\n");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_database_leaves_wal_mode_and_comes_back_between_short_openings() {
    for (mode, files) in [("WAL", "app.db"), ("DELETE", "app.db app.db-journal")] {
        let expected =
            format!("('delete',)\n('delete',)\n(3, 'ok') {files}\n('delete',)\n('wal',)\n(5, 'ok')\n");
        assert_eq!(said(mode, "modes"), expected);
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn short_openings_go_on_in_a_directory_that_cannot_be_written() {
    for (mode, _) in MODES {
        let directory = tempfile::tempdir().unwrap();
        let output = scenario(directory.path(), mode, "read_only_directory");
        assert_eq!((stderr_of(&output), stdout_of(output, "")), (String::new(), "(4, 'ok')\n".to_owned()));
    }
}

fn killed(mode: &str, kept: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    assert!(!scenario(directory.path(), mode, "killed").status.success());
    assert_eq!(names(directory.path()), ["app.db", kept]);
    directory
}

/// What a command says, that has nothing to tell the user beside it.
fn quiet(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert_eq!(stderr_of(&output), "", "{arguments:?}");
    stdout_of(output, &format!("{arguments:?}"))
}

const COUNT: &str = "SELECT count(*) FROM t; PRAGMA integrity_check";

/// After a kill a void log is left, which is nothing to anybody, and the next ordinary close removes it.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_killed_process_leaves_a_void_log_that_nobody_is_told_of() {
    let killed = || killed("WAL", "app.db-wal");
    for arguments in [&["sql", "app.db", COUNT][..], &["release", "app.db"]] {
        let directory = killed();
        quiet(directory.path(), arguments);
        assert_eq!(names(directory.path()), ["app.db"], "{arguments:?}");
        assert_eq!(stock(directory.path(), COUNT), "3\nok\n");
    }
    let directory = killed();
    let directory = directory.path();
    let told = ["recover", "check"].map(|command| quiet(directory, &[command, "app.db"]));
    assert!(told.iter().all(|told| !told.contains("-wal")), "{told:?}");
    let directory = killed();
    let directory = directory.path();
    // Another, empty database beside it.
    std::fs::rename(directory.join("app.db"), directory.join("former.db")).unwrap();
    std::fs::copy(directory.join("app.db-wal"), directory.join("former.db-wal")).unwrap();
    std::fs::write(directory.join("app.db"), "").unwrap();
    quiet(directory, &["sql", "app.db", "CREATE TABLE other(x); INSERT INTO other VALUES(1)"]);
    assert_eq!(stock(directory, "SELECT * FROM other"), "1\n");
    assert!(quiet(directory, &["sql", "former.db", "SELECT count(*) FROM t"]).contains('3'));
    assert_eq!(names(directory), ["app.db", "former.db"]);
    // Stock SQLite alone.
    let directory = killed();
    assert_eq!(stock(directory.path(), COUNT), "3\nok\n");
    assert_eq!(names(directory.path()), ["app.db"]);
}

/// After a kill a void journal is left, as SQLite's mode PERSIST leaves one. The next commit removes it, whoever makes that.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_killed_process_leaves_a_void_journal_that_nobody_is_told_of() {
    let killed = || killed("DELETE", "app.db-journal");
    let insert = "INSERT INTO t(b) VALUES(1)";
    for arguments in [&["sql", "app.db", insert][..], &["release", "app.db"]] {
        let directory = killed();
        quiet(directory.path(), arguments);
        assert_eq!(names(directory.path()), ["app.db"], "{arguments:?}");
        assert!(stock(directory.path(), COUNT).ends_with("\nok\n"));
    }
    let directory = killed();
    let directory = directory.path();
    let told = ["recover", "check"].map(|command| quiet(directory, &[command, "app.db"]));
    assert!(told.iter().all(|told| !told.contains("-journal")), "{told:?}");
    // The next process that loads the extension goes on with the file, and removes it at its exit.
    let output = scenario(directory, "DELETE", "some");
    assert_eq!((stderr_of(&output), names(directory)), (String::new(), vec!["app.db".to_owned()]));
    assert_eq!(stock(directory, COUNT), "6\nok\n");
    let directory = killed();
    let directory = directory.path();
    // Another, empty database beside it.
    std::fs::rename(directory.join("app.db"), directory.join("former.db")).unwrap();
    std::fs::copy(directory.join("app.db-journal"), directory.join("former.db-journal")).unwrap();
    std::fs::write(directory.join("app.db"), "").unwrap();
    quiet(directory, &["sql", "app.db", "CREATE TABLE other(x); INSERT INTO other VALUES(1)"]);
    assert_eq!(stock(directory, "SELECT * FROM other"), "1\n");
    assert!(quiet(directory, &["sql", "former.db", insert]).is_empty());
    assert_eq!(names(directory), ["app.db", "former.db"]);
    // Stock SQLite alone.
    let directory = killed();
    assert_eq!(stock(directory.path(), COUNT), "3\nok\n");
    assert_eq!(stock(directory.path(), insert), "");
    assert_eq!(names(directory.path()), ["app.db"]);
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_process_that_is_killed_in_a_short_opening_loses_nothing() {
    for (mode, _) in MODES {
        let directory = tempfile::tempdir().unwrap();
        assert!(!scenario(directory.path(), mode, "killed_within").status.success());
        assert_eq!(stock(directory.path(), COUNT), "3\nok\n");
    }
}
