//! The tests of the Python package, on the extension that was just built.

use crate::Result;
use crate::process::Tally;
use std::path::Path;
use std::process::Command;

/// Runs them with the `python3` that is there.
pub fn check() -> Result<Tally> {
    let library = Path::new("target/debug/liblitefoot.so");
    if !library.exists() {
        return Err(format!("{} is missing: cargo build -p litefoot-extension", library.display()));
    }
    let arguments = ["-m", "unittest", "discover", "-s", "python/tests", "-t", "python"];
    let output = Command::new("python3")
        .args(arguments)
        .env("LITEFOOT_LIBRARY", library)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .map_err(|error| format!("python3 cannot be started: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    print!("{report}");
    let ran = ran(&report).ok_or("python3 has run no tests")?;
    let failed = u64::from(!output.status.success());
    Ok(Tally { passed: ran.saturating_sub(failed), failed })
}

/// The number in `Ran 33 tests in 9.1s`.
fn ran(report: &str) -> Option<u64> {
    report.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted() {
        assert_eq!(ran("..s.\n-----\nRan 33 tests in 9.1s\n\nOK (skipped=1)\n"), Some(33));
        assert_eq!(ran("ModuleNotFoundError"), None);
    }
}
