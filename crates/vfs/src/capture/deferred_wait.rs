//! The wait for a commit whose effects a statement has read, deferred to the statement's own commit.
//!
//! A statement that writes and returns no rows shows nothing of what it reads before its own commit, which comes later in
//! the log. So its reads do not wait for earlier commits to be durable. Its end does, if it commits nothing itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The deferred wait of one connection. Only the thread that uses the connection changes it.
#[derive(Default)]
pub(super) struct DeferredWait {
    /// True if the running statement shows nothing of what it reads before its own commit.
    is_silent: AtomicBool,
    /// The commit that must be durable before the application sees what was read; 0 for none.
    owed: AtomicU64,
}

impl DeferredWait {
    /// True if the running statement shows nothing of what it reads.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Another statement runs, or none.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// True if a wait is owed.
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed) != 0
    }

    /// Defers the wait for a commit, where the running statement is silent; else answers `false`.
    pub fn defer(&self, commit: u64) -> bool {
        let is_silent = self.is_silent();
        if is_silent {
            self.owed.fetch_max(commit, Ordering::Relaxed);
        }
        is_silent
    }

    /// Takes the commit that the application must wait for now.
    pub fn take(&self) -> Option<u64> {
        self.is_owed().then(|| self.owed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_silent_statement_defers_and_the_newest_commit_is_owed() {
        for (is_silent, commits, owed) in [
            (false, vec![7], None),
            (true, vec![], None),
            (true, vec![7], Some(7)),
            (true, vec![7, 9, 8], Some(9)),
        ] {
            let wait = DeferredWait::default();
            wait.set_silent(is_silent);
            for commit in commits {
                assert_eq!(wait.defer(commit), is_silent);
            }
            wait.set_silent(false);
            assert_eq!(wait.is_owed(), owed.is_some());
            assert_eq!(wait.take(), owed, "also after the statement has ended");
            assert_eq!(wait.take(), None, "once");
        }
    }
}
