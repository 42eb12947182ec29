//! The owner's end of a member's seat: what the member has without a message.
//!
//! # Invariants
//! 1. A lock on the file that a member has by its seat becomes its handle's before the seat is empty (`sync/file_seats`): nobody commits in
//!    between.
//! 2. The seat of a dead member is empty before its handle is closed: with that the locks on the file go down to what others have.

use super::Served;
use crate::sync::group_changes::Moment;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Served {
    /// Its seat, and the memory of the board.
    pub(in crate::files::group) fn place(&self) -> (Option<usize>, Option<Arc<NamelessMemory>>) {
        (self.seat, self.database.board().map(|board| board.memory().clone()))
    }

    /// From now on the locks of the database count what the member has by its seat. The member does not know of the seat yet.
    pub(super) fn sit_down(&self) {
        if let (Some(board), Some(seat)) = (self.database.board(), self.seat) {
            self.database.locks().sit(board, seat);
        }
    }

    /// True if the member is in a transaction, by its locks, its slots, or its seat.
    pub(super) fn is_in_transaction(&self) -> bool {
        let has_slots = |seat| self.database.wal_index().is_shared_by(seat);
        self.is_busy || self.reads_by_seat() || self.seat.is_some_and(has_slots)
    }

    /// True if the member has the lock of a reader by its seat.
    pub(super) fn reads_by_seat(&self) -> bool {
        self.seat.zip(self.database.board()).is_some_and(|(seat, board)| board.reads(seat))
    }

    /// Members that are told that moment may begin by their seats, as long as it is the present one. This one has SHARED, and neither a journal nor a
    /// log is there.
    pub(super) fn show(&self, now: Moment) {
        let database = &self.database;
        let they_may = || database.rollback_log().syncs().unsettled().is_none() && !database.is_native();
        database.db().shared().changes().show(now, they_may);
    }

    /// The member has no lock by its seat any more: its handle has it, or nobody.
    pub(super) fn end_read_by_seat(&self) {
        if let (Some(board), Some(seat)) = (self.database.board(), self.seat) {
            board.end_read(seat);
        }
    }

    pub(super) fn leave_memory(&mut self) {
        if self.memory.take().is_some() {
            if let (Some(board), Some(seat)) = (self.database.board(), self.seat) {
                board.clear(seat);
            }
            // Where it was left behind its slot is locked on a file.
            self.database.wal_index().trim();
        }
    }

    pub(super) fn leave_seat(&mut self) {
        // It only grows and shrinks by one for each connection.
        self.database.db().counters().members.fetch_sub(1, Ordering::Relaxed);
        if let Some(seat) = self.seat.take() {
            self.database.wal_index().leave_seat(seat);
        }
    }
}
