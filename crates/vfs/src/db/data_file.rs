//! What is read from the database file and written to it.
//!
//! # Behind the end
//! Pages behind the end of the database belong to nobody: a large transaction writes its new pages there before it
//! commits. While it does, the file's end is that transaction's; what it has not committed is cut off when it is over.
//! A checkpoint of SQLite's that does not know of a commit yet must not cut off, or write over, what that commit counts on.

use super::Db;
use super::shared::UNKNOWN;
use crate::error::Result;
use crate::options::AtomicWrites;
use litefoot_storage::file::{ErrorKind, FileKind, parent_directory, total_bytes};
use litefoot_storage::wal_file::origin::DataFile;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Where the file says how many bytes a page has (file format, section 1.3.2).
const PAGE_SIZE_OFFSET: usize = 16;

/// What a database begins with (file format, section 1.3.1).
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What `atomic=assume4k` assumes.
const ASSUMED_ATOMIC_BYTES: usize = 4096;

/// Milliseconds for which a file that had its name is believed to have it still, by a commit.
const NAME_MS: u64 = 1;

/// What is known of the name that the file was opened by.
pub(super) struct Name {
    /// Whether it may not be durable yet.
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

    /// Whether the file still has the name that it was opened by. What cannot be looked at has lost it, as with stock SQLite.
    pub fn has_its_name(&self) -> bool {
        let named = matches!(self.medium.identity(&self.path), Ok(Some(id)) if id == self.file.id());
        self.name.seen_at.store(if named { self.name.now_ms() } else { 0 }, Ordering::Relaxed);
        named
    }

    /// The same, where it was not asked within the last millisecond: SQLite asks when a transaction begins.
    pub(crate) fn has_its_name_now(&self) -> bool {
        self.name.now_ms() - self.name.seen_at.load(Ordering::Relaxed) <= NAME_MS || self.has_its_name()
    }

    /// Bytes of a page, as the file of `file_len` bytes says; 0 where it does not say.
    pub fn page_bytes(&self, file_len: u64) -> Result<usize> {
        let known = self.shared.page_bytes.load(Ordering::Relaxed);
        if known != 0 || file_len == 0 {
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

    /// Where the database ends, while this process owns it: what lies behind that in the file is nobody's, or not
    /// committed yet.
    pub fn committed_len(&self) -> Option<u64> {
        Some(self.shared.len.load(Ordering::Acquire)).filter(|len| *len != UNKNOWN)
    }

    /// Writes pages of a transaction behind the end of the database, where they belong to nobody yet. The caller keeps the
    /// log from being checkpointed meanwhile.
    pub fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        let bytes = total_bytes(bufs);
        let _tail = self.shared.tail.lock();
        self.shared.behind_end.store(true, Ordering::Release);
        self.shared.written.store(true, Ordering::Release);
        self.data().write_vectored_at(bufs, offset)?;
        self.count_write(offset, bytes);
        if start_writeback {
            self.data().start_writeback(offset, bytes);
        }
        Ok(())
    }

    /// What was written behind the end is committed: the database file has `len` bytes now. In WAL mode SQLite will write
    /// those pages once more.
    pub fn keep_behind_end(&self, len: u64) {
        let mut tail = self.shared.tail.lock();
        let before = self.shared.len.load(Ordering::Acquire);
        let first = tail.as_ref().map_or(before, |there| there.start.min(before));
        *tail = Some(first..len.max(before));
        self.note_len(|known| known.max(len));
        self.shared.behind_end.store(false, Ordering::Release);
    }

    /// Whether these bytes are known to be in the file already, for good.
    fn is_there(&self, buf: &[u8], offset: u64) -> bool {
        let covers = |there: &Range<u64>| there.start <= offset && offset + buf.len() as u64 <= there.end;
        if !self.shared.tail.lock().as_ref().is_some_and(covers) {
            return false;
        }
        let mut found = vec![0; buf.len()];
        matches!(self.data().read_at(&mut found, offset), Ok(read) if read == buf.len() && found == buf)
    }

    /// A transaction in the log in memory commits, and with it the database has so many bytes: a checkpoint that knows
    /// nothing of it must not cut off what was written there.
    pub fn note_needed(&self, bytes: u64) {
        self.shared.needed.store(bytes, Ordering::Release);
    }

    /// SQLite restarts its log: it will not write those pages again.
    pub fn forget_there(&self) {
        *self.shared.tail.lock() = None;
    }

    /// Whether a transaction has written behind the end of the database.
    pub fn is_behind_end(&self) -> bool {
        self.shared.behind_end.load(Ordering::Acquire)
    }

    /// The transaction that wrote behind the end is over: what it did not commit is cut off, down to `least` bytes. Should
    /// that fail, the file is longer than its header says, which SQLite bears with.
    pub fn end_behind_end(&self, least: u64) {
        let _tail = self.shared.tail.lock();
        if self.shared.behind_end.swap(false, Ordering::AcqRel) {
            let len = self.shared.len.load(Ordering::Acquire);
            if len != UNKNOWN && self.latch.reason().is_none() {
                let _ = self.data().set_len(self.least_len(len.max(least)));
            }
        }
    }

    /// Bytes of a page that may be overwritten in place, whole or not at all.
    pub fn atomic_write_bytes(&self) -> usize {
        // The chunks of a page may be on two devices.
        if self.tier.get().is_some() {
            return 0;
        }
        match self.options.atomic {
            AtomicWrites::Auto => self.file.guarantees().atomic_write_bytes as usize,
            AtomicWrites::Assume4k => ASSUMED_ATOMIC_BYTES,
            AtomicWrites::Off => 0,
        }
    }

    /// Overwrites a page in place, durably, and whole or not at all; `false` where that cannot be done, and
    /// nothing was written.
    pub fn write_atomic(&self, page: &[u8], offset: u64) -> Result<bool> {
        self.latch.check(&self.path)?;
        let result = match self.options.atomic {
            AtomicWrites::Assume4k => self.file.write_durable_at(&[IoSlice::new(page)], offset),
            _ => self.file.write_atomic_at(page, offset),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            result => {
                self.latch.watch(result)?;
                self.stats.add_write(FileKind::Database, offset, page.len() as u64);
                self.stats.add_sync(FileKind::Database);
                Ok(true)
            }
        }
    }

    /// Length of the database file.
    pub fn file_len(&self) -> Result<u64> {
        match self.shared.len.load(Ordering::Acquire) {
            UNKNOWN => Ok(self.data().len()?),
            known => Ok(known),
        }
    }

    /// Notes what a commit has made of the length: the file itself follows later.
    pub fn set_committed_len(&self, len: u64) {
        self.shared.len.store(len, Ordering::Release);
    }

    fn note_len(&self, change: impl Fn(u64) -> u64) {
        let known = |len| (len != UNKNOWN).then(|| change(len));
        let _ = self.shared.len.fetch_update(Ordering::AcqRel, Ordering::Acquire, known);
    }

    /// Writes to the database file, past the pages in memory, unless a sync has failed before.
    pub fn write_unseen(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.latch.check(&self.path)?;
        // Only SQLite's checkpoint writes what is there already.
        if self.is_there(buf, offset) {
            return Ok(());
        }
        self.shared.written.store(true, Ordering::Release);
        if offset < PAGE_SIZE_OFFSET as u64 + 2 {
            let known = if offset == 0 { page_bytes_in(buf) } else { 0 };
            self.shared.page_bytes.store(known, Ordering::Relaxed);
        }
        let end = offset + buf.len() as u64;
        // Whoever cuts what was not committed behind the end must know of this.
        let _tail = (end > self.shared.len.load(Ordering::Acquire)).then(|| self.shared.tail.lock());
        self.data().write_at(buf, offset)?;
        self.count_write(offset, buf.len() as u64);
        self.note_len(|known| known.max(end));
        Ok(())
    }

    /// Cuts the database file, or extends it, past the pages in memory.
    pub fn set_len_unseen(&self, len: u64) -> Result<()> {
        self.latch.check(&self.path)?;
        self.shared.written.store(true, Ordering::Release);
        self.shared.page_bytes.store(0, Ordering::Relaxed);
        let _tail = self.shared.tail.lock();
        let len = len.max(self.shared.needed.load(Ordering::Acquire).min(self.file_len()?));
        // Where a transaction has written behind the end, its own end decides.
        if !self.is_behind_end() {
            self.data().set_len(self.least_len(len))?;
        }
        self.note_len(|_| len);
        Ok(())
    }

    /// Syncs the database file if it was written since the last sync.
    pub fn sync_if_written(&self) -> Result<()> {
        if self.shared.written.load(Ordering::Acquire) { self.sync() } else { Ok(()) }
    }

    /// Counts a write of the database file. With a tier the devices beneath count their own.
    fn count_write(&self, offset: u64, bytes: u64) {
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
        match self.tier.get() {
            None => self.stats.add_sync(FileKind::Database),
            Some(_) => self.note_tier(),
        }
        if self.name.unsynced.load(Ordering::Acquire) {
            self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
            self.name.unsynced.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// Bytes of a page, as the beginning of page 1 says; 0 where it does not say. What a VFS above has encrypted says
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

    fn database() -> Db {
        Db::of_test(&[1; 4096])
    }

    #[test]
    fn what_a_commit_counts_on_is_not_cut_off_by_a_checkpoint_that_does_not_know_it() {
        let database = database();
        let tail = [2; 8192];
        database.note_needed(12_288);
        // Not extended either, before it is written.
        database.set_len_unseen(4096).unwrap();
        assert_eq!(database.file().len().unwrap(), 4096);
        database.write_behind_end(&[IoSlice::new(&tail)], 4096, false).unwrap();
        // Its own end decides while it is under way.
        database.set_len_unseen(4096).unwrap();
        database.keep_behind_end(12_288);
        database.set_len_unseen(4096).unwrap();
        assert_eq!((database.file().len().unwrap(), database.file_len().unwrap()), (12_288, 12_288));
        database.note_needed(8192);
        database.set_len_unseen(8192).unwrap();
        assert_eq!((database.file().len().unwrap(), database.file_len().unwrap()), (8192, 8192));
    }

    #[test]
    fn what_was_not_committed_behind_the_end_is_cut_off() {
        let database = database();
        database.write_behind_end(&[IoSlice::new(&[2; 8192])], 4096, false).unwrap();
        database.end_behind_end(0);
        assert_eq!(database.file().len().unwrap(), 4096);
    }
}
