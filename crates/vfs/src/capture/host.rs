//! The database of a captured connection, as capture sees it, and the state that its captured connections share. That
//! state is the reference connection and the patience of the trace filter.
//!
//! Capture decides by what SQLite tells, and asks the database for little: its log's number, its schema, a place in the
//! writer queue, a wait. A test gives it a database of its own.

use crate::capture::reference::ReferenceConnection;
use crate::ffi::connection::InternalConnection;
use litefoot_storage::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Queries in a row, with no statement between them that could write, after which a connection counts as a reader.
const FIRST_QUERIES: u32 = 1000;
/// Factor by which that number grows when such a connection wrote after all.
const GROWTH: u32 = 4;

/// One connection's view of its database.
pub(crate) trait Host {
    /// True if this process has opened the database: a forked child must not touch that of its parent.
    fn is_of_this_process(&self) -> bool;

    /// The number of the log in memory: odd while there is one, and another for each log.
    fn log_generation(&self) -> u64;

    /// The number of the schema in the log, while there is a log.
    fn schema(&self) -> Option<u32>;

    /// Waits until a commit is durable. A failure latches the database.
    fn wait_durable(&self, commit: u64);

    /// True while the connection holds a lock that lets it read.
    fn may_read(&self) -> bool;

    /// True while some connection has the database to itself, or is about to.
    fn is_reserved(&self) -> bool;

    /// Waits for the connection's turn in the writer queue.
    fn join_writer_queue(&self);

    /// Waits for a turn that ends by itself after `most`, unless the connection takes the write lock.
    fn join_writer_queue_for(&self, most: Duration);

    /// Ends the connection's turn, unless the connection holds the write lock.
    fn leave_writer_queue_unless_writing(&self);

    /// State that all connections of the database share.
    fn shared(&self) -> &SharedCapture;

    /// Opens an internal connection to the database; `None` where that is not possible now.
    fn open_internal(&self) -> Option<InternalConnection>;
}

/// Shared state of all captures of a database.
pub(crate) struct SharedCapture {
    /// The reference connection, and the schema that it knows.
    reference: Mutex<Option<(u32, ReferenceConnection)>>,
    /// Queries in a row that make a connection a reader.
    reader_queries: AtomicU32,
}

impl Default for SharedCapture {
    fn default() -> SharedCapture {
        SharedCapture { reference: Mutex::default(), reader_queries: AtomicU32::new(FIRST_QUERIES) }
    }
}

impl SharedCapture {
    /// Queries in a row that make a connection a reader.
    #[inline]
    pub fn reader_queries(&self) -> u32 {
        self.reader_queries.load(Ordering::Relaxed)
    }

    /// A reader wrote after all, and its transaction had to be written as pages. Many queries make up for that cost.
    pub fn raise_reader_queries(&self) {
        self.reader_queries.store(self.reader_queries().saturating_mul(GROWTH), Ordering::Relaxed);
    }

    /// Uses the reference connection, opened anew after a change of the schema; `None` where there can be none.
    pub fn with_reference<T>(
        &self,
        host: &impl Host,
        action: impl FnOnce(&mut ReferenceConnection) -> T,
    ) -> Option<T> {
        let schema = host.schema()?;
        if host.is_reserved() {
            return None;
        }
        let mut reference = self.reference.lock();
        if reference.as_ref().is_none_or(|(known, _)| *known != schema) {
            *reference = None;
            *reference = Some((schema, ReferenceConnection::new(host.open_internal()?)?));
        }
        reference.as_mut().map(|(_, reference)| action(reference))
    }

    /// True if one of these tables, named by root pages, may have a committed row whose number is close to the largest.
    pub fn has_large_rowid(&self, host: &impl Host, roots: &[i64]) -> bool {
        self.with_reference(host, |reference| roots.iter().any(|root| reference.has_large_rowid(*root)))
            .unwrap_or(true)
    }

    /// Closes the reference connection.
    pub fn close_reference(&self) {
        // SQLite's close comes back here, so the lock is released first.
        let reference = self.reference.lock().take();
        drop(reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_that_wrote_makes_the_next_one_wait_longer() {
        let shared = SharedCapture::default();
        for expected in [1000, 4000, 16_000, 64_000] {
            assert_eq!(shared.reader_queries(), expected);
            shared.raise_reader_queries();
        }
        (0..20).for_each(|_| shared.raise_reader_queries());
        assert_eq!(shared.reader_queries(), u32::MAX, "never less");
    }
}
