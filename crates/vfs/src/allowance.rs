//! How much memory something may take that must not be lost: pages of a transaction, a log in memory.
//!
//! It comes out of the one budget of the process, and pools give way to it. A part of the budget is left to them, so that
//! reads go on while a large transaction is under way. What SQLite's own cache keeps back of a transaction
//! is counted as well, by what is known of it.

use crate::vfs::database::Database;
use litefoot_engine::pool::Taken;

/// The part of the budget that all of them together may take; the rest is for the pools.
const SHARE: f64 = 0.75;
/// By how much it is taken.
const STEP_BYTES: usize = 64 << 10;
/// Bytes however little is free.
const LEAST_BYTES: usize = 256 << 10;
/// Bytes where no pool is wanted, and so no budget.
const WITHOUT_BUDGET: usize = 16 << 20;

/// Memory of one such thing.
pub struct Allowance {
    taken: Taken,
    /// Bytes that must do, whatever is free.
    fixed: Option<usize>,
    /// Most bytes that SQLite's cache may have besides.
    beside: usize,
    bytes: usize,
}

impl Allowance {
    /// For a database, with what it is set to; `beside` bytes at most are counted on top.
    pub fn new(database: &Database, beside: usize) -> Allowance {
        let fixed = database.options().wal_memory;
        Allowance {
            taken: Taken::nothing(database.share().budget().clone()),
            fixed: fixed.or_else(|| (!database.is_pooled()).then_some(WITHOUT_BUDGET)),
            beside,
            bytes: 0,
        }
    }

    /// So many bytes, of a budget of its own.
    #[cfg(test)]
    pub fn fixed(bytes: usize) -> Allowance {
        let budget = std::sync::Arc::new(litefoot_engine::pool::Budget::new(bytes));
        Allowance { taken: Taken::nothing(budget), fixed: Some(bytes), beside: 0, bytes: 0 }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that may be in use as things are.
    pub fn most(&self) -> usize {
        match self.fixed {
            Some(fixed) => fixed,
            None => self.taken.most(SHARE).saturating_sub(self.beside).max(LEAST_BYTES),
        }
    }

    /// So many bytes are in use now.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        let counted = (bytes + bytes.min(self.beside)).next_multiple_of(STEP_BYTES);
        if counted != self.taken.bytes() {
            self.taken.set(counted);
        }
    }
}
