//! Owner lock: one process owns a database, and keeps other processes out.
//!
//! The owner holds an exclusive lock, on the open file description, over the whole range of bytes that SQLite's own locking
//! uses. Stock SQLite elsewhere then finds the database locked, for reading and for writing, in both journal families. At no
//! moment could it see a state that is only half in the file. A file that cannot be written is locked shared: other processes
//! may read it.
//!
//! The lock is taken with the first SHARED lock of a connection, not at open, so that SQLite's busy handler applies. It is
//! kept until the last handle of the process is closed. It is also given up when a related process asks for the database and
//! no connection here is in a transaction (`relatives.rs`).
//!
//! `fork()`: the child inherits descriptors and memory, but does not own the database. Each database remembers the generation
//! of forks in which it was opened. An inherited database is the parent's, and refuses to work.

use crate::error::{Error, Result};
use crate::notice;
use crate::stats::{Published, program};
use litefoot_storage::file::{File, RangeLock};

/// First of SQLite's lock bytes (`PENDING_BYTE`): file format, section 1.4.
pub const LOCK_OFFSET: u64 = 0x4000_0000;
/// PENDING, RESERVED and the 510 SHARED bytes.
pub const LOCK_BYTES: u64 = 512;

/// Takes the owner lock; `false` where another process holds it.
pub fn try_acquire(file: &dyn File, writable: bool) -> Result<bool> {
    let lock = if writable { RangeLock::Exclusive } else { RangeLock::Shared };
    Ok(file.lock_range(LOCK_OFFSET, LOCK_BYTES, lock)?)
}

/// Takes the owner lock.
///
/// # Errors
/// [`Error::Owned`] where another process holds it.
pub fn acquire(file: &dyn File, writable: bool) -> Result<()> {
    if try_acquire(file, writable)? {
        return Ok(());
    }
    // An application may ask again and again.
    let is_known = notice::was_told(file.path(), "owned");
    let holder = if is_known { None } else { holder(file) };
    Err(Error::Owned { path: file.path().to_owned(), holder })
}

/// Refuses a database that another process owns and does not share.
///
/// # Errors
/// [`Error::Owned`].
pub fn check_shared(file: &dyn File) -> Result<()> {
    // Stock SQLite locks the byte for a moment only.
    if !file.is_locked(LOCK_OFFSET, 1, RangeLock::Shared)? {
        return Ok(());
    }
    let is_known = notice::was_told(file.path(), "owned");
    if is_known || Published::find_owner(file.id()).is_none() {
        return Ok(());
    }
    Err(Error::Owned { path: file.path().to_owned(), holder: holder(file) })
}

/// The process that holds the lock, and its program, where the system tells.
fn holder(file: &dyn File) -> Option<String> {
    // A lock on an open file description names no process; the owner's statistics page does.
    let process = file
        .lock_holder(LOCK_OFFSET, LOCK_BYTES)
        .or_else(|| Published::find_owner(file.id()).map(|owner| owner.process))?;
    Some(
        program(process)
            .map_or_else(|| format!("process {process}"), |name| format!("process {process} ({name})")),
    )
}

/// Gives the owner lock back. Explicit, because a forked child may still have the descriptor.
pub fn release(file: &dyn File) -> Result<()> {
    Ok(file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::None).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::path::Path;

    #[test]
    fn one_process_writes_or_several_read() {
        // (the first is writable, the second is writable, the second gets the lock)
        for (first_writes, second_writes, granted) in
            [(true, true, false), (true, false, false), (false, true, false), (false, false, true)]
        {
            let medium = SimMedium::new();
            let open = |mode| medium.open(Path::new("/owned"), FileKind::Database, mode).unwrap();
            let (first, second) = (open(OpenMode::Create), open(OpenMode::Create));
            assert!(try_acquire(&*first, first_writes).unwrap());
            assert_eq!(
                try_acquire(&*second, second_writes).unwrap(),
                granted,
                "{first_writes} {second_writes}"
            );
            assert_eq!(acquire(&*second, second_writes).is_ok(), granted);
            release(&*first).unwrap();
            assert!(try_acquire(&*second, second_writes).unwrap());
        }
    }
}
