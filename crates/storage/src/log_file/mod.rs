//! The common part of both logs: the lock of a log in use, reserving space before writing, writes that no sync has followed,
//! and setting a foreign log aside.

mod in_use;
pub(crate) mod space;
mod unsynced;

pub(crate) use in_use::InUse;
pub use unsynced::Flush;
pub(crate) use unsynced::Unsynced;

use crate::file::{
    DeviceError, ErrorKind, File, FileId, Medium, Operation, Result, SyncLatch, beside, parent_directory,
};
use std::path::{Path, PathBuf};

/// The durability of an append: it waits for the medium, or it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The transaction survives a power cut when the call returns.
    Durable,
    /// It survives the process, not a power cut; a later durable append or sync covers it.
    Buffered,
}

/// Most logs that are kept beside one database.
const MOST_SET_ASIDE: u32 = 10_000;

/// Gives a log that is not the database's another name, which nothing has, for good; answers that name.
///
/// # Errors
/// Errors of renaming, and that too many exist already.
pub fn set_aside(medium: &dyn Medium, path: &Path, latch: &SyncLatch) -> Result<PathBuf> {
    latch.check(path)?;
    for number in 1..=MOST_SET_ASIDE {
        let aside = beside(path, &format!(".set-aside-{number}"));
        match medium.rename_new(path, &aside) {
            Ok(()) => {
                // Where the old name came back after a power cut, SQLite itself would take the log for the database's.
                latch.watch(medium.sync_directory(parent_directory(path)))?;
                return Ok(aside);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let many = std::io::Error::other("too many logs were set aside here already");
    Err(DeviceError::new(Operation::Rename, path, many))
}

/// Gives a file that was set aside the name again that it had; `false` where it has lost the other one meanwhile. A file that has taken
/// the name belongs to no database that has its own: it is set aside.
pub(crate) fn step_back(
    medium: &dyn Medium,
    (aside, name): (&Path, &Path),
    file: FileId,
    latch: &SyncLatch,
) -> Result<bool> {
    latch.check(name)?;
    if medium.identity(aside)? != Some(file) {
        return Ok(false);
    }
    if let Err(error) = medium.rename_new(aside, name) {
        if error.kind() != ErrorKind::AlreadyExists {
            return Err(error);
        }
        set_aside(medium, name, latch)?;
        medium.rename_new(aside, name)?;
    }
    latch.watch(medium.sync_directory(parent_directory(name)))?;
    Ok(true)
}

/// `len` bytes of a file from `offset`, or as many as it has.
pub(crate) fn read_up_to(file: &dyn File, offset: u64, len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| {
        let larger = std::io::Error::new(std::io::ErrorKind::OutOfMemory, "it is larger than memory can be");
        DeviceError::new(Operation::Read, file.path(), larger)
    })?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.truncate(read);
    Ok(bytes)
}
