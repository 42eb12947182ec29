//! Why two versions cannot be compared.

use std::fmt::{self, Display, Formatter};

/// One of the two versions of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The older one.
    Before,
    /// The newer one.
    After,
}

impl Display for Side {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Side::Before => "before the changes",
            Side::After => "after the changes",
        })
    }
}

/// The reason that there is no difference.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of a page are not what SQLite writes.
    #[error("page {page}, {side}: {what}; check the database with PRAGMA integrity_check")]
    Corrupt {
        /// The version of the page.
        side: Side,
        /// Its number.
        page: u32,
        /// The part of it that is wrong.
        what: &'static str,
    },
    /// A page could not be read.
    #[error("page {page}, {side}, cannot be read: {source}")]
    Read {
        /// The version of the page.
        side: Side,
        /// Its number.
        page: u32,
        /// The error of the reader.
        source: Failure,
    },
    /// A row lacks a column whose default value is an expression that this crate does not compute.
    #[error("table {table}: the default of column {column} is not a constant that can be read")]
    Default {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// The visitor did not take a change.
    #[error("{0}")]
    Visitor(Failure),
}

/// An error of the caller's own.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of what reads pages.
pub type Result<T> = std::result::Result<T, Error>;
