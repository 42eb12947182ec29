//! Overwriting a page in place, whole or not at all, where the device can.

use super::Db;
use crate::error::Result;
use crate::options::AtomicWrites;
use litefoot_storage::file::{ErrorKind, FileKind};
use std::io::IoSlice;

/// Bytes that `atomic=assume4k` takes for atomic.
const ASSUMED_ATOMIC_BYTES: usize = 4096;

/// Bytes of a page of a database that may be overwritten in place, whole or not at all.
pub(crate) fn atomic_write_bytes(db: &Db) -> usize {
    // The chunks of a page may be on two devices.
    if db.tier().is_some() {
        return 0;
    }
    match db.options.atomic {
        AtomicWrites::Auto => db.file.guarantees().atomic_write_bytes as usize,
        AtomicWrites::Assume4k => ASSUMED_ATOMIC_BYTES,
        AtomicWrites::Off => 0,
    }
}

/// Overwrites a page in place, durably, and whole or not at all; `false` where that cannot be done, and nothing was
/// written.
pub(crate) fn write_atomic(db: &Db, page: &[u8], offset: u64) -> Result<bool> {
    db.latch.check(&db.path)?;
    let result = match db.options.atomic {
        AtomicWrites::Assume4k => db.file.write_durable_at(&[IoSlice::new(page)], offset),
        _ => db.file.write_atomic_at(page, offset),
    };
    match result {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        result => {
            db.latch.watch(result)?;
            db.stats.add_write(FileKind::Database, offset, page.len() as u64);
            db.stats.add_sync(FileKind::Database);
            Ok(true)
        }
    }
}
