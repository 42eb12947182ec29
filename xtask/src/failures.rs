//! What failed, said once more at the end of the checks.
//!
//! A harness prints why its tests failed before its last line. Thousands of lines of other tests may follow, and a
//! log that is kept in part loses it. A command that counts no tests says why it failed in its last lines.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The lines that are kept of one program's failures.
const LINES: usize = 60;

/// The last lines that are kept of a command that counts no tests.
const LAST_LINES: usize = 25;

/// The lines that begin a sanitizer's report.
const REPORT_BEGINS: [&str; 2] = ["WARNING: ThreadSanitizer:", "ERROR: AddressSanitizer:"];

/// The line that ends it begins so.
const REPORT_ENDS: &str = "SUMMARY: ";

thread_local! {
    /// The failures of the steps that this thread runs, until [`take`] hands them out.
    static FOUND: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Hands out the lines of the failures that were found so far.
pub fn take() -> Vec<String> {
    FOUND.take()
}

/// Reads the lines of a harness as they come.
#[derive(Default)]
pub struct Watch {
    /// The lines since the harness began to say what failed.
    said: Vec<String>,
    /// The last lines, whatever they say.
    last: VecDeque<String>,
    /// What a sanitizer has reported: it ends a program without a word of its tests.
    reported: Vec<String>,
    /// True while a report goes on.
    reports: bool,
}

impl Watch {
    /// Takes the next line.
    pub fn see(&mut self, line: &str) {
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        self.reports |= REPORT_BEGINS.iter().any(|begins| line.contains(begins));
        if self.reports && self.reported.len() < LINES {
            self.reported.push(line.to_owned());
        }
        self.reports &= !line.starts_with(REPORT_ENDS);
        if line.starts_with("running ") {
            self.said.clear();
        } else if line == "failures:" || !self.said.is_empty() {
            self.said.push(line.to_owned());
            if line.starts_with("test result:") {
                let said = std::mem::take(&mut self.said);
                // The names of the tests are in the last lines.
                let left_out = said.len().saturating_sub(LINES);
                keep(said.into_iter().skip(left_out));
            }
        }
    }

    /// Keeps the reports and the last lines of a command that failed, and counted no test that did.
    pub fn ended_badly(self, command: &str) {
        keep(std::iter::once(format!("{command}:")).chain(self.reported).chain(self.last));
    }
}

/// Adds lines to what failed.
fn keep(lines: impl Iterator<Item = String>) {
    FOUND.with_borrow_mut(|found| found.extend(lines));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_harness_says_of_its_failures_is_kept() {
        let mut watch = Watch::default();
        for line in ["running 2 tests", "test a ... ok", "test result: ok. 2 passed; 0 failed"] {
            watch.see(line);
        }
        assert_eq!(take(), Vec::<String>::new());
        let told =
            ["failures:", "---- b ----", "1 is not 2", "failures:", "    b", "test result: FAILED. 1 failed"];
        for line in ["running 1 test", "test b ... FAILED", ""].iter().chain(&told) {
            watch.see(line);
        }
        assert_eq!(take(), told);
    }

    #[test]
    fn the_reports_of_a_sanitizer_are_kept() {
        let report = [
            "WARNING: ThreadSanitizer: data race (pid=7)",
            "  Write of size 8",
            "SUMMARY: ThreadSanitizer: x",
        ];
        let mut watch = Watch::default();
        for line in ["running 1 test"].iter().chain(&report).chain(&["test a ... ok"; 30]) {
            watch.see(line);
        }
        watch.ended_badly("cargo test");
        let kept = take();
        assert_eq!((kept[0].as_str(), &kept[1..4]), ("cargo test:", &report.map(String::from)[..]));
        assert_eq!(kept.len(), 4 + LAST_LINES);
    }
}
