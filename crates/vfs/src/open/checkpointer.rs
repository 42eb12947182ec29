//! Writing the log to the database file while commits go on.
//!
//! A thread of its own folds the statement log, lets SQLite checkpoint through a connection of our own, and
//! then does the little that came meanwhile while writers wait for their turn, and empties the log. Where readers
//! are in the way of that, it is tried again when the log has grown by a quarter.

use crate::ffi::codes::{SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_TRUNCATE};
use crate::open::OpenDatabase;
use crate::sync::forks::{InSqlite, outside};
use crate::worker;
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Nobody's number: handles count from 1.
const NOBODY: u64 = 0;
/// How long writers are asked for a moment of quiet.
const WRITERS_PATIENCE: Duration = Duration::from_millis(500);
/// How long readers that still use the log are waited for meanwhile.
const READERS_PATIENCE: Duration = Duration::from_millis(20);

/// Whether the thread is at work.
#[derive(Default)]
pub struct Background {
    running: Mutex<bool>,
    idle: Condvar,
}

impl Background {
    /// Waits until the thread has ended; whether there was one.
    pub fn wait(&self) -> bool {
        let mut running = self.running.lock();
        let waits = *running;
        self.idle.wait_while(&mut running, |running| *running);
        waits
    }

    /// Whether there is one.
    pub fn is_running(&self) -> bool {
        *self.running.lock()
    }

    fn end(&self) {
        *self.running.lock() = false;
        self.idle.notify_all();
    }
}

/// Starts the thread unless there is one.
pub fn checkpoint(database: &Arc<OpenDatabase>) {
    {
        let mut running = database.background().running.lock();
        if *running {
            return;
        }
        *running = true;
    }
    let (there, background) = (database.clone(), database.background().clone());
    let work = move || run(&there);
    if !worker::start("litefoot-checkpoint", database.db().latch(), work, move |_| background.end()) {
        // No thread to be had: SQLite's own checkpoints have to do.
        database.background().end();
    }
}

/// A failure is met again by whoever needs the log written next.
fn run(database: &OpenDatabase) {
    let Some(wal) = database.wal() else { return };
    let large = wal.is_large(database.db());
    if wal.log(database.db(), Durability::Durable).is_err() || !large {
        return;
    }
    let in_sqlite = InSqlite::enter();
    if let Ok(connection) = database.internal_connection() {
        // The bulk of it, while commits go on.
        connection.checkpoint(SQLITE_CHECKPOINT_PASSIVE);
        connection.set_busy_timeout(READERS_PATIENCE);
        let _turn = outside(|| Turn::begin(database));
        // Commits that wait for their sync still read the log.
        if outside(|| wal.log(database.db(), Durability::Durable).is_ok()) {
            connection.checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
        }
    }
    drop(in_sqlite);
    wal.checkpoint_done(database.db());
}

/// A turn among the writers, which ends with this.
struct Turn<'a>(&'a OpenDatabase);

impl Turn<'_> {
    fn begin(database: &OpenDatabase) -> Turn<'_> {
        database.writers().enter(NOBODY, WRITERS_PATIENCE);
        Turn(database)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.writers().leave(NOBODY);
    }
}
