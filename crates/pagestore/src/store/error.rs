//! Why a database of pages cannot do what it was asked. Names of the thesis' codes (SMILE, section 3.4) in brackets.

use super::{Inconsistency, PageId};
use litefoot_storage::buffer_pool;
use litefoot_storage::file::DeviceError;
use std::path::PathBuf;

/// Result of an operation on a database of pages.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons for which an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed: reading (`E_STORAGE_UNEXPECTED_READ_ERROR`), writing
    /// (`E_STORAGE_UNEXPECTED_WRITE_ERROR`), or something else; the error says what. Pages that could not be
    /// written stay in memory, and the next checkpoint writes them.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A page cannot be had: all frames are pinned (`E_BUFPOOL_OUT_OF_MEMORY`), a pin stays too long, or its read
    /// failed.
    #[error(transparent)]
    Pool(buffer_pool::Error),
    /// The directory does not exist (`E_STORAGE_INVALID_PATH`).
    #[error("{}: its directory does not exist; create it first", path.display())]
    InvalidPath {
        /// The path of the database.
        path: PathBuf,
    },
    /// Something is there already (`E_STORAGE_PATH_ALREADY_EXISTS`).
    #[error("{}: exists already and is not overwritten; open it, or remove it first", path.display())]
    AlreadyExists {
        /// The file in the way.
        path: PathBuf,
    },
    /// There is no database.
    #[error("{}: there is no database of pages; create it first", path.display())]
    NotFound {
        /// The file that is missing.
        path: PathBuf,
    },
    /// Another handle, of this process or another, has it open.
    #[error("{}: is open elsewhere; a database has one owner at a time", path.display())]
    InUse {
        /// The data file.
        path: PathBuf,
    },
    /// A file is not what it must be: damaged, foreign, or of another version.
    #[error("{}: {what}; restore it from a copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The data file is shorter than its allocation table says.
    #[error("{}: has {bytes} bytes and should have {expected} at least; it was cut short, restore it from a copy",
        path.display())]
    Truncated {
        /// The data file.
        path: PathBuf,
        /// Bytes it has.
        bytes: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// A size no page may have.
    #[error("a page of {0} bytes cannot be; pages have 4,096, 8,192, 16,384, 32,768 or 65,536 bytes")]
    PageSize(usize),
    /// (`E_BUFPOOL_SIZE_NOT_MULTIPLE_OF_PAGE_SIZE`)
    #[error(
        "a pool of {pool_bytes} bytes cannot be; it must be a multiple of the page size, {page_bytes}, and at \
        least {} pages",
        buffer_pool::FEWEST_FRAMES
    )]
    PoolSize {
        /// Bytes asked for.
        pool_bytes: usize,
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// More partitions than frames, or none.
    #[error("{partitions} partitions of {frames} frames cannot be; there is at least one frame to each")]
    Partitions {
        /// Partitions asked for.
        partitions: usize,
        /// Frames of the pool.
        frames: usize,
    },
    /// A share that is none.
    #[error("a clean threshold of {0} cannot be; it is a share of the pool, above 0 and at most 1")]
    Threshold(f64),
    /// No time from one checkpoint to the next.
    #[error("a checkpoint every 0 seconds cannot be; give a longer time, or none")]
    Interval,
    /// The system has no thread for the checkpoints of an interval.
    #[error("{}: no thread for checkpoints can be had; open without an interval of checkpoints", path.display())]
    NoThread {
        /// The data file.
        path: PathBuf,
    },
    /// A page that is not in the file (`E_STORAGE_CRITICAL_ERROR`).
    #[error("{}: there is no page {page}; the file has {pages}", path.display())]
    NoSuchPage {
        /// The data file.
        path: PathBuf,
        /// The page asked for.
        page: PageId,
        /// Pages there are.
        pages: u64,
    },
    /// A page of the allocation table.
    #[error("page {page} holds the allocation table and is not to be had")]
    Protected {
        /// The page.
        page: PageId,
    },
    /// A page that is free: never allocated, or released.
    #[error("page {page} is not allocated; allocate it before use, and release it once")]
    NotAllocated {
        /// The page.
        page: PageId,
    },
    /// A pinned page cannot be released.
    #[error("page {page} is pinned; drop every guard before releasing it")]
    Pinned {
        /// The page.
        page: PageId,
    },
    /// A unit has changed more pages than there are frames.
    #[error(
        "all {frames} frames of the pool hold pages that this unit has changed or pinned; make smaller units, \
        or open with a larger pool"
    )]
    UnitTooLarge {
        /// Frames of the pool.
        frames: usize,
    },
    /// The file cannot have more pages.
    #[error("{}: {pages} more pages cannot be numbered", path.display())]
    TooLarge {
        /// The data file.
        path: PathBuf,
        /// Pages asked for.
        pages: u64,
    },
    /// A checkpoint waited for units of work that did not end.
    #[error("{}: a checkpoint cannot begin while a unit of work is open; does this thread have one?", path.display())]
    UnitOpen {
        /// The data file.
        path: PathBuf,
    },
    /// Memory and file do not agree.
    #[error("{}: {first} (and {more} more)", path.display())]
    Inconsistent {
        /// The data file.
        path: PathBuf,
        /// The first thing that is wrong.
        first: Inconsistency,
        /// The number of the others.
        more: usize,
    },
}
