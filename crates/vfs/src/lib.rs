//! SQLite on the litefoot engine.
//!
//! This crate is everything between unmodified SQLite and the engine. It links no SQLite: every function
//! is reached through [`abi::api::Api`], so that the loadable extension, the preload entry and the Rust
//! front share one code path.
//!
//! ```text
//! abi       SQLite's structures, numbers and function table; the trampolines
//! vfs       SQLite's file calls
//! capture   which statements made a transaction
//! journal   rollback journals: transactions of pages, committed by one write and one sync
//! wal       the write-ahead log: in memory for SQLite, a redo log on the medium
//! cleaning  writing pages of a large transaction away
//! readahead which pages SQLite will want next
//! options   URI parameters and their PRAGMAs
//! stats     figures of a database, for its process and for others
//! tables    functions that answer with rows
//! ```

pub mod abi;
mod allowance;
mod capture;
mod cleaning;
pub mod connection;
mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod install;
mod journal;
mod memory;
mod notice;
pub mod options;
mod parameters;
mod pragma;
pub mod readahead;
mod spill;
pub mod stats;
pub mod tables;
pub mod vfs;
pub mod wal;
mod worker;

pub use abi::vfs::Registration;
pub use error::{Error, Result, clear_last_error, last_error};
pub use litefoot_engine::reserve::Allocator;
pub use notice::leave_errors_to_the_program;
pub use options::Options;
pub use vfs::{Vfs, VfsSetup};
