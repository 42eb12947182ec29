//! The system's files without the system's own reading ahead: what a medium is by itself.

use litefoot_engine::device::{File, FileKind, Medium, OpenMode, OsMedium, PathInfo, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of the operating system that it does not read ahead. The files themselves are its own.
pub struct WithoutReadahead(OsMedium);

impl WithoutReadahead {
    pub fn new() -> WithoutReadahead {
        WithoutReadahead(OsMedium::new())
    }
}

impl Medium for WithoutReadahead {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.0.open(path, kind, mode)?;
        if let Some(descriptor) = file.raw_descriptor() {
            // SAFETY: a plain system call on an open descriptor. It is advice: where it is not taken, the figures
            // are those of a medium that reads ahead.
            let _ = unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM) };
        }
        Ok(file)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.0.delete(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        self.0.info(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.0.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.0.sync_directory(directory)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.0.absolute(path)
    }
}
