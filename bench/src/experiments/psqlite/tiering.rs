//! A medium whose databases are tiered, each with a device of its own on PRAM.

use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result, beside};
use litefoot_storage::pass_on;
use litefoot_storage::sync::Mutex;
use litefoot_tier::{Config, Statistics, TieredFile};
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

    /// Drains the tier and closes the databases; returns the statistics of each.
    pub fn close(&self) -> Result<Vec<Statistics>> {
        let files = std::mem::take(&mut *self.open.lock());
        files.into_values().map(|file| file.drain().map(|()| file.statistics())).collect()
    }
}

impl Medium for TieringMedium {
    pass_on!(inner: delete, rename, info, list, sync_directory, absolute);

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
            let operation = litefoot_storage::file::Operation::Open;
            litefoot_storage::file::DeviceError::new(operation, path, std::io::Error::other(error))
        })?;
        open.insert(path.to_owned(), file.clone());
        Ok(file)
    }
}
