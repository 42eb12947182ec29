//! Stores: files that are written once, at one place for one database.
//!
//! # What a store promises
//! 1. [`Store::put_new`] writes a file whole or not at all, and never over another one: of two writers, one is told so. That is
//!    the fence between shippers.
//! 2. What was put is read afterwards by everybody, until somebody deletes it.
//! 3. [`Store::place`], and every error, have no secret in them.

mod body;
#[cfg(feature = "cloud")]
mod cloud;
mod directory;

pub use body::Body;
#[cfg(feature = "cloud")]
pub use cloud::Bucket;
pub use directory::Directory;

use crate::Result;
use litefoot_ltx::{Level, TxId, name};
use std::fmt;
use std::ops::Range;

/// A file of a store, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// Its level of compaction.
    pub level: Level,
    /// Its first transaction.
    pub min: TxId,
    /// Its last transaction.
    pub max: TxId,
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.level.folder(), name::file_name(self.min, self.max))
    }
}

/// A file of a store, as a listing has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: FileName,
    /// Its length.
    pub bytes: u64,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The file is there.
    Created,
    /// A file of this name was there, and is as it was.
    Exists,
}

/// A place for the files of one database.
pub trait Store: Send + Sync {
    /// The place, for people.
    fn place(&self) -> &str;

    /// The files of a level, ascending by their transactions.
    fn list(&self, level: Level) -> Result<Vec<Listed>>;

    /// Writes a file that is not there yet. `timestamp_ms` is the time of its last transaction.
    fn put_new(&self, name: FileName, body: &Body, timestamp_ms: u64) -> Result<Put>;

    /// Reads a part of a file; `None` if it is not there. The answer is shorter where the file is.
    fn get(&self, name: FileName, range: Range<u64>) -> Result<Option<Vec<u8>>>;

    /// Deletes files. Those that are gone already are no failure.
    fn delete(&self, names: &[FileName]) -> Result<()>;

    /// Makes sure that [`Store::put_new`] is a fence here. May write a file that is none of the backup's.
    fn check_fence(&self) -> Result<()> {
        Ok(())
    }

    /// Requests that are worth being made at the same time.
    fn parallel(&self) -> usize;
}
