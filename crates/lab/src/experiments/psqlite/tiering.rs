//! A medium whose databases are tiered, each with a device of its own on PRAM.

use litefoot_engine::device::{File, FileKind, Medium, OpenMode, PathInfo, Result, beside};
use litefoot_engine::sync::Mutex;
use litefoot_engine::tier::{Config, Statistics, TieredFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Wraps every database that is opened; everything else passes through.
#[derive(Clone)]
pub struct TieringMedium {
    inner: Arc<dyn Medium>,
    config: Config,
    open: Arc<Mutex<BTreeMap<PathBuf, Arc<TieredFile>>>>,
}

impl TieringMedium {
    pub fn new(inner: Arc<dyn Medium>, config: Config) -> TieringMedium {
        TieringMedium { inner, config, open: Arc::default() }
    }

    /// Brings everything home, and lets the databases go; says what each has done.
    pub fn close(&self) -> Result<Vec<Statistics>> {
        let files = std::mem::take(&mut *self.open.lock());
        files.into_values().map(|file| file.drain().map(|()| file.statistics())).collect()
    }
}

impl Medium for TieringMedium {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        if kind != FileKind::Database {
            return self.inner.open(path, kind, mode);
        }
        let mut open = self.open.lock();
        if let Some(file) = open.get(path) {
            return Ok(file.clone());
        }
        let flash = self.inner.open(path, kind, mode)?;
        let device = beside(path, "-tier");
        let file = TieredFile::open(flash, &self.inner, &device, &self.config).map_err(|error| {
            let operation = litefoot_engine::device::Operation::Open;
            litefoot_engine::device::DeviceError::new(operation, path, std::io::Error::other(error))
        })?;
        open.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.inner.delete(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        self.inner.info(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.inner.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }
}
