//! The sides, and how fast they commit on the real disk.
//!
//! The sides take turns, a chunk of readings each, with the order rotating: a disk that gets slower meanwhile gets
//! slower for all. A side's time includes closing its database, which checkpoints the logs: work put off is not work
//! saved.

use super::series::{self, Reading};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::progress::Bar;
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

/// Readings that a side stores before the other side goes on.
const CHUNK: u64 = 50;

/// One way of storing the readings.
pub struct Side {
    /// Its name in the table.
    pub name: &'static str,
    /// Its name in file names.
    pub short: &'static str,
    /// True if litefoot is beneath SQLite.
    pub litefoot: bool,
    /// The journal mode that the application asks for; SQLite's default where it asks for none.
    pub journal_mode: Option<&'static str>,
}

/// The sides, in the order of the table's rows.
pub const SIDES: [Side; 4] = [
    Side { name: "SQLite, its defaults", short: "delete", litefoot: false, journal_mode: None },
    Side { name: "SQLite, WAL", short: "wal", litefoot: false, journal_mode: Some("wal") },
    Side { name: "litefoot, same defaults", short: "litefoot-delete", litefoot: true, journal_mode: None },
    Side { name: "litefoot, WAL", short: "litefoot-wal", litefoot: true, journal_mode: Some("wal") },
];

impl Side {
    /// Sets up a fresh database as this side's application would.
    pub fn prepare(&self, db: &Connection) -> rusqlite::Result<()> {
        if let Some(mode) = self.journal_mode {
            db.pragma_update(None, "journal_mode", mode)?;
        }
        db.execute_batch(series::SCHEMA)
    }
}

/// How long the commits of one side took.
#[derive(Debug, Default)]
pub struct Timing {
    /// Each commit, in nanoseconds; sorted once the race is over.
    commits_ns: Vec<u64>,
    /// Closing the database.
    closing: Duration,
}

impl Timing {
    /// Commits in a second, closing included.
    pub fn commits_per_s(&self) -> f64 {
        let total_ns: u64 = self.commits_ns.iter().sum();
        let seconds = Duration::from_nanos(total_ns).saturating_add(self.closing).as_secs_f64();
        if seconds > 0.0 { self.commits_ns.len() as f64 / seconds } else { 0.0 }
    }

    /// The latency that this share of the commits does not exceed, in microseconds.
    pub fn percentile_us(&self, share: f64) -> f64 {
        let count = self.commits_ns.len();
        let rank = ((share * count as f64).ceil() as usize).clamp(1, count.max(1));
        self.commits_ns.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1000.0)
    }
}

/// The result of the race.
pub struct Race {
    /// One for each of [`SIDES`].
    pub timings: Vec<Timing>,
    /// Readings that each side stored: fewer than asked for when time was up.
    pub readings: u64,
}

/// Lets the sides store `count` readings each into databases of their own in `directory`; stops between
/// two rounds when `limit` has passed.
pub fn run(
    directory: &Path,
    readings: &[Reading],
    count: u64,
    limit: Option<Duration>,
) -> Result<Race, Failure> {
    let mut runners = SIDES.iter().map(|side| Runner::new(side, directory)).collect::<Result<Vec<_>, _>>()?;
    let bar = Bar::new("storing readings", count);
    let begun = Instant::now();
    let (mut done, mut round) = (0, 0);
    while done < count && limit.is_none_or(|limit| begun.elapsed() < limit) {
        let ids = done + 1..=count.min(done + CHUNK);
        for turn in 0..runners.len() {
            let index = (turn + round) % runners.len();
            runners[index].store(readings, ids.clone())?;
        }
        done = *ids.end();
        round += 1;
        bar.at(done);
    }
    drop(bar);
    let timings = runners.into_iter().map(|runner| runner.finish(readings)).collect::<Result<_, _>>()?;
    Ok(Race { timings, readings: done })
}

struct Runner {
    db: Connection,
    name: String,
    timing: Timing,
}

impl Runner {
    fn new(side: &Side, directory: &Path) -> Result<Runner, Failure> {
        let path = directory.join(format!("{}.db", side.short));
        let name = path.to_string_lossy().into_owned();
        let explain = |error: rusqlite::Error| crate::open::explain(&name, &error);
        let db = if side.litefoot {
            crate::open::Database::open(&name, crate::open::Access::Create)?.connection
        } else {
            Connection::open(&path).map_err(explain)?
        };
        side.prepare(&db).map_err(explain)?;
        Ok(Runner { db, name, timing: Timing::default() })
    }

    fn store(&mut self, readings: &[Reading], ids: std::ops::RangeInclusive<u64>) -> Result<(), Failure> {
        for id in ids {
            interrupt::check()?;
            let begun = Instant::now();
            series::store(&self.db, readings, id)
                .map_err(|error| crate::open::explain(&self.name, &error))?;
            self.timing.commits_ns.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Closes the database, and has stock SQLite read back what it holds.
    fn finish(self, readings: &[Reading]) -> Result<Timing, Failure> {
        let mut timing = self.timing;
        let begun = Instant::now();
        self.db.close().map_err(|(_, error)| crate::open::explain(&self.name, &error))?;
        timing.closing = begun.elapsed();
        let stored = timing.commits_ns.len() as u64;
        let verdict = Connection::open(&self.name)
            .and_then(|db| series::verify(&db, readings, stored))
            .map_err(|error| crate::open::explain(&self.name, &error))?;
        if verdict != series::Verdict::default() {
            return Err(Failure::new(format!(
                "{}: of {stored} readings {} are missing and {} are not what was stored",
                self.name, verdict.lost, verdict.unexpected
            ))
            .advice("Please report this: it must not happen."));
        }
        timing.commits_ns.sort_unstable();
        Ok(timing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_commits() {
        let timing = Timing { commits_ns: (1..=1000).map(|us| us * 1000).collect(), closing: Duration::ZERO };
        for (share, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0), (0.0, 1.0)] {
            assert_eq!(timing.percentile_us(share), us, "{share}");
        }
        assert_eq!(Timing::default().percentile_us(0.5), 0.0);
        assert_eq!(Timing::default().commits_per_s(), 0.0);
    }

    #[test]
    fn closing_counts() {
        let timing = Timing { commits_ns: vec![500_000_000; 2], closing: Duration::from_secs(1) };
        assert_eq!(timing.commits_per_s(), 1.0);
    }
}
