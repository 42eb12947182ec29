//! The place of the redo log of a database whose name leads elsewhere.
//!
//! # Why
//! Stock SQLite takes a log for that of the database whose name it has. So a database that loses its name gives up that of its log.
//! With its next commit it does so anyway ([`log_place`](crate::commit::log_place)); this is for the time before.
//!
//! # Promises
//! 1. The name of the log is free as soon as no append, and no step of a checkpoint, is under way ([`RollbackRedoLog::step_aside`]).
//! 2. Everything committed is in the database file when the log is gone ([`RollbackRedoLog::leave_place`]).
//! 3. A transaction under way keeps the log, under any name, until it ends.

use super::RollbackRedoLog;
use crate::commit::redo_log_state::RedoLogState;
use crate::db::Db;
use crate::error::Result;
use litefoot_storage::wal_file::RedoLog;

impl RollbackRedoLog {
    /// Gives the log a name of its own, because another database has taken that of this one.
    pub fn step_aside(&self) -> Result<()> {
        self.with_open(|redo| Ok(redo.step_aside()?))
    }

    /// Gives the log its name again, because the database has its own again.
    pub fn step_back(&self) -> Result<()> {
        self.with_open(|redo| Ok(redo.step_back()?))
    }

    fn with_open(&self, then: impl FnOnce(&mut RedoLog) -> Result<()>) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.state.write().redo.as_mut().map_or(Ok(()), then)
    }

    /// The database file has lost its name: checkpoints the log, and removes it. While a transaction has slots in the log,
    /// its end does so.
    pub fn leave_place(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        let mut state = self.state.write();
        if state.has_slots() { Ok(()) } else { state.checkpoint_and_delete(db) }
    }
}

impl RedoLogState {
    /// A transaction has ended that has kept a log which has given its name up.
    pub fn leave_aside(&mut self, db: &Db) {
        if self.redo.as_ref().is_some_and(|redo| redo.is_aside() && !redo.has_slots()) {
            // The next commit meets a failure again.
            let _ = self.checkpoint_and_delete(db);
        }
    }
}
