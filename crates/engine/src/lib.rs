//! The litefoot page engine: storage for small devices, usable alone and under SQLite.
//!
//! The folders are the layers; arrows point down only:
//!
//! ```text
//! ops       operators on pages
//! pagefile  page files that are written once, and the cache over them
//! prefetch  which pages will be wanted next
//! log       redo log, statement log
//! task      fibers on worker threads, I/O queue
//! device    files on real, simulated, counted and modelled media: every byte passes here
//! ```
//!
//! The engine knows nothing of SQLite's code; the file formats it shares with SQLite (the WAL) are
//! described where they are read and written.

pub mod device;
pub mod log;
pub mod ops;
pub mod pagefile;
pub mod prefetch;
pub mod sync;
pub mod task;
