//! The media of the operating system: its files at large, and as one database uses them.
//!
//! # Why
//! Files that are created for a database get the rights that the database has then. The names of logs do not always lead
//! to their database: those beside a tier device lie in another directory. So a database has a medium of its own.

#[cfg(target_os = "linux")]
mod aligned;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod closings;
mod crowd;
#[cfg(target_os = "linux")]
mod lease;
#[cfg(target_os = "linux")]
mod leased;
#[cfg(target_os = "linux")]
mod lent_file;
#[cfg(target_os = "linux")]
pub mod life;
mod local_socket;
mod mapped;
mod names;
mod opening;
mod os_file;
#[cfg(target_os = "linux")]
mod renames;
mod resolve;
mod shared_memory;
mod socket_file;
mod stamp;

use crate::file::{
    DeviceError, ErrorKind, File, FileId, FileKind, Medium, OpenMode, Operation, PathInfo, Resolved, Result,
};
use crate::pass_on;
#[cfg(target_os = "linux")]
pub use calls::statx;
#[cfg(target_os = "linux")]
pub use closings::Closings;
#[cfg(target_os = "linux")]
pub use lent_file::LentFile;
pub use local_socket::{LocalListener, LocalName, LocalSocket, Peer};
use names::Links;
use opening::{AtLease, Rights};
use os_file::open_file;
#[cfg(target_os = "linux")]
pub use renames::{NameWatch, OnChange};
use resolve::resolve;
pub use shared_memory::NamelessMemory;
use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The file systems of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsMedium;

impl OsMedium {
    /// The operating system's files.
    pub fn new() -> OsMedium {
        OsMedium
    }
}

impl Medium for OsMedium {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        open_file(path, kind, mode, AtLease::Waits, || None)
    }

    fn open_at_once(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        match open_file(path, kind, mode, AtLease::Fails, || None) {
            Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            opened => opened.map(Some),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_nameless(&self, directory: &Path) -> Option<Arc<dyn File>> {
        os_file::open_nameless(directory).ok()
    }

    fn is_the_systems(&self) -> bool {
        true
    }

    fn for_database(&self, database: &Arc<dyn File>) -> Option<Arc<dyn Medium>> {
        database.raw_descriptor()?;
        Some(Arc::new(DatabaseMedium::new(database)))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| DeviceError::new(Operation::Delete, path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| DeviceError::new(Operation::Rename, from, error))
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        if_found(path, names::info(path))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        names::rename_new(from, to).map_err(|error| DeviceError::new(Operation::Rename, to, error))
    }

    fn identity(&self, path: &Path) -> Result<Option<FileId>> {
        Ok(self.glance(path)?.map(|(id, _)| id))
    }

    fn glance(&self, path: &Path) -> Result<Option<(FileId, u64)>> {
        if_found(path, names::glance(path, Links::Followed))
    }

    fn unlinked_identity(&self, path: &Path) -> Result<Option<FileId>> {
        Ok(if_found(path, names::glance(path, Links::Kept))?.map(|(id, _)| id))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let fail = |error| DeviceError::new(Operation::List, directory, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_file() {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        Ok(paths)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        let fail = |error| DeviceError::new(Operation::SyncDirectory, directory, error);
        fs::File::open(directory).and_then(|file| file.sync_all()).map_err(fail)
    }

    fn absolute(&self, path: &Path) -> Result<Resolved> {
        resolve(path).map_err(|error| DeviceError::new(Operation::Info, path, error))
    }
}

/// The answer about a path; `None` where nothing has that name.
fn if_found<T>(path: &Path, answer: io::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) => {
            let error = DeviceError::new(Operation::Info, path, error);
            if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }
    }
}

/// The operating system's files as one database uses them.
struct DatabaseMedium {
    system: OsMedium,
    /// Weak: the medium does not keep the database open.
    database: Weak<dyn File>,
}

impl DatabaseMedium {
    fn new(database: &Arc<dyn File>) -> DatabaseMedium {
        DatabaseMedium { system: OsMedium, database: Arc::downgrade(database) }
    }

    /// The rights of the database, as they are now.
    fn rights(&self) -> Option<Rights> {
        let database = self.database.upgrade()?;
        // SAFETY: the descriptor is open as long as `database` lives, and is not closed here.
        let file = ManuallyDrop::new(unsafe { fs::File::from_raw_fd(database.raw_descriptor()?) });
        file.metadata().ok().map(|found| Rights::of(&found))
    }
}

impl Medium for DatabaseMedium {
    pass_on!(system: open_nameless, delete, rename, rename_new, info, identity, unlinked_identity, glance, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        open_file(path, kind, mode, AtLease::Waits, || self.rights())
    }
}
