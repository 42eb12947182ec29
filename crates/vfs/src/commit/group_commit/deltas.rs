//! Deltas in a group commit: which transactions are queued as deltas, and when a generation of them begins and ends.

use super::{CommitPages, GroupCommit};
use crate::commit::commit_queue::{Admission, PendingForm};
use crate::commit::log_writer::LogWriter;
use crate::db::Db;
use crate::error::Result;
use crate::txn::wal_frames::Transaction;
use litefoot_storage::commit_log::{Base, CommitLog};
use litefoot_storage::log_file::Durability;
use std::sync::atomic::Ordering;

impl GroupCommit {
    /// True where a transaction, whose pages take so many bytes, can be logged as deltas.
    pub fn takes_deltas(&self, transaction: Transaction, page_bytes: u64, durability: Durability) -> bool {
        self.queue.lock().takes_deltas(transaction, page_bytes, durability)
    }

    /// The deltas of a transaction, whose pages take so many bytes, would take about as many.
    pub fn note_refused(&self, page_bytes: u64) {
        self.queue.lock().delta_start.note_refused(page_bytes);
    }

    /// Queues a transaction, whose pages take so many bytes, as deltas, and answers its LSN; `None` where pages must be logged.
    /// `wants_durability` raises the committed LSN. The caller holds the write lock.
    pub fn enqueue_deltas(
        &self,
        db: &Db,
        (payload, page_bytes): (Vec<u8>, u64),
        transaction: Transaction,
        wants_durability: bool,
    ) -> Option<u64> {
        let bytes = CommitLog::bytes_of([payload.len()]);
        let mut queue = self.queue.lock();
        if let Admission::Prepare(needed) = queue.admit_deltas(bytes, page_bytes)? {
            drop(queue);
            self.prepare_deltas(db, needed)?;
            queue = self.queue.lock();
        }
        let lsn = queue.push(transaction, PendingForm::Delta(payload));
        if wants_durability {
            self.committed_lsn.fetch_max(lsn, Ordering::AcqRel);
        }
        Some(lsn)
    }

    /// Makes the commit log ready for `needed` more bytes of deltas. A full disk fails here, before the commit counts.
    fn prepare_deltas(&self, db: &Db, needed: u64) -> Option<()> {
        let is_open = |writer: &LogWriter| matches!(writer.commit_log.base(), Some(Base::Deltas(_)));
        let mut writer = self.writer_for(Durability::Buffered, is_open);
        let room = self.room_for(&writer, needed)?;
        if !writer.prepare_deltas(db, room).ok()? {
            return None;
        }
        let mut queue = self.queue.lock();
        queue.delta_start.note_checkpoint();
        self.note_ready(&mut queue, &writer);
        Some(())
    }

    /// Frames that are in a log, as pages, deltas or statements.
    pub fn written_frames(&self) -> usize {
        self.queue.lock().written
    }

    /// True while commits wait as deltas.
    pub fn has_deltas(&self) -> bool {
        self.busy_writer().has_deltas()
    }

    /// Materializes the deltas, and answers `true`, unless another thread is at work on the logs.
    pub fn try_fold(&self, pages: CommitPages<'_>) -> bool {
        let (Some(mut writer), Some(frames)) = (self.writer.try_lock(), pages.frames.try_read()) else {
            return false;
        };
        if self.queue.try_lock().is_none_or(|queue| queue.syncs.has_groups()) {
            return false;
        }
        let Some(ahead) = self.ahead.try_lock().map(|mut ahead| ahead.take()) else { return false };
        if self.latch.reason().is_none() {
            // A failure leaves the deltas to the next open.
            let _ = writer.fold_behind(ahead, &frames, pages.data);
        }
        true
    }

    /// True when the data file is to be completed, so that deltas can begin.
    pub fn wants_complete_file(&self) -> bool {
        let queue = self.queue.lock();
        queue.delta_start.wants_complete_file(queue.redo_bytes)
    }

    /// A checkpoint has ended, which may have completed the data file.
    pub fn note_checkpoint(&self) {
        self.queue.lock().delta_start.note_checkpoint();
    }

    /// Before the data file is written early: materializes the deltas, whose generation needs the file as it is.
    pub fn before_early_write(&self, pages: CommitPages<'_>) -> Result<()> {
        let mut writer = self.writer();
        writer.fold(&pages.frames.read(), pages.data)?;
        let end = writer.logged;
        self.queue.lock().note_materialized(end, false, writer.positions());
        Ok(())
    }
}
