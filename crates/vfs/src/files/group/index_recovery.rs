//! A member that makes the index of the log, by SQLite's recovery, and whose owner ends meanwhile.
//!
//! # Why
//! SQLite reads the log frame by frame, and copies what it has made of that to the index, also where a read has failed. Members that hold snapshots look for
//! their frames in the same memory: they would find older ones.
//!
//! # Invariants
//! 1. Once a read of the log has failed, nothing is copied to memory that others have: zeros of this process take its place. The connection leaves its owner, so
//!    that its next transaction maps the index anew.
//! 2. What is copied before is what others have there already: the index of the same log is the same, byte by byte.

use crate::sync::wal_index_region::{Region, RegionPlace};
use litefoot_storage::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The recovery of one connection.
#[derive(Default)]
pub(super) struct IndexRecovery {
    is_under_way: AtomicBool,
    /// The regions of the index.
    places: Mutex<Vec<RegionPlace>>,
}

impl IndexRecovery {
    /// The connection has these regions from now on.
    pub(super) fn note_regions(&self, regions: &[Region]) {
        *self.places.lock() = regions.iter().map(Region::place).collect();
    }

    /// SQLite makes the index from now on, or does so no more.
    pub(super) fn note(&self, is_under_way: bool) {
        self.is_under_way.store(is_under_way, Ordering::Relaxed);
    }

    /// A read of the log has failed: what SQLite has made of it is for nobody; `false` where it makes no index.
    pub(super) fn give_up(&self) -> bool {
        if !self.is_under_way.load(Ordering::Relaxed) {
            return false;
        }
        for place in self.places.lock().iter() {
            // SAFETY: regions that go are noted before. SQLite only reads the header anew, which is invalid until the index is made.
            let _ = unsafe { place.leave() };
        }
        true
    }
}
