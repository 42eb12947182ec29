//! The database file: reading, writing, cutting and syncing it.
//!
//! # Invariants
//! 1. Every write and every sync passes the latch first, and is counted.
//! 2. The first sync after the file was created makes its name durable, too.

use super::shared::UNKNOWN;
use super::{Db, tier};
use crate::error::Result;
use litefoot_storage::file::{FileKind, parent_directory};
use litefoot_storage::wal_file::origin::DataFile;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Where the file says how many bytes a page has (file format, section 1.3.2).
const PAGE_SIZE_OFFSET: usize = 16;

/// The bytes that a database begins with (file format, section 1.3.1).
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Milliseconds for which a file that had its name is believed to have it still, by a commit.
const NAME_MS: u64 = 1;

/// The name that the file was opened by.
pub(super) struct Name {
    /// True if it may not be durable yet.
    unsynced: AtomicBool,
    /// When the file was found to have it, in milliseconds since the database was opened, about.
    seen_at: AtomicU64,
    opened_at: Instant,
}

impl Name {
    /// The name of a file that the open has found, or created.
    pub fn new(created: bool) -> Name {
        Name { unsynced: AtomicBool::new(created), seen_at: AtomicU64::new(0), opened_at: Instant::now() }
    }

    /// Milliseconds since the database was opened, and more than can count as none.
    fn now_ms(&self) -> u64 {
        self.opened_at.elapsed().as_millis() as u64 + 2 * NAME_MS
    }
}

impl Db {
    /// The file that its logs belong to.
    pub(crate) fn data_file(&self) -> DataFile {
        DataFile { path: self.path.clone(), file: self.file.clone(), content: self.data().clone() }
    }

    /// True if the file still has the name that it was opened by. A file that cannot be looked at has lost its name, as
    /// with stock SQLite.
    pub fn has_its_name(&self) -> bool {
        let named = matches!(self.medium.identity(&self.path), Ok(Some(id)) if id == self.file.id());
        self.name.seen_at.store(if named { self.name.now_ms() } else { 0 }, Ordering::Relaxed);
        named
    }

    /// The same, where it was not asked within the last millisecond: SQLite asks when a transaction begins.
    pub(crate) fn has_its_name_now(&self) -> bool {
        // Another thread may have seen it since this one has looked at the clock.
        let age = self.name.now_ms().saturating_sub(self.name.seen_at.load(Ordering::Relaxed));
        age <= NAME_MS || self.has_its_name()
    }

    /// Bytes of a page, as the file of `file_len` bytes says; 0 where it does not say.
    pub fn page_bytes(&self, file_len: u64) -> Result<usize> {
        let known = self.shared.page_bytes.load(Ordering::Relaxed);
        if file_len == 0 || (known != 0 && !self.shared.is_multi_process()) {
            return Ok(known as usize);
        }
        let mut header = [0; PAGE_SIZE_OFFSET + 2];
        let read = self.data().read_at(&mut header, 0)?;
        let bytes = page_bytes_in(&header[..read]);
        self.shared.page_bytes.store(bytes, Ordering::Relaxed);
        Ok(bytes as usize)
    }

    /// Makes room for a database of `len` bytes, so that writing it cannot fail for want of space.
    pub fn reserve(&self, len: u64) -> Result<()> {
        self.latch.check(&self.path)?;
        self.shared.written.store(true, Ordering::Release);
        Ok(self.data().allocate(len)?)
    }

    /// Length of the database file.
    pub fn file_len(&self) -> Result<u64> {
        match self.shared.len.load(Ordering::Acquire) {
            UNKNOWN => Ok(self.data().len()?),
            known => Ok(known),
        }
    }

    /// Writes to the database file, past the pages in memory, unless a sync has failed before.
    pub fn write_unseen(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.latch.check(&self.path)?;
        // Only SQLite's checkpoint writes what is there already.
        if self.file_end().has(buf, offset) {
            return Ok(());
        }
        self.shared.written.store(true, Ordering::Release);
        self.shared.note_file_change();
        if offset < PAGE_SIZE_OFFSET as u64 + 2 {
            let known = if offset == 0 { page_bytes_in(buf) } else { 0 };
            self.shared.page_bytes.store(known, Ordering::Relaxed);
        }
        let end = offset + buf.len() as u64;
        // Cutting what was not committed behind the end must see this write.
        let _tail = (end > self.shared.len.load(Ordering::Acquire)).then(|| self.shared.tail.lock());
        self.data().write_at(buf, offset)?;
        self.count_write(offset, buf.len() as u64);
        self.shared.change_len(|known| known.max(end));
        Ok(())
    }

    /// Cuts the database file, or extends it, past the pages in memory.
    pub fn set_len_unseen(&self, len: u64) -> Result<()> {
        self.latch.check(&self.path)?;
        self.shared.written.store(true, Ordering::Release);
        self.shared.note_file_change();
        self.shared.page_bytes.store(0, Ordering::Relaxed);
        let _tail = self.shared.tail.lock();
        let len = len.max(self.shared.needed.load(Ordering::Acquire).min(self.file_len()?));
        // Where a transaction has written behind the end, its own end decides.
        if !self.file_end().is_written_behind() {
            self.data().set_len(tier::least_len(self, len))?;
        }
        self.shared.change_len(|_| len);
        Ok(())
    }

    /// Puts back what a commit has overwritten that has failed, for those who go on reading. A latch may be closed: a journal that
    /// is durable has the same pages, and the next open writes them once more.
    pub(crate) fn put_back(&self, pages: &[(u32, Vec<u8>)], page_bytes: usize, len: u64) {
        self.shared.note_file_change();
        for (number, page) in pages {
            let _ = self.data().write_at(page, u64::from(number - 1) * page_bytes as u64);
        }
        let _tail = self.shared.tail.lock();
        if self.data().set_len(len).is_ok() {
            self.shared.change_len(|_| len);
        }
    }

    /// Syncs the database file if it was written since the last sync.
    pub fn sync_if_written(&self) -> Result<()> {
        if self.shared.written.load(Ordering::Acquire) { self.sync() } else { Ok(()) }
    }

    /// Syncs the database file where this process never has: another one may have left it unsynced, as SQLite does at
    /// `synchronous=OFF`.
    #[inline]
    pub fn settle(&self) -> Result<()> {
        if self.shared.settled.load(Ordering::Relaxed) { Ok(()) } else { self.sync() }
    }

    /// Counts a write of the database file. With a tier the devices beneath count their own.
    pub(super) fn count_write(&self, offset: u64, bytes: u64) {
        if self.tier.get().is_none() {
            self.stats.add_write(FileKind::Database, offset, bytes);
        }
    }

    /// Syncs the database file; the first sync after its creation makes its name durable, too.
    pub fn sync(&self) -> Result<()> {
        self.latch.check(&self.path)?;
        // Before the sync: what is written meanwhile counts as written after it.
        self.shared.written.store(false, Ordering::Release);
        self.latch.watch(self.data().sync())?;
        self.shared.settled.store(true, Ordering::Release);
        match self.tier.get() {
            None => self.stats.add_sync(FileKind::Database),
            Some(_) => tier::note_figures(self),
        }
        if self.name.unsynced.load(Ordering::Acquire) {
            self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
            self.name.unsynced.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// Bytes of the header of a database, with which page 1 begins.
pub const HEADER_BYTES: usize = 100;
/// Where it says how the database is to be written and read: 2 stands for a write-ahead log.
pub const VERSIONS_AT: usize = 18;

/// True if a header says that there is a write-ahead log.
pub fn is_wal_mode(header: &[u8]) -> bool {
    header.get(VERSIONS_AT) == Some(&2)
}

/// Bytes of a page, as the beginning of page 1 says; 0 where it does not say. A page that a VFS above has encrypted says
/// nothing.
pub fn page_bytes_in(page_one: &[u8]) -> u32 {
    if !page_one.starts_with(MAGIC) {
        return 0;
    }
    match page_one.get(PAGE_SIZE_OFFSET..PAGE_SIZE_OFFSET + 2) {
        // 65536 does not fit into the field.
        Some([0, 1]) => 65536,
        Some(&[high, low]) => {
            let bytes = u32::from(u16::from_be_bytes([high, low]));
            if bytes.is_power_of_two() && bytes >= 512 { bytes } else { 0 }
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_seen_behind_the_look_at_the_clock_is_believed() {
        let db = Db::of_test(&[1; 4096]);
        db.name.seen_at.store(db.name.now_ms() + 60_000, Ordering::Relaxed);
        assert!(db.has_its_name_now());
    }
}
