//! Running cargo, and counting the tests it ran.

use crate::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// How many checks passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Tally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// A step that counted nothing and did not fail is one check that passed.
    pub fn or_one_passed(self) -> Tally {
        if self == Tally::default() { Tally { passed: 1, failed: 0 } } else { self }
    }

    /// Reads the line with which a test binary ends.
    fn from_line(line: &str) -> Tally {
        let number_before = |word: &str| {
            let (before, _) = line.split_once(word)?;
            before.trim_end().rsplit(' ').next()?.parse().ok()
        };
        if !line.starts_with("test result:") {
            return Tally::default();
        }
        Tally { passed: number_before(" passed").unwrap_or(0), failed: number_before(" failed").unwrap_or(0) }
    }
}

/// Runs cargo with its output shown.
pub fn cargo(arguments: &[&str]) -> Result<Tally> {
    cargo_with(arguments, &[])
}

/// Runs cargo with environment variables; a test that fails is counted, anything else that fails is an
/// error.
pub fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Tally> {
    let mut command = cargo_command(arguments);
    tally(command.envs(environment.iter().copied()))
}

/// Runs a command that ends up in cargo, as above.
pub fn tally(command: &mut Command) -> Result<Tally> {
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cargo cannot be started: {error}"))?;
    let mut tally = Tally::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cargo's output cannot be read: {error}"))?;
            println!("{line}");
            tally.add(Tally::from_line(&line));
        }
    }
    let status = child.wait().map_err(|error| format!("cargo cannot be waited for: {error}"))?;
    if status.success() {
        return Ok(tally);
    }
    println!("the command was: {command:?}");
    if tally.failed > 0 { Ok(tally) } else { Err(format!("cargo ended with {status}")) }
}

/// The cargo that runs us.
pub fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_counted() {
        for (line, passed, failed) in [
            ("test result: ok. 14 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out", 14, 0),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored", 3, 2),
            ("test a_test_result ... ok", 0, 0),
            ("9 passed", 0, 0),
        ] {
            assert_eq!(Tally::from_line(line), Tally { passed, failed }, "{line}");
        }
    }

    #[test]
    fn a_step_without_tests_counts_as_one() {
        assert_eq!(Tally::default().or_one_passed(), Tally { passed: 1, failed: 0 });
        assert_eq!(Tally { passed: 0, failed: 1 }.or_one_passed(), Tally { passed: 0, failed: 1 });
    }
}
