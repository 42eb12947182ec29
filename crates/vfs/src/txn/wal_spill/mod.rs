//! Spilling in WAL mode: the transaction under way in SQLite's log, where it does not fit into memory.
//!
//! The [`SpillCycle`](crate::txn::spill_cycle::SpillCycle) spills it in batches: new pages to the database file
//! (`new_pages`), all others to slots of the redo log, where they stay. The commit only adds their frame headers. SQLite
//! reads its log, and so every spilled frame, from there.
//!
//! # Invariants
//! 1. Slots are given when everything committed is in the redo log. The transaction has the write lock until it ends, so
//!    nothing else is appended where the slots are.
//! 2. Of a transaction with spilled pages, the frame that completes it is never spilled: it is appended behind the slots,
//!    and says that they count. (Page 1 is never spilled either, but need not be among the pages.)
//! 3. A page that was changed since it was spilled to a slot is appended behind the slots.
//! 4. A page in a slot that the transaction has taken back (`ROLLBACK TO`) is appended as it was before.
//! 5. Once a spill has failed, the transaction cannot commit.

use crate::error::Result;
use crate::txn::new_pages::{NewPages, first_behind};
use crate::txn::spill_cycle::SpillBatch;
use crate::txn::spill_map::{SpillMap, SpillPlace};
use crate::txn::spill_policy::SpillStep;
use crate::txn::spiller::{PageBytes, SlotSums, SpillJob, colder_half};
use crate::txn::wal_frames::{Transaction, WalFrame, WalFrames};
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::wal_file::{self, early_frames};
use std::collections::BTreeSet;

impl WalFrames {
    /// For a write that ends a page of the transaction: true where the page completes the transaction.
    pub fn awaits(&self, buf: &[u8], offset: usize) -> Option<bool> {
        let number = self.page_ending(buf, self.bytes.frame_at(offset)?)?;
        Some(self.awaited(number)?.database_pages != 0)
    }

    /// A frame of the transaction under way that has begun.
    pub(super) fn awaited(&self, number: usize) -> Option<&WalFrame> {
        self.frames.get(number).filter(|_| number >= self.committed)
    }

    /// The step before another page enters memory. Where SQLite has left few pages of use, spilling pauses for some writes.
    pub fn next_step(&self) -> SpillStep {
        let step = if self.bytes.has_room() {
            let (open, most) = self.bytes.open_bytes();
            self.spill.cycle.step(open.min((self.frames.len() - self.committed) * self.page_bytes()), most)
        } else {
            self.spill.cycle.step_without_room()
        };
        match step {
            SpillStep::Spill { .. } if self.writes < self.spill.not_before => SpillStep::GoOn,
            step => step,
        }
    }

    /// Finds the pages that may be written early into a database file of so many bytes.
    pub fn find_new(&mut self, file_bytes: u64) {
        self.spill.new = Some(self.new_pages(self.committed, file_bytes));
    }

    /// The new pages of a transaction whose first frame is `first`, in a file of `file_bytes`.
    pub fn new_pages(&self, first: usize, file_bytes: u64) -> NewPages {
        let first_page = first_behind(file_bytes, self.page_bytes());
        if first_page == u32::MAX {
            return NewPages::from_page(first_page, BTreeSet::new());
        }
        let mut taken = self.page_numbers(0..first).split_off(&first_page);
        taken.extend(self.given_up.range(first_page..));
        NewPages::from_page(first_page, taken)
    }

    /// The colder half of the pages in memory, by number; `None` where they are few.
    pub fn colder_half(&mut self) -> Option<Vec<FramePage>> {
        let pages =
            self.bytes.open_frames().iter().filter_map(|frame| Some((self.frames.get(*frame)?, *frame)));
        // A frame that has begun and has not arrived still has a page that was rolled back.
        let pages: Vec<(u64, FramePage)> = pages
            .map(|(known, frame)| (known.changed, FramePage { page_number: known.page_number, frame }))
            .filter(|(changed, leaving)| *changed > 0 && leaving.page_number > 1)
            .collect();
        let open = self.bytes.open_pages();
        if pages.len() < (open / 8).max(2) {
            // Most pages in memory were rolled back.
            self.spill.not_before = self.writes + open as u64 / 4;
            return None;
        }
        Some(colder_half(pages))
    }

    /// The new pages still in memory, by number, once SQLite has begun the last frame; none where no new page was spilled.
    /// The page of the last frame is not among them.
    pub fn last_new_pages(&self) -> Vec<FramePage> {
        let Some((last, before)) = self.frames.get(self.committed..).and_then(<[_]>::split_last) else {
            return Vec::new();
        };
        let numbers = self.committed..self.committed + before.len();
        let is_early = |number: usize| matches!(self.spill_place(number), Some(SpillPlace::Database(_)));
        if !numbers.clone().any(is_early) {
            return Vec::new();
        }
        let rest = numbers.zip(before).filter(|(frame, known)| {
            known.page_number <= last.database_pages
                && self.spill.is_new(known.page_number)
                && self.is_in_memory(*frame)
        });
        let mut rest: Vec<FramePage> =
            rest.map(|(frame, known)| FramePage { page_number: known.page_number, frame }).collect();
        rest.sort_unstable();
        rest
    }

    /// Gives pages slots.
    pub fn give_slots(&mut self, unplaced: &[u32], slots: wal_file::ReservedSlots) {
        self.bytes.set_log(slots.file.clone());
        self.spill.cycle.map.give(unplaced, slots);
    }

    /// The job that spills pages, sorted by number.
    pub fn job(&mut self, pages: &[FramePage], start_writeback: bool) -> SpillJob {
        let pages = self.pages_of(pages);
        let job = self.spill.cycle.map.job(self.page_bytes(), pages, start_writeback);
        self.bytes.set_map_bytes(self.spill.cycle.map.bytes());
        job
    }

    /// The job that writes new pages of a complete transaction early, before its commit.
    pub fn early_write_job(&self, pages: &[FramePage]) -> SpillJob {
        SpillMap::default().job(self.page_bytes(), self.pages_of(pages), false)
    }

    fn pages_of(&self, pages: &[FramePage]) -> Vec<(u32, PageBytes)> {
        let with_bytes =
            |page: &FramePage| Some((page.page_number, self.bytes.page_in_memory(page.frame)?.clone()));
        pages.iter().filter_map(with_bytes).collect()
    }

    /// A spill has ended: its pages have left memory, except those that were changed since it began.
    pub fn end_spill(&mut self, batch: SpillBatch<FramePage>, result: Result<SlotSums>) -> Result<()> {
        let WalFrames { frames, bytes, spill, .. } = self;
        let ended = spill.cycle.end(batch, result).map(|pages| {
            for batched in pages {
                let FramePage { page_number, frame } = batched.page;
                let known = frames.get(frame).filter(|known| known.page_number == page_number);
                if known.is_some_and(|known| batched.is_newest(known.changed)) {
                    bytes.mark_spilled(frame, batched.place);
                }
            }
        });
        bytes.end_copies();
        ended
    }

    /// The transaction is in the redo log, and so are the pages that it has taken back.
    pub fn slots_logged(&mut self) {
        self.spill.closing = false;
        self.given_up.extend(std::mem::take(&mut self.spill.cycle.map).slot_numbers());
        if !self.given_up.is_empty() {
            for frame in &self.frames[..self.committed] {
                self.given_up.remove(&frame.page_number);
            }
        }
        self.bytes.set_map_bytes(0);
    }

    /// The number of frames that a finished transaction takes in the redo log. Pages in the database file take a few for their
    /// checksums. A page in a slot takes one more if it was changed again or taken back.
    pub fn frames_needed(&self, transaction: Transaction) -> usize {
        let numbers = transaction.first..transaction.end;
        let is_early = |number: &usize| matches!(self.spill_place(*number), Some(SpillPlace::Database(_)));
        let early = early_frames(numbers.clone().filter(is_early).count(), self.page_bytes() as u32);
        let kept = early + numbers.clone().filter(|number| self.spill_place(*number).is_none()).count();
        if !self.spill.closing {
            return kept;
        }
        let (known, last) = (self.page_numbers(numbers), self.database_pages());
        let is_given_up = |number: &u32| *number <= last && !known.contains(number);
        let given_up = self.spill.cycle.map.slot_numbers().filter(is_given_up).count();
        kept + self.spill.cycle.map.slots() + given_up
    }

    /// True for a transaction with frames that were written early, or with slots that are not in the redo log yet. Nothing
    /// else may be logged before it, even if every page in the slots was changed again or taken back.
    pub fn has_spilled_pages(&self, transaction: Transaction) -> bool {
        self.spill.closing
            || self.spill.knows_new()
                && (transaction.first..transaction.end).any(|number| self.spill_place(number).is_some())
    }
}

#[cfg(test)]
mod tests;
