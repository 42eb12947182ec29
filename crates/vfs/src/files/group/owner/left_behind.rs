//! The owner's end of a snapshot that was left behind where strangers have come (`files/group/left_behind`).
//!
//! # Invariants
//! 1. Its slot stays locked on the file of the index until the member has given it back by its seat, and says so, or is dead.
//! 2. It gets no other slot, since it does not see the present index. To SQLite that is a lock of somebody else's.

use super::{Answer, Served, slots};
use crate::error::{Error, Result};
use crate::files::group::protocol::Call;
use crate::files::handle::Handle;

impl Served {
    /// True if the member has a slot of a reader, by its seat or in its handle.
    pub(super) fn has_snapshot(&self) -> bool {
        let by_seat = self.seat.is_some_and(|seat| self.database.wal_index().is_shared_by(seat));
        by_seat || self.main.as_ref().is_some_and(|main| main.slots.reads())
    }

    /// Strangers have come while a member with a snapshot has asked for a slot. It gives back what it has got.
    pub(super) fn refuse_left_behind(&mut self, call: &Call<'_>, result: Result<Answer>) -> Result<Answer> {
        if result.is_ok() {
            let (first, count) = slots(call.a, call.b)?;
            self.main()?.shm_unlock(first, count)?;
        }
        Err(Error::Busy)
    }
}
