//! The only door to storage.
//!
//! # Why
//! Everything litefoot promises about power cuts is a promise about the order in which bytes reach a
//! medium. That order can be simulated, counted and modelled only if every file operation passes one
//! small interface. Nothing above this module calls the operating system for files.
//!
//! # What it promises
//! 1. [`File::write_at`] returns `Ok` only when all bytes were accepted; a short write is an error.
//! 2. After [`File::sync`] returns `Ok`, every byte written to *this file* before the call, and the
//!    length needed to read it back, survive a power cut. Nothing is promised about other files, and
//!    nothing about the file's *name*: that takes [`Medium::sync_directory`].
//! 3. Without a sync, any subset of the 512-byte sectors written since the last one may survive, in any order. A change
//!    of length or name may or may not survive.
//! 4. After a failed sync the content of the unsynced range is unknown. Callers must not retry and
//!    carry on: see [`SyncLatch`].
//! 5. A change of a file's time may or may not survive, whether the file was synced or not. Only [`File::set_stamp`]
//!    makes it durable.
//!
//! # What it does not do
//! Cache, buffer, retry or reorder anything.

mod error;
mod latch;
mod pass_on;

pub use error::{DeviceError, ErrorKind, Operation, Result};
pub use latch::SyncLatch;

use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that a medium writes atomically: a power cut tears a write only at multiples of this.
pub const SECTOR_BYTES: usize = 512;

/// The purpose of a file. Counters and device models report by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileKind {
    /// A database or page file.
    Database,
    /// The redo log: a standard SQLite `-wal` file.
    RedoLog,
    /// The commit log, `-commits`.
    CommitLog,
    /// A rollback journal.
    Journal,
    /// A super-journal of a multi-file transaction.
    SuperJournal,
    /// Scratch that is not needed after a crash.
    Temporary,
    /// Metadata of a page store.
    Metadata,
    /// The fast device of a tiered store.
    Tier,
    /// SQLite's wal-index, `-shm`: memory that processes share, and that nobody needs after a crash.
    WalIndex,
}

impl FileKind {
    /// All kinds, in the order in which tables print them.
    pub const ALL: [FileKind; 9] = [
        FileKind::Database,
        FileKind::RedoLog,
        FileKind::CommitLog,
        FileKind::Journal,
        FileKind::SuperJournal,
        FileKind::Temporary,
        FileKind::Metadata,
        FileKind::Tier,
        FileKind::WalIndex,
    ];

    /// The name used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Database => "database",
            FileKind::RedoLog => "redo_log",
            FileKind::CommitLog => "commit_log",
            FileKind::Journal => "journal",
            FileKind::SuperJournal => "super_journal",
            FileKind::Temporary => "temporary",
            FileKind::Metadata => "metadata",
            FileKind::Tier => "tier",
            FileKind::WalIndex => "wal_index",
        }
    }
}

/// The mode of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; writes fail.
    ReadOnly,
    /// The file must exist.
    ReadWrite,
    /// The file is created when it is missing.
    Create,
    /// The file must not exist yet.
    CreateNew,
}

/// Identity of an open file, equal for every path and handle that reach the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// The stamp of a file: tells it from itself at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Length in bytes.
    pub len: u64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modified: i128,
}

/// The strength of a lock on a byte range against *other processes*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLock {
    /// Others may have shared locks on the range, too.
    Shared,
    /// No other process may lock the range.
    Exclusive,
    /// No lock.
    None,
}

/// What runs when a lease breaks.
pub type OnBreak = Arc<dyn Fn() + Send + Sync>;

/// The answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// Nobody else has the file open, and nobody opens it unnoticed.
    Granted,
    /// There is another open file description of the file, in this process or in another one.
    Company,
    /// Leases are refused: to users that do not own the file, on network file systems, by simple media.
    Unsupported,
}

/// The guarantees of a device about single writes, probed and never assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guarantees {
    /// Largest aligned power-of-two write that reaches the medium whole or not at all, in bytes;
    /// 0 where nothing is guaranteed (Linux: `statx` with `STATX_WRITE_ATOMIC`).
    pub atomic_write_bytes: u32,
}

/// An open file. All methods take `&self`: offsets are explicit, so threads may share one.
pub trait File: Send + Sync {
    /// Reads into `buf` from `offset` until it is full or the file ends; returns the bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Reads into `buf` from `offset` what the system has in its cache; `None` where it would have to ask the device.
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> Result<Option<usize>> {
        self.read_at(buf, offset).map(Some)
    }

    /// Reads consecutive bytes into several buffers; returns the bytes read.
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let mut done = 0;
        for buf in bufs {
            let read = self.read_at(buf, offset + done as u64)?;
            done += read;
            if read < buf.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes all of `buf` at `offset`, extending the file where needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset)
    }

    /// Writes the buffers one behind the other from `offset`.
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Writes and makes *these* bytes durable, in the fewest requests the medium knows.
    ///
    /// Other unsynced writes to the file may or may not become durable with it.
    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Overwrites bytes that are there, durably, and whole or not at all; only for lengths and offsets that
    /// [`File::guarantees`] covers. An error of kind [`ErrorKind::Unsupported`] has written nothing.
    fn write_atomic_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_durable_at(&[IoSlice::new(bytes)], offset)
    }

    /// Makes everything written so far durable, with the length needed to read it back.
    fn sync(&self) -> Result<()>;

    /// The length, and the time of the last change. Not for files that commits write to: a file system with exact times
    /// notes the question, and writes the next change to its journal.
    fn stamp(&self) -> Result<Stamp>;

    /// Gives the file a time of change that no later write leaves, other processes' included. Makes it durable together
    /// with everything written so far, and answers the new stamp. Where this process may not set the time, it stays as
    /// the last write left it.
    fn set_stamp(&self) -> Result<Stamp>;

    /// Asks the system to begin to write back what was written of `len` bytes at `offset`, so that a later sync
    /// finds less to do. A hint: it promises nothing, and waits for nothing.
    fn start_writeback(&self, _offset: u64, _len: u64) {}

    /// Asks the system to begin to read `len` bytes at `offset` into its cache, so that later reads find them there. A
    /// hint: it promises nothing, and waits at most until the device takes the request.
    fn read_ahead(&self, _offset: u64, _len: u64) {}

    /// Bytes that the system reads ahead by itself of a sequential reader; 0 where that is not known.
    fn own_read_ahead(&self) -> u64 {
        0
    }

    /// True if [`File::read_ahead`] does anything.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// True if the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves space for the first `len` bytes, and extends the file to at least that length. Writes inside it cannot
    /// fail for want of space then. New bytes read as zeros. It is no write, also where the system is asked by one.
    fn allocate(&self, len: u64) -> Result<()>;

    /// Identity of the file behind this handle.
    fn id(&self) -> FileId;

    /// The file's time of creation, in a unit of the medium's; 0 where that is not known. A file that gets the inode's
    /// number of one that is gone has another birth.
    ///
    /// # Errors
    /// Errors of the look-up: a file that cannot be read just now may well have a birth.
    fn birth(&self) -> Result<u64> {
        Ok(0)
    }

    /// The path the file was opened with, for messages.
    fn path(&self) -> &Path;

    /// Takes, converts or drops a lock of this *handle* on a byte range, without waiting.
    /// Returns `false` when another process (or another handle) stands in the way.
    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> Result<bool>;

    /// Tells whether another process (or another handle) has a lock on part of a range that is in the way of this one. This
    /// default takes the lock for a moment, and is for ranges of which this handle has locked nothing.
    fn is_locked(&self, offset: u64, len: u64, wanted: RangeLock) -> Result<bool> {
        let is_free = self.lock_range(offset, len, wanted)?;
        if is_free {
            self.lock_range(offset, len, RangeLock::None)?;
        }
        Ok(!is_free)
    }

    /// The process with a lock in the way of ours on the range, where the system can tell.
    fn lock_holder(&self, _offset: u64, _len: u64) -> Option<u32> {
        None
    }

    /// The system's descriptor, for requests to the kernel in another way that keep the promises above. Only plain
    /// files of the operating system answer: what counts, models or simulates must see every operation.
    fn raw_descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// The same file past the system's cache; `None` where the file cannot be read like that. Reads need memory, length
    /// and offset in multiples of 4 KiB. Such reads see the writes through this handle.
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        None
    }

    /// Puts `bytes` of the file from `offset` in the place of memory: all processes that have done so share it from now on.
    /// Whole pages of the system; the file has these bytes, and they are reserved ([`File::allocate`]).
    ///
    /// # Safety
    /// The memory is a mapping of the caller's own, and nobody counts on what is in it. Nobody shortens the file
    /// while it is mapped.
    ///
    /// # Errors
    /// The memory is as it was.
    unsafe fn map_over(&self, _offset: u64, _memory: NonNull<u8>, _bytes: usize) -> Result<()> {
        Err(DeviceError::new(Operation::Map, self.path(), std::io::ErrorKind::Unsupported.into()))
    }

    /// The guarantees about single writes on this device.
    fn guarantees(&self) -> Guarantees {
        Guarantees::default()
    }

    /// Asks for word of everybody else who opens the file. `on_break` then runs once, in a thread of litefoot's. The other
    /// waits in its `open` until [`File::release_lease`], 45 s at most. A lease that this handle has is given back first.
    ///
    /// `on_break` must not open this file: it would wait for itself. It may take and release leases.
    fn take_lease(&self, _on_break: OnBreak) -> LeaseAnswer {
        LeaseAnswer::Unsupported
    }

    /// Gives the lease back, whether it breaks or not, and drops its `on_break`. A call of that which is under way goes on.
    /// Without a lease this does nothing. Closing the file releases its lease as well.
    fn release_lease(&self) {}
}

/// The properties of a file that are known without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Identity of the file.
    pub id: FileId,
    /// Length in bytes.
    pub len: u64,
    /// True if it is a regular file.
    pub is_file: bool,
    /// True if this process may open it to read.
    pub readable: bool,
    /// True if this process may open it to write.
    pub writable: bool,
    /// Its owner, a user's number.
    pub owner: u32,
    /// Its group's number.
    pub group: u32,
    /// The bits of its mode that say who may read, write and run it.
    pub mode: u32,
}

/// The bits of a mode that let group and others write.
const WRITTEN_BY_OTHERS: u32 = libc::S_IWGRP | libc::S_IWOTH;

impl PathInfo {
    /// True if the file is a stranger's beside the file `other`. Its owner is neither that of `other`, nor this
    /// process's user, nor root; or users may write it who may not write `other`.
    pub fn is_strangers(&self, other: &PathInfo) -> bool {
        let known = [0, user(), other.owner];
        !known.contains(&self.owner) || self.mode & !other.mode & WRITTEN_BY_OTHERS != 0
    }

    /// True if the same users may do the same with the file as with `other`, by the same rule.
    pub fn has_rights_of(&self, other: &PathInfo) -> bool {
        (self.mode, self.owner, self.group) == (other.mode, other.owner, other.group)
    }
}

/// The user whose rights this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::geteuid() }
}

/// The end of a path, behind all links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The absolute path, without symbolic links.
    pub path: PathBuf,
    /// True if there was a symbolic link on the way.
    pub through_link: bool,
}

/// A medium: a file system, real or simulated.
pub trait Medium: Send + Sync {
    /// Opens a file. The name of a created file is durable only after [`Medium::sync_directory`]. A symbolic link at
    /// `path` is not followed: see [`Medium::absolute`].
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// The same, where nothing has to be waited for: `None` where another process has a lease on the file. That process has been told.
    fn open_at_once(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        self.open(path, kind, mode).map(Some)
    }

    /// Opens a new file without a name in a directory, which is gone once it is closed, or behind a crash; `None` where there can be none.
    fn open_nameless(&self, _directory: &Path) -> Option<Arc<dyn File>> {
        None
    }

    /// True if other processes find the same files by the same names.
    fn is_the_systems(&self) -> bool {
        false
    }

    /// The same place for what belongs to an open database: files created through it get the database's mode and
    /// owner. `None` where files have neither.
    fn for_database(&self, _database: &Arc<dyn File>) -> Option<Arc<dyn Medium>> {
        None
    }

    /// Removes a name. Gone for good only after [`Medium::sync_directory`] of its directory.
    fn delete(&self, path: &Path) -> Result<()>;

    /// Gives a file another name in the same directory, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file another name in the same directory, which nothing has.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        if self.info(to)?.is_some() {
            return Err(DeviceError::new(Operation::Rename, to, std::io::ErrorKind::AlreadyExists.into()));
        }
        self.rename(from, to)
    }

    /// The properties of the file at `path`; `None` where there is none.
    fn info(&self, path: &Path) -> Result<Option<PathInfo>>;

    /// The identity of the file at `path`, which is cheaper to ask for than all of [`Medium::info`].
    fn identity(&self, path: &Path) -> Result<Option<FileId>> {
        Ok(self.info(path)?.map(|info| info.id))
    }

    /// The same without following a symbolic link at `path`: that leads to no file that [`Medium::open`] opens.
    fn unlinked_identity(&self, path: &Path) -> Result<Option<FileId>> {
        self.identity(path)
    }

    /// The identity, and the file's length.
    fn glance(&self, path: &Path) -> Result<Option<(FileId, u64)>> {
        Ok(self.info(path)?.map(|info| (info.id, info.len)))
    }

    /// The files in a directory, sorted by name.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>>;

    /// Makes creations, deletions and renames in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> Result<()>;

    /// The absolute form of `path`, with all symbolic links followed; the file need not exist.
    fn absolute(&self, path: &Path) -> Result<Resolved>;
}

/// The bytes of several buffers together.
pub fn total_bytes(bufs: &[IoSlice<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// The path of a file that lies beside another: the same name with something behind it.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Most bytes of one write of adjacent pages.
const RUN_BYTES: usize = 256 * 1024;

/// Cuts pages, sorted by number, into runs of adjacent ones that are written together.
pub fn runs<T>(pages: &[T], page_bytes: usize, number: impl Fn(&T) -> u64) -> impl Iterator<Item = &[T]> {
    let most = (RUN_BYTES / page_bytes).max(1);
    pages.chunk_by(move |a, b| number(a) + 1 == number(b)).flat_map(move |run| run.chunks(most))
}

/// The directory part of a path; `.` for a bare name.
pub fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pages_leave_together_and_no_write_is_too_large() {
        let pages: Vec<u64> = [3, 4, 5, 9].into_iter().chain(100..300).collect();
        let runs: Vec<(u64, usize)> =
            runs(&pages, 4096, |page| *page).map(|run| (run[0], run.len())).collect();
        assert_eq!(runs, [(3, 3), (9, 1), (100, 64), (164, 64), (228, 64), (292, 8)]);
    }

    #[test]
    fn a_stranger_is_another_user_who_may_have_written_the_file() {
        let mine = user();
        let (group, others) = (libc::S_IWGRP, libc::S_IWOTH);
        let file = |owner, mode| PathInfo {
            id: FileId { device: 1, inode: 1 },
            len: 0,
            is_file: true,
            readable: true,
            writable: true,
            owner,
            group: 0,
            mode,
        };
        // The owner and the rights of the file, those of the database, and the answer.
        let cases = [
            ((mine, 0), (mine, 0), false),
            ((0, 0), (mine, 0), false),
            ((mine + 7, 0), (mine + 7, 0), false),
            ((mine + 7, 0), (mine, 0), true),
            ((mine, group), (mine, 0), true),
            ((mine, group), (mine, group), false),
            ((mine, group | others), (mine, group), true),
            ((mine, 0), (mine, others), false),
        ];
        for ((owner, rights), (database_owner, database_rights), expected) in cases {
            let (file, database) = (file(owner, rights), file(database_owner, database_rights));
            assert_eq!(file.is_strangers(&database), expected, "{file:?} beside {database:?}");
        }
    }
}
