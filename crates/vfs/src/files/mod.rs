//! The handles behind SQLite's files.
//!
//! | file | holds |
//! |---|---|
//! | `vfs` | one registered VFS: the handle that an open gets |
//! | `requested_file` | the file that an open asks for, by its flags |
//! | `open_main`, `companion_files` | opening a main database, and the files beside it |
//! | `handle`, `any_handle` | what SQLite can do with an open file |
//! | `main_db` | a main database: reading and writing |
//! | `main_locks` | its locks |
//! | `rollback_txn` | its transaction in a rollback-journal mode |
//! | `rollback_turns` | the order of those that wait for its lock, in a group |
//! | `beside_others` | the same while other processes may have the database open |
//! | `wal_index_locks`, `wal_commit` | its wal-index, and its commit in WAL mode |
//! | `leaving_wal` | the end of WAL mode: pages that were read do not count any more |
//! | `group_turns` | a member's turn to write, before it reads |
//! | `durable_reads` | what a reader in WAL mode waits for |
//! | `shared_reads` | the same for commits by rollback journals |
//! | `standing_aside` | a writer that finds commits whose sync takes long |
//! | `early_release` | a commit that gives its lock up before it is durable |
//! | `snapshot` | the pages that a transaction sees, for several threads |
//! | `auto_checkpoint` | which of SQLite's checkpoints are left to ours |
//! | `connection_state` | what the handles of one connection share |
//! | `journal`, `journal_content` | the rollback journal that SQLite sees |
//! | `wal` | the write-ahead log that SQLite sees: memory, or the file |
//! | `passthrough`, `temporary`, `rejected` | files passed on, temporary files, refused opens |
//! | `group` | a database whose owner is another process, and the members that this process serves |
//! | `pragma` | `PRAGMA litefoot_*` |
//! | `forked_child` | an inherited handle in a forked child |

pub(crate) mod any_handle;
mod auto_checkpoint;
mod beside_others;
mod companion_files;
pub(crate) mod connection_state;
mod durable_reads;
mod early_release;
mod forked_child;
pub(crate) mod group;
mod group_turns;
pub(crate) mod handle;
pub(crate) mod journal;
pub(crate) mod journal_content;
mod leaving_wal;
pub(crate) mod main_db;
mod main_locks;
mod open_main;
mod passthrough;
pub(crate) mod pragma;
mod rejected;
mod requested_file;
mod rollback_turns;
pub(crate) mod rollback_txn;
mod shared_reads;
pub(crate) mod snapshot;
mod standing_aside;
mod temporary;
#[cfg(test)]
mod tests;
pub mod vfs;
pub(crate) mod wal;
mod wal_commit;
mod wal_index_locks;
