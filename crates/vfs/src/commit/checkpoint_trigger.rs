//! Checkpoint trigger: when SQLite's log is written to the database file.
//!
//! # Promises
//! 1. A log in memory is checkpointed above 75 % of its budget, and never below 64 KiB.
//! 2. After a checkpoint that readers kept from emptying the log, the next one waits for a quarter of the budget more.
//! 3. A commit log is materialized above 75 % of `commit_log_size`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Percent of a budget above which a log is emptied.
const FILL_PERCENT: usize = 75;
/// Bytes of the log in memory below which no checkpoint is worth it.
const LEAST_BYTES: usize = 64 << 10;
/// The part of the budget by which a log grows until a checkpoint is tried again.
const RETRY_SHARE: usize = 4;

/// Decides when a log is emptied.
#[derive(Default)]
pub(crate) struct CheckpointTrigger {
    /// Bytes of the log above which a checkpoint is tried again, after readers were in the way; else 0.
    retry_bytes: AtomicUsize,
}

impl CheckpointTrigger {
    /// True for a log in memory that is to be written to the database file; `budget` are its bytes.
    pub fn is_large(&self, log_bytes: usize, budget: usize) -> bool {
        let limit = (budget / 100 * FILL_PERCENT).max(LEAST_BYTES);
        log_bytes > limit.max(self.retry_bytes.load(Ordering::Relaxed))
    }

    /// True for a commit log that is to be materialized.
    pub fn is_full(commit_log_percent: u64) -> bool {
        commit_log_percent > FILL_PERCENT as u64
    }

    /// A checkpoint has left a log of `log_bytes`.
    pub fn note_checkpoint(&self, log_bytes: usize, budget: usize) {
        let retry = if log_bytes < LEAST_BYTES { 0 } else { log_bytes + budget / RETRY_SHARE };
        self.retry_bytes.store(retry, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_log_is_emptied_by_its_fill() {
        let full = MIB / 100 * 75;
        for (log, budget, left, expected, what) in [
            (full, MIB, None, false, "just full"),
            (full + 1, MIB, None, true, "fuller"),
            (LEAST_BYTES, 0, None, false, "the least"),
            (LEAST_BYTES + 1, 0, None, true, "above the least"),
            (full + 1, MIB, Some(LEAST_BYTES - 1), true, "emptied before"),
            (MIB + MIB / 4, MIB, Some(MIB), false, "readers were in the way"),
            (MIB + MIB / 4 + 1, MIB, Some(MIB), true, "grown by a quarter since"),
            (full, MIB, Some(LEAST_BYTES), false, "the fill counts, too"),
        ] {
            let trigger = CheckpointTrigger::default();
            if let Some(left) = left {
                trigger.note_checkpoint(left, budget);
            }
            assert_eq!(trigger.is_large(log, budget), expected, "{what}");
        }
        assert_eq!([75, 76].map(CheckpointTrigger::is_full), [false, true]);
    }

    #[test]
    fn an_emptied_log_forgets_the_retry() {
        let trigger = CheckpointTrigger::default();
        trigger.note_checkpoint(8 * MIB, MIB);
        assert!(!trigger.is_large(8 * MIB, MIB));
        trigger.note_checkpoint(0, MIB);
        assert!(trigger.is_large(MIB, MIB));
    }
}
