//! Making a page file.

use super::header::Header;
use super::{Error, PAGE_SIZES, Result};
use crate::pages::{self, Extents, Pages, PagesMut};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, beside, parent_directory};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The suffix of the file's name until it is whole.
const UNFINISHED: &str = "-unfinished";

/// A page file in the making. One thread builds; page 1 is the first that [`PagesMut::allocate`] gives.
pub struct Builder {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    unfinished: PathBuf,
    file: Arc<dyn File>,
    page_bytes: usize,
    pages: AtomicU64,
    finished: bool,
}

impl Builder {
    /// Begins a file that does not exist yet.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::PageSize`]; those of the medium.
    pub fn create(medium: Arc<dyn Medium>, path: &Path, page_bytes: usize) -> Result<Builder> {
        if !PAGE_SIZES.contains(&page_bytes) {
            return Err(Error::PageSize(page_bytes));
        }
        if medium.info(path)?.is_some() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let unfinished = beside(path, UNFINISHED);
        // A file that a power cut has left has no owner.
        let file = medium.open(&unfinished, FileKind::Database, OpenMode::Create)?;
        file.set_len(0)?;
        let (path, pages) = (path.to_owned(), AtomicU64::new(1));
        Ok(Builder { medium, path, unfinished, file, page_bytes, pages, finished: false })
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Errors of the medium; no file is left then.
    pub fn finish(mut self) -> Result<()> {
        let pages = self.pages.load(Ordering::Relaxed);
        self.file.set_len(pages * self.page_bytes as u64)?;
        self.file.write_at(&Header { page_bytes: self.page_bytes, pages }.encode(), 0)?;
        self.file.sync()?;
        if self.medium.info(&self.path)?.is_some() {
            return Err(Error::Exists { path: self.path.clone() });
        }
        self.medium.rename(&self.unfinished, &self.path)?;
        self.finished = true;
        Ok(self.medium.sync_directory(parent_directory(&self.path))?)
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if !self.finished {
            // Where it fails, what is left has a name that says what it is.
            let _ = self.medium.delete(&self.unfinished);
        }
    }
}

/// A copy of a page under construction.
pub struct Draft(Vec<u8>);

impl Deref for Draft {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Pages for Builder {
    type Guard<'a> = Draft;

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn page(&self, page: u64) -> pages::Result<Draft> {
        let pages = self.pages.load(Ordering::Relaxed);
        if page == 0 || page >= pages {
            return Err(pages::Error::pages(Error::NoSuchPage { path: self.path.clone(), page, pages }));
        }
        let mut bytes = vec![0; self.page_bytes];
        self.file.read_at(&mut bytes, page * self.page_bytes as u64).map_err(pages::Error::pages)?;
        Ok(Draft(bytes))
    }
}

impl PagesMut for Builder {
    fn allocate(&self, count: u64) -> pages::Result<Extents> {
        let first = self.pages.load(Ordering::Relaxed);
        let too_large = || pages::Error::pages(Error::TooLarge { path: self.path.clone() });
        let end = first.checked_add(count).ok_or_else(too_large)?;
        let len = end.checked_mul(self.page_bytes as u64).filter(|len| *len <= i64::MAX as u64);
        // A file that does not fit fails here, and not after hours.
        self.file.allocate(len.ok_or_else(too_large)?).map_err(pages::Error::pages)?;
        self.pages.store(end, Ordering::Relaxed);
        Ok(Extents::from(first..end))
    }

    fn update(&self, page: u64, change: &mut dyn FnMut(&mut [u8])) -> pages::Result<()> {
        let Draft(mut bytes) = self.page(page)?;
        change(&mut bytes);
        self.file.write_at(&bytes, page * self.page_bytes as u64).map_err(pages::Error::pages)
    }
}
