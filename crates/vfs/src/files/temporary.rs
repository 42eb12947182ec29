//! Temporary files: nameless as soon as they are open, so that nothing is left behind, however the process
//! ends.
//!
//! Their directory is shared with everybody, so a name cannot be foreseen, and a file that is there is not taken.

use crate::notice;
use litefoot_storage::file::{DeviceError, ErrorKind, File, FileKind, Medium, OpenMode, Operation, Result};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Attempts to find a free name for a temporary file.
const NAME_ATTEMPTS: u32 = 100;

/// Where temporary files come from.
#[derive(Clone)]
pub struct TemporaryFiles {
    /// The medium.
    pub medium: Arc<dyn Medium>,
    /// The name of the VFS, part of a file's name.
    pub vfs: String,
}

impl TemporaryFiles {
    /// A new file without a name.
    pub fn open(&self) -> Result<Arc<dyn File>> {
        for _ in 0..NAME_ATTEMPTS {
            let path = self.free_path()?;
            match self.medium.open(&path, FileKind::Temporary, OpenMode::CreateNew) {
                Ok(file) => {
                    self.medium.delete(&path)?;
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.no_free_name())
    }

    /// A path that nobody uses yet.
    pub fn free_path(&self) -> Result<PathBuf> {
        let directory = self.directory();
        for _ in 0..NAME_ATTEMPTS {
            // Its keys are random, and differ for each.
            let number = RandomState::new().hash_one(std::process::id());
            let path = directory.join(format!("litefoot-{}-{number:016x}.tmp", self.vfs));
            if self.medium.info(&path)?.is_none() {
                return Ok(path);
            }
        }
        Err(self.no_free_name())
    }

    fn no_free_name(&self) -> DeviceError {
        let none = io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file");
        DeviceError::new(Operation::Open, &self.directory(), none)
    }

    /// The directory that SQLite's own VFS would take.
    fn directory(&self) -> PathBuf {
        let usable = |path: &Path| {
            self.medium.info(path).ok().flatten().is_some_and(|info| !info.is_file && info.writable)
        };
        ["SQLITE_TMPDIR", "TMPDIR"]
            .iter()
            .filter_map(|name| notice::environment(name).map(PathBuf::from))
            .chain(["/var/tmp", "/usr/tmp", "/tmp"].map(PathBuf::from))
            .find(|path| usable(path))
            .unwrap_or_else(|| PathBuf::from("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::os::OsMedium;
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_cannot_be_foreseen() {
        let files = TemporaryFiles { medium: Arc::new(OsMedium), vfs: "v".to_owned() };
        let paths: BTreeSet<PathBuf> = (0..50).map(|_| files.free_path().unwrap()).collect();
        assert_eq!(paths.len(), 50);
        // The part that two names have in common is no number that counts up.
        let digits = |path: &PathBuf| path.to_string_lossy().rsplit('-').next().unwrap().to_owned();
        let firsts: BTreeSet<String> = paths.iter().map(|path| digits(path)[..2].to_owned()).collect();
        assert!(firsts.len() > 10, "{firsts:?}");
    }

    #[test]
    fn a_temporary_file_is_private_and_has_no_name() {
        let files = TemporaryFiles { medium: Arc::new(OsMedium), vfs: "private".to_owned() };
        let file = files.open().unwrap();
        let link = format!("/proc/self/fd/{}", file.raw_descriptor().unwrap());
        let found = std::fs::metadata(&link).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, 0o600);
        let name = std::fs::read_link(link).unwrap();
        assert!(name.to_string_lossy().ends_with(" (deleted)"), "{}", name.display());
    }
}
