//! Bringing what has changed to the medium, all of it or nothing; the order is drawn in the module above.

use super::inner::Inner;
use super::{Error, PageId, Result};
use litefoot_storage::buffer_pool::Cleaning;
use litefoot_storage::file::{self, DeviceError};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::Transaction;
use litefoot_storage::worker::Run;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The pages and the table that a checkpoint writes.
struct TakenPages<'a> {
    pages: Vec<Cleaning<'a>>,
    groups: BTreeSet<u32>,
    /// Pages of the allocation table.
    tables: Vec<(PageId, Vec<u8>)>,
    /// Pages of the file.
    count: u64,
    group_count: u32,
}

impl TakenPages<'_> {
    /// All pages, in the order of the file.
    fn sorted(&self) -> Vec<(PageId, &[u8])> {
        let pages = self.pages.iter().map(|page| (page.page(), &**page));
        let mut all: Vec<(PageId, &[u8])> =
            pages.chain(self.tables.iter().map(|(page, bytes)| (*page, bytes.as_slice()))).collect();
        all.sort_unstable_by_key(|(page, _)| *page);
        all
    }
}

impl Inner {
    /// Makes everything durable that was changed by units that have ended.
    pub fn checkpoint(&self) -> Result<()> {
        let _turn = self.turn();
        let take = || {
            let pages = self.pool.clean();
            let mut allocation = self.allocation.lock();
            let groups = allocation.take_changed();
            let table = |group: &u32| {
                let mut bytes = vec![0; self.pool.page_bytes()];
                allocation.encode(*group, &mut bytes);
                (allocation.page_of(*group), bytes)
            };
            let tables = groups.iter().map(table).collect();
            TakenPages { pages, tables, groups, count: allocation.pages(), group_count: allocation.groups() }
        };
        let taken = self.gate.between(take).ok_or_else(|| Error::UnitOpen { path: self.path.clone() })?;
        if taken.pages.is_empty() && taken.tables.is_empty() {
            return Ok(());
        }
        match self.write(&taken) {
            Ok(()) => {
                taken.pages.into_iter().for_each(Cleaning::done);
                self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.allocation.lock().put_back(taken.groups);
                Err(error.into())
            }
        }
    }

    fn write(&self, taken: &TakenPages<'_>) -> std::result::Result<(), DeviceError> {
        let pages = taken.sorted();
        let mut files = self.files.lock();
        let numbers: Vec<u32> = pages.iter().map(|(page, _)| *page as u32 + 1).collect();
        let transaction = Transaction {
            slots: &[],
            early: &[],
            page_numbers: &numbers,
            page_bytes: self.pool.page_bytes() as u32,
            database_pages: taken.count as u32,
        };
        let mut copy = |index: usize, bytes: &mut [u8]| {
            bytes.copy_from_slice(pages[index].1);
            Ok(())
        };
        files.redo.append(&transaction, &mut copy, Durability::Durable)?;
        for run in file::runs(&pages, self.pool.page_bytes(), |(page, _)| *page) {
            let slices: Vec<IoSlice<'_>> = run.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
            files.data.write_vectored_at(&slices, run[0].0 * self.pool.page_bytes() as u64)?;
            self.counters.writes.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.pages.fetch_add(pages.len() as u64, Ordering::Relaxed);
        files.latch.check(&self.path)?;
        let synced = files.data.sync();
        files.latch.watch(synced)?;
        files.note_groups(taken.group_count)?;
        files.redo.reset();
        Ok(())
    }

    /// One checkpoint at a time. A fiber that waits for its turn leaves its thread to the one that has it.
    fn turn(&self) -> CheckpointTurn<'_> {
        self.busy.wait(|busy| (!std::mem::replace(busy, true)).then_some(()));
        CheckpointTurn(self)
    }
}

struct CheckpointTurn<'a>(&'a Inner);

impl Drop for CheckpointTurn<'_> {
    fn drop(&mut self) {
        self.0.busy.change(|busy| *busy = false);
    }
}

/// Starts the page cleaner: a run of the worker that makes a checkpoint at each signal, and after each interval. Answers
/// `false` where the system has no thread to give.
///
/// Without the thread, a unit makes the checkpoint when it finds too many dirty pages.
pub(super) fn start_cleaner(inner: &Arc<Inner>, interval: Option<Duration>) -> bool {
    let Some(run) = inner.worker.claim() else { return false };
    let (there, latch) = (inner.clone(), inner.files.lock().latch.clone());
    let work = move |run: &mut Run<()>| {
        while run.next_signal_within(interval) {
            // The next checkpoint of a unit, or of a close, meets a failure again and tells it.
            let _ = there.checkpoint();
        }
    };
    run.start("litefoot-cleaner", &latch, work).is_ok()
}
