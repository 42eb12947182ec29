//! A program that a command runs and waits for, as if it were the command itself: signals are passed on, and so is the
//! exit code.

use crate::failure::Failure;
use crate::installed::{NOT_FOUND, NOT_RUNNABLE};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Runs a program to its end. Answers its exit code; 128 + signal where a signal has ended it.
///
/// # Errors
/// When the program is not found (exit code 127), or cannot be run (126).
pub fn run(command: &mut Command) -> Result<ExitCode, Failure> {
    let fail = |error: io::Error| Failure::new(format!("signals cannot be passed on: {error}"));
    // From here on nothing ends this process but the program's end.
    let mut signals =
        Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(fail)?;
    let mut child = command.spawn().map_err(|error| refusal(Path::new(command.get_program()), &error))?;
    let has_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    loop {
        if let Some(status) = child.try_wait().map_err(fail)? {
            return Ok(exit_code(status));
        }
        for signal in signals.wait() {
            if is_passed_on(signal, has_terminal) {
                send(&child, signal);
            }
        }
    }
}

/// The reason why a program cannot be run.
pub fn refusal(program: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::file(program, "no such program")
            .advice("Check the name, or give its path.")
            .code(NOT_FOUND),
        _ => Failure::file(program, format!("cannot be run: {error}"))
            .advice("Check that it is a program and that you may execute it.")
            .code(NOT_RUNNABLE),
    }
}

/// A terminal sends its signals to the program as well.
fn is_passed_on(signal: i32, has_terminal: bool) -> bool {
    match signal {
        SIGCHLD => false,
        SIGINT | SIGQUIT => !has_terminal,
        _ => true,
    }
}

fn send(child: &Child, signal: i32) {
    let Ok(process) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: a plain system call. The child was not waited for successfully yet, so the number is still its own.
    unsafe { libc::kill(process, signal) };
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_and_this_process_do_not_both_interrupt() {
        for (signal, has_terminal, passed) in [
            (SIGINT, true, false),
            (SIGINT, false, true),
            (SIGTERM, true, true),
            (SIGHUP, true, true),
            (SIGCHLD, false, false),
        ] {
            assert_eq!(is_passed_on(signal, has_terminal), passed, "{signal} {has_terminal}");
        }
    }
}
