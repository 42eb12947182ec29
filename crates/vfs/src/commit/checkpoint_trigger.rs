//! Checkpoint trigger: when SQLite's log is written to the database file.
//!
//! The memory that a log takes is its pages, and what is known of each frame. Pages that nobody can ask for have left it
//! (`txn/wal_frames/superseded.rs`), so a log may have many more frames than pages.
//!
//! # Promises
//! 1. A log in memory is checkpointed above 75 % of its budget, and never below 64 KiB.
//! 2. A log is checkpointed above 32,768 frames, whatever they take. SQLite looks for a page in a hash table of each
//!    4,096 frames, from the newest on, and a page that is not in the log is looked for in all of them.
//! 3. After a checkpoint that readers kept from emptying the log, the next one waits for a quarter of the budget more, or
//!    a quarter of the frames.
//! 4. A redo log on the medium counts like memory: what it takes there has an end, too.
//! 5. A log of twice these limits is overdue: SQLite's own checkpoints may empty it, too.
//! 6. A commit log is materialized above 75 % of `commit_log_size`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Percent of a budget above which a log is emptied.
const FILL_PERCENT: usize = 75;
/// Bytes of the log in memory below which no checkpoint is worth it.
const LEAST_BYTES: usize = 64 << 10;
/// Bytes that a frame takes wherever its page is: its header and place, its page's other versions, and its entry in the
/// wal-index.
const FRAME_BYTES: usize = 112;
/// Frames above which a log is emptied.
const MOST_FRAMES: usize = 32 << 10;
/// The part of the budget, and of the frames, by which a log grows until a checkpoint is tried again.
const RETRY_SHARE: usize = 4;

/// How many times a limit makes a log overdue.
const OVERDUE: usize = 2;

/// Bytes above which a log is emptied.
fn limit_bytes(budget: usize) -> usize {
    (budget / 100 * FILL_PERCENT).max(LEAST_BYTES)
}

/// What a log in memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFill {
    /// Frames.
    pub frames: usize,
    /// Bytes of the pages that may be asked for, wherever they lie.
    pub page_bytes: usize,
    /// Bytes of the redo log on the medium.
    pub redo_bytes: usize,
}

impl LogFill {
    /// Bytes in memory, or on the medium where these are more.
    pub fn bytes(self) -> usize {
        self.redo_bytes.max(self.page_bytes + self.frames * FRAME_BYTES)
    }
}

/// Decides when a log is emptied.
#[derive(Default)]
pub(crate) struct CheckpointTrigger {
    /// Bytes and frames of the log above which a checkpoint is tried again, after readers were in the way; else 0.
    retry_bytes: AtomicUsize,
    retry_frames: AtomicUsize,
}

impl CheckpointTrigger {
    /// True for a log in memory that is to be written to the database file; `budget` are its bytes.
    pub fn is_large(&self, log: LogFill, budget: usize) -> bool {
        log.bytes() > limit_bytes(budget).max(self.retry_bytes.load(Ordering::Relaxed))
            || log.frames > MOST_FRAMES.max(self.retry_frames.load(Ordering::Relaxed))
    }

    /// True for a log that the checkpointer has not emptied in time.
    pub fn is_overdue(log: LogFill, budget: usize) -> bool {
        log.bytes() > OVERDUE * limit_bytes(budget) || log.frames > OVERDUE * MOST_FRAMES
    }

    /// True for a commit log that is to be materialized.
    pub fn is_full(commit_log_percent: u64) -> bool {
        commit_log_percent > FILL_PERCENT as u64
    }

    /// A checkpoint has left a log like this.
    pub fn note_checkpoint(&self, left: LogFill, budget: usize) {
        let is_emptied = left.bytes() < LEAST_BYTES;
        let bytes = if is_emptied { 0 } else { left.bytes() + budget / RETRY_SHARE };
        let frames = if is_emptied { 0 } else { left.frames + MOST_FRAMES / RETRY_SHARE };
        self.retry_bytes.store(bytes, Ordering::Relaxed);
        self.retry_frames.store(frames, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A log of pages alone.
    fn pages(page_bytes: usize) -> LogFill {
        LogFill { frames: 0, page_bytes, redo_bytes: 0 }
    }

    /// A log whose pages were all freed.
    fn frames(frames: usize) -> LogFill {
        LogFill { frames, page_bytes: 0, redo_bytes: 0 }
    }

    #[test]
    fn a_log_is_emptied_by_its_fill() {
        let full = MIB / 100 * 75;
        let (most, more) = (MOST_FRAMES, MOST_FRAMES / 4);
        for (log, budget, left, expected, what) in [
            (pages(full), MIB, None, false, "just full"),
            (pages(full + 1), MIB, None, true, "fuller"),
            (pages(LEAST_BYTES), 0, None, false, "the least"),
            (pages(LEAST_BYTES + 1), 0, None, true, "above the least"),
            (pages(full + 1), MIB, Some(pages(LEAST_BYTES - 1)), true, "emptied before"),
            (pages(MIB + MIB / 4), MIB, Some(pages(MIB)), false, "readers were in the way"),
            (pages(MIB + MIB / 4 + 1), MIB, Some(pages(MIB)), true, "grown by a quarter since"),
            (pages(full), MIB, Some(pages(LEAST_BYTES)), false, "the fill counts, too"),
            (frames(full / FRAME_BYTES), MIB, None, false, "frames just fill it"),
            (frames(full / FRAME_BYTES + 1), MIB, None, true, "so do frames without pages"),
            (LogFill { redo_bytes: full + 1, ..frames(0) }, MIB, None, true, "so does the redo log"),
            (frames(most), 64 * MIB, None, false, "just the most frames"),
            (frames(most + 1), 64 * MIB, None, true, "more frames"),
            (frames(most + more + 1), 64 * MIB, Some(frames(most + 1)), false, "readers kept the frames"),
            (frames(most + more + 2), 64 * MIB, Some(frames(most + 1)), true, "a quarter more frames since"),
        ] {
            let trigger = CheckpointTrigger::default();
            if let Some(left) = left {
                trigger.note_checkpoint(left, budget);
            }
            assert_eq!(trigger.is_large(log, budget), expected, "{what}");
            let twice = LogFill {
                frames: 2 * log.frames,
                page_bytes: 2 * log.page_bytes,
                redo_bytes: 2 * log.redo_bytes,
            };
            let is_large = CheckpointTrigger::default().is_large(log, budget);
            assert_eq!(CheckpointTrigger::is_overdue(twice, budget), is_large, "{what}");
            assert!(!CheckpointTrigger::is_overdue(log, budget), "{what}");
        }
        assert_eq!([75, 76].map(CheckpointTrigger::is_full), [false, true]);
    }

    #[test]
    fn an_emptied_log_forgets_the_retry() {
        let trigger = CheckpointTrigger::default();
        let large = LogFill { frames: MOST_FRAMES, page_bytes: 8 * MIB, redo_bytes: 0 };
        trigger.note_checkpoint(large, MIB);
        assert!(!trigger.is_large(large, MIB));
        trigger.note_checkpoint(pages(0), MIB);
        assert!(trigger.is_large(pages(MIB), MIB));
        assert!(trigger.is_large(frames(MOST_FRAMES + 1), 64 * MIB));
    }
}
