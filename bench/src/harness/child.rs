//! Processes that experiments start and kill: this program, by a command that nobody types.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The command, in front of the process's name and its arguments.
pub const COMMAND: &str = "child-of-an-experiment";

/// A command that starts this program as the process of that name, without input and output. A terminal's Ctrl-C is for the
/// experiment alone: a process that it ended would count as one that ended by itself.
///
/// # Errors
/// When the system does not tell which file the running program is.
pub fn command(name: &str) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, name]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    // With a closure the process is forked. Until it has a group of its own it then handles signals as this program
    // does; a spawned one would be ended.
    // SAFETY: the closure does nothing.
    unsafe { command.pre_exec(|| Ok(())) };
    Ok(command)
}
