//! Results of files of tests, read from their output; kept between runs.

use super::build::{make, write};
use crate::process::Result;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// On what a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// SQLite as it is.
    Stock,
    /// SQLite on litefoot.
    Litefoot,
}

impl Side {
    /// Its name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Side::Stock => "stock",
            Side::Litefoot => "litefoot",
        }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Done,
    /// Killed by this signal: a crash.
    Signal(i32),
    /// It ran for too long.
    Late,
}

impl End {
    /// The end of a program, from the status of the `timeout` that ran it.
    pub fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(124 | 137), _) | (_, Some(9)) => End::Late,
            (Some(code @ 129..=192), _) => End::Signal(code - 128),
            (_, Some(signal)) => End::Signal(signal),
            _ => End::Done,
        }
    }
}

/// A run.
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Standard output and standard error.
    pub output: String,
    /// How long it took.
    pub seconds: f64,
}

/// The result of a run of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Tests that were run.
    pub tests: u64,
    /// Names of those that failed.
    pub failures: Vec<String>,
    /// Why the file did not come to its end, if it did not.
    pub broken: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// Reads what a run has printed.
    pub fn of(outcome: &Outcome) -> Report {
        let text = &outcome.output;
        let summary = text.lines().rev().find_map(summary);
        let listed = text.lines().rev().find_map(|line| line.strip_prefix("!Failures on these tests: "));
        let failures = match (summary, listed) {
            (Some((0, _)), _) => Vec::new(),
            (Some(_), Some(names)) => names.split(' ').map(str::to_owned).collect(),
            _ => text.lines().filter_map(failed_at_once).collect(),
        };
        let broken = match outcome.end {
            End::Signal(signal) => Some(format!("crashed: signal {signal}")),
            End::Late => Some("did not come to its end".to_owned()),
            End::Done if summary.is_none() => Some(format!("stopped: {}", last_words(text))),
            End::Done => None,
        };
        // One of them is the test's own, of what is left in memory.
        let tests = summary.map_or_else(
            || text.lines().filter(|line| line.ends_with("... Ok")).count() as u64,
            |(_, tests)| tests,
        );
        Report { tests, failures, broken, seconds: outcome.seconds }
    }

    fn path(results: &Path, side: Side, file: &str) -> PathBuf {
        results.join(side.name()).join(file)
    }

    /// The report of an earlier run.
    pub fn kept(results: &Path, side: Side, file: &str) -> Option<Report> {
        let text = fs::read_to_string(Report::path(results, side, file).with_extension("result")).ok()?;
        let mut lines = text.lines();
        let tests = lines.next()?.parse().ok()?;
        let seconds = lines.next()?.parse().ok()?;
        let broken = Some(lines.next()?.to_owned()).filter(|text| !text.is_empty());
        Some(Report { tests, seconds, broken, failures: lines.map(str::to_owned).collect() })
    }

    /// Keeps the report, and what was printed.
    pub fn keep(&self, results: &Path, side: Side, file: &str, output: &str) -> Result<()> {
        let path = Report::path(results, side, file);
        make(path.parent().unwrap_or(results))?;
        write(&path.with_extension("out"), output)?;
        let mut text =
            format!("{}\n{:.1}\n{}\n", self.tests, self.seconds, self.broken.as_deref().unwrap_or(""));
        self.failures.iter().for_each(|name| {
            text.push_str(name);
            text.push('\n');
        });
        write(&path.with_extension("result"), &text)
    }
}

/// `3 errors out of 581 tests on …`.
fn summary(line: &str) -> Option<(u64, u64)> {
    let (errors, rest) = line.split_once(" errors out of ")?;
    Some((errors.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
}

/// `! wal-1.0 expected: [0 {}]`.
fn failed_at_once(line: &str) -> Option<String> {
    line.strip_prefix("! ")?.split_once(" expected: ").map(|(name, _)| name.to_owned())
}

/// The message of the error that stopped a file.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let traced = lines.iter().position(|line| line.trim() == "while executing");
    let at = traced.map_or(lines.len(), |at| at).saturating_sub(1);
    // The path of the program is longer in some runs than in others.
    let words =
        lines.get(at).map(|line| line.rsplit_once("/testfixture: ").map_or(*line, |(_, words)| words));
    words.map_or_else(String::new, |words| words.chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: End, output: &str) -> Report {
        Report::of(&Outcome { end, output: output.to_owned(), seconds: 1.0 })
    }

    #[test]
    fn what_a_file_prints_is_understood() {
        let good =
            report(End::Done, "a-1.0... Ok\n0 errors out of 192 tests on vm Linux 64-bit little-endian\n");
        assert_eq!((good.tests, good.failures.len(), good.broken), (192, 0, None));
        let bad = report(
            End::Done,
            "! a-1.0 expected: [1]\n2 errors out of 9 tests on vm\n!Failures on these tests: a-1.0 a-1.1\n",
        );
        assert_eq!((bad.tests, bad.failures, bad.broken), (9, vec!["a-1.0".into(), "a-1.1".into()], None));
        let stopped = report(
            End::Done,
            "a-1.0... Ok\n! a-1.1 expected: [1]\n/tmp/4711/testfixture: no such file\n    while executing\n",
        );
        assert_eq!(stopped.broken.as_deref(), Some("stopped: no such file"));
        assert_eq!((stopped.tests, stopped.failures), (1, vec!["a-1.1".into()]));
        assert_eq!(report(End::Signal(11), "").broken.as_deref(), Some("crashed: signal 11"));
        assert_eq!(report(End::Late, "").broken.as_deref(), Some("did not come to its end"));
    }

    #[test]
    fn a_program_that_counts_its_errors_has_not_crashed() {
        let codes =
            [(0, End::Done), (4, End::Done), (255, End::Done), (139, End::Signal(11)), (124, End::Late)];
        for (code, end) in codes {
            assert_eq!(End::of(ExitStatus::from_raw(code << 8)), end, "{code}");
        }
        assert_eq!(End::of(ExitStatus::from_raw(6)), End::Signal(6));
    }
}
