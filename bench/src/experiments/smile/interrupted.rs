//! The system's files, until the writes to data files fail: what a crash leaves between a redo log and its file.

use litefoot_storage::file::{DeviceError, File, FileKind, Medium, OpenMode, Operation, Result};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files of the operating system whose data files refuse writes once [`Interruptible::interrupt`] is called.
#[derive(Default)]
pub struct Interruptible {
    system: OsMedium,
    interrupted: Arc<AtomicBool>,
}

impl Interruptible {
    /// From now on no data file is written.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
    }
}

impl Medium for Interruptible {
    pass_on!(system: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.system.open(path, kind, mode)?;
        match kind {
            FileKind::Database => {
                Ok(Arc::new(InterruptibleFile { inner, interrupted: self.interrupted.clone() }))
            }
            _ => Ok(inner),
        }
    }
}

struct InterruptibleFile {
    inner: Arc<dyn File>,
    interrupted: Arc<AtomicBool>,
}

impl File for InterruptibleFile {
    pass_on!(inner: read_at, read_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path, lock_range);

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        if self.interrupted.load(Ordering::Acquire) {
            let crash = io::Error::other("interrupted by the experiment");
            return Err(DeviceError::new(Operation::Write, self.inner.path(), crash));
        }
        self.inner.write_vectored_at(bufs, offset)
    }
}
