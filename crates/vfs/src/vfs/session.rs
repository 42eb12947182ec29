//! What the handles of one connection share: its main database file and its log.
//!
//! SQLite uses a connection by one thread at a time, so nothing here is contended.

use super::database::Database;
use crate::journal::Journal;
use crate::wal::Transaction;
use litefoot_engine::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One connection to a database.
pub struct Session {
    /// What all connections to it share.
    pub database: Arc<Database>,
    /// The transaction that was completed in the log and that SQLite has not published yet.
    pub completed: Mutex<Option<Transaction>>,
    /// The rollback journal that is open, where it is ours.
    pub journal: Mutex<Option<Arc<Mutex<Journal>>>>,
    /// Whether a transaction of pages has begun.
    pub writing: AtomicBool,
}

impl Session {
    /// A new connection.
    pub fn new(database: Arc<Database>) -> Session {
        Session {
            database,
            completed: Mutex::new(None),
            journal: Mutex::new(None),
            writing: AtomicBool::new(false),
        }
    }

    /// Notes that a transaction of pages begins, where they are held back.
    pub fn begin_writing(&self) {
        if self.database.holds_back() {
            self.writing.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the journal that is open is a real file, which the connection keeps in exclusive mode.
    pub fn has_real_journal(&self) -> bool {
        self.journal.lock().as_ref().is_some_and(|journal| journal.lock().is_real())
    }

    /// Whether a transaction of pages has begun.
    pub fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }
}
