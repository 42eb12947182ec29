//! One open database: what ties its rooms together, from the first open to the last close.
//!
//! | file | holds |
//! |---|---|
//! | `database` | [`OpenDatabase`]: the rooms, tied together |
//! | `registry` | the open databases of one VFS, by file identity |
//! | `ownership` | taking the file for this process with the first lock |
//! | `turns` | giving the database to a related process, and having it again |
//! | `recovery`, `replay` | what a crash has left, and replaying statements |
//! | `handles` | the connections' handles; the last close |
//! | `internal_connection` | connections of litefoot's own to the database |
//! | `capture_host` | the database, for the capture of a connection |
//! | `checkpointer` | writing the log to the database file while commits go on |
//! | `log_inspect`, `export_sql` | looking at a log that waits, and its transactions as SQL |

pub(crate) mod capture_host;
pub(crate) mod checkpointer;
pub mod database;
mod export_sql;
mod handles;
mod internal_connection;
pub mod log_inspect;
#[cfg(test)]
mod of_test;
mod ownership;
pub(crate) mod recovery;
pub mod registry;
pub mod replay;
pub(crate) mod turns;

pub use database::OpenDatabase;
