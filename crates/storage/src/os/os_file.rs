//! One file of the operating system.
//!
//! Locks are open-file-description locks (`F_OFD_SETLK`). They belong to the handle: closing another descriptor of the
//! same file does not drop them, as it would drop POSIX locks. They conflict with the POSIX locks that stock SQLite
//! takes, in this process and in others.
//!
//! `unsafe` here is confined to system calls that the standard library does not offer.

use self::read_path::ReadPath;
use self::write_path::atomic_write_bytes;
#[cfg(target_os = "linux")]
use self::write_path::{RWF_ATOMIC, write_call};
#[cfg(target_os = "linux")]
use super::aligned::{Aligned, DIRECT_ALIGNMENT};
#[cfg(target_os = "linux")]
use super::lease::Lease;
use super::mapped::{Mapping, MappingKind};
use super::opening::{self, AtLease, Rights};
use super::{shared_memory, stamp};
use crate::file::{
    DeviceError, File, FileId, FileKind, Guarantees, LeaseAnswer, OnBreak, OpenMode, Operation, RangeLock,
    Result, Stamp,
};
use crate::fork::LockedFile;
use crate::os::calls::preadv2;
use crate::sync::Mutex;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
use libc::{off_t, posix_fallocate};
// Offsets have 64 bits in these on 32-bit processors as well.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use libc::{off64_t as off_t, posix_fallocate64 as posix_fallocate};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Most buffers that one system call takes (`IOV_MAX` is 1024 on Linux).
const VECTORS_PER_CALL: usize = 512;

/// A file that is mapped gets a byte for each so many, as by SQLite: no page of the system and no block of a file system is smaller.
const PAGE_BYTES: u64 = 4096;

/// Opens a file; `rights` are those of its database, where it is known.
pub(super) fn open_file(
    path: &Path,
    kind: FileKind,
    mode: OpenMode,
    at_lease: AtLease,
    rights: impl Fn() -> Option<Rights>,
) -> Result<Arc<dyn File>> {
    let opened = opening::open(path, kind, mode, at_lease, rights);
    let (file, metadata) = opened.map_err(|error| DeviceError::new(Operation::Open, path, error))?;
    let mut file = OsFile::new(file, &metadata, kind, path);
    file.mapping = writable_memory(kind, mode).then(|| Mapping::new(MappingKind::Synchronous));
    Ok(Arc::new(file))
}

/// A new file without a name in a directory.
#[cfg(target_os = "linux")]
pub(super) fn open_nameless(directory: &Path) -> io::Result<Arc<dyn File>> {
    let (file, metadata) = opening::nameless(directory)?;
    Ok(Arc::new(OsFile::new(file, &metadata, FileKind::Temporary, directory)))
}

/// A database file that another process has opened, and has lost: its locks and its lease are those of the open file.
#[cfg(target_os = "linux")]
pub(super) fn taken_over(file: fs::File, path: &Path) -> io::Result<Arc<dyn File>> {
    let metadata = file.metadata()?;
    let mut file = OsFile::new(file, &metadata, FileKind::Database, path);
    file.descriptions = Mutex::new(Descriptions::Leased);
    file.is_taken_over = true;
    file.note_locked();
    Ok(Arc::new(file))
}

/// A database file that is open already.
#[cfg(target_os = "linux")]
pub(super) fn opened(file: fs::File, path: &Path) -> io::Result<Arc<dyn File>> {
    let metadata = file.metadata()?;
    Ok(Arc::new(OsFile::new(file, &metadata, FileKind::Database, path)))
}

/// Makes a file longer that is mapped, by a byte at the end of each page, as SQLite does. The file system reserves space for a page that is
/// written, so a full disk is an error here, and no signal later. It gives the page a place on the disk only when it writes the page back, and
/// most such files end before that. `posix_fallocate` would give it one at once: three blocks of the file system's journal, for each file.
pub(super) fn extend_by_pages<E>(
    from: u64,
    len: u64,
    mut write_zero: impl FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    (from / PAGE_BYTES..len.div_ceil(PAGE_BYTES))
        .try_for_each(|page| write_zero(len.min((page + 1) * PAGE_BYTES) - 1))
}

/// The open file descriptions of a file that its handle has, or may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Descriptions {
    /// One so far.
    #[default]
    One,
    /// There is a second one: there can be no lease.
    Two,
    /// One for good: there was a lease, and may be one again.
    Leased,
}

struct OsFile {
    file: fs::File,
    kind: FileKind,
    path: PathBuf,
    id: FileId,
    /// True once `pwritev2` with `RWF_DSYNC` was tried, and the system does not have it.
    durable_write_unsupported: AtomicBool,
    /// The file once more, opened past the kernel's cache: atomic writes need that.
    direct: OnceLock<fs::File>,
    descriptions: Mutex<Descriptions>,
    /// The word of others who open the file.
    #[cfg(target_os = "linux")]
    lease: Lease,
    reads: ReadPath,
    /// The file as memory, for kinds of files that may lie on a device that is memory.
    mapping: Option<Mapping>,
    /// The note of the first lock. Dropped before the file is closed: then another file may get the descriptor's number.
    locked: OnceLock<LockedFile>,
    /// True if another process has opened it, whose lease may be there still.
    #[cfg(target_os = "linux")]
    is_taken_over: bool,
}

impl Drop for OsFile {
    fn drop(&mut self) {
        self.release_lease();
        drop(self.locked.take());
    }
}

impl OsFile {
    fn new(file: fs::File, metadata: &fs::Metadata, kind: FileKind, path: &Path) -> OsFile {
        OsFile {
            file,
            kind,
            path: path.to_owned(),
            id: FileId { device: metadata.dev(), inode: metadata.ino() },
            reads: ReadPath::cached(),
            direct: OnceLock::new(),
            mapping: None,
            locked: OnceLock::new(),
            descriptions: Mutex::default(),
            #[cfg(target_os = "linux")]
            lease: Lease::default(),
            #[cfg(target_os = "linux")]
            is_taken_over: false,
            durable_write_unsupported: AtomicBool::new(false),
        }
    }

    #[cfg(target_os = "linux")]
    fn direct(&self) -> io::Result<&fs::File> {
        if let Some(direct) = self.direct.get() {
            return Ok(direct);
        }
        let mut options = fs::OpenOptions::new();
        let opened = self.open_twice(options.write(true).custom_flags(libc::O_DIRECT))?;
        Ok(self.direct.get_or_init(|| opened))
    }

    /// Opens the file once more. Not once there was a lease: the call would wait for this process, or keep it from the next one.
    #[cfg(target_os = "linux")]
    fn open_twice(&self, options: &fs::OpenOptions) -> io::Result<fs::File> {
        let mut descriptions = self.descriptions.lock();
        if *descriptions == Descriptions::Leased {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        *descriptions = Descriptions::Two;
        let opened = options.open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        opening::above_standard_streams(opened)
    }

    /// Another handle on a file or description of this one's, for reading.
    #[cfg(target_os = "linux")]
    fn reader(&self, file: fs::File, reads: ReadPath) -> Arc<dyn File> {
        let reader = OsFile {
            kind: self.kind,
            file,
            path: self.path.clone(),
            id: self.id,
            direct: OnceLock::new(),
            reads,
            mapping: None,
            locked: OnceLock::new(),
            descriptions: Mutex::new(Descriptions::Leased),
            lease: Lease::default(),
            is_taken_over: false,
            durable_write_unsupported: AtomicBool::new(false),
        };
        if reader.reads.is_uncached() {
            // As the one whose description it is.
            reader.note_locked();
        }
        Arc::new(reader)
    }

    /// Keeps the file from forked children.
    fn note_locked(&self) {
        self.locked.get_or_init(|| LockedFile::note(self.file.as_raw_fd()));
    }

    fn error(&self, operation: Operation, source: io::Error) -> DeviceError {
        DeviceError::new(operation, &self.path, source)
    }
}

impl File for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if self.reads.is_uncached() {
            return self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset);
        }
        read_at(&self.file, buf, offset).map_err(|error| self.error(Operation::Read, error))
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> Result<Option<usize>> {
        let vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        // SAFETY: the vector is the buffer, which outlives the call.
        let read = unsafe { preadv2(self.file.as_raw_fd(), &raw const vector, 1, offset, libc::RWF_NOWAIT) };
        // Also where the system cannot say what it has in its cache.
        Ok(usize::try_from(read).ok())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let read = self.reads.read_vectored(&self.file, bufs, offset);
        read.map_err(|error| self.error(Operation::Read, error))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).map_err(|error| self.error(Operation::Write, error))
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        if let [single] = bufs {
            return self.write_at(single, offset);
        }
        self.write_all(bufs, offset, 0).map_err(|error| self.error(Operation::Write, error))
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        if let Some(mapping) = &self.mapping
            && mapping.write(&self.file, bufs, offset).map_err(|error| self.error(Operation::Write, error))?
        {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        if !self.durable_write_unsupported.load(Ordering::Relaxed) {
            match self.write_all(bufs, offset, libc::RWF_DSYNC) {
                Ok(()) => return Ok(()),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    self.durable_write_unsupported.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(self.error(Operation::Sync, error)),
            }
        }
        self.write_vectored_at(bufs, offset)?;
        self.sync()
    }

    #[cfg(target_os = "linux")]
    fn write_atomic_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.direct().and_then(|direct| {
            let buffer = Aligned::copy_of(bytes);
            let slice = IoSlice::new(buffer.bytes());
            write_call(direct.as_raw_fd(), &raw const slice, 1, offset, RWF_ATOMIC | libc::RWF_DSYNC)
        });
        match written {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(self.error(Operation::Sync, io::ErrorKind::WriteZero.into())),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                Err(self.error(Operation::Write, io::ErrorKind::Unsupported.into()))
            }
            Err(error) => Err(self.error(Operation::Sync, error)),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.error(Operation::Sync, error))
    }

    fn stamp(&self) -> Result<Stamp> {
        stamp::stamp(&self.file).map_err(|error| self.error(Operation::Info, error))
    }

    fn set_stamp(&self) -> Result<Stamp> {
        stamp::set_stamp(&self.file).map_err(|error| self.error(Operation::Sync, error))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.error(Operation::Length, error))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.mapping.iter().for_each(Mapping::forget);
        self.file.set_len(len).map_err(|error| self.error(Operation::SetLength, error))
    }

    #[cfg(target_os = "linux")]
    fn start_writeback(&self, offset: u64, len: u64) {
        let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
        // SAFETY: plain system call on a descriptor we own.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    #[cfg(target_os = "linux")]
    fn read_ahead(&self, offset: u64, len: u64) {
        // SAFETY: plain system call on a descriptor we own.
        unsafe { libc::readahead(self.file.as_raw_fd(), offset as libc::off64_t, len as usize) };
    }

    #[cfg(target_os = "linux")]
    fn own_read_ahead(&self) -> u64 {
        let device = libc::dev_t::from(self.id.device);
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        // A disk, a part of one, or a file system over several.
        let places = [
            format!("/sys/dev/block/{device}/queue/read_ahead_kb"),
            format!("/sys/dev/block/{device}/../queue/read_ahead_kb"),
            format!("/sys/class/bdi/{device}/read_ahead_kb"),
        ];
        let kilobytes =
            places.iter().find_map(|place| fs::read_to_string(place).ok()?.trim().parse::<u64>().ok());
        kilobytes.unwrap_or_default().saturating_mul(1024)
    }

    fn reads_ahead(&self) -> bool {
        cfg!(target_os = "linux") && self.reads.is_cached()
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let from = self.len()?;
        if from >= len {
            return Ok(());
        }
        if self.kind == FileKind::WalIndex {
            return extend_by_pages(from, len, |place| self.write_at(&[0], place));
        }
        // SAFETY: plain system call on a descriptor we own.
        let result = unsafe { posix_fallocate(self.file.as_raw_fd(), 0, len as off_t) };
        match result {
            0 => Ok(()),
            // File systems without the call: the length alone has to do.
            libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS => self.set_len(len),
            errno => Err(self.error(Operation::Allocate, io::Error::from_raw_os_error(errno))),
        }
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn birth(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|error| self.error(Operation::Info, error))?;
        // Not every file system notes it.
        let since =
            metadata.created().ok().and_then(|created| created.duration_since(std::time::UNIX_EPOCH).ok());
        Ok(since.map_or(0, |since| since.as_nanos() as u64))
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> Result<bool> {
        // First: what is locked when the process forks must be known.
        self.note_locked();
        lock_range(&self.file, offset, len, lock).map_err(|error| self.error(Operation::Lock, error))
    }

    fn is_locked(&self, offset: u64, len: u64, wanted: RangeLock) -> Result<bool> {
        let in_the_way = self.lock_in_the_way_of(flock(offset, len, wanted));
        Ok(in_the_way.map_err(|error| self.error(Operation::Lock, error))?.is_some())
    }

    fn lock_holder(&self, offset: u64, len: u64) -> Option<u32> {
        let in_the_way = self.lock_in_the_way_of(flock(offset, len, RangeLock::Exclusive)).ok()??;
        // An open-file-description lock reports process -1.
        u32::try_from(in_the_way.l_pid).ok()
    }

    unsafe fn map_over(&self, offset: u64, memory: NonNull<u8>, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let mapped = unsafe { shared_memory::map_over(&self.file, offset, memory, bytes) };
        mapped.map_err(|error| self.error(Operation::Map, error))
    }

    fn raw_descriptor(&self) -> Option<std::os::fd::RawFd> {
        // Others would leave in the cache what they read.
        (!self.reads.is_uncached()).then(|| self.file.as_raw_fd())
    }

    #[cfg(target_os = "linux")]
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        if *self.descriptions.lock() == Descriptions::Leased {
            let same = opening::above_standard_streams(self.file.try_clone().ok()?).ok()?;
            return Some(self.reader(same, ReadPath::uncached()));
        }
        let mut options = fs::OpenOptions::new();
        let file = self.open_twice(options.read(true).custom_flags(libc::O_DIRECT)).ok()?;
        // Some file systems take the flag and refuse the reads.
        let mut probe = Aligned::copy_of(&[0; DIRECT_ALIGNMENT]);
        file.read_at(probe.bytes_mut(), 0).ok()?;
        Some(self.reader(file, ReadPath::direct()))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { atomic_write_bytes: atomic_write_bytes(&self.file) }
    }

    #[cfg(target_os = "linux")]
    fn take_lease(&self, on_break: OnBreak) -> LeaseAnswer {
        let mut descriptions = self.descriptions.lock();
        if *descriptions == Descriptions::Two {
            return LeaseAnswer::Unsupported;
        }
        // First: a child that has the description would keep the lease.
        self.note_locked();
        let mut answer = self.lease.take(self.file.as_raw_fd(), on_break.clone());
        if answer == LeaseAnswer::Company && self.is_taken_over {
            // That of the former owner breaks, and nobody has given it back.
            give_lease_back(&self.file);
            answer = self.lease.take(self.file.as_raw_fd(), on_break);
        }
        if answer != LeaseAnswer::Unsupported {
            *descriptions = Descriptions::Leased;
        }
        answer
    }

    #[cfg(target_os = "linux")]
    fn release_lease(&self) {
        self.lease.release(self.file.as_raw_fd());
    }
}

impl OsFile {
    /// The lock that a request for one would meet.
    fn lock_in_the_way_of(&self, mut request: libc::flock) -> io::Result<Option<libc::flock>> {
        // SAFETY: `request` is a valid flock that outlives the call.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((i32::from(request.l_type) != libc::F_UNLCK).then_some(request))
    }
}

/// True if a file may lie on a device that is memory, and takes small durable writes.
fn writable_memory(kind: FileKind, mode: OpenMode) -> bool {
    matches!(kind, FileKind::CommitLog | FileKind::Tier) && mode != OpenMode::ReadOnly
}

/// Reads as many bytes from `offset` on as there are.
pub(super) fn read_at(file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Gives back the lease of an open file, where it has one.
#[cfg(target_os = "linux")]
pub(super) fn give_lease_back(file: &fs::File) {
    // SAFETY: the request takes a number and changes nothing in memory.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Locks bytes of an open file, or unlocks them; `false` where another open file has them.
pub(super) fn lock_range(file: &fs::File, offset: u64, len: u64, lock: RangeLock) -> io::Result<bool> {
    let mut request = flock(offset, len, lock);
    // SAFETY: `request` is a valid flock that outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut request) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) { Ok(false) } else { Err(error) }
}

fn flock(offset: u64, len: u64, lock: RangeLock) -> libc::flock {
    // SAFETY: flock is plain data, for which all zeros is a valid value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = match lock {
        RangeLock::Shared => libc::F_RDLCK as libc::c_short,
        RangeLock::Exclusive => libc::F_WRLCK as libc::c_short,
        RangeLock::None => libc::F_UNLCK as libc::c_short,
    };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = offset as libc::off_t;
    request.l_len = len as libc::off_t;
    request
}

mod read_path;
#[cfg(test)]
mod tests;
mod write_path;
