//! The order of connections that wait for a lock in a rollback-journal mode, where a database serves a group.
//!
//! # Why
//! While somebody commits, nobody gets a lock. With SQLite alone those who were refused sleep, and chance decides who is next:
//! where several processes write all the time, one of them may never be. Here a connection that was refused waits in the writer queue
//! instead of sleeping, as in WAL mode (`sync/refused_writer.rs`). A member's statement that is going to write waits there before it has read,
//! and has the lock of a writer with that of a reader.
//!
//! # Invariants
//! 1. A ticket ends when its connection gives its lock up, or expires. A reader has it for as long as it reads, at most.
//! 2. Beside strangers the connections of a group keep their order among each other. Between them and strangers SQLite's own locks decide. No lock of a writer is
//!    given there before SQLite has looked for a journal: a stranger's waits to be rolled back while nobody has that lock.
//! 3. Every wait is short, and holds no lock that keeps others from ending their transactions. One that is over leaves everything to SQLite's
//!    busy handler.

use crate::error::{Error, Result};
use crate::files::durable_reads::Shows;
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use crate::sync::lock_table::Level;
use std::time::{Duration, Instant};

/// How long a writer waits for readers to leave.
const READERS_WAIT: Duration = Duration::from_millis(5);
/// The time between two looks whether the readers have left.
const GLANCE: Duration = Duration::from_micros(50);

#[cfg(test)]
thread_local! {
    /// How often this thread has waited that time.
    pub(crate) static GLANCES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl MainFile {
    /// True where those that wait for a lock stand in line.
    fn stands_in_line(&self) -> bool {
        self.database.serves_group() && !self.uses_wal_index && !self.connection.internal
    }

    /// The same where this process owns the database: nobody else has a lock.
    pub(super) fn takes_turns(&self) -> bool {
        self.stands_in_line() && !self.is_beside_others()
    }

    /// True where a member may hold its transaction back until it commits: its files are the owner's memory, and it has none in use.
    pub(crate) fn may_be_held(&self) -> bool {
        self.connection.may_hold() && self.may_be_held_once_heard()
    }

    /// The same for a connection that has just come, and has not said yet that it tells of its commits.
    pub(crate) fn may_be_held_once_heard(&self) -> bool {
        self.takes_turns()
            && self.database.db().holds_back()
            && self.database.is_owned()
            && self.database.wal().is_none()
            && self.rollback_txn.is_none()
            && !self.left_wal_index
    }

    /// True if the handle has the lock of a reader for such a member.
    pub(crate) fn reads_held(&self) -> bool {
        self.connection.reader_slot.level() >= Level::Shared && self.may_be_held()
    }

    /// True if the connection has a transaction of pages.
    pub(crate) fn has_transaction(&self) -> bool {
        !self.rollback_txn.is_none()
    }

    /// True if the connection writes, alone.
    pub(crate) fn writes_alone(&self) -> bool {
        self.connection.reader_slot.level() == Level::Exclusive
    }

    /// Drops what a transaction has written.
    pub(crate) fn drop_transaction(&mut self) {
        self.rollback_txn.end(&self.connection);
        // It has the lock of a writer until SQLite gives that back.
        self.connection.begin_writing();
    }

    /// Takes the lock of a reader, and for a statement of a member's that is going to write that of a writer as well, in its turn. Answers whether
    /// it has the latter.
    pub(crate) fn begin_in_turn(&mut self, shows: Shows) -> Result<bool> {
        let writes = shows != Shows::Always;
        let takes_turn = writes && !self.read_only && self.stands_in_line() && self.database.wal().is_none();
        // What is in the way is said once SQLite asks for the lock.
        if !takes_turn || self.may_begin().is_err() {
            self.lock(Level::Shared)?;
            return Ok(false);
        }
        self.database.await_heirs();
        if !self.await_turn_to_write(shows)? {
            self.connection.disturb();
            self.leave_note();
            return Err(Error::Busy);
        }
        let queue = self.database.writer_queue().clone();
        if self.is_beside_others() {
            let shared = self.lock(Level::Shared);
            if shared.is_err() {
                queue.leave_unless_writing(self.id);
            }
            return shared.map(|()| false);
        }
        self.shared_read.defers = true;
        let shared = self.lock(Level::Shared);
        self.shared_read.defers = false;
        // Strangers may have come meanwhile.
        let mut reserved = shared.map(|()| !self.is_beside_others() && self.lock(Level::Reserved).is_ok());
        if reserved.is_ok()
            && shows == Shows::Begun
            && let Err(error) = self.settle_shared_sync_at_once()
        {
            self.unlock(Level::None)?;
            reserved = Err(error);
        }
        if !matches!(reserved, Ok(true)) {
            queue.leave_unless_writing(self.id);
        }
        reserved
    }

    /// Waits for the turn of a statement that is going to write; `false` where it has none.
    pub(super) fn await_turn_to_write(&self, shows: Shows) -> Result<bool> {
        let (log, db) = (self.database.rollback_log(), self.database.db());
        let is_long = log.syncs().is_long();
        let long = || log.syncs().unsettled().filter(|_| is_long);
        self.await_turn(shows, is_long, long, |number| log.syncs().await_durable(log, db, number))
    }

    /// Takes the lock of a writer that is alone, for a member. The readers in its way are waited for: one that has just ended may not have said so.
    pub(crate) fn lock_alone(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let locked = self.lock(Level::Exclusive);
            let waits = matches!(locked, Err(Error::Busy)) && begun.elapsed() < READERS_WAIT;
            if !waits || !self.stands_in_line() || self.connection.reader_slot.level() != Level::Pending {
                return locked;
            }
            #[cfg(test)]
            GLANCES.set(GLANCES.get() + 1);
            std::thread::sleep(GLANCE);
        }
    }

    /// Refuses the lock of a writer where it is another one's turn.
    pub(super) fn admit_in_turn(&mut self) -> Result<()> {
        if !self.stands_in_line() || self.database.writer_queue().may_write(self.id) {
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
            && self.stands_in_line()
            && !self.database.writer_queue().has_turn(self.id)
        {
            self.leave_note();
        }
    }

    /// The connection has the lock of a writer.
    pub(super) fn note_turn(&mut self) {
        if self.stands_in_line() {
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
