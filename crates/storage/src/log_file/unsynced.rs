//! Unsynced writes of a log, and their flush, which keeps nobody from writing on.
//!
//! # Why
//! A sync takes as long as hundreds of writes. A log that is synced under its lock stalls every commit meanwhile, also those
//! that wait for no sync. So the lock is held to see how far the log was written, and not while the medium works.
//!
//! # Promises
//! 1. A flush covers the writes that had ended before it began, and no later one.
//! 2. A log is synced once a sync covers its last write, whichever of several ends first.

use crate::file::{File, Result, SyncLatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The writes of a log's file, and how many of them are durable.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    writes: u64,
    /// Writes that a sync has covered; shared with the flushes under way.
    synced: Arc<AtomicU64>,
}

impl Unsynced {
    /// Notes bytes that were, or will be, written without a sync.
    pub fn note_write(&mut self) {
        self.writes += 1;
    }

    /// Everything is durable, or counts for nothing any more.
    pub fn clear(&mut self) {
        self.synced.store(self.writes, Ordering::Release);
    }

    /// True while some write waits for a sync.
    pub fn is_any(&self) -> bool {
        self.writes > self.synced.load(Ordering::Acquire)
    }

    /// A flush of everything written so far to `file`; `None` where nothing waits for a sync.
    pub fn flush(&self, file: &Arc<dyn File>, latch: &Arc<SyncLatch>) -> Option<Flush> {
        self.is_any().then(|| Flush {
            file: file.clone(),
            latch: latch.clone(),
            writes: self.writes,
            synced: self.synced.clone(),
        })
    }
}

/// A sync of what a log's file had when the flush was made. It needs no lock.
#[must_use]
pub struct Flush {
    file: Arc<dyn File>,
    latch: Arc<SyncLatch>,
    writes: u64,
    synced: Arc<AtomicU64>,
}

impl Flush {
    /// Syncs the file.
    pub fn run(self) -> Result<()> {
        self.latch.check(self.file.path())?;
        self.latch.watch(self.file.sync())?;
        self.synced.fetch_max(self.writes, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileKind, Medium, OpenMode, Operation};
    use crate::sim::{Faults, SimMedium, SyncSite};
    use std::path::Path;

    fn file(medium: &SimMedium) -> Arc<dyn File> {
        medium.open(Path::new("/a-commits"), FileKind::CommitLog, OpenMode::Create).unwrap()
    }

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let (medium, latch) = (SimMedium::default(), Arc::<SyncLatch>::default());
        let (file, mut unsynced) = (file(&medium), Unsynced::default());
        assert!(!unsynced.is_any() && unsynced.flush(&file, &latch).is_none());
        unsynced.note_write();
        let flush = unsynced.flush(&file, &latch).unwrap();
        flush.run().unwrap();
        assert!(!unsynced.is_any());
        unsynced.note_write();
        let flush = unsynced.flush(&file, &latch).unwrap();
        unsynced.note_write();
        flush.run().unwrap();
        assert!(unsynced.is_any(), "the last write came later");
        // A later sync has covered more.
        let flush = unsynced.flush(&file, &latch).unwrap();
        unsynced.note_write();
        unsynced.clear();
        flush.run().unwrap();
        assert!(!unsynced.is_any());
        assert_eq!(medium.syncs(SyncSite::File(FileKind::CommitLog)), 3);
    }

    #[test]
    fn a_flush_that_fails_covers_nothing_and_latches() {
        let (medium, latch) = (SimMedium::default(), Arc::<SyncLatch>::default());
        let (file, mut unsynced) = (file(&medium), Unsynced::default());
        unsynced.note_write();
        let first = unsynced.flush(&file, &latch).unwrap();
        let second = unsynced.flush(&file, &latch).unwrap();
        medium.set_faults(Faults::failing(Operation::Sync, FileKind::CommitLog, 0));
        assert!(first.run().is_err() && second.run().is_err());
        assert!(unsynced.is_any() && latch.reason().is_some());
    }
}
