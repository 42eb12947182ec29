//! The program under test, and what the test kit has for programs.

#![allow(dead_code, unused_imports)]

pub use litefoot_testkit::files::snapshot;
pub use litefoot_testkit::process::{Watchdog, finish, output_of, stderr_of, stdout_of};

use litefoot_testkit::process;
use std::path::Path;
use std::process::{Command, Output};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_litefoot");

/// A command that runs the program in a directory.
pub fn litefoot(directory: &Path, arguments: &[&str]) -> Command {
    process::command(PROGRAM, directory, arguments)
}

/// Runs the program to its end.
pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    output_of(litefoot(directory, arguments))
}

/// Runs the program, which must succeed, and gives its standard output.
pub fn succeed(directory: &Path, arguments: &[&str]) -> String {
    stdout_of(run(directory, arguments), &format!("litefoot {arguments:?}"))
}
