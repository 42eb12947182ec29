//! Spiller: writes pages of a large transaction to their places, in sorted and merged batches.
//!
//! # Invariants
//! 1. A job has the pages as they were when it was made: a transaction that changes one meanwhile goes on with a copy.
//! 2. A job writes nothing that anybody could see before the commit. So it may end, or fail, at any time.
//! 3. Pages are in order of their place, and adjacent ones are one write.

use crate::db::Db;
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::txn::SpillTarget;
use litefoot_storage::file::{File, runs};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, Header, PageSum};
use litefoot_storage::worker::Worker;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

/// Name of the background thread.
const THREAD: &str = "litefoot-spill";

/// Content of a page, shared by its transaction and a spill job.
pub type PageBytes = Arc<[u8]>;

/// The header of a frame that does not count yet.
static NO_HEADER: [u8; FRAME_HEADER_BYTES] = [0; FRAME_HEADER_BYTES];

/// A page on its way to a slot of the log.
pub struct ToSlot {
    /// The index of the slot in the spill map.
    pub index: usize,
    pub offset: u64,
    pub bytes: PageBytes,
}

/// Spill job: one batch of pages, and where they are written.
pub struct SpillJob {
    pub page_bytes: usize,
    /// Pages behind the end of the database, by number.
    pub to_file: Vec<(u32, PageBytes)>,
    /// Pages for slots of the log, by index; and the log.
    pub to_slots: Vec<ToSlot>,
    pub log: Option<(Arc<dyn File>, Header)>,
    /// True where the device may begin with the pages at once.
    pub start_writeback: bool,
}

/// Checksums of the pages that a job has written to slots, by the index of the slot.
pub type SlotSums = Vec<(usize, PageSum)>;

impl SpillJob {
    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.to_file.len() + self.to_slots.len()
    }

    /// Writes all pages; answers the checksums of those in slots.
    pub fn run(&self, target: &impl SpillTarget) -> Result<SlotSums> {
        let db = target.db();
        for run in runs(&self.to_file, self.page_bytes, |(number, _)| u64::from(*number)) {
            let slices: Vec<IoSlice<'_>> = run.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
            let offset = u64::from(run[0].0 - 1) * self.page_bytes as u64;
            target.write_behind_end(&slices, offset, self.start_writeback)?;
        }
        let mut written = Vec::with_capacity(self.to_slots.len());
        if let Some((file, header)) = &self.log {
            for run in runs(&self.to_slots, self.page_bytes, |page| page.index as u64) {
                db.latch().check(db.path())?;
                let slices: Vec<IoSlice<'_>> = run
                    .iter()
                    .flat_map(|page| [IoSlice::new(&NO_HEADER), IoSlice::new(&page.bytes)])
                    .collect();
                let offset = run[0].offset - FRAME_HEADER_BYTES as u64;
                file.write_vectored_at(&slices, offset)?;
                if self.start_writeback {
                    file.start_writeback(offset, (run.len() * header.frame_bytes()) as u64);
                }
                written.extend(run.iter().map(|page| (page.index, header.page_sum(&page.bytes))));
            }
        }
        let counters = db.counters();
        Stats::add(&counters.spills, 1);
        Stats::add(&counters.spilled_bytes, (self.pages() * self.page_bytes) as u64);
        Ok(written)
    }
}

/// Running spill: a worker with one run, of one job.
#[derive(Default)]
pub struct RunningSpill(Arc<Worker<Result<SlotSums>>>);

impl RunningSpill {
    /// Runs a job: on a background thread where `in_background` says so and the system has one, else before it answers.
    pub fn begin<T: SpillTarget>(job: SpillJob, target: &Arc<T>, in_background: bool) -> Arc<RunningSpill> {
        let running = Arc::new(RunningSpill::default());
        let Some(mut claim) = running.0.claim() else { return running };
        let job = Arc::new(job);
        if in_background {
            // The closure drops its handle of the database before a waiting thread goes on.
            let (there, mine) = (target.clone(), job.clone());
            match claim.start(THREAD, target.db().latch(), move |_| mine.run(&*there)) {
                Ok(()) => return running,
                Err(back) => claim = back,
            }
        }
        let begun = Instant::now();
        claim.run_here(THREAD, || job.run(&**target));
        note_wait(target.db(), begun);
        running
    }

    /// True once the job has ended.
    pub fn has_ended(&self) -> bool {
        !self.0.is_running()
    }

    /// Waits until the job has ended, and counts the wait. Takes the result.
    pub fn wait(&self, db: &Db) -> Result<SlotSums> {
        let begun = self.0.is_running().then(Instant::now);
        let result = self.0.take();
        if let Some(begun) = begun {
            note_wait(db, begun);
        }
        result?.unwrap_or_else(|| Err(Error::Io("a spill was asked for twice".to_owned())))
    }
}

/// Counts a transaction's wait for a spill.
fn note_wait(db: &Db, begun: Instant) {
    let counters = db.counters();
    Stats::add(&counters.spill_waits, 1);
    let waited_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    Stats::add(&counters.spill_wait_us, waited_us);
}

/// The colder half of pages, each with its last change: those changed longest ago, sorted. Of an odd number it is the
/// larger half.
pub fn colder_half<T: Ord>(mut pages: Vec<(u64, T)>) -> Vec<T> {
    if pages.is_empty() {
        return Vec::new();
    }
    let middle = (pages.len() - 1) / 2;
    pages.select_nth_unstable_by_key(middle, |(changed, _)| *changed);
    let mut colder: Vec<T> = pages.into_iter().take(middle + 1).map(|(_, page)| page).collect();
    colder.sort_unstable();
    colder
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::of_test::{PlainTarget, test_slots};
    use std::sync::atomic::Ordering;

    const PAGE: usize = 512;

    fn page(byte: u8) -> PageBytes {
        [byte; PAGE].into()
    }

    fn job(to_file: &[u8], to_slots: &[usize]) -> SpillJob {
        let slots = test_slots(PAGE, 1000);
        let to_slot = |index: &usize| {
            let offset = slots.offset + (index * slots.header.frame_bytes()) as u64;
            ToSlot { index: *index, offset, bytes: page(*index as u8) }
        };
        SpillJob {
            page_bytes: PAGE,
            to_file: to_file.iter().map(|number| (u32::from(*number), page(*number))).collect(),
            to_slots: to_slots.iter().map(to_slot).collect(),
            log: Some((slots.file, slots.header)),
            start_writeback: true,
        }
    }

    #[test]
    fn the_colder_half_is_what_was_changed_longest_ago_in_order() {
        // (pages with their last change, the colder half)
        for (pages, colder) in [
            (&[][..], &[][..]),
            (&[(9, 4)], &[4]),
            (&[(2, 1), (1, 7)], &[7]),
            (&[(5, 1), (1, 9), (2, 3)], &[3, 9]),
            (&[(1, 8), (2, 6), (3, 4), (4, 2)], &[6, 8]),
            (&[(4, 2), (3, 4), (2, 6), (1, 8)], &[6, 8]),
        ] {
            assert_eq!(colder_half(pages.to_vec()), colder, "{pages:?}");
        }
    }

    #[test]
    fn adjacent_pages_are_one_write_and_every_page_reaches_its_place() {
        let target = PlainTarget::new(&[0; 4 * PAGE]);
        let job = job(&[5, 6, 9], &[0, 1, 3]);
        let sums = job.run(&target).unwrap();
        let at = |number: u64| (number - 1) * PAGE as u64;
        assert_eq!(*target.early.lock().unwrap(), [(at(5), 2 * PAGE), (at(9), PAGE)]);
        let (log, header) = job.log.as_ref().unwrap();
        assert_eq!(sums, [0, 1, 3].map(|index: usize| (index, header.page_sum(&page(index as u8)))));
        let mut read = [0; PAGE];
        for to_slot in &job.to_slots {
            assert_eq!(log.read_at(&mut read, to_slot.offset).unwrap(), PAGE);
            assert_eq!(read[..], to_slot.bytes[..], "slot {}", to_slot.index);
        }
        for number in [5, 6, 9] {
            assert_eq!(target.db().data().read_at(&mut read, at(number)).unwrap(), PAGE);
            assert_eq!(read, [number as u8; PAGE], "page {number}");
        }
        let counters = target.db().counters();
        let counted = [&counters.spills, &counters.spilled_bytes].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counted, [1, 6 * PAGE as u64]);
    }

    #[test]
    fn a_batch_that_fails_says_so_once_on_either_thread() {
        for in_background in [false, true] {
            let target = Arc::new(PlainTarget::new(&[0; 4 * PAGE]));
            target.is_full.store(true, Ordering::Relaxed);
            let running = RunningSpill::begin(job(&[5], &[]), &target, in_background);
            let error = running.wait(target.db()).unwrap_err();
            assert!(error.to_string().contains("the disk is full"), "{in_background} {error}");
            assert!(running.has_ended() && running.wait(target.db()).is_err());
            assert!(target.db().latch().check(target.db().path()).is_ok(), "a later transaction goes on");
        }
    }

    #[test]
    fn a_latched_database_takes_no_page_in_a_slot() {
        let target = PlainTarget::new(&[0; 4 * PAGE]);
        target.db().latch().close("a sync has failed");
        assert!(job(&[], &[0]).run(&target).is_err());
    }
}
