//! Figures of one open database: counters that `PRAGMA litefoot_stats` shows.
//!
//! Counters only grow, wrap never in practice, and are relaxed: each is exact, but two of them read
//! together may belong to slightly different moments.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Commits that wrote pages.
    pub commits_pages: AtomicU64,
    /// Of them, those of one page that was written in place.
    pub commits_in_place: AtomicU64,
    /// Writes to the database file.
    pub database_writes: AtomicU64,
    /// Syncs of the database file.
    pub database_syncs: AtomicU64,
}

impl Stats {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Name and value of each counter.
    pub fn rows(&self) -> Vec<(String, i64)> {
        [
            ("commits_pages", &self.commits_pages),
            ("commits_in_place", &self.commits_in_place),
            ("database_writes", &self.database_writes),
            ("database_syncs", &self.database_syncs),
        ]
        .into_iter()
        .map(|(name, counter)| {
            (name.to_owned(), i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX))
        })
        .collect()
    }
}
