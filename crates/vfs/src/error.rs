//! Errors of the VFS and how SQLite hears of them.
//!
//! SQLite takes a result code and makes its own message of it, which names no file. So each error keeps
//! its full text where callers can find it: in SQLite's error log, and per thread in [`last_error`].
//! Errors of an *open* reach the application whole: see `connection.rs`.

use crate::ffi::codes::*;
use crate::notice;
use litefoot_engine::device::{DeviceError, ErrorKind, Operation};
use std::cell::RefCell;
use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// Result of a VFS operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong below SQLite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than asked for; the rest was filled with zeros. SQLite expects this one.
    #[error("short read")]
    ShortRead,
    /// Another connection or process is in the way; SQLite's busy handler decides.
    #[error("locked")]
    Busy,
    /// Another process has the database open.
    #[error(
        "{}: {} has this database open; a database has one owner at a time: close it there, or open it \
         everywhere with shared=1",
        path.display(), holder.as_deref().unwrap_or("another process")
    )]
    Owned {
        /// The database.
        path: PathBuf,
        /// The process and its program, where the system tells.
        holder: Option<String>,
    },
    /// The handle was inherited from the parent process through `fork`, and in the middle of something.
    #[error(
        "{}: this connection was opened before fork() and belongs to the parent process, whose transaction it is in; \
         open the database again in the child process",
        path.display()
    )]
    Forked {
        /// The database.
        path: PathBuf,
    },
    /// The file cannot be written through this handle.
    #[error("{}: opened read-only", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// Transactions wait that could not be replayed; the text says why.
    #[error("{0}")]
    Unreplayed(String),
    /// A sync has failed before, and nothing is written any more.
    #[error(transparent)]
    Closed(DeviceError),
    /// A write-ahead log needs write permission even for reading.
    #[error(
        "{}: a WAL database cannot be read without write permission, since nobody could keep writers of other \
         processes out; give write permission, or open a copy",
        path.display()
    )]
    ReadOnlyWal {
        /// The database.
        path: PathBuf,
    },
    /// The open is refused; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// The open was refused before; the text says why.
    #[error("{0}")]
    Unopened(String),
    /// The file is better left to SQLite's own VFS: the boundary passes the call on.
    #[error("left to SQLite's own VFS")]
    LeftToPlatform,
    /// The path is not one that can be opened.
    #[error("not a valid path: {0:?}")]
    Path(String),
    /// Memory ran out.
    #[error("out of memory")]
    NoMemory,
    /// The database cannot go on; the text says what to do.
    #[error("{0}")]
    Io(String),
    /// A database cannot be opened, for a reason of the system's; with what to do.
    #[error("{0}; {1}")]
    CannotOpen(DeviceError, &'static str),
    /// The medium failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A panic was caught at the boundary to C.
    #[error("internal error (please report it): {0}")]
    Panic(String),
}

/// Refuses to begin what may need more memory than there is. What is under way goes on with the reserve.
#[inline]
pub(crate) fn check_memory() -> Result<()> {
    if litefoot_engine::reserve::is_short() { Err(Error::NoMemory) } else { Ok(()) }
}

/// The same for what a transaction that is under way would keep.
#[inline]
pub(crate) fn check_reserve() -> Result<()> {
    if litefoot_engine::reserve::is_nearly_gone() { Err(Error::NoMemory) } else { Ok(()) }
}

impl From<std::collections::TryReserveError> for Error {
    fn from(_: std::collections::TryReserveError) -> Error {
        Error::NoMemory
    }
}

impl Error {
    /// The result code for SQLite.
    pub fn code(&self) -> c_int {
        match self {
            Error::ShortRead => SQLITE_IOERR_SHORT_READ,
            Error::Busy | Error::Owned { .. } => SQLITE_BUSY,
            // A code that SQLite does not wait for, and takes from every call; nobody is to read of broken hardware.
            Error::Forked { .. } => SQLITE_CANTOPEN,
            Error::ReadOnly { .. } | Error::Closed(_) | Error::Unreplayed(_) => SQLITE_READONLY,
            Error::ReadOnlyWal { .. }
            | Error::CannotOpen(..)
            | Error::Unopened(_)
            | Error::Refused(_)
            | Error::Path(_)
            | Error::LeftToPlatform => SQLITE_CANTOPEN,
            // SQLite makes SQLITE_NOMEM of it. Where a rollback fails it gives up its cache only for an input/output error.
            Error::NoMemory => SQLITE_IOERR_NOMEM,
            Error::Io(_) => SQLITE_IOERR,
            Error::Device(error) => device_code(error),
            Error::Panic(_) => SQLITE_INTERNAL,
        }
    }

    /// Whether SQLite meets this in normal operation and nobody needs to read about it.
    fn is_routine(&self) -> bool {
        matches!(self, Error::ShortRead | Error::Busy)
            || matches!(self, Error::Device(error)
                if error.operation == Operation::Delete && error.kind() == ErrorKind::NotFound)
    }
}

fn device_code(error: &DeviceError) -> c_int {
    match (error.kind(), error.operation) {
        // Also of a latch that closed earlier, unless a transaction only begins (`Error::Closed`): where a rollback
        // fails, SQLite gives up its cache for an input/output error, and not because something cannot be written.
        // One that is there and may not be written is met before: it is the directory.
        (ErrorKind::Permission, Operation::Open) if is_log(&error.path) => SQLITE_READONLY_DIRECTORY,
        (_, Operation::Open) => SQLITE_CANTOPEN,
        (
            ErrorKind::Full,
            Operation::Write | Operation::Allocate | Operation::SetLength | Operation::Sync,
        ) => SQLITE_FULL,
        (_, Operation::Read) => SQLITE_IOERR_READ,
        (_, Operation::Write | Operation::Allocate) => SQLITE_IOERR_WRITE,
        (_, Operation::Sync) => SQLITE_IOERR_FSYNC,
        (_, Operation::SyncDirectory) => SQLITE_IOERR_DIR_FSYNC,
        (_, Operation::SetLength) => SQLITE_IOERR_TRUNCATE,
        (_, Operation::Length) => SQLITE_IOERR_FSTAT,
        (ErrorKind::NotFound, Operation::Delete) => SQLITE_IOERR_DELETE_NOENT,
        (_, Operation::Delete | Operation::Rename) => SQLITE_IOERR_DELETE,
        (_, Operation::Info | Operation::List) => SQLITE_IOERR_ACCESS,
        (_, Operation::Lock) => SQLITE_IOERR_LOCK,
        _ => SQLITE_IOERR,
    }
}

/// Whether a path is that of a log or a journal beside a database.
fn is_log(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.ends_with(b"-wal") || name.ends_with(b"-journal")
}

thread_local! {
    static LAST: RefCell<Option<(String, c_int)>> = const { RefCell::new(None) };
}

/// The full text of this thread's last error below SQLite, if there was one.
pub fn last_error() -> Option<String> {
    LAST.with(|last| last.borrow().as_ref().map(|(text, _)| text.clone()))
}

/// The operating system's number of this thread's last error; 0 where there is none.
pub(crate) fn last_errno() -> c_int {
    LAST.with(|last| last.borrow().as_ref().map_or(0, |(_, errno)| *errno))
}

/// Keeps the text of an error for [`last_error`]; returns it when the log should have it.
pub(crate) fn remember(error: &Error) -> Option<String> {
    if error.is_routine() {
        return None;
    }
    let errno =
        if let Error::Device(error) | Error::CannotOpen(error, _) = error { error.errno() } else { 0 };
    // Programs print it, and file names and statements in it are others' words.
    let text = notice::harmless(&error.to_string());
    LAST.with(|last| *last.borrow_mut() = Some((text.clone(), errno)));
    Some(text)
}

/// Forgets this thread's last error.
pub fn clear_last_error() {
    LAST.with(|last| *last.borrow_mut() = None);
}
