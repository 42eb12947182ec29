//! Test target: a database without pools, and a redo log for slots.

use super::{SpillTarget, TxnTarget};
use crate::db::Db;
use crate::error::{Error, Result};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
use litefoot_storage::wal_file::format::{Header, PageSum};
use litefoot_storage::wal_file::{RedoLog, ReservedSlots};
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A database that is its file, and a redo log that has nothing but slots.
pub(crate) struct PlainTarget {
    db: Db,
    log: Mutex<RedoLog>,
    /// True where early writes fail.
    pub is_full: AtomicBool,
    /// Pages that a log has.
    pub logged: Mutex<Vec<u32>>,
    /// Early writes, by offset and bytes. A test that locks them makes early writes wait.
    pub early: Mutex<Vec<(u64, usize)>>,
}

impl PlainTarget {
    /// A database that holds these bytes.
    pub fn new(bytes: &[u8]) -> PlainTarget {
        PlainTarget::of(Db::of_test(bytes))
    }

    /// The target of a database.
    pub fn of(db: Db) -> PlainTarget {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let log = RedoLog::open(medium, Path::new("/app.db-wal"), db.latch().clone()).unwrap();
        PlainTarget {
            db,
            log: Mutex::new(log),
            is_full: AtomicBool::new(false),
            logged: Mutex::default(),
            early: Mutex::default(),
        }
    }
}

impl SpillTarget for PlainTarget {
    fn db(&self) -> &Db {
        &self.db
    }

    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Error::Io("the disk is full".to_owned()));
        }
        self.early.lock().unwrap().push((offset, bufs.iter().map(|buf| buf.len()).sum()));
        self.db.file_end().write_behind(bufs, offset, start_writeback)
    }
}

impl TxnTarget for PlainTarget {
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.db.data().read_at(buf, offset)?;
        buf[read..].fill(0);
        if read < buf.len() { Err(Error::ShortRead) } else { Ok(()) }
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.db.write_unseen(buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.db.set_len_unseen(len)
    }

    fn before_behind_end(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    fn log_contains(&self, number: u32) -> bool {
        self.logged.lock().unwrap().contains(&number)
    }

    fn reserve_slots(&self, page_bytes: usize, first: usize, count: usize) -> Result<ReservedSlots> {
        Ok(self.log.lock().unwrap().reserve_slots(page_bytes as u32, first as u32, count as u32)?)
    }
}

/// An empty file on a simulated medium.
pub(crate) fn empty_file(kind: FileKind) -> Arc<dyn File> {
    SimMedium::new().open(Path::new("/app"), kind, OpenMode::Create).unwrap()
}

/// Slots of an empty log, from an offset on.
pub(crate) fn test_slots(page_bytes: usize, offset: u64) -> ReservedSlots {
    let header = Header::first(page_bytes as u32, None);
    ReservedSlots { file: empty_file(FileKind::RedoLog), offset, header }
}

/// The checksum of a page that is full of a byte.
pub(crate) fn sum_of(byte: u8) -> PageSum {
    Header::first(512, None).page_sum(&[byte; 512])
}
