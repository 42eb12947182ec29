//! What tests of a transaction's pages begin with: a database without logs and pools.

use super::{SpillTarget, TxnTarget};
use crate::db::Db;
use crate::error::{Error, Result};
use litefoot_storage::wal_file::Slots;
use std::io::IoSlice;

/// A database whose file is all there is of it.
pub(crate) struct PlainTarget(pub Db);

impl PlainTarget {
    /// A database that holds these bytes.
    pub fn new(bytes: &[u8]) -> PlainTarget {
        PlainTarget(Db::of_test(bytes))
    }
}

impl SpillTarget for PlainTarget {
    fn db(&self) -> &Db {
        &self.0
    }

    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        self.0.file_end().write_behind(bufs, offset, start_writeback)
    }
}

impl TxnTarget for PlainTarget {
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.0.data().read_at(buf, offset)?;
        buf[read..].fill(0);
        if read < buf.len() { Err(Error::ShortRead) } else { Ok(()) }
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.0.write_unseen(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len_unseen(len)
    }

    fn before_behind_end(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    fn log_contains(&self, _number: u32) -> bool {
        false
    }

    fn reserve_slots(&self, _page_bytes: usize, _first: usize, _count: usize) -> Result<Slots> {
        Err(Error::Io("there is no log".to_owned()))
    }
}
