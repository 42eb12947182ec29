//! What can go wrong on the way to a destination, by what is to be done about it.

use std::path::{Path, PathBuf};

/// A batch was not delivered, or it is unknown whether it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of this machine cannot be used.
    #[error("{path}: {why}", path = .path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The destination does not answer. Waiting may help.
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
    /// Another copy of the database delivers as the same source. This one stops.
    #[error("{place}: {why}")]
    Fenced {
        /// The destination, without secrets.
        place: String,
        /// How that was seen, and what to do.
        why: String,
    },
}

impl Error {
    /// A failure of a file of this machine.
    pub fn local(path: &Path, why: impl ToString) -> Error {
        Error::Local { path: path.to_owned(), why: why.to_string() }
    }

    /// True where waiting may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }
}

/// The result of delivering.
pub type Result<T> = std::result::Result<T, Error>;
