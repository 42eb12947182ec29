//! The handles that connections have on a database: the last one leaves it alone and complete.

use crate::commit::wal::Wal;
use crate::db::tier;
use crate::error::Result;
use crate::open::OpenDatabase;
use crate::open::sharing;
use crate::sync::lock_table::HandleId;
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

impl Handles {
    /// Counts a new handle, and numbers it.
    pub(crate) fn open(&self, internal: bool) -> HandleId {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.of_application.fetch_add(u64::from(!internal), Ordering::Relaxed);
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// True while there is one.
    pub(crate) fn any(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// True while there is another one beside one that is closed.
    fn are_others(&self) -> bool {
        self.open.load(Ordering::Acquire) > 1
    }

    /// The first half of a close; answers whether the last handle of the application goes. It still counts as open.
    fn begin_close(&self, internal: bool) -> bool {
        !internal && self.of_application.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The second half; answers whether the last handle of all goes.
    fn end_close(&self) -> bool {
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl OpenDatabase {
    /// Opens a handle, and answers its number.
    pub fn begin_handle(&self, internal: bool) -> HandleId {
        let id = self.handles.open(internal);
        self.ownership.own_name.reopen();
        id
    }

    /// Closes a handle; the last one leaves the database file alone and complete.
    pub fn leave(&self, internal: bool) -> Result<()> {
        let last_of_application = self.handles.begin_close(internal);
        // In a forked child neither the thread nor its connection is there.
        if last_of_application && self.db.is_of_this_process() {
            self.idle().finish();
            self.checkpointer.await_end();
            self.shared_capture().close_reference();
            // Another one may have been opened meanwhile, and commit all the time: the thread of the flushes goes on with it.
            if let Some(wal) = self.wal().filter(|_| !self.handles.are_others()) {
                wal.finish();
            }
        }
        let last = self.handles.end_close();
        if !last || !self.db.is_of_this_process() {
            return Ok(());
        }
        self.await_borrowers();
        self.ownership.own_name.close(|| self.handles.any());
        if let Some(pages) = self.cache.known_pages() {
            pages.end_reads();
        }
        if self.rollback_log.is_live() {
            // The thread may take seconds: nobody waits for its lock meanwhile.
            self.rollback_log.wait_until_idle();
        }
        self.while_left(|| self.rollback_log.retire(&self.db))?;
        self.rollback_log.leave_kept_journal(&self.db);
        match self.wal() {
            Some(wal) if self.keeps_logs_at_names(&wal) => wal.leave_as_pages(&self.db)?,
            Some(wal) => self.while_left(|| {
                wal.checkpoint_and_delete(&self.db)?;
                self.reset_wal();
                Ok(())
            })?,
            None => {}
        }
        if self.is_multi_process() {
            sharing::last_closed(self);
        }
        if self.db.tier().is_none() {
            return Ok(());
        }
        // An open meanwhile waits for the lock, and then finds everything at home.
        self.locks.while_free(|| tier::close(&self.db)).unwrap_or(Ok(()))
    }

    /// Takes the logs away behind the last handle, while no other one has a lock. One that was opened meanwhile, and has a transaction,
    /// keeps them: its close comes here as well.
    fn while_left(&self, take_away: impl Fn() -> Result<()>) -> Result<()> {
        match self.locks.while_free(&take_away) {
            Some(done) => done,
            None if self.handles.any() => Ok(()),
            None => take_away(),
        }
    }

    /// True if the next opening finds the logs of WAL mode. SQLite makes no checkpoint of a file that has lost its name, and nobody finds a log that has.
    fn keeps_logs_at_names(&self, wal: &Wal) -> bool {
        self.db.has_its_name() && (!self.db.shared().was_owned() || wal.regain_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_application_and_the_last_of_all_are_told_apart() {
        let handles = Handles::default();
        assert_eq!([handles.open(false), handles.open(true), handles.open(false)], [1, 2, 3]);
        // The reference connection, which is internal, outlives the last of the application's by a moment.
        for (internal, last_of_application, last) in
            [(false, false, false), (false, true, false), (true, false, true)]
        {
            assert_eq!((handles.begin_close(internal), handles.end_close()), (last_of_application, last));
        }
        assert_eq!(handles.open(false), 4, "numbers are not used again");
        assert!(handles.begin_close(false) && handles.end_close());
    }

    #[test]
    fn an_internal_handle_alone_is_the_last_of_all() {
        let handles = Handles::default();
        handles.open(true);
        assert!(!handles.begin_close(true) && handles.end_close());
    }
}
