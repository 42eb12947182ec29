//! A member's snapshot in WAL mode that its owner has left behind: strangers have come, and the wal-index is a file by now (`open/sharing/leaving`).
//!
//! # How
//! The member goes on with the memory of the index that it has, which nobody changes any more. The owner has locked its slot on the file of the index. So
//! strangers find what they would find of a reader of stock SQLite, and the log and the database file keep what the snapshot needs. The member asks its owner
//! for what is not in the memory, and tells it once it has given the slot back.
//!
//! # Invariants
//! 1. A page of the database file that the member has read itself counts where no epoch has begun behind the read: the owner begins one before it lets
//!    strangers in.
//! 2. A slot is given back by the seat first. Where an epoch has begun by then, the owner is told, and waited for.
//! 3. Such a member takes no other slot (`owner/left_behind`).

use crate::error::Result;
use crate::files::group::member_file::MemberFile;
use crate::files::group::protocol::Operation;

impl MemberFile {
    /// True unless the memory of the index is the owner's still.
    pub(super) fn is_left_behind(&self) -> bool {
        self.channel.board().is_none_or(|(board, _)| board.epoch() != self.index.epoch)
    }

    /// Gives slots back that are shared by the seat.
    pub(super) fn give_back_by_seat(&self, first: usize, count: usize, bits: u8) -> Result<()> {
        let Some((board, seat)) = self.channel.board() else { return Ok(()) };
        if board.end(seat, bits, self.index.epoch) {
            return Ok(());
        }
        self.give_back(&Self::call(Operation::ShmUnlock, first as u64, count as u64))
    }
}
