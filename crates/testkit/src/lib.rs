//! The test kit of the integration tests; no product depends on it.
//!
//! | module | holds |
//! |---|---|
//! | [`at_end`] | what is done also where a test fails |
//! | [`process`] | programs that a test starts: output, and an end to those that hang |
//! | [`files`] | the files of a directory |
//! | [`memory`] | bytes that a test has allocated |
//! | [`sqlite`] | questions to a connection, and stock SQLite |

#![allow(clippy::unwrap_used)]

pub mod at_end;
pub mod files;
pub mod memory;
pub mod process;
pub mod sqlite;
