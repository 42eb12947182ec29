//! The experiment peers without the program that has the other stores, and with one that fails.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::process::{output_of, stderr_of};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Runs it with this as the other program.
fn peers(directory: &Path, program: &str) -> std::process::Output {
    let mut command = support::bench(directory, &["peers", "--quick"]);
    command.env("LITEFOOT_PEERS", program);
    output_of(command)
}

/// One test: a program that was just written cannot be started while another thread's child still has it open.
#[test]
fn without_the_program_it_says_how_to_get_it_and_else_what_the_program_says() {
    let directory = tempfile::tempdir().unwrap();
    let output = peers(directory.path(), "no-such-program");
    let said = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cargo build --release -p litefoot-peers --features peers"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for (script, expected) in [
        ("[ $# = 0 ] && exit 0", "--features peers"),
        ("echo broken >&2; exit 3", "litefoot-peers: broken"),
        (
            "[ $# = 0 ] && echo '{\"name\":\"redb\",\"version\":\"1.2\"}' && exit 0; echo no room >&2; exit 1",
            "redb: ",
        ),
        ("[ $# = 0 ] && echo '{\"name\":\"redb\",\"version\":\"1.2\"}' && exit 0; kill -9 $$", "signal: 9"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("peers");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = peers(directory.path(), program.to_str().unwrap());
        let said = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert!(said.contains(expected), "{script}: {said}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "{script}");
    }
}
