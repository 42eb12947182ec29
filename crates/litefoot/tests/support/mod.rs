//! A medium that tells of each write and sync before it is done, and may make it wait.

use litefoot_engine::device::{
    File, FileId, FileKind, Medium, OpenMode, PathInfo, RangeLock, Result, SimMedium,
};
use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
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
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.medium.open(path, kind, mode)?;
        Ok(Arc::new(HookedFile { file, kind, hook: self.hook.clone() }))
    }
    fn delete(&self, path: &Path) -> Result<()> {
        self.medium.delete(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.medium.rename(from, to)
    }
    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        self.medium.info(path)
    }
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.medium.list(directory)
    }
    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.medium.sync_directory(directory)
    }
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.medium.absolute(path)
    }
}

impl File for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.file.read_vectored_at(bufs, offset)
    }
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
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> Result<()> {
        self.file.allocate(len)
    }
    fn id(&self) -> FileId {
        self.file.id()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> Result<bool> {
        self.file.lock_range(offset, len, lock)
    }
}
