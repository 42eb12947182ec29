//! Which chunks the transactions of a database write, noted at the device.

use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result, Stamp, total_bytes};
use litefoot_storage::pass_on;
use litefoot_storage::sync::Mutex;
use litefoot_tier::CHUNK_BYTES;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::Path;
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

    /// Takes the trace so far; a new one begins.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut *self.trace.lock())
    }
}

impl Medium for TracingMedium {
    pass_on!(inner: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(path, kind, mode)?;
        if kind == FileKind::Database {
            Ok(Arc::new(TracingFile { inner, trace: self.trace.clone() }))
        } else {
            Ok(inner)
        }
    }
}

struct TracingFile {
    inner: Arc<dyn File>,
    trace: Arc<Mutex<Trace>>,
}

impl File for TracingFile {
    pass_on!(inner: read_at, read_vectored_at, stamp, len, set_len, allocate, id, path, lock_range);

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset)?;
        let end = offset + total_bytes(bufs);
        let chunks = offset / CHUNK_BYTES as u64..end.div_ceil(CHUNK_BYTES as u64);
        self.trace.lock().current.extend(chunks.map(|chunk| chunk as u32));
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_vectored_at(bufs, offset)?;
        self.sync()
    }

    fn set_stamp(&self) -> Result<Stamp> {
        self.sync()?;
        self.inner.set_stamp()
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
}
