//! Frames of finished transactions that members of a group read in memory of all (`sync/shared_frames`).
//!
//! # Invariants
//! 1. A frame is shared as its transaction is finished, before SQLite publishes that. It goes with a transaction that is taken back, where nobody
//!    can ask for it any more, and where the log begins anew.
//! 2. A page that is not in memory then is not shared: its members ask for it.

use crate::sync::shared_frames::SharedFrames;
use crate::sync::wal_index::salts_of;
use crate::txn::wal_frames::WalFrames;
use litefoot_storage::os::NamelessMemory;
use std::ops::Range;
use std::sync::Arc;

impl WalFrames {
    /// Members read frames there from now on, also those of finished transactions.
    pub fn share(&mut self, shared: SharedFrames) {
        self.shared = Some(shared);
        self.share_frames(0..self.committed);
    }

    /// They ask for each frame from now on.
    pub fn unshare(&mut self) {
        self.shared = None;
    }

    /// Gives the frames up that are shared: they may outlive this log, for readers that go on.
    pub fn take_shared(&mut self) -> Option<SharedFrames> {
        self.shared.take()
    }

    /// True if members read frames in that memory.
    pub fn are_shared_in(&self, memory: &Arc<NamelessMemory>) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.are_in(memory))
    }

    /// Frames of finished transactions are shared.
    pub(super) fn share_frames(&mut self, frames: Range<usize>) {
        let Some(shared) = &mut self.shared else { return };
        shared.begin(salts_of(self.bytes.head()), self.bytes.page_bytes());
        for number in frames {
            match self.bytes.page_in_memory(number) {
                Some(page) => shared.put(frame(number), page, self.frames[number].database_pages != 0),
                None => shared.remove(frame(number)),
            }
        }
    }

    /// Frames are not shared any more: they do not count, or nobody can ask for them.
    pub(super) fn unshare_frames(&mut self, frames: Range<usize>) {
        if let Some(shared) = &mut self.shared {
            frames.for_each(|number| shared.remove(frame(number)));
        }
    }

    /// The log begins anew.
    pub(super) fn unshare_all(&mut self) {
        self.shared.iter_mut().for_each(SharedFrames::clear);
    }

    /// Bytes of the pages that are shared.
    pub(super) fn shared_bytes(&self) -> usize {
        self.shared.as_ref().map_or(0, SharedFrames::bytes)
    }
}

/// SQLite's number of a frame.
fn frame(number: usize) -> u32 {
    u32::try_from(number + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use crate::memory::reservation::MemoryReservation;
    use crate::sync::shared_frames::{FrameMemory, SharedFrames};
    use crate::sync::wal_index::salts_of;
    use crate::txn::wal_frames::tests::{data, frames, write_filled};
    use crate::txn::wal_frames::{Transaction, WalFrames, WalWritten};
    use litefoot_storage::os::NamelessMemory;
    use litefoot_storage::wal_file::format::Header;
    use std::sync::Arc;

    const PAGE: usize = 512;

    fn begin(frames: &mut WalFrames, header: &Header) -> u64 {
        frames.write(&header.encode().0, 0, &*data()).unwrap();
        salts_of(&header.encode().0)
    }

    /// The bytes of the first frames as a member finds them; 0 for one that is not here.
    fn here(members: &FrameMemory, salts: u64) -> [u8; 5] {
        std::array::from_fn(|number| {
            let mut page = [0; PAGE];
            if members.read(salts, number as u32 + 1, &mut page) { page[PAGE - 1] } else { 0 }
        })
    }

    #[test]
    fn finished_transactions_are_shared_while_somebody_may_ask_for_them() {
        let mut frames = frames();
        let header = Header::first(PAGE as u32, None);
        let salts = begin(&mut frames, &header);
        write_filled(&mut frames, 0, 1, 2, 1);
        let memory = Arc::new(NamelessMemory::new().unwrap());
        assert!(!frames.are_shared_in(&memory));
        frames.share(SharedFrames::new(memory.clone(), MemoryReservation::fixed(1 << 20)).unwrap());
        let members = FrameMemory::of(memory.clone()).unwrap();
        assert!(frames.are_shared_in(&memory));
        assert_eq!(here(&members, salts), [1, 0, 0, 0, 0], "what is finished already");
        let before = frames.memory_bytes();
        write_filled(&mut frames, 1, 2, 0, 2);
        assert_eq!(here(&members, salts), [1, 0, 0, 0, 0], "under way");
        let Transaction { first, end } = match write_filled(&mut frames, 2, 1, 2, 3) {
            WalWritten::Commit(transaction) => transaction,
            other => panic!("{other:?}"),
        };
        assert_eq!((first, end, here(&members, salts)), (1, 3, [1, 2, 3, 0, 0]));
        assert!(frames.memory_bytes() > before + 4 * PAGE, "shared pages are counted as well");
        frames.revoke(Transaction { first, end });
        assert_eq!(here(&members, salts), [1, 0, 0, 0, 0], "it was taken back");
        write_filled(&mut frames, 1, 1, 2, 4);
        write_filled(&mut frames, 2, 1, 2, 5);
        assert_eq!(here(&members, salts), [1, 4, 5, 0, 0]);
        frames.free_superseded(2);
        assert_eq!(here(&members, salts), [0, 4, 5, 0, 0], "superseded");
        let next = begin(&mut frames, &header.next(PAGE as u32, None));
        assert_ne!(next, salts);
        assert_eq!([salts, next].map(|salts| here(&members, salts)), [[0; 5]; 2], "the log begins anew");
        write_filled(&mut frames, 0, 1, 2, 6);
        assert_eq!((here(&members, salts), here(&members, next)), ([0; 5], [6, 0, 0, 0, 0]));
        frames.unshare();
        assert_eq!(here(&members, next), [0; 5]);
    }
}
