//! The work of the processes that experiments start and kill ([`crate::harness::child`]).

use crate::experiments::{histories, instructions, kill, members, ship, visitors};
use crate::random;

/// Does what the process of that name is for.
///
/// # Errors
/// The message for standard error.
pub fn run(name: &str, arguments: &[String]) -> Result<(), String> {
    match name {
        kill::CHILD => kill::be_killed(arguments),
        members::CHILD => members::commit(arguments),
        members::CALLS_CHILD => members::be_killed(arguments),
        members::READS_CHILD => members::be_asked(arguments),
        members::JOINS_CHILD => members::come(arguments),
        ship::CHILD => ship::be_shipped(arguments),
        instructions::CHILD => instructions::be_counted(arguments),
        histories::CHILD => histories::be_killed(arguments),
        visitors::CHILD => visitors::be_visited(arguments),
        visitors::CALLS_CHILD => visitors::be_killed_at_calls(arguments),
        random::CHILD => random::be_killed(arguments),
        _ => Err(format!("there is no process {name:?}")),
    }
}
