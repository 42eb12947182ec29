//! Processes that experiments start and kill: this program, by a command that nobody types.

use crate::experiments::kill;
use crate::random;

/// The command.
pub const COMMAND: &str = "child-of-an-experiment";

/// Does what the process of that name is for.
///
/// # Errors
/// What went wrong, for the standard error.
pub fn run(name: &str, arguments: &[String]) -> Result<(), String> {
    match name {
        kill::CHILD => kill::child(arguments),
        random::CHILD => random::child(arguments),
        _ => Err(format!("there is no process {name:?}")),
    }
}
