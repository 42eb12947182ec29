//! A member's transaction in WAL mode that is going to write: its turn comes before it reads.
//!
//! # Why
//! SQLite reads, and then asks for the write lock. Where several processes write all the time, it is refused mostly: the snapshot is given
//! up, the busy handler sleeps, and everything begins anew. But a statement that writes is known before it reads. So it waits in line
//! there, and has the write lock before its snapshot: nobody commits in between, and neither is refused.
//!
//! # Invariants
//! 1. The wait is short, and comes once a transaction. One that is over leaves everything to SQLite and its busy handler.
//! 2. The member reads by its seat (`sync/group_board`). What it sees may not be durable yet. Its own commit comes later in the log; a
//!    statement that ends without one waits when it gives the write lock back.

use crate::error::Result;
use crate::files::durable_reads::UnsettledRead;
use crate::files::main_db::MainFile;
use crate::sync::wal_index::WRITE_SLOT;

impl MainFile {
    /// True where the connection reads: a member may do so by its seat.
    pub(super) fn reads(&self) -> bool {
        self.slots.reads() || self.seat_read.is_some()
    }

    /// Notes that a member reads by its seat, since the index had that change counter; or does not.
    pub(crate) fn note_seat_read(&mut self, since: Option<u32>) {
        self.seat_read = since;
    }

    /// The transaction of a member that reads by its seat has given up the write lock, and ends.
    pub(super) fn end_seat_read(&mut self) {
        if self.seat_read.take().is_some() {
            self.unsettled = None;
        }
    }

    /// Takes the write lock for a statement of a member's that is going to ask for it, and has read nothing yet; `false` where it must ask
    /// SQLite's way.
    pub(crate) fn take_turn(&mut self) -> bool {
        self.database.yield_to_others();
        self.database.await_heirs();
        let is_ready = !self.is_beside_others() && !self.slots.writes() && !self.reads();
        // What is in the way is said once SQLite asks for the lock.
        if !is_ready || self.wal().is_none() || self.may_begin().is_err() {
            return false;
        }
        // It reads nothing meanwhile, which would be in the way of a checkpoint that empties the log.
        if self.database.checkpointer().has_turn() {
            self.yield_to_checkpoint();
        }
        if !matches!(self.await_turn_to_begin(), Ok(true)) {
            return false;
        }
        self.unsettled = None;
        if self.lock_slots(WRITE_SLOT, 1, true).is_err() {
            self.database.writer_queue().leave_unless_writing(self.id);
            return false;
        }
        let has_begun = self.begin_turn().is_ok();
        if !has_begun && self.slots.writes() {
            // It may fail as well, and the death of the member gives everything back.
            let _ = self.unlock_slots(WRITE_SLOT, 1);
        }
        has_begun
    }

    fn await_turn_to_begin(&mut self) -> Result<bool> {
        let Some(wal) = self.wal() else { return Ok(false) };
        let is_long = wal.is_long();
        let long = || wal.not_durable().filter(|_| is_long);
        self.await_turn(self.connection.shows(), is_long, long, |number| wal.wait_durable(number))
    }

    /// The connection has the write lock, and no commit comes from now on: the ones before it are those that it may have to wait for.
    fn begin_turn(&mut self) -> Result<()> {
        let index = self.database.wal_index();
        index.mark_for_members();
        let change = index.change_counter();
        self.seat_read = Some(change);
        let owed = self.wal().and_then(|wal| wal.not_durable());
        let shows = self.connection.shows();
        self.unsettled = owed.map(|number| UnsettledRead { owed: Some(number), shows, change });
        self.settle_begun()
    }
}
