//! Temporary files: nameless as soon as they are open, so that nothing is left behind, however the process
//! ends.

use litefoot_engine::device::{DeviceError, File, FileKind, Medium, OpenMode, Operation, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Attempts to find a free name for a temporary file.
const NAME_ATTEMPTS: u32 = 100;

/// Where temporary files come from.
pub struct TemporaryFiles {
    /// The medium.
    pub medium: Arc<dyn Medium>,
    /// The name of the VFS, part of a file's name.
    pub vfs: String,
}

impl TemporaryFiles {
    /// A new file without a name.
    pub fn open(&self) -> Result<Arc<dyn File>> {
        let path = self.free_path()?;
        let file = self.medium.open(&path, FileKind::Temporary, OpenMode::CreateNew)?;
        self.medium.delete(&path)?;
        Ok(file)
    }

    /// A path that nobody uses yet.
    pub fn free_path(&self) -> Result<PathBuf> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let directory = self.directory();
        for _ in 0..NAME_ATTEMPTS {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("litefoot-{}-{}-{number:x}.tmp", std::process::id(), self.vfs);
            let path = directory.join(name);
            if self.medium.info(&path)?.is_none() {
                return Ok(path);
            }
        }
        let none = io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file");
        Err(DeviceError::new(Operation::Open, &directory, none))
    }

    /// The directory that SQLite's own VFS would take.
    fn directory(&self) -> PathBuf {
        let usable = |path: &Path| {
            self.medium.info(path).ok().flatten().is_some_and(|info| !info.is_file && info.writable)
        };
        ["SQLITE_TMPDIR", "TMPDIR"]
            .iter()
            .filter_map(|name| std::env::var_os(name).map(PathBuf::from))
            .chain(["/var/tmp", "/usr/tmp", "/tmp"].map(PathBuf::from))
            .find(|path| usable(path))
            .unwrap_or_else(|| PathBuf::from("."))
    }
}
