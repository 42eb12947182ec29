//! The litefoot page engine: storage for small devices, usable alone and under SQLite.
//!
//! The folders are the layers; arrows point down only:
//!
//! ```text
//! ops       operators on pages
//! store     the engine's own database: pages that are allocated, changed and released, with a redo log
//! pagefile  page files that are written once
//! pool      the buffer pool: pages in memory, held, changed, read ahead
//! prefetch  which pages will be wanted next
//! log       redo log, statement log
//! tier      a file whose hot chunks live on a fast non-volatile device
//! task      fibers on worker threads, I/O queue
//! device    files on real, simulated, counted and modelled media: every byte passes here
//! ```
//!
//! The engine knows nothing of SQLite's code; the file formats it shares with SQLite (the WAL) are
//! described where they are read and written.

pub mod device;
pub mod fork;
pub mod log;
pub mod ops;
pub mod pagefile;
pub mod pool;
pub mod prefetch;
pub mod reserve;
pub mod store;
pub mod sync;
pub mod task;
pub mod thread;
pub mod tier;

pub use store::Database;
