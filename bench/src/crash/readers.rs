//! The VFSes by which images are opened.
//!
//! # Why
//! SQLite may use a VFS for as long as the process lives, so something of each stays in memory. A simulation opens an image
//! behind every cut, and a million VFSes would take gigabytes.
//!
//! # Invariant
//! All files of an image are closed before another image takes its place.

use super::workload::{builder_on, register};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, PathInfo, Resolved, Result as DeviceResult};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Litefoot's VFS and one of SQLite's own protocol, on one image after the other.
pub struct Readers {
    litefoot: ImageVfs,
    pass_through: ImageVfs,
}

/// A VFS whose medium changes.
struct ImageVfs {
    vfs: litefoot::Vfs,
    image: Arc<Image>,
}

/// The image in use.
struct Image(Mutex<SimMedium>);

impl Readers {
    /// Registers the VFSes.
    ///
    /// # Errors
    /// When a VFS cannot be registered.
    pub fn new() -> Result<Readers, String> {
        Ok(Readers { litefoot: ImageVfs::new(false)?, pass_through: ImageVfs::new(true)? })
    }

    /// Litefoot's VFS, on this image from now on.
    pub(super) fn litefoot(&self, image: &SimMedium) -> &litefoot::Vfs {
        self.litefoot.on(image)
    }

    /// The VFS of SQLite's own protocol, on this image from now on.
    pub(super) fn pass_through(&self, image: &SimMedium) -> &litefoot::Vfs {
        self.pass_through.on(image)
    }
}

impl ImageVfs {
    fn new(pass_through: bool) -> Result<ImageVfs, String> {
        let image = Arc::new(Image(Mutex::new(SimMedium::new())));
        let vfs = register(builder_on(image.clone(), pass_through, litefoot::Options::default()))?;
        Ok(ImageVfs { vfs, image })
    }

    fn on(&self, image: &SimMedium) -> &litefoot::Vfs {
        *self.image.lock() = image.clone();
        &self.vfs
    }
}

impl Image {
    fn lock(&self) -> MutexGuard<'_, SimMedium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> SimMedium {
        self.lock().clone()
    }
}

impl Medium for Image {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> DeviceResult<Arc<dyn File>> {
        self.get().open(path, kind, mode)
    }
    fn delete(&self, path: &Path) -> DeviceResult<()> {
        self.get().delete(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> DeviceResult<()> {
        self.get().rename(from, to)
    }
    fn info(&self, path: &Path) -> DeviceResult<Option<PathInfo>> {
        self.get().info(path)
    }
    fn list(&self, directory: &Path) -> DeviceResult<Vec<PathBuf>> {
        self.get().list(directory)
    }
    fn sync_directory(&self, directory: &Path) -> DeviceResult<()> {
        self.get().sync_directory(directory)
    }
    fn absolute(&self, path: &Path) -> DeviceResult<Resolved> {
        self.get().absolute(path)
    }
}
