//! A commit of the owner's own that gives its lock up before it is durable (early lock release), in a rollback-journal mode.
//!
//! # Why
//! Members' commits share syncs (`commit/shared_syncs`). A commit of the owner's own that kept its lock through its sync would have the
//! database alone for as long, and all members would wait for it.
//!
//! # Invariants
//! 1. The lock is given up early only where SQLite is sure to give it up next: it has deleted its journal, which it keeps in exclusive mode, and no
//!    other statement of the connection runs.
//! 2. The commit is answered once it is durable. Where its sync fails, so does the commit, and the database is latched.
//! 3. Should SQLite go on all the same, the connection gets the lock of a reader again if nobody has committed, and an error if somebody has.

use crate::error::{Error, Result};
use crate::files::main_db::MainFile;
use crate::sync::lock_table::Level;
use std::path::Path;
use std::sync::atomic::Ordering;

impl MainFile {
    /// True for a commit that may give its lock up before its sync: somebody else is there to have it.
    pub(super) fn may_release_early(&self) -> bool {
        self.takes_turns()
            && self.database.db().counters().members.load(Ordering::Relaxed) > 0
            && self.writes_alone()
            && self.rollback_txn.had_journal()
            && self.connection.journal.lock().is_none()
            && self.connection.ends_with_own_statement()
    }

    /// Commits, and gives the lock up. Answers the sync that it owes; where it owes none it keeps the lock.
    pub(super) fn commit_and_release(&mut self) -> Result<Option<u64>> {
        self.rollback_txn.share_sync();
        self.rollback_txn.commit(&self.connection)?;
        self.owe_shared_sync();
        let owed = self.take_owed_sync();
        if owed.is_some() {
            self.released = Some(self.database.db().shared().changes().now());
            self.give_lock_up(Level::None);
        }
        Ok(owed)
    }

    /// SQLite goes on behind a commit that has given its lock up.
    #[cold]
    pub(super) fn take_lock_again(&mut self) -> Result<()> {
        let Some(moment) = self.released.take() else { return Ok(()) };
        self.database.lock(&self.connection.reader_slot, Level::Shared)?;
        if self.database.db().shared().changes().now() == moment {
            return Ok(());
        }
        self.give_lock_up(Level::None);
        Err(committed_meanwhile(self.database.db().path()))
    }
}

/// SQLite has gone on behind a commit that has given its lock up, and somebody else has committed.
pub(super) fn committed_meanwhile(path: &Path) -> Error {
    Error::Io(format!(
        "{}: another process has committed while a statement went on behind a commit of its own connection; run the statement again",
        path.display()
    ))
}
