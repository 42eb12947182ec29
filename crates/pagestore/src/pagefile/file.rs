//! Reading a page file: its header, and a [`Pool`] over the pages behind it.

use super::header::Header;
use super::{Error, FEWEST_PAGES, Options, Result};
use crate::pages::{self, Extents, Pages};
use litefoot_storage::buffer_pool::{self, Pinned, Pool, Statistics};
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::io::IoQueue;
use std::path::Path;
use std::sync::Arc;

/// A page file that is read. Threads and fibers share it.
pub struct PageFile {
    pool: Pool,
    header: Header,
}

impl PageFile {
    /// Opens a page file.
    ///
    /// # Errors
    /// [`Error::NotAPageFile`], [`Error::PageSize`], [`Error::Memory`]; those of the medium.
    pub fn open(medium: &dyn Medium, path: &Path, io: Arc<IoQueue>, options: &Options) -> Result<PageFile> {
        let file = medium.open(&medium.absolute(path)?.path, FileKind::Database, OpenMode::ReadOnly)?;
        let header = Header::read(&*file)?;
        let pages = usize::try_from(header.pages).unwrap_or(usize::MAX);
        let config = buffer_pool::Config {
            page_bytes: header.page_bytes,
            frames: (options.cache_bytes / header.page_bytes).min(pages).max(FEWEST_PAGES),
            partitions: options.partitions,
            most_pages: header.pages,
            prefetch: options.prefetch,
            run_pages: 1,
            budget: None,
            topology: options.topology.clone(),
        };
        let pool = Pool::new(file, io, &config, Box::new(|page| page > 0))
            .map_err(|error| of_pool(error, path, header.pages))?;
        pool.set_pages(header.pages);
        Ok(PageFile { pool, header })
    }

    /// The pages behind page 0.
    pub fn extents(&self) -> Extents {
        Extents::from(1..self.header.pages)
    }

    /// The figures so far.
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics()
    }

    /// Holds a page.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`], [`Error::Read`], [`Error::AllPinned`].
    #[inline]
    pub fn pin(&self, page: u64) -> Result<Pinned<'_>> {
        match self.pool.try_pin(page) {
            Some(held) => Ok(held),
            None => self.pin_slowly(page),
        }
    }

    #[cold]
    fn pin_slowly(&self, page: u64) -> Result<Pinned<'_>> {
        // Page 0 is never in memory.
        let held = if page == 0 { Err(buffer_pool::Error::NoSuchPage { page }) } else { self.pool.pin(page) };
        held.map_err(|error| of_pool(error, self.path(), self.header.pages))
    }

    fn path(&self) -> &Path {
        self.pool.file().path()
    }
}

/// Says of which file.
#[cold]
fn of_pool(error: buffer_pool::Error, path: &Path, pages: u64) -> Error {
    let path = path.to_owned();
    match error {
        buffer_pool::Error::Memory { bytes, why } => Error::Memory { bytes, why },
        buffer_pool::Error::NoSuchPage { page } => Error::NoSuchPage { path, page, pages },
        buffer_pool::Error::Read { page, why } => Error::Read { path, page, why },
        _ => Error::AllPinned { path },
    }
}

impl Pages for PageFile {
    type Guard<'a> = Pinned<'a>;

    fn page_bytes(&self) -> usize {
        self.header.page_bytes
    }

    #[inline]
    fn page(&self, page: u64) -> pages::Result<Pinned<'_>> {
        self.pin(page).map_err(pages::Error::pages)
    }

    fn room_ahead(&self) -> usize {
        self.pool.room_ahead()
    }

    fn read_ahead(&self, pages: &[u64]) {
        self.pool.read_ahead(pages);
    }

    fn nodes(&self) -> usize {
        self.pool.nodes()
    }

    fn node_of(&self, page: u64) -> usize {
        self.pool.node_of(page)
    }
}
