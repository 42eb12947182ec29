//! The logs: what makes a commit durable before the database file changes.
//!
//! `redo` holds pages, in the format of SQLite's write-ahead log, so that any SQLite recovers from it.

pub mod redo;

pub use redo::RedoLog;
