//! A medium that says how long its operations would take on other devices.
//!
//! # Why
//! The value of a storage layer depends on the flash beneath it, and few desks have an SD card, eMMC, UFS and NVMe. One
//! stream of operations, on any medium, is turned into virtual time on all devices of [`DEVICES`] at once. The result
//! depends on the operations alone: it is the same on every machine and in every run.
//!
//! # The model
//! The operating system's page cache and a journaling file system stand between the operations and the device, as they
//! do for every SQLite application:
//!
//! - a write costs nothing until a sync. The sync writes each dirty page of the file once, in the order of the file,
//!   and flushes the device. Bytes without a sync cost nothing until [`ModelledMedium::write_back`];
//! - a page is read from the device at most once; the cache is large enough for everything;
//! - a sync after a change of length, or after a write into reserved space, also writes the file system's journal:
//!   [`METADATA_BYTES`], and a flush more. So does the first sync of a directory after a name in it changed. That is
//!   ext4 with its defaults: 16 KiB and two flushes for an append, 4 KiB and one for a write in place;
//! - a request that begins where the last one ended is charged by bandwidth. Any other begins with a random access.
//!   Some devices pause now and then ([`DeviceModel`]).
//!
//! # What it does not do
//! Model the processor, requests that overlap, or garbage collection beyond the pauses. Nor does it model the read of a
//! page before a part of it is written, or the blocks of the file system's maps. It does not slow anything down.

mod cache;
mod clock;
mod table;

pub use table::{DEVICES, Device, DeviceModel, Parameter, Source};

use cache::{CachedFile, Writeback};
use clock::Clock;
use litefoot_storage::file::{File, FileId, FileKind, Medium, OpenMode, Result, Stamp, total_bytes};
use litefoot_storage::pass_on;
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use table::PAGE_BYTES;

/// Bytes that a file system's journal writes for a change of names, lengths or places. They are a descriptor, one
/// changed block and the commit record, as in ext4 with its defaults. (With ext4's `fast_commit` it is one block and no
/// second flush.)
pub const METADATA_BYTES: u64 = 3 * PAGE_BYTES;

/// The number under which clocks know the file system's journal; files are numbered from 1.
const JOURNAL: u64 = 0;

/// Models the time of the operations on the medium it wraps. Clones share their clocks.
#[derive(Clone)]
pub struct ModelledMedium {
    inner: Arc<dyn Medium>,
    model: Arc<Mutex<Model>>,
}

/// A number for the clocks, and what is cached.
struct ModelledState {
    number: u64,
    cached: Mutex<CachedFile>,
}

impl ModelledState {
    fn cached(&self) -> MutexGuard<'_, CachedFile> {
        self.cached.lock()
    }
}

/// Lock order: the model before a file's cache.
struct Model {
    clocks: [Clock; DEVICES.len()],
    /// Files that have a name.
    files: HashMap<FileId, Arc<ModelledState>>,
    next_number: u64,
    /// True if a name was made, changed or removed since the file system's journal was last written.
    names_changed: bool,
    journal_end: u64,
}

impl Model {
    fn new() -> Model {
        Model {
            clocks: std::array::from_fn(|device| Clock::new(&DEVICES[device])),
            files: HashMap::new(),
            next_number: JOURNAL + 1,
            names_changed: false,
            journal_end: 0,
        }
    }

    /// The state of an open file; a new one for a file that was created just now.
    fn open(&mut self, id: FileId, len: u64, created: bool) -> Arc<ModelledState> {
        if created {
            self.names_changed = true;
            self.files.remove(&id);
        }
        let number = self.next_number;
        let state = self
            .files
            .entry(id)
            .or_insert_with(|| Arc::new(ModelledState { number, cached: Mutex::new(CachedFile::new(len)) }));
        self.next_number += u64::from(state.number == number);
        state.clone()
    }

    fn read(&mut self, file: &ModelledState, range: Range<u64>) {
        for missing in file.cached().read(range) {
            for clock in &mut self.clocks {
                clock.read((file.number, missing.start), missing.end - missing.start);
            }
        }
    }

    fn write_out(&mut self, file: u64, writeback: &Writeback) {
        for clock in &mut self.clocks {
            let whole_pages = clock.model().unit_bytes == PAGE_BYTES;
            for range in if whole_pages { &writeback.pages } else { &writeback.lines } {
                clock.write((file, range.start), range.end - range.start);
            }
        }
    }

    /// Writes dirty data and flushes; where it must, commits the file system's journal as well.
    fn sync(&mut self, file: u64, writeback: &Writeback) {
        self.write_out(file, writeback);
        if writeback.metadata {
            self.write_journal();
            self.flush();
        }
        self.flush();
    }

    fn sync_directory(&mut self) {
        if self.names_changed {
            self.write_journal();
            self.flush();
        }
        self.flush();
    }

    fn write_journal(&mut self) {
        for clock in &mut self.clocks {
            clock.write((JOURNAL, self.journal_end), METADATA_BYTES);
        }
        self.journal_end += METADATA_BYTES;
        self.names_changed = false;
    }

    fn flush(&mut self) {
        self.clocks.iter_mut().for_each(Clock::flush);
    }
}

impl ModelledMedium {
    /// Models what passes to `inner` from now on.
    pub fn new(inner: Arc<dyn Medium>) -> ModelledMedium {
        ModelledMedium { inner, model: Arc::new(Mutex::new(Model::new())) }
    }

    /// The time that the operations so far would have taken, in microseconds.
    pub fn virtual_us(&self, device: Device) -> f64 {
        self.model().clocks[device as usize].elapsed_us()
    }

    /// Writes what no sync has written yet, as the operating system does in its own time: work put off is
    /// not work saved. Files that have no name any more need not be written.
    pub fn write_back(&self) {
        let mut model = self.model();
        let mut files: Vec<Arc<ModelledState>> = model.files.values().cloned().collect();
        files.sort_by_key(|file| file.number);
        let mut metadata = model.names_changed;
        for file in files {
            let writeback = file.cached().take_all();
            metadata |= writeback.metadata;
            model.write_out(file.number, &writeback);
        }
        if metadata {
            model.write_journal();
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock()
    }

    /// Forgets what is cached of a file that is about to lose its name.
    fn forget(&self, id: Option<FileId>) {
        let mut model = self.model();
        model.names_changed = true;
        if let Some(id) = id {
            model.files.remove(&id);
        }
    }
}

impl Medium for ModelledMedium {
    pass_on!(inner: info, identity, unlinked_identity, glance, list, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let created = match mode {
            OpenMode::ReadOnly | OpenMode::ReadWrite => false,
            OpenMode::CreateNew => true,
            OpenMode::Create => self.inner.info(path)?.is_none(),
        };
        let inner = self.inner.open(path, kind, mode)?;
        let state = self.model().open(inner.id(), inner.len()?, created);
        Ok(Arc::new(ModelledFile { inner, state, model: self.model.clone() }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let id = self.inner.info(path)?.map(|info| info.id);
        self.inner.delete(path)?;
        self.forget(id);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let replaced = self.inner.info(to)?.map(|info| info.id);
        self.inner.rename(from, to)?;
        self.forget(replaced);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)?;
        self.model().sync_directory();
        Ok(())
    }
}

struct ModelledFile {
    inner: Arc<dyn File>,
    state: Arc<ModelledState>,
    model: Arc<Mutex<Model>>,
}

impl ModelledFile {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock()
    }
}

impl File for ModelledFile {
    pass_on!(inner: stamp, len, id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, take_lease, release_lease);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_at(buf, offset)?;
        self.model().read(&self.state, offset..offset + bytes as u64);
        Ok(bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_vectored_at(bufs, offset)?;
        self.model().read(&self.state, offset..offset + bytes as u64);
        Ok(bytes)
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.inner.read_ahead(offset, len);
        self.model().read(&self.state, offset..offset.saturating_add(len));
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset)?;
        self.state.cached().write(offset..offset + total_bytes(bufs));
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_durable_at(bufs, offset)?;
        let range = offset..offset + total_bytes(bufs);
        let mut model = self.model();
        let writeback = {
            let mut cached = self.state.cached();
            cached.write(range.clone());
            cached.take(range)
        };
        model.sync(self.state.number, &writeback);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        let mut model = self.model();
        let writeback = self.state.cached().take_all();
        model.sync(self.state.number, &writeback);
        Ok(())
    }

    fn set_stamp(&self) -> Result<Stamp> {
        let stamp = self.inner.set_stamp()?;
        let mut model = self.model();
        // A time is part of the file system's own records.
        let writeback = Writeback { metadata: true, ..self.state.cached().take_all() };
        model.sync(self.state.number, &writeback);
        Ok(stamp)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)?;
        self.state.cached().set_len(len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)?;
        self.state.cached().allocate(len);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
