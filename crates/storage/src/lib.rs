//! The storage of litefoot: files, the I/O queue, the buffer pool and the logs.
//!
//! The crate calls nothing of SQLite. A file format that it shares with SQLite (the write-ahead log) is described where it
//! is read and written.
//!
//! The rooms from the top floor down; arrows point down only:
//!
//! ```text
//! mapped_pool  pages by address, and writes beneath them
//! buffer_pool  pages of a file in bounded memory, pinned, changed, read ahead
//! frames       the memory of a pool: frames, partitions, the clock
//! page_state   the word of each page, and the table of all words
//! budget       one memory for all pools of a process
//! wal_file     the write-ahead log on disk, in SQLite's format
//! commit_log   the commit log on disk: the statements of transactions
//! rollback_journal  a journal that stays, in SQLite's format
//! page_delta   how the pages of a transaction differ from their versions before
//! worker       work on a background thread, and the threads that wait for it
//! log_file     the common part of both logs
//! io           the I/O queue; waiting, for threads and for fibers
//! prefetch     the pages that will be wanted next
//! os           the operating system's files
//! file         the traits of files and media: every byte passes here
//! sync         locks
//! ground       fork and thread: processes that fork, threads of litefoot; reserve: memory for the worst case
//! ```

pub mod budget;
pub mod buffer_pool;
pub mod commit_log;
pub mod file;
pub mod fork;
mod frames;
pub mod io;
pub mod log_file;
pub mod mapped_pool;
pub mod numa;
pub mod os;
pub mod page_delta;
mod page_state;
pub mod prefetch;
pub mod reserve;
pub mod rollback_journal;
pub mod sync;
pub mod thread;
pub mod wal_file;
pub mod worker;

// The unit tests reach private items and need simulated media. The crate `litefoot-sim` implements the traits of the
// storage crate that it was built with, which is not the crate under test. So its sources are compiled here once more.
// The name under which they know this crate means the crate itself.
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
