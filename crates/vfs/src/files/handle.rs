//! The calls that SQLite can make on an open file.
//!
//! One implementor per kind of file, one file each. The trampolines in `shim/io_methods.rs` translate SQLite's
//! calls into these methods and errors into result codes.

use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::group::link::Link;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

/// The size of a mapping by which litefoot has SQLite ask for pages by address; no application would ask for it.
pub const MMAP_SIZE_OF_INTERNAL: i64 = 1;

/// The size that SQLite cuts every wish for a mapping down to, unless it was built otherwise.
const MOST_MAPPED: i64 = 0x7fff_0000;

/// Answers the mapping size of a connection, and takes another one where SQLite asks for it.
pub fn exchange_mmap_size(own: &mut i64, size: &mut i64) {
    let wanted = std::mem::replace(size, *own);
    if wanted >= 0 && wanted != MMAP_SIZE_OF_INTERNAL {
        *own = wanted.min(MOST_MAPPED);
    }
}

/// A file control (`SQLITE_FCNTL_*`) that litefoot answers.
pub enum Control<'a> {
    /// LOCKSTATE.
    LockState(&'a mut c_int),
    /// LAST_ERRNO.
    LastErrno(&'a mut c_int),
    /// PERSIST_WAL: negative asks, else sets; the answer is stored back.
    PersistWal(&'a mut c_int),
    /// POWERSAFE_OVERWRITE: as above.
    PowersafeOverwrite(&'a mut c_int),
    /// HAS_MOVED.
    HasMoved(&'a mut c_int),
    /// MMAP_SIZE: negative asks, else sets; what was set before is stored back.
    MmapSize(&'a mut i64),
    /// EXTERNAL_READER: whether another process reads the log.
    ExternalReader(&'a mut c_int),
    /// SIZE_HINT and CHUNK_SIZE: how the file may grow, which is for the log and the checkpoint to say.
    Growth,
    /// PDB: the first that SQLite sends. A handle that hears it will hear of commits.
    Connected,
    /// SYNC with a super-journal: the transaction spans several databases.
    SeveralFiles,
    /// COMMIT_PHASETWO: a transaction is committed and published, and the commit is about to return.
    CommitDone,
    /// PRAGMA: the name, its argument, and room for the answer.
    Pragma(PragmaCall<'a>),
}

/// A PRAGMA on its way through the VFS.
pub struct PragmaCall<'a> {
    /// Its name, in lower case.
    pub name: &'a str,
    /// Its argument.
    pub value: Option<&'a str>,
    /// The text that the statement returns as its one row, or the error message.
    pub answer: &'a mut Option<String>,
}

/// The handle's answer to a control of SQLite's.
pub enum Handled {
    /// The control was known, and is done.
    Yes,
    /// The control was unknown, and SQLite goes on as if the VFS did not know it.
    No,
}

/// An open file.
pub trait Handle: Send {
    /// Reads exactly `buf`; past the end of the file the rest is zeros and the answer `ShortRead`.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `buf`.
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, len: u64) -> Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> Result<()>;
    /// Length in bytes.
    fn size(&mut self) -> Result<u64>;
    /// Closes the file; it is gone even when this fails.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
    /// Raises the lock.
    fn lock(&mut self, _to: Level) -> Result<()> {
        Ok(())
    }
    /// Lowers the lock.
    fn unlock(&mut self, _to: Level) -> Result<()> {
        Ok(())
    }
    /// True if some connection is about to write.
    fn is_reserved(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// A file control.
    fn control(&mut self, _control: Control<'_>) -> Result<Handled> {
        Ok(Handled::No)
    }
    /// `SQLITE_IOCAP_*`.
    fn characteristics(&self) -> c_int {
        crate::ffi::codes::SQLITE_IOCAP_POWERSAFE_OVERWRITE
    }
    /// The connection behind a main database handle.
    fn connection_state(&self) -> Option<&Arc<ConnectionState>> {
        None
    }
    /// The connection behind a main database handle, where it is a member's of a group.
    fn member(&self) -> Option<&Arc<Link>> {
        None
    }
    /// A method has panicked: nothing of the database is written any more.
    fn latch_after_panic(&self, _text: &str) {}
    /// The database that the file belongs to, where it is one, or lies beside one.
    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        None
    }
    /// In a forked child: a handle of this process's own in its place, once the main file of the connection has one.
    fn in_this_process(&self) -> Option<Box<dyn Handle>> {
        None
    }
    /// Why the open was refused, where it was.
    fn refusal(&self) -> Option<&Error> {
        None
    }
    /// A region of the wal-index.
    fn shm_map(&mut self, _region: usize, _bytes: usize, _extend: bool) -> Result<Option<NonNull<u8>>> {
        Err(Error::NoMemory)
    }
    /// Takes slots of the wal-index.
    fn shm_lock(&mut self, _first: usize, _count: usize, _exclusive: bool) -> Result<()> {
        Err(Error::Busy)
    }
    /// Gives slots back.
    fn shm_unlock(&mut self, _first: usize, _count: usize) -> Result<()> {
        Ok(())
    }
    /// Memory barrier.
    fn shm_barrier(&mut self) {}
    /// Stops using the wal-index.
    fn shm_unmap(&mut self, _delete: bool) -> Result<()> {
        Ok(())
    }
}

/// Reads exactly `buf` from a device file, as SQLite wants it.
pub(crate) fn read_exactly(
    file: &dyn litefoot_storage::file::File,
    buf: &mut [u8],
    offset: u64,
) -> Result<()> {
    let count = file.read_at(buf, offset)?;
    if count < buf.len() {
        buf[count..].fill(0);
        return Err(Error::ShortRead);
    }
    Ok(())
}
