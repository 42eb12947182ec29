//! `cargo xtask fuzz`: hostile bytes for each parser, by the driver in `fuzz/`, on any compiler.

use crate::process::{self, Result, Tally};
use std::process::Command;

/// How long the checks feed each target.
const SECONDS: &str = "2";

/// Runs the step of the checks.
pub fn check() -> Result<Tally> {
    drive(&["--seconds", SECONDS])
}

/// Runs the driver with these arguments.
pub fn drive(arguments: &[&str]) -> Result<Tally> {
    process::build(&["-q"])?;
    let driver = process::target_directory().join("debug/drive");
    process::tally(Command::new(driver).args(arguments))
}
