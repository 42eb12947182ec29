//! Other programs come to the database of an application that works.
//!
//! Each scenario of `visitors.py` runs on stock SQLite, too, where that allows what it does: so the scenarios prove
//! themselves. They end by themselves before the kernel's patience with a lease is over.
//!
//! These tests need `liblitefoot.so` beside the program under test, which `cargo test` alone does not
//! build; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{PROGRAM, litefoot, output_of, stdout_of};

/// The journal modes in which visitors are served; in the others they are told that the database is locked.
const SERVED: &[&str] = &["wal", "delete", "truncate", "persist"];
/// Litefoot's option that serves them.
const OPTIONS: (&str, &str) = ("LITEFOOT_OPTIONS", "sharing=auto");

const MODES: [&str; 4] = ["wal", "delete", "truncate", "persist"];
/// Visits that need a lock of the database, in the order in which they come.
const LOCKING: &str = "select insert backup checkpoint dump vacuum journal_mode";

/// What is under the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Stock,
    Litefoot,
}

/// A directory in memory: syncs of a busy disk may take longer than a scenario has time.
fn memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// What a scenario of `visitors.py` prints, in one journal mode.
fn scenario(side: Side, name: &str, mode: &str) -> String {
    let directory = memory();
    let script = format!("{}/tests/programs/visitors.py", env!("CARGO_MANIFEST_DIR"));
    let mut command = match side {
        Side::Stock => Command::new("python3"),
        Side::Litefoot => litefoot(directory.path(), &["run", "--", "python3"]),
    };
    command
        .arg(script)
        .args([name, mode])
        .current_dir(directory.path())
        .env("LITEFOOT_QUIET", "1")
        .env(OPTIONS.0, OPTIONS.1);
    stdout_of(output_of(command), &format!("{side:?} {name} {mode}"))
}

/// Compares a scenario on both sides with what it prints where visitors are served, and where they are refused. Where
/// SQLite itself does not allow it, litefoot is alone.
fn check(name: &str, sides: &[Side], served: impl Fn(&str) -> String, refused: &str) {
    // Journals that are truncated or kept differ for those who write into them.
    let modes = if ["all_kinds", "reader_inside"].contains(&name) { &MODES[..] } else { &MODES[..2] };
    for mode in modes {
        for side in sides {
            let said = scenario(*side, name, mode);
            let expected =
                if SERVED.contains(mode) || *side == Side::Stock { served(mode) } else { refused.to_owned() };
            assert_eq!(said, expected, "{side:?} {mode}");
        }
    }
}

const BOTH: &[Side] = &[Side::Stock, Side::Litefoot];

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn visitors_of_every_kind_see_every_commit_and_lose_none() {
    let served = |mode: &str| match mode {
        // SQLite makes no journal of a log that somebody else has open.
        "wal" => "refused: journal_mode journal_mode\n72 2 ok\n".to_owned(),
        _ => "refused:\n72 2 ok\n".to_owned(),
    };
    check("all_kinds", BOTH, served, &format!("refused: {LOCKING} {LOCKING}\n72 0 ok\n"));
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_visitor_comes_while_a_connection_reads() {
    let served = |mode: &str| match mode {
        "wal" => "4 inserted inserted 5 1 2 5 1 2\nok\n".to_owned(),
        _ => "3 refused inserted 3 1 1 3 1 1\nok\n".to_owned(),
    };
    check("reader_inside", BOTH, served, "");
}

/// SQLite's own locks do not survive that the process opens and closes the file.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn an_application_opens_its_own_file_inside_its_transaction() {
    let served = |_: &str| "16\n0\n2 2\n".to_owned();
    check("opens_its_own_file", &[Side::Litefoot], served, "16\n0\n2 refused\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn two_hundred_come_at_once() {
    check("many_at_once", BOTH, |_| "served 20\n".to_owned(), "refused 20\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_visitor_comes_while_the_owner_is_stopped() {
    check("stopped", BOTH, |_| "3 4 4\n".to_owned(), "refused 4 refused\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_visitor_comes_beside_a_child_that_has_inherited_the_connection() {
    check("forked", BOTH, |_| "4\n0 5 5\n".to_owned(), "refused\n0 5 refused\n");
}

/// SQLite's own locks do not survive a fork.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_visitor_comes_to_a_child_whose_parent_has_gone() {
    check("a_daemon", &[Side::Litefoot], |_| "4\n5 5\n".to_owned(), "refused\n5 refused\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_visitor_comes_to_a_process_that_has_become_another_program() {
    check("executes", BOTH, |_| "3 3\n4 4\n".to_owned(), "3 refused\n4 refused\n");
}

/// They meet as two processes do.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn two_builds_of_litefoot_in_one_process() {
    let directory = memory();
    let directory = directory.path();
    let source = format!("{}/tests/programs/two_builds.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o", "two_builds", &source, "-ldl"]).current_dir(directory);
    stdout_of(output_of(compiler), "cc");
    let library: PathBuf = Path::new(PROGRAM).with_file_name("liblitefoot.so");
    // SQLite finds the entry of a library by its name.
    std::fs::create_dir(directory.join("other")).unwrap();
    std::fs::copy(&library, directory.join("other/liblitefoot.so")).unwrap();
    for mode in MODES {
        let mut program = Command::new(directory.join("two_builds"));
        program.arg(&library).args(["other/liblitefoot.so", &format!("{mode}.db"), mode]);
        program.current_dir(directory).env("LITEFOOT_QUIET", "1").env(OPTIONS.0, OPTIONS.1);
        let said = stdout_of(output_of(program), mode);
        let expected = match SERVED.contains(&mode) {
            true => format!("{mode}\n1\n2\n3\n4\n5\n"),
            // But after the first one has closed the database.
            false => format!("{mode}\n1\ndatabase is locked\n2\ndatabase is locked\n3\n"),
        };
        assert_eq!(said, expected, "{mode}");
    }
}
