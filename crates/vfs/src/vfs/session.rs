//! What the handles of one connection share: its main database file and its log.
//!
//! SQLite uses a connection by one thread at a time, so nothing here is contended.

use super::database::Database;
use crate::wal::Transaction;
use litefoot_engine::sync::Mutex;
use std::sync::Arc;

/// One connection to a database.
pub struct Session {
    /// What all connections to it share.
    pub database: Arc<Database>,
    /// The transaction that was completed in the log and that SQLite has not published yet.
    pub completed: Mutex<Option<Transaction>>,
}

impl Session {
    /// A new connection.
    pub fn new(database: Arc<Database>) -> Session {
        Session { database, completed: Mutex::new(None) }
    }
}
