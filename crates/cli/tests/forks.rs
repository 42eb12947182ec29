//! Unmodified programs on litefoot that fork, and what the user of a program is told.
//!
//! These tests need `liblitefoot.so` beside the program under test, which `cargo test` alone does not
//! build; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use support::{Watchdog, litefoot, output_of, stderr_of, stdout_of};

const MODES: [&str; 2] = ["delete", "wal"];

/// Runs a scenario of `forks.py` on litefoot.
fn scenario(directory: &Path, name: &str, mode: &str) -> Output {
    let script = format!("{}/tests/programs/forks.py", env!("CARGO_MANIFEST_DIR"));
    output_of(litefoot(directory, &["run", "--", "python3", &script, name, mode]))
}

/// The lines that litefoot has told.
fn told(output: &Output) -> Vec<String> {
    stderr_of(output).lines().filter(|line| line.starts_with("litefoot: ")).map(str::to_owned).collect()
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_forked_child_is_told_why_a_transaction_is_its_parents_and_ends_nothing_of_it() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let output = scenario(directory.path(), "in_transaction", mode);
        let told = told(&output);
        assert_eq!(stdout_of(output, mode), "[0]\nTrue\n(2, 'ok')\n", "{mode}");
        assert!(told.len() == 1 && told[0].contains("was opened before fork()"), "{mode}: {told:?}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_forked_child_waits_for_no_lock_that_its_parent_held() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(stdout_of(scenario(directory.path(), "busy_parent", mode), mode), "0\n");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn who_has_a_database_is_told_once_to_the_user_of_another_program() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let owner = "import sqlite3, sys, os\n\
                 db = sqlite3.connect('app.db', isolation_level=None); db.execute('CREATE TABLE t(a)')\n\
                 print(os.getpid(), flush=True); sys.stdin.read()\n";
    let mut program = litefoot(directory, &["run", "--", "python3", "-c", owner])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&program);
    let process = BufReader::new(program.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let other = "import sqlite3\n\
                 for timeout in [0, 0.1]:\n    \
                     db = sqlite3.connect('app.db', timeout=timeout)\n    \
                     try: db.execute('SELECT * FROM t')\n    \
                     except sqlite3.OperationalError as error: print(error)\n";
    for quiet in ["0", "1"] {
        let mut command = litefoot(directory, &["run", "--", "python3", "-c", other]);
        command.env("LITEFOOT_QUIET", quiet);
        let output = output_of(command);
        let told = told(&output);
        assert_eq!(stdout_of(output, "the other"), "database is locked\n".repeat(2));
        if quiet == "1" {
            assert!(told.is_empty(), "{told:?}");
        } else {
            let holder = format!("process {process} (python3) has this database open");
            assert!(told.len() == 1 && told[0].contains(&holder), "{told:?}");
        }
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}
