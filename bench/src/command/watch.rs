//! The bars of a run, or its lines, and how long all of it will still take.

use litefoot_bench::Error;
use litefoot_bench::harness::Progress;
use litefoot_terminal::interrupt;
use litefoot_terminal::progress::Bar;
use std::time::Duration;

/// A bar for each stage, or lines where there is no terminal; stops the experiment on Ctrl-C.
pub struct Watcher {
    bar: Option<Bar>,
    done: u64,
    /// The label in front of each stage.
    place: Option<String>,
    /// The least time between two lines.
    lines_every: Duration,
}

impl Watcher {
    /// With something before each stage, where the experiment is one of several.
    pub fn new(place: Option<String>, lines_every: Duration) -> Watcher {
        Watcher { bar: None, done: 0, place, lines_every }
    }
}

impl Progress for Watcher {
    fn begin(&mut self, stage: &str, total: u64) {
        // The last bar goes before the next one comes.
        self.bar = None;
        let label = self.place.as_ref().map_or_else(|| stage.to_owned(), |place| format!("{place}: {stage}"));
        self.bar = Some(Bar::or_lines(&label, total, self.lines_every));
        self.done = 0;
    }

    fn advance(&mut self, steps: u64) -> litefoot_bench::Result<()> {
        self.done += steps;
        if let Some(bar) = &self.bar {
            bar.at(self.done);
        }
        interrupt::check().map_err(|_| Error::Stopped)
    }
}

/// The usual time of experiments, corrected by the pace of this machine so far.
pub struct Schedule {
    quick: bool,
    taken: Duration,
    expected: Duration,
}

impl Schedule {
    pub fn new(quick: bool) -> Schedule {
        Schedule { quick, taken: Duration::ZERO, expected: Duration::ZERO }
    }

    /// Seconds on a machine of two cores with a disk that syncs in 0.1 ms.
    fn usual(&self, experiment: &str) -> Duration {
        let (quick, full) = match experiment {
            "commit" => (30, 45),
            "atomic" => (25, 40),
            "group" => (35, 180),
            "sweep" => (25, 1200),
            "pcg" => (40, 800),
            "ssl" => (30, 120),
            "apps" => (45, 900),
            "crash" => (10, 50),
            "smile" => (15, 180),
            "read" => (40, 600),
            "scan" => (15, 180),
            "psqlite" => (10, 240),
            "peers" => (20, 90),
            _ => (40, 300),
        };
        Duration::from_secs(if self.quick { quick } else { full })
    }

    /// One is done.
    pub fn took(&mut self, experiment: &str, time: Duration) {
        self.taken += time;
        self.expected += self.usual(experiment);
    }

    /// How long these will take.
    pub fn left<'a>(&self, experiments: impl Iterator<Item = &'a str>) -> Duration {
        let usual: Duration = experiments.map(|name| self.usual(name)).sum();
        let pace = if self.expected.is_zero() {
            1.0
        } else {
            self.taken.as_secs_f64() / self.expected.as_secs_f64()
        };
        usual.mul_f64(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_the_pace_so_far() {
        let mut schedule = Schedule::new(true);
        let left = |schedule: &Schedule| schedule.left(["psqlite", "crash"].into_iter()).as_secs();
        assert_eq!(left(&schedule), 20);
        schedule.took("commit", Duration::from_secs(60));
        assert_eq!(left(&schedule), 40);
    }
}
