//! Freed frames: frames of SQLite's log whose page nobody can ask for (`txn/wal_frames/superseded.rs`). The next pages
//! take the memory of pages that have left.

use super::{FramePlace, FrameSlot, WalBytes};
use crate::txn::spiller::PageBytes;
use std::sync::Arc;

impl WalBytes {
    /// Frees a frame's page in memory or in the spill file.
    pub fn free(&mut self, number: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        if matches!(slot.place, FramePlace::Memory(_) | FramePlace::SpillFile) {
            let before = std::mem::replace(&mut slot.place, FramePlace::Freed);
            self.freed += 1;
            self.leave(number, before);
            self.account();
        }
    }

    /// True for a frame whose page was freed.
    pub fn is_freed(&self, number: usize) -> bool {
        matches!(self.slots.get(number), Some(FrameSlot { place: FramePlace::Freed, .. }))
    }

    /// Frames whose page was freed.
    pub fn freed(&self) -> usize {
        self.freed
    }

    /// A freed page is zeros from now on: its content counts for nothing.
    pub fn clear_freed(&mut self, number: usize) {
        if self.is_freed(number) {
            self.slots[number].place = FramePlace::Nothing;
            self.freed -= 1;
        }
    }

    /// A page in memory, in the place of one that has left it.
    pub(super) fn page_of(&mut self, content: &[u8]) -> PageBytes {
        let Some(mut page) = self.spare.pop() else { return content.into() };
        match Arc::get_mut(&mut page).filter(|bytes| bytes.len() == content.len()) {
            Some(bytes) => bytes.copy_from_slice(content),
            // A batch has it yet, or pages have another size now.
            None => return content.into(),
        }
        page
    }
}
