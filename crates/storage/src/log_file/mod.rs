//! The common part of both logs: the lock of a log in use, reserving space before writing, writes that no sync has followed,
//! and setting a log aside.

mod aside;
mod in_use;
pub(crate) mod space;
mod unsynced;

pub use aside::set_aside;
pub(crate) use aside::step_back;
pub(crate) use in_use::InUse;
pub use in_use::{is_in_use, is_taken};
pub use unsynced::Flush;
pub(crate) use unsynced::Unsynced;

use crate::file::{DeviceError, File, Operation, Result};

/// The durability of an append: it waits for the medium, or it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The transaction survives a power cut when the call returns.
    Durable,
    /// It survives the process, not a power cut; a later durable append or sync covers it.
    Buffered,
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
