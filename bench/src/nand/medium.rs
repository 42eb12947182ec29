//! Files on NAND and PRAM, in memory.

use super::cache::CachedFile;
use super::ftl::{Ftl, FtlCounts};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileId, FileKind, Medium, OpenMode, Result, Stamp, total_bytes};
use litefoot_storage::pass_on;
use litefoot_storage::sync::Mutex;
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

/// Bytes that the file system writes for a change of a file or a directory where it writes to PRAM.
const PRAM_METADATA_BYTES: u64 = 128;
const PRAM_READ_US_PER_BYTE: f64 = 0.02;
const PRAM_WRITE_US_PER_BYTE: f64 = 0.1;

/// The files that lie on PRAM: a tier always, and every path below [`Placement::PRAM`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The file system's own pages: PFFS2.
    pub metadata: bool,
    /// Rollback journals: "Journal".
    pub journals: bool,
}

impl Placement {
    /// No others.
    pub const NONE: Placement = Placement { metadata: false, journals: false };
    /// A directory that is on PRAM.
    pub const PRAM: &str = "/pram";

    fn is_on_pram(self, path: &Path, kind: FileKind) -> bool {
        match kind {
            FileKind::Tier => true,
            FileKind::Journal | FileKind::SuperJournal if self.journals => true,
            _ => path.starts_with(Placement::PRAM),
        }
    }
}

/// Counters of both devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// The flash.
    pub nand: FtlCounts,
    /// Bytes read from PRAM.
    pub pram_bytes_read: u64,
    /// Bytes written to PRAM.
    pub pram_bytes_written: u64,
}

impl Costs {
    /// Time of all of it, in microseconds.
    pub fn us(&self) -> f64 {
        self.nand.us()
            + self.pram_bytes_read as f64 * PRAM_READ_US_PER_BYTE
            + self.pram_bytes_written as f64 * PRAM_WRITE_US_PER_BYTE
    }

    /// The differences from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Costs) -> Costs {
        Costs {
            nand: FtlCounts {
                host_reads: self.nand.host_reads - earlier.nand.host_reads,
                host_writes: self.nand.host_writes - earlier.nand.host_writes,
                copies: self.nand.copies - earlier.nand.copies,
                erases: self.nand.erases - earlier.nand.erases,
            },
            pram_bytes_read: self.pram_bytes_read - earlier.pram_bytes_read,
            pram_bytes_written: self.pram_bytes_written - earlier.pram_bytes_written,
        }
    }
}

/// A medium of both devices. Clones are the same medium.
#[derive(Clone)]
pub struct NandMedium {
    inner: SimMedium,
    placement: Placement,
    model: Arc<Mutex<Model>>,
}

struct Model {
    ftl: Ftl,
    costs: Costs,
    /// Pages of the device that nobody uses, the next one last.
    unused: Vec<u32>,
    directory_page: u32,
    names_changed: bool,
    /// Files on NAND that have a name.
    files: HashMap<FileId, CachedFile>,
}

impl Model {
    fn pram_metadata(&mut self) {
        self.costs.pram_bytes_written += PRAM_METADATA_BYTES;
    }

    /// A page of the device; the last one where it is full: the model goes on, and its writes still count.
    fn allocate(&mut self) -> u32 {
        self.unused.pop().unwrap_or(self.directory_page)
    }

    fn give_back(&mut self, pages: Vec<u32>) {
        for page in pages {
            self.ftl.trim(page);
            self.unused.push(page);
        }
    }

    fn sync(&mut self, id: FileId, placement: Placement) {
        let Some(mut file) = self.files.remove(&id) else { return };
        for page in file.take_dirty() {
            let place = match file.places.get(&page) {
                Some(place) => *place,
                None => {
                    let place = self.allocate();
                    file.places.insert(page, place);
                    file.changed = true;
                    place
                }
            };
            self.ftl.write(place);
        }
        if std::mem::take(&mut file.changed) {
            if placement.metadata {
                self.pram_metadata();
            } else {
                let page = file.own_page.unwrap_or_else(|| self.allocate());
                file.own_page = Some(page);
                self.ftl.write(page);
            }
        }
        self.files.insert(id, file);
    }

    fn sync_names(&mut self, placement: Placement) {
        if std::mem::take(&mut self.names_changed) {
            if placement.metadata {
                self.pram_metadata();
            } else {
                self.ftl.write(self.directory_page);
            }
        }
    }

    fn forget(&mut self, id: Option<FileId>) {
        self.names_changed = true;
        if let Some(mut file) = id.and_then(|id| self.files.remove(&id)) {
            let own = file.own_page;
            let pages = file.set_len(0);
            self.give_back(pages.into_iter().chain(own).collect());
        }
    }
}

impl NandMedium {
    /// Empty files on an aged device, of which `percent` are others'.
    pub fn new(ftl: Ftl, percent: u32, placement: Placement) -> NandMedium {
        let pages = ftl.geometry().logical_pages;
        let others = (u64::from(pages) * u64::from(percent) / 100) as u32;
        let unused = (others + 1..pages).rev().collect();
        let model = Model {
            ftl,
            costs: Costs::default(),
            unused,
            directory_page: others,
            names_changed: false,
            files: HashMap::new(),
        };
        NandMedium { inner: SimMedium::unrecorded(), placement, model: Arc::new(Mutex::new(model)) }
    }

    /// The counters so far.
    pub fn costs(&self) -> Costs {
        let model = self.model.lock();
        Costs { nand: model.ftl.counts(), ..model.costs }
    }

    /// Writes what no sync has written yet: work put off is not work saved.
    pub fn write_back(&self) {
        let mut model = self.model.lock();
        let mut ids: Vec<FileId> = model.files.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            model.sync(id, self.placement);
        }
        model.sync_names(self.placement);
    }
}

impl Medium for NandMedium {
    pass_on!(inner: info, list, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let before = self.inner.info(path)?.map(|info| info.id);
        let file = self.inner.open(path, kind, mode)?;
        let on_pram = self.placement.is_on_pram(&self.inner.absolute(path)?.path, kind);
        let mut model = self.model.lock();
        if before.is_none() {
            if on_pram {
                model.pram_metadata();
            } else {
                model.names_changed = true;
            }
        }
        if !on_pram {
            model.files.entry(file.id()).or_insert_with(CachedFile::created);
        }
        drop(model);
        Ok(Arc::new(NandFile { inner: file, medium: self.clone(), on_pram }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let id = self.inner.info(path)?.map(|info| info.id);
        self.inner.delete(path)?;
        let mut model = self.model.lock();
        match id {
            Some(id) if !model.files.contains_key(&id) => model.pram_metadata(),
            id => model.forget(id),
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let replaced = self.inner.info(to)?.map(|info| info.id);
        self.inner.rename(from, to)?;
        self.model.lock().forget(replaced);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)?;
        self.model.lock().sync_names(self.placement);
        Ok(())
    }
}

struct NandFile {
    inner: Arc<dyn File>,
    medium: NandMedium,
    on_pram: bool,
}

impl NandFile {
    fn has_read(&self, offset: u64, bytes: usize) {
        let mut model = self.medium.model.lock();
        if self.on_pram {
            model.costs.pram_bytes_read += bytes as u64;
        } else if let Some(file) = model.files.get_mut(&self.inner.id()) {
            let pages = file.read(offset..offset + bytes as u64);
            pages.into_iter().for_each(|page| model.ftl.read(page));
        }
    }

    fn has_written(&self, offset: u64, bytes: u64, len_before: u64) {
        let mut model = self.medium.model.lock();
        if self.on_pram {
            model.costs.pram_bytes_written += bytes;
        } else if let Some(file) = model.files.get_mut(&self.inner.id()) {
            file.changed |= offset + bytes > len_before;
            let pages = file.write(offset..offset + bytes);
            pages.into_iter().for_each(|page| model.ftl.read(page));
        }
    }

    fn has_len(&self, before: u64, len: u64) {
        let mut model = self.medium.model.lock();
        if before == len {
            return;
        }
        if self.on_pram {
            model.pram_metadata();
        } else if let Some(file) = model.files.get_mut(&self.inner.id()) {
            let pages = file.set_len(len);
            model.give_back(pages);
        }
    }
}

impl File for NandFile {
    pass_on!(inner: stamp, len, id, birth, path, lock_range, is_locked, map_over, guarantees, take_lease, release_lease);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_at(buf, offset)?;
        self.has_read(offset, bytes);
        Ok(bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let bytes = self.inner.read_vectored_at(bufs, offset)?;
        self.has_read(offset, bytes);
        Ok(bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let len = self.inner.len()?;
        self.inner.write_vectored_at(bufs, offset)?;
        self.has_written(offset, total_bytes(bufs), len);
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_vectored_at(bufs, offset)?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        self.medium.model.lock().sync(self.inner.id(), self.medium.placement);
        Ok(())
    }

    fn set_stamp(&self) -> Result<Stamp> {
        let stamp = self.inner.set_stamp()?;
        let mut model = self.medium.model.lock();
        if self.on_pram {
            model.pram_metadata();
        } else if let Some(file) = model.files.get_mut(&self.inner.id()) {
            file.changed = true;
        }
        model.sync(self.inner.id(), self.medium.placement);
        Ok(stamp)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let before = self.inner.len()?;
        self.inner.set_len(len)?;
        self.has_len(before, len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let before = self.inner.len()?;
        self.inner.allocate(len)?;
        self.has_len(before, len.max(before));
        Ok(())
    }
}
