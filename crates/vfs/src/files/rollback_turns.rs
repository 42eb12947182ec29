//! The order of connections that wait for a lock in a rollback-journal mode, where a database serves a group, or is beside others.
//!
//! # Why
//! While somebody commits, nobody gets a lock. With SQLite alone those who were refused sleep, and chance decides who is next:
//! where several connections write all the time, one of them may never be. Here a connection that was refused waits in the writer queue
//! instead of sleeping, as in WAL mode (`sync/refused_writer.rs`). An owner needs no order: its commits are so short.
//!
//! # Invariants
//! 1. A ticket ends when its connection gives its lock up, or expires. A reader has it for as long as it reads, at most.
//! 2. Those of other processes stand in no queue: a connection whose turn it is may find the lock taken.
//! 3. A connection that was refused keeps its place until it writes, or until there is no order any more.

use crate::error::{Error, Result};
use crate::files::main_db::MainFile;
use crate::open::OpenDatabase;
use crate::sync::lock_table::ReaderSlot;
use crate::sync::refused_writer::{self, Handles};
use std::sync::{Arc, Weak};

impl Handles for OpenDatabase {
    fn is_alone(&self, reader_slot: &ReaderSlot) -> bool {
        self.locks().is_alone(reader_slot)
    }
}

impl MainFile {
    /// True where those that wait for a lock stand in line.
    fn takes_turns(&self) -> bool {
        self.has_order() && !self.uses_wal_index && !self.connection.internal
    }

    /// True while connections of this process may stand in line. That lasts for a transaction at least.
    pub(super) fn has_order(&self) -> bool {
        self.database.serves_group() || self.is_beside_others()
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

    /// A commit was refused: where readers of this process are inside, and stand in line perhaps, it waits for them to leave.
    pub(super) fn await_readers(&self, locked: &Result<()>) {
        let own = &self.connection.reader_slot;
        if matches!(locked, Err(Error::Busy)) && self.takes_turns() && !self.database.locks().is_alone(own) {
            let handles: Weak<dyn Handles> = Arc::<OpenDatabase>::downgrade(&self.database);
            refused_writer::note_readers(self.database.writer_queue(), handles, own.clone());
        }
    }

    /// The connection has the lock of a writer.
    pub(super) fn note_turn(&mut self) {
        if self.takes_turns() {
            self.database.writer_queue().writes(self.id);
            self.refused = None;
        }
    }

    /// The connection has given its lock up, which it had while there was an order or not: the next one that waits goes on.
    pub(super) fn end_turn(&mut self, had_order: bool) {
        if self.uses_wal_index {
            return;
        }
        if had_order {
            self.database.writer_queue().leave(self.id);
        } else {
            self.refused = None;
        }
    }
}
