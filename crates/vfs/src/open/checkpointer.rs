//! Writing the log to the database file while commits go on.
//!
//! A thread of its own writes the pages of the commit log ahead, materializes it, and lets SQLite checkpoint through an internal connection. Then
//! writers wait for their turn, while the thread copies the few later commits and empties the log. Where readers are in
//! the way of that, it is tried again when the log has grown by a quarter.

use crate::db::Db;
use crate::ffi::codes::{SQLITE_BUSY, SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_TRUNCATE, SQLITE_OK};
use crate::open::OpenDatabase;
use crate::stats::Stats;
use crate::sync::forks::{InSqlite, outside};
use crate::sync::writer_queue::CHECKPOINTER;
use litefoot_storage::log_file::Durability;
use litefoot_storage::worker::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long writers are asked for a moment of quiet.
const WRITER_QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long readers that still use the log are waited for meanwhile. One of them may be a writer that has begun to read just
/// before, and waits for the turn to end.
const READERS_TIMEOUT: Duration = Duration::from_millis(4);
/// How often the log is tried to be emptied, and how long writers go on in between.
const ATTEMPTS: u32 = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// The time between two looks if a turn has ended.
const TURN_GLANCE: Duration = Duration::from_micros(50);

/// The thread that checkpoints a database, and its turns among the writers.
///
/// # Invariant
/// Nobody waits for a turn of a thread that has ended. Its panic latches the database, and is met there.
#[derive(Default)]
pub(crate) struct Checkpointer {
    thread: Arc<Worker>,
    has_turn: AtomicBool,
}

impl Checkpointer {
    /// True while it has its turn.
    #[inline]
    pub fn has_turn(&self) -> bool {
        self.has_turn.load(Ordering::Relaxed)
    }

    /// Waits for the end of its turn, or until the thread has ended in another way.
    #[cold]
    pub fn await_turn_end(&self, db: &Db) {
        Stats::add(&db.counters().checkpoint_waits, 1);
        while self.has_turn() && self.is_at_work() {
            std::thread::sleep(TURN_GLANCE);
        }
    }

    /// True while the thread is at work.
    pub fn is_at_work(&self) -> bool {
        self.thread.is_running()
    }

    /// Waits until the thread has ended; answers true where it was at work.
    pub fn await_end(&self) -> bool {
        self.thread.wait() == Ok(true)
    }

    /// The same for those who would use the database, and counts it.
    pub fn await_end_for_use(&self, db: &Db) -> bool {
        let was_at_work = self.await_end();
        if was_at_work {
            Stats::add(&db.counters().checkpoint_waits, 1);
        }
        was_at_work
    }
}

/// Starts the thread, unless one is at work. Where the system has no thread to give, SQLite's own checkpoints have to do.
pub fn checkpoint(database: &Arc<OpenDatabase>) {
    let Some(claim) = database.checkpointer().thread.claim() else { return };
    let there = database.clone();
    let _ = claim.start("litefoot-checkpoint", database.db().latch(), move |_| run(&there));
}

/// Writes the log to the database file. A failure is met again by the next commit that needs the log written.
fn run(database: &OpenDatabase) {
    let Some(wal) = database.wal() else { return };
    let complete = wal.is_large(database.db()) || database.db().options().logs_deltas();
    wal.write_ahead();
    if wal.log(database.db(), Durability::Durable).is_err() || !complete {
        return;
    }
    // A connection below a VFS with a wal-index of its own hears nothing of a checkpoint of ours, and would go on with frames that
    // are gone. Its own checkpoints have to do. Beside one in exclusive locking mode there is no internal connection.
    if !database.wal_index().is_applications() {
        return wal.checkpoint_done(database.db());
    }
    let in_sqlite = InSqlite::enter();
    if let Ok(connection) = database.internal_connection() {
        connection.set_busy_timeout(READERS_TIMEOUT);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                outside(|| std::thread::sleep(BETWEEN_ATTEMPTS));
            }
            // The bulk of it, while commits go on. One of the application's, which is under way, does it as well.
            if connection.checkpoint(SQLITE_CHECKPOINT_PASSIVE) == SQLITE_BUSY {
                break;
            }
            let _turn = outside(|| Turn::begin(database));
            // Commits that wait for their sync still read the log.
            if outside(|| wal.log(database.db(), Durability::Durable).is_err())
                || connection.checkpoint(SQLITE_CHECKPOINT_TRUNCATE) == SQLITE_OK
            {
                break;
            }
        }
    }
    drop(in_sqlite);
    wal.checkpoint_done(database.db());
}

/// A turn among the writers, which ends with this. Connections that have written before wait for its end when they begin to
/// read: a writer that waits while it reads would be in the turn's way.
struct Turn<'a>(&'a OpenDatabase);

impl Turn<'_> {
    fn begin(database: &OpenDatabase) -> Turn<'_> {
        database.checkpointer().has_turn.store(true, Ordering::Relaxed);
        database.writer_queue().enter(CHECKPOINTER, WRITER_QUEUE_TIMEOUT);
        Turn(database)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.writer_queue().leave(CHECKPOINTER);
        self.0.checkpointer().has_turn.store(false, Ordering::Relaxed);
    }
}

/// Has the thread do something else.
#[cfg(test)]
pub(crate) fn run_of_test(database: &Arc<OpenDatabase>, work: impl FnOnce(&OpenDatabase) + Send + 'static) {
    let Some(claim) = database.checkpointer().thread.claim() else { return };
    let there = database.clone();
    let _ = claim.start("litefoot-checkpoint", database.db().latch(), move |_| work(&there));
}

/// Has the thread take its turn, and do nothing in it.
#[cfg(test)]
pub(crate) fn take_turn_of_test(database: &Arc<OpenDatabase>) {
    run_of_test(database, |there| drop(Turn::begin(there)));
}
