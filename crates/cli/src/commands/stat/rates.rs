//! Rates: the differences between two readings of a process's metrics.

use litefoot::stats::{FigureKind, Reading};

/// The counters' increase from one reading to the next, and the gauges of the later one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Seconds between the two.
    pub seconds: f64,
    /// Name and increase of each counter.
    counters: Vec<(String, u64)>,
    /// Name and value of each gauge.
    gauges: Vec<(String, u64)>,
}

/// The log that a database is committing to: what is in use, and its most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Which log.
    pub name: &'static str,
    /// Bytes in use.
    pub used: u64,
    /// Bytes at which it is emptied.
    pub limit: u64,
}

impl Fill {
    /// In percent.
    pub fn percent(&self) -> u64 {
        self.used.saturating_mul(100) / self.limit.max(1)
    }
}

/// Endings of the names of counters of files.
const BLOCK_BYTES: &str = "_block_bytes";
const SYNCS: &str = "_syncs";
const FALLBACK: &str = "fallback.";

impl Rates {
    /// Everything from `before`, or from the beginning, to `after`.
    pub fn between(before: Option<&Reading>, after: &Reading, seconds: f64) -> Rates {
        let of_kind = |kind: FigureKind| after.figures.iter().filter(move |(_, is, _)| *is == kind);
        let since = |name: &str| before.map_or(0, |before| before.get(name));
        Rates {
            seconds,
            counters: of_kind(FigureKind::Counter)
                .map(|(name, _, value)| (name.clone(), value.saturating_sub(since(name))))
                .collect(),
            gauges: of_kind(FigureKind::Gauge).map(|(name, _, value)| (name.clone(), *value)).collect(),
        }
    }

    /// The increase of a counter.
    pub fn get(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }

    fn gauge(&self, name: &str) -> u64 {
        self.gauges.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }

    fn ending(&self, ending: &str) -> u64 {
        self.counters.iter().filter(|(name, _)| name.ends_with(ending)).map(|(_, value)| value).sum()
    }

    /// Commits of any kind.
    pub fn commits(&self) -> u64 {
        self.get("commits_statements") + self.get("commits_pages")
    }

    /// Bytes of blocks that were written to files on flash. With a tier the logs are on its device, too.
    pub fn flash_bytes(&self) -> u64 {
        let tiered = self.gauge("tier.slots") > 0;
        let on_flash = |file: &str| !tiered || !["tier", "redo_log", "commit_log"].contains(&file);
        self.flash_bytes_by_file().filter(|(file, _)| on_flash(file)).map(|(_, bytes)| bytes).sum()
    }

    /// The same by kind of file, where there are any.
    pub fn flash_bytes_by_file(&self) -> impl Iterator<Item = (&str, u64)> {
        let of_file = |(name, value): &'_ (String, u64)| -> Option<(usize, u64)> {
            Some((name.strip_suffix(BLOCK_BYTES)?.len(), *value))
        };
        self.counters.iter().filter_map(move |counter| {
            let (end, value) = of_file(counter)?;
            Some((&counter.0[..end], value))
        })
    }

    /// Syncs of files and directories.
    pub fn syncs(&self) -> u64 {
        self.ending(SYNCS)
    }

    /// Causes of commits of pages, each with how often it was one.
    pub fn fallbacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counters.iter().filter_map(|(name, value)| Some((name.strip_prefix(FALLBACK)?, *value)))
    }

    /// The most frequent cause.
    pub fn main_fallback(&self) -> Option<(&str, u64)> {
        // Of equals the first.
        self.fallbacks()
            .filter(|(_, count)| *count > 0)
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    /// The logs, as far as they are in use.
    pub fn fills(&self) -> Vec<Fill> {
        let logs = [
            ("commit log", "commit_log_bytes", "commit_log_limit_bytes"),
            ("write-ahead log", "wal_bytes", "wal_limit_bytes"),
            ("redo log", "redo_log_bytes", "redo_log_limit_bytes"),
        ];
        logs.into_iter()
            .map(|(name, used, limit)| Fill { name, used: self.gauge(used), limit: self.gauge(limit) })
            .filter(|fill| fill.used > 0)
            .collect()
    }

    /// The share of pages that were in the buffer pool, in percent; `None` where none were asked for.
    pub fn pool_hit_percent(&self) -> Option<f64> {
        let (hits, misses) = (self.get("pool.hits"), self.get("pool.misses"));
        (hits + misses > 0).then(|| 100.0 * hits as f64 / (hits + misses) as f64)
    }

    /// The figures of the buffer pool, where there is one: name and value of gauges, increase of counters.
    pub fn pool(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.counters.iter().chain(&self.gauges);
        all.filter_map(|(name, value)| Some((name.strip_prefix("pool.")?, *value)))
    }

    /// A count as so many a second.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// A count as so many a commit; `None` without commits.
    pub fn per_commit(&self, count: u64) -> Option<f64> {
        let commits = self.commits();
        (commits > 0).then(|| count as f64 / commits as f64)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use litefoot::stats::DatabaseState;
    use std::time::UNIX_EPOCH;

    /// A reading with these figures.
    pub fn reading(figures: &[(&str, FigureKind, u64)]) -> Reading {
        let figures = figures.iter().map(|(name, kind, value)| ((*name).to_owned(), *kind, *value)).collect();
        Reading::new(DatabaseState::Owned, UNIX_EPOCH, figures)
    }

    #[test]
    fn rates_are_differences_of_counters_and_gauges_as_they_are() {
        use FigureKind::{Counter, Gauge};
        let before = reading(&[("commits_pages", Counter, 10), ("redo_log_bytes", Gauge, 500)]);
        let after = reading(&[
            ("commits_statements", Counter, 4),
            ("commits_pages", Counter, 16),
            ("redo_log_block_bytes", Counter, 40_960),
            ("database_block_bytes", Counter, 4096),
            ("redo_log_syncs", Counter, 4),
            ("directory_syncs", Counter, 1),
            ("fallback.clock", Counter, 2),
            ("fallback.size", Counter, 2),
            ("redo_log_bytes", Gauge, 100),
            ("redo_log_limit_bytes", Gauge, 400),
            ("pool.hits", Counter, 3),
            ("pool.misses", Counter, 1),
        ]);
        let rates = Rates::between(Some(&before), &after, 2.0);
        assert_eq!((rates.commits(), rates.per_second(rates.commits())), (10, 5.0));
        assert_eq!((rates.flash_bytes(), rates.per_commit(rates.flash_bytes())), (45_056, Some(4505.6)));
        assert_eq!(
            rates.flash_bytes_by_file().collect::<Vec<_>>(),
            [("redo_log", 40_960), ("database", 4096)]
        );
        assert_eq!(rates.syncs(), 5);
        assert_eq!(rates.main_fallback(), Some(("clock", 2)));
        assert_eq!(rates.fills(), [Fill { name: "redo log", used: 100, limit: 400 }]);
        assert_eq!(rates.fills()[0].percent(), 25);
        assert_eq!(rates.pool_hit_percent(), Some(75.0));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let rates = Rates::between(None, &reading(&[]), 0.0);
        assert_eq!((rates.per_second(5), rates.per_commit(5), rates.pool_hit_percent()), (0.0, None, None));
        assert_eq!((rates.main_fallback(), rates.fills().len()), (None, 0));
        assert_eq!(Fill { name: "", used: 1, limit: 0 }.percent(), 100);
    }

    #[test]
    fn a_database_that_was_opened_anew_counts_from_nothing() {
        let before = reading(&[("commits_pages", FigureKind::Counter, 10)]);
        let rates =
            Rates::between(Some(&before), &reading(&[("commits_pages", FigureKind::Counter, 3)]), 1.0);
        assert_eq!(rates.commits(), 0);
    }
}
