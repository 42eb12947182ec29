//! Spilling of a transaction in WAL mode that does not fit into memory.
//!
//! # Why
//! A large transaction must not take the memory of the process. Its pages leave memory before the commit. New pages go
//! into the database file behind its end (early write), all others into slots of the redo log.
//!
//! # Invariants
//! 1. One spill is under way at a time. The frames are locked when it begins and ends, and not while it writes.
//! 2. Before the first slot is reserved, everything committed is in the redo log.
//! 3. After a transaction nothing of it is left behind the end of the file that did not commit.

use super::group_commit::GroupCommit;
use crate::db::Db;
use crate::error::Result;
use crate::txn::SpillTarget;
use crate::txn::spill_policy::SpillStep;
use crate::txn::spiller::RunningSpill;
use crate::txn::wal_frames::WalFrames;
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::sync::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The spilling of the transaction under way.
#[derive(Default)]
pub(crate) struct WalSpilling {
    /// True after a spill was begun in this transaction.
    begun: AtomicBool,
}

impl WalSpilling {
    /// True after a spill was begun in this transaction.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Makes memory free for one page more of a large transaction, by spilling.
    pub fn make_room<T: SpillTarget>(
        &self,
        frames: &RwLock<WalFrames>,
        commits: &GroupCommit,
        target: &Arc<T>,
    ) -> Result<()> {
        let db = target.db();
        loop {
            let step = frames.read().next_step();
            let SpillStep::Spill { in_background, for_good } = step else {
                if step == SpillStep::GoOn {
                    return Ok(());
                }
                settle(frames, db)?;
                continue;
            };
            if !frames.read().spill.knows_new() {
                let file_bytes = db.file_len()?;
                frames.write().find_new(file_bytes);
            }
            let Some(pages) = frames.write().colder_half() else { return Ok(()) };
            self.begun.store(true, Ordering::Release);
            let (unplaced, first) = frames.read().spill.unplaced(&pages);
            if !unplaced.is_empty() {
                let slots = commits.reserve_slots(frames, db, first, unplaced.len())?;
                frames.write().give_slots(&unplaced, slots);
            }
            begin_spill(frames, target, pages, in_background, for_good);
        }
    }

    /// Before a transaction with early writes ends: writes its other new pages early, too. A full disk fails here, while SQLite
    /// can still roll back.
    pub fn complete<T: SpillTarget>(&self, frames: &RwLock<WalFrames>, target: &Arc<T>) -> Result<()> {
        settle(frames, target.db())?;
        let rest = frames.read().last_new_pages();
        if rest.is_empty() {
            return Ok(());
        }
        begin_spill(frames, target, rest, false, false);
        settle(frames, target.db())
    }

    /// Ends a transaction, before another one begins: discards its slots, and cuts off early writes that it did not commit.
    pub fn end(&self, frames: &RwLock<WalFrames>, commits: &GroupCommit, db: &Db) {
        if !self.has_begun() && !db.file_end().is_written_behind() {
            return;
        }
        // The transaction is over, so a failed spill has no effect.
        let _ = settle(frames, db);
        if frames.read().spill.has_idle_slots() {
            commits.discard_slots();
        }
        frames.write().end_large();
        self.begun.store(false, Ordering::Release);
        db.file_end().cut_behind(0);
    }
}

fn begin_spill<T: SpillTarget>(
    frames: &RwLock<WalFrames>,
    target: &Arc<T>,
    pages: Vec<FramePage>,
    in_background: bool,
    for_good: bool,
) {
    let (job, until) = {
        let mut frames = frames.write();
        (frames.job(&pages, for_good), frames.writes)
    };
    // Readers use the log meanwhile.
    let running = RunningSpill::begin(job, target, in_background);
    frames.write().spill.begin(running, pages, until);
}

/// Waits for the spill that is under way, if there is one.
fn settle(frames: &RwLock<WalFrames>, db: &Db) -> Result<()> {
    let Some(batch) = frames.write().spill.take() else { return Ok(()) };
    let result = batch.wait(db);
    frames.write().end_spill(batch, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{Logs, PAGE, frame_header, frame_offset};

    #[test]
    fn a_transaction_without_a_spill_ends_without_a_trace() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let spilling = WalSpilling::default();
        logs.write(&[(2, 1)], 4);
        spilling.end(&logs.frames, &logs.group, &logs.db);
        assert!(!spilling.has_begun());
        assert_eq!(logs.frames.read().committed(), 1);
    }

    #[test]
    fn early_writes_that_did_not_commit_are_cut_off() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let spilling = WalSpilling::default();
        let bytes = [std::io::IoSlice::new(&[1; PAGE])];
        logs.db.file_end().write_behind(&bytes, 4 * PAGE as u64, false).unwrap();
        assert_eq!(logs.db.data().len().unwrap(), 5 * PAGE as u64);
        spilling.end(&logs.frames, &logs.group, &logs.db);
        assert_eq!(logs.db.data().len().unwrap(), 4 * PAGE as u64);
    }

    #[test]
    fn a_large_transaction_leaves_memory_and_is_discarded_at_its_end() {
        let db = Arc::new(Db::of_test(&[7; 4 * PAGE]));
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let spilling = WalSpilling::default();
        // The memory of a test is 1 MiB.
        let mut number = 0;
        while logs.frames.read().next_step() == SpillStep::GoOn {
            let offset = frame_offset(number);
            let header = frame_header(number as u32 + 1, 0);
            let mut frames = logs.frames.write();
            frames.write(&header, offset, &**db.data()).unwrap();
            frames.write(&[3; PAGE], offset + header.len(), &**db.data()).unwrap();
            number += 1;
            assert!(number < 10_000, "memory has an end");
        }
        let target = Arc::new(logs.db);
        spilling.make_room(&logs.frames, &logs.group, &target).unwrap();
        assert!(spilling.has_begun());
        spilling.complete(&logs.frames, &target).unwrap();
        assert!(target.file_end().is_written_behind());
        spilling.end(&logs.frames, &logs.group, &target);
        assert!(!spilling.has_begun());
        assert_eq!(target.data().len().unwrap(), 4 * PAGE as u64);
    }
}
