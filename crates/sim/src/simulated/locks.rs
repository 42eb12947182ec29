//! Locks on ranges of a file, between handles.
//!
//! As the system has them: a handle has at most one lock on each byte, and a request splits, joins and converts what the
//! handle has locked. A request that meets another handle's lock changes nothing.

use litefoot_storage::file::RangeLock;
use std::ops::Range;

/// The locks on one file.
#[derive(Default)]
pub(super) struct Locks {
    held: Vec<Lock>,
}

struct Lock {
    handle: u64,
    range: Range<u64>,
    exclusive: bool,
}

impl Locks {
    /// Tells whether a lock of another handle is in the way of a request.
    pub fn blocks(&self, handle: u64, range: &Range<u64>, lock: RangeLock) -> bool {
        let exclusive = lock == RangeLock::Exclusive;
        let blocks = |held: &Lock| {
            held.handle != handle && overlap(&held.range, range) && (exclusive || held.exclusive)
        };
        lock != RangeLock::None && self.held.iter().any(blocks)
    }

    /// Takes, converts or drops a handle's lock on a range; `false` where another handle is in the way.
    pub fn set(&mut self, handle: u64, range: Range<u64>, lock: RangeLock) -> bool {
        if self.blocks(handle, &range, lock) {
            return false;
        }
        let (touched, mut held): (Vec<Lock>, Vec<Lock>) =
            self.held.drain(..).partition(|held| held.handle == handle && overlap(&held.range, &range));
        for Lock { range: Range { start, end }, exclusive, .. } in touched {
            let outside = [start..range.start, range.end..end].into_iter().filter(|rest| !rest.is_empty());
            held.extend(outside.map(|range| Lock { handle, range, exclusive }));
        }
        if lock != RangeLock::None {
            held.push(Lock { handle, range, exclusive: lock == RangeLock::Exclusive });
        }
        self.held = held;
        true
    }

    /// Drops the locks of a handle that is closed.
    pub fn drop_all(&mut self, handle: u64) {
        self.held.retain(|held| held.handle != handle);
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use RangeLock::{Exclusive, None, Shared};

    /// What the second handle may still lock of ten bytes: `.` anything, `s` shared, `x` nothing.
    fn picture(locks: &Locks) -> String {
        let free = |byte: u64, lock| !locks.blocks(2, &(byte..byte + 1), lock);
        let letter = |byte| match (free(byte, Exclusive), free(byte, Shared)) {
            (true, _) => '.',
            (false, true) => 's',
            (false, false) => 'x',
        };
        (0..10).map(letter).collect()
    }

    #[test]
    fn a_handles_own_locks_split_join_and_convert() {
        let mut locks = Locks::default();
        for (range, lock, then) in [
            (0..10, Exclusive, "xxxxxxxxxx"),
            (2..8, Shared, "xxssssssxx"),
            (4..5, None, "xxss.sssxx"),
            (0..2, None, "..ss.sssxx"),
            (3..9, Exclusive, "..sxxxxxxx"),
            (2..4, Shared, "..ssxxxxxx"),
            (0..10, None, ".........."),
        ] {
            assert!(locks.set(1, range.clone(), lock));
            assert_eq!(picture(&locks), then, "{range:?} {lock:?}");
        }
    }

    #[test]
    fn a_request_that_meets_anothers_lock_changes_nothing() {
        let mut locks = Locks::default();
        assert!(locks.set(1, 3..5, Shared) && locks.set(2, 4..8, Shared));
        assert!(!locks.set(1, 0..5, Exclusive) && !locks.set(2, 0..10, Exclusive));
        assert_eq!(picture(&locks), "...ss.....");
        locks.drop_all(2);
        assert!(
            locks.set(1, 0..5, Exclusive) && !locks.set(2, 4..5, Shared) && locks.set(2, 5..6, Exclusive)
        );
        assert_eq!(picture(&locks), "xxxxx.....");
    }

    #[test]
    fn ranges_that_only_touch_are_in_nobodys_way() {
        let mut locks = Locks::default();
        assert!(locks.set(1, 0..5, Exclusive) && locks.set(2, 5..10, Exclusive));
    }
}
