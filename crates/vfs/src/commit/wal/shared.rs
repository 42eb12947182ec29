//! The log of an owner whose members read its frames themselves (`sync/shared_frames`).

use crate::commit::wal::Wal;
use crate::db::Db;
use crate::memory::reservation::MemoryReservation;
use crate::sync::shared_frames::SharedFrames;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;

impl Wal {
    /// Members read frames in the memory of their wal-index from now on; `false` where there is no room for them.
    pub(crate) fn share_frames(&self, db: &Db, memory: &Arc<NamelessMemory>) -> bool {
        // A commit that is logged as pages reads the frames until it is synced. Only the first member of an index waits for that.
        if self.frames.read().are_shared_in(memory) {
            return true;
        }
        let mut frames = self.frames.write();
        if frames.are_shared_in(memory) {
            return true;
        }
        // Those before it may be in the same place.
        frames.unshare();
        let reservation = MemoryReservation::new(db.memory().share());
        let shared = SharedFrames::new(memory.clone(), reservation);
        shared.map(|shared| frames.share(shared)).is_ok()
    }

    /// The frames that members read, which may outlive this log.
    pub(crate) fn take_frames(&self) -> Option<SharedFrames> {
        self.frames.write().take_shared()
    }

    /// They ask for each frame from now on.
    pub(crate) fn unshare_frames(&self) {
        self.frames.write().unshare();
    }
}
