//! Seconds of single tests, from what a stable test harness prints.
//!
//! The harness has no times on a stable compiler. It starts the tests of a program in the order of their names, as many
//! at once as it has threads. When one has ended it starts the next one. So the line that says how a test ended also
//! says when another one began: the seconds of each follow from when the lines came.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test that takes as long is named at the end of the checks.
pub const SLOW: Duration = Duration::from_secs(5);

/// A test that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The name of the test.
    pub name: String,
    /// The time from its start to its end.
    pub took: Duration,
}

/// The slow tests of this run, until [`take`] hands them out.
static FOUND: Mutex<Vec<Slow>> = Mutex::new(Vec::new());

/// Hands out the slow tests that were found so far, the slowest first.
pub fn take() -> Vec<Slow> {
    let mut found = FOUND.lock().map(|mut found| std::mem::take(&mut *found)).unwrap_or_default();
    found.sort_by_key(|slow| std::cmp::Reverse(slow.took));
    found
}

/// Reads the lines of a harness as they come.
pub struct Watch {
    threads: usize,
    begun: Instant,
    /// The tests of the program that runs, in the order of their ends, and when each ended.
    ended: Vec<(String, Duration)>,
}

impl Watch {
    /// A watch for harnesses that are about to start.
    pub fn start() -> Watch {
        let wanted = std::env::var("RUST_TEST_THREADS").ok().and_then(|number| number.parse().ok());
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Watch { threads: wanted.unwrap_or_else(cores).max(1), begun: Instant::now(), ended: Vec::new() }
    }

    /// Takes the next line.
    pub fn see(&mut self, line: &str) {
        if line.starts_with("running ") {
            (self.begun, self.ended) = (Instant::now(), Vec::new());
        } else if let Some(name) = test_of(line) {
            self.ended.push((name.to_owned(), self.begun.elapsed()));
        } else if line.starts_with("test result:") {
            let slow = durations(&std::mem::take(&mut self.ended), self.threads).into_iter();
            if let Ok(mut found) = FOUND.lock() {
                found.extend(slow.filter(|slow| slow.took >= SLOW));
            }
        }
    }
}

/// The name of the test that a line says the end of.
fn test_of(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.rsplit_once(" ... ").map(|(name, _)| name)
}

/// How long each test took, from the ends of all tests of one program.
fn durations(ended: &[(String, Duration)], threads: usize) -> Vec<Slow> {
    let mut by_name: Vec<&(String, Duration)> = ended.iter().collect();
    by_name.sort_by(|one, other| one.0.cmp(&other.0));
    let took = |(place, (name, end)): (usize, &(String, Duration))| {
        let begun = place.checked_sub(threads).map_or(Duration::ZERO, |freed| ended[freed].1);
        Slow { name: name.clone(), took: end.saturating_sub(begun) }
    };
    by_name.into_iter().enumerate().map(took).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_begins_when_another_has_ended() {
        // By two threads: a from 0 to 9, b from 0 to 2, then c to 3, then d to 10.
        let ended: Vec<_> = [("b", 2), ("c", 3), ("a", 9), ("d", 10)]
            .map(|(name, second)| (name.to_owned(), Duration::from_secs(second)))
            .to_vec();
        for (threads, expected) in
            [(2, [("a", 9), ("b", 2), ("c", 1), ("d", 7)]), (4, [("a", 9), ("b", 2), ("c", 3), ("d", 10)])]
        {
            let found = durations(&ended, threads);
            let found: Vec<_> = found.iter().map(|slow| (slow.name.as_str(), slow.took.as_secs())).collect();
            assert_eq!(found, expected, "{threads} threads");
        }
    }

    #[test]
    fn the_end_of_a_test_is_known_by_its_line() {
        for (line, name) in [
            ("test open::tests::a_crash ... ok", Some("open::tests::a_crash")),
            ("test src/lib.rs - open (line 3) ... FAILED", Some("src/lib.rs - open (line 3)")),
            ("test a ... ignored, needs liblitefoot.so", Some("a")),
            ("test a has been running for over 60 seconds", None),
            ("test result: ok. 1 passed; 0 failed", None),
        ] {
            assert_eq!(test_of(line), name, "{line}");
        }
    }
}
