//! A member's slots of the wal-index while that is the file that strangers have.
//!
//! # Invariants
//! 1. A slot that the member has exclusively is locked by its own open file, which the owner has as well: nobody changes the index while SQLite does, even if
//!    the owner has died. The member gives that lock back where the owner cannot.
//! 2. A slot that it shares is locked by that file and by the owner's. SQLite looks at the mark of the slot once more behind that: a lock that comes late is
//!    as good as a lock of SQLite's own. The member gives it back before it tells its owner.
//! 3. So where the owner dies a transaction keeps its slots, and goes on by itself (`file_orphan`). Slots are taken by the own file alone then.

use crate::error::{Error, Result};
use crate::files::group::member_file::MemberFile;
use crate::files::group::member_index::{MemberIndex, WRITES};
use crate::files::group::protocol::Operation;
use crate::sync::shm_file::{extend_members, lock_members, unlock_members};
use litefoot_storage::file::RangeLock;

impl MemberIndex {
    /// The owner has ended, and has left what is locked for this member: SQLite changes the index no more.
    pub(super) fn unlock_file(&self) {
        if let Some(memory) = &self.memory {
            unlock_members(memory, !(self.exclusive | self.shared));
        }
    }

    /// Locks slots by the own file; `false` where somebody has one of them.
    fn lock_file(&self, slots: u8, exclusive: bool) -> bool {
        let lock = if exclusive { RangeLock::Exclusive } else { RangeLock::Shared };
        self.memory.as_ref().is_some_and(|memory| lock_members(memory, slots, lock))
    }

    /// Gives slots back that are shared by the own file.
    pub(super) fn unshare_file(&self, slots: u8) {
        if let Some(memory) = self.memory.as_ref().filter(|_| self.is_file && slots != 0) {
            unlock_members(memory, slots);
        }
    }

    /// Makes the file so long where `extend` is set, as the owner that has died would; `false` where it is shorter.
    pub(super) fn extend_file(&self, bytes: usize, extend: bool) -> Result<bool> {
        let memory = self.memory.as_ref().ok_or(Error::NoMemory)?;
        extend_members(memory, bytes as u64, extend).map_err(|_| Error::NoMemory)
    }
}

impl MemberFile {
    /// The owner has been asked for slots, and has given them, or not.
    pub(super) fn lock_on_file(&self, bits: u8, exclusive: bool, locked: Result<()>) -> Result<()> {
        let is_lost = locked.is_err() && self.link.goes_by_itself();
        if locked.is_err() && !is_lost {
            self.unlock_left();
            return locked;
        }
        if (is_lost || !exclusive) && !self.index.lock_file(bits, exclusive) {
            if !is_lost {
                let (first, count) = (bits.trailing_zeros(), bits.count_ones());
                self.give_back(&Self::call(Operation::ShmUnlock, first.into(), count.into()))?;
            }
            return Err(Error::Busy);
        }
        self.link.note_file_slots(true);
        if exclusive && bits & WRITES != 0 {
            // Nothing is written yet.
            self.link.forget_written();
        }
        Ok(())
    }

    /// Gives back what an owner that has died has locked for this member, and has not said so. One that was stopped makes its calls yet, and gives it back.
    pub(super) fn unlock_left(&self) {
        let is_gone = match self.channel.borrowing.lent() {
            Some(lent) => !lent.has_owner(),
            None => self.channel.has_lost_owner(),
        };
        if is_gone && self.channel.is_of_this_process() {
            self.index.unlock_file();
        }
    }

    /// Slots are about to be given back.
    pub(super) fn before_unlock_on_file(&self, bits: u8) {
        if !self.index.is_file || !self.channel.is_of_this_process() {
            return;
        }
        if bits & WRITES != 0 {
            // All that counts of the transaction is in the log. Others may write behind that as soon as the slot is free.
            self.link.forget_written();
        }
        self.index.unshare_file(self.index.shared & bits);
    }
}
