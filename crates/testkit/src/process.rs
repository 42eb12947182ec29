//! Programs that a test starts.
//!
//! # Invariant
//! A test that waits for a program ends: a program that hangs is killed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// After this a program counts as hung, and is killed: far beyond what any test needs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A command that runs a program of litefoot's in a directory, with nothing of the user's environment that matters.
pub fn command(program: &str, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    command.env_remove("LITEFOOT_LIBRARY").env_remove("LITEFOOT_OPTIONS").env("LC_ALL", "C.UTF-8");
    command
}

/// A command that runs an ignored test of this program alone, in a process of its own.
pub fn own_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--test-threads=1"]);
    command
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

/// Standard output of a command that must have succeeded.
pub fn stdout_of(output: Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}\n{}", output.status, stderr_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error as text.
pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The name of this thread, as the system has it: the standard library has none for threads of litefoot's own.
pub fn thread_name() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_owned()
}

/// True if this process may do everything.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Kills a program that hangs, so that a test that waits for it fails.
pub struct Watchdog(#[expect(dead_code, reason = "dropping it is its use")] Sender<()>);

impl Watchdog {
    /// Watches over a program until this is dropped.
    pub fn over(child: &Child) -> Watchdog {
        let id = child.id().to_string();
        let (sender, dropped) = channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {id} hangs: killed");
                Command::new("kill").args(["-KILL", &id]).status().unwrap();
            }
        });
        Watchdog(sender)
    }
}
