//! Commit delay: the leader of a group commit waits shortly for followers (PostgreSQL: `commit_delay`, `commit_siblings`).
//!
//! # Why
//! One sync serves all transactions that are queued when it begins. Threads that committed during the last sync soon
//! commit again. A sync that begins without them makes each of them wait for two syncs.
//!
//! # Promises
//! 1. A delay takes at most half of the time of the last sync, and at most 100 us or an eighth of that time, whichever is more. Other processes
//!    need some 100 us for each commit, one behind the other.
//! 2. A thread that commits alone is never delayed.
//! 3. After a delay in which no follower came, the next 16 commits are not delayed.

use std::time::Duration;

/// A delay that is short for any device.
pub(crate) const SHORT_COMMIT_DELAY: Duration = Duration::from_micros(100);
/// The part of a short sync's time that a delay may take, and of a long one's.
const SHORT_SYNC_SHARE: u32 = 2;
const LONG_SYNC_SHARE: u32 = 8;
/// Commits without a delay after a delay in vain.
const UNDELAYED_AFTER_MISS: u32 = 16;

/// Decides how long a leader waits for followers.
#[derive(Default)]
pub(crate) struct CommitDelay {
    /// Transactions that the last sync wrote, and those that were queued during it.
    last_group: usize,
    /// Time that the last sync took.
    last_sync: Duration,
    /// Commits that are still not to be delayed.
    undelayed: u32,
}

impl CommitDelay {
    /// Longest delay of a sync for which `queued` transactions wait; `None` for a sync that begins at once.
    pub fn before_sync(&mut self, queued: usize) -> Option<Duration> {
        if self.is_complete(queued) {
            return None;
        }
        if self.undelayed > 0 {
            self.undelayed -= 1;
            return None;
        }
        let most = SHORT_COMMIT_DELAY.max(self.last_sync / LONG_SYNC_SHARE);
        Some((self.last_sync / SHORT_SYNC_SHARE).min(most))
    }

    /// True when as many transactions are queued as the last sync served.
    pub fn is_complete(&self, queued: usize) -> bool {
        queued >= self.last_group
    }

    /// Transactions that the last sync served.
    #[cfg(test)]
    pub fn last_group(&self) -> usize {
        self.last_group
    }

    /// A delay has ended without a follower.
    pub fn note_miss(&mut self) {
        self.undelayed = UNDELAYED_AFTER_MISS;
    }

    /// A sync has ended that took `time`. It wrote `written` transactions, and `queued` others came during it.
    pub fn note_sync(&mut self, written: usize, queued: usize, time: Duration) {
        self.last_group = written + queued;
        self.last_sync = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn the_delay_follows_the_last_group_and_its_sync() {
        let cases = [
            // written, came during the sync, its time, queued now, the delay
            (0, 0, 0, 1, None, "the first commit"),
            (1, 0, 5_000, 1, None, "a thread alone"),
            (1, 1, 120, 1, Some(us(60)), "half of a short sync"),
            (1, 1, 800, 1, Some(us(100)), "the limit, behind a longer sync"),
            (1, 1, 5_000, 1, Some(us(625)), "an eighth of a long sync"),
            (4, 0, 200, 3, Some(us(100)), "one of four is missing"),
            (4, 0, 200, 4, None, "all are here"),
            (4, 3, 200, 6, Some(us(100)), "those that came during the sync count"),
            (2, 0, 200, 9, None, "more than the last time"),
        ];
        for (written, came, sync, queued, delay, what) in cases {
            let mut policy = CommitDelay::default();
            policy.note_sync(written, came, us(sync));
            assert_eq!(policy.before_sync(queued), delay, "{what}");
            assert_eq!(policy.is_complete(queued), delay.is_none(), "{what}");
        }
    }

    #[test]
    fn a_delay_in_vain_suspends_delays() {
        let mut policy = CommitDelay::default();
        policy.note_sync(2, 0, us(80));
        assert_eq!(policy.before_sync(1), Some(us(40)));
        policy.note_miss();
        // A sync that needs no delay does not count.
        assert_eq!(policy.before_sync(2), None);
        for commit in 0..UNDELAYED_AFTER_MISS {
            assert_eq!(policy.before_sync(1), None, "commit {commit}");
        }
        assert_eq!(policy.before_sync(1), Some(us(40)));
    }
}
