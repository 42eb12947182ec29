//! Spill state of the transaction under way in WAL mode; `wal_spill` changes it.
//!
//! The spill cycle is that of rollback-journal transactions. The rest is needed for SQLite's log alone:
//! - The new pages are found once for a transaction. With a rollback journal, the redo log is asked for each page.
//! - Slots outlive their transaction until it is in the redo log, which another connection may write.
//! - SQLite leaves frames in its log that `ROLLBACK TO` has taken back. Where they are many, spilling pauses.

use crate::error::{Error, Result};
use crate::txn::new_pages::NewPages;
use crate::txn::spill_cycle::{BatchPage, SpillBatch, SpillCycle};
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::spiller::RunningSpill;
use litefoot_storage::wal_file::format::PageSum;
use std::sync::Arc;

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

    /// True once the new pages were found.
    pub fn knows_new(&self) -> bool {
        self.new.is_some()
    }

    /// True while a spill is under way.
    pub fn is_under_way(&self) -> bool {
        self.cycle.is_under_way()
    }

    /// A spill of these pages has begun, behind write `until`.
    pub fn begin(&mut self, running: Arc<RunningSpill>, pages: Vec<FramePage>, until: u64) {
        self.cycle.begin(running, pages, until);
    }

    /// Takes the spill under way, to be waited for without the lock of the frames.
    pub fn take(&mut self) -> Option<SpillBatch<FramePage>> {
        self.cycle.take()
    }

    /// Refuses to complete a transaction of which something could not be written.
    pub fn check_complete(&self) -> Result<()> {
        if !self.cycle.is_complete() {
            return Err(Error::Io("pages of this transaction could not be written; roll it back".to_owned()));
        }
        Ok(())
    }

    /// The transaction is complete.
    pub(crate) fn close(&mut self) {
        self.closing = self.cycle.map.slots() > 0;
    }

    /// The transaction was taken back.
    pub(crate) fn reopen(&mut self) {
        self.closing = false;
    }

    /// True where slots were given that count for nothing now.
    pub fn has_idle_slots(&self) -> bool {
        self.cycle.map.slots() > 0 && !self.closing
    }

    /// The slots of a complete transaction that is not in the redo log, in order: page number and checksum.
    pub fn slots(&self) -> Vec<(u32, PageSum)> {
        if self.closing { self.cycle.map.in_slots() } else { Vec::new() }
    }

    /// The pages that need slots, and the index of the first of these slots.
    pub fn unplaced(&self, pages: &[FramePage]) -> (Vec<u32>, usize) {
        let numbers = pages.iter().map(|page| page.page_number);
        let unplaced = self.cycle.unplaced(numbers, |number| self.is_new(number));
        (unplaced, self.cycle.map.slots())
    }
}
