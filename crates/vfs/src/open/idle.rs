//! Idle: a second after the last commit everything is materialized and checkpointed.
//!
//! # Why
//! While deltas wait in the commit log, stock SQLite sees the last checkpoint, and a crash has something to recover. A
//! database that is at rest should have neither. A program that commits seldom must not pay a checkpoint for each commit.
//!
//! # Promises
//! 1. A database whose deltas wait is checkpointed once no commit has come for [`REST`].
//! 2. Two such checkpoints are `checkpoint_timeout` apart, at least.
//! 3. No thread waits while nothing has been committed since the last of them; closing ends the wait.

use crate::open::OpenDatabase;
use crate::open::checkpointer::checkpoint;
use litefoot_storage::sync::Mutex;
use litefoot_storage::worker::{Run, Worker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time without a commit after which a database is at rest.
const REST: Duration = Duration::from_secs(1);

/// The watch over the commits of one database.
#[derive(Default)]
pub(crate) struct Idle {
    worker: Arc<Worker>,
    /// Commits so far.
    commits: AtomicU64,
    /// True while a thread watches.
    is_watched: AtomicBool,
    /// True while the last connection closes.
    closes: AtomicBool,
    /// When the last checkpoint of this kind began.
    last: Mutex<Option<Instant>>,
}

impl Idle {
    /// The last connection closes: ends the watch.
    pub fn finish(&self) {
        self.closes.store(true, Ordering::Release);
        let _ = self.worker.finish();
        self.closes.store(false, Ordering::Release);
    }
}

/// Notes a commit of a database that may have deltas, and has a thread watch what follows.
#[inline]
pub(crate) fn note_commit(database: &Arc<OpenDatabase>) {
    let idle = database.idle();
    idle.commits.fetch_add(1, Ordering::Relaxed);
    if !idle.is_watched.load(Ordering::Relaxed) {
        begin(database);
    }
}

#[cold]
fn begin(database: &Arc<OpenDatabase>) {
    let idle = database.idle();
    let Some(claim) = idle.worker.claim() else { return };
    idle.is_watched.store(true, Ordering::Release);
    let watched = Arc::downgrade(database);
    let latch = database.db().latch().clone();
    // Where the system has no thread, the next commit tries again.
    if claim.start("litefoot-idle", &latch, move |run| watch(run, &watched)).is_err() {
        idle.is_watched.store(false, Ordering::Release);
    }
}

fn watch(run: &mut Run<()>, watched: &Weak<OpenDatabase>) {
    let mut wait = REST;
    loop {
        let Some(before) = watched.upgrade().map(|there| there.idle().commits.load(Ordering::Relaxed)) else {
            return;
        };
        run.pause(wait);
        let Some(database) = watched.upgrade() else { return };
        let idle = database.idle();
        let closes = idle.closes.load(Ordering::Acquire);
        let rests = idle.commits.load(Ordering::Relaxed) == before;
        let since = idle.last.lock().map(|last| last.elapsed());
        match decide(rests, since, database.db().options().checkpoint_timeout) {
            Some(longer) if !closes => wait = longer,
            _ => {
                // From now on a commit begins another watch.
                idle.is_watched.store(false, Ordering::Release);
                if !closes {
                    complete(&database);
                }
                return;
            }
        }
    }
}

/// Brings the deltas of a database at rest home.
fn complete(database: &Arc<OpenDatabase>) {
    if bring_deltas_home(database) {
        *database.idle().last.lock() = Some(Instant::now());
    }
}

/// Brings deltas home in the background; `false` where there are none.
pub(crate) fn bring_deltas_home(database: &Arc<OpenDatabase>) -> bool {
    let waits_in_wal_mode = database.wal().is_some_and(|wal| wal.has_deltas());
    if waits_in_wal_mode {
        checkpoint(database);
    } else if database.rollback_log().has_deltas() {
        database.rollback_log().complete_in_background(database);
    } else {
        return false;
    }
    true
}

/// How much longer to wait; `None` for a checkpoint now. `since` is the time since the last one.
fn decide(rests: bool, since: Option<Duration>, timeout: Duration) -> Option<Duration> {
    let left = since.map_or(Duration::ZERO, |since| timeout.saturating_sub(since));
    (!rests || !left.is_zero()).then(|| left.max(REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_at_rest_is_checkpointed_and_not_too_often() {
        let secs = Duration::from_secs;
        for (rests, since, expected, what) in [
            (true, None, None, "at rest, for the first time"),
            (false, None, Some(REST), "at work"),
            (true, Some(secs(300)), None, "the last one is long ago"),
            (true, Some(secs(290)), Some(secs(10)), "the last one is not so long ago"),
            (false, Some(secs(290)), Some(secs(10)), "at work, and not so long ago"),
            (false, Some(secs(400)), Some(REST), "at work, and long ago"),
        ] {
            assert_eq!(decide(rests, since, secs(300)), expected, "{what}");
        }
    }
}
