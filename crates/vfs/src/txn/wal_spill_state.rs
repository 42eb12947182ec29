//! Spill state of the transaction under way in WAL mode; `wal_spill` changes it.
//!
//! The spill cycle is that of rollback-journal transactions. The rest is needed for SQLite's log alone:
//! - The new pages are found once for a transaction. With a rollback journal, the redo log is asked for each page.
//! - Slots outlive their transaction until it is in the redo log, which another connection may write.
//! - SQLite leaves frames in its log that `ROLLBACK TO` has taken back. Where they are many, spilling pauses.

use crate::txn::new_pages::NewPages;
use crate::txn::spill_cycle::{BatchPage, SpillCycle};
use crate::txn::spill_policy::SpillPolicy;

/// Spill state of one transaction in WAL mode.
pub struct WalSpill {
    pub(super) cycle: SpillCycle<FramePage>,
    /// The pages that may be written early, once that was asked for.
    pub(super) new: Option<NewPages>,
    /// True for a transaction that is complete, and whose slots are not in the redo log yet.
    pub(super) closing: bool,
    /// The write before which it is of no use to look for pages to spill.
    pub(super) not_before: u64,
}

/// A page that leaves memory, and its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FramePage {
    pub page_number: u32,
    pub frame: usize,
}

impl BatchPage for FramePage {
    fn page_number(&self) -> u32 {
        self.page_number
    }
}

impl WalSpill {
    /// The state of a transaction that begins.
    pub fn new(policy: SpillPolicy) -> WalSpill {
        WalSpill { cycle: SpillCycle::new(policy), new: None, closing: false, not_before: 0 }
    }

    /// True for a page that may be written early.
    pub(super) fn is_new(&self, page_number: u32) -> bool {
        self.new.as_ref().is_some_and(|new| new.contains(page_number))
    }
}
