//! The transaction under way in SQLite's log, where it does not fit into memory.
//!
//! Its pages leave in batches ([`SpillPolicy`](crate::txn::spill_policy::SpillPolicy)): new ones for the database file (see `ahead`), old ones for slots of the redo
//! log, where they will stay: the commit only adds their headers. From then on SQLite's log reads them there.
//!
//! # Invariants
//! 1. Slots are given when everything committed is in the redo log, and nobody else commits before the transaction ends:
//!    nothing else is appended where they are.
//! 2. Where pages of it have left, the frame that completes it does not, even if its page is new: it is appended behind the
//!    slots, and says that they count. (Page 1 does not leave either, but need not be among its pages.)
//! 3. A page leaves for one place only. What was changed since it left for a slot is appended behind the slots.
//! 4. A page in a slot that the transaction has given up (`ROLLBACK TO`) is appended as it was before.
//! 5. Once a spill has failed, the transaction cannot be completed.

use crate::error::{Error, Result};
use crate::txn::new_pages::New;
use crate::txn::spill_map::{SpillMap, SpillPlace};
use crate::txn::spill_policy::SpillStep;
use crate::txn::spiller::{Bytes, Job, Written, colder_half};
use crate::txn::wal_bytes::Spilled;
use crate::txn::wal_frames::{Frame, Frames, Transaction};
use crate::txn::wal_spill_state::{Leaving, SpillBatch};
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::format::PageSum;

impl Frames {
    /// Whether SQLite is about to write a page of it, and whether that one ends it.
    pub fn awaits(&self, buf: &[u8], offset: usize) -> Option<bool> {
        let number = self.page_ending(buf, self.store.frame_at(offset)?)?;
        Some(self.awaited(number)?.database_pages != 0)
    }

    /// A frame of it that has begun.
    pub(crate) fn awaited(&self, number: usize) -> Option<&Frame> {
        self.frames.get(number).filter(|_| number >= self.committed)
    }

    /// What is to be done before another page comes.
    pub fn next_step(&self) -> SpillStep {
        let ended =
            self.large.spill_under_way.as_ref().map(|spill_under_way| spill_under_way.running.has_ended());
        if ended == Some(true) {
            return SpillStep::Wait;
        }
        let (open, most) = self.store.open_bytes();
        let held = open.min((self.frames.len() - self.committed) * self.page_bytes());
        let step = match (self.store.has_room(), ended) {
            (true, _) => self.large.policy.step(held, most, ended.is_some()),
            (false, Some(_)) => SpillStep::Wait,
            (false, None) => SpillStep::Spill { in_background: false, for_good: false },
        };
        match step {
            SpillStep::Spill { .. } if self.writes < self.large.not_before => SpillStep::GoOn,
            step => step,
        }
    }

    /// Whether it is known what may be written early.
    pub fn knows_new(&self) -> bool {
        self.large.new.is_some()
    }

    /// Finds out what may be written early into a database file of so many bytes.
    pub fn find_new(&mut self, file_bytes: u64) {
        self.large.new = Some(self.new_pages(self.committed, file_bytes));
    }

    /// What is new to a transaction whose first frame is `first`, in a file of `file_bytes`.
    pub fn new_pages(&self, first: usize, file_bytes: u64) -> New {
        let page_bytes = self.page_bytes() as u64;
        if file_bytes == 0 || page_bytes == 0 {
            return New::none();
        }
        let first_page = file_bytes.div_ceil(page_bytes) as u32 + 1;
        let mut taken = self.page_numbers(0..first).split_off(&first_page);
        taken.extend(self.given_up.range(first_page..));
        New::from_page(first_page, taken)
    }

    /// The colder half of its pages in memory, by number; `None` where they are few.
    pub fn leaving(&mut self) -> Option<Vec<Leaving>> {
        let pages =
            self.store.open_frames().iter().filter_map(|frame| Some((self.frames.get(*frame)?, *frame)));
        // One that has begun and has not arrived has what was rolled back.
        let pages: Vec<(u64, Leaving)> = pages
            .map(|(known, frame)| (known.changed, Leaving { page_number: known.page_number, frame }))
            .filter(|(changed, leaving)| *changed > 0 && leaving.page_number > 1)
            .collect();
        let open = self.store.open_pages();
        if pages.len() < (open / 8).max(2) {
            // Most of what is there was rolled back, or is of no use.
            self.large.not_before = self.writes + open as u64 / 4;
            return None;
        }
        Some(colder_half(pages))
    }

    /// What is left of its new pages in memory, by number, once SQLite has begun its last frame; nothing where none of them
    /// was spilled. The page of that frame is not among them.
    pub fn rest(&self) -> Vec<Leaving> {
        let Some((last, before)) = self.frames.get(self.committed..).and_then(<[_]>::split_last) else {
            return Vec::new();
        };
        let numbers = self.committed..self.committed + before.len();
        let is_there = |number: usize| matches!(self.away(number), Some(Spilled::Database(_)));
        if !numbers.clone().any(is_there) {
            return Vec::new();
        }
        let rest = numbers.zip(before).filter(|(frame, known)| {
            known.page_number <= last.database_pages
                && self.large.is_new(known.page_number)
                && self.is_in_memory(*frame)
        });
        let mut rest: Vec<Leaving> =
            rest.map(|(frame, known)| Leaving { page_number: known.page_number, frame }).collect();
        rest.sort_unstable();
        rest
    }

    /// Those of the pages leaving that need slots, and the number of the first of these.
    pub fn unplaced(&self, leaving: &[Leaving]) -> (Vec<u32>, usize) {
        let numbers = leaving.iter().map(|leaving| leaving.page_number);
        let unplaced =
            numbers.filter(|number| !self.large.is_new(*number) && !self.large.spill_map.contains(*number));
        (unplaced.collect(), self.large.spill_map.slots())
    }

    /// Gives them slots.
    pub fn give_slots(&mut self, unplaced: &[u32], slots: wal_file::Slots) {
        self.store.set_log(slots.file.clone());
        self.large.spill_map.give(unplaced, slots);
    }

    /// What is to be done to write pages away, sorted by number.
    pub fn job(&mut self, leaving: &[Leaving], start_writeback: bool) -> Job {
        let pages = self.pages_of(leaving);
        let job = self.large.spill_map.job(self.page_bytes(), pages, start_writeback);
        self.store.set_known_bytes(self.large.spill_map.bytes());
        job
    }

    /// The same for new pages of a transaction that is complete.
    pub fn late_job(&self, leaving: &[Leaving]) -> Job {
        SpillMap::default().job(self.page_bytes(), self.pages_of(leaving), false)
    }

    fn pages_of(&self, leaving: &[Leaving]) -> Vec<(u32, Bytes)> {
        let page = |leaving: &Leaving| {
            Some((leaving.page_number, self.store.page_in_memory(leaving.frame)?.clone()))
        };
        leaving.iter().filter_map(page).collect()
    }

    /// Whether pages of it are being written away.
    pub fn is_being_spilled(&self) -> bool {
        self.large.spill_under_way.is_some()
    }

    /// A spill has begun.
    pub fn begin_spill(&mut self, spill_under_way: SpillBatch) {
        self.large.policy.spills(spill_under_way.leaving.len());
        self.large.spill_under_way = Some(spill_under_way);
    }

    /// The spill that is under way, to be waited for.
    pub fn take_spill(&mut self) -> Option<SpillBatch> {
        self.large.spill_under_way.take()
    }

    /// A spill has ended: what was not changed since has left.
    pub fn end_spill(&mut self, spill_under_way: SpillBatch, result: Result<Written>) -> Result<()> {
        let written = match result {
            Ok(written) => written,
            Err(error) => {
                self.large.failed = true;
                self.mark_spilled([]);
                return Err(error);
            }
        };
        self.large.spill_map.note(written);
        let gone = spill_under_way.leaving.into_iter().filter_map(|Leaving { page_number, frame }| {
            let known = self.frames.get(frame)?;
            let is_same = known.page_number == page_number && known.changed <= spill_under_way.until;
            let away = match self.large.spill_map.get(page_number)? {
                SpillPlace::Slot(offset) => Spilled::Log(offset),
                SpillPlace::File => Spilled::Database(page_number),
            };
            is_same.then_some((frame, away))
        });
        let gone: Vec<(usize, Spilled)> = gone.collect();
        self.mark_spilled(gone);
        Ok(())
    }

    /// Refuses to complete a transaction of which something could not be written.
    pub fn check_complete(&self) -> Result<()> {
        if self.large.failed || !self.large.spill_map.are_written() {
            return Err(Error::Io("pages of this transaction could not be written; roll it back".to_owned()));
        }
        Ok(())
    }

    /// It is complete.
    pub(crate) fn close_large(&mut self) {
        self.large.closing = self.large.spill_map.slots() > 0;
    }

    /// It was taken back.
    pub(crate) fn reopen_large(&mut self) {
        self.large.closing = false;
    }

    /// Whether slots were given that count for nothing now.
    pub fn has_idle_slots(&self) -> bool {
        self.large.spill_map.slots() > 0 && !self.large.closing
    }

    /// The slots of a complete transaction that is not in the redo log, in their order: page and checksum.
    pub fn slots(&self) -> Vec<(u32, PageSum)> {
        if self.large.closing { self.large.spill_map.in_slots() } else { Vec::new() }
    }

    /// It is in the redo log, and so are the pages that it has given up.
    pub fn slots_logged(&mut self) {
        self.large.closing = false;
        self.given_up.extend(std::mem::take(&mut self.large.spill_map).slot_numbers());
        if !self.given_up.is_empty() {
            for frame in &self.frames[..self.committed] {
                self.given_up.remove(&frame.page_number);
            }
        }
        self.store.set_known_bytes(0);
    }

    /// How many frames of the redo log a finished transaction takes: pages in the database file take none, and a page that
    /// came back from its slot, or was given up there, takes one more than its slot.
    pub fn frames_needed(&self, transaction: Transaction) -> usize {
        let numbers = transaction.first..transaction.end;
        let kept = numbers.clone().filter(|number| self.away(*number).is_none()).count();
        if !self.large.closing {
            return kept;
        }
        let (known, last) = (self.page_numbers(numbers), self.database_pages());
        let is_given_up = |number: &u32| *number <= last && !known.contains(number);
        let given_up = self.large.spill_map.slot_numbers().filter(is_given_up).count();
        kept + self.large.spill_map.slots() + given_up
    }

    /// Whether some of its frames were written early, or it has slots that are not in the redo log yet, though all that was in
    /// them came back or was given up: nothing else may go there before they do.
    pub fn has_spilled_pages(&self, transaction: Transaction) -> bool {
        self.large.closing
            || self.knows_new()
                && (transaction.first..transaction.end).any(|number| self.away(number).is_some())
    }
}
