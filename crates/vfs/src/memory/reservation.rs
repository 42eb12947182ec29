//! How much memory something may take that must not be lost: pages of a transaction, a log in memory.
//!
//! It comes out of the one budget of the process, and pools give way to it. A part of the budget is left to them, so that
//! reads go on while a large transaction is under way. What SQLite's own cache keeps back of a transaction
//! is counted as well, by what is known of it.

use crate::memory::process_budget::Share;
use litefoot_storage::buffer_pool::Reservation;
use litefoot_storage::reserve;
use std::sync::atomic::{AtomicI64, Ordering};

/// The part of the budget that all of them together may take; the rest is for the pools.
const SHARE: f64 = 0.75;
/// By how much it is taken.
const STEP_BYTES: usize = 64 << 10;
/// Bytes however little is free.
const LEAST_BYTES: usize = 256 << 10;

/// Memory of one such thing.
pub struct MemoryReservation {
    taken: Reservation,
    /// Bytes that must do, whatever is free.
    fixed: Option<usize>,
    bytes: usize,
}

impl MemoryReservation {
    /// Nothing yet, of a database's share.
    pub fn new(share: &Share) -> MemoryReservation {
        MemoryReservation {
            taken: Reservation::nothing(share.budget().clone()),
            fixed: share.write_bytes(),
            bytes: 0,
        }
    }

    /// So many bytes, of a budget of its own.
    #[cfg(test)]
    pub fn fixed(bytes: usize) -> MemoryReservation {
        let budget = std::sync::Arc::new(litefoot_storage::buffer_pool::Budget::new(bytes));
        MemoryReservation { taken: Reservation::nothing(budget), fixed: Some(bytes), bytes: 0 }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that may be in use as things are: few, whatever was promised, where the system has no more.
    pub fn most(&self) -> usize {
        let most = self.fixed.unwrap_or_else(|| self.taken.most(SHARE).max(LEAST_BYTES));
        if reserve::is_short() { most.min(LEAST_BYTES) } else { most }
    }

    /// So many bytes are in use now.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        set_in_steps(&mut self.taken, bytes);
    }
}

/// The memory of the SQLite cache that a transaction comes from. A page that SQLite has passed on was dirty there, and most
/// likely another is by now: so it counts as much as was passed on, up to what SQLite keeps back before it spills.
pub struct SpillingCache {
    taken: Reservation,
    /// Most bytes that are counted, whoever writes.
    limit: usize,
    /// Most bytes that are counted of the connection that writes.
    most: usize,
}

/// How large the application has made a connection's cache: SQLite passes on what does not fit. It is the application's alone,
/// and only known here.
pub struct CacheSize(AtomicI64);

/// Nothing was said.
const BY_DEFAULT: i64 = i64::MAX;
/// SQLite was told when to pass pages on, apart from the size.
const APART: i64 = i64::MIN;

impl Default for CacheSize {
    fn default() -> CacheSize {
        CacheSize(AtomicI64::new(BY_DEFAULT))
    }
}

impl CacheSize {
    /// Notes a setting.
    pub fn note(&self, name: &str, value: &str) {
        match name {
            "cache_spill" => self.0.store(APART, Ordering::Relaxed),
            "cache_size" if self.0.load(Ordering::Relaxed) != APART => {
                // With 0, SQLite returns to what the database has by default.
                let size = value.trim().parse::<i32>().ok().filter(|size| *size != 0);
                self.0.store(size.map_or(BY_DEFAULT, i64::from), Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Takes over what is known of the same connection.
    pub fn inherit(&self, other: &CacheSize) {
        self.0.store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Bytes of pages of a size that fit, where that is known.
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

impl SpillingCache {
    /// Of a connection to a database, before its transaction has passed anything on.
    pub fn new(share: &Share) -> SpillingCache {
        let limit = share.spill_bytes();
        SpillingCache { taken: Reservation::nothing(share.budget().clone()), limit, most: limit }
    }

    /// One that is not counted.
    #[cfg(test)]
    pub fn uncounted() -> SpillingCache {
        let budget = std::sync::Arc::new(litefoot_storage::buffer_pool::Budget::new(0));
        SpillingCache { taken: Reservation::nothing(budget), limit: 0, most: 0 }
    }

    /// The transaction is a connection's whose cache is so large.
    pub fn set_size(&mut self, size: &CacheSize, page_bytes: usize) {
        self.most = size.bytes(page_bytes).map_or(self.limit, |bytes| bytes.min(self.limit));
    }

    /// The transaction has passed so many bytes on.
    pub fn passed(&mut self, bytes: usize) {
        set_in_steps(&mut self.taken, bytes.min(self.most));
    }
}

fn set_in_steps(taken: &mut Reservation, bytes: usize) {
    let counted = bytes.next_multiple_of(STEP_BYTES);
    if counted != taken.bytes() {
        taken.set(counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_cache_is_what_the_application_says() {
        let size = CacheSize::default();
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
        let successor = CacheSize::default();
        successor.inherit(&size);
        assert_eq!(successor.bytes(512), Some(51_200));
        size.note("cache_spill", "off");
        size.note("cache_size", "100");
        assert_eq!(size.bytes(4096), None);
    }
}
