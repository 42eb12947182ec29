//! The logs: what makes a commit durable before the database file changes.
//!
//! `redo` holds pages, in the format of SQLite's write-ahead log, so that any SQLite recovers from it;
//! `statement` holds what transactions said, until their pages are folded into the redo log.

mod in_use;
pub mod redo;
mod space;
pub mod statement;

use crate::device::{
    DeviceError, ErrorKind, File, Medium, Operation, Result, SyncLatch, beside, parent_directory,
};
pub use redo::RedoLog;
pub use statement::StatementLog;
use std::path::{Path, PathBuf};

/// Most logs that are kept beside one database.
const MOST_SET_ASIDE: u32 = 10_000;

/// Gives a log that is not the database's another name, which nothing has, for good; answers that name.
///
/// # Errors
/// Those of renaming, and that too many are there already.
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

/// `len` bytes of a file from `offset`, or as many as it has.
fn read_up_to(file: &dyn File, offset: u64, len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| {
        let larger = std::io::Error::new(std::io::ErrorKind::OutOfMemory, "it is larger than memory can be");
        DeviceError::new(Operation::Read, file.path(), larger)
    })?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.truncate(read);
    Ok(bytes)
}
