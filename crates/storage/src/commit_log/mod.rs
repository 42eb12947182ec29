//! The commit log: how transactions changed their pages, or what they said, instead of the pages.
//!
//! # Why
//! The deltas of a small transaction, or its statements, take some hundred bytes; its pages take kilobytes. The log holds
//! such transactions until their pages are materialized in the redo log, all at once and each page once.
//!
//! # What it promises
//! 1. After [`CommitLog::append`] with [`Durability::Durable`] returned, the records and all before them
//!    survive a power cut.
//! 2. An append into space that was made by [`CommitLog::reserve`] changes no metadata, and cannot fail for
//!    want of space.
//! 3. Records of one generation are never taken for those of another.
//! 4. Nothing is created on the medium before the first [`CommitLog::reserve`].
//! 5. One log belongs to one database: the file is locked while it is open.
//! 6. A file that is not understood is told by [`CommitLog::is_understood`]. The caller must not change such a file: it
//!    may be a log of a later version, or a foreign file under a wrong name.
//!
//! # Invariants
//! 1. A generation builds upon one state of the redo log or of the data file, its [`Base`]. The caller that begins one has
//!    made that state durable before.
//! 2. The first records of a generation are written only once the header of the one before durably says that its records are of no
//!    more use. That write, header and records, may be torn: an older header that was still in use would get a part of its records.
//!
//! The payload of a record is not understood here.

pub mod format;
mod look;
mod place;
#[cfg(test)]
mod tests;

use crate::file::{
    DeviceError, File, FileKind, Medium, OpenMode, Operation, Result, SyncLatch, parent_directory,
};
use crate::log_file::{Durability, Flush, InUse, Unsynced, read_up_to, space};
use crate::wal_file::format::Origin;
use crate::wal_file::origin::DataFile;
use format::{ALIGNMENT, BLOCK_BYTES, HEADER_BYTES, Header, RECORD_HEADER_BYTES, record_bytes};
pub use format::{Base, DeltaBase, StatementBase, Writer};
pub use look::base_at;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the buffer that are kept from one append to the next.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of the file that are read at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes that no record has.
const MOST_RECORD_BYTES: usize = 64 << 20;

/// A record: what kind, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Chosen by the caller of append.
    pub kind: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A commit log.
pub struct CommitLog {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    /// The name that the file has given up, while it has one of its own.
    given_up: Option<PathBuf>,
    latch: Arc<SyncLatch>,
    file: Option<Arc<dyn File>>,
    in_use: Option<InUse>,
    name_unsynced: bool,
    unsynced: Unsynced,
    /// The generation; absent while there never was one.
    header: Option<Header>,
    /// True once its header is on the medium.
    header_written: bool,
    /// The header of a generation that is over, where it could not be written yet.
    retired: Option<Header>,
    /// True while the medium may still have the header of a generation that is over as one in use.
    retirement_unsynced: bool,
    understood: bool,
    /// The offset of the next record.
    end: u64,
    sequence: u64,
    /// Bytes of the file that were written at least once.
    written: u64,
    buffer: Vec<u8>,
}

impl CommitLog {
    /// Takes over the file at `path`, if there is one.
    ///
    /// # Errors
    /// Errors of reading, and that another database has it in use. Damage is none: records count up to the first that
    /// is not valid.
    pub fn open(medium: Arc<dyn Medium>, path: &Path, latch: Arc<SyncLatch>) -> Result<CommitLog> {
        let mut log = CommitLog {
            medium,
            path: path.to_owned(),
            given_up: None,
            latch,
            file: None,
            in_use: None,
            name_unsynced: false,
            unsynced: Unsynced::default(),
            header: None,
            header_written: false,
            retired: None,
            retirement_unsynced: false,
            understood: true,
            end: HEADER_BYTES,
            sequence: 0,
            written: 0,
            buffer: Vec::new(),
        };
        if log.medium.info(path)?.is_some_and(|info| info.is_file) {
            let file = log.medium.open(path, FileKind::CommitLog, OpenMode::ReadWrite)?;
            log.in_use = Some(InUse::take(&file)?);
            log.written = file.len()?;
            log.file = Some(file);
            // The writer may have died before the name, or the last bytes, were durable.
            log.name_unsynced = true;
            log.unsynced.note_write();
            log.scan()?;
        }
        Ok(log)
    }

    /// A log that has no file will have it at another place.
    pub fn relocate(&mut self, path: &Path) {
        if self.file.is_none() {
            path.clone_into(&mut self.path);
        }
    }

    /// The path of the file, even before it exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the file is a log: its header is valid, or there is none yet.
    pub fn is_understood(&self) -> bool {
        self.understood
    }

    /// The data file that deltas build upon, while records of them wait to be recovered.
    pub fn waiting_deltas(&self) -> Option<DeltaBase> {
        match self.base() {
            Some(Base::Deltas(base)) if !self.is_empty() => Some(base),
            _ => None,
        }
    }

    /// True if a user who may not write the database may have written the file, or if that is not known.
    pub fn is_strangers(&self, database: &Path) -> Result<bool> {
        let (Some(log), Some(database)) = (self.medium.info(&self.path)?, self.medium.info(database)?) else {
            return Ok(true);
        };
        Ok(self.file.as_ref().is_none_or(|file| file.id() != log.id) || log.is_strangers(&database))
    }

    /// The state that the records build upon, while they wait to be recovered.
    pub fn base(&self) -> Option<Base> {
        self.header.and_then(|header| header.base)
    }

    /// The redo log that statements build upon, while they wait to be replayed.
    pub fn statement_base(&self) -> Option<StatementBase> {
        match self.base() {
            Some(Base::Statements(base)) => Some(base),
            _ => None,
        }
    }

    /// The origin for a generation that begins now; `None` before there is a file.
    pub fn origin(&self, data: &DataFile) -> Result<Option<Origin>> {
        self.file.as_ref().map(|file| data.origin(&**file)).transpose()
    }

    /// True if its file is the log of `origin`; `false` before there is a file.
    pub fn is_of(&self, origin: &Origin) -> Result<bool> {
        self.file.as_ref().map_or(Ok(false), |file| origin.is_in(&**file))
    }

    /// True if no record waits.
    pub fn is_empty(&self) -> bool {
        self.base().is_none() || self.sequence == 0
    }

    /// Bytes up to the last record.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Bytes that can be appended up to without making room.
    pub fn room(&self) -> u64 {
        self.written
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The records that wait to be recovered, in order, in memory.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        self.for_each_record(|kind, payload| records.push(Record { kind, payload: payload.to_vec() }))?;
        Ok(records)
    }

    /// Tells of the records that wait to be recovered, in order: kind and payload. No more than one of them is in memory.
    pub fn for_each_record(&self, tell: impl FnMut(u32, &[u8])) -> Result<()> {
        match (self.header.filter(|header| header.base.is_some()), &self.file) {
            (Some(header), Some(file)) => walk(&**file, self.written, header.generation, tell).map(drop),
            _ => Ok(()),
        }
    }

    /// Makes room for records up to `end` bytes of the file.
    pub fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.written {
            return Ok(());
        }
        self.latch.check(&self.path)?;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = self.medium.open(&self.path, FileKind::CommitLog, OpenMode::Create)?;
                self.in_use = Some(InUse::take(&file)?);
                self.name_unsynced = true;
                self.file.insert(file).clone()
            }
        };
        self.unsynced.note_write();
        self.written = space::grow(&*file, self.written, end)?;
        Ok(())
    }

    /// Begins a generation upon `base`, which is durable, after the one before was retired. Nothing is written
    /// before the first append.
    pub fn begin(&mut self, base: Base) {
        let generation = self.header.map_or(0, |header| header.generation).wrapping_add(1);
        self.header = Some(Header { generation, base: Some(base) });
        self.header_written = false;
        self.end = HEADER_BYTES;
        self.sequence = 0;
    }

    /// Appends records, into room that was made before.
    pub fn append(&mut self, records: &[Record], durability: Durability) -> Result<()> {
        let (Some(header), Some(file)) = (self.header, self.file.clone()) else {
            if records.is_empty() {
                return Ok(());
            }
            let nowhere = io::Error::other("it is not open, or no generation has begun");
            return Err(DeviceError::new(Operation::Write, &self.path, nowhere));
        };
        self.latch.check(&self.path)?;
        if self.retirement_unsynced && !self.header_written {
            self.sync()?;
        }
        self.buffer.clear();
        let offset = if self.header_written {
            self.end
        } else {
            self.buffer.extend_from_slice(&header.encode());
            0
        };
        let before = self.buffer.len() as u64;
        let sequence = encode_all(&mut self.buffer, header.generation, self.sequence, records);
        let offset = self.place(offset, self.buffer.len(), false);
        let bytes = [IoSlice::new(&self.buffer)];
        // SQLite rolls a transaction back that has failed: the next opening must not find it, as far as the device lets us.
        let disown = |_: &DeviceError| drop(file.write_at(&[0; RECORD_HEADER_BYTES], offset + before));
        if durability == Durability::Durable && !self.unsynced.is_any() {
            self.latch.watch(file.write_durable_at(&bytes, offset)).inspect_err(disown)?;
        } else {
            file.write_vectored_at(&bytes, offset)?;
            self.unsynced.note_write();
        }
        self.end = offset + self.buffer.len() as u64;
        self.sequence = sequence;
        self.header_written = true;
        self.buffer.shrink_to(KEPT_BUFFER_BYTES);
        if durability == Durability::Durable { self.sync().inspect_err(disown) } else { Ok(()) }
    }

    /// Gives records their place, in room that was made before. The caller writes them without the lock on the log, and
    /// others may be staged behind them meanwhile. `None` where only [`CommitLog::append`] can write: before the first
    /// record of a generation, and while anything waits for a sync.
    ///
    /// With `own_blocks` the records begin a block, where there is room, so that writing them does not wait for the
    /// write before.
    pub fn stage(&mut self, records: &[Record], own_blocks: bool) -> Option<StagedRecords> {
        let (Some(header), Some(file)) = (self.header, self.file.clone()) else { return None };
        if !self.can_stage() {
            return None;
        }
        let mut bytes = Vec::with_capacity(CommitLog::bytes_of(
            records.iter().map(|record| record.payload.len()),
        ) as usize);
        let sequence = encode_all(&mut bytes, header.generation, self.sequence, records);
        let offset = self.place(self.end, bytes.len(), own_blocks);
        self.end = offset + bytes.len() as u64;
        self.sequence = sequence;
        Some(StagedRecords { file, latch: self.latch.clone(), bytes, offset })
    }

    /// The offset for records that take `bytes`, from `end` on: in the block there, where they fit into it, or else from the next
    /// block on. So a small commit is one block of the medium.
    fn place(&self, end: u64, bytes: usize, own_blocks: bool) -> u64 {
        let (block, bytes) = (end.next_multiple_of(BLOCK_BYTES), bytes as u64);
        let fits = end + bytes <= block || bytes > BLOCK_BYTES;
        let has_room = block + bytes <= self.written;
        if end > 0 && has_room && (own_blocks || !fits) { block } else { end }
    }

    /// True where records can be staged.
    pub fn can_stage(&self) -> bool {
        self.file.is_some() && self.header_written && !self.unsynced.is_any() && !self.name_unsynced
    }

    /// Bytes that records of these payloads take.
    pub fn bytes_of(payloads: impl IntoIterator<Item = usize>) -> u64 {
        payloads.into_iter().map(|bytes| record_bytes(bytes) as u64).sum()
    }

    /// Makes everything appended durable.
    pub fn sync(&mut self) -> Result<()> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        if self.unsynced.is_any() {
            self.latch.check(&self.path)?;
            if let Some(retired) = self.retired {
                file.write_at(&retired.encode(), 0)?;
                self.retired = None;
            }
            self.latch.watch(file.sync())?;
            self.unsynced.clear();
        }
        self.retirement_unsynced = false;
        if self.name_unsynced {
            self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
            self.name_unsynced = false;
        }
        Ok(())
    }

    /// A flush of everything appended, which needs no lock; the name of a new file is synced here. `None` where nothing waits
    /// for a sync.
    pub fn flush(&mut self) -> Result<Option<Flush>> {
        if self.name_unsynced || self.retired.is_some() {
            self.sync()?;
        }
        Ok(self.file.as_ref().and_then(|file| self.unsynced.flush(file, &self.latch)))
    }

    /// The records are of no more use, and the header says so; durable after [`CommitLog::sync`] only, which
    /// also writes it where that fails now.
    pub fn retire(&mut self) {
        let Some(header) = self.header.filter(|header| header.base.is_some()) else { return };
        let retired = Header { base: None, ..header };
        self.header = Some(retired);
        self.end = HEADER_BYTES;
        self.sequence = 0;
        if let (true, Some(file)) = (self.header_written, &self.file) {
            let written = self.latch.check(&self.path).and_then(|()| file.write_at(&retired.encode(), 0));
            self.retired = written.is_err().then_some(retired);
            self.retirement_unsynced = true;
            self.unsynced.note_write();
        }
    }

    /// Closes the file, which stays as it is, retired: another process will go on with it.
    pub fn close(&mut self) {
        (self.file, self.in_use, self.header, self.header_written) = (None, None, None, false);
        (self.end, self.sequence, self.written) = (HEADER_BYTES, 0, 0);
        (self.name_unsynced, self.retired, self.retirement_unsynced) = (false, None, false);
        self.unsynced.clear();
        // The next one has the name that this one had.
        if let Some(name) = self.given_up.take() {
            self.path = name;
        }
    }

    /// Removes the file, for good.
    pub fn delete(&mut self) -> Result<()> {
        if let Some(file) = &self.file {
            // Where the name is another file's, that is another database's.
            if self.medium.identity(&self.path)? == Some(file.id()) {
                self.medium.delete(&self.path)?;
                self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
            }
        }
        self.close();
        Ok(())
    }

    /// Finds the generation and the end of its records.
    fn scan(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut bytes = vec![0; HEADER_BYTES as usize];
        let read = file.read_at(&mut bytes, 0)?;
        self.header = Header::decode(&bytes[..read]);
        self.header_written = self.header.is_some();
        // A power cut leaves the whole sector of the header, or zeros.
        self.understood = self.header_written || bytes.iter().all(|byte| *byte == 0);
        let Some(header) = self.header else { return Ok(()) };
        (self.end, self.sequence) = walk(&**file, self.written, header.generation, |_, _| ())?;
        // The writer may have died before that was durable.
        self.retirement_unsynced = self.is_empty();
        Ok(())
    }
}

/// Records that have their place in the log, and are not written yet.
pub struct StagedRecords {
    file: Arc<dyn File>,
    latch: Arc<SyncLatch>,
    bytes: Vec<u8>,
    offset: u64,
}

impl StagedRecords {
    /// Writes them durably. They count once all records before them are durable, too.
    pub fn write(&self) -> Result<()> {
        self.latch.check(self.file.path())?;
        self.latch.watch(self.file.write_durable_at(&[IoSlice::new(&self.bytes)], self.offset))
    }
}

/// Appends records to `out`; answers the sequence of the next one.
fn encode_all(out: &mut Vec<u8>, generation: u64, first: u64, records: &[Record]) -> u64 {
    let mut sequence = first;
    for record in records {
        format::encode_record(out, generation, record.kind, sequence, &record.payload);
        sequence += 1;
    }
    sequence
}

/// Tells of the valid records, in order; answers where they end, and their number. Of a file of any length no more is read,
/// and kept in memory, than a record that it really has, and a block.
fn walk(file: &dyn File, len: u64, generation: u64, mut tell: impl FnMut(u32, &[u8])) -> Result<(u64, u64)> {
    let mut window = Window { file, len, end: HEADER_BYTES, bytes: Vec::new(), at: 0 };
    let (mut end, mut sequence) = (HEADER_BYTES, 0);
    loop {
        let mut found = window.tell(generation, sequence, &mut tell)?;
        if !found && window.skip_to_block()? {
            found = window.tell(generation, sequence, &mut tell)?;
        }
        if !found {
            return Ok((end, sequence));
        }
        // The padding of the last record may be missing.
        end = window.position().next_multiple_of(ALIGNMENT as u64);
        sequence += 1;
    }
}

/// A part of a file, in memory.
struct Window<'a> {
    file: &'a dyn File,
    /// Length of the file.
    len: u64,
    /// The end of the part in the file.
    end: u64,
    bytes: Vec<u8>,
    /// The next record in it.
    at: usize,
}

impl Window<'_> {
    /// The offset of the next record in the file.
    fn position(&self) -> u64 {
        self.end - (self.bytes.len() - self.at) as u64
    }

    /// Tells of the record at this place; `false` where there is none with that sequence.
    fn tell(&mut self, generation: u64, sequence: u64, tell: &mut impl FnMut(u32, &[u8])) -> Result<bool> {
        let claimed = format::claimed_bytes(self.see(format::LEAST_BYTES)?);
        let Some(claimed) = claimed.filter(|bytes| *bytes <= MOST_RECORD_BYTES) else { return Ok(false) };
        let record = format::decode_record(self.see(claimed)?, generation, sequence);
        let Some((kind, payload, taken)) = record else { return Ok(false) };
        tell(kind, payload);
        let padding = taken - claimed;
        self.at += claimed;
        self.at += self.see(padding)?.len().min(padding);
        Ok(true)
    }

    /// Goes to the next block; `false` at the end of the file, and where this is the beginning of a block.
    fn skip_to_block(&mut self) -> Result<bool> {
        let position = self.position();
        let skipped = (position.next_multiple_of(BLOCK_BYTES) - position) as usize;
        if skipped == 0 || self.see(skipped)?.len() < skipped {
            return Ok(false);
        }
        self.at += skipped;
        Ok(true)
    }

    /// The next bytes, if there are so many.
    fn see(&mut self, wanted: usize) -> Result<&[u8]> {
        let available = self.bytes.len() - self.at;
        if available < wanted && self.end < self.len {
            self.bytes.drain(..self.at);
            self.at = 0;
            let more = ((wanted - available) as u64).max(WINDOW_BYTES).min(self.len - self.end);
            let read = read_up_to(self.file, self.end, more)?;
            self.end += read.len() as u64;
            self.bytes.extend_from_slice(&read);
        }
        Ok(&self.bytes[self.at..])
    }
}
