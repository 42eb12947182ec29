//! Rollback journal that stays: SQLite's file beside a database, which is void between transactions.
//!
//! # Why
//! A journal that is created and removed for a transaction costs the file system's own journal more than the transaction. SQLite
//! knows journals that stay (`journal_mode=PERSIST`): one whose header is zeros is nothing to it, in any mode.
//!
//! # Bytes
//! SQLite's format (file format, section 3), with sectors of 512 bytes; numbers are big-endian:
//! ```text
//!  0                        32     64            512
//! | header, or zeros: void | mark | zeros       | records …                         | a sector of zeros |
//!  0       8         12      16      20       24     28
//! | magic | records | nonce | pages | sector | page |
//! | page number 4 | the page before the transaction | checksum 4 |
//! ```
//!
//! # Promises
//! 1. The records are durable before the header is, and the header before [`RollbackJournal::begin`] returns. SQLite's checksum
//!    of a record samples one byte in 200. Without that order a record that is torn could count, with parts of an earlier one.
//! 2. The header tells how many records count, so nothing depends on the length of the file. Behind the last record is a sector
//!    of zeros: a header of an earlier transaction, or a super-journal's name, is not found there.
//! 3. [`RollbackJournal::end`] returns when the void header is durable. Only then it writes the mark. So the mark tells any
//!    process that the file is void, durably, and at a durable name. It names the file and its path: that is so of no copy.
//! 4. SQLite, and any transaction here, overwrite the mark. A journal without one is not taken over: the process that
//!    has voided it may have died before its sync.

use crate::file::{
    File, FileId, FileKind, Medium, OpenMode, Result, SECTOR_BYTES, SyncLatch, parent_directory,
};
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The bytes that a header begins with, and a journal ends with where it names a super-journal (file format, section 3).
pub const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes that SQLite reads of a header.
pub const HEADER_BYTES: usize = 28;
/// Most bytes of a journal that stays.
pub const MOST_BYTES: usize = 256 << 10;
/// Bytes of a record beside its page.
const RECORD_BYTES: usize = 8;
/// SQLite's checksum samples a page at this distance, from its end.
const SAMPLED_BYTES: usize = 200;

const MARK_OFFSET: usize = 32;
const MARK_TAG: &[u8; 8] = b"litefoot";

type Sector = [u8; SECTOR_BYTES];

/// What a transaction changes, as it was before.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages of the database.
    pub database_pages: u32,
    /// The pages, by number.
    pub pages: &'a [(u32, Vec<u8>)],
}

/// True if the journal of a transaction may stay that changes so many pages.
pub fn may_stay(pages: usize, page_bytes: usize) -> bool {
    bytes_of(pages, page_bytes) <= MOST_BYTES
}

/// Bytes of a journal with so many records.
fn bytes_of(pages: usize, page_bytes: usize) -> usize {
    2 * SECTOR_BYTES + (pages * (page_bytes + RECORD_BYTES)).next_multiple_of(SECTOR_BYTES)
}

/// A journal that stays, as the process has it that owns the database.
pub struct RollbackJournal {
    file: Arc<dyn File>,
    latch: Arc<SyncLatch>,
    /// The first sector of the void file.
    marked: Sector,
    name_unsynced: bool,
    /// The header of the transaction under way.
    header: Option<Sector>,
}

impl RollbackJournal {
    /// The journal at a path, where it is void and marked.
    ///
    /// # Errors
    /// Errors of opening and reading.
    pub fn find(medium: &dyn Medium, path: &Path, latch: Arc<SyncLatch>) -> Result<Option<RollbackJournal>> {
        if !medium.info(path)?.is_some_and(|info| info.is_file && info.readable && info.writable) {
            return Ok(None);
        }
        let file = medium.open(path, FileKind::Journal, OpenMode::ReadWrite)?;
        let marked = marked(file.id(), path);
        let mut first = [0; SECTOR_BYTES];
        let is_marked = file.read_at(&mut first, 0)? == SECTOR_BYTES && first == marked;
        Ok(is_marked.then_some(RollbackJournal { file, latch, marked, name_unsynced: false, header: None }))
    }

    /// A new file, where there is none.
    ///
    /// # Errors
    /// Errors of creating it, that of a file which is there among them.
    pub fn create(medium: &dyn Medium, path: &Path, latch: Arc<SyncLatch>) -> Result<RollbackJournal> {
        latch.check(path)?;
        let file = medium.open(path, FileKind::Journal, OpenMode::CreateNew)?;
        let marked = marked(file.id(), path);
        Ok(RollbackJournal { file, latch, marked, name_unsynced: true, header: None })
    }

    /// True if the file still has its name.
    ///
    /// # Errors
    /// Errors of the look-up.
    pub fn has_its_name(&self, medium: &dyn Medium) -> Result<bool> {
        Ok(medium.identity(self.file.path())? == Some(self.file.id()))
    }

    /// Makes a transaction one that a crash rolls back. Want of space latches nothing.
    ///
    /// # Errors
    /// Errors of writing and syncing. The database must not be written then.
    pub fn begin(&mut self, medium: &dyn Medium, before: &Before<'_>) -> Result<()> {
        self.latch.check(self.file.path())?;
        let nonce = fastrand::u32(..);
        let records = records(before, nonce);
        if self.file.len()? < records.len() as u64 {
            self.file.allocate(records.len() as u64)?;
        }
        self.latch.watch(self.file.write_durable_at(&[IoSlice::new(&records)], 0))?;
        if self.name_unsynced {
            self.latch.watch(medium.sync_directory(parent_directory(self.file.path())))?;
            self.name_unsynced = false;
        }
        let header = header(before, nonce);
        self.latch.watch(self.file.write_durable_at(&[IoSlice::new(&header)], 0))?;
        self.header = Some(header);
        Ok(())
    }

    /// Ends the transaction: from now on it counts, whatever happens. Where that fails, the next open rolls it back, as far as the
    /// device lets it.
    ///
    /// # Errors
    /// Errors of writing and syncing, which latch.
    pub fn end(&mut self) -> Result<()> {
        let ended = self.latch.check(self.file.path()).and_then(|()| {
            self.latch.watch(self.file.write_durable_at(&[IoSlice::new(&[0; SECTOR_BYTES])], 0))
        });
        let header = self.header.take();
        if let (Err(_), Some(header)) = (&ended, &header) {
            let _ = self.file.write_at(header, 0);
        }
        ended?;
        // Without the mark the next opening makes another journal.
        let _ = self.file.write_at(&self.marked, 0);
        Ok(())
    }

    /// Removes the file, unless it has lost its name. Nothing counts in it, should the name come back.
    ///
    /// # Errors
    /// Errors of the look-up and of the removal.
    pub fn delete(self, medium: &dyn Medium) -> Result<()> {
        if self.has_its_name(medium)? { medium.delete(self.file.path()) } else { Ok(()) }
    }
}

/// The first sector of a void file.
fn marked(file: FileId, path: &Path) -> Sector {
    let mut sector = [0; SECTOR_BYTES];
    let mut at = MARK_OFFSET;
    let mut put = |bytes: &[u8]| {
        sector[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(MARK_TAG);
    put(&file.device.to_be_bytes());
    put(&file.inode.to_be_bytes());
    put(&crc32c::crc32c(path.as_os_str().as_bytes()).to_be_bytes());
    sector
}

/// All of a journal, still void.
fn records(before: &Before<'_>, nonce: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(bytes_of(before.pages.len(), before.page_bytes));
    bytes.resize(SECTOR_BYTES, 0);
    for (number, page) in before.pages {
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(page);
        bytes.extend_from_slice(&checksum(nonce, page).to_be_bytes());
    }
    bytes.resize(bytes_of(before.pages.len(), before.page_bytes), 0);
    bytes
}

fn header(before: &Before<'_>, nonce: u32) -> Sector {
    let mut sector = [0; SECTOR_BYTES];
    sector[..MAGIC.len()].copy_from_slice(&MAGIC);
    let numbers = [
        before.pages.len() as u32,
        nonce,
        before.database_pages,
        SECTOR_BYTES as u32,
        before.page_bytes as u32,
    ];
    for (at, number) in sector[MAGIC.len()..].chunks_exact_mut(4).zip(numbers) {
        at.copy_from_slice(&number.to_be_bytes());
    }
    sector
}

/// SQLite's checksum of a record.
fn checksum(nonce: u32, page: &[u8]) -> u32 {
    let sampled = page.iter().rev().skip(SAMPLED_BYTES - 1).step_by(SAMPLED_BYTES);
    // SQLite stops before byte 0 of the page.
    let samples = page.len().saturating_sub(1) / SAMPLED_BYTES;
    sampled.take(samples).fold(nonce, |sum, byte| sum.wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests;
