//! What SQLite's file handles do.

pub(crate) mod any_handle;
pub(crate) mod connection_state;
mod forked_child;
pub(crate) mod handle;
pub(crate) mod journal;
pub(crate) mod journal_content;
pub(crate) mod main_db;
mod passthrough;
pub(crate) mod pragma;
mod rejected;
pub(crate) mod rollback_txn;
mod temporary;
#[cfg(test)]
mod tests;
pub mod vfs;
pub(crate) mod wal;
