//! Returning: a database is this process's alone again.
//!
//! # Order
//! 1. The lease says that all others have closed the file. Newcomers wait in their `open` from then on.
//! 2. The owner lock is taken. Where a process has kept its lock and not the file, it stays multi-process.
//! 3. What others have left is made durable as it is, and the wal-index becomes memory again.
//! 4. Nothing that was in memory counts. The next lock takes the database over as after a crash.
//!
//! # Invariants
//! No handle is in a transaction, and none gets a lock or a slot, from the first step to the last.
//!
//! # A process that makes no pause
//! A writer without pauses is in a transaction at nearly every look. So new transactions wait, until those that are under way have
//! ended ([`Hold`]). A reader that goes on for long makes that vain. Each time in vain doubles the time until the next.

use super::{GLANCE, LOOK_BACK, QUIET_LOOK_BACK, SharingFacts, level_between, release_lease, take_lease};
use crate::db::Db;
use crate::db::companions::has_real_journal;
use crate::db::durable_names::remove_void_journal;
use crate::error::Result;
use crate::open::ownership::Attention;
use crate::open::{OpenDatabase, open_tier};
use crate::sync::file_locks::Change as LockChange;
use litefoot_storage::file::{LeaseAnswer, parent_directory};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest time for which transactions wait for the way back.
pub(super) const RETURN_WAITS: Duration = Duration::from_millis(30);
/// The time until they may wait again, where they have waited once in vain, and the longest.
const NEXT_HOLD: Duration = Duration::from_millis(250);
const MOST_IN_VAIN: u32 = 6;

/// An attempt to take a database back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// It is this process's alone.
    Done,
    /// Others have the file open.
    Company,
    /// A transaction of this process's is in the way.
    Busy,
    /// Something else is in the way, or a failure.
    NotYet,
}

/// The waiting of transactions for the way back.
#[derive(Default)]
pub(super) struct Hold {
    /// When it began, while it lasts.
    since: Option<Instant>,
    /// When the next may begin, and how many before it were in vain.
    not_before: Option<Instant>,
    in_vain: u32,
}

impl Hold {
    /// Until when a transaction that would begin waits; `None` where it does not.
    pub(super) fn until(&self) -> Option<Instant> {
        self.since.map(|since| since + RETURN_WAITS)
    }

    /// Ends, since another process opens the file.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// Begins, goes on or ends, as an attempt was. True while it lasts.
    fn go_on(&mut self, returned: Return, now: Instant) -> bool {
        let is_over = self.until().is_some_and(|end| end <= now);
        match returned {
            Return::Busy if is_over => {
                self.not_before = Some(now + NEXT_HOLD * (1 << self.in_vain));
                self.in_vain = MOST_IN_VAIN.min(self.in_vain + 1);
                self.since = None;
            }
            Return::Busy if self.not_before.is_none_or(|begin| begin <= now) => {
                self.since.get_or_insert(now);
            }
            Return::Busy => {}
            Return::Done => *self = Hold::default(),
            Return::Company | Return::NotYet => self.since = None,
        }
        self.since.is_some()
    }
}

/// Lets transactions wait where they alone are in the way. Answers when to look again, while they do.
pub(super) fn hold_back(database: &OpenDatabase, returned: Return) -> Option<Duration> {
    let sharing = database.sharing();
    let mut change = sharing.change.lock();
    let was_held = change.hold.until().is_some();
    let is_held = change.hold.go_on(returned, Instant::now());
    database.ownership.attention.set(Attention::RETURNING, is_held);
    drop(change);
    if was_held && !is_held {
        sharing.changed.notify_all();
    }
    is_held.then_some(GLANCE)
}

/// When to look again if the others have left; `None` where they have.
pub(super) fn next_look(returned: Return, is_quiet: bool) -> Option<Duration> {
    match returned {
        Return::Done => None,
        Return::Company if is_quiet => Some(QUIET_LOOK_BACK),
        Return::Company | Return::Busy | Return::NotYet => Some(LOOK_BACK),
    }
}

/// Takes the database back, where all others have closed it and no connection is in a transaction.
pub(super) fn come_back(database: &OpenDatabase) -> Return {
    let _one = database.ownership.becoming.lock();
    if !database.is_multi_process() {
        return Return::Done;
    }
    let mut locks = database.sharing().file_locks.change();
    let attempt = || {
        let may_return =
            SharingFacts::of(database).allow() && matches!(has_real_journal(&database.db), Ok(false));
        match may_return.then(|| take_lease(database)) {
            Some(LeaseAnswer::Granted) if take_back(database, &mut locks).unwrap_or(false) => Return::Done,
            Some(LeaseAnswer::Granted) => {
                release_lease(database);
                Return::NotYet
            }
            Some(LeaseAnswer::Company) => Return::Company,
            Some(LeaseAnswer::Unsupported) | None => Return::NotYet,
        }
    };
    let returned = database.locks.while_idle(|| database.wal_index.while_idle(attempt));
    let returned = returned.flatten().unwrap_or(Return::Busy);
    if returned == Return::Done {
        database.sharing().change.lock().returned = Some(Instant::now());
    }
    returned
}

/// What others have left must survive a power cut as it is: commits that are in a log build upon it.
///
/// SQLite does not sync what it writes at `synchronous=OFF`, nor at NORMAL that a journal is over; below EXTRA it never syncs that
/// one is deleted. Such a journal could come back, and roll later commits back.
fn settle_files(db: &Db) -> Result<()> {
    db.sync()?;
    remove_void_journal(db)?;
    Ok(db.medium().sync_directory(parent_directory(db.path()))?)
}

/// Takes the owner lock; the next lock of a connection takes the database over as after a crash.
fn take_back(database: &OpenDatabase, locks: &mut LockChange<'_>) -> Result<bool> {
    let db = &database.db;
    if !locks.end(db.file(), db.writable())? {
        return Ok(false);
    }
    let files =
        settle_files(db).and_then(|()| open_tier::open(db)).and_then(|()| database.wal_index.unshare(true));
    if let Err(error) = files {
        // The application goes on as it does now, and the next attempt takes both.
        crate::notice::tell_once(db.path(), "not taken back", &error.to_string());
        let lent = open_tier::lend(db);
        let reads_by_slots = database.wal_index.is_used();
        locks.begin(db.file(), level_between(reads_by_slots))?;
        return lent.and(Err(error));
    }
    db.shared().forget_file();
    db.durable_names().forget();
    database.sharing().keeps_owner_lock.store(true, Ordering::Relaxed);
    database.ownership.attention.set(Attention::MULTI_PROCESS, false);
    db.shared().set_multi_process(false);
    db.stats_page().note_alone();
    database.end_empty_group();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_that_stays_is_looked_for_seldom_where_its_closing_is_told() {
        for (returned, is_quiet, expected) in [
            (Return::Done, true, None),
            (Return::Company, true, Some(QUIET_LOOK_BACK)),
            (Return::Company, false, Some(LOOK_BACK)),
            // Nobody tells of the end of what is in the way.
            (Return::NotYet, true, Some(LOOK_BACK)),
            (Return::Busy, true, Some(LOOK_BACK)),
        ] {
            assert_eq!(next_look(returned, is_quiet), expected, "{returned:?} {is_quiet}");
        }
    }

    #[test]
    fn transactions_wait_for_the_way_back_and_seldom_where_that_is_in_vain() {
        let (begin, mut hold) = (Instant::now(), Hold::default());
        let ms = |ms| begin + Duration::from_millis(ms);
        assert_eq!(hold.until(), None);
        assert!(hold.go_on(Return::Busy, ms(0)) && hold.go_on(Return::Busy, ms(20)));
        assert_eq!(hold.until(), Some(begin + RETURN_WAITS));
        assert!(!hold.go_on(Return::Busy, ms(30)) && !hold.go_on(Return::Busy, ms(279)), "in vain");
        assert!(hold.go_on(Return::Busy, ms(280)) && !hold.go_on(Return::Busy, ms(310)));
        assert!(!hold.go_on(Return::Busy, ms(809)) && hold.go_on(Return::Busy, ms(810)));
        assert!(!hold.go_on(Return::Company, ms(811)) && hold.until().is_none(), "a visitor");
        assert!(hold.go_on(Return::Busy, ms(812)));
        assert!(!hold.go_on(Return::Done, ms(813)));
        assert!(hold.go_on(Return::Busy, ms(814)) && !hold.go_on(Return::Busy, ms(844)));
        assert!(hold.go_on(Return::Busy, ms(844) + NEXT_HOLD), "as the first time");
    }
}
