//! SQLite on litefoot storage.
//!
//! This crate is everything between unmodified SQLite and litefoot's storage. It links no SQLite: every function is
//! reached through [`ffi::api::Api`]. So the loadable extension, the preload entry and the Rust front share one code
//! path.
//!
//! The rooms, from the top floor down; a room imports those below it:
//!
//! ```text
//! trial     a program on copies of its databases, on either side
//! shim      the callbacks that SQLite calls
//! files     the handles behind SQLite's files
//! open      one open database: recovery, checkpoints, ownership, and the object that ties the rooms together
//! commit    rollback transactions, the write-ahead log, group commit
//! cache     pages in memory, for all connections and for one
//! txn       dirty pages of a transaction, and their spilling
//! db        the data file and its companion files
//! sync      locks between processes, connections, readers and writers
//! memory    budget, reservations, memory and spill files
//! scan      one SELECT over a table, by all cores
//! capture   the statements of a transaction, and their replay
//! readahead the pages that SQLite will want next
//! stats     figures of a database, for its process and for others
//! ffi       SQLite's structures, numbers and function table
//! ```

pub mod cache;
mod capture;
mod commit;
pub mod db;
mod error;
pub mod ffi;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
mod memory;
mod notice;
pub mod open;
pub mod options;
pub mod readahead;
mod scan;
pub mod shim;
pub mod stats;
mod sync;
pub mod trial;
mod txn;
mod uri_parameters;

pub use error::{Error, Result, clear_last_error, last_error};
pub use files::vfs::{Vfs, VfsSetup};
pub use litefoot_storage::reserve::Allocator;
pub use notice::leave_errors_to_the_program;
pub use options::Options;
pub use shim::vfs_methods::Registration;
pub use uri_parameters::VFS_NAME;
