//! Errors of the VFS, and their result codes for SQLite.
//!
//! SQLite takes a result code and makes a message of its own, which names no file. So the full text of an error goes to
//! SQLite's error log, and stays per thread in [`last_error`]. The message of a failed *open* is the full text
//! (`shim/auto_extension.rs`).

use crate::ffi::codes::*;
use litefoot_storage::file::{DeviceError, ErrorKind, Operation};
use litefoot_storage::worker::WorkerPanic;
use std::cell::RefCell;
use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// Result of a VFS operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error below SQLite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A read past the end of the file; the rest was filled with zeros. SQLite expects this one.
    #[error("short read")]
    ShortRead,
    /// A lock of another connection or process is in the way; SQLite's busy handler decides.
    #[error("locked")]
    Busy,
    /// Another process has the database open.
    #[error(
        "{}: {} has this database open, and does not share it now: close it there, or open it there with sharing=auto",
        path.display(), holder.as_deref().unwrap_or("another process")
    )]
    Owned {
        /// The database.
        path: PathBuf,
        /// The process and its program, where the system tells.
        holder: Option<String>,
    },
    /// The handle was inherited through `fork` in the middle of a transaction of the parent process.
    #[error(
        "{}: this connection was opened before fork() and belongs to the parent process, whose transaction it is in; \
         open the database again in the child process",
        path.display()
    )]
    Forked {
        /// The database.
        path: PathBuf,
    },
    /// What the process that owns the database has told.
    #[error("{text}")]
    Owners {
        /// The result code for SQLite.
        code: c_int,
        /// What happened, and what to do.
        text: String,
    },
    /// The file cannot be written through this handle.
    #[error("{}: opened read-only", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// Transactions in the log could not be replayed; the text says why.
    #[error("{0}")]
    Unreplayed(String),
    /// An earlier sync has failed, and nothing is written any more.
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
    /// An earlier open was refused; the text says why.
    #[error("{0}")]
    Unopened(String),
    /// SQLite's own VFS serves the file: the boundary passes the call on.
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
    /// A database cannot be opened, by an error of the system; the text says what to do.
    #[error("{0}; {1}")]
    CannotOpen(DeviceError, &'static str),
    /// The medium failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A panic was caught at the boundary to C.
    #[error("internal error (please report it): {0}")]
    Panic(String),
}

/// Refuses to begin work while memory is short. Work under way goes on with the reserve.
#[inline]
pub(crate) fn check_memory() -> Result<()> {
    if litefoot_storage::reserve::is_short() { Err(Error::NoMemory) } else { Ok(()) }
}

/// Refuses memory to a transaction under way when the reserve is nearly gone.
#[inline]
pub(crate) fn check_reserve() -> Result<()> {
    if litefoot_storage::reserve::is_nearly_gone() { Err(Error::NoMemory) } else { Ok(()) }
}

impl From<WorkerPanic> for Error {
    fn from(panic: WorkerPanic) -> Error {
        Error::Panic(format!("{}: {}", panic.name, panic.text))
    }
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
            Error::Owners { code, .. } => *code,
            // SQLite does not wait on this code, takes it from every call, and blames no hardware for it.
            Error::Forked { .. } => SQLITE_CANTOPEN,
            Error::ReadOnly { .. } | Error::Closed(_) | Error::Unreplayed(_) => SQLITE_READONLY,
            Error::ReadOnlyWal { .. }
            | Error::CannotOpen(..)
            | Error::Unopened(_)
            | Error::Refused(_)
            | Error::Path(_)
            | Error::LeftToPlatform => SQLITE_CANTOPEN,
            // SQLite makes SQLITE_NOMEM of it. After a failed rollback, SQLite drops its cache only for an I/O error.
            Error::NoMemory => SQLITE_IOERR_NOMEM,
            Error::Io(_) => SQLITE_IOERR,
            Error::Device(error) => device_code(error),
            Error::Panic(_) => SQLITE_INTERNAL,
        }
    }

    /// True for errors that SQLite meets in normal operation; no text is kept of them.
    fn is_routine(&self) -> bool {
        matches!(self, Error::ShortRead | Error::Busy)
            || matches!(self, Error::Device(error)
                if error.operation == Operation::Delete && error.kind() == ErrorKind::NotFound)
    }
}

/// The code for an error of the medium. For a closed latch it is an I/O error as well, except at the begin of a
/// transaction (`Error::Closed`). After a failed rollback, SQLite drops its cache for an I/O error only.
fn device_code(error: &DeviceError) -> c_int {
    match (error.kind(), error.operation) {
        // A log that exists and may not be written is found before this: here the directory refuses a new one.
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
        (_, Operation::Map) => SQLITE_IOERR_SHMMAP,
        _ => SQLITE_IOERR,
    }
}

/// True for the path of a write-ahead log or of a journal.
fn is_log(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.ends_with(b"-wal") || name.ends_with(b"-journal")
}

thread_local! {
    /// The text and the `errno` of this thread's last error.
    static LAST: RefCell<Option<(String, c_int)>> = const { RefCell::new(None) };
}

/// The full text of this thread's last error below SQLite, if there was one.
pub fn last_error() -> Option<String> {
    LAST.with(|last| last.borrow().as_ref().map(|(text, _)| text.clone()))
}

/// The `errno` of this thread's last error; 0 where there is none.
pub(crate) fn last_errno() -> c_int {
    LAST.with(|last| last.borrow().as_ref().map_or(0, |(_, errno)| *errno))
}

/// Keeps the text of an error for [`last_error`]; returns the text that belongs into the error log.
pub(crate) fn remember(error: &Error) -> Option<String> {
    if error.is_routine() {
        return None;
    }
    let errno =
        if let Error::Device(error) | Error::CannotOpen(error, _) = error { error.errno() } else { 0 };
    // Programs print the text, and other people chose the file names and statements in it.
    let text = printable(&error.to_string());
    LAST.with(|last| *last.borrow_mut() = Some((text.clone(), errno)));
    Some(text)
}

/// A text for a terminal: control characters, which a terminal would obey, become question marks.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Forgets this thread's last error.
pub fn clear_last_error() {
    LAST.with(|last| *last.borrow_mut() = None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn device(operation: Operation, errno: c_int, path: &str) -> Error {
        Error::Device(DeviceError::new(operation, Path::new(path), io::Error::from_raw_os_error(errno)))
    }

    #[test]
    fn errors_have_the_codes_that_sqlite_acts_on() {
        let closed =
            DeviceError::new(Operation::Sync, Path::new("/a.db"), io::Error::from_raw_os_error(libc::EIO));
        for (error, code) in [
            (Error::ShortRead, SQLITE_IOERR_SHORT_READ),
            (Error::Busy, SQLITE_BUSY),
            (Error::Owned { path: PathBuf::new(), holder: None }, SQLITE_BUSY),
            (Error::Owners { code: SQLITE_FULL, text: String::new() }, SQLITE_FULL),
            (Error::Forked { path: PathBuf::new() }, SQLITE_CANTOPEN),
            (Error::ReadOnly { path: PathBuf::new() }, SQLITE_READONLY),
            (Error::ReadOnlyWal { path: PathBuf::new() }, SQLITE_CANTOPEN),
            (Error::Closed(closed), SQLITE_READONLY),
            (Error::Refused(String::new()), SQLITE_CANTOPEN),
            (Error::NoMemory, SQLITE_IOERR_NOMEM),
            (Error::Io(String::new()), SQLITE_IOERR),
            (Error::Panic(String::new()), SQLITE_INTERNAL),
            (device(Operation::Open, libc::EACCES, "/a.db"), SQLITE_CANTOPEN),
            (device(Operation::Open, libc::EACCES, "/a.db-wal"), SQLITE_READONLY_DIRECTORY),
            (device(Operation::Open, libc::EIO, "/a.db-wal"), SQLITE_CANTOPEN),
            (device(Operation::Write, libc::ENOSPC, "/a.db"), SQLITE_FULL),
            (device(Operation::Sync, libc::ENOSPC, "/a.db"), SQLITE_FULL),
            (device(Operation::Read, libc::ENOSPC, "/a.db"), SQLITE_IOERR_READ),
            (device(Operation::Write, libc::EIO, "/a.db"), SQLITE_IOERR_WRITE),
            (device(Operation::Sync, libc::EIO, "/a.db"), SQLITE_IOERR_FSYNC),
            (device(Operation::SyncDirectory, libc::EIO, "/"), SQLITE_IOERR_DIR_FSYNC),
            (device(Operation::Delete, libc::ENOENT, "/a.db-wal"), SQLITE_IOERR_DELETE_NOENT),
            (device(Operation::Delete, libc::EIO, "/a.db-wal"), SQLITE_IOERR_DELETE),
            (device(Operation::Lock, libc::EIO, "/a.db"), SQLITE_IOERR_LOCK),
        ] {
            assert_eq!(error.code(), code, "{error:?}");
        }
    }

    #[test]
    fn only_errors_out_of_the_ordinary_are_kept_for_the_program() {
        for (error, is_kept) in [
            (Error::ShortRead, false),
            (Error::Busy, false),
            (device(Operation::Delete, libc::ENOENT, "/a.db-wal"), false),
            (device(Operation::Delete, libc::EIO, "/a.db-wal"), true),
            (Error::Io("broken".to_owned()), true),
        ] {
            clear_last_error();
            let for_log = remember(&error);
            assert_eq!((for_log.is_some(), last_error().is_some()), (is_kept, is_kept), "{error:?}");
        }
        remember(&device(Operation::Sync, libc::EIO, "/a.db"));
        assert_eq!(last_errno(), libc::EIO);
    }

    #[test]
    fn a_terminal_gets_no_escapes() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}b\n"), "a?[2J?b?");
    }
}
