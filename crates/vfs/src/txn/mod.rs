//! Dirty pages: the pages of a transaction until it commits, in memory or spilled.
//!
//! | file | holds |
//! |---|---|
//! | `dirty_pages` | the pages of a rollback-journal transaction |
//! | `wal_frames`, `wal_bytes` | the frames of SQLite's write-ahead log, and where their pages lie |
//! | `wal_spill`, `wal_spill_state` | spilling of a transaction in WAL mode |
//! | `spill_cycle` | spilling in batches, for both families of transactions |
//! | `spill_policy` | when a transaction spills, and on which thread |
//! | `spill_map` | where each spilled page lies |
//! | `spiller` | writes a batch, sorted and merged |
//! | `new_pages` | pages that are written early into the database file |
//! | `page_memory` | the count of pages in memory, and their reservation |
//!
//! A transaction reaches the database that it changes through a [`TxnTarget`], and its pages leave memory through a
//! [`SpillTarget`]. So everything here is tested without a database.

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

/// Database that a transaction spills to.
pub trait SpillTarget: Send + Sync + 'static {
    /// The database.
    fn db(&self) -> &Db;

    /// Writes pages behind the end of the database, while no checkpoint cuts it.
    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()>;
}

/// Database that a rollback-journal transaction changes.
pub trait TxnTarget: SpillTarget {
    /// Reads exactly `buf` of the database as it was committed last.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Writes to the database file what readers will see.
    fn write(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Cuts the database file, or extends it, and readers see it.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Prepares a write behind the end of the database, which is at `end`. If the file still has pages there, the
    /// commit that has cut them off must be durable first.
    fn before_behind_end(&self, end: u64) -> Result<()>;

    /// True for a page that has a frame in the rollback-mode redo log.
    fn log_contains(&self, number: u32) -> bool;

    /// Reserves `count` slots of that log for pages of a large transaction, from slot `first` on.
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
