//! Errors of the device layer: which file, which operation, what the medium said.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of a device operation.
pub type Result<T> = std::result::Result<T, DeviceError>;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Operation {
    Open,
    Read,
    Write,
    Sync,
    Length,
    SetLength,
    Allocate,
    Delete,
    Rename,
    Info,
    List,
    SyncDirectory,
    Lock,
    Map,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Length => "get the length of",
            Operation::SetLength => "change the length of",
            Operation::Allocate => "reserve space for",
            Operation::Delete => "delete",
            Operation::Rename => "rename",
            Operation::Info => "look up",
            Operation::List => "list",
            Operation::SyncDirectory => "sync the directory",
            Operation::Lock => "lock",
            Operation::Map => "map",
        })
    }
}

/// The medium's answer, in words that say what to do where the system's do not.
struct Said<'a>(&'a io::Error);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.raw_os_error() {
            Some(libc::ELOOP) => f.write_str(
                "a symbolic link is in its place, and is not followed; remove it, or name the file that it leads to",
            ),
            _ => self.0.fmt(f),
        }
    }
}

/// The kind of a failure, as far as callers decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file or its directory does not exist.
    NotFound,
    /// It exists although it must not.
    AlreadyExists,
    /// Permission denied, or a read-only file system.
    Permission,
    /// No space left, or a quota is used up.
    Full,
    /// A directory stands where a file is wanted.
    IsDirectory,
    /// The medium has no such operation, and nothing was done.
    Unsupported,
    /// An earlier sync failed; the medium is latched read-only.
    Latched,
    /// Anything else the medium reports.
    Io,
}

/// A failed operation on a file.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {operation}: {}", path.display(), Said(source))]
#[non_exhaustive]
pub struct DeviceError {
    /// The operation that was tried.
    pub operation: Operation,
    /// Its file.
    pub path: PathBuf,
    /// The medium's answer.
    pub source: io::Error,
    latched: bool,
}

impl DeviceError {
    /// An error of `operation` on `path`.
    pub fn new(operation: Operation, path: &Path, source: io::Error) -> DeviceError {
        DeviceError { operation, path: path.to_owned(), source, latched: false }
    }

    /// The error that stands in for every write after a failed sync.
    pub(crate) fn latched(path: &Path, first: &str) -> DeviceError {
        DeviceError {
            operation: Operation::Write,
            path: path.to_owned(),
            source: io::Error::other(format!(
                "read-only since a failure ({first}); close every connection and open the file again"
            )),
            latched: true,
        }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        if self.latched {
            return ErrorKind::Latched;
        }
        match self.source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Permission,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ErrorKind::Full
            }
            io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        }
    }

    /// The operating system's error number, where there is one.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}
