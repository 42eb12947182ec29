//! The pages of a transaction until it commits, and those that leave memory before.
//!
//! | file | holds |
//! |---|---|
//! | `dirty_pages` | the pages of a rollback-journal transaction |
//! | `wal_frames`, `wal_bytes` | the pages of SQLite's write-ahead log, and what their frames mean |
//! | `spill_policy` | when pages of a large transaction leave memory, and on which thread |
//! | `spill_map` | where the pages lie that have left memory |
//! | `spiller` | writing them, in sorted batches |
//! | `wal_spill`, `wal_spill_state`, `new_pages` | spilling of a transaction in WAL mode; its new pages, written early into the file |
//!
//! A transaction reaches the database that it changes through a [`TxnTarget`], and its pages leave memory through a
//! [`SpillTarget`], so that everything here is tested without one.

pub(crate) mod dirty_pages;
pub(crate) mod new_pages;
#[cfg(test)]
pub(crate) mod of_test;
pub(crate) mod page_memory;
pub(crate) mod spill_cycle;
pub(crate) mod spill_map;
pub(crate) mod spill_policy;
pub(crate) mod spiller;
pub(crate) mod wal_bytes;
pub(crate) mod wal_frames;
pub(crate) mod wal_spill;
pub(crate) mod wal_spill_state;

use crate::db::Db;
use crate::error::Result;
use litefoot_storage::wal_file::ReservedSlots;
use std::io::IoSlice;

/// Where pages go that leave memory before their commit.
pub trait SpillTarget: Send + Sync + 'static {
    /// The database.
    fn db(&self) -> &Db;

    /// Writes pages behind the end of the database, while no checkpoint cuts it.
    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()>;
}

/// What a rollback-journal transaction asks of the database that it changes.
pub trait TxnTarget: SpillTarget {
    /// Reads exactly `buf` of the database as it was committed last.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Writes to the database file what readers will see.
    fn write(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Cuts the database file, or extends it, and readers see it.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Before a transaction writes behind the end of the database, which is at `end`: where the file still has pages
    /// there, the commit that has cut them off must be durable.
    fn before_behind_end(&self, end: u64) -> Result<()>;

    /// Whether a page has a frame in the log of rollback-journal transactions.
    fn log_contains(&self, number: u32) -> bool;

    /// Room in that log for `count` pages of a transaction that does not fit into memory, from slot `first`.
    fn reserve_slots(&self, page_bytes: usize, first: usize, count: usize) -> Result<ReservedSlots>;
}

impl SpillTarget for Db {
    fn db(&self) -> &Db {
        self
    }

    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        self.latch().check(self.path())?;
        self.file_end().write_behind(bufs, offset, start_writeback)
    }
}
