//! SQLite's own page cache, as far as a transaction's dirty pages in it count against the budget.
//!
//! A page that SQLite has passed on was dirty in its cache, and most likely another page is by now. So the cache counts as many
//! bytes as the transaction has passed on, up to what SQLite keeps back before it spills.

use crate::memory::process_budget::BudgetShare;
use crate::memory::reservation::set_in_steps;
use litefoot_storage::budget::Reservation;
use std::sync::atomic::{AtomicI64, Ordering};

/// Memory of SQLite's cache in the connection of one transaction.
pub struct SqliteCacheReservation {
    taken: Reservation,
    /// Most bytes that count, for any connection.
    limit: usize,
    /// Most bytes that count, for the connection of the transaction.
    most: usize,
}

/// Size of a connection's cache, as the application has set it: SQLite passes on what does not fit. The application keeps that
/// size; here it is only known.
pub struct SqliteCacheSize(AtomicI64);

/// No size was set.
const BY_DEFAULT: i64 = i64::MAX;
/// SQLite was told when to spill, whatever the size.
const APART: i64 = i64::MIN;

impl Default for SqliteCacheSize {
    fn default() -> SqliteCacheSize {
        SqliteCacheSize(AtomicI64::new(BY_DEFAULT))
    }
}

impl SqliteCacheSize {
    /// Notes the value of a PRAGMA.
    pub fn note(&self, name: &str, value: &str) {
        match name {
            "cache_spill" => self.0.store(APART, Ordering::Relaxed),
            "cache_size" if self.0.load(Ordering::Relaxed) != APART => {
                // With 0, SQLite returns to the database's default.
                let size = value.trim().parse::<i32>().ok().filter(|size| *size != 0);
                self.0.store(size.map_or(BY_DEFAULT, i64::from), Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Takes over the size, for another handle of the same connection.
    pub fn inherit(&self, other: &SqliteCacheSize) {
        self.0.store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Bytes of pages that fit, where that is known.
    fn bytes(&self, page_bytes: usize) -> Option<usize> {
        match self.0.load(Ordering::Relaxed) {
            BY_DEFAULT | APART => None,
            size => {
                let unit = if size < 0 { 1 << 10 } else { page_bytes };
                usize::try_from(size.unsigned_abs()).ok()?.checked_mul(unit)
            }
        }
    }
}

impl SqliteCacheReservation {
    /// Nothing yet, of a database's share.
    pub fn new(share: &BudgetShare) -> SqliteCacheReservation {
        let limit = share.spill_bytes();
        SqliteCacheReservation { taken: Reservation::nothing(share.budget().clone()), limit, most: limit }
    }

    /// A cache that does not count.
    #[cfg(test)]
    pub fn uncounted() -> SqliteCacheReservation {
        let budget = std::sync::Arc::new(litefoot_storage::budget::Budget::new(0));
        SqliteCacheReservation { taken: Reservation::nothing(budget), limit: 0, most: 0 }
    }

    /// The transaction belongs to a connection with a cache of that size.
    pub fn set_size(&mut self, size: &SqliteCacheSize, page_bytes: usize) {
        self.most = size.bytes(page_bytes).map_or(self.limit, |bytes| bytes.min(self.limit));
    }

    /// The transaction has passed on so many bytes in all.
    pub fn passed(&mut self, bytes: usize) {
        set_in_steps(&mut self.taken, bytes.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_cache_is_what_the_application_says() {
        let size = SqliteCacheSize::default();
        assert_eq!(size.bytes(4096), None);
        for (value, bytes) in [
            ("100", Some(409_600)),
            ("-100", Some(102_400)),
            ("0", None),
            ("2147483647", Some(2_147_483_647 * 4096)),
            ("many", None),
        ] {
            size.note("cache_size", value);
            assert_eq!(size.bytes(4096), bytes, "{value}");
        }
        size.note("cache_size", "100");
        size.note("synchronous", "0");
        let successor = SqliteCacheSize::default();
        successor.inherit(&size);
        assert_eq!(successor.bytes(512), Some(51_200));
        size.note("cache_spill", "off");
        size.note("cache_size", "100");
        assert_eq!(size.bytes(4096), None);
    }

    #[test]
    fn the_cache_counts_what_was_passed_on_up_to_its_limit() {
        let budget = std::sync::Arc::new(litefoot_storage::budget::Budget::new(64 << 20));
        // (limit of the database, PRAGMA cache_size in pages of 4096 bytes, bytes passed on, bytes that count)
        for (limit, pages, passed, counted) in [
            (2 << 20, None, 0, 0),
            (2 << 20, None, 1, 64 << 10),
            (2 << 20, None, 8 << 20, 2 << 20),
            (2 << 20, Some("64"), 8 << 20, 256 << 10),
            (2 << 20, Some("100000"), 8 << 20, 2 << 20),
            (0, None, 8 << 20, 0),
        ] {
            let mut cache =
                SqliteCacheReservation { taken: Reservation::nothing(budget.clone()), limit, most: limit };
            let size = SqliteCacheSize::default();
            if let Some(pages) = pages {
                size.note("cache_size", pages);
            }
            cache.set_size(&size, 4096);
            cache.passed(passed);
            assert_eq!(cache.taken.bytes(), counted, "{limit} {pages:?} {passed}");
        }
    }
}
