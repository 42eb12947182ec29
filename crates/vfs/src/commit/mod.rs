//! Rollback-journal databases: a transaction is one atomic batch of pages.
//!
//! # Why
//! With a rollback journal SQLite writes the old pages to a journal file, syncs it twice, writes the new
//! pages, syncs them, and removes the journal: four to six syncs for one row. Here the journal is memory,
//! the new pages are held back until the transaction commits, and then they go to the redo log: one
//! sequential write and one sync. After that they are written in place, without a sync.
//!
//! | file | holds |
//! |---|---|
//! | `held` | the pages of a transaction that nobody else may see yet |
//! | `file` | the journal that SQLite sees |
//! | `log` | the redo log of the database: commit, recovery, beginning anew |
//! | `belonging` | whether a log is this database's |
//! | `place` | what becomes of it where its name, or the database's, is another's |
//! | `batch` | the state of one connection's transaction |
//!
//! # How SQLite's calls are understood
//! - A transaction begins with the lock RESERVED, or when the journal is opened with CREATE. A journal
//!   opened without it is real, and hot.
//! - It commits with `SQLITE_FCNTL_COMMIT_PHASETWO`, which SQLite sends in every journal mode, only on
//!   commit, before it drops the lock; an error there rolls back. Whatever is held when the lock is
//!   dropped without it is thrown away.
//! - SQLite's sync of the database file says that the commit must be durable (`synchronous` is not OFF).
//! - A sync that names a super-journal announces a transaction over several databases, which takes it back
//!   to SQLite's own protocol: the journal becomes a real file, header last, and what was held is written
//!   in place.
//! - VACUUM to another page size is committed as the whole database, in pages of the new size.
//!
//! # Invariants
//! 1. While the redo log holds frames, no page is written in place that has no frame in it.
//! 2. The redo log is voided, durably, before anything is written by SQLite's own protocol.
//! 3. A real journal is durably gone before the redo log is used again.

pub(crate) mod commit_delay;
pub(crate) mod commit_queue;
pub(crate) mod group_commit;
pub(crate) mod log_form_backoff;
pub(crate) mod log_identity;
pub(crate) mod log_place;
pub(crate) mod log_writer;
#[cfg(test)]
mod of_test;
pub(crate) mod page_placement;
pub(crate) mod rollback_log;
pub(crate) mod wal;
