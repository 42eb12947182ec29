//! Commit delay: the leader of a group commit waits shortly for followers (PostgreSQL: `commit_delay`, `commit_siblings`).
//!
//! # Why
//! One sync serves all transactions that are queued when it begins. Threads that committed during the last sync soon
//! commit again. A sync that begins without them makes each of them wait for two syncs.
//!
//! # Promises
//! 1. A delay takes at most half of the time of the last sync. A follower is awaited for at most 100 us or an eighth of that time, whichever is
//!    more. Other processes need some 100 us for each commit, one behind the other.
//! 2. A thread that commits alone is never delayed.
//! 3. After a delay in which no follower came, the next 16 commits are not delayed. Where syncs are long it is one commit, then two, up to 16.
//! 4. Syncs are long once several in a row have taken a millisecond, until several in a row have taken less. One that is late by chance
//!    changes nothing.
//! 5. Where syncs are long, as many are awaited as the larger of the last two served. One that was late for a sync would else be late for the next.

use std::time::{Duration, Instant};

/// A delay that is short for any device.
pub(crate) const SHORT_COMMIT_DELAY: Duration = Duration::from_micros(100);
/// The part of a sync's time that a delay may take, and that a follower is awaited for where that is long.
const MOST_SHARE: u32 = 2;
const LONG_SYNC_SHARE: u32 = 8;
/// Commits without a delay after a delay in vain, at most.
const MOST_UNDELAYED: u32 = 16;
/// A sync that takes so long is a long one.
pub(crate) const LONG_SYNC: Duration = Duration::from_millis(1);
/// So many syncs in a row tell that syncs are long, or short again.
const SYNCS_TO_TELL: u32 = 4;

/// Decides how long a leader waits for followers.
#[derive(Default)]
pub(crate) struct CommitDelay {
    /// Transactions that the last sync wrote, and those that were queued during it; and those of the sync before.
    last_group: usize,
    group_before: usize,
    /// Time that the last sync took.
    last_sync: Duration,
    /// Commits that are still not to be delayed, and how many were not behind the last delay in vain.
    undelayed: u32,
    last_undelayed: u32,
    is_long: bool,
    /// Syncs in a row that tell the opposite.
    opposite: u32,
}

/// A delay under way.
#[derive(Debug)]
pub(crate) struct Delay {
    begun: Instant,
    /// When the last follower came, and how many transactions wait since then.
    came: Instant,
    queued: usize,
    /// So many waited at its beginning.
    first: usize,
}

impl CommitDelay {
    /// True where syncs take long: there it pays to make others wait for a group that is complete.
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// Begins to delay a sync for which `queued` transactions wait; `None` for a sync that begins at once.
    pub fn before_sync(&mut self, queued: usize, now: Instant) -> Option<Delay> {
        if self.is_complete(queued) {
            return None;
        }
        if self.undelayed > 0 {
            self.undelayed -= 1;
            return None;
        }
        Some(Delay { begun: now, came: now, first: queued, queued })
    }

    /// True while a delay goes on, with so many transactions that wait now.
    pub fn goes_on(&mut self, delay: &mut Delay, queued: usize, now: Instant) -> bool {
        if self.is_complete(queued) {
            self.last_undelayed = 0;
            return false;
        }
        if self.is_long && queued > delay.queued {
            (delay.came, delay.queued) = (now, queued);
        }
        if now - delay.came < self.each() && now - delay.begun < self.most() {
            return true;
        }
        if queued == delay.first {
            self.note_miss();
        }
        false
    }

    /// Those that the last sync served, who soon commit again, and how long each is awaited.
    pub fn expected(&self) -> (usize, Duration) {
        (self.group(), self.each())
    }

    /// So many are complete.
    fn group(&self) -> usize {
        if self.is_long { self.last_group.max(self.group_before) } else { self.last_group }
    }

    fn most(&self) -> Duration {
        self.last_sync / MOST_SHARE
    }

    fn each(&self) -> Duration {
        self.most().min(SHORT_COMMIT_DELAY.max(self.last_sync / LONG_SYNC_SHARE))
    }

    /// True when as many transactions are queued as are expected.
    fn is_complete(&self, queued: usize) -> bool {
        queued >= self.group()
    }

    /// Nobody came.
    fn note_miss(&mut self) {
        let longer = (2 * self.last_undelayed).clamp(1, MOST_UNDELAYED);
        self.last_undelayed = if self.is_long { longer } else { MOST_UNDELAYED };
        self.undelayed = self.last_undelayed;
    }

    /// A sync has ended that took `time`. It wrote `written` transactions, and `queued` others came during it.
    pub fn note_sync(&mut self, written: usize, queued: usize, time: Duration) {
        self.group_before = std::mem::replace(&mut self.last_group, written + queued);
        self.last_sync = time;
        self.opposite = if (time >= LONG_SYNC) == self.is_long { 0 } else { self.opposite + 1 };
        if self.opposite == SYNCS_TO_TELL {
            (self.is_long, self.opposite) = (!self.is_long, 0);
        }
    }
}

#[cfg(test)]
impl CommitDelay {
    /// Syncs seem to take long.
    pub fn seem_long(&mut self) {
        (0..SYNCS_TO_TELL).for_each(|_| self.note_sync(1, 0, 5 * LONG_SYNC));
    }

    /// True behind a delay in vain.
    pub fn has_missed(&self) -> bool {
        self.undelayed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// A policy behind such a sync, where syncs are long or short as that one is.
    fn behind(written: usize, came: usize, sync: u64) -> CommitDelay {
        let mut policy = CommitDelay::default();
        (0..SYNCS_TO_TELL).for_each(|_| policy.note_sync(written, came, us(sync)));
        policy
    }

    /// Begins a delay in which nobody comes; answers if there was one.
    fn misses(policy: &mut CommitDelay, queued: usize) -> bool {
        let now = Instant::now();
        let delay = policy.before_sync(queued, now);
        delay.is_some_and(|mut delay| !policy.goes_on(&mut delay, queued, now + LONG_SYNC))
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
        for (written, came, sync, queued, expected, what) in cases {
            let mut policy = behind(written, came, sync);
            let now = Instant::now();
            let mut delay = policy.before_sync(queued, now);
            assert_eq!(delay.is_some(), expected.is_some(), "{what}");
            if let Some((delay, expected)) = delay.as_mut().zip(expected) {
                assert!(policy.goes_on(delay, queued, now + expected - us(1)), "{what}");
                assert!(!policy.goes_on(delay, written + came, now), "{what}: all have come");
                assert!(!policy.goes_on(delay, queued, now + expected), "{what}");
            }
        }
    }

    #[test]
    fn a_delay_in_vain_suspends_delays_for_longer_and_longer_where_syncs_are_long() {
        for (sync, suspended) in [(80, [16, 16, 16, 16, 16, 16]), (5_000, [1, 2, 4, 8, 16, 16])] {
            let mut policy = behind(2, 0, sync);
            for undelayed in suspended {
                assert!(misses(&mut policy, 1));
                // A sync that needs no delay does not count.
                assert!(policy.before_sync(2, Instant::now()).is_none());
                for commit in 0..undelayed {
                    assert!(!misses(&mut policy, 1), "commit {commit} of {undelayed}");
                }
            }
        }
        let mut policy = behind(2, 0, 5_000);
        assert!(misses(&mut policy, 1) && !misses(&mut policy, 1) && misses(&mut policy, 1));
        (0..2).for_each(|_| assert!(!misses(&mut policy, 1)));
        let mut delay = policy.before_sync(1, Instant::now()).unwrap();
        assert!(!policy.goes_on(&mut delay, 2, Instant::now()), "a follower came");
        assert!(misses(&mut policy, 1) && !misses(&mut policy, 1) && misses(&mut policy, 1));
    }

    #[test]
    fn a_follower_makes_a_delay_longer_where_syncs_are_long() {
        for (sync, is_longer) in [(800, false), (4_000, true)] {
            let mut policy = behind(9, 0, sync);
            let now = Instant::now();
            let each = policy.each();
            let mut delay = policy.before_sync(1, now).unwrap();
            assert!(policy.goes_on(&mut delay, 2, now + each / 2));
            assert_eq!(policy.goes_on(&mut delay, 2, now + each), is_longer);
            assert!(!policy.goes_on(&mut delay, 2, now + each + each / 2));
            let mut delay = policy.before_sync(1, now).unwrap();
            let goes_on =
                (1..8u32).take_while(|n| policy.goes_on(&mut delay, 1 + *n as usize, now + each / 2 * *n));
            assert_eq!(goes_on.count(), if is_longer { 7 } else { 1 }, "half of the sync at most");
            assert!(!policy.goes_on(&mut delay, 8, now + us(sync / 2)));
        }
    }

    #[test]
    fn where_syncs_are_long_a_smaller_group_is_believed_the_second_time() {
        for (sync, expected) in [(800, [4, 3, 3, 5]), (4_000, [4, 4, 3, 5])] {
            let mut policy = behind(4, 0, sync);
            let groups = [4, 3, 3, 5].map(|written| {
                policy.note_sync(written, 0, us(sync));
                policy.expected().0
            });
            assert_eq!(groups, expected, "{sync}");
        }
    }

    #[test]
    fn syncs_are_long_once_several_in_a_row_are() {
        let mut policy = CommitDelay::default();
        let mut told = |times: &[u64]| {
            times.iter().for_each(|time| policy.note_sync(1, 1, us(*time)));
            policy.is_long()
        };
        assert!(!told(&[100, 9_000, 9_000, 9_000, 999, 1_000, 1_000, 1_000]));
        assert!(told(&[1_000]));
        assert!(told(&[999, 999, 999, 1_000, 999, 999, 999]));
        assert!(!told(&[999]));
    }
}
