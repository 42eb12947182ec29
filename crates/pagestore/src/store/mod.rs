//! The engine's own database: a store of pages with an allocation table, a buffer pool over it, and a redo log.
//!
//! # Why
//! Indexes, graphs and queues on pages need pages that can be allocated, changed and released. The pages stay in
//! bounded memory, and are found again after a power cut (SMILE, chapter 3; durability is its future work).
//!
//! | file | holds |
//! |---|---|
//! | `allocation` | which pages are in use: pure, no I/O |
//! | `metadata` | the bytes of the metadata file |
//! | `files` | creating, opening and recovering the three files |
//! | `unit`, `transaction` | changes that belong together; a transaction can be rolled back |
//! | `gate` | units of work, and the moments between them |
//! | `checkpoint` | bringing what has changed to the medium, and the cleaner |
//! | `check` | what is wrong, by name |
//! | `inner` | what all threads share |
//! | `database` | pin, unpin, allocate, release |
//!
//! # Use
//! ```
//! use litefoot_storage::file::Medium;
//! use litefoot_storage::os::OsMedium;
//! use litefoot_pagestore::store::{Database, Options};
//! use litefoot_storage::io::{IoConfig, IoQueue};
//! use std::sync::Arc;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = &directory.path().join("app.store");
//! let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
//! Database::create(&medium, path, 4096)?;
//! let io = Arc::new(IoQueue::start(&IoConfig::default())?);
//! let database = Database::open(&medium, path, io, &Options::default())?;
//! let unit = database.unit()?; // changes that no checkpoint takes apart
//! let (page, mut bytes) = unit.alloc()?; // zeros, pinned for writing
//! bytes[..5].copy_from_slice(b"hello");
//! drop(bytes);
//! drop(unit);
//! database.checkpoint()?; // durable from here on
//! assert_eq!(&database.pin(page)?[..5], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! `PATH` is the data file: pages one behind the other. Page 0, and every page whose number is a multiple of `8 · page
//! size`, is *protected*. It has one bit for each page of its group, itself among them, lowest bit first; 1 means in
//! use. `PATH-meta` describes the data file (`metadata`). `PATH-redo` is the redo log: a
//! [`RedoLog`](litefoot_storage::wal_file::RedoLog), in which page *n* has the number *n* + 1.
//!
//! ```text
//! page 0           1 … 8·P-1      8·P              8·P+1 … 16·P-1      (P = bytes of a page)
//! | bits of group 0 | pages … | bits of group 1 | pages …
//! ```
//!
//! # What it promises
//! 1. After a power cut the database is as one checkpoint left it, all pages and the allocation table together. It is
//!    the last one that returned, or a later one. Later changes are gone.
//! 2. A checkpoint is made by [`Database::checkpoint`] and [`Database::close`], by the cleaner whenever enough of
//!    the pool is dirty ([`Options::max_dirty_ratio`]), and by choice after each [`Options::checkpoint_interval`]. A
//!    [`Unit`] is never torn by one. A [`Transaction`] that is not committed is in none.
//! 3. A pinned page is not evicted, and its bytes do not change. A page that is pinned for writing has no other pin. A
//!    pin that hits takes no lock.
//! 4. New pages are zeros. A page has one owner: releasing a page that is pinned, free or protected is an error.
//! 5. An operation that fails has changed nothing: no page is leaked, none is handed out twice.
//!
//! # Order of a checkpoint
//! ```text
//! gate     closed until no unit is open; then the dirty pages are kept from writers, the gate opens
//! redo     every dirty page and every changed page of the table, as one transaction          synced
//! data     the same pages, in order, adjacent ones together, at most 256 KiB a write          synced
//! meta     where a group of pages has come: how many there are                                synced
//! redo     reset: the next checkpoint begins a new generation
//! ```
//!
//! # Invariants
//! 1. The metadata file gets its name last: where it is, creation was complete.
//! 2. No page of the data file is written before it is in the redo log, durably.
//! 3. The pages of the file are those up to the last one that was ever used, by the table. Bytes behind them are cut
//!    off when the file is opened, so that new pages are zeros.
//! 4. The metadata file's count of groups is raised only after the pages of the new group are durable. So a file with
//!    fewer groups has been cut short.

mod allocation;
mod check;
mod checkpoint;
mod database;
mod error;
mod files;
mod gate;
mod inner;
mod metadata;
mod room;
#[cfg(test)]
mod tests;
mod transaction;
mod unit;

pub use check::Inconsistency;
pub use database::{Database, Options, Pinned, PinnedMut, Statistics};
pub use error::{Error, Result};
pub use inner::PageCleaner;
pub use transaction::{Page, Transaction};
pub use unit::Unit;

/// Number of a page in the data file.
pub type PageId = u64;

/// Most pages of a data file: the redo log numbers them with 32 bits, from 1.
pub const MOST_PAGES: u64 = u32::MAX as u64 - 1;

/// Bytes that a page can have: the redo log has SQLite's format, whose largest page has 64 KiB.
pub const PAGE_SIZES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
