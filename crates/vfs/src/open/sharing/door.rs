//! The door: somebody opens the file, or has only knocked.
//!
//! # Why
//! A lease tells of everybody. Two kinds of processes open nothing, and only want to be met: shippers (`looks`), and those that would be members
//! of a group (`joiners`). For them nothing has to come home: the lease is taken again at once.
//!
//! # Promises
//! 1. Who has been met, and opens nothing, costs no change of the state.
//! 2. A database that nobody has used yet is given to others as it is. What waits for recovery waits still.

use super::{has_company, release_lease, settle, take_lease};
use crate::open::OpenDatabase;
use crate::open::joiners::{self, Met};
use crate::open::looks::meet_askers;
use litefoot_storage::file::LeaseAnswer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What has become of those at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Nothing is left to be done.
    Yes,
    /// Somebody waits for an answer, and the others wait meanwhile.
    Waits,
    /// Somebody opens the file.
    No,
}

/// Somebody has been at the door for so long: answers those who have only knocked.
pub(super) fn answer(database: &Arc<OpenDatabase>, waited: Duration) -> Answered {
    let sharing = database.sharing();
    let has_asker = meet_askers(database);
    let joiner = joiners::meet(database, waited);
    let has_knocked = {
        let mut change = sharing.change.lock();
        change.has_knocked |= has_asker || joiner == Met::Served;
        change.has_knocked
    };
    if joiner == Met::Waits {
        return Answered::Waits;
    }
    if has_knocked && has_only_knocked(database) {
        return Answered::Yes;
    }
    if give_back_unused(database) {
        joiners::serve_beside_others(database);
        return Answered::Yes;
    }
    Answered::No
}

/// A lease of a database that nobody has used yet is given back as it is: nothing is in memory.
fn give_back_unused(database: &OpenDatabase) -> bool {
    let _one = database.ownership.becoming.lock();
    let is_unused = !database.is_owned()
        && !database.is_multi_process()
        && !database.sharing().keeps_owner_lock.load(Ordering::Relaxed);
    if is_unused {
        release_lease(database);
        settle(database);
    }
    is_unused
}

/// True while this process makes the database by several transactions.
pub(in crate::open) fn is_being_made(database: &OpenDatabase) -> bool {
    database.sharing().change.lock().making.goes_on(Instant::now())
}

/// Takes the lease of a file that was opened just now: from then on it tells of others. True if this process has it.
pub(in crate::open) fn takes_lease_at_open(database: &OpenDatabase) -> bool {
    let _one = database.ownership.becoming.lock();
    if !database.is_owned() && !database.is_multi_process() {
        has_company(database);
    }
    database.sharing().has_lease()
}

/// True if nobody waits at the door but a shipper (`looks`), or a joiner (`joiners`), which has been met and opens nothing: the lease can be had again at once. A
/// visitor that has come at the same moment goes on, and finds the owner lock until everything is home.
fn has_only_knocked(database: &OpenDatabase) -> bool {
    if database.is_multi_process() {
        return false;
    }
    release_lease(database);
    let has_lease = matches!(take_lease(database), LeaseAnswer::Granted);
    if has_lease {
        settle(database);
    }
    has_lease
}
