//! Committed transactions as pages of the redo log, and the end of a generation of both logs.
//!
//! # Invariants
//! 1. What ends a generation leaves nothing in the logs that counts, and nothing that another thread would write again.
//! 2. A transaction whose pages could not be written is revoked under the log writer's lock, unless another thread has written
//!    it.
use super::GroupCommit;
use crate::commit::commit_queue::SPARE_BYTES;
use crate::commit::log_writer::{LogWriter, Materialized};
use crate::commit::rollback_checkpoint::copy_in_place;
use crate::db::{Db, tier};
use crate::error::Result;
use crate::txn::spill_map::SpillPlace;
use crate::txn::wal_frames::{Transaction, WalFrames};
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::RwLock;
use litefoot_storage::wal_file::ReservedSlots;
use std::sync::atomic::Ordering;

impl GroupCommit {
    /// Writes everything that is committed as pages. `commit` is the last transaction, where its new pages may be written
    /// early now. `counted` gives a transaction its LSN. One that is `unpublished` is revoked if the write fails, before
    /// another thread can write it.
    pub fn materialize(
        &self,
        frames: &RwLock<WalFrames>,
        db: &Db,
        durability: Durability,
        counted: bool,
        (commit, unpublished): (Option<Transaction>, Option<Transaction>),
    ) -> Result<()> {
        let mut writer = self.writer_for(durability, |writer| writer.commit_log.is_empty());
        let last_lsn = self.queue.lock().last_lsn;
        let materialized = writer.materialize(&frames.read(), db, durability, commit);
        let Materialized { end, early, has_slots } = materialized.inspect_err(|_| {
            if let Some(transaction) = unpublished {
                self.revoke(&writer, frames, transaction);
            }
        })?;
        if !early.is_empty() || has_slots {
            let mut frames = frames.write();
            frames.slots_logged();
            let in_file = |leaving: FramePage| (leaving.frame, SpillPlace::Database(leaving.page_number));
            frames.mark_spilled(early.into_iter().map(in_file));
        }
        let mut queue = self.queue.lock();
        queue.note_materialized(end, counted, writer.positions());
        queue.note_written_lsn(last_lsn + u64::from(counted));
        if durability == Durability::Durable {
            self.durable_lsn.fetch_max(last_lsn + u64::from(counted), Ordering::AcqRel);
        }
        queue.wake();
        Ok(())
    }

    /// Revokes a commit that could not be written, unless another thread has written it.
    fn revoke(&self, writer: &LogWriter, frames: &RwLock<WalFrames>, transaction: Transaction) {
        if writer.logged <= transaction.first {
            // Its frames will be others, of which more may go to the redo log.
            self.queue.lock().claimed = 0;
            frames.write().revoke(transaction);
        }
    }

    /// Claims space in the redo log for all frames up to the end of a transaction, which needs `needed` frames there. The
    /// transaction is revoked where there is none.
    pub fn claim(
        &self,
        frames: &RwLock<WalFrames>,
        page_bytes: usize,
        transaction: Transaction,
        needed: usize,
    ) -> Result<()> {
        let Transaction { first, end } = transaction;
        if end <= self.queue.lock().claimed && needed <= end - first {
            return Ok(());
        }
        let mut writer = self.busy_writer();
        // Of the transactions before, the redo log gets each page once.
        let before = first.saturating_sub(writer.logged).min(frames.read().distinct_pages());
        let needed = if writer.logged < end { before + needed } else { 0 };
        let claimed = writer.claim(page_bytes, end, needed);
        let claimed = claimed.inspect_err(|_| self.revoke(&writer, frames, transaction))?;
        self.queue.lock().claimed = claimed;
        Ok(())
    }

    /// Reserves slots of the redo log for `count` pages of the transaction under way, from the slot `first`.
    pub fn reserve_slots(
        &self,
        frames: &RwLock<WalFrames>,
        db: &Db,
        first: usize,
        count: usize,
    ) -> Result<ReservedSlots> {
        if first == 0 {
            self.materialize(frames, db, Durability::Buffered, false, (None, None))?;
        }
        let page_bytes = frames.read().page_bytes() as u32;
        Ok(self.writer().redo.reserve_slots(page_bytes, first as u32, count as u32)?)
    }

    /// Gives the slots back.
    pub fn discard_slots(&self) {
        self.writer().redo.discard_slots();
    }

    /// Restarts both logs, as SQLite restarts its own. All pages are in the synced database file.
    pub fn restart(&self, frames: &RwLock<WalFrames>, db: &Db) -> Result<()> {
        self.end_generation(frames, |writer| {
            if tier::is_awaited(db) {
                return writer.move_to_tier(db);
            }
            writer.commit_log.retire();
            writer.commit_log.sync()?;
            writer.redo.reset();
            Ok(())
        })
    }

    /// Gives both logs names of their own.
    pub fn step_aside(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.redo.step_aside()?;
        Ok(writer.commit_log.step_aside()?)
    }

    /// Gives both logs their names again.
    pub fn step_back(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.redo.step_back()?;
        Ok(writer.commit_log.step_back()?)
    }

    /// Copies the redo log, which has everything committed, to the database file, and removes both logs.
    pub fn checkpoint_and_delete(&self, frames: &RwLock<WalFrames>, db: &Db) -> Result<()> {
        self.end_generation(frames, |writer| {
            if !writer.redo.is_empty() {
                let numbers: Vec<u32> = writer.redo.page_numbers().collect();
                copy_in_place(db, &writer.redo, None, &numbers)?;
            }
            db.sync()?;
            writer.commit_log.delete()?;
            Ok(writer.redo.delete()?)
        })
    }

    /// Removes both logs, or keeps the redo log, void. All pages are in the synced database file.
    pub fn delete(&self, frames: &RwLock<WalFrames>, db: &Db) -> Result<()> {
        self.end_generation(frames, |writer| {
            writer.commit_log.delete()?;
            db.leave_redo_log(&mut writer.redo)
        })
    }

    /// Removes the commit log where nothing waits in it. Nobody commits any more: whoever did would count on the file.
    pub fn delete_empty_commit_log(&self) -> Result<()> {
        let mut writer = self.writer();
        if writer.commit_log.is_empty() {
            writer.commit_log.delete()?;
        }
        Ok(())
    }

    /// Ends the generation of the logs by `end`, which leaves nothing in them that counts.
    fn end_generation(
        &self,
        frames: &RwLock<WalFrames>,
        end: impl FnOnce(&mut LogWriter) -> Result<()>,
    ) -> Result<()> {
        let mut writer = self.writer();
        end(&mut writer)?;
        // Before another thread can materialize them once more.
        frames.write().reset();
        writer.logged = 0;
        writer.generation += 1;
        writer.texts.clear();
        let mut queue = self.queue.lock();
        queue.restart(writer.generation, writer.positions());
        self.durable_lsn.fetch_max(queue.last_lsn, Ordering::AcqRel);
        queue.wake();
        Ok(())
    }

    /// Makes room in a replayed commit log for the record that announces the materialization.
    pub fn make_spare_room(&self) -> Result<()> {
        let commit_log = &mut self.writer().commit_log;
        let end = commit_log.bytes() + SPARE_BYTES;
        Ok(commit_log.reserve(end)?)
    }
}
