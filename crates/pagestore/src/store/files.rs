//! The three files of a database: creating, opening, recovering.

use super::allocation::{Allocation, pages_per_group};
use super::metadata::{self, Metadata};
use super::{Error, PAGE_SIZES, Result};
use litefoot_storage::file::{
    DeviceError, ErrorKind, File, FileKind, Medium, OpenMode, RangeLock, SyncLatch, beside, parent_directory,
    runs,
};
use litefoot_storage::wal_file::RedoLog;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffixes of the files beside the data file.
const META: &str = "-meta";
const REDO: &str = "-redo";
/// Suffix of the metadata file until it is complete.
const UNFINISHED: &str = "-meta-unfinished";

pub(super) struct Files {
    pub path: PathBuf,
    pub data: Arc<dyn File>,
    pub meta: Arc<dyn File>,
    pub metadata: Metadata,
    pub redo: RedoLog,
    pub latch: Arc<SyncLatch>,
}

/// True if there is a database: its metadata file comes last.
pub(super) fn exist(medium: &dyn Medium, path: &Path) -> Result<bool> {
    Ok(medium.info(&beside(path, META))?.is_some())
}

/// Removes all files of a database that are there. The metadata goes first: without it there is no database.
pub(super) fn remove(medium: &dyn Medium, path: &Path) -> Result<()> {
    let all = [META, UNFINISHED, REDO, ""].map(|suffix| medium.delete(&beside(path, suffix)));
    let failed =
        all.into_iter().filter_map(|result| result.err()).find(|error| error.kind() != ErrorKind::NotFound);
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Makes an empty database: page 0 and the metadata. Nothing is left where that fails.
pub(super) fn create(medium: &Arc<dyn Medium>, path: &Path, page_bytes: usize) -> Result<()> {
    if !PAGE_SIZES.contains(&page_bytes) {
        return Err(Error::PageSize(page_bytes));
    }
    for path in [path.to_owned(), beside(path, META), beside(path, REDO)] {
        if medium.info(&path)?.is_some() {
            return Err(Error::AlreadyExists { path });
        }
    }
    let data = medium.open(path, FileKind::Database, OpenMode::CreateNew);
    // The process that has made the data file makes the others: no other process does.
    let data = data.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::InvalidPath { path: path.to_owned() },
        ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.to_owned() },
        _ => error.into(),
    })?;
    let result = write_new(medium, path, &*data, page_bytes);
    if result.is_err() {
        // A file that cannot be removed either keeps its name, and the next attempt names it.
        let _ = remove(&**medium, path);
    }
    result
}

fn write_new(medium: &Arc<dyn Medium>, path: &Path, data: &dyn File, page_bytes: usize) -> Result<()> {
    let mut page = vec![0; page_bytes];
    Allocation::new(page_bytes as u32).encode(0, &mut page);
    data.write_at(&page, 0)?;
    data.sync()?;
    let unfinished = beside(path, UNFINISHED);
    // A file that a power cut has left has no owner.
    let meta = medium.open(&unfinished, FileKind::Metadata, OpenMode::Create)?;
    meta.set_len(0)?;
    meta.write_at(&Metadata { page_size: page_bytes as u32, groups: 1 }.encode(), 0)?;
    meta.sync()?;
    // The data file has its name for good before the one appears that says so.
    medium.sync_directory(parent_directory(path))?;
    medium.rename(&unfinished, &beside(path, META))?;
    Ok(medium.sync_directory(parent_directory(path))?)
}

impl Files {
    /// Opens a database, and brings it into the state of the last checkpoint.
    pub fn open(medium: &Arc<dyn Medium>, path: &Path) -> Result<(Files, Allocation)> {
        let open = |path: &Path, kind| {
            medium.open(path, kind, OpenMode::ReadWrite).map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
                _ => error.into(),
            })
        };
        let data = open(&medium.absolute(path)?.path, FileKind::Database)?;
        if !data.lock_range(0, 1, RangeLock::Exclusive)? {
            return Err(Error::InUse { path: path.to_owned() });
        }
        let meta = open(&beside(path, META), FileKind::Metadata)?;
        let mut bytes = vec![0; metadata::BYTES + 1];
        let read = meta.read_at(&mut bytes, 0)?;
        let damaged = |what| Error::Damaged { path: meta.path().to_owned(), what };
        let metadata = Metadata::decode(&bytes[..read]).map_err(damaged)?;
        let latch = Arc::new(SyncLatch::new());
        let redo = RedoLog::open(medium.clone(), &beside(path, REDO), latch.clone())?;
        let mut files = Files { path: path.to_owned(), data, meta, metadata, redo, latch };
        let is_synced = files.recover()?;
        let allocation = files.read_allocation(is_synced)?;
        Ok((files, allocation))
    }

    pub fn page_bytes(&self) -> usize {
        self.metadata.page_size as usize
    }

    /// Brings what is in the redo log into the data file. Answers whether the data file was synced.
    ///
    /// The log stays, as after a checkpoint: a crash before the next generation finds it again, and the same pages.
    fn recover(&mut self) -> Result<bool> {
        if self.redo.is_empty() {
            self.redo.delete()?;
            return Ok(false);
        }
        let page_bytes = self.page_bytes();
        if self.redo.page_bytes() as usize != page_bytes {
            return Err(Error::Damaged {
                path: self.redo.path().to_owned(),
                what: format!("it holds pages of {} bytes, not {page_bytes}", self.redo.page_bytes()),
            });
        }
        // The copied pages must be durable, or a second power cut leaves a mixture.
        self.redo.sync()?;
        let mut buffer = Vec::new();
        let numbers: Vec<u32> = self.redo.page_numbers().collect();
        for run in runs(&numbers, page_bytes, |number| u64::from(*number)) {
            buffer.resize(run.len() * page_bytes, 0);
            for (number, page) in run.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
                self.redo.read_page(*number, 0, page)?;
            }
            self.data.write_at(&buffer, u64::from(run[0] - 1) * page_bytes as u64)?;
        }
        let pages = u64::from(self.redo.database_pages());
        self.data.set_len(pages * page_bytes as u64)?;
        self.latch.watch(self.data.sync())?;
        self.note_groups(pages.div_ceil(pages_per_group(page_bytes)) as u32)?;
        // The writer of the metadata may have died before it was durable.
        self.latch.watch(self.meta.sync())?;
        self.redo.reset();
        Ok(true)
    }

    /// The file has so many groups of pages, durably.
    pub fn note_groups(&mut self, groups: u32) -> std::result::Result<(), DeviceError> {
        if groups > self.metadata.groups {
            let metadata = Metadata { groups, ..self.metadata };
            self.meta.write_at(&metadata.encode(), 0)?;
            self.latch.watch(self.meta.sync())?;
            self.metadata = metadata;
        }
        Ok(())
    }

    /// Cuts off all bytes behind the last page, durably. Pages that come there later may count as zeros without being
    /// written.
    pub fn cut(&self, len: u64) -> std::result::Result<(), DeviceError> {
        self.data.set_len(len)?;
        self.latch.watch(self.data.sync())
    }

    /// The allocation table, after which the file has exactly the pages that it says.
    fn read_allocation(&self, is_synced: bool) -> Result<Allocation> {
        let page_bytes = self.page_bytes() as u64;
        let len = self.data.len()?;
        let too_short = |expected| Error::Truncated { path: self.path.clone(), bytes: len, expected };
        let mut bytes = Vec::new();
        for group in 0..u64::from(self.metadata.groups) {
            let at = group * pages_per_group(self.page_bytes()) * page_bytes;
            let mut page = vec![0; page_bytes as usize];
            if self.data.read_at(&mut page, at)? < page.len() {
                return Err(too_short(at + page_bytes));
            }
            bytes.extend_from_slice(&page);
        }
        let damaged = |what| Error::Damaged { path: self.path.clone(), what };
        let allocation = Allocation::decode(self.metadata.page_size, &bytes).map_err(damaged)?;
        let expected = allocation.pages() * page_bytes;
        if len < expected {
            return Err(too_short(expected));
        }
        if len > expected {
            self.data.set_len(expected)?;
        }
        // Also where nothing was cut: a process that cut the file may have ended before that was durable.
        if len > expected || !is_synced {
            self.latch.watch(self.data.sync())?;
        }
        Ok(allocation)
    }
}
