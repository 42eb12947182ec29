//! File locks: SQLite's own locks on the database file, while the database is multi-process.
//!
//! Other processes then use the file by SQLite's protocol (<https://www.sqlite.org/lockingv3.html>), and so does this one. Its
//! locks lie on its one open file description, and conflict with the locks of stock SQLite as those do among each other.
//!
//! ```text
//! 0x40000000        PENDING   exclusive: no new readers; a reader shares it while it takes SHARED
//! 0x40000001        RESERVED  exclusive: one is going to write
//! 0x40000002 + 510  SHARED    shared by readers, exclusive for the one that writes the file
//! ```
//!
//! Between the handles of this process the lock table counts, as ever (`lock_table.rs`). The file has the locks of the
//! handle with the highest level, as SQLite's own VFS has them for all handles of a process on an inode.
//!
//! # Invariants
//! 1. In the multi-process state a level of the lock table is raised through [`FileLocks`] only, and lowered in the table no
//!    later than on the file. So no handle has a higher level than the file, with two exceptions. One is a handle that is about to find
//!    that this process owns the database no more. The other is a handle at PENDING that waits for readers of this process: the file is at
//!    RESERVED then, and other processes may read. PENDING on the file would keep them out for as long as such a reader stays.
//! 2. At no moment of [`Change::begin`] or [`Change::end`] can another process take what a handle of this one relies on.
//! 3. Lock order: first [`FileLocks`], then the lock table. So a change of state begins with [`FileLocks::change`], and looks
//!    for an idle moment then.
//! 4. A handle at SHARED that asks for EXCLUSIVE gets it, or stays at SHARED: a hot journal is to be rolled back, or a
//!    connection in WAL mode is being closed. Only a handle at RESERVED leaves PENDING behind.

use crate::error::Result;
use crate::sync::lock_table::{Level, LockTable, ReaderSlot};
use crate::sync::owner_lock::{self, LOCK_BYTES, LOCK_OFFSET};
use litefoot_storage::file::{File, RangeLock};
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::sync::Arc;

const PENDING: u64 = LOCK_OFFSET;
const RESERVED: u64 = LOCK_OFFSET + 1;
const SHARED: u64 = LOCK_OFFSET + 2;
const SHARED_BYTES: u64 = LOCK_BYTES - 2;

/// The locks of this process on one database file.
#[derive(Debug, Default)]
pub struct FileLocks {
    /// What is locked on the file.
    level: Mutex<Level>,
}

impl FileLocks {
    /// Keeps all locks as they are, for a change of the database's state. The lock table is asked afterwards.
    pub fn change(&self) -> Change<'_> {
        Change { level: self.level.lock() }
    }

    /// Raises a handle's lock, in the table and on the file; `false` when another handle or process is in the way.
    pub fn lock(
        &self,
        file: &dyn File,
        table: &LockTable,
        reader_slot: &ReaderSlot,
        wanted: Level,
    ) -> Result<bool> {
        let mut level = self.level.lock();
        let before = reader_slot.level();
        if before >= wanted {
            return Ok(true);
        }
        table.lock(reader_slot, wanted);
        let raised = match request(before, reader_slot.level()) {
            Some(to) => raise(&mut level, file, before, to),
            None => Ok(()),
        };
        let after = outcome(before, wanted, reached(reader_slot.level(), *level));
        if raised.is_err() || after < wanted {
            table.unlock(reader_slot, if raised.is_err() { before } else { after });
            let lowered = lower(&mut level, file, table.strongest());
            raised.and(lowered)?;
        }
        Ok(after >= wanted)
    }

    /// Lowers a handle's lock, in the table and on the file.
    ///
    /// # Errors
    /// Those of the file. The handle's lock is lowered all the same; the file keeps more than is needed.
    pub fn unlock(
        &self,
        file: &dyn File,
        table: &LockTable,
        reader_slot: &ReaderSlot,
        to: Level,
    ) -> Result<()> {
        let mut level = self.level.lock();
        table.unlock(reader_slot, to);
        lower(&mut level, file, table.strongest())
    }

    /// Takes back the slot of a handle that is closed.
    ///
    /// # Errors
    /// As [`FileLocks::unlock`].
    pub fn leave(&self, file: &dyn File, table: &LockTable, reader_slot: &Arc<ReaderSlot>) -> Result<()> {
        let mut level = self.level.lock();
        table.leave(reader_slot);
        lower(&mut level, file, table.strongest())
    }

    /// Lowers the locks on the file to what the handles have. A reader that left while the state changed may have lowered its own in
    /// the table only.
    ///
    /// # Errors
    /// Those of the file, which keeps more than is needed.
    pub fn trim(&self, file: &dyn File, table: &LockTable) -> Result<()> {
        let mut level = self.level.lock();
        lower(&mut level, file, table.strongest())
    }

    /// Tells whether a handle of this process, or another process, is at RESERVED or above.
    pub fn is_reserved(&self, file: &dyn File, table: &LockTable) -> Result<bool> {
        let level = self.level.lock();
        Ok(table.is_reserved() || (*level < Level::Reserved && is_reserved_by_others(file)?))
    }
}

/// The locks on the file while the state of the database changes: no handle raises or lowers one.
pub struct Change<'a> {
    level: MutexGuard<'a, Level>,
}

impl Change<'_> {
    /// From the owner lock to the highest level of the handles, RESERVED at most. Others may lock the file beside that then.
    ///
    /// # Errors
    /// Those of the file. No other process can lock it then, before [`FileLocks::trim`] or the end of a transaction has lowered it.
    pub fn begin(&mut self, file: &dyn File, needed: Level) -> Result<()> {
        // More than any handle has.
        *self.level = Level::Exclusive;
        lower(&mut self.level, file, needed)
    }

    /// From no lock to SHARED where handles hold that: other processes have the file. `false` where one writes it.
    pub fn begin_beside(&mut self, file: &dyn File, shared: bool) -> Result<bool> {
        if shared {
            raise(&mut self.level, file, Level::None, Level::Shared)?;
        }
        Ok(!shared || *self.level >= Level::Shared)
    }

    /// From what the handles hold to the owner lock. No handle is in a transaction. `false` where another process is in the way;
    /// all locks are as before then.
    pub fn end(&mut self, file: &dyn File, writable: bool) -> Result<bool> {
        let is_owner = owner_lock::try_acquire(file, writable)?;
        if is_owner {
            *self.level = Level::None;
        }
        Ok(is_owner)
    }
}

/// What is to be locked on the file, by the level that the lock table has raised a handle to.
fn request(before: Level, granted: Level) -> Option<Level> {
    match (before, granted) {
        // Readers of this process are in the way.
        (_, Level::Pending) => None,
        (before, granted) => (granted > before).then_some(granted),
    }
}

/// The level that a handle has, by those that the lock table and the file have.
fn reached(granted: Level, file: Level) -> Level {
    if granted == Level::Pending { granted } else { granted.min(file) }
}

/// The level of a handle after a request, by the one that it has reached.
fn outcome(before: Level, wanted: Level, reached: Level) -> Level {
    match reached {
        reached if reached >= wanted => wanted,
        Level::Pending if before >= Level::Reserved => Level::Pending,
        _ => before,
    }
}

/// Takes the lock of a transaction by `file` that it has by another open file, `from`, which has a lock on the file all the time. Nobody else gets what is in its way
/// meanwhile. `is_kept` tells whether the other one has kept its locks until now. `false` where the transaction has lost its lock: then it has none by `file` that
/// counts.
pub(crate) fn take_from(
    file: &dyn File,
    from: impl Fn(u64, u64, RangeLock) -> bool,
    level: Level,
    is_kept: impl Fn() -> bool,
) -> Result<bool> {
    let is_alone = level >= Level::Exclusive;
    if !is_kept() {
        return Ok(false);
    }
    // The owner may have given EXCLUSIVE, and not have said so. PENDING keeps others away.
    if level >= Level::Reserved && !from(SHARED, SHARED_BYTES, RangeLock::Shared) {
        return Ok(false);
    }
    if !file.lock_range(SHARED, SHARED_BYTES, RangeLock::Shared)? || !is_kept() {
        return Ok(false);
    }
    if is_alone {
        from(SHARED, SHARED_BYTES, RangeLock::None);
        if !file.lock_range(SHARED, SHARED_BYTES, RangeLock::Exclusive)? {
            return Ok(false);
        }
    }
    if level >= Level::Reserved {
        from(PENDING, SHARED - PENDING, RangeLock::None);
        if !file.lock_range(RESERVED, 1, RangeLock::Exclusive)? {
            return Ok(false);
        }
    }
    if is_alone {
        // A reader that comes may have it for a moment, and gets no further.
        file.lock_range(PENDING, 1, RangeLock::Exclusive)?;
    }
    Ok(true)
}

/// Tells whether RESERVED is another handle's.
pub(crate) fn is_reserved_by_others(file: &dyn File) -> Result<bool> {
    Ok(file.is_locked(RESERVED, 1, RangeLock::Shared)?)
}

/// Raises the locks on the file as far as other processes let it, for a handle that was `before`.
pub(crate) fn raise(level: &mut Level, file: &dyn File, before: Level, to: Level) -> Result<()> {
    if *level < Level::Shared {
        if !file.lock_range(PENDING, 1, RangeLock::Shared)? {
            return Ok(());
        }
        let is_shared = file.lock_range(SHARED, SHARED_BYTES, RangeLock::Shared);
        if matches!(is_shared, Ok(true)) {
            *level = Level::Shared;
        }
        file.lock_range(PENDING, 1, RangeLock::None)?;
        if !is_shared? {
            return Ok(());
        }
    }
    let steps = [
        (to == Level::Reserved, Level::Reserved, RESERVED, 1),
        (to >= Level::Pending && before >= Level::Reserved, Level::Pending, PENDING, 1),
        (to == Level::Exclusive, Level::Exclusive, SHARED, SHARED_BYTES),
    ];
    for (is_taken, next, offset, bytes) in steps {
        if is_taken && *level < next {
            if !file.lock_range(offset, bytes, RangeLock::Exclusive)? {
                return Ok(());
            }
            *level = next;
        }
    }
    Ok(())
}

/// Lowers the locks on the file to what the handles need: at PENDING and above they stay as they are.
pub(crate) fn lower(level: &mut Level, file: &dyn File, needed: Level) -> Result<()> {
    match needed {
        needed if needed >= *level => {}
        Level::None => {
            owner_lock::release(file)?;
            *level = Level::None;
        }
        Level::Shared => {
            // In this order: PENDING keeps others away until the file is locked as it will be.
            file.lock_range(SHARED, SHARED_BYTES, RangeLock::Shared)?;
            file.lock_range(PENDING, SHARED - PENDING, RangeLock::None)?;
            *level = Level::Shared;
        }
        Level::Reserved => {
            file.lock_range(SHARED, SHARED_BYTES, RangeLock::Shared)?;
            file.lock_range(PENDING, 1, RangeLock::None)?;
            *level = Level::Reserved;
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
