//! The storage of litefoot: files, the I/O queue, the buffer pool and the logs. It knows nothing of SQLite's code; the
//! file formats it shares with SQLite (the WAL) are described where they are read and written.
//!
//! The folders are the layers; arrows point down only:
//!
//! ```text
//! worker       work on a background thread, and the threads that wait for it
//! buffer_pool  pages of a file in bounded memory, pinned, changed, read ahead
//! prefetch     which pages will be wanted next
//! wal_file     the write-ahead log on disk, in SQLite's format
//! commit_log   the commit log on disk: what transactions said
//! log_file     what both logs share
//! io           the I/O queue; waiting, for threads and for tasks that give their thread away
//! file         files on the operating system's media: every byte passes here
//! sync         locks; fork and thread: processes that fork, threads of ours; reserve: memory for the worst case
//! ```

pub mod buffer_pool;
pub mod commit_log;
pub mod file;
pub mod fork;
pub mod io;
pub mod log_file;
pub mod prefetch;
pub mod reserve;
pub mod sync;
pub mod thread;
pub mod wal_file;
pub mod worker;

// The unit tests reach private items and need simulated media. Those of the crate `litefoot-sim` implement the traits of
// the storage crate that it was built with, which is another one than the crate under test: so its sources are compiled
// here once more, and the name under which they know this crate means the crate itself.
#[cfg(test)]
extern crate self as litefoot_storage;
/// The simulated media, for the unit tests.
#[cfg(test)]
#[path = "../../sim/src/lib.rs"]
pub mod sim;

/// The examples of `README.md` run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
