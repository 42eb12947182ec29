//! Spill cycle: the pages of one large transaction leave memory in batches, one after the other.
//!
//! A transaction with a rollback journal and one in WAL mode spill by the same rules, so the cycle exists once. It asks
//! the [`SpillPolicy`] when, keeps the [`SpillMap`] of where, and has the one batch under way. The pages themselves stay
//! with the transaction: by number with a rollback journal, by frame in WAL mode, where SQLite reads back every frame
//! that it wrote.
//!
//! ```text
//! step -> unplaced, map.give -> map.job -> begin -> (the transaction goes on) -> take, wait -> end
//! ```
//!
//! # Invariants
//! 1. One batch is under way at most.
//! 2. A batch writes pages as they were when it began. A page changed since then stays in memory.
//! 3. A page has one place, for as long as the transaction lasts, unless it is cut off or the slots are left.
//! 4. Once a batch has failed, the transaction cannot commit.

use crate::db::Db;
use crate::error::Result;
use crate::txn::spill_map::{SpillMap, SpillPlace};
use crate::txn::spill_policy::{SpillPolicy, SpillStep};
use crate::txn::spiller::{RunningSpill, SlotSums};
use std::sync::Arc;

/// A page of a batch, as its transaction knows it.
pub trait BatchPage {
    /// The number of the page.
    fn page_number(&self) -> u32;
}

impl BatchPage for u32 {
    fn page_number(&self) -> u32 {
        *self
    }
}

/// Spill cycle of one transaction.
pub struct SpillCycle<P> {
    policy: SpillPolicy,
    /// Where each spilled page lies.
    pub map: SpillMap,
    batch: Option<SpillBatch<P>>,
    has_failed: bool,
}

/// A batch of pages that is being written.
pub struct SpillBatch<P> {
    running: Arc<RunningSpill>,
    pages: Vec<P>,
    /// The transaction's last write before the batch began.
    until: u64,
}

/// A page whose batch has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchedPage<P> {
    pub page: P,
    /// Where the batch has written it.
    pub place: SpillPlace,
    until: u64,
}

impl<P> BatchedPage<P> {
    /// True for a page last changed by this write of the transaction: what was written is its newest version.
    pub fn is_newest(&self, changed: u64) -> bool {
        changed <= self.until
    }
}

impl<P> SpillBatch<P> {
    /// Waits until the batch has ended; answers the checksums of the pages in slots.
    pub fn wait(&self, db: &Db) -> Result<SlotSums> {
        self.running.wait(db)
    }
}

impl<P: BatchPage> SpillCycle<P> {
    /// The cycle of a transaction that begins.
    pub fn new(policy: SpillPolicy) -> SpillCycle<P> {
        SpillCycle { policy, map: SpillMap::default(), batch: None, has_failed: false }
    }

    /// The step before another page enters memory, of which `bytes` are in use of `most`. A batch that has ended is
    /// waited for first: its pages make room.
    pub fn step(&self, bytes: usize, most: usize) -> SpillStep {
        match &self.batch {
            Some(batch) if batch.running.has_ended() => SpillStep::Wait,
            batch => self.policy.step(bytes, most, batch.is_some()),
        }
    }

    /// The step where there is no memory for another page, whatever the policy says.
    pub fn step_without_room(&self) -> SpillStep {
        match self.batch {
            Some(_) => SpillStep::Wait,
            None => SpillStep::Spill { in_background: false, for_good: false },
        }
    }

    /// A page that was spilled is changed once more.
    pub fn note_page_back(&mut self) {
        self.policy.note_page_back();
    }

    /// The pages without a place that cannot be written early: they need slots.
    pub fn unplaced(&self, numbers: impl Iterator<Item = u32>, is_new: impl Fn(u32) -> bool) -> Vec<u32> {
        numbers.filter(|number| !self.map.contains(*number) && !is_new(*number)).collect()
    }

    /// True while a batch is under way.
    pub fn is_under_way(&self) -> bool {
        self.batch.is_some()
    }

    /// A batch of these pages has begun, behind write `until` of the transaction.
    pub fn begin(&mut self, running: Arc<RunningSpill>, pages: Vec<P>, until: u64) {
        debug_assert!(self.batch.is_none(), "one batch at a time");
        self.policy.begin_spill(pages.len());
        self.batch = Some(SpillBatch { running, pages, until });
    }

    /// Takes the batch under way, to be waited for without the lock of the transaction's pages.
    pub fn take(&mut self) -> Option<SpillBatch<P>> {
        self.batch.take()
    }

    /// A batch has ended with this result; answers its pages, each with its place. Pages cut off since have none.
    pub fn end(
        &mut self,
        batch: SpillBatch<P>,
        result: Result<SlotSums>,
    ) -> Result<impl Iterator<Item = BatchedPage<P>>> {
        let sums = result.inspect_err(|_| self.has_failed = true)?;
        self.map.note(sums);
        let (map, until) = (&self.map, batch.until);
        Ok(batch.pages.into_iter().filter_map(move |page| {
            let place = map.get(page.page_number())?;
            Some(BatchedPage { page, place, until })
        }))
    }

    /// True as long as everything that had to be written was.
    pub fn is_complete(&self) -> bool {
        !self.has_failed && self.map.are_written()
    }
}
