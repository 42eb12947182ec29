//! The program under test.

#![allow(dead_code)]

use litefoot_testkit::process;
use std::path::Path;
use std::process::Command;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_litefoot-bench");

/// A command that runs the program in a directory.
pub fn bench(directory: &Path, arguments: &[&str]) -> Command {
    process::command(PROGRAM, directory, arguments)
}
