//! The lease on a database's file, by which the system tells of other processes that open it (`fcntl(2)`, `F_SETLEASE`).
//!
//! # Invariants
//! 1. `has_lease` is set behind a lease that was granted, and unset before it is given back.
//! 2. Whoever takes the lease hears of each open from then on: the watcher does what is to be done, or the thread that hears of it.

use super::{GLANCE, SharingFacts, is_simulated, note_break, step, watcher};
use crate::open::OpenDatabase;
use litefoot_storage::file::{LeaseAnswer, OnBreak};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long members of a group may take to close an open file that they have borrowed from an owner that has ended.
const MEMBERS_LEAVE: Duration = Duration::from_millis(20);

/// True if SQLite's own protocol is to be used: other processes have the database open, where it may be shared with them, or may have
/// it open unnoticed. Else this process has the lease from now on, or others find the database locked. `becoming` is held.
pub(in crate::open) fn has_company(database: &OpenDatabase) -> bool {
    let sharing = database.sharing();
    if sharing.has_lease.load(Ordering::Relaxed) || !SharingFacts::of(database).allow() {
        return false;
    }
    match take_lease_after_owner(database) {
        LeaseAnswer::Granted => false,
        LeaseAnswer::Company => true,
        // An owner that hears of nobody would keep all others out for ever. Stock SQLite does not.
        LeaseAnswer::Unsupported => {
            let is_blind = database.weak_self.get().is_some()
                && !is_simulated(database)
                && database.db.options().tier.is_none();
            sharing.is_blind.store(is_blind, Ordering::Relaxed);
            is_blind
        }
    }
}

/// Another process has the file open, and this one becomes the owner all the same, by the owner lock that it has: the change comes soon. `becoming` is held.
pub(in crate::open) fn note_company(database: &OpenDatabase) {
    let Some(there) = database.weak_self.get().and_then(Weak::upgrade) else { return };
    note_break(database);
    watcher::watch(&there);
}

/// Takes the lease. Members of a group that have lost their owner close its open file just now.
fn take_lease_after_owner(database: &OpenDatabase) -> LeaseAnswer {
    let begun = Instant::now();
    loop {
        let answer = take_lease(database);
        let may_change = matches!(answer, LeaseAnswer::Company) && database.serves_group();
        if !may_change || begun.elapsed() >= MEMBERS_LEAVE {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn take_lease(database: &OpenDatabase) -> LeaseAnswer {
    let Some(there) = database.weak_self.get().cloned() else { return LeaseAnswer::Unsupported };
    let on_break: OnBreak = Arc::new(move || broken(&there));
    let answer = database.db.file().take_lease(on_break);
    if matches!(answer, LeaseAnswer::Granted) {
        database.sharing().has_lease.store(true, Ordering::Relaxed);
    }
    answer
}

/// Another process opens the file, and waits. The watcher does what is to be done; without one, this thread does.
fn broken(database: &Weak<OpenDatabase>) {
    let Some(database) = database.upgrade() else { return };
    note_break(&database);
    if is_simulated(&database) || !watcher::watch(&database) {
        while step(&database, None).is_some() && database.sharing().has_lease.load(Ordering::Relaxed) {
            std::thread::sleep(GLANCE);
        }
    }
}

pub(super) fn release_lease(database: &OpenDatabase) {
    database.sharing().has_lease.store(false, Ordering::Relaxed);
    database.db.file().release_lease();
}
