//! Writing pages of a large transaction away, in sorted and merged batches.
//!
//! A job has the pages as they were when it was made: whoever changes one meanwhile makes a copy. It writes nothing that
//! anybody could see before the commit, and so it may end, or fail, at any time.

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

/// The name of the thread.
const NAME: &str = "litefoot-spill";

/// The content of a page, shared with whoever writes it.
pub type Bytes = Arc<[u8]>;

/// A header that is no frame's.
static NO_HEADER: [u8; FRAME_HEADER_BYTES] = [0; FRAME_HEADER_BYTES];

/// A page on its way to a slot of the log.
pub struct ToSlot {
    pub index: usize,
    pub offset: u64,
    pub bytes: Bytes,
}

/// What is to be written.
pub struct Job {
    pub page_bytes: usize,
    /// Pages behind the end of the database, by number.
    pub to_file: Vec<(u32, Bytes)>,
    /// Pages for the log, by slot, and the log.
    pub to_slots: Vec<ToSlot>,
    pub log: Option<(Arc<dyn File>, Header)>,
    /// Whether the device may begin with them.
    pub start_writeback: bool,
}

/// The checksums of what was written to slots.
pub type Written = Vec<(usize, PageSum)>;

impl Job {
    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.to_file.len() + self.to_slots.len()
    }

    /// Does it.
    pub fn run(&self, target: &impl SpillTarget) -> Result<Written> {
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

/// A job that was begun: a worker with one run.
#[derive(Default)]
pub struct Running(Arc<Worker<Result<Written>>>);

impl Running {
    /// Begins a job: on a thread of its own where `in_background` says so and the system has one, else at once.
    pub fn begin<T: SpillTarget>(job: Job, target: &Arc<T>, in_background: bool) -> Arc<Running> {
        let running = Arc::new(Running::default());
        let Some(mut claim) = running.0.claim() else { return running };
        let job = Arc::new(job);
        if in_background {
            // The last handle to be closed gives the database back, before a thread that waits goes on.
            let (there, mine) = (target.clone(), job.clone());
            match claim.start(NAME, target.db().latch(), move |_| mine.run(&*there)) {
                Ok(()) => return running,
                Err(back) => claim = back,
            }
        }
        let begun = Instant::now();
        claim.run_here(NAME, || job.run(&**target));
        note_wait(target.db(), begun);
        running
    }

    /// True once the job has ended.
    pub fn has_ended(&self) -> bool {
        !self.0.is_running()
    }

    /// Waits for the end of the job, and counts a wait. Takes the result.
    pub fn wait(&self, db: &Db) -> Result<Written> {
        let begun = self.0.is_running().then(Instant::now);
        let result = self.0.take();
        if let Some(begun) = begun {
            note_wait(db, begun);
        }
        result?.unwrap_or_else(|| Err(Error::Io("a spill was asked for twice".to_owned())))
    }
}

/// A transaction has waited for a spill.
fn note_wait(db: &Db, begun: Instant) {
    let counters = db.counters();
    Stats::add(&counters.spill_waits, 1);
    let waited_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    Stats::add(&counters.spill_wait_us, waited_us);
}

/// The half that was changed longest ago, of pages and when they were changed; in order.
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
