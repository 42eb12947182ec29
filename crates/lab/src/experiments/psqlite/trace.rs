//! Which chunks the transactions of a database write, noted at the device.

use litefoot_engine::device::{File, FileId, FileKind, Medium, OpenMode, PathInfo, RangeLock, Result};
use litefoot_engine::sync::Mutex;
use litefoot_engine::tier::CHUNK_BYTES;
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The chunks of each transaction: of what was written between two syncs of the database file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub transactions: Vec<BTreeSet<u32>>,
    current: BTreeSet<u32>,
}

/// Notes what is written to databases.
#[derive(Clone)]
pub struct TracingMedium {
    inner: Arc<dyn Medium>,
    trace: Arc<Mutex<Trace>>,
}

impl TracingMedium {
    pub fn new(inner: Arc<dyn Medium>) -> TracingMedium {
        TracingMedium { inner, trace: Arc::default() }
    }

    /// What was noted so far; begins anew.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut *self.trace.lock())
    }
}

impl Medium for TracingMedium {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(path, kind, mode)?;
        if kind == FileKind::Database {
            Ok(Arc::new(TracingFile { inner, trace: self.trace.clone() }))
        } else {
            Ok(inner)
        }
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.inner.delete(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        self.inner.info(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.inner.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }
}

struct TracingFile {
    inner: Arc<dyn File>,
    trace: Arc<Mutex<Trace>>,
}

impl File for TracingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.inner.read_vectored_at(bufs, offset)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset)?;
        let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        let chunks = offset / CHUNK_BYTES as u64..(offset + bytes).div_ceil(CHUNK_BYTES as u64);
        self.trace.lock().current.extend(chunks.map(|chunk| chunk as u32));
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_vectored_at(bufs, offset)?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        let mut trace = self.trace.lock();
        let written = std::mem::take(&mut trace.current);
        if !written.is_empty() {
            trace.transactions.push(written);
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> Result<bool> {
        self.inner.lock_range(offset, len, lock)
    }
}
