//! `litefoot bench` hands over to the laboratory beside it, or says how to get it.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{PROGRAM, output_of, stderr_of};

/// The program alone in a directory of its own.
fn install(directory: &Path) -> PathBuf {
    let program = directory.join("litefoot");
    std::fs::hard_link(PROGRAM, &program).unwrap();
    program
}

/// A laboratory of a few lines.
fn laboratory(directory: &Path, script: &str, mode: u32) {
    let path = directory.join("litefoot-bench");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn bench(program: &Path, path: &Path, arguments: &[&str]) -> std::process::Output {
    let directory = program.parent().unwrap();
    let mut command = litefoot_testkit::process::command(program.to_str().unwrap(), directory, &["bench"]);
    command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", path.display()));
    output_of(command)
}

/// One test: a program that was just written cannot be started while another thread's child still has it open.
#[test]
fn arguments_exit_code_and_signals_are_those_of_the_laboratory() {
    let beside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let program = install(beside.path());
    let run = |arguments: &[&str]| bench(&program, elsewhere.path(), arguments);

    let missing = run(&["commit"]);
    assert_eq!(missing.status.code(), Some(127));
    let said = stderr_of(&missing);
    assert!(said.contains("litefoot-bench is missing"), "{said}");
    assert!(said.contains("cargo build --release -p litefoot-bench"), "{said}");

    let print = "for word; do printf '[%s]' \"$word\"; done; exit 7";
    laboratory(elsewhere.path(), print, 0o755);
    for arguments in [
        &["commit", "--quick", "--json", "a b"][..],
        &["--help"],
        &["-h"],
        &["--all", "--", "--report"],
        &["--report", "out", "--from", "1.json", "2.json"],
        &[],
    ] {
        let output = run(arguments);
        let expected: String = arguments.iter().map(|word| format!("[{word}]")).collect();
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {}", stderr_of(&output));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }

    // The one beside the program is the one of its version.
    laboratory(beside.path(), "kill -TERM $$", 0o755);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(run(&["commit"]).status.signal(), Some(15));

    laboratory(beside.path(), "", 0o644);
    let output = run(&["commit"]);
    assert_eq!(output.status.code(), Some(126));
    assert!(stderr_of(&output).contains("litefoot-bench: cannot be run"), "{}", stderr_of(&output));
}
