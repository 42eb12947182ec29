//! Guests: a visitor without a busy timeout meets no lock of this process's.
//!
//! # Why
//! Most visitors are short, and many wait for nothing: the `sqlite3` program fails at the first lock that it meets. With rollback
//! journals each commit locks readers out while it syncs. So the lease is taken again as soon as all others have closed the file,
//! also while SQLite's own protocol is used. The next visitor then waits in its `open` until no transaction writes. Once it is in it is a guest:
//! transactions of this process wait until it has left. Where a transaction goes on for longer that has not begun to write to the file, the
//! visitor is let in beside it, and can read. The commit waits for the guest then.
//!
//! In WAL mode commits are in no reader's way, and wait for no guest. The last close is: it has the database to itself while it empties the
//! log. So a visitor waits until that is over, and a close waits for a guest.
//!
//! # Promises
//! 1. A guest keeps transactions waiting for [`GUEST_FIRST`] at most, and each lock for one guest.
//! 2. Beside processes that stay, and open the file again and again, the lease is not asked for at each closing.
//!
//! # Limits
//! The system grants no lease while a guest is in. One that comes beside another is let in at once.

use super::{RECENT, YIELD_AFTER, is_simulated, take_lease};
use crate::open::OpenDatabase;
use crate::open::sharing::Sharing;
use crate::sync::lock_table::Level;
use litefoot_storage::file::LeaseAnswer;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest time for which a guest keeps transactions of this process waiting.
pub(super) const GUEST_FIRST: Duration = Duration::from_millis(100);
/// The time between two looks after a closing, and for how long.
const BLINK: Duration = Duration::from_millis(1);
const JUST_NOW: Duration = Duration::from_millis(20);
/// So many looks in a row that found others are the last ones until no closing was heard of for [`RECENT`].
const MOST_IN_VAIN: u32 = 100;

impl Sharing {
    /// True while a guest is to be alone with the file.
    pub(in crate::open) fn has_guest(&self) -> bool {
        self.change.lock().guest.is_some_and(|since| since.elapsed() < GUEST_FIRST)
    }

    /// Waits until a guest has left, [`GUEST_FIRST`] at most.
    #[cold]
    pub(in crate::open) fn await_guest(&self) {
        let mut change = self.change.lock();
        while let Some(since) = change.guest {
            if self.changed.wait_until(&mut change, since + GUEST_FIRST).timed_out() {
                return;
            }
        }
    }
}

/// True if a visitor that has waited for so long can be let in beside handles of this level.
fn is_free(level: Level, waited: Duration) -> bool {
    level < Level::Reserved || (level < Level::Exclusive && waited >= YIELD_AFTER)
}

/// Lets a visitor in as a guest that has waited for so long; `false` while a transaction of this process writes, outside of WAL mode, or a
/// log's last close is under way.
pub(super) fn make_way(database: &OpenDatabase, waited: Duration) -> bool {
    if is_simulated(database) {
        return true;
    }
    let _one = database.ownership.becoming.lock();
    let is_free = is_free(database.locks.inside().level, waited);
    if is_free {
        database.sharing().change.lock().guest = Some(Instant::now());
    }
    is_free
}

/// Takes the lease on a multi-process database's file, where all others have closed it. Answers when to look again, where that is
/// soon.
pub(super) fn watch(database: &OpenDatabase, since_closing: Option<Duration>) -> Option<Duration> {
    let sharing = database.sharing();
    if sharing.has_lease.load(Ordering::Relaxed) || is_simulated(database) {
        return None;
    }
    if matches!(take_lease(database), LeaseAnswer::Granted) {
        sharing.in_vain.store(0, Ordering::Relaxed);
        sharing.change.lock().guest = None;
        sharing.changed.notify_all();
        return None;
    }
    if since_closing.is_some_and(|since| since >= RECENT) {
        sharing.in_vain.store(0, Ordering::Relaxed);
    } else {
        sharing.in_vain.fetch_add(1, Ordering::Relaxed);
    }
    // A closing is told of a moment before the file has one user less.
    let was_closed = since_closing.is_some_and(|since| since < JUST_NOW);
    (was_closed && awaits_closing(database)).then_some(BLINK)
}

/// True if each closing may be that of the last visitor.
pub(super) fn awaits_closing(database: &OpenDatabase) -> bool {
    let sharing = database.sharing();
    !sharing.has_lease.load(Ordering::Relaxed) && sharing.in_vain.load(Ordering::Relaxed) < MOST_IN_VAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_waits_for_a_transaction_and_for_one_that_has_not_begun_to_write_not_for_ever() {
        let (soon, late) = (Duration::from_millis(10), YIELD_AFTER);
        for (level, waited, expected) in [
            (Level::None, soon, true),
            (Level::Shared, soon, true),
            (Level::Reserved, soon, false),
            (Level::Reserved, late, true),
            (Level::Pending, soon, false),
            (Level::Pending, late, true),
            (Level::Exclusive, late, false),
        ] {
            assert_eq!(is_free(level, waited), expected, "{level:?} {waited:?}");
        }
    }

    #[test]
    fn a_guest_is_waited_for_until_it_leaves_or_has_been_there_for_long() {
        let sharing = Sharing::default();
        sharing.await_guest();
        assert!(!sharing.has_guest());
        sharing.change.lock().guest = Some(Instant::now());
        assert!(sharing.has_guest());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| sharing.await_guest());
            sharing.change.lock().guest = None;
            sharing.changed.notify_all();
            waits.join().unwrap();
        });
        let long_ago = Instant::now().checked_sub(GUEST_FIRST).unwrap();
        sharing.change.lock().guest = Some(long_ago);
        assert!(!sharing.has_guest());
        sharing.await_guest();
    }
}
