//! The logs: what makes a commit durable before the database file changes.
//!
//! `redo` holds pages, in the format of SQLite's write-ahead log, so that any SQLite recovers from it;
//! `statement` holds what transactions said, until their pages are folded into the redo log.

pub mod redo;
mod space;
pub mod statement;

pub use redo::RedoLog;
pub use statement::StatementLog;
