//! The transaction under way in SQLite's log, where it does not fit into memory.
//!
//! Its pages leave in batches ([`SpillPolicy`](crate::txn::spill_policy::SpillPolicy)): new ones for the database file (see `ahead`), old ones for slots of the redo
//! log, where they will stay: the commit only adds their headers. From then on SQLite's log reads them there.
//!
//! # Invariants
//! 1. ReservedSlots are given when everything committed is in the redo log, and nobody else commits before the transaction ends:
//!    nothing else is appended where they are.
//! 2. Where pages of it have left, the frame that completes it does not, even if its page is new: it is appended behind the
//!    slots, and says that they count. (Page 1 does not leave either, but need not be among its pages.)
//! 3. A page leaves for one place only. What was changed since it left for a slot is appended behind the slots.
//! 4. A page in a slot that the transaction has given up (`ROLLBACK TO`) is appended as it was before.
//! 5. Once a spill has failed, the transaction cannot be completed.

use crate::error::{Error, Result};
use crate::txn::new_pages::{NewPages, first_behind};
use crate::txn::spill_cycle::SpillBatch;
use crate::txn::spill_map::{SpillMap, SpillPlace};
use crate::txn::spill_policy::SpillStep;
use crate::txn::spiller::{PageBytes, RunningSpill, SlotSums, SpillJob, colder_half};
use crate::txn::wal_frames::{Transaction, WalFrame, WalFrames};
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::format::PageSum;
use std::collections::BTreeSet;
use std::sync::Arc;

impl WalFrames {
    /// Whether SQLite is about to write a page of it, and whether that one ends it.
    pub fn awaits(&self, buf: &[u8], offset: usize) -> Option<bool> {
        let number = self.page_ending(buf, self.bytes.frame_at(offset)?)?;
        Some(self.awaited(number)?.database_pages != 0)
    }

    /// A frame of it that has begun.
    pub(super) fn awaited(&self, number: usize) -> Option<&WalFrame> {
        self.frames.get(number).filter(|_| number >= self.committed)
    }

    /// What is to be done before another page comes.
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

    /// Whether it is known what may be written early.
    pub fn knows_new(&self) -> bool {
        self.spill.new.is_some()
    }

    /// Finds out what may be written early into a database file of so many bytes.
    pub fn find_new(&mut self, file_bytes: u64) {
        self.spill.new = Some(self.new_pages(self.committed, file_bytes));
    }

    /// What is new to a transaction whose first frame is `first`, in a file of `file_bytes`.
    pub fn new_pages(&self, first: usize, file_bytes: u64) -> NewPages {
        let first_page = first_behind(file_bytes, self.page_bytes());
        if first_page == u32::MAX {
            return NewPages::from_page(first_page, BTreeSet::new());
        }
        let mut taken = self.page_numbers(0..first).split_off(&first_page);
        taken.extend(self.given_up.range(first_page..));
        NewPages::from_page(first_page, taken)
    }

    /// The colder half of its pages in memory, by number; `None` where they are few.
    pub fn leaving(&mut self) -> Option<Vec<FramePage>> {
        let pages =
            self.bytes.open_frames().iter().filter_map(|frame| Some((self.frames.get(*frame)?, *frame)));
        // One that has begun and has not arrived has what was rolled back.
        let pages: Vec<(u64, FramePage)> = pages
            .map(|(known, frame)| (known.changed, FramePage { page_number: known.page_number, frame }))
            .filter(|(changed, leaving)| *changed > 0 && leaving.page_number > 1)
            .collect();
        let open = self.bytes.open_pages();
        if pages.len() < (open / 8).max(2) {
            // Most of what is there was rolled back, or is of no use.
            self.spill.not_before = self.writes + open as u64 / 4;
            return None;
        }
        Some(colder_half(pages))
    }

    /// What is left of its new pages in memory, by number, once SQLite has begun its last frame; nothing where none of them
    /// was spilled. The page of that frame is not among them.
    pub fn rest(&self) -> Vec<FramePage> {
        let Some((last, before)) = self.frames.get(self.committed..).and_then(<[_]>::split_last) else {
            return Vec::new();
        };
        let numbers = self.committed..self.committed + before.len();
        let is_there = |number: usize| matches!(self.spill_place(number), Some(SpillPlace::Database(_)));
        if !numbers.clone().any(is_there) {
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

    /// Those of the pages leaving that need slots, and the number of the first of these.
    pub fn unplaced(&self, leaving: &[FramePage]) -> (Vec<u32>, usize) {
        let numbers = leaving.iter().map(|leaving| leaving.page_number);
        let unplaced = self.spill.cycle.unplaced(numbers, |number| self.spill.is_new(number));
        (unplaced, self.spill.cycle.map.slots())
    }

    /// Gives them slots.
    pub fn give_slots(&mut self, unplaced: &[u32], slots: wal_file::ReservedSlots) {
        self.bytes.set_log(slots.file.clone());
        self.spill.cycle.map.give(unplaced, slots);
    }

    /// What is to be done to write pages away, sorted by number.
    pub fn job(&mut self, leaving: &[FramePage], start_writeback: bool) -> SpillJob {
        let pages = self.pages_of(leaving);
        let job = self.spill.cycle.map.job(self.page_bytes(), pages, start_writeback);
        self.bytes.set_known_bytes(self.spill.cycle.map.bytes());
        job
    }

    /// The same for new pages of a transaction that is complete.
    pub fn late_job(&self, leaving: &[FramePage]) -> SpillJob {
        SpillMap::default().job(self.page_bytes(), self.pages_of(leaving), false)
    }

    fn pages_of(&self, leaving: &[FramePage]) -> Vec<(u32, PageBytes)> {
        let page = |leaving: &FramePage| {
            Some((leaving.page_number, self.bytes.page_in_memory(leaving.frame)?.clone()))
        };
        leaving.iter().filter_map(page).collect()
    }

    /// Whether pages of it are being written away.
    pub fn is_being_spilled(&self) -> bool {
        self.spill.cycle.is_under_way()
    }

    /// A spill has begun.
    pub fn begin_spill(&mut self, running: Arc<RunningSpill>, leaving: Vec<FramePage>, until: u64) {
        self.spill.cycle.begin(running, leaving, until);
    }

    /// The spill that is under way, to be waited for.
    pub fn take_spill(&mut self) -> Option<SpillBatch<FramePage>> {
        self.spill.cycle.take()
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

    /// Refuses to complete a transaction of which something could not be written.
    pub fn check_complete(&self) -> Result<()> {
        if !self.spill.cycle.is_complete() {
            return Err(Error::Io("pages of this transaction could not be written; roll it back".to_owned()));
        }
        Ok(())
    }

    /// It is complete.
    pub(crate) fn close_large(&mut self) {
        self.spill.closing = self.spill.cycle.map.slots() > 0;
    }

    /// It was taken back.
    pub(crate) fn reopen_large(&mut self) {
        self.spill.closing = false;
    }

    /// Whether slots were given that count for nothing now.
    pub fn has_idle_slots(&self) -> bool {
        self.spill.cycle.map.slots() > 0 && !self.spill.closing
    }

    /// The slots of a complete transaction that is not in the redo log, in their order: page and checksum.
    pub fn slots(&self) -> Vec<(u32, PageSum)> {
        if self.spill.closing { self.spill.cycle.map.in_slots() } else { Vec::new() }
    }

    /// It is in the redo log, and so are the pages that it has given up.
    pub fn slots_logged(&mut self) {
        self.spill.closing = false;
        self.given_up.extend(std::mem::take(&mut self.spill.cycle.map).slot_numbers());
        if !self.given_up.is_empty() {
            for frame in &self.frames[..self.committed] {
                self.given_up.remove(&frame.page_number);
            }
        }
        self.bytes.set_known_bytes(0);
    }

    /// How many frames of the redo log a finished transaction takes: pages in the database file take none, and a page that
    /// came back from its slot, or was given up there, takes one more than its slot.
    pub fn frames_needed(&self, transaction: Transaction) -> usize {
        let numbers = transaction.first..transaction.end;
        let kept = numbers.clone().filter(|number| self.spill_place(*number).is_none()).count();
        if !self.spill.closing {
            return kept;
        }
        let (known, last) = (self.page_numbers(numbers), self.database_pages());
        let is_given_up = |number: &u32| *number <= last && !known.contains(number);
        let given_up = self.spill.cycle.map.slot_numbers().filter(is_given_up).count();
        kept + self.spill.cycle.map.slots() + given_up
    }

    /// Whether some of its frames were written early, or it has slots that are not in the redo log yet, though all that was in
    /// them came back or was given up: nothing else may go there before they do.
    pub fn has_spilled_pages(&self, transaction: Transaction) -> bool {
        self.spill.closing
            || self.knows_new()
                && (transaction.first..transaction.end).any(|number| self.spill_place(number).is_some())
    }
}
