//! SQLite for the edge: [`rusqlite`] connections on litefoot storage.
//!
//! ```
//! # fn main() -> Result<(), litefoot::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("app.db");
//! let db = litefoot::Connection::open(&path)?;
//! db.execute_batch("CREATE TABLE reading(at INTEGER, value REAL)")?;
//! db.execute("INSERT INTO reading VALUES (?1, ?2)", (1, 20.5))?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Connection`] derefs to [`rusqlite::Connection`], so everything that works there works here.
//! Options of the storage are URI parameters: `Connection::open("file:app.db?sharing=passthrough")`.

pub mod graph;
mod library;
mod registered;

pub use litefoot_pagestore::task;
pub use litefoot_vfs::db::tier;
pub use litefoot_vfs::open::log_inspect;
#[doc(hidden)]
pub use litefoot_vfs::open::looks;
pub use litefoot_vfs::open::replay::{Progress, set_progress};
pub use litefoot_vfs::options::{CommitLogForm, GroupSocket, PageCleaner, Sharing};
pub use litefoot_vfs::stats;
pub use litefoot_vfs::trial;
pub use litefoot_vfs::{Allocator, Options, clear_last_error, last_error, leave_errors_to_the_program};
pub use registered::{Vfs, VfsBuilder};
pub use rusqlite;

use std::ops::{Deref, DerefMut};
use std::path::Path;

/// An error of an open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite's answer, litefoot's message in it.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The storage could not be set up.
    #[error(transparent)]
    Storage(#[from] litefoot_vfs::Error),
    /// The SQLite this program links cannot be used.
    #[error("cannot use this program's SQLite: {0}")]
    Library(String),
}

/// A connection to a database on litefoot storage.
#[derive(Debug)]
pub struct Connection {
    inner: rusqlite::Connection,
}

impl Connection {
    /// Opens a database, a path or a `file:` URI, and creates it when it is missing.
    ///
    /// ```
    /// # fn main() -> Result<(), litefoot::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let uri = format!("file:{}/app.db?commit_log=statements", directory.path().display());
    /// let db = litefoot::Connection::open(uri)?;
    /// let mode: String = db.query_row("PRAGMA journal_mode=WAL", (), |row| row.get(0))?;
    /// assert_eq!(mode, "wal");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Sqlite`] with a message that names the file and what to do. "database is locked" comes with the first
    /// use when another process owns the database.
    pub fn open(path: impl AsRef<Path>) -> Result<Connection, Error> {
        Connection::open_with_flags(path, rusqlite::OpenFlags::default())
    }

    /// Opens a database with flags of SQLite.
    ///
    /// # Errors
    /// As for [`Connection::open`].
    pub fn open_with_flags(path: impl AsRef<Path>, flags: rusqlite::OpenFlags) -> Result<Connection, Error> {
        library::install(false)?;
        clear_last_error();
        let inner = rusqlite::Connection::open_with_flags_and_vfs(path, flags, litefoot_vfs::VFS_NAME)
            .map_err(with_detail)?;
        Ok(Connection { inner })
    }

    /// The connection as one of rusqlite.
    pub fn into_inner(self) -> rusqlite::Connection {
        self.inner
    }
}

impl Deref for Connection {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &rusqlite::Connection {
        &self.inner
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut rusqlite::Connection {
        &mut self.inner
    }
}

/// Replaces SQLite's general message of a failed open by litefoot's own.
fn with_detail(error: rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(code, last_error().or(message))
        }
        other => other,
    }
}

/// Makes litefoot the default VFS of this process: every connection that names no other VFS uses it.
///
/// ```
/// # fn main() -> Result<(), litefoot::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// litefoot::make_default()?;
/// let db = litefoot::rusqlite::Connection::open(directory.path().join("app.db"))?;
/// let figures: i64 = db.query_row("SELECT count(*) FROM litefoot_stats", (), |row| row.get(0))?;
/// assert!(figures > 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When litefoot cannot be registered.
pub fn make_default() -> Result<(), Error> {
    library::install(true)
}

/// The examples of `README.md` run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
