//! Page files that are written once and read often: graphs, and whatever else operators work on.
//!
//! # Why
//! A graph is made in one piece and never changed. It needs no log and no free list. It must be whole or absent, and
//! many fibers must read it at once with little memory.
//!
//! # Layout
//! Page 0 describes the file; the pages behind it belong to its maker. Little-endian.
//!
//! ```text
//!   0   8  magic "lf-pages"
//!   8   4  version, 1
//!  12   4  bytes of a page: a power of two, 4,096 to 262,144
//!  16   8  pages, this one among them
//!  24   4  CRC-32C of the 24 bytes before
//! ```
//!
//! # What it promises
//! 1. A page file is whole or not there: [`Builder`] makes it under another name, syncs it, and gives it its name
//!    last. A builder that is dropped unfinished leaves nothing.
//! 2. A file that is none, has another length than it says, or a header that is damaged, is refused.
//! 3. [`PageFile`] keeps at most [`Options::cache_bytes`] of pages in memory, and at least [`FEWEST_PAGES`], in a
//!    [`Pool`](litefoot_storage::buffer_pool::Pool). On top come 8 to 16 bytes for each page of the file.
//!
//! # What it does not do
//! Write pages of a file that has its name, or notice when another program does.

mod builder;
mod file;
mod header;

pub use builder::Builder;
pub use file::PageFile;
pub use litefoot_storage::buffer_pool::{Pinned, Statistics};

use litefoot_storage::file::DeviceError;
use litefoot_storage::numa::Topology;
use std::path::PathBuf;

/// Pages kept in memory in any case.
pub const FEWEST_PAGES: usize = 16;

/// Sizes a page may have.
pub const PAGE_SIZES: [usize; 7] = [4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144];

/// The options for reading a page file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of pages kept in memory.
    pub cache_bytes: usize,
    /// True if pages are read ahead.
    pub prefetch: bool,
    /// Partitions of the cache.
    pub partitions: usize,
    /// The memory nodes that the partitions are spread over: those of the machine, or [`Topology::single`].
    pub topology: Topology,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_bytes: 16 << 20, prefetch: true, partitions: 4, topology: Topology::of_machine() }
    }
}

/// Result of an operation on a page file.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons for which a page file cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Not a page file, or not a whole one.
    #[error("{}: {what}", path.display())]
    NotAPageFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A page that is not there.
    #[error("{}: there is no page {page}; the file has {pages} pages", path.display())]
    NoSuchPage {
        /// The file.
        path: PathBuf,
        /// The page asked for.
        page: u64,
        /// The pages there are.
        pages: u64,
    },
    /// A size no page may have.
    #[error("a page of {0} bytes cannot be; pages have 4,096 to 262,144 bytes, a power of two")]
    PageSize(usize),
    /// More pages than a file can have.
    #[error("{}: a file cannot be as large as this one would become", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// No memory for the pages.
    #[error("no memory for {bytes} bytes of pages: {why}; ask for less")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// The system's answer.
        why: std::io::Error,
    },
    /// Every page in memory is pinned.
    #[error("{}: every page in memory is held; let go of some, or open the file with more memory", path.display())]
    AllPinned {
        /// The file.
        path: PathBuf,
    },
    /// Something has the name that the file was to get.
    #[error("{}: exists already; remove it first, or choose another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The read of a page failed for another thread that asked at the same time.
    #[error("{}: page {page} cannot be read: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The page.
        page: u64,
        /// The medium's answer.
        why: String,
    },
}

#[cfg(test)]
mod tests;
