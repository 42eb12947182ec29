//! The locks that SQLite takes on a main database file, for a connection that has the owner's files (`sync/lock_table`).
//!
//! # Invariants
//! 1. An internal connection has no such lock: it only reads and checkpoints, under the wal-index's locks.
//! 2. What keeps a transaction from writing is said with RESERVED, before it has changed a page.
//! 3. Whoever goes on towards EXCLUSIVE ends a succession (`open/succession`) first. Once it has EXCLUSIVE, its token is noted before anything is
//!    written.

use crate::error::{Error, Result, check_memory};
use crate::files::main_db::MainFile;
use crate::sync::lock_table::Level;

/// Attempts behind departures of others, before a refusal stands.
const MOST_DEPARTURES: usize = 3;

impl MainFile {
    /// Lowers the lock: whoever waits goes on.
    pub(super) fn give_lock_up(&mut self, to: Level) {
        self.connection_cache.leave_fast_path();
        self.connection_cache.rest(&*self.database);
        self.database.unlock(&self.connection.reader_slot, to);
        self.end_turn();
    }

    /// Makes an attempt to take a lock, and once more where it was refused, and members that have died had locks.
    #[inline]
    pub(super) fn past_departures(&mut self, attempt: impl Fn(&mut MainFile) -> Result<()>) -> Result<()> {
        // Where others come and go all the time, somebody always has gone just now.
        for _ in 0..MOST_DEPARTURES {
            let gone = self.database.departures().gone();
            let locked = attempt(self);
            let is_refused = matches!(locked, Err(Error::Busy)) && !self.connection.internal;
            if !is_refused || !self.database.await_departures(gone, self.stream.as_ref()) {
                return locked;
            }
        }
        attempt(self)
    }

    /// Takes the lock of a reader.
    pub(super) fn lock_shared(&mut self) -> Result<()> {
        // Ours are not in the application's way: they only read and checkpoint, under the wal-index's locks.
        if self.connection.internal {
            return if self.is_beside_others() { Err(Error::Busy) } else { Ok(()) };
        }
        check_memory()?;
        self.await_before_shared()?;
        let locked = self.database.lock(&self.connection.reader_slot, Level::Shared);
        self.queue_refused(&locked);
        locked?;
        self.await_shared_syncs()?;
        if !self.rollback_txn.holds() {
            self.connection_cache.enter_fast_path();
        }
        Ok(())
    }

    /// Takes the lock of a writer, or one on the way to it.
    #[inline(never)]
    pub(super) fn lock_to_write(&mut self, to: Level) -> Result<()> {
        if self.connection.internal {
            return Err(Error::Busy);
        }
        if to == Level::Reserved {
            check_memory()?;
        }
        self.check_writable()?;
        self.database.recovery().check_replayed()?;
        if to == Level::Reserved {
            self.may_begin()?;
        }
        let comes_first = if to == Level::Reserved {
            if !self.is_inherited {
                self.database.await_heirs();
            }
            self.admit_in_turn()?;
            None
        } else {
            self.database.end_succession()
        };
        let locked = self.database.lock(&self.connection.reader_slot, to);
        drop(comes_first);
        if to == Level::Reserved {
            self.queue_refused(&locked);
        }
        locked?;
        if to == Level::Reserved {
            self.note_turn();
            self.connection.begin_writing();
            return Ok(());
        }
        if self.writes_alone() {
            // Before anything is written.
            self.database.db().shared().note_writing(self.token);
        }
        if self.is_beside_others() {
            self.connection.carry_journal()?;
        }
        Ok(())
    }
}
