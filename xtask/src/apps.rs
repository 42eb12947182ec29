//! `cargo xtask apps [NAME…]`: real applications, unmodified, on stock SQLite and on litefoot.
//!
//! Each is installed into an environment of its own, tried, visited by `sqlite3` while it works, and killed. The programs are in
//! `xtask/apps`; the pages in `docs/apps` are made of what they print. It downloads, takes minutes, and is no step of the checks.

use crate::process::{self, Result, Tally};
use std::path::Path;
use std::process::Command;

/// Runs the applications of these names, or all.
pub fn run(names: &[&str]) -> Result<Tally> {
    process::cargo(&["build", "--release", "--locked", "-p", "litefoot-cli", "-p", "litefoot-extension"])?;
    let program = process::target_directory().join("release/litefoot");
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/apps.py");
    let status = Command::new("python3")
        .arg(driver)
        .args(names)
        .env("LITEFOOT_PROGRAM", program)
        .status()
        .map_err(|error| format!("python3 cannot be started: {error}"))?;
    let failed = u64::from(!status.success());
    Ok(Tally { passed: 1 - failed, failed })
}
