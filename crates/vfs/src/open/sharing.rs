//! Sharing: a database is this process's alone, or is used by SQLite's own protocol beside other processes.
//!
//! # Why
//! A shell, a backup or a second worker may open the database at any moment. A file lease tells of it, and the other waits in
//! its `open` meanwhile. Everything that is in memory goes to the files, and this process goes on by SQLite's own protocol: real
//! locks, a real `-wal`, `-shm` and journal. When it is alone again, it takes the database over as after a crash.
//!
//! # Promises
//! 1. Connections stay open. A change fails none of their transactions, and moves no snapshot.
//! 2. The other process waits for [`YIELD_AFTER`] at most, and for what coming home takes. Where a transaction that writes goes on for
//!    longer, the other finds the database locked, as beside a long transaction of SQLite's. The change follows when that has ended.
//! 3. Outside of WAL mode a visitor that comes alone meets no lock of a commit's, for a while (`guests`).
//! 4. Changes do not follow one another faster than [`next_pause`] says (`policy`).
//! 5. A visitor that comes while this process makes the database waits for its next statements as well (`making`).
//! 6. A process that writes without a pause comes back as well: its transactions wait for that, for a moment (`returning`).
//!
//! # Invariants
//! 1. Others read or write only while the database is multi-process: before that, the owner lock keeps them out.
//! 2. Before the owner lock goes down, everything committed is in files that stock SQLite understands.
//! 3. The lease may be in hand while the database is multi-process: nobody else has the file open then. The owner lock is taken only
//!    with the lease in hand, or where others are to find the database locked.
//! 4. Others are let in while nobody writes: no handle is at EXCLUSIVE, and none holds a slot of the wal-index exclusively. Readers
//!    may be inside, with snapshots (`leaving`). The way back waits until no handle is in a transaction. Nobody is given a lock or a slot then.
//! 5. No page, length or log in memory is believed across a change.
//! 6. `becoming` orders all of it: it is held for a change, and for each lock that is taken while the database is
//!    multi-process.

mod door;
mod guests;
mod lease;
mod leaving;
mod making;
mod policy;
mod returning;
mod watcher;

use crate::db::durable_names::remove_void_journal;
use crate::db::{Companion, tier};
use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::joiners::serve_beside_others;
use crate::open::ownership::Attention;
use crate::open::{open_tier, take_over};
use crate::stats::{Stats, process_that_opened};
use crate::sync::file_locks::FileLocks;
use crate::sync::lock_table::Level;
use crate::sync::owner_lock;
use litefoot_storage::file::LeaseAnswer;

use door::Answered;
pub(super) use door::{is_being_made, takes_lease_at_open};
pub(super) use lease::{has_company, note_company};
use lease::{release_lease, take_lease};
use litefoot_storage::sync::{Condvar, Mutex};
use policy::{SharingFacts, next_pause};
use returning::{come_back, next_look};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest time for which a transaction of this process keeps another process waiting in its `open`.
pub(super) const YIELD_AFTER: Duration = Duration::from_millis(250);
/// The time between two looks if a transaction that is in the way has ended. Its end is told as well.
const GLANCE: Duration = Duration::from_millis(10);
/// The time between two looks if all others have closed the database, and the same where they were found there and no closing was
/// heard of since.
const LOOK_BACK: Duration = Duration::from_millis(250);
const QUIET_LOOK_BACK: Duration = Duration::from_secs(5);
/// How long after a closing the others may turn out to have left.
const RECENT: Duration = Duration::from_secs(1);

/// The sharing of one database with other processes.
#[derive(Default)]
pub(crate) struct Sharing {
    /// True while this process has the lease on the file.
    has_lease: AtomicBool,
    /// True if the system grants no lease on the file: the database is multi-process until it is closed.
    is_blind: AtomicBool,
    /// True if the owner lock is held though nobody owns the database just now.
    keeps_owner_lock: AtomicBool,
    /// The locks on the file while the database is multi-process.
    pub(super) file_locks: FileLocks,
    /// True if the log could not be copied for readers inside: the visitor that waits now has to wait for them.
    copy_failed: AtomicBool,
    /// Looks of [`guests::watch`] in a row that found others to have the file open.
    in_vain: AtomicU32,
    /// Attempts to change the state, counted at the beginning and at the end of each.
    attempts: AtomicU32,
    change: Mutex<Change>,
    changed: Condvar,
}

/// The change that is wanted or was made last.
#[derive(Default)]
struct Change {
    /// When another process opened the file, until the change was made.
    asked: Option<Instant>,
    /// True if the other was let go before.
    is_late: bool,
    /// When the database became multi-process, and how long it stays so at least.
    left: Option<(Instant, Duration)>,
    /// When it was this process's alone again.
    returned: Option<Instant>,
    /// True if one of those at the door has been met, and opens nothing.
    has_knocked: bool,
    /// When a visitor was let in, until it has left.
    guest: Option<Instant>,
    /// The way back, where transactions are in it.
    hold: returning::Hold,
    making: making::Making,
}

impl Change {
    /// Until when a transaction that would begin now waits for the change; `None` where it does not.
    fn awaited_until(&self) -> Option<Instant> {
        match self.asked.filter(|_| !self.is_late) {
            Some(_) if self.making.goes_on(Instant::now()) => None,
            Some(asked) => Some(asked + YIELD_AFTER),
            None => self.hold.until(),
        }
    }
}

impl Sharing {
    /// True while this process has the lease on the file.
    pub(super) fn has_lease(&self) -> bool {
        self.has_lease.load(Ordering::Relaxed)
    }

    /// The owner lock is held, though nobody owns the database yet.
    pub(super) fn keep_owner_lock(&self) {
        self.keeps_owner_lock.store(true, Ordering::Relaxed);
    }

    /// True if the system grants no lease on the file.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind.load(Ordering::Relaxed)
    }

    /// The attempts so far to change the state: one has all locks for a moment.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::SeqCst)
    }

    /// An attempt begins, or has ended.
    pub(super) fn note_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::SeqCst);
    }

    /// A transaction begins: where another process waits in its `open`, that comes first, and so does the way back.
    #[cold]
    pub(crate) fn await_change(&self) {
        let mut change = self.change.lock();
        while let Some(end) = change.awaited_until() {
            if self.changed.wait_until(&mut change, end).timed_out() {
                return;
            }
        }
    }
}

/// A transaction has ended that may be in the way.
pub(super) fn look_again(sharing: &Sharing) {
    let mut change = sharing.change.lock();
    let asked = change.asked;
    change.making.note_end(asked, Instant::now());
    drop(change);
    watcher::look();
}

impl OpenDatabase {
    /// The sharing of the database with other processes.
    #[inline]
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.ownership.sharing
    }

    /// True if an attempt to change the state had the locks at some time since `attempts` were counted. It has ended now.
    pub(crate) fn was_in_the_way(&self, attempts: u32) -> bool {
        let is_in_the_way = attempts % 2 == 1 || self.sharing().attempts() != attempts;
        if is_in_the_way {
            drop(self.ownership.becoming.lock());
        }
        is_in_the_way
    }

    /// True while other processes may have the database open, so that SQLite's own protocol is used.
    #[inline]
    pub(crate) fn is_multi_process(&self) -> bool {
        self.db.shared().is_multi_process()
    }
}

/// Another process opens the file.
fn note_break(database: &OpenDatabase) {
    let mut change = database.sharing().change.lock();
    if change.asked.is_none() {
        (change.asked, change.is_late) = (Some(Instant::now()), false);
    }
    change.hold.end();
    let counters = database.db.counters();
    let commits = [&counters.commits_pages, &counters.commits_deltas, &counters.commits_statements];
    let commits = commits.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    let asked = change.asked;
    change.making.meet(asked, commits, Instant::now());
    database.ownership.attention.set(Attention::RETURNING, false);
    database.ownership.attention.set(Attention::ASKED, true);
    // Members ask before they read, and wait as well.
    database.db.shared().close_board();
}

/// Nobody waits any more. A visitor was let in, or all have left.
fn settle(database: &OpenDatabase) {
    let mut change = database.sharing().change.lock();
    (change.asked, change.is_late, change.has_knocked) = (None, false, false);
    change.making.settle();
    database.sharing().copy_failed.store(false, Ordering::Relaxed);
    database.ownership.attention.set(Attention::ASKED, false);
    database.db.shared().open_board();
    drop(change);
    database.sharing().changed.notify_all();
}

/// This process has become the owner.
pub(super) fn note_ownership(database: &OpenDatabase) {
    database.sharing().keeps_owner_lock.store(false, Ordering::Relaxed);
    if matches!(database.db.data().is_empty(), Ok(true)) {
        database.sharing().change.lock().making.begin(Instant::now());
    }
}

/// True for a medium of a simulator. There another process is another user of the medium, in this thread perhaps: its `open` goes
/// on when `on_break` returns, and no time passes. So the database changes at once, without the watcher.
fn is_simulated(database: &OpenDatabase) -> bool {
    database.db.file().raw_descriptor().is_none()
}

/// The same on the way back, when a transaction begins.
pub(super) fn come_back_at_once(database: &OpenDatabase) {
    if is_simulated(database) {
        come_back(database);
    }
}

/// True while there is something to do, or to come.
fn is_to_be_watched(database: &OpenDatabase) -> bool {
    may_come_back(database) || database.sharing().change.lock().asked.is_some()
}

/// True for a multi-process database that may be this process's alone again.
fn may_come_back(database: &OpenDatabase) -> bool {
    database.is_multi_process() && !database.sharing().is_blind.load(Ordering::Relaxed)
}

/// Does what is to be done now, and answers when to look again; `None` where nothing is to come. Closings of the file are told of,
/// and the last was `since_closing` ago; `None` where they are not.
fn step(database: &Arc<OpenDatabase>, since_closing: Option<Duration>) -> Option<Duration> {
    let is_quiet = since_closing.is_some_and(|since| since >= RECENT);
    if !database.db.is_of_this_process() {
        return None;
    }
    let sharing = database.sharing();
    let asked = sharing.change.lock().asked;
    if let Some(asked) = asked {
        match if is_simulated(database) { Answered::No } else { door::answer(database, asked.elapsed()) } {
            Answered::Yes => return None,
            Answered::Waits => return Some(GLANCE),
            Answered::No => {}
        }
        if is_being_made(database) && !is_simulated(database) {
            return Some(making::PAUSE);
        }
        if let Some(left) = database.heirs_may_come() {
            return Some(left.max(GLANCE));
        }
        if leaving::leave(database, asked.elapsed()) && guests::make_way(database, asked.elapsed()) {
            release_lease(database);
            settle(database);
            if !is_simulated(database) {
                database.db.stats_page().note_shared(process_that_opened(database.db.file().id()));
            }
            // A reader may be leaving just now.
            return Some(GLANCE);
        }
        let waited = asked.elapsed();
        if waited >= YIELD_AFTER && sharing.has_lease.load(Ordering::Relaxed) {
            release_lease(database);
            sharing.change.lock().is_late = true;
            sharing.changed.notify_all();
        }
        if !sharing.has_lease.load(Ordering::Relaxed) && matches!(take_lease(database), LeaseAnswer::Granted)
        {
            // The other has given up, or is done.
            sharing.change.lock().guest = None;
            settle(database);
            return may_come_back(database).then_some(GLANCE);
        }
        return Some(GLANCE);
    }
    if !may_come_back(database) {
        return None;
    }
    leaving::trim_locks(database);
    serve_beside_others(database);
    if let Some(soon) = guests::watch(database, since_closing) {
        return Some(soon);
    }
    let pause = sharing.change.lock().left.map(|(since, pause)| pause.saturating_sub(since.elapsed()));
    match pause.filter(|left| !left.is_zero()) {
        Some(left) if is_quiet => Some(left),
        Some(left) => Some(left.min(LOOK_BACK)),
        None if !database.handles.any() => {
            if is_alone(database) {
                // The next opening begins afresh, as its owner.
                watcher::end_lingering(database);
            }
            Some(LOOK_BACK)
        }
        None => {
            let returned = come_back(database);
            returning::hold_back(database, returned).or_else(|| next_look(returned, is_quiet))
        }
    }
}

fn note_left(database: &OpenDatabase, cost: Duration) {
    let mut change = database.sharing().change.lock();
    let alone = change.returned.take().map(|returned| returned.elapsed());
    let pause = next_pause(cost, change.left.map(|(_, pause)| pause), alone);
    change.left = Some((Instant::now(), pause));
}

/// From now on SQLite's own protocol is used. The locks on the file are such already.
pub(super) fn enter(database: &OpenDatabase) {
    let db = &database.db;
    for companion in [Companion::Wal, Companion::Journal] {
        db.companions().set_alone(companion, false);
    }
    db.shared().set_owned(false);
    db.shared().set_multi_process(true);
    database.ownership.own_name.forget();
    database.ownership.attention.set(Attention::MULTI_PROCESS, true);
    database.sharing().keeps_owner_lock.store(false, Ordering::Relaxed);
    db.stats_page().note_shared(None);
}

/// The level of handles between two transactions: those that read by slots stay at SHARED.
fn level_between(reads_by_slots: bool) -> Level {
    if reads_by_slots { Level::Shared } else { Level::None }
}

/// An attempt to own the database has failed: gives the owner lock back, unless something of this process's relies on it. A tier is used
/// further by the next attempt, and a change that has failed may have left a reader inside.
pub(super) fn release_unless_needed(database: &OpenDatabase) -> Result<()> {
    let is_needed = tier::is_in_use(&database.db) || !database.locks.inside().are_idle || database.succeeds();
    database.sharing().keeps_owner_lock.store(is_needed, Ordering::Relaxed);
    if is_needed { Ok(()) } else { owner_lock::release(database.db.file()) }
}

/// Others have the database open, and this process has not used it yet, or has given it away. `becoming` is held.
pub(super) fn join(database: &OpenDatabase) -> Result<()> {
    let db = &database.db;
    let mut locks = database.sharing().file_locks.change();
    let mut is_locked = database.sharing().keeps_owner_lock.load(Ordering::Relaxed);
    if !is_locked {
        owner_lock::check_shared(db.file())?;
    }
    if take_over::waits_for_recovery(database)? {
        // What waits for recovery is litefoot's to recover, and nobody else may be in the file meanwhile.
        if !owner_lock::try_acquire(db.file(), db.writable())? {
            return Err(Error::Busy);
        }
        is_locked = true;
        let recovered = take_over::take_over(database)
            .and_then(|()| take_over::complete(database))
            .and_then(|()| open_tier::lend(db));
        if let Err(error) = recovered {
            release_unless_needed(database)?;
            return Err(error);
        }
        super::handover::forget_memory(database);
    }
    let reads_by_slots = database.wal_index.is_used();
    if is_locked {
        // A change that has failed may have left a reader inside.
        database.locks.ask_for_ends();
        locks.begin(db.file(), database.locks.inside().level)?;
        // From now on, also where the rest fails: the next attempt has to ask for its locks.
        database.sharing().keeps_owner_lock.store(false, Ordering::Relaxed);
    } else if !locks.begin_beside(db.file(), reads_by_slots)? {
        return Err(Error::Busy);
    }
    if reads_by_slots {
        database.wal_index.join_shared(db.medium(), &db.companion_path(Companion::WalIndex))?;
    }
    enter(database);
    note_left(database, Duration::ZERO);
    let is_blind = database.sharing().is_blind.load(Ordering::Relaxed);
    Stats::set(&db.counters().lease_refused, u64::from(is_blind));
    let there = database.weak_self.get().and_then(Weak::upgrade);
    if let Some(there) = there.filter(|there| !is_blind && !is_simulated(there)) {
        watcher::watch(&there);
    }
    Ok(())
}

/// The last handle of a multi-process database is closed.
pub(super) fn last_closed(database: &OpenDatabase) {
    let has_tier = database.db.options().tier.is_some() || database.db.tier().is_some();
    let may_linger = SharingFacts::of(database).allow() && !has_tier && !is_simulated(database);
    let there = database.weak_self.get().and_then(Weak::upgrade).filter(|_| may_linger);
    if !there.is_some_and(|there| watcher::linger(&there)) {
        clear_up(database);
    }
}

/// No opening finds a database any more that has no connection, and waits for one.
pub(crate) fn end_lingering(database: &Arc<OpenDatabase>) {
    watcher::end_lingering(database);
}

/// Leaves no void journal beside a database that nobody uses.
fn clear_up(database: &OpenDatabase) {
    if database.db.durable_names().has_journal() {
        is_alone(database);
    }
}

/// The same at the end of the process, where nothing is waited for.
pub(super) fn clear_up_at_exit(database: &OpenDatabase) {
    let is_ours = database.db.is_of_this_process() && database.db.durable_names().has_journal();
    if is_ours && let Some(_one) = database.ownership.becoming.try_lock() {
        look_if_alone(database);
    }
}

/// True if no process uses the database, this one included. Then no void journal is left.
fn is_alone(database: &OpenDatabase) -> bool {
    let _one = database.ownership.becoming.lock();
    look_if_alone(database)
}

/// The same. `becoming` is held.
fn look_if_alone(database: &OpenDatabase) -> bool {
    let may_be = database.is_multi_process()
        && !database.handles.any()
        && SharingFacts::of(database).allow()
        && matches!(take_lease(database), LeaseAnswer::Granted);
    if may_be {
        // One that stays is taken for none.
        let _ = remove_void_journal(&database.db);
        database.db.durable_names().forget();
        release_lease(database);
    }
    may_be
}
