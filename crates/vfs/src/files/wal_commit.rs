//! A main database handle in WAL mode: a commit, from the last frame that SQLite writes to its return.

use crate::commit::wal::Wal;
use crate::error::Result;
use crate::files::main_db::MainFile;
use crate::open::{checkpointer, idle};
use crate::sync::lock_table::Level;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl MainFile {
    /// Answers if a commit of a member's that SQLite does not sync is in the log, and is about to return. The next transaction may come before the
    /// member has said that the commit is done: it finds a mark for that, and waits for the lock of a writer.
    pub(super) fn announce_logged(&mut self) -> bool {
        let is_logged = self.connection.logged.load(Ordering::Relaxed);
        if let Some(wal) = self.wal().filter(|_| is_logged) {
            self.database.wal_index().mark_for_members_at(wal.committed_frames());
            self.database.writer_queue().note_ending(self.id);
        }
        is_logged
    }

    /// Queues a transaction that was completed and that SQLite does not sync. The write lock is still held.
    pub(super) fn queue_unsynced(&mut self, wal: &Arc<Wal>) {
        // Where a VFS above keeps it to itself, nobody will say that the commit is done.
        let subscription = self.connection.receives_file_controls.load(Ordering::Relaxed);
        if !subscription && self.connection.logged.swap(false, Ordering::Relaxed) {
            // Where that fails, the database is closed.
            let _ = wal.flush_logged(self.database.db(), self.connection.wants_durability());
        }
        let Some(transaction) = self.connection.completed.lock().take() else { return };
        // The next one is in the log before it is published.
        self.connection.note_unsynced(true);
        let queued = if self.connection.wants_durability() {
            wal.queue(self.database.db(), self.connection.capture(), transaction, false)
        } else {
            None
        };
        match queued {
            Some(number) => self.connection.wait_for(number, false),
            None if !subscription || wal.must_log_now(transaction) => {
                // Where that fails, the commit hears of it.
                self.unlogged =
                    wal.log_unsynced(self.database.db(), self.connection.wants_durability()).is_err();
            }
            None => self.unlogged = true,
        }
    }

    /// The process whose connection this was has died, at any point of a transaction in WAL mode. A commit that is complete in
    /// the log counts: its index may be half made, or not at all, so that the next reader makes it again.
    pub(super) fn abandon_wal(&mut self) {
        let has_written = self.slots.writes() || self.connection.reader_slot.level() == Level::Exclusive;
        let Some(wal) = self.wal().filter(|_| has_written && !self.is_beside_others()) else { return };
        self.database.wal_index().invalidate();
        self.queue_unsynced(&wal);
        wal.end_transaction(self.database.db());
        if let Some((number, _)) = self.connection.take_waiting() {
            // A failure latches the database.
            let _ = wal.wait_durable(number);
        }
        if self.connection.logged.swap(false, Ordering::Relaxed) || std::mem::take(&mut self.unlogged) {
            let _ = wal.log_unsynced(self.database.db(), self.connection.wants_durability());
        }
    }

    /// Other processes have come while a commit was on its way back: everything committed is durable.
    #[cold]
    fn forget_waiting(&mut self) {
        self.connection.take_waiting();
        self.connection.logged.store(false, Ordering::Relaxed);
        self.unlogged = false;
    }

    /// Tells the members of a group, where everything is durable.
    fn note_settled(&self, wal: &Wal) {
        self.database.db().shared().settle_where(|| wal.not_durable().is_none());
    }

    /// A commit is published, and about to return.
    pub(super) fn commit_done(&mut self) -> Result<()> {
        if self.may_release_early() {
            let owed = self.commit_and_release()?;
            return self.await_owed_sync(owed);
        }
        self.rollback_txn.commit(&self.connection)?;
        let Some(wal) = self.wal() else {
            if self.is_beside_others() {
                self.forget_waiting();
            }
            return Ok(());
        };
        // In exclusive mode there are no locks to be dropped.
        self.queue_unsynced(&wal);
        match self.connection.take_waiting() {
            Some((number, true)) => {
                wal.wait_durable(number)?;
                self.note_settled(&wal);
            }
            Some((number, false)) => wal.write_out(self.database.db(), number)?,
            None if std::mem::take(&mut self.unlogged) => {
                wal.log_unsynced(self.database.db(), self.connection.wants_durability())?
            }
            None if self.connection.logged.swap(false, Ordering::Relaxed) => {
                wal.flush_logged(self.database.db(), self.connection.wants_durability())?
            }
            None => {}
        }
        if self.connection.reader_slot.level() == Level::Exclusive {
            wal.free_superseded_alone(self.database.wal_index());
        }
        let frames = wal.note_fill(self.database.db().counters());
        self.auto_checkpoint.committed(frames);
        if !self.connection.internal && self.database.db().options().logs_deltas() {
            idle::note_commit(&self.database);
        }
        if !self.connection.internal && wal.wants_checkpoint(self.database.db()) {
            checkpointer::checkpoint(&self.database);
        }
        Ok(())
    }
}
