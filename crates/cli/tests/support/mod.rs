//! What the tests of the program share.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// After this a program that is tested counts as hung, and is killed: far beyond what any test needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_litefoot");

/// A command that runs the program in a directory, with nothing of the user's environment that matters.
pub fn litefoot(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(directory);
    command.env_remove("LITEFOOT_LIBRARY").env_remove("LITEFOOT_OPTIONS").env("LC_ALL", "C.UTF-8");
    command
}

/// Runs the program to its end.
pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    output_of(litefoot(directory, arguments))
}

/// Runs a command to its end, without input.
pub fn output_of(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// Waits for a program to end, and kills it should it hang.
pub fn finish(child: Child) -> Output {
    let _watchdog = Watchdog::over(&child);
    child.wait_with_output().unwrap()
}

/// Kills a program that hangs, so that a test that waits for it fails.
pub struct Watchdog(#[expect(dead_code, reason = "dropping it is its use")] Sender<()>);

impl Watchdog {
    /// Watches over a program until this is dropped.
    pub fn over(child: &Child) -> Watchdog {
        let id = child.id().to_string();
        let (sender, dropped) = channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {id} hangs: killed");
                Command::new("kill").args(["-KILL", &id]).status().unwrap();
            }
        });
        Watchdog(sender)
    }
}

/// Runs the program, which must succeed, and gives its standard output.
pub fn succeed(directory: &Path, arguments: &[&str]) -> String {
    stdout_of(run(directory, arguments), &format!("litefoot {arguments:?}"))
}

/// Standard output of a command that must have succeeded.
pub fn stdout_of(output: Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}\n{}", output.status, stderr_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error as text.
pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names and bytes of all files in a directory.
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
            (path, bytes)
        })
        .collect()
}
