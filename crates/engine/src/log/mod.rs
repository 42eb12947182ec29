//! The logs: what makes a commit durable before the database file changes.
//!
//! `redo` holds pages, in the format of SQLite's write-ahead log, so that any SQLite recovers from it;
//! `statement` holds what transactions said, until their pages are folded into the redo log.

pub mod redo;
mod space;
pub mod statement;

use crate::device::{DeviceError, File, Operation, Result};
pub use redo::RedoLog;
pub use statement::StatementLog;

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
