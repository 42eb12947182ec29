//! What can go wrong between a database and a place far away, by what is to be done about it.

use std::path::{Path, PathBuf};

/// A failure to read a database, or to deliver what changed in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database is kept by another program at this moment. The next tick tries again.
    #[error("{path}: {why}", path = .path.display())]
    Locked {
        /// The database.
        path: PathBuf,
        /// The reason, as SQLite has it.
        why: String,
    },
    /// The database, or a file of this machine, cannot be used.
    #[error("{path}: {why}", path = .path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The destination does not answer. The service tries again.
    #[error("{place}: cannot be reached: {why}")]
    Unreachable {
        /// The destination, without secrets.
        place: String,
        /// What happened.
        why: String,
    },
    /// The destination refuses, and trying again is no use.
    #[error("{place}: {why}")]
    Refused {
        /// The destination, without secrets.
        place: String,
        /// What happened, and what to do.
        why: String,
    },
    /// Another shipper writes to the destination. This one stops.
    #[error("{place}: {why}")]
    Fenced {
        /// The destination, without secrets.
        place: String,
        /// How that was seen, and what to do.
        why: String,
    },
    /// What lies at the destination is not what was written there.
    #[error("{place}: {why}")]
    Damaged {
        /// The file there.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// Somebody asked for the end: SIGTERM, Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A failure of a file of this machine.
    pub fn local(path: &Path, why: impl ToString) -> Error {
        Error::Local { path: path.to_owned(), why: why.to_string() }
    }

    /// True where waiting may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Locked { .. } | Error::Unreachable { .. })
    }
}

impl From<litefoot_rowsink::Error> for Error {
    fn from(error: litefoot_rowsink::Error) -> Error {
        use litefoot_rowsink::Error as Of;
        match error {
            Of::Local { path, why } => Error::Local { path, why },
            Of::Unreachable { place, why } => Error::Unreachable { place, why },
            Of::Fenced { place, why } => Error::Fenced { place, why },
            Of::Refused { place, why } => Error::Refused { place, why },
            other => Error::Refused { place: "the destination".to_owned(), why: other.to_string() },
        }
    }
}

/// The result of reading or delivering.
pub type Result<T> = std::result::Result<T, Error>;
