//! The order of connections that wait for a lock in a rollback-journal mode, where a database serves a group.
//!
//! # Why
//! While somebody commits, nobody gets a lock. With SQLite alone those who were refused sleep, and chance decides who is next:
//! where several processes write all the time, one of them may never be. Here a connection that was refused waits in the writer queue
//! instead of sleeping, as in WAL mode (`sync/refused_writer.rs`).
//!
//! # Invariants
//! 1. A ticket ends when its connection gives its lock up, or expires. A reader has it for as long as it reads, at most.
//! 2. Beside other processes there is no order: SQLite's own locks decide.

use crate::error::{Error, Result};
use crate::files::main_db::MainFile;

impl MainFile {
    /// True where those that wait for a lock stand in line.
    fn takes_turns(&self) -> bool {
        self.database.serves_group()
            && !self.uses_wal_index
            && !self.connection.internal
            && !self.is_beside_others()
    }

    /// Refuses the lock of a writer where it is another one's turn.
    pub(super) fn admit_in_turn(&mut self) -> Result<()> {
        if !self.takes_turns() || self.database.writer_queue().may_write(self.id) {
            return Ok(());
        }
        // SQLite asks nobody to wait for a transaction that has read already.
        if !self.connection.is_autocommit() && self.database.writer_queue().overtake_unused(self.id) {
            return Ok(());
        }
        self.connection.disturb();
        self.leave_note();
        Err(Error::Busy)
    }

    /// A lock was asked for: one that was refused is waited for in line, once SQLite lets the connection sleep.
    pub(super) fn queue_refused(&mut self, locked: &Result<()>) {
        // One that was refused in its turn sleeps as with SQLite alone: its sleep must not end at once.
        if matches!(locked, Err(Error::Busy))
            && self.takes_turns()
            && !self.database.writer_queue().has_turn(self.id)
        {
            self.leave_note();
        }
    }

    /// The connection has the lock of a writer.
    pub(super) fn note_turn(&mut self) {
        if self.takes_turns() {
            self.database.writer_queue().writes(self.id);
            self.refused = None;
        }
    }

    /// The connection has given its lock up: the next one that waits goes on.
    pub(super) fn end_turn(&mut self) {
        if self.database.serves_group() && !self.uses_wal_index {
            self.database.writer_queue().leave(self.id);
        }
    }
}
