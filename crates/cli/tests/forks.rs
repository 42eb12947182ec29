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

/// The two ways in which related processes share a database: by SQLite's own protocol, or in turns.
const SHARING: [&str; 2] = ["auto", "exclusive"];

/// Runs a scenario of `forks.py` on litefoot.
fn scenario(directory: &Path, name: &str, mode: &str, sharing: &str) -> Output {
    let script = format!("{}/tests/programs/forks.py", env!("CARGO_MANIFEST_DIR"));
    let sharing = format!("sharing={sharing}");
    output_of(litefoot(directory, &["run", "--set", &sharing, "--", "python3", &script, name, mode]))
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
        let output = scenario(directory.path(), "in_transaction", mode, "auto");
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
        assert_eq!(stdout_of(scenario(directory.path(), "busy_parent", mode, "auto"), mode), "0\n");
    }
}

/// The output of a scenario, which tells the user nothing.
fn said_quietly(name: &str, mode: &str, sharing: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = scenario(directory.path(), name, mode, sharing);
    assert_eq!(stderr_of(&output), "", "{mode}, {sharing}");
    stdout_of(output, mode)
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn children_use_the_database_of_an_idle_parent() {
    for mode in MODES {
        for sharing in SHARING {
            let said = said_quietly("idle_parent", mode, sharing);
            let expected = "1 1\n[0, 0, 0]\n31 31\n32 32\n[0, 0, 0]\n62 62\n63 63\n(63, 'ok')\n";
            assert_eq!(said, expected, "{mode}, {sharing}");
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn children_go_on_with_connections_that_are_in_no_transaction() {
    for mode in MODES {
        for sharing in SHARING {
            let said = said_quietly("inherited", mode, sharing);
            assert_eq!(said, "50 50\n[0, 0, 0]\n96 (96, 'ok')\n", "{mode}, {sharing}");
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn children_find_what_their_parent_has_committed_as_deltas() {
    for mode in MODES {
        for sharing in SHARING {
            let said = said_quietly("after_deltas", mode, sharing);
            let expected = "60\n[0] 60\n81\n[0] 81\n102\n[0] 102\n(103, 'ok')\n";
            assert_eq!(said, expected, "{mode}, {sharing}");
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_child_that_is_killed_takes_nothing_along_that_was_safe() {
    for mode in MODES {
        assert_eq!(said_quietly("killed", mode, "auto"), "0 ok\n", "{mode}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn relatives_that_are_killed_take_nothing_along_and_leave_nobody_waiting() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let output = scenario(directory.path(), "killed_at_random", mode, "auto");
        assert_eq!(stdout_of(output, mode), "0 0 ok ok\n", "{mode}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn closing_what_was_inherited_changes_nothing_of_the_parents() {
    for mode in MODES {
        assert_eq!(
            said_quietly("closed_in_child", mode, "exclusive"),
            "[0, 0]\nTrue\nTrue (1, 'ok')\n",
            "{mode}"
        );
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_child_goes_on_where_its_parent_has_gone() {
    for mode in MODES {
        assert_eq!(said_quietly("a_daemon", mode, "auto"), "(2, 'ok')\n", "{mode}");
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
    let mut program =
        litefoot(directory, &["run", "--set", "sharing=exclusive", "--", "python3", "-c", owner])
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
