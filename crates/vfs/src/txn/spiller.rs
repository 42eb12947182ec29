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
