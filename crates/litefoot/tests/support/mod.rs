//! A medium that tells of each write and sync before it is done, and may make it wait.

use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result, Stamp};
use litefoot_storage::pass_on;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

/// Told of the kind of the file, and whether the call makes something durable.
pub type Hook = Arc<dyn Fn(FileKind, bool) + Send + Sync>;

#[derive(Clone)]
pub struct HookedMedium {
    pub medium: SimMedium,
    pub hook: Hook,
}

struct HookedFile {
    file: Arc<dyn File>,
    kind: FileKind,
    hook: Hook,
}

impl Medium for HookedMedium {
    pass_on!(medium: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.medium.open(path, kind, mode)?;
        Ok(Arc::new(HookedFile { file, kind, hook: self.hook.clone() }))
    }
}

impl File for HookedFile {
    pass_on!(file: read_at, read_vectored_at, stamp, len, set_len, allocate, id, path, lock_range);

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        (self.hook)(self.kind, false);
        self.file.write_vectored_at(bufs, offset)
    }
    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        (self.hook)(self.kind, true);
        self.file.write_durable_at(bufs, offset)
    }
    fn sync(&self) -> Result<()> {
        (self.hook)(self.kind, true);
        self.file.sync()
    }
    fn set_stamp(&self) -> Result<Stamp> {
        (self.hook)(self.kind, true);
        self.file.set_stamp()
    }
}
