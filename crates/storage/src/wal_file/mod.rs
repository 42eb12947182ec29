//! The redo log: transactions of pages, in a `-wal` file of SQLite's format.
//!
//! # Why
//! A transaction of pages is durable with one sequential write and one sync. The file is a standard write-ahead log, so
//! any SQLite recovers it without litefoot.
//!
//! | file | holds |
//! |---|---|
//! | `format` | the bytes |
//! | `origin` | the database of a log |
//! | `scan` | the valid prefix of an existing file |
//! | `append` | transactions and slots on their way into the file |
//! | `ahead` | frames of a large transaction that are written before its end |
//! | `early` | pages of a transaction that are in the data file already |
//! | `compact` | a log with each page once, in the place of one that was not synced |
//! | `replace` | a log that was made elsewhere, in the place of this one |
//! | `file` | the file: its name, its lock, its space, its syncs |
//! | `kept` | a void file that a close leaves for the next opening |
//! | `mod` | the open log: reading, generations |
//!
//! # What it promises
//! 1. After [`RedoLog::append`] with [`Durability::Durable`] returned, the transaction and all before it
//!    survive a power cut; without it, a cut leaves a prefix of the transactions.
//! 2. An append that fails leaves the log as it was: the same frames are written again by the next one.
//! 3. A commit into space that was written before changes no metadata: one data sync, and one flush.
//! 4. Nothing is created on the medium before the first append.
//! 5. The file is locked while the log is open, and nothing that has its name is replaced or removed that is not this file.
//!
//! # Invariants
//! 1. Frames are written only behind the last committed one. In a new generation they are written only after its header
//!    is durable. Else an old header with an overwritten frame would leave an old prefix, and its replay over newer
//!    pages would destroy the database. A new file has no old generation, and a kept one has none that counts.
//!    [`FramesAhead`] are written there, too, and count for nothing before their transaction's last frame.
//! 2. [`RedoLog::reset`] is called only when every page of the log is in the database file and synced.
//! 3. Space is reserved before it is written. So a full disk is an error of the append and not of a sync, after which
//!    nothing could be trusted.

mod ahead;
mod append;
mod compact;
mod early;
mod file;
pub mod format;
mod kept;
pub mod origin;
mod replace;
mod scan;

pub use ahead::FramesAhead;
pub use compact::new_path;
pub use early::{EarlyPage, early_frames, early_pages};
pub use file::Whereabouts;
pub use kept::KeptLog;
pub use replace::replace;
pub use scan::{Frame, frames};

use crate::file::{DeviceError, File, Medium, OpenMode, Operation, Result, SyncLatch};
use crate::log_file::{Durability, Flush, read_up_to};
use early::AwaitedPages;
use file::LogFile;
use format::{Checksum, FRAME_HEADER_BYTES, HEADER_BYTES, Header, Origin, PageSum};
use origin::DataFile;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are reserved for a new file, and not written.
const FIRST_BYTES: u64 = 64 * 1024;

/// A transaction of pages.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// Pages that were written ahead into slots, in order; see [`RedoLog::reserve_slots`].
    pub slots: &'a [(u32, PageSum)],
    /// Pages that are in the data file already, durably.
    pub early: &'a [EarlyPage],
    /// The other pages it changed, each once.
    pub page_numbers: &'a [u32],
    /// Bytes of each.
    pub page_bytes: u32,
    /// Pages of the database after it.
    pub database_pages: u32,
}

/// Room in the log for pages of a transaction that is not finished yet.
pub struct ReservedSlots {
    /// The log's file.
    pub file: Arc<dyn File>,
    /// The offset of the first page; before each there is room for a frame's header.
    pub offset: u64,
    /// The header that [`Header::page_sum`] is asked of.
    pub header: Header,
}

/// An image of page 1 that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOneImage {
    /// Its frame.
    pub frame: u32,
    /// The number of transactions before its own.
    pub transaction: u32,
}

/// The content of an existing file, as the scan found it.
struct ScanResult {
    /// True if the file is a log, or empty.
    understood: bool,
    images: Vec<PageOneImage>,
    transactions: u32,
}

/// A redo log, and the index of its pages.
pub struct RedoLog {
    file: LogFile,
    found: ScanResult,
    /// The header on the medium; absent while there is none, or while everything in the log is void.
    header: Option<Header>,
    /// True if a commit log builds upon this generation, which must therefore go on.
    built_upon: bool,
    /// The last header there was, whose successor the next generation is.
    last: Option<Header>,
    checksum: Checksum,
    frames: u32,
    /// Frames behind them that a transaction writes ahead.
    slots: u32,
    /// Frames whose pages, as far as they are the newest, are in the database file.
    copied: u32,
    /// Frames that were made durable, or are about to be, or may have been by another process.
    synced: u32,
    newest: BTreeMap<u32, u32>,
    awaited: AwaitedPages,
    database_pages: u32,
    /// Frames on their way to the medium.
    buffer: Vec<u8>,
}

impl RedoLog {
    /// Takes over the file at `path`, if there is one.
    ///
    /// # Errors
    /// Errors of reading, and [`Operation::Lock`] where another database has it in use. Damage is none: frames count up
    /// to the first that is not valid.
    pub fn open(medium: Arc<dyn Medium>, path: &Path, latch: Arc<SyncLatch>) -> Result<RedoLog> {
        RedoLog::new(medium, path, latch, None).take_over(OpenMode::ReadWrite)
    }

    /// The same for the log of a data file, which its generations name.
    ///
    /// # Errors
    /// As [`RedoLog::open`].
    pub fn open_of(
        medium: Arc<dyn Medium>,
        path: &Path,
        latch: Arc<SyncLatch>,
        data: DataFile,
    ) -> Result<RedoLog> {
        RedoLog::new(medium, path, latch, Some(data)).take_over(OpenMode::ReadWrite)
    }

    /// Looks at the file at `path`, even one in use; nothing may be written to it.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn look(medium: Arc<dyn Medium>, path: &Path, data: Option<DataFile>) -> Result<RedoLog> {
        RedoLog::new(medium, path, Arc::default(), data).take_over(OpenMode::ReadOnly)
    }

    fn new(medium: Arc<dyn Medium>, path: &Path, latch: Arc<SyncLatch>, data: Option<DataFile>) -> RedoLog {
        RedoLog::of_file(LogFile::new(medium, path, latch, data))
    }

    /// An empty log.
    fn of_file(file: LogFile) -> RedoLog {
        RedoLog {
            file,
            found: ScanResult { understood: true, images: Vec::new(), transactions: 0 },
            header: None,
            built_upon: false,
            last: None,
            checksum: Checksum::default(),
            frames: 0,
            slots: 0,
            copied: 0,
            synced: 0,
            newest: BTreeMap::new(),
            awaited: AwaitedPages::default(),
            database_pages: 0,
            buffer: Vec::new(),
        }
    }

    fn take_over(mut self, mode: OpenMode) -> Result<RedoLog> {
        if let Some(file) = self.file.find(mode)? {
            self.take_over_file(file)?;
        }
        Ok(self)
    }

    fn take_over_file(&mut self, file: Arc<dyn File>) -> Result<()> {
        scan::scan(&*file, self)?;
        self.synced = self.frames;
        self.file.take_over(file);
        Ok(())
    }

    /// A log that has no file will have it at another place.
    pub fn relocate(&mut self, path: &Path) {
        self.file.relocate(path);
    }

    /// The path of the file, even before it exists.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Frames that count.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// True if the log has no page.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Bytes of the file up to the last frame that counts.
    pub fn bytes(&self) -> u64 {
        self.header.map_or(0, |header| header.frame_offset(self.frames))
    }

    /// Bytes of a page; 0 while the log is void.
    pub fn page_bytes(&self) -> u32 {
        self.header.map_or(0, |header| header.page_bytes)
    }

    /// The mark of this generation; `None` while the log is void.
    pub fn salts(&self) -> Option<[u32; 2]> {
        self.header.map(|header| header.salts)
    }

    /// True if the file is a log or empty, and not a foreign file.
    pub fn is_understood(&self) -> bool {
        self.found.understood
    }

    /// The origin in the header, if it has one.
    pub fn origin(&self) -> Option<Origin> {
        self.header.and_then(|header| header.origin())
    }

    /// True if the header names this file as the log, and another one as the data file.
    pub fn names_another_file(&self) -> Result<bool> {
        let (Some(origin), Some(file), Some(data)) = (self.origin(), self.file.opened(), self.file.data())
        else {
            return Ok(false);
        };
        Ok(origin.is_in(&**file)? && !origin.is_of(&*data.file)?)
    }

    /// The images of page 1 that were found, oldest first.
    pub fn page_one_images(&self) -> &[PageOneImage] {
        &self.found.images
    }

    /// The transactions that were found.
    pub fn transactions(&self) -> u32 {
        self.found.transactions
    }

    /// Reads the beginning of the page in a frame.
    pub fn read_frame(&self, frame: u32, buf: &mut [u8]) -> Result<()> {
        let (Some(header), Some(file)) = (self.header, self.file.opened()) else { return Ok(()) };
        file.read_at(buf, header.frame_offset(frame) + FRAME_HEADER_BYTES as u64).map(drop)
    }

    /// The place of the file. One call to the medium.
    pub fn whereabouts(&self) -> Result<Whereabouts> {
        self.file.whereabouts(self.bytes())
    }

    /// Bytes of memory it takes: the index, about, and the buffer.
    pub fn memory_bytes(&self) -> usize {
        (self.newest.len() + self.awaited.len()) * 2 * size_of::<(u32, u32)>() + self.buffer.capacity()
    }

    /// Pages of the database after the last transaction.
    pub fn database_pages(&self) -> u32 {
        self.database_pages
    }

    /// True if the newest version of a page is in the log.
    pub fn contains(&self, page_number: u32) -> bool {
        self.newest.contains_key(&page_number)
    }

    /// True for a page whose newest version the log awaits in the data file.
    pub fn awaits(&self, page_number: u32) -> bool {
        self.awaited.contains(page_number)
    }

    /// The number of those pages.
    pub fn awaited_pages(&self) -> usize {
        self.awaited.len()
    }

    /// True if the data file has the pages that the log awaits there.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn has_its_early_pages(&self) -> Result<bool> {
        self.file.data().map_or(Ok(true), |data| self.awaited.are_in(&*data.content, self.page_bytes()))
    }

    /// The pages in the log, by number.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        self.newest.keys().copied()
    }

    /// Notes that the pages of the first `frames` frames, or newer versions of them, have been copied to the
    /// database file.
    pub fn mark_copied(&mut self, frames: u32) {
        self.copied = frames;
    }

    /// The pages whose newest version came after the last [`RedoLog::mark_copied`].
    pub fn page_numbers_to_copy(&self) -> impl Iterator<Item = u32> {
        self.newest.iter().filter(|(_, frame)| **frame >= self.copied).map(|(number, _)| *number)
    }

    /// Reads the newest version of a page; `false` where the log does not have it.
    pub fn read_page(&self, page_number: u32, offset: usize, buf: &mut [u8]) -> Result<bool> {
        let (Some(frame), Some(header), Some(file)) =
            (self.newest.get(&page_number), self.header, self.file.opened())
        else {
            return Ok(false);
        };
        let start = header.frame_offset(*frame) + (FRAME_HEADER_BYTES + offset) as u64;
        if file.read_at(buf, start)? == buf.len() {
            return Ok(true);
        }
        // The page in the database file is older.
        let what = io::Error::other(format!("it was cut by somebody, and has lost page {page_number}"));
        Err(DeviceError::new(Operation::Read, self.file.path(), what))
    }

    /// The bytes of the file that count, header included.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        self.file.opened().map_or(Ok(Vec::new()), |file| read_up_to(&**file, 0, self.bytes()))
    }

    /// The checksum of the last of the first `frames` frames; `None` where there are not so many.
    pub fn checksum_after(&self, frames: u32) -> Result<Option<[u32; 2]>> {
        let (Some(header), Some(file)) = (self.header, self.file.opened()) else { return Ok(None) };
        if frames == 0 || frames > self.frames {
            return Ok(None);
        }
        let mut words = [0; 8];
        let read = file.read_at(&mut words, header.frame_offset(frames - 1) + format::CHECKSUM_AT as u64)?;
        let word = |at: usize| u32::from_be_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        Ok((read == words.len()).then(|| [word(0), word(4)]))
    }

    /// True if everything appended is durable.
    pub fn is_synced(&self) -> bool {
        self.file.is_synced()
    }

    /// Makes everything appended durable.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_for(Durability::Durable)?;
        self.synced = self.frames;
        Ok(())
    }

    /// A flush of everything appended, which needs no lock; `None` where nothing waits for a sync.
    pub fn flush(&mut self) -> Result<Option<Flush>> {
        let flush = self.file.flush()?;
        // A compaction takes them for durable: it then replaces them durably, or not at all.
        self.synced = self.frames;
        Ok(flush)
    }

    /// Voids the log: every page of it is in the database file, and that is synced. The next append begins
    /// a new generation.
    pub fn reset(&mut self) {
        self.last = self.header.take().or(self.last);
        self.built_upon = false;
        self.frames = 0;
        self.copied = 0;
        self.synced = 0;
        self.newest.clear();
        self.awaited.clear();
        self.database_pages = 0;
    }

    /// After a [`RedoLog::reset`]: voids the log durably, by the header of a new generation.
    pub fn restart(&mut self) -> Result<()> {
        match self.last {
            Some(last) if self.header.is_none() => self.begin(last.page_bytes).map(drop),
            _ => Ok(()),
        }
    }

    /// Begins a generation, unless one is open already: durably, but for the first one of a new file, which the next sync
    /// makes durable.
    pub fn begin(&mut self, page_bytes: u32) -> Result<Header> {
        match self.header {
            Some(header) if header.page_bytes == page_bytes && self.still_says(&header)? => {
                return Ok(header);
            }
            Some(header) if self.frames > 0 => {
                let what = format!("it holds pages of {} bytes, these have {page_bytes}", header.page_bytes);
                return Err(DeviceError::new(Operation::Write, self.file.path(), io::Error::other(what)));
            }
            _ => {}
        }
        self.file.check()?;
        let is_void = self.file.take_void();
        let file = self.file.open_or_create()?;
        let room = HEADER_BYTES as u64 + u64::from(page_bytes);
        if self.file.allocated() == 0 {
            // One change of the file system's metadata makes room for the next commits, too.
            file.allocate(room.max(FIRST_BYTES)).or_else(|_| file.allocate(room))?;
        } else {
            self.file.reserve(room)?;
        }
        let origin = self.file.data().map(|data| data.origin(&*file)).transpose()?;
        let header = match self.header.take().or(self.last) {
            Some(last) => last.next(page_bytes, origin),
            None => Header::first(page_bytes, origin),
        };
        let (bytes, checksum) = header.encode();
        if is_void {
            // No header counts there: it may become durable together with the first frames.
            self.file.write_later(&bytes, 0)?;
        } else {
            self.file.write_durably(&bytes, 0)?;
        }
        self.header = Some(header);
        self.checksum = checksum;
        Ok(header)
    }

    /// A commit log builds upon the generation that is open: it goes on until it is void, wherever its files are now.
    pub fn build_upon(&mut self) {
        self.built_upon = self.header.is_some();
    }

    /// Closes the file, which stays as it is: another process will go on with it.
    pub fn close(&mut self) {
        self.file.close();
    }

    /// True if an open generation goes on. One without frames may have begun before the data file was changed in
    /// another way.
    fn still_says(&self, header: &Header) -> Result<bool> {
        let (Some(data), Some(file)) = (self.file.data(), self.file.opened()) else { return Ok(true) };
        let goes_on = self.frames > 0 || self.slots > 0 || self.built_upon;
        Ok(goes_on || Some(data.origin(&**file)?) == header.origin())
    }

    /// Removes the file. Every page of it must be in the database file, and that synced. After a power cut nothing in the file
    /// counts, if its name comes back. A file that has lost its name stays, void.
    pub fn delete(&mut self) -> Result<()> {
        self.reset();
        self.last = None;
        self.slots = 0;
        self.file.delete()
    }

    /// Gives the file a name of its own, because another database has taken that of the data file.
    pub fn step_aside(&mut self) -> Result<()> {
        self.file.step_aside(self.bytes())
    }

    /// True while the file has a name of its own.
    pub fn is_aside(&self) -> bool {
        self.file.is_aside()
    }

    /// Gives the file its name again, because the data file has its own again.
    pub fn step_back(&mut self) -> Result<()> {
        self.file.step_back()
    }
}

#[cfg(test)]
pub(crate) mod tests;
