//! Spill cycle: the pages of one large transaction leave memory in batches, one after the other.
//!
//! A transaction with a rollback journal and one in WAL mode spill by the same rules, so the cycle exists once. It asks
//! the [`SpillPolicy`] when, keeps the [`SpillMap`] of where, and has the one batch under way. The transaction itself
//! keeps the pages. A rollback-journal transaction keeps them by number, one in WAL mode by frame, since SQLite reads
//! back every frame that it wrote.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PageCleaner;
    use crate::txn::SpillTarget;
    use crate::txn::of_test::{PlainTarget, test_slots};
    use std::sync::atomic::Ordering;

    const PAGE: usize = 512;

    fn cycle(page_cleaner: PageCleaner) -> SpillCycle<u32> {
        SpillCycle::new(SpillPolicy::new(page_cleaner, 800))
    }

    fn target() -> Arc<PlainTarget> {
        Arc::new(PlainTarget::new(&[0; 4 * PAGE]))
    }

    /// Begins a batch of pages, behind write 10.
    fn begin(cycle: &mut SpillCycle<u32>, target: &Arc<PlainTarget>, numbers: &[u32], in_background: bool) {
        let pages = numbers.iter().map(|number| (*number, [*number as u8; PAGE].into()));
        let job = cycle.map.job(PAGE, pages.collect::<Vec<_>>(), false);
        cycle.begin(RunningSpill::begin(job, target, in_background), numbers.to_vec(), 10);
    }

    fn end(cycle: &mut SpillCycle<u32>, target: &PlainTarget) -> Result<Vec<BatchedPage<u32>>> {
        let batch = cycle.take().unwrap();
        let result = batch.wait(target.db());
        Ok(cycle.end(batch, result)?.collect())
    }

    #[test]
    fn a_batch_is_waited_for_where_it_has_ended_or_memory_is_full() {
        let (mut cycle, target) = (cycle(PageCleaner::Background), target());
        let spill = SpillStep::Spill { in_background: true, for_good: true };
        let here = SpillStep::Spill { in_background: false, for_good: false };
        let steps = |cycle: &SpillCycle<u32>| [7, 9, 10].map(|bytes| cycle.step(bytes, 10));
        assert_eq!((steps(&cycle), cycle.step_without_room()), ([SpillStep::GoOn, spill, spill], here));
        let early = target.early.lock().unwrap();
        begin(&mut cycle, &target, &[5], true);
        let under_way = [SpillStep::GoOn, SpillStep::GoOn, SpillStep::Wait];
        assert_eq!((steps(&cycle), cycle.step_without_room()), (under_way, SpillStep::Wait));
        assert!(cycle.is_under_way());
        drop(early);
        end(&mut cycle, &target).unwrap();
        begin(&mut cycle, &target, &[6], false);
        assert_eq!((steps(&cycle), cycle.step_without_room()), ([SpillStep::Wait; 3], SpillStep::Wait));
        end(&mut cycle, &target).unwrap();
        assert!(!cycle.is_under_way());
        assert_eq!(steps(&cycle), [SpillStep::GoOn, spill, spill]);
    }

    #[test]
    fn pages_without_a_place_need_slots_unless_they_are_new() {
        let mut cycle = cycle(PageCleaner::Auto);
        cycle.map.give(&[3], test_slots(PAGE, 1000));
        let is_new = |number| number > 4;
        assert_eq!(cycle.unplaced([2, 3, 4, 5].into_iter(), is_new), [2, 4]);
    }

    #[test]
    fn a_page_leaves_memory_unless_it_was_changed_or_cut_off_since() {
        let (mut cycle, target) = (cycle(PageCleaner::Auto), target());
        cycle.map.give(&[3], test_slots(PAGE, 1000));
        begin(&mut cycle, &target, &[3, 5, 6], false);
        assert!(!cycle.is_complete(), "a slot is not written before its batch has ended");
        cycle.map.cut(6);
        let pages = end(&mut cycle, &target).unwrap();
        let places: Vec<(u32, SpillPlace)> =
            pages.iter().map(|batched| (batched.page, batched.place)).collect();
        assert_eq!(places, [(3, SpillPlace::Slot(1000)), (5, SpillPlace::Database(5))]);
        assert_eq!([9, 10, 11].map(|changed| pages[0].is_newest(changed)), [true, true, false]);
        assert!(cycle.is_complete());
    }

    #[test]
    fn a_transaction_is_not_complete_once_a_batch_has_failed() {
        let (mut cycle, target) = (cycle(PageCleaner::Auto), target());
        target.is_full.store(true, Ordering::Relaxed);
        begin(&mut cycle, &target, &[5], false);
        assert!(cycle.is_complete());
        assert!(end(&mut cycle, &target).is_err());
        target.is_full.store(false, Ordering::Relaxed);
        begin(&mut cycle, &target, &[5], false);
        assert!(end(&mut cycle, &target).is_ok() && !cycle.is_complete());
    }

    #[test]
    fn pages_that_come_back_make_the_next_batch_wait_for_more_memory() {
        const MB: usize = 1 << 20;
        for (back, step) in
            [(0, SpillStep::Spill { in_background: true, for_good: true }), (1, SpillStep::GoOn)]
        {
            let (mut cycle, target) = (cycle(PageCleaner::Auto), target());
            for _ in 0..2 {
                begin(&mut cycle, &target, &[5, 6], false);
                end(&mut cycle, &target).unwrap();
                (0..back).for_each(|_| cycle.note_page_back());
            }
            assert_eq!(cycle.step(5 * MB, 100 * MB), step, "{back} came back");
        }
    }
}
