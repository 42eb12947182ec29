//! Why an experiment has no result.

use litefoot_storage::file::DeviceError;
use std::io;
use std::path::PathBuf;

/// Result of a part of an experiment.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory to work in cannot be used.
    #[error("{}: cannot be worked in: {source}; name a directory that you may write to", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("{what}: {source}")]
    Sqlite {
        /// The file or side it was about.
        what: String,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// Litefoot could not be set up or opened.
    #[error(transparent)]
    Litefoot(#[from] litefoot::Error),
    /// The device layer failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A page file could not be made or read.
    #[error(transparent)]
    Pages(#[from] litefoot_pagestore::pagefile::Error),
    /// A database of pages failed.
    #[error(transparent)]
    Store(#[from] litefoot_pagestore::store::Error),
    /// An operator on pages failed.
    #[error(transparent)]
    Operator(#[from] litefoot_pagestore::ops::Error),
    /// Workers failed.
    #[error(transparent)]
    Task(#[from] litefoot_pagestore::task::TaskError),
    /// The I/O queue cannot start.
    #[error(transparent)]
    Queue(#[from] litefoot_storage::io::NoThread),
    /// A side does not hold what was stored in it: its speed means nothing.
    #[error("{0}; please report this: it must not happen")]
    Wrong(String),
    /// A figure is not a number, or its name is not one that scripts can rely on.
    #[error("figure {name} = {value} cannot be reported; please report this: it must not happen")]
    Figure {
        /// Its name.
        name: String,
        /// Its value.
        value: f64,
    },
    /// Latencies could not be kept.
    #[error("a histogram of latencies failed: {0}; please report this: it must not happen")]
    Histogram(String),
    /// A report could not be turned into JSON.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The process that ran it had no result.
    #[error("its process ended without a result ({0})")]
    Ended(String),
    /// The program with the other stores is not there, or has none.
    #[error(
        "the other stores are in a program of their own, which is not beside this one: \
         cargo build --release -p litefoot-peers --features peers"
    )]
    Peers,
    /// Something that the experiment needs is not there.
    #[error("this needs {0}")]
    Missing(String),
    /// There is nothing of that name.
    #[error("there is no {what} {name:?}; there is: {known}")]
    Unknown {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// One of the other stores, the program that has them, or another program that an experiment runs, failed.
    #[error("{name}: {what}")]
    Peer {
        /// Its name.
        name: String,
        /// Its message.
        what: String,
    },
    /// Somebody asked us to stop.
    #[error("stopped before it was done")]
    Stopped,
}
