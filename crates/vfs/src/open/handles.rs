//! The handles that connections have on a database: the last one leaves it alone and complete.

use crate::db::tier;
use crate::error::Result;
use crate::open::OpenDatabase;
use crate::sync::lock_table::{HandleId, ReaderSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many handles there are.
pub(crate) struct Handles {
    next: AtomicU64,
    open: AtomicU64,
    /// Those of them that are the application's.
    of_application: AtomicU64,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles { next: AtomicU64::new(1), open: AtomicU64::new(0), of_application: AtomicU64::new(0) }
    }
}

impl OpenDatabase {
    /// A number for a new handle.
    pub fn new_handle(&self, internal: bool) -> HandleId {
        self.handles.open.fetch_add(1, Ordering::Relaxed);
        self.handles.of_application.fetch_add(u64::from(!internal), Ordering::Relaxed);
        self.handles.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A reader slot among the locks for a new handle, which gives it back to [`OpenDatabase::give_up_reader_slot`].
    pub fn new_reader_slot(&self) -> Arc<ReaderSlot> {
        self.locks.new_reader_slot()
    }

    /// The handle is closed.
    pub fn give_up_reader_slot(&self, reader_slot: &Arc<ReaderSlot>) {
        self.locks.leave(reader_slot);
    }

    /// A handle is closed; the last one leaves the database file alone and complete.
    pub fn leave(&self, internal: bool) -> Result<()> {
        let last_of_application =
            !internal && self.handles.of_application.fetch_sub(1, Ordering::AcqRel) == 1;
        // In a forked child neither the thread nor its connection is there.
        if last_of_application && self.db.is_of_this_process() {
            let _ = self.checkpointer.wait();
            self.shared_capture().close_reference();
            if let Some(wal) = self.wal() {
                wal.finish();
            }
        }
        let last = self.handles.open.fetch_sub(1, Ordering::AcqRel) == 1;
        if !last || !self.db.is_of_this_process() {
            return Ok(());
        }
        self.rollback_log.retire(&self.db)?;
        // SQLite makes no checkpoint of a file that has lost its name.
        if let Some(wal) = self.wal().filter(|_| !self.db.has_its_name()) {
            wal.bring_home(&self.db)?;
            self.reset_wal();
        }
        if self.db.tier().is_none() {
            return Ok(());
        }
        // Whoever opens it meanwhile waits for the lock, and then finds everything at home.
        self.locks.while_free(|| tier::close(&self.db)).unwrap_or(Ok(()))
    }
}
