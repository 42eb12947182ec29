//! Writing the log to the database file while commits go on.
//!
//! A thread of its own writes the pages of the commit log ahead, materializes it, and lets SQLite checkpoint through an internal connection. Then
//! writers wait for their turn, while the thread copies the few later commits and empties the log. Where readers are in
//! the way of that, it is tried again when the log has grown by a quarter.

use crate::ffi::codes::{SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_TRUNCATE, SQLITE_OK};
use crate::open::OpenDatabase;
use crate::sync::forks::{InSqlite, outside};
use crate::sync::writer_queue::CHECKPOINTER;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::time::Duration;

/// How long writers are asked for a moment of quiet.
const WRITER_QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long readers that still use the log are waited for meanwhile. One of them may be a writer that has begun to read just
/// before, and waits for the turn to end.
const READERS_TIMEOUT: Duration = Duration::from_millis(4);
/// How often the log is tried to be emptied, and how long writers go on in between.
const ATTEMPTS: u32 = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// Starts the thread, unless one is at work. Where the system has no thread to give, SQLite's own checkpoints have to do.
pub fn checkpoint(database: &Arc<OpenDatabase>) {
    let Some(claim) = database.checkpointer().claim() else { return };
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
            // The bulk of it, while commits go on.
            connection.checkpoint(SQLITE_CHECKPOINT_PASSIVE);
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
        database.set_checkpoint_turn(true);
        database.writer_queue().enter(CHECKPOINTER, WRITER_QUEUE_TIMEOUT);
        Turn(database)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.writer_queue().leave(CHECKPOINTER);
        self.0.set_checkpoint_turn(false);
    }
}
