//! A medium that counts what passes to the one beneath it.
//!
//! # What it promises
//! 1. Every operation that the wrapped medium accepted is counted once, by the kind of its file; a failed
//!    one is not. Content and order are untouched.
//! 2. A durable write counts as one write *and* one sync: it stands for both.
//! 3. Bytes are those of the request: what the file system adds (metadata, its own journal, whole pages
//!    instead of parts) is not in them. [`ModelledMedium`](super::ModelledMedium) has that.
//!
//! # What it does not do
//! Tell the kind of a file from its name. A name that is deleted has the kind with which it was last opened
//! here; one that never was counts as [`FileKind::Temporary`]. A directory has no kind: its syncs are counted
//! for the whole medium.
//!
//! Counters are relaxed: each is exact, but two of them read while others write may belong to slightly
//! different moments.

use litefoot_storage::file::{
    File, FileId, FileKind, Medium, OpenMode, PathInfo, Result, Stamp, total_bytes,
};
use litefoot_storage::pass_on;
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::io::{IoSlice, IoSliceMut};
use std::ops::{Add, Sub};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block of a file system.
const BLOCK_BYTES: u64 = 4096;

/// Operations on the files of one kind, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read requests.
    pub reads: u64,
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Bytes that the system was asked to read ahead.
    pub bytes_read_ahead: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes of the 4 KiB blocks that a file system hands to the device: those touched between two syncs of a file,
    /// each once.
    pub block_bytes_written: u64,
    /// Data syncs, those of durable writes among them.
    pub syncs: u64,
    /// Files cut, extended or given reserved space.
    pub length_changes: u64,
    /// Names that an open has created.
    pub creations: u64,
    /// Names removed.
    pub deletions: u64,
}

/// Applies an operation to each pair of fields.
fn zip(a: Counts, b: Counts, with: fn(u64, u64) -> u64) -> Counts {
    Counts {
        reads: with(a.reads, b.reads),
        bytes_read: with(a.bytes_read, b.bytes_read),
        bytes_read_ahead: with(a.bytes_read_ahead, b.bytes_read_ahead),
        writes: with(a.writes, b.writes),
        bytes_written: with(a.bytes_written, b.bytes_written),
        block_bytes_written: with(a.block_bytes_written, b.block_bytes_written),
        syncs: with(a.syncs, b.syncs),
        length_changes: with(a.length_changes, b.length_changes),
        creations: with(a.creations, b.creations),
        deletions: with(a.deletions, b.deletions),
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        zip(self, other, u64::saturating_add)
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        zip(self, earlier, u64::saturating_sub)
    }
}

/// All counters at one moment, or the difference of two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    kinds: [Counts; FileKind::ALL.len()],
    /// Directories made durable, one flush of the device each.
    pub directory_syncs: u64,
    /// Names changed.
    pub renames: u64,
    /// Names looked up without opening them.
    pub lookups: u64,
}

impl Snapshot {
    /// The operations on files of that kind.
    pub fn of(&self, kind: FileKind) -> Counts {
        self.kinds[index(kind)]
    }

    /// The operations on all files.
    pub fn total(&self) -> Counts {
        self.kinds.iter().fold(Counts::default(), |sum, counts| sum + *counts)
    }

    /// Orders to the device to make bytes durable: syncs of files and of directories.
    pub fn all_syncs(&self) -> u64 {
        self.total().syncs.saturating_add(self.directory_syncs)
    }
}

impl Sub for Snapshot {
    type Output = Snapshot;

    fn sub(self, earlier: Snapshot) -> Snapshot {
        Snapshot {
            kinds: std::array::from_fn(|kind| self.kinds[kind] - earlier.kinds[kind]),
            directory_syncs: self.directory_syncs.saturating_sub(earlier.directory_syncs),
            renames: self.renames.saturating_sub(earlier.renames),
            lookups: self.lookups.saturating_sub(earlier.lookups),
        }
    }
}

/// The place of a kind in [`FileKind::ALL`], which is in the order of the declaration.
fn index(kind: FileKind) -> usize {
    kind as usize
}

#[derive(Default)]
struct Counters {
    kinds: [KindCounters; FileKind::ALL.len()],
    directory_syncs: AtomicU64,
    renames: AtomicU64,
    lookups: AtomicU64,
    /// The kind each path was last opened with, until it is deleted.
    opened: Mutex<HashMap<PathBuf, FileKind>>,
}

#[derive(Default)]
struct KindCounters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    bytes_read_ahead: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    block_bytes_written: AtomicU64,
    syncs: AtomicU64,
    length_changes: AtomicU64,
    creations: AtomicU64,
    deletions: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl KindCounters {
    fn read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.bytes_read, bytes as u64);
    }

    fn wrote(&self, bytes: u64) {
        add(&self.writes, 1);
        add(&self.bytes_written, bytes);
    }

    fn snapshot(&self) -> Counts {
        Counts {
            reads: get(&self.reads),
            bytes_read: get(&self.bytes_read),
            bytes_read_ahead: get(&self.bytes_read_ahead),
            writes: get(&self.writes),
            bytes_written: get(&self.bytes_written),
            block_bytes_written: get(&self.block_bytes_written),
            syncs: get(&self.syncs),
            length_changes: get(&self.length_changes),
            creations: get(&self.creations),
            deletions: get(&self.deletions),
        }
    }
}

impl Counters {
    fn of(&self, kind: FileKind) -> &KindCounters {
        &self.kinds[index(kind)]
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<PathBuf, FileKind>> {
        self.opened.lock()
    }
}

/// Counts the operations on the medium it wraps. Clones count into the same counters.
#[derive(Clone)]
pub struct CountingMedium {
    inner: Arc<dyn Medium>,
    counters: Arc<Counters>,
}

impl CountingMedium {
    /// Counts what passes to `inner` from now on.
    pub fn new(inner: Arc<dyn Medium>) -> CountingMedium {
        CountingMedium { inner, counters: Arc::default() }
    }

    /// The counts since the medium was made.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            kinds: std::array::from_fn(|kind| self.counters.kinds[kind].snapshot()),
            directory_syncs: get(&self.counters.directory_syncs),
            renames: get(&self.counters.renames),
            lookups: get(&self.counters.lookups),
        }
    }
}

impl Medium for CountingMedium {
    pass_on!(inner: list, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let creates = match mode {
            OpenMode::ReadOnly | OpenMode::ReadWrite => false,
            OpenMode::CreateNew => true,
            OpenMode::Create => self.inner.info(path)?.is_none(),
        };
        let inner = self.inner.open(path, kind, mode)?;
        add(&self.counters.of(kind).creations, u64::from(creates));
        self.counters.opened().insert(path.to_owned(), kind);
        Ok(Arc::new(CountingFile { inner, kind, counters: self.counters.clone(), dirty: Mutex::default() }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.inner.delete(path)?;
        let kind = self.counters.opened().remove(path).unwrap_or(FileKind::Temporary);
        add(&self.counters.of(kind).deletions, 1);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)?;
        add(&self.counters.renames, 1);
        let mut opened = self.counters.opened();
        if let Some(kind) = opened.remove(from) {
            opened.insert(to.to_owned(), kind);
        }
        Ok(())
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        add(&self.counters.lookups, 1);
        self.inner.info(path)
    }

    fn identity(&self, path: &Path) -> Result<Option<FileId>> {
        add(&self.counters.lookups, 1);
        self.inner.identity(path)
    }

    fn unlinked_identity(&self, path: &Path) -> Result<Option<FileId>> {
        add(&self.counters.lookups, 1);
        self.inner.unlinked_identity(path)
    }

    fn glance(&self, path: &Path) -> Result<Option<(FileId, u64)>> {
        add(&self.counters.lookups, 1);
        self.inner.glance(path)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)?;
        add(&self.counters.directory_syncs, 1);
        Ok(())
    }
}

struct CountingFile {
    inner: Arc<dyn File>,
    kind: FileKind,
    counters: Arc<Counters>,
    /// Blocks touched since the last sync.
    dirty: Mutex<HashSet<u64>>,
}

impl CountingFile {
    fn touch(&self, bytes: u64, offset: u64) {
        if bytes > 0 {
            self.dirty.lock().extend(offset / BLOCK_BYTES..(offset + bytes).div_ceil(BLOCK_BYTES));
        }
    }

    fn hand_over(&self) {
        let blocks = std::mem::take(&mut *self.dirty.lock()).len() as u64;
        add(&self.counters().block_bytes_written, blocks * BLOCK_BYTES);
    }

    fn counters(&self) -> &KindCounters {
        self.counters.of(self.kind)
    }
}

impl Drop for CountingFile {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl File for CountingFile {
    pass_on!(inner: stamp, len, id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, take_lease, release_lease);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_at(buf, offset)?;
        self.counters().read(bytes);
        Ok(bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_vectored_at(bufs, offset)?;
        self.counters().read(bytes);
        Ok(bytes)
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.inner.read_ahead(offset, len);
        add(&self.counters().bytes_read_ahead, len);
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset)?;
        self.counters().wrote(total_bytes(bufs));
        self.touch(total_bytes(bufs), offset);
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_durable_at(bufs, offset)?;
        self.counters().wrote(total_bytes(bufs));
        self.touch(total_bytes(bufs), offset);
        self.hand_over();
        add(&self.counters().syncs, 1);
        Ok(())
    }

    fn write_atomic_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_atomic_at(bytes, offset)?;
        self.counters().wrote(bytes.len() as u64);
        self.touch(bytes.len() as u64, offset);
        self.hand_over();
        add(&self.counters().syncs, 1);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        self.hand_over();
        add(&self.counters().syncs, 1);
        Ok(())
    }

    fn set_stamp(&self) -> Result<Stamp> {
        let stamp = self.inner.set_stamp()?;
        self.hand_over();
        add(&self.counters().syncs, 1);
        Ok(stamp)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)?;
        add(&self.counters().length_changes, 1);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)?;
        add(&self.counters().length_changes, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::os::OsMedium;

    #[test]
    fn kinds_have_the_place_that_their_number_says() {
        for (place, kind) in FileKind::ALL.into_iter().enumerate() {
            assert_eq!(index(kind), place, "{}", kind.name());
        }
    }

    #[test]
    fn each_operation_is_counted_once_by_kind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let medium = CountingMedium::new(Arc::new(OsMedium::new()));
        let file = medium.open(&path, FileKind::Database, OpenMode::Create).unwrap();
        let same = medium.open(&path, FileKind::Database, OpenMode::Create).unwrap();
        let opened = medium.snapshot();
        file.write_at(&[1; 100], 0).unwrap();
        same.write_vectored_at(&[IoSlice::new(&[2; 30]), IoSlice::new(&[3; 40])], 100).unwrap();
        file.write_durable_at(&[IoSlice::new(&[4; 7])], 0).unwrap();
        file.sync().unwrap();
        let stamp = file.set_stamp().unwrap();
        assert_eq!((stamp.len, same.stamp().unwrap()), (170, stamp));
        assert_eq!(file.read_at(&mut [0; 300], 0).unwrap(), 170);
        file.read_ahead(10, 90);
        file.set_len(10).unwrap();
        file.allocate(4096).unwrap();
        medium.sync_directory(directory.path()).unwrap();
        let log = medium.open(&directory.path().join("log"), FileKind::RedoLog, OpenMode::CreateNew).unwrap();
        log.sync().unwrap();
        medium.rename(log.path(), &directory.path().join("moved")).unwrap();
        medium.delete(&directory.path().join("moved")).unwrap();

        assert_eq!(opened.of(FileKind::Database), Counts { creations: 1, ..Counts::default() });
        let worked = medium.snapshot() - opened;
        let database = Counts {
            reads: 1,
            bytes_read: 170,
            bytes_read_ahead: 90,
            writes: 3,
            bytes_written: 177,
            block_bytes_written: 4096,
            syncs: 3,
            length_changes: 2,
            ..Counts::default()
        };
        assert_eq!(worked.of(FileKind::Database), database);
        let log = Counts { syncs: 1, creations: 1, deletions: 1, ..Counts::default() };
        assert_eq!(worked.of(FileKind::RedoLog), log);
        assert_eq!(worked.total(), database + log);
        assert_eq!((worked.directory_syncs, worked.renames, worked.all_syncs()), (1, 1, 5));
    }

    #[test]
    fn what_failed_is_not_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        std::fs::write(&path, "x").unwrap();
        let medium = CountingMedium::new(Arc::new(OsMedium::new()));
        assert!(medium.open(&path, FileKind::Database, OpenMode::CreateNew).is_err());
        assert!(medium.delete(&directory.path().join("missing")).is_err());
        let file = medium.open(&path, FileKind::Database, OpenMode::ReadOnly).unwrap();
        assert!(file.write_at(b"y", 0).is_err());
        assert!(file.write_durable_at(&[IoSlice::new(b"y")], 0).is_err());
        assert_eq!(medium.snapshot(), Snapshot::default());
    }
}
