//! `cargo xtask fuzz`: hostile bytes for each parser, by the driver in `fuzz/`, on any compiler.
//!
//! `fuzz/` is a workspace of its own: see the head of `fuzz/src/lib.rs`.

use crate::process::{self, Result, Tally};

/// Its manifest.
const MANIFEST: &str = "fuzz/Cargo.toml";
/// How long the checks feed each target.
const SECONDS: &str = "3";

/// Runs the step of the checks.
pub fn check() -> Result<Tally> {
    process::cargo(&["fmt", "--manifest-path", MANIFEST, "--check"])?;
    drive(&["--seconds", SECONDS])
}

/// Runs the driver with these arguments.
pub fn drive(arguments: &[&str]) -> Result<Tally> {
    let directory = process::target_directory().join("fuzz");
    let directory = directory.to_string_lossy();
    let run = ["run", "-q", "--locked", "--manifest-path", MANIFEST, "--target-dir", &*directory];
    process::cargo(&[&run[..], &["--bin", "drive", "--"], arguments].concat())
}
