//! How much memory something may take that must not be lost: pages of a transaction, a log in memory.
//!
//! It comes out of the one budget of the process, and pools give way to it. A part of the budget is left to them, so that
//! reads go on while a large transaction is under way. What SQLite's own cache keeps back of a transaction
//! is counted as well, by what is known of it.

use crate::vfs::database::Database;
use litefoot_engine::pool::Taken;
use litefoot_engine::reserve;

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
    bytes: usize,
}

impl Allowance {
    /// For a database, with what it is set to.
    pub fn new(database: &Database) -> Allowance {
        let fixed = database.options().wal_memory;
        Allowance {
            taken: Taken::nothing(database.share().budget().clone()),
            fixed: fixed.or_else(|| (!database.is_pooled()).then_some(WITHOUT_BUDGET)),
            bytes: 0,
        }
    }

    /// So many bytes, of a budget of its own.
    #[cfg(test)]
    pub fn fixed(bytes: usize) -> Allowance {
        let budget = std::sync::Arc::new(litefoot_engine::pool::Budget::new(bytes));
        Allowance { taken: Taken::nothing(budget), fixed: Some(bytes), bytes: 0 }
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
    taken: Taken,
    most: usize,
}

impl SpillingCache {
    /// Of a connection to a database, before its transaction has passed anything on.
    pub fn new(database: &Database) -> SpillingCache {
        let share = database.share();
        let most = if database.is_pooled() { share.spill_bytes() } else { 0 };
        SpillingCache { taken: Taken::nothing(share.budget().clone()), most }
    }

    /// One that is not counted.
    #[cfg(test)]
    pub fn uncounted() -> SpillingCache {
        let budget = std::sync::Arc::new(litefoot_engine::pool::Budget::new(0));
        SpillingCache { taken: Taken::nothing(budget), most: 0 }
    }

    /// The transaction has passed so many bytes on.
    pub fn passed(&mut self, bytes: usize) {
        set_in_steps(&mut self.taken, bytes.min(self.most));
    }
}

fn set_in_steps(taken: &mut Taken, bytes: usize) {
    let counted = bytes.next_multiple_of(STEP_BYTES);
    if counted != taken.bytes() {
        taken.set(counted);
    }
}
