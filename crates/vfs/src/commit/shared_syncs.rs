//! Shared syncs of rollback-journal commits: one sync makes several durable, while the next transaction has the database already.
//!
//! # Why
//! With a rollback journal a transaction has the database alone until it ends. If it ended only once it is durable, several processes would
//! commit as often as the device syncs, and never more often.
//!
//! # How
//! 1. A transaction appends its pages to the redo log without a sync, and gets a number. It gives its lock up, and the next one goes on.
//! 2. It waits until its number is durable ([`SharedSyncs::await_durable`]) before its commit returns. The first that waits is the leader: it syncs
//!    what all have appended, without the lock of the log.
//! 3. Whoever would show what is not durable yet waits as well (`files/shared_reads`).
//!
//! # Promises
//! 1. A number is durable once a sync has covered its transaction: the leader's, or that of anybody who has synced the log, replaced it, or copied
//!    its pages to the database file.
//! 2. A sync that fails latches the database. Nobody is told then that a commit is durable which is not.
//!
//! # Invariants
//! 1. Numbers are given under the lock of the log, in the order of the log.
//! 2. The log takes what waits here for durable: it is replaced durably, or not at all (`RedoLog::append_to_be_flushed`).

use crate::commit::commit_delay::CommitDelay;
use crate::commit::rollback_log::RollbackRedoLog;
use crate::db::Db;
use crate::error::Result;
use crate::sync::writer_queue::{UNUSED_TURN, WriterQueue};
use litefoot_storage::sync::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks for followers.
const FOLLOWER_GLANCE: Duration = Duration::from_micros(20);

/// The commits of one database that share syncs.
#[derive(Default)]
pub(crate) struct SharedSyncs {
    /// The number of the last transaction that was appended, and of the last that is known to be durable.
    appended: AtomicU64,
    durable: AtomicU64,
    leading: Mutex<Leading>,
    ended: Condvar,
    /// Threads that wait and keep others back meanwhile: no follower can come.
    hurried: AtomicUsize,
    is_long: AtomicBool,
}

#[derive(Default)]
struct Leading {
    has_leader: bool,
    delay: CommitDelay,
}

impl SharedSyncs {
    /// A transaction was appended, to be flushed. The caller has the lock of the log.
    pub(super) fn note_appended(&self) {
        self.appended.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of the last transaction, while that is not known to be durable.
    #[inline]
    pub(crate) fn unsettled(&self) -> Option<u64> {
        let appended = self.appended.load(Ordering::SeqCst);
        (appended > self.durable.load(Ordering::SeqCst)).then_some(appended)
    }

    /// Waits until a transaction is durable. The first thread that waits leads.
    ///
    /// # Errors
    /// Those of the sync, which has latched the database.
    pub(crate) fn await_durable(&self, log: &RollbackRedoLog, db: &Db, number: u64) -> Result<()> {
        let mut leading = self.leading.lock();
        loop {
            if self.durable.load(Ordering::SeqCst) >= number {
                return Ok(());
            }
            db.latch().check(db.path())?;
            if leading.has_leader {
                self.ended.wait(&mut leading);
                continue;
            }
            leading.has_leader = true;
            let leader = Leader(self);
            leading = self.await_followers(leading, db);
            drop(leading);
            let begun = Instant::now();
            let (flush, up_to) = log.flush()?;
            let has_synced = flush.is_some();
            flush.map_or(Ok(()), |flush| flush.run())?;
            let before = self.durable.fetch_max(up_to, Ordering::SeqCst);
            let waiting = self.appended.load(Ordering::SeqCst) - up_to;
            let aside = aside(db.writer_queue(), self.is_long());
            leading = self.leading.lock();
            // Where somebody else has synced the log, nothing tells how long a sync takes, and how many share it.
            if has_synced {
                let synced = up_to.saturating_sub(before) as usize;
                leading.delay.note_sync(synced, waiting as usize + aside, begun.elapsed());
                self.is_long.store(leading.delay.is_long(), Ordering::Relaxed);
            }
            self.call_back(db, leading.delay.expected());
            drop(leading);
            drop(leader);
            leading = self.leading.lock();
        }
    }

    /// Behind a long sync, and where everything is durable, a writer that has stood aside is next.
    pub(super) fn call_back(&self, db: &Db, expected: (usize, Duration)) {
        if self.is_long() && self.unsettled().is_none() {
            db.writer_queue().call_back(UNUSED_TURN, expected);
        }
    }

    /// [`SharedSyncs::await_durable`] for a thread that keeps others back meanwhile: a leader does not wait for followers then.
    pub(crate) fn await_durable_at_once(&self, log: &RollbackRedoLog, db: &Db, number: u64) -> Result<()> {
        let _counted = Counted::in_(&self.hurried);
        self.await_durable(log, db, number)
    }

    /// True where a sync takes long, so that it pays to let others wait for it together.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Waits shortly for as many followers as the last sync had.
    fn await_followers<'a>(
        &'a self,
        mut leading: MutexGuard<'a, Leading>,
        db: &Db,
    ) -> MutexGuard<'a, Leading> {
        let is_long = self.is_long();
        let is_hurried = || is_long && self.hurried.load(Ordering::SeqCst) > 0;
        let waiting = || {
            let appended = self.appended.load(Ordering::SeqCst);
            let queued = appended - self.durable.load(Ordering::SeqCst).min(appended);
            queued as usize + aside(db.writer_queue(), is_long)
        };
        if is_hurried() {
            return leading;
        }
        let Some(mut delay) = leading.delay.before_sync(waiting(), Instant::now()) else { return leading };
        while !is_hurried() && leading.delay.goes_on(&mut delay, waiting(), Instant::now()) {
            drop(leading);
            std::thread::sleep(FOLLOWER_GLANCE);
            leading = self.leading.lock();
        }
        leading
    }

    /// Syncs seem to take long.
    #[cfg(test)]
    pub(crate) fn seem_long(&self) {
        let mut leading = self.leading.lock();
        leading.delay.seem_long();
        self.is_long.store(leading.delay.is_long(), Ordering::Relaxed);
    }

    /// True where the last leader has waited in vain.
    #[cfg(test)]
    pub(super) fn has_missed(&self) -> bool {
        self.leading.lock().delay.has_missed()
    }

    /// Transactions for which the next sync may wait.
    #[cfg(test)]
    pub(super) fn expected(&self) -> usize {
        self.leading.lock().delay.expected().0
    }

    /// True while somebody syncs.
    #[cfg(test)]
    pub(crate) fn has_leader(&self) -> bool {
        self.leading.lock().has_leader
    }

    /// The number of the last transaction that was appended.
    pub(super) fn appended(&self) -> u64 {
        self.appended.load(Ordering::SeqCst)
    }
}

/// The right to sync. Its end wakes those that wait, also after a failure.
struct Leader<'a>(&'a SharedSyncs);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.0.leading.lock().has_leader = false;
        self.0.ended.notify_all();
    }
}

/// Writers that stand aside, which they do where a sync takes long. A leader waits for none of them.
pub(super) fn aside(queue: &WriterQueue, is_long: bool) -> usize {
    if is_long { queue.aside() } else { 0 }
}

/// A thread that is counted.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    pub(super) fn in_(count: &AtomicUsize) -> Counted<'_> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
