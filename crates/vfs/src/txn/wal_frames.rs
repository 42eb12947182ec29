//! The write-ahead log that SQLite sees: what it wrote, and where its transactions end.
//!
//! SQLite writes its `-wal` file as always (file format, section 4): a 32-byte header, then frames of a
//! 24-byte header and a page. Here the bytes go to a [`Store`], and what passes is understood as far as
//! needed: which page a frame holds, and which frame ends a transaction (its header carries the size of
//! the database, bytes 4..8). SQLite's checksums are kept for SQLite and not used otherwise.
//!
//! ```text
//! 0        32                 32+24     32+24+page          ...
//! | header | frame header     | page    | frame header | ...
//!            page number (0..4), database size if it ends a transaction (4..8), salts, checksums
//! ```
//!
//! Invariants:
//! 1. Frames `0..committed` belong to finished transactions; SQLite never changes their pages again in
//!    this generation, except to take the last transaction back when it could not be published (it may
//!    rewrite their headers: `walRewriteChecksums`).
//! 2. A transaction's frames are exactly those from `committed` to its last frame: SQLite reuses the
//!    slots of what it rolled back.
//! 3. A new header starts a new generation; SQLite writes one only when everything is in the database.
//! 4. When a transaction is finished, no cleaning of it is under way.

use crate::error::Result;
use crate::memory::sqlite_cache::{SqliteCacheReservation, SqliteCacheSize};
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::wal_bytes::{Spilled, Store};
use crate::txn::wal_spill_state::Large;
use litefoot_storage::file::{self, File};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A finished transaction: its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its first frame.
    pub first: usize,
    /// Behind its last frame.
    pub end: usize,
}

/// What a write meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Part of a transaction, or a repair of checksums.
    Part,
    /// A new generation began.
    Restart,
    /// A transaction is complete.
    Commit(Transaction),
    /// SQLite takes back a transaction that it had completed, without a word: it writes over its frames.
    TakenBack,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub page_number: u32,
    pub database_pages: u32,
    /// When its page was written last; writes count from 1.
    pub changed: u64,
}

/// The log that SQLite sees.
pub struct Frames {
    pub(crate) store: Store,
    /// The cache of whoever writes to it.
    cache: SqliteCacheReservation,
    /// What a transaction begins with.
    policy: SpillPolicy,
    pub(crate) frames: Vec<Frame>,
    pub(crate) writes: u64,
    /// The transaction under way, as far as it is large.
    pub(crate) large: Large,
    /// Pages that a transaction has given up, and that are in the redo log all the same, without a frame here.
    pub(crate) given_up: BTreeSet<u32>,
    pub(crate) committed: usize,
    /// The schema cookie, as the newest page 1 in the log has it; 0 before there was one.
    schema: u32,
}

/// Where page 1 has the schema cookie.
const SCHEMA_COOKIE: usize = 40;

impl Frames {
    /// The log as another process, or an earlier life of this one, left it: `bytes` end with the last
    /// frame of a transaction. `data` is the database file.
    pub fn load(
        mut store: Store,
        cache: SqliteCacheReservation,
        policy: SpillPolicy,
        bytes: &[u8],
        data: &dyn File,
    ) -> Result<Frames> {
        store.write(bytes, 0, data)?;
        let committed = bytes.len().saturating_sub(HEADER_BYTES) / (FRAME_HEADER_BYTES + store.page_bytes());
        store.close(committed);
        Ok(Frames {
            frames: (0..committed).map(|number| frame_of(&bytes[store.offset_of(number)..])).collect(),
            store,
            cache,
            writes: 0,
            large: Large::new(policy.clone()),
            given_up: BTreeSet::new(),
            policy,
            committed,
            schema: 0,
        })
    }

    /// Length in bytes, as SQLite sees it.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes()
    }

    /// Bytes of a page; 0 before there is a header.
    pub fn page_bytes(&self) -> usize {
        self.store.page_bytes()
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
        self.store.read(buf, offset, data)
    }

    /// Writes the checksums of all finished transactions anew.
    ///
    /// SQLite writes over frames of a transaction that it has spilled and are changed once more, and rewrites the
    /// checksums behind them when it commits. Up to 3.51 it takes the wrong ones where such frames were given up by `ROLLBACK
    /// TO` in between: whoever reads the log from its beginning stops there, and what was committed since is lost. As long as
    /// an index stands nobody looks at them, and the redo log has its own.
    pub fn rebuild_checksums(&mut self, data: &dyn File) -> Result<()> {
        let Some((header, mut checksum)) = Header::decode(self.store.head()) else { return Ok(()) };
        let mut page = vec![0; self.page_bytes()];
        for number in 0..self.committed {
            self.copy_page(number, &mut page, data)?;
            let Frame { page_number, database_pages, .. } = self.frames[number];
            let (frame, next) = header.encode_frame(checksum, page_number, database_pages, &page);
            self.store.write(&frame, self.store.offset_of(number), data)?;
            checksum = next;
        }
        Ok(())
    }

    /// Who writes has a cache of this size.
    pub fn set_cache_size(&mut self, size: &SqliteCacheSize) {
        self.cache.set_size(size, self.page_bytes());
    }

    /// Takes what SQLite writes.
    pub fn write(&mut self, buf: &[u8], offset: usize, data: &dyn File) -> Result<Written> {
        // The header of the log, which says how long frames are, is in none.
        let at = self.store.frame_at(offset);
        let ending = at.and_then(|at| self.page_ending(buf, at));
        if let Some(number) = ending
            && self.awaited(number).is_some()
            && self.store.away(number).is_some()
        {
            self.large.policy.is_back();
        }
        if let Some((number, _)) = at {
            // The only memory that grows with the log in one piece.
            self.frames.try_reserve((number + 1).saturating_sub(self.frames.len()))?;
            self.store.reserve(number)?;
        }
        self.store.write(buf, offset, data)?;
        if offset == 0 && buf.len() >= HEADER_BYTES {
            self.reset();
            return Ok(Written::Restart);
        }
        let Some((number, inside)) = at else { return Ok(Written::Part) };
        if inside == 0 && buf.len() >= FRAME_HEADER_BYTES && number >= self.committed {
            if number == self.committed && !self.is_being_spilled() {
                self.end_large();
            }
            // Frames come one behind the other; those behind this one were rolled back.
            self.frames.resize(number, Frame::default());
            self.frames.push(frame_of(buf));
        }
        let written = ending.map_or(Written::Part, |number| self.page_done(number));
        if let Written::Commit(transaction) = written {
            self.note_schema(transaction, data)?;
        }
        self.cache.passed((self.frames.len() - self.committed) * self.page_bytes());
        Ok(written)
    }

    /// The frame whose page ends with what is written from so far inside it.
    pub(crate) fn page_ending(&self, buf: &[u8], (number, inside): (usize, usize)) -> Option<usize> {
        (inside + buf.len() == FRAME_HEADER_BYTES + self.page_bytes()).then_some(number)
    }

    fn note_schema(&mut self, transaction: Transaction, data: &dyn File) -> Result<()> {
        let last =
            (transaction.first..transaction.end).rev().find(|number| self.frames[*number].page_number == 1);
        if let Some(number) = last {
            let mut cookie = [0; 4];
            self.store.read_page(number, SCHEMA_COOKIE, &mut cookie, data)?;
            self.schema = u32::from_be_bytes(cookie);
        }
        Ok(())
    }

    /// The schema cookie, as the newest page 1 in the log has it.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// The transaction is over.
    pub fn end_large(&mut self) {
        self.large = Large::new(self.policy.clone());
        self.store.set_known_bytes(0);
    }

    /// A frame's page has arrived whole.
    fn page_done(&mut self, number: usize) -> Written {
        if number < self.committed {
            return Written::TakenBack;
        }
        self.writes += 1;
        if let Some(frame) = self.frames.get_mut(number) {
            frame.changed = self.writes;
        }
        match self.frames.get(number) {
            Some(frame) if frame.database_pages != 0 => {
                let transaction = Transaction { first: self.committed, end: number + 1 };
                self.frames.truncate(number + 1);
                self.committed = number + 1;
                self.store.close(self.committed);
                self.close_large();
                Written::Commit(transaction)
            }
            _ => Written::Part,
        }
    }

    /// Takes a commit back that could not be made durable: SQLite rolls it back and reuses its frames.
    pub fn revoke(&mut self, transaction: Transaction) {
        self.committed = self.committed.min(transaction.first);
        self.store.close(self.committed);
        self.reopen_large();
    }

    /// Cuts the log, as SQLite asks.
    pub fn set_len(&mut self, len: usize) {
        if len < HEADER_BYTES {
            self.reset();
        }
        self.store.set_len(len);
    }

    /// Forgets all frames: they are in the database file.
    pub fn reset(&mut self) {
        self.end_large();
        self.given_up.clear();
        self.frames.clear();
        self.committed = 0;
        self.store.reset();
    }

    /// The numbers of the pages in some frames.
    pub fn page_numbers(&self, frames: Range<usize>) -> BTreeSet<u32> {
        self.frames.get(frames).unwrap_or_default().iter().map(|frame| frame.page_number).collect()
    }

    /// Bytes of the database after the last finished transaction.
    pub fn database_bytes(&self) -> u64 {
        u64::from(self.database_pages()) * self.page_bytes() as u64
    }

    /// The newest version of each page in the frames `first..committed`: page number and frame.
    pub fn newest(&self, first: usize) -> BTreeMap<u32, usize> {
        (first..self.committed).map(|number| (self.frames[number].page_number, number)).collect()
    }

    /// Copies a frame's page.
    pub fn copy_page(&self, number: usize, page: &mut [u8], data: &dyn File) -> file::Result<()> {
        self.store.read_page(number, 0, page, data)
    }

    /// Whether a frame's page is in memory.
    pub fn is_in_memory(&self, number: usize) -> bool {
        self.store.page_in_memory(number).is_some()
    }

    /// Where a frame's page is that was written early.
    pub fn away(&self, number: usize) -> Option<Spilled> {
        self.store.away(number)
    }

    /// These frames have their page there now.
    pub fn mark_spilled(&mut self, frames: impl IntoIterator<Item = (usize, Spilled)>) {
        for (number, away) in frames {
            self.store.mark_spilled(number, away);
        }
        self.store.end_copies();
    }
}

fn frame_of(header: &[u8]) -> Frame {
    Frame { page_number: be32(header, 0), database_pages: be32(header, 4), changed: 0 }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PageCleaner;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::path::Path;
    use std::sync::Arc;

    const PAGE: usize = 512;

    fn data() -> Arc<dyn File> {
        SimMedium::new().open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap()
    }

    /// A log, with what there is already.
    fn frames_of(bytes: &[u8]) -> Frames {
        let store = crate::txn::wal_bytes::tests::store(1 << 20);
        let policy = SpillPolicy::new(PageCleaner::Auto, 800);
        Frames::load(store, SqliteCacheReservation::uncounted(), policy, bytes, &*data()).unwrap()
    }

    fn frames() -> Frames {
        frames_of(&[])
    }

    fn header() -> Vec<u8> {
        let mut header = vec![0; HEADER_BYTES];
        header[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
        header
    }

    fn offset(number: usize) -> usize {
        HEADER_BYTES + number * (FRAME_HEADER_BYTES + PAGE)
    }

    fn write_frame(frames: &mut Frames, number: usize, page: u32, size: u32) -> Written {
        let mut header = vec![0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&page.to_be_bytes());
        header[4..8].copy_from_slice(&size.to_be_bytes());
        assert_eq!(frames.write(&header, offset(number), &*data()).unwrap(), Written::Part);
        frames.write(&[page as u8; PAGE], offset(number) + FRAME_HEADER_BYTES, &*data()).unwrap()
    }

    /// A VFS above that simulates a power cut writes such bytes; a page of that size takes gigabytes.
    #[test]
    fn a_header_with_an_impossible_page_size_takes_no_frames() {
        for bytes in [0x7000_0000_u32, 513, 256, 0] {
            let mut frames = frames();
            let mut sector = vec![7; 4096];
            sector[8..12].copy_from_slice(&bytes.to_be_bytes());
            assert!(frames.write(&sector, 0, &*data()).is_err(), "{bytes}");
            assert_eq!((frames.page_bytes(), frames.memory_bytes()), (0, 0), "{bytes}");
        }
    }

    /// A checkpoint that knows of the second transaction only would write the page of the first.
    #[test]
    fn a_page_that_was_cut_off_and_belongs_to_the_database_again_is_not_new() {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        write_frame(&mut frames, 0, 9, 0);
        write_frame(&mut frames, 1, 1, 5);
        write_frame(&mut frames, 2, 1, 20);
        frames.find_new(5 * PAGE as u64);
        assert_eq!([5, 6, 9, 10].map(|number| frames.large.is_new(number)), [false, true, false, true]);
    }

    /// Whatever was written as statements in between would build upon slots that are not there yet.
    #[test]
    fn a_transaction_has_spilled_pages_as_long_as_its_slots_are_not_logged() {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        write_frame(&mut frames, 0, 2, 0);
        write_frame(&mut frames, 1, 3, 0);
        let header = Header::first(PAGE as u32, None);
        let slots = litefoot_storage::wal_file::Slots { file: data(), offset: 56, header };
        frames.give_slots(&[2, 3], slots);
        // One comes back, and the other is given up.
        let last = write_frame(&mut frames, 1, 2, 5);
        let Written::Commit(transaction) = last else { panic!("no commit") };
        assert!(frames.has_spilled_pages(transaction) && !frames.has_idle_slots());
        assert_eq!(frames.frames_needed(transaction), 2 + 2 + 1);
        frames.slots_logged();
        assert!(!frames.has_spilled_pages(transaction));
        assert_eq!(frames.given_up, [3].into());
        frames.reset();
        assert!(frames.given_up.is_empty());
    }

    fn page(frames: &Frames, number: usize) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        frames.copy_page(number, &mut page, &*data()).unwrap();
        page
    }

    #[test]
    fn transactions_end_where_the_size_is_given() {
        let mut frames = frames();
        assert_eq!(frames.write(&header(), 0, &*data()).unwrap(), Written::Restart);
        assert_eq!(write_frame(&mut frames, 0, 3, 0), Written::Part);
        assert_eq!(write_frame(&mut frames, 1, 4, 9), Written::Commit(Transaction { first: 0, end: 2 }));
        assert_eq!((frames.newest(0), frames.database_pages()), ([(3, 0), (4, 1)].into(), 9));
        // Rolled back: two frames that the next transaction overwrites.
        assert_eq!(write_frame(&mut frames, 2, 5, 0), Written::Part);
        assert_eq!(write_frame(&mut frames, 3, 6, 0), Written::Part);
        assert_eq!(write_frame(&mut frames, 2, 7, 10), Written::Commit(Transaction { first: 2, end: 3 }));
        assert_eq!((frames.newest(2), frames.database_pages()), ([(7, 2)].into(), 10));
        assert_eq!(page(&frames, 2), [7; PAGE]);
        let mut bytes = vec![0; offset(3)];
        frames.read(&mut bytes, 0, &*data()).unwrap();
        let loaded = frames_of(&bytes);
        assert_eq!((loaded.committed(), loaded.newest(0)), (3, [(3, 0), (4, 1), (7, 2)].into()));
    }

    #[test]
    fn a_page_rewritten_within_its_transaction_counts_once() {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        write_frame(&mut frames, 0, 3, 0);
        // SQLite overwrites the page of a frame that it has spilled, without its header ...
        frames.write(&[42; PAGE], HEADER_BYTES + FRAME_HEADER_BYTES, &*data()).unwrap();
        assert_eq!(write_frame(&mut frames, 1, 4, 5), Written::Commit(Transaction { first: 0, end: 2 }));
        // ... and repairs the checksums in the headers afterwards.
        for number in 0..2 {
            assert_eq!(
                frames.write(&[0; FRAME_HEADER_BYTES], offset(number), &*data()).unwrap(),
                Written::Part
            );
        }
        assert_eq!(frames.newest(0), [(3, 0), (4, 1)].into());
        assert_eq!(page(&frames, 0), [42; PAGE]);
    }

    #[test]
    fn checksums_that_sqlite_got_wrong_are_rebuilt() {
        let mut frames = frames();
        let first = Header::first(PAGE as u32, None);
        let (head, checksum) = first.encode();
        frames.write(&head, 0, &*data()).unwrap();
        write_frame(&mut frames, 0, 3, 0);
        write_frame(&mut frames, 1, 4, 9);
        frames.rebuild_checksums(&*data()).unwrap();
        let mut checksum = checksum;
        for (number, expected) in [(3, 0), (4, 9)].into_iter().enumerate() {
            let mut bytes = vec![0; FRAME_HEADER_BYTES + PAGE];
            frames.read(&mut bytes, offset(number), &*data()).unwrap();
            let (page, size, next) = first.decode_frame(checksum, &bytes).unwrap();
            assert_eq!((page, size), expected);
            checksum = next;
        }
    }

    #[test]
    fn a_revoked_commit_gives_its_frames_back_and_one_that_was_not_is_noticed() {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        let Written::Commit(first) = write_frame(&mut frames, 0, 3, 5) else { panic!("no commit") };
        frames.revoke(first);
        assert_eq!(write_frame(&mut frames, 0, 8, 6), Written::Commit(first));
        assert_eq!(frames.newest(0), [(8, 0)].into());
        assert_eq!(write_frame(&mut frames, 0, 9, 6), Written::TakenBack);
    }
}
