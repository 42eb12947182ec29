//! Commits: how a transaction becomes durable, in both journal families.
//!
//! # Why
//! With a rollback journal SQLite writes the old pages to a journal file, syncs that file twice, writes the new pages, syncs
//! them, and removes the journal: four to six syncs for one row. Here the journal is memory. The new pages are held back
//! until the transaction commits, and then go to the redo log: one sequential write and one sync. After that they are
//! written in place, in the background. In WAL mode SQLite's log is memory, and a commit goes to the same kind of log, or
//! to the commit log as its statements.
//!
//! | file | holds |
//! |---|---|
//! | `rollback_log` | rollback journals: commit, recovery, checkpoint and restart of the redo log |
//! | `log_identity` | whether a log belongs to the database next to it |
//! | `log_place` | the name of the log, which may be lost, or be another file's |
//! | `wal` | WAL mode: the log that SQLite sees, and what of it is logged |
//! | `commit_queue`, `group_commit`, `commit_delay` | statements that wait, and the leader that writes them |
//! | `log_form_backoff` | whether a transaction is logged as statements or as pages |
//! | `log_writer`, `page_placement` | the two logs on the medium, in which order they are written, and where pages go |
//!
//! The rest of this page is of rollback journals.
//!
//! # How SQLite's calls are understood
//! - A transaction begins with the lock RESERVED, or when the journal is opened with CREATE. A journal
//!   opened without it is real, and hot.
//! - It commits with `SQLITE_FCNTL_COMMIT_PHASETWO`, which SQLite sends in every journal mode, only on
//!   commit, before it drops the lock; an error there rolls back. Pages that are held when the lock is
//!   dropped without it are thrown away.
//! - SQLite's sync of the database file says that the commit must be durable (`synchronous` is not OFF).
//! - A sync that names a super-journal announces a transaction over several databases, which takes it back
//!   to SQLite's own protocol: the journal becomes a real file, header last, and what was held is written
//!   in place.
//! - VACUUM to another page size is committed as the whole database, in pages of the new size.
//!
//! # Invariants
//! 1. While the redo log holds frames, no page is written in place that has no frame in it.
//! 2. The redo log is reset, durably, before anything is written by SQLite's own protocol.
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
