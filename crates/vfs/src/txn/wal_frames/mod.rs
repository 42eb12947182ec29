//! The write-ahead log that SQLite sees: its frames, and where its transactions end.
//!
//! SQLite writes its `-wal` file as always (file format, section 4): a 32-byte header, then frames of a 24-byte header
//! and a page. Here [`WalBytes`] keeps the bytes. This module parses them as far as needed: the page of each frame, and
//! the last frame of each transaction. The header of such a frame carries the size of the database (bytes 4..8).
//! SQLite's checksums are kept for SQLite and not used otherwise.
//!
//! ```text
//! 0        32                 32+24     32+24+page          ...
//! | header | frame header     | page    | frame header | ...
//!            page number (0..4), database size if it ends a transaction (4..8), salts, checksums
//! ```
//!
//! Invariants:
//! 1. Frames `0..committed` belong to finished transactions, whose pages SQLite does not change again in this
//!    generation. The exception is a last transaction that could not be published, which SQLite takes back. SQLite may
//!    rewrite the headers of these frames (`walRewriteChecksums`).
//! 2. A transaction's frames are exactly those from `committed` to its last frame: SQLite reuses the
//!    slots of what it rolled back.
//! 3. A new header starts a new generation; SQLite writes one only when everything is in the database.
//! 4. When a transaction is finished, no spill of it is under way.

use crate::error::Result;
use crate::memory::sqlite_cache::{SqliteCacheReservation, SqliteCacheSize};
use crate::sync::shared_frames::SharedFrames;
use crate::txn::spill_map::SpillPlace;
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::wal_bytes::WalBytes;
use crate::txn::wal_spill_state::WalSpill;
use litefoot_storage::file::{self, File};
use litefoot_storage::wal_file::format::{Checksum, FRAME_HEADER_BYTES, HEADER_BYTES, Header};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

mod page_versions;
mod shared;
mod superseded;
mod whole_log;
use page_versions::PageVersions;

/// Frames of a finished transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its first frame.
    pub first: usize,
    /// Behind its last frame.
    pub end: usize,
}

/// Meaning of a write of SQLite's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalWritten {
    /// Part of a transaction, or a repair of checksums.
    Part,
    /// A new generation began.
    Restart,
    /// A transaction is complete.
    Commit(Transaction),
    /// SQLite takes back a transaction that it had completed: it overwrites the transaction's frames.
    TakenBack,
}

/// A frame of the log, as its header says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalFrame {
    pub page_number: u32,
    pub database_pages: u32,
    /// When its page was written last; writes count from 1.
    pub changed: u64,
}

/// The log that SQLite sees.
pub struct WalFrames {
    pub(super) bytes: WalBytes,
    /// The reservation for SQLite's cache in the connection that writes.
    cache: SqliteCacheReservation,
    /// The policy that a transaction begins with.
    policy: SpillPolicy,
    pub(super) frames: Vec<WalFrame>,
    /// The frames of each page in finished transactions.
    versions: PageVersions,
    pub(crate) writes: u64,
    /// The spill state of the transaction under way.
    pub(crate) spill: WalSpill,
    /// Pages that a transaction has taken back, and that are in the redo log all the same, without a frame here.
    pub(super) given_up: BTreeSet<u32>,
    pub(super) committed: usize,
    /// Frames of finished transactions whose page's older versions have left memory, and how many these versions are.
    settled: usize,
    superseded: usize,
    /// The schema cookie, as the newest page 1 in the log has it; 0 before there was one.
    schema: u32,
    /// The frames that members of a group read themselves.
    shared: Option<SharedFrames>,
}

/// Where page 1 has the schema cookie.
const SCHEMA_COOKIE: usize = 40;

impl WalFrames {
    /// The log as another process, or an earlier life of this one, left it: `bytes` end with the last
    /// frame of a transaction. `data` is the database file.
    pub fn load(
        mut wal_bytes: WalBytes,
        cache: SqliteCacheReservation,
        policy: SpillPolicy,
        bytes: &[u8],
        data: &dyn File,
    ) -> Result<WalFrames> {
        wal_bytes.write(bytes, 0, data)?;
        let committed =
            bytes.len().saturating_sub(HEADER_BYTES) / (FRAME_HEADER_BYTES + wal_bytes.page_bytes());
        wal_bytes.close(committed);
        let mut frames = WalFrames {
            frames: (0..committed).map(|number| frame_of(&bytes[wal_bytes.offset_of(number)..])).collect(),
            versions: PageVersions::default(),
            bytes: wal_bytes,
            cache,
            writes: 0,
            spill: WalSpill::new(policy.clone()),
            given_up: BTreeSet::new(),
            policy,
            committed: 0,
            settled: 0,
            superseded: 0,
            schema: 0,
            shared: None,
        };
        frames.versions.reserve(committed)?;
        frames.commit(committed);
        Ok(frames)
    }

    /// Length in bytes, as SQLite sees it.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.shared_bytes()
    }

    /// Bytes of a page; 0 before there is a header.
    pub fn page_bytes(&self) -> usize {
        self.bytes.page_bytes()
    }

    /// Frames of finished transactions.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Pages of the database after the last finished transaction.
    pub fn database_pages(&self) -> u32 {
        self.committed.checked_sub(1).map_or(0, |last| self.frames[last].database_pages)
    }

    /// Reads what SQLite asks for; returns the bytes read. `data` is the database file.
    pub fn read(&self, buf: &mut [u8], offset: usize, data: &dyn File) -> file::Result<usize> {
        self.bytes.read(buf, offset, data)
    }

    /// Rebuilds the checksums of all finished transactions.
    ///
    /// SQLite writes over frames of a transaction that it has spilled and are changed once more, and rewrites the
    /// checksums behind them when it commits. Up to 3.51 it takes the wrong ones where `ROLLBACK TO` has taken such frames
    /// back in between. Recovery of the log stops there, and loses the commits behind. As long as the wal-index stands no
    /// reader looks at the checksums, and the redo log has its own.
    ///
    /// Answers the header of the log, and the checksum that the next frame continues; `None` where there is no header.
    pub fn rebuild_checksums(&mut self, data: &dyn File) -> Result<Option<(Header, Checksum)>> {
        let Some((header, mut checksum)) = Header::decode(self.bytes.head()) else { return Ok(None) };
        let mut page = vec![0; self.page_bytes()];
        for number in 0..self.committed {
            self.bytes.clear_freed(number);
            self.copy_page(number, &mut page, data)?;
            let WalFrame { page_number, database_pages, .. } = self.frames[number];
            let (frame, next) = header.encode_frame(checksum, page_number, database_pages, &page);
            self.bytes.write(&frame, self.bytes.offset_of(number), data)?;
            checksum = next;
        }
        Ok(Some((header, checksum)))
    }

    /// Sets the size of the cache of the connection that writes.
    pub fn set_cache_size(&mut self, size: &SqliteCacheSize) {
        self.cache.set_size(size, self.page_bytes());
    }

    /// Takes a write of SQLite's.
    pub fn write(&mut self, buf: &[u8], offset: usize, data: &dyn File) -> Result<WalWritten> {
        // The header of the log, which says how long frames are, is in none.
        let at = self.bytes.frame_at(offset);
        if let (Some((number, 0)), Ok(header)) = (at, buf.try_into()) {
            return self.write_header(number, header);
        }
        let ending = at.and_then(|at| self.page_ending(buf, at));
        if let Some(number) = ending
            && self.awaited(number).is_some()
            && self.bytes.spill_place(number).is_some()
        {
            self.spill.cycle.note_page_back();
        }
        if let Some((number, _)) = at {
            self.reserve(number)?;
        }
        self.bytes.write(buf, offset, data)?;
        if offset == 0 && buf.len() >= HEADER_BYTES {
            self.reset();
            return Ok(WalWritten::Restart);
        }
        let Some((number, inside)) = at else { return Ok(WalWritten::Part) };
        if inside == 0 && buf.len() >= FRAME_HEADER_BYTES {
            self.begin_frame(number, buf);
        }
        let written = ending.map_or(WalWritten::Part, |number| self.page_done(number));
        if let WalWritten::Commit(transaction) = written {
            self.note_schema(transaction, data)?;
        }
        self.cache.passed((self.frames.len() - self.committed) * self.page_bytes());
        Ok(written)
    }

    /// Takes the header of a frame, which SQLite writes apart from its page.
    fn write_header(&mut self, number: usize, header: &[u8; FRAME_HEADER_BYTES]) -> Result<WalWritten> {
        self.reserve(number)?;
        self.bytes.write_header(number, header);
        self.begin_frame(number, header);
        self.cache.passed((self.frames.len() - self.committed) * self.page_bytes());
        Ok(WalWritten::Part)
    }

    /// Makes sure that a write of a frame finds the only memory that grows with the log in one piece.
    fn reserve(&mut self, number: usize) -> Result<()> {
        self.frames.try_reserve((number + 1).saturating_sub(self.frames.len()))?;
        self.bytes.reserve(number)?;
        self.versions.reserve(number + 1)
    }

    /// A frame begins with this header; those of finished transactions stay as they are.
    fn begin_frame(&mut self, number: usize, header: &[u8]) {
        if number < self.committed {
            return;
        }
        if number == self.committed && !self.spill.is_under_way() {
            self.end_large();
        }
        // SQLite appends frames; those behind this one were rolled back.
        self.frames.resize(number, WalFrame::default());
        self.frames.push(frame_of(header));
    }

    /// The frame whose page ends with a write that begins so far inside it.
    pub(crate) fn page_ending(&self, buf: &[u8], (number, inside): (usize, usize)) -> Option<usize> {
        (inside + buf.len() == FRAME_HEADER_BYTES + self.page_bytes()).then_some(number)
    }

    fn note_schema(&mut self, transaction: Transaction, data: &dyn File) -> Result<()> {
        let last =
            (transaction.first..transaction.end).rev().find(|number| self.frames[*number].page_number == 1);
        if let Some(number) = last {
            let mut cookie = [0; 4];
            self.bytes.read_page(number, SCHEMA_COOKIE, &mut cookie, data)?;
            self.schema = u32::from_be_bytes(cookie);
        }
        Ok(())
    }

    /// The schema cookie, as the newest page 1 in the log has it.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// The transaction is over, and its spill state with it.
    pub fn end_large(&mut self) {
        self.spill = WalSpill::new(self.policy.clone());
        self.bytes.set_map_bytes(0);
    }

    /// A frame's page has arrived whole.
    fn page_done(&mut self, number: usize) -> WalWritten {
        if number < self.committed {
            return WalWritten::TakenBack;
        }
        self.writes += 1;
        if let Some(frame) = self.frames.get_mut(number) {
            frame.changed = self.writes;
        }
        match self.frames.get(number) {
            Some(frame) if frame.database_pages != 0 => {
                let transaction = Transaction { first: self.committed, end: number + 1 };
                self.frames.truncate(number + 1);
                self.commit(number + 1);
                self.share_frames(transaction.first..transaction.end);
                self.bytes.close(self.committed);
                self.spill.close();
                WalWritten::Commit(transaction)
            }
            _ => WalWritten::Part,
        }
    }

    /// Frames below `end` are of finished transactions.
    fn commit(&mut self, end: usize) {
        for frame in &self.frames[self.committed..end] {
            self.versions.push(frame.page_number);
        }
        self.committed = end;
    }

    /// Takes a commit back that could not be made durable: SQLite rolls it back and reuses its frames.
    pub fn revoke(&mut self, transaction: Transaction) {
        let first = self.committed.min(transaction.first);
        for frame in self.frames[first..self.committed].iter().rev() {
            self.versions.pop(frame.page_number);
        }
        self.unsettle(first);
        self.unshare_frames(first..self.committed);
        self.committed = first;
        self.bytes.close(self.committed);
        self.spill.reopen();
    }

    /// Cuts the log, as SQLite asks.
    pub fn set_len(&mut self, len: usize) {
        if len < HEADER_BYTES {
            self.reset();
        }
        self.bytes.set_len(len);
    }

    /// Forgets all frames, whose pages are in the database file.
    pub fn reset(&mut self) {
        self.end_large();
        self.given_up.clear();
        self.frames.clear();
        self.versions.clear();
        (self.committed, self.settled, self.superseded) = (0, 0, 0);
        self.unshare_all();
        self.bytes.reset();
    }

    /// The numbers of the pages in some frames.
    pub fn page_numbers(&self, frames: Range<usize>) -> BTreeSet<u32> {
        self.numbers(frames).collect()
    }

    /// The same in the order of the frames, which is mostly that of the pages.
    pub fn numbers(&self, frames: Range<usize>) -> impl Iterator<Item = u32> + Clone {
        self.frames.get(frames).unwrap_or_default().iter().map(|frame| frame.page_number)
    }

    /// Bytes of the database after the last finished transaction.
    pub fn database_bytes(&self) -> u64 {
        u64::from(self.database_pages()) * self.page_bytes() as u64
    }

    /// The newest version of each page in the frames `first..committed`: page number and frame.
    pub fn newest(&self, first: usize) -> BTreeMap<u32, usize> {
        let newest = (first..self.committed).filter(|number| self.versions.is_newest(*number));
        newest.map(|number| (self.frames[number].page_number, number)).collect()
    }

    /// The newest frame of a page in finished transactions, below frame `before`.
    pub fn newest_before(&self, page_number: u32, before: usize) -> Option<usize> {
        self.versions.newest_before(page_number, before)
    }

    /// True for the newest frame of its page in finished transactions.
    pub fn is_newest(&self, number: usize) -> bool {
        self.versions.is_newest(number)
    }

    /// How many pages finished transactions have changed.
    pub fn distinct_pages(&self) -> usize {
        self.versions.pages()
    }

    /// The newest version of each page in the frames `first..end` of finished transactions.
    pub fn newest_until(&self, first: usize, end: usize) -> BTreeMap<u32, usize> {
        let end = end.min(self.committed);
        let newest = (first..end).filter(|number| self.versions.is_newest_before(*number, end));
        newest.map(|number| (self.frames[number].page_number, number)).collect()
    }

    /// The newest version of each page of a finished transaction, by number, in the place of what `out` had.
    pub fn newest_into(&self, transaction: Transaction, out: &mut Vec<(u32, usize)>) {
        out.clear();
        out.extend((transaction.first..transaction.end).map(|frame| (self.frames[frame].page_number, frame)));
        // Later frames first, so that the newest one of a page stays.
        out.sort_unstable_by_key(|(number, frame)| (*number, std::cmp::Reverse(*frame)));
        out.dedup_by_key(|(number, _)| *number);
    }

    /// Pages of the database after the finished transaction that ends with frame `end - 1`.
    pub fn database_pages_at(&self, end: usize) -> u32 {
        end.checked_sub(1).and_then(|last| self.frames.get(last)).map_or(0, |frame| frame.database_pages)
    }

    /// The number of the write that completed a frame's page; 0 for a page that this process has not written.
    pub fn last_write(&self, number: usize) -> u64 {
        self.frames.get(number).map_or(0, |frame| frame.changed)
    }

    /// Copies a frame's page.
    pub fn copy_page(&self, number: usize, page: &mut [u8], data: &dyn File) -> file::Result<()> {
        self.bytes.read_page(number, 0, page, data)
    }

    /// A frame's page, where it is in memory.
    pub fn page_in_memory(&self, number: usize) -> Option<&[u8]> {
        self.bytes.page_in_memory(number).map(|page| &**page)
    }

    /// True for a frame whose page is in memory.
    pub fn is_in_memory(&self, number: usize) -> bool {
        self.page_in_memory(number).is_some()
    }

    /// The place of a frame's page that was spilled.
    pub fn spill_place(&self, number: usize) -> Option<SpillPlace> {
        self.bytes.spill_place(number)
    }

    /// Pages of frames were spilled to their places.
    pub fn mark_spilled(&mut self, frames: impl IntoIterator<Item = (usize, SpillPlace)>) {
        for (number, place) in frames {
            self.bytes.mark_spilled(number, place);
        }
        self.bytes.end_copies();
    }
}

fn frame_of(header: &[u8]) -> WalFrame {
    WalFrame { page_number: be32(header, 0), database_pages: be32(header, 4), changed: 0 }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
pub(super) mod tests;
