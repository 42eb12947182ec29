//! Commits of both journal families: how transactions reach a log, and how a log ends.
//!
//! # Rollback journals
//! With a rollback journal SQLite writes the old pages to a journal file, syncs it twice, writes the new pages, syncs
//! them, and removes the journal. That takes four to six syncs for one row. Here the journal is memory, and a
//! transaction keeps its dirty pages until it commits. Then they go to the redo log, with one sequential write and one
//! sync. A checkpoint copies them later.
//!
//! | file | one thought |
//! |---|---|
//! | `rollback_log` | the redo log of a database: reads, commits, resets |
//! | `redo_log_state` | the log under its lock, and the newest page 1 |
//! | `rollback_append` | what a commit appends, and when it writes in place instead |
//! | `shared_syncs` | one sync for several commits |
//! | `kept_journal` | commits of short openings, by a rollback journal that stays |
//! | `rollback_deltas` | transactions as deltas of their pages, by choice |
//! | `rollback_checkpoint` | copying the log to the database file |
//! | `page_one` | the counters of page 1 in the log |
//! | `log_identity` | if a log belongs to a database |
//! | `log_place` | if a crash would find the log |
//!
//! # WAL mode
//! SQLite's `-wal` is memory. A commit reaches the commit log as deltas or statements, or the redo log as pages.
//!
//! | file | one thought |
//! |---|---|
//! | `wal` | SQLite's log: what SQLite writes, reads and syncs |
//! | `checkpoint_trigger` | when SQLite's log is written to the database file |
//! | `flusher` | the thread that makes unsynced commits durable soon |
//! | `wal_spilling` | a transaction that does not fit into memory |
//! | `group_commit` | leader, followers, committed and durable LSN |
//! | `commit_queue` | what waits, and what the logs have room for |
//! | `commit_delay` | how long the leader waits for followers |
//! | `sync_time` | whether syncs of a device take long, where no commit has told yet |
//! | `syncs_in_flight` | which groups of commits are on their way, and how many syncs at a time pay |
//! | `log_form_backoff` | when pages are logged by choice, and not statements |
//! | `delta_start` | when commits begin to be logged as deltas |
//! | `delta_encoding` | a transaction as deltas of its pages |
//! | `page_vouching` | the pages that statements have changed, and whether a replay has given the same |
//! | `delta_generation` | deltas in the commit log, from a complete data file to their materialization |
//! | `pages_ahead` | pages of a materialization that are in the redo log before it |
//! | `log_writer` | both logs: records, and materializing them into pages |
//! | `page_placement` | where the pages of a commit go |
//!
//! # How SQLite's calls are understood
//! - A transaction begins with the lock RESERVED, or when the journal is opened with CREATE. A journal that is opened without
//!   CREATE is real, and hot.
//! - The commit is `SQLITE_FCNTL_COMMIT_PHASETWO`. SQLite sends it in every journal mode, only on commit, before it drops the
//!   lock; an error there rolls back. Dirty pages are discarded when the lock is dropped without it.
//! - SQLite's sync of the database file says that the commit must be durable (`synchronous` is not OFF).
//! - A sync that names a super-journal announces a transaction over several databases. Then SQLite's own protocol is used: the
//!   journal becomes a real file, header last, and the dirty pages are written in place.
//! - VACUUM to another page size is committed as the whole database, in pages of the new size.
//!
//! # Invariants
//! 1. The redo log is restarted, durably, before anything is written by SQLite's own protocol.
//! 2. A real journal is durably gone before the redo log is used again.

pub(crate) mod checkpoint_trigger;
pub(crate) mod commit_delay;
pub(crate) mod commit_queue;
pub(crate) mod delta_encoding;
pub(crate) mod delta_generation;
pub(crate) mod delta_start;
pub(crate) mod flusher;
pub(crate) mod group_commit;
pub(crate) mod kept_journal;
pub(crate) mod log_form_backoff;
pub(crate) mod log_identity;
pub(crate) mod log_place;
pub(crate) mod log_writer;
#[cfg(test)]
pub(crate) mod of_test;
pub(crate) mod page_one;
pub(crate) mod page_placement;
pub(crate) mod page_vouching;
pub(crate) mod pages_ahead;
pub(crate) mod redo_log_state;
pub(crate) mod rollback_append;
pub(crate) mod rollback_checkpoint;
pub(crate) mod rollback_deltas;
pub(crate) mod rollback_log;
pub(crate) mod shared_syncs;
pub(crate) mod sync_time;
pub(crate) mod syncs_in_flight;
pub(crate) mod wal;
pub(crate) mod wal_spilling;
