//! One open database: what ties its rooms together, from the first open to the last close.
//!
//! | file | holds |
//! |---|---|
//! | `database` | [`OpenDatabase`]: the rooms, tied together |
//! | `registry` | the open databases of one VFS, by file identity |
//! | `ownership` | taking the file for this process with the first lock |
//! | `own_name` | giving up the names of its logs, where another file has taken that of the database |
//! | `group` | the name by which other processes find its owner |
//! | `departures` | members that have died, and what they still have |
//! | `succession` | owning it by the open file of an owner that has died |
//! | `joiners` | processes that come to a database which this process has alone, and want to be of its group |
//! | `handover` | giving the database to a related process, and having it again |
//! | `sharing` | using the database alone, or by SQLite's own protocol beside other processes |
//! | `recovery` | what opening does with what it finds: the case table, and the pure decision |
//! | `take_over`, `open_tier` | gathering the facts, and doing what was decided |
//! | `delta_recovery` | applying the deltas of a commit log, without SQLite |
//! | `replay` | running the statements of a commit log again |
//! | `unreplayed` | why a commit log was kept, in words |
//! | `handles` | the connections' handles; the last close |
//! | `internal_connection` | connections of litefoot's own to the database |
//! | `capture_host` | the database, for the capture of a connection |
//! | `checkpointer` | writing the log to the database file while commits go on |
//! | `idle` | a checkpoint of a database at rest |
//! | `committed_pages` | the pages of a moment that was committed |
//! | `looks` | what has changed, for a process that ships it, without a visit |
//! | `at_exit` | what waits, and logs that are kept, when the process exits |
//! | `log_inspect`, `export_sql` | looking at a log that waits, and its transactions as SQL |

pub mod at_exit;
pub(crate) mod capture_host;
pub(crate) mod checkpointer;
pub(crate) mod committed_pages;
pub mod database;
pub(crate) mod delta_recovery;
pub(crate) mod departures;
mod export_sql;
pub(crate) mod group;
mod handles;
pub(crate) mod handover;
pub(crate) mod idle;
mod internal_connection;
pub(crate) mod joiners;
pub mod log_inspect;
pub mod looks;
#[cfg(test)]
mod of_test;
mod open_tier;
mod own_name;
mod ownership;
pub mod recovery;
pub mod registry;
pub mod replay;
pub(crate) mod sharing;
pub(crate) mod succession;
pub(crate) mod take_over;
mod unreplayed;

pub use database::OpenDatabase;
