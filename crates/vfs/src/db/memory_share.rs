//! The memory of one database: its share of the process's, and how that is divided.

use super::Db;
use crate::memory::process_budget::{BudgetShare, ShareRequest};
use crate::options::Options;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Most bytes of the write-ahead log in memory between transactions, and the part of the memory of the process, where
/// no option says how much.
const WAL_BYTES: usize = 16 << 20;
const WAL_SHARE: usize = 4;

/// How many bytes of new pages are many, and the part of a given memory that is.
const MANY_NEW_BYTES: usize = 256 << 10;
const MANY_NEW_SHARE: usize = 64;

/// The memory of one database.
pub struct MemoryShare {
    pool_bytes: Option<usize>,
    write_bytes: Option<usize>,
    is_pooled: bool,
    share: OnceLock<Arc<BudgetShare>>,
}

impl MemoryShare {
    /// The memory that the options grant.
    pub(super) fn new(options: &Options, is_pooled: bool) -> MemoryShare {
        MemoryShare {
            pool_bytes: options.buffer_pool_size,
            write_bytes: options.write_buffer_size,
            is_pooled,
            share: OnceLock::new(),
        }
    }

    /// The share of the process's memory, for what the database keeps there.
    pub fn share(&self) -> &Arc<BudgetShare> {
        self.share.get_or_init(|| {
            Arc::new(BudgetShare::join(&ShareRequest {
                pool_bytes: self.pool_bytes,
                write_bytes: self.write_bytes,
                is_pooled: self.is_pooled,
            }))
        })
    }

    /// In a forked child: leaves the share of the parent's memory as it is.
    pub(crate) fn forget(&mut self) {
        std::mem::forget(self.share.take());
    }

    /// Bytes of new pages up to which a transaction writes them to a log: going straight into the file costs a sync.
    pub fn many_new_bytes(&self) -> usize {
        self.write_bytes.map_or(MANY_NEW_BYTES, |bytes| bytes / MANY_NEW_SHARE)
    }

    /// Bytes of the write-ahead log that are kept in memory between transactions.
    pub fn wal_bytes(&self) -> usize {
        match self.write_bytes {
            Some(bytes) => bytes,
            None if self.is_pooled => WAL_BYTES.min(self.share().bytes() / WAL_SHARE),
            None => WAL_BYTES,
        }
    }
}

/// Notes that a connection keeps more or less memory for its transactions.
pub(crate) fn note_dirty_bytes(db: &Db, before: usize, now: usize) {
    let bytes = &db.counters().txn_dirty_bytes;
    bytes.fetch_add(now as u64, Ordering::Relaxed);
    bytes.fetch_sub(before as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_buffer_says_how_much_is_written_late() {
        for (write_buffer, wal_bytes, many_new_bytes) in
            [(None, WAL_BYTES, MANY_NEW_BYTES), (Some(64 << 20), 64 << 20, 1 << 20), (Some(0), 0, 0)]
        {
            let options = Options { write_buffer_size: write_buffer, ..Options::default() };
            let memory = MemoryShare::new(&options, false);
            assert_eq!((memory.wal_bytes(), memory.many_new_bytes()), (wal_bytes, many_new_bytes));
        }
    }
}
