//! Memory of the log: how much it is, and when it is given back, page by page or by a checkpoint.

use crate::commit::checkpoint_trigger::{CheckpointTrigger, LogFill};
use crate::commit::wal::Wal;
use crate::db::Db;
use crate::stats::Stats;
use crate::sync::wal_index::WalIndex;
use std::sync::atomic::Ordering;

/// Committed frames after which superseded ones are looked for: to look at all readers is not free.
const FRAMES_BETWEEN_LOOKS: usize = 16;

impl Wal {
    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        let frames = self.frames.read().memory_bytes();
        frames + self.commits.memory_bytes()
    }

    /// Shows in the statistics how full the log in memory and the commit log are; answers the frames.
    pub(crate) fn note_fill(&self, stats: &Stats) -> usize {
        let fill = self.fill();
        Stats::set(&stats.commit_log_bytes, self.commits.commit_log_bytes());
        Stats::set(&stats.wal_bytes, fill.bytes() as u64);
        fill.frames
    }

    /// True when the log is to be materialized, or written to the database file.
    pub fn wants_checkpoint(&self, db: &Db) -> bool {
        self.wants_complete_file() || self.is_large(db)
    }

    /// True when the data file is to have every page, so that a generation of deltas can begin, or when the commit log is
    /// to be materialized.
    fn wants_complete_file(&self) -> bool {
        CheckpointTrigger::is_full(self.commits.fill_percent()) || self.commits.wants_complete_file()
    }

    /// True when the log is to be written to the database file.
    pub fn is_large(&self, db: &Db) -> bool {
        self.checkpoint_trigger.is_large(self.fill(), db.memory().wal_bytes())
    }

    /// True when the log is to be written to the database file by anybody.
    pub fn is_overdue(&self, db: &Db) -> bool {
        CheckpointTrigger::is_overdue(self.fill(), db.memory().wal_bytes())
    }

    /// The content of the log: frames, and bytes of pages.
    fn fill(&self) -> LogFill {
        let (frames, page_bytes) = self.frames.read().counts();
        LogFill { frames, page_bytes, redo_bytes: self.commits.redo_bytes() }
    }

    /// Frees superseded pages, before a writer's first frame or after its commit. `published` says how many frames SQLite
    /// can take back no more. `index` tells which frames readers see.
    pub fn free_superseded(&self, index: &WalIndex, published: impl FnOnce() -> u32) {
        if self.committed_since.load(Ordering::Relaxed) < FRAMES_BETWEEN_LOOKS {
            return;
        }
        self.committed_since.store(0, Ordering::Relaxed);
        // Frames that are in no log yet are materialized as they are.
        let written = u32::try_from(self.commits.written_frames()).unwrap_or(u32::MAX);
        let published = published().min(written);
        let to = index.seen_by_all().min(published);
        if self.frames.read().has_superseded(to as usize) {
            // A snapshot that is opened meanwhile is refused, or its mark is seen here.
            index.refuse_snapshots_below(to);
            let to = index.seen_by_all().min(to);
            self.frames.write().free_superseded(to as usize);
        }
    }

    /// The same, where SQLite has just said that a commit is done, and takes no locks.
    pub fn free_superseded_alone(&self, index: &WalIndex) {
        let committed = || u32::try_from(self.frames.read().committed()).unwrap_or(u32::MAX);
        self.free_superseded(index, committed);
    }

    /// Notes that a checkpoint has written the log to the database file, as far as readers let it.
    pub fn checkpoint_done(&self, db: &Db) {
        self.checkpoint_trigger.note_checkpoint(self.fill(), db.memory().wal_bytes());
        self.commits.note_checkpoint();
        self.note_fill(db.counters());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, frame_offset};
    use crate::commit::wal::tests::{commit, open};
    use crate::ffi::codes::SQLITE_SHM_NLOCK;
    use crate::sync::wal_index::CHECKPOINT_SLOT;

    #[test]
    fn superseded_pages_are_looked_for_after_some_frames_and_while_nobody_needs_them() {
        let (db, wal) = open();
        let index = WalIndex::default();
        index.map(0, 32768, true).unwrap().unwrap();
        let freed = |from: usize| (0..from).filter(|frame| !wal.frames.read().is_in_memory(*frame)).count();
        for frame in 0..FRAMES_BETWEEN_LOOKS {
            assert_eq!(freed(frame), 0, "{frame} frames");
            wal.log_commit(&db, commit(&db, &wal, frame, 2, 1)).unwrap();
            wal.free_superseded(&index, || if frame < FRAMES_BETWEEN_LOOKS { frame as u32 } else { 0 });
        }
        // The last one is not published.
        assert_eq!(freed(FRAMES_BETWEEN_LOOKS), FRAMES_BETWEEN_LOOKS - 2);
        let mut held = index.register();
        assert!(index.lock(&mut held, CHECKPOINT_SLOT, 1, true));
        let most = 3 * FRAMES_BETWEEN_LOOKS;
        for frame in FRAMES_BETWEEN_LOOKS..most {
            wal.log_commit(&db, commit(&db, &wal, frame, 2, 1)).unwrap();
            wal.free_superseded_alone(&index);
        }
        assert_eq!(freed(most), FRAMES_BETWEEN_LOOKS - 2, "a checkpoint sees none of these frames");
        index.unlock(&mut held, 0, SQLITE_SHM_NLOCK);
        for frame in most..most + FRAMES_BETWEEN_LOOKS {
            wal.log_commit(&db, commit(&db, &wal, frame, 2, 1)).unwrap();
            wal.free_superseded_alone(&index);
        }
        assert_eq!(freed(most + FRAMES_BETWEEN_LOOKS), most + FRAMES_BETWEEN_LOOKS - 1);
    }

    #[test]
    fn pages_that_are_in_no_log_stay() {
        let (db, wal) = open();
        for frame in 0..2 * FRAMES_BETWEEN_LOOKS {
            commit(&db, &wal, frame, 2, 1);
        }
        wal.free_superseded_alone(&WalIndex::default());
        assert!((0..2 * FRAMES_BETWEEN_LOOKS).all(|frame| wal.frames.read().is_in_memory(frame)));
    }

    #[test]
    fn a_log_that_is_read_from_its_beginning_has_all_its_frames() {
        let (db, wal) = open();
        let frames = 2 * FRAMES_BETWEEN_LOOKS;
        for frame in 0..frames {
            wal.log_commit(&db, commit(&db, &wal, frame, 2, frame as u8)).unwrap();
        }
        wal.free_superseded_alone(&WalIndex::default());
        let mut page = [0; PAGE];
        let page_of = |frame: usize| frame_offset(frame + 1) as u64 - PAGE as u64;
        assert!(wal.read(&db, &mut page, page_of(3)).is_err());
        assert!(wal.read(&db, &mut [0; 32], 0).is_ok());
        for frame in 0..frames {
            assert_eq!(wal.read(&db, &mut page, page_of(frame)).unwrap(), PAGE, "{frame}");
        }
        assert_eq!(page[0], frames as u8 - 1);
    }
}
