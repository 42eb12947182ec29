//! One owner per database: what keeps other processes out.
//!
//! The owner holds, on the open file description, an exclusive lock over the whole range of bytes that
//! SQLite's own locking uses. Stock SQLite elsewhere then finds the database locked, for reading and for
//! writing, in both journal families; there is no moment at which it could see a state that is only half
//! in the file. A file that cannot be written is locked shared: others may read it, too.
//!
//! The lock is taken with the first SHARED lock of a connection, not at open, so that SQLite's busy
//! handler applies, and kept until the last handle of the process is closed.
//!
//! `fork()`: the child inherits descriptors and memory, but it is not the owner. Each database remembers
//! in which generation of forks it was opened; in a child all inherited databases refuse to work, and the
//! child must open its own (and finds the database locked while the parent has it).

use crate::error::{Error, Result};
use litefoot_engine::device::{File, RangeLock};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// First of SQLite's lock bytes (`PENDING_BYTE`): file format, section 1.4.
pub const LOCK_OFFSET: u64 = 0x4000_0000;
/// PENDING, RESERVED and the 510 SHARED bytes.
pub const LOCK_BYTES: u64 = 512;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of forks between the first process that used litefoot and this one.
pub fn fork_generation() -> u32 {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: the handler only touches an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}

unsafe extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Takes the lock that makes this process the owner.
///
/// # Errors
/// [`Error::Owned`] when another process is in the way.
pub fn acquire(file: &dyn File, writable: bool) -> Result<()> {
    let lock = if writable { RangeLock::Exclusive } else { RangeLock::Shared };
    if file.lock_range(LOCK_OFFSET, LOCK_BYTES, lock)? {
        return Ok(());
    }
    Err(Error::Owned { path: file.path().to_owned(), holder: file.lock_holder(LOCK_OFFSET, LOCK_BYTES) })
}

/// Gives the ownership back. Explicit, because a forked child may still have the descriptor.
pub fn release(file: &dyn File) -> Result<()> {
    Ok(file.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::None).map(drop)?)
}
