//! Figures of one open database: counters that `PRAGMA litefoot_stats` shows.
//!
//! Counters only grow, wrap never in practice, and are relaxed: each is exact, but two of them read
//! together may belong to slightly different moments.

use crate::capture::cause::Cause;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Commits that wrote statements.
    pub commits_statements: AtomicU64,
    /// Commits that wrote pages.
    pub commits_pages: AtomicU64,
    /// Of them, those of one page that was written in place.
    pub commits_in_place: AtomicU64,
    /// Writes to the database file.
    pub database_writes: AtomicU64,
    /// Syncs of the database file.
    pub database_syncs: AtomicU64,
    /// Commits, or readers, that waited for a checkpoint in the background.
    pub checkpoint_waits: AtomicU64,
    /// Why commits wrote pages although statements are allowed.
    fallbacks: [AtomicU64; Cause::ALL.len()],
}

impl Stats {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a commit that was written as pages.
    pub fn add_fallback(&self, cause: Cause) {
        Stats::add(&self.fallbacks[cause as usize], 1);
    }

    /// Name and value of each counter.
    pub fn rows(&self) -> Vec<(String, i64)> {
        let number = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let mut rows: Vec<(String, i64)> = [
            ("commits_statements", &self.commits_statements),
            ("commits_pages", &self.commits_pages),
            ("commits_in_place", &self.commits_in_place),
            ("database_writes", &self.database_writes),
            ("database_syncs", &self.database_syncs),
            ("checkpoint_waits", &self.checkpoint_waits),
        ]
        .into_iter()
        .map(|(name, counter)| (name.to_owned(), number(counter)))
        .collect();
        // Those that never happened would only hide the others.
        let fallbacks =
            Cause::ALL.iter().map(|(cause, name)| (name, number(&self.fallbacks[*cause as usize])));
        rows.extend(
            fallbacks
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (format!("fallback.{name}"), count)),
        );
        rows
    }
}
