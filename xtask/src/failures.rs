//! What failed, said once more at the end of the checks.
//!
//! A harness prints why its tests failed before its last line. Thousands of lines of other tests may follow, and a
//! log that is kept in part loses it.

use std::sync::Mutex;

/// The lines that are kept of one program's failures.
const LINES: usize = 60;

/// The failures of this run, until [`take`] hands them out.
static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Hands out the lines of the failures that were found so far.
pub fn take() -> Vec<String> {
    FOUND.lock().map(|mut found| std::mem::take(&mut *found)).unwrap_or_default()
}

/// Reads the lines of a harness as they come.
#[derive(Default)]
pub struct Watch {
    /// The lines since the harness began to say what failed.
    said: Vec<String>,
}

impl Watch {
    /// Takes the next line.
    pub fn see(&mut self, line: &str) {
        if line.starts_with("running ") {
            self.said.clear();
        } else if line == "failures:" || !self.said.is_empty() {
            self.said.push(line.to_owned());
            if line.starts_with("test result:") {
                let said = std::mem::take(&mut self.said);
                let left_out = said.len().saturating_sub(LINES);
                if let Ok(mut found) = FOUND.lock() {
                    // The names of the tests are in the last lines.
                    found.extend(said.into_iter().skip(left_out));
                }
            }
        }
    }
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
}
