//! The lock of a log that is in use.
//!
//! A log is found by its name. While a database is open, its file may be renamed or removed, and another database may
//! take the name. The lock shows that the log beside the new one has an owner.
//!
//! The lock belongs to the open file description, which a forked child inherits. So it is given back when the log is
//! closed, and not only with the last descriptor; and never by the child.

use crate::file::{DeviceError, File, FileKind, Medium, OpenMode, Operation, RangeLock, Result};
use crate::fork;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The bytes that are locked: the header's sector.
const LOCKED_BYTES: u64 = 512;

/// A lock on a log, until it is dropped.
pub(crate) struct InUse {
    file: Arc<dyn File>,
    generation: u32,
}

impl InUse {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Operation::Lock`] where another process has the log in use.
    pub fn take(file: &Arc<dyn File>) -> Result<InUse> {
        if file.lock_range(0, LOCKED_BYTES, RangeLock::Exclusive)? {
            return Ok(InUse { file: file.clone(), generation: fork::generation() });
        }
        let taken = io::Error::new(io::ErrorKind::ResourceBusy, "another database has it in use");
        Err(DeviceError::new(Operation::Lock, file.path(), taken))
    }
}

/// True for an error that says that a log is in use.
pub fn is_in_use(error: &DeviceError) -> bool {
    error.operation == Operation::Lock && error.source.kind() == io::ErrorKind::ResourceBusy
}

/// True if another process has the log at `path` in use. Nothing is changed.
///
/// # Errors
/// The file cannot be opened, or locked.
pub fn is_taken(medium: &dyn Medium, path: &Path, kind: FileKind) -> Result<bool> {
    if medium.info(path)?.is_none_or(|info| !info.is_file) {
        return Ok(false);
    }
    let file = medium.open(path, kind, OpenMode::ReadWrite)?;
    match InUse::take(&file) {
        Ok(_) => Ok(false),
        Err(error) if is_in_use(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // Closing the descriptor does it as well.
            let _ = self.file.lock_range(0, LOCKED_BYTES, RangeLock::None);
        }
    }
}
