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

use super::{LOOK_BACK, QUIET_LOOK_BACK, SharingFacts, level_between, release_lease, take_lease};
use crate::db::companions::has_real_journal;
use crate::db::durable_names::remove_empty_journal;
use crate::db::{Companion, Db};
use crate::error::Result;
use crate::open::ownership::Attention;
use crate::open::{OpenDatabase, open_tier};
use crate::sync::file_locks::Change as LockChange;
use litefoot_storage::file::{FileKind, LeaseAnswer, OpenMode, parent_directory};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An attempt to take a database back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// It is this process's alone.
    Done,
    /// Others have the file open.
    Company,
    /// Something else is in the way: a transaction of this process's, or a failure.
    NotYet,
}

/// When to look again if the others have left; `None` where they have.
pub(super) fn next_look(returned: Return, is_quiet: bool) -> Option<Duration> {
    match returned {
        Return::Done => None,
        Return::Company if is_quiet => Some(QUIET_LOOK_BACK),
        Return::Company | Return::NotYet => Some(LOOK_BACK),
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
    let returned = returned.flatten().unwrap_or(Return::NotYet);
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
    remove_empty_journal(db)?;
    let journal = db.companion_path(Companion::Journal);
    if db.medium().identity(&journal)?.is_some() {
        db.medium().open(&journal, FileKind::Journal, OpenMode::ReadWrite)?.sync()?;
    }
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
        ] {
            assert_eq!(next_look(returned, is_quiet), expected, "{returned:?} {is_quiet}");
        }
    }
}
