//! A database of pages: opening, pins and units.

use super::allocation::pages_per_group;
use super::check::Inconsistency;
use super::checkpoint::start_cleaner;
use super::files::{self, Files};
use super::gate::Gate;
use super::inner::{Counters, Inner, PageCleaner};
use super::transaction::Transaction;
use super::unit::Unit;
use super::{Error, MOST_PAGES, PageId, Result};
use crate::pages::{self, Extents, Pages, PagesMut};
use litefoot_storage::buffer_pool::{self, FEWEST_FRAMES, Pool};
pub use litefoot_storage::buffer_pool::{Pinned, PinnedMut};
use litefoot_storage::file::{Medium, RangeLock};
use litefoot_storage::io::IoQueue;
use litefoot_storage::io::Monitor;
use litefoot_storage::numa::Topology;
use litefoot_storage::sync::Mutex;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The options for opening a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bytes of pages kept in memory: a multiple of the page size, at least [`FEWEST_FRAMES`] pages.
    pub pool_bytes: usize,
    /// Partitions of the pool.
    pub partitions: usize,
    /// True if pages are read ahead.
    pub prefetch: bool,
    /// The share of the pool, above 0 and at most 1, that may be dirty before it is cleaned.
    pub max_dirty_ratio: f64,
    /// The thread that cleans then.
    pub page_cleaner: PageCleaner,
    /// The time from one checkpoint to the next, if changes shall become durable by themselves. A thread makes them.
    pub checkpoint_interval: Option<Duration>,
    /// The memory nodes that the partitions are spread over: those of the machine, or [`Topology::single`].
    pub topology: Topology,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pool_bytes: 16 << 20,
            partitions: 4,
            prefetch: true,
            max_dirty_ratio: 0.8,
            page_cleaner: PageCleaner::Background,
            checkpoint_interval: None,
            topology: Topology::of_machine(),
        }
    }
}

/// Figures of a database: its work so far, and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Its pool.
    pub pool: buffer_pool::Statistics,
    /// Pages of the file.
    pub pages: u64,
    /// Of them, those in use, the allocation table's among them.
    pub in_use: u64,
    /// Checkpoints that wrote something.
    pub checkpoints: u64,
    /// Pages that they wrote to the data file.
    pub cleaned: u64,
    /// Writes in which they left.
    pub writes: u64,
}

/// A database of pages.
pub struct Database {
    inner: Arc<Inner>,
    closed: bool,
}

impl Database {
    /// Makes an empty database: page 0, with the allocation table. Nothing is overwritten.
    ///
    /// # Errors
    /// [`Error::PageSize`], [`Error::AlreadyExists`], [`Error::InvalidPath`]; those of the medium.
    pub fn create(medium: &Arc<dyn Medium>, path: &Path, page_bytes: usize) -> Result<()> {
        files::create(medium, path, page_bytes)
    }

    /// True if there is a database.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn exists(medium: &dyn Medium, path: &Path) -> Result<bool> {
        files::exist(medium, path)
    }

    /// Removes a database that is not open, as far as its files exist.
    ///
    /// # Errors
    /// The first of the medium's; the other files are gone then.
    pub fn remove(medium: &dyn Medium, path: &Path) -> Result<()> {
        files::remove(medium, path)
    }

    /// Opens a database, as its last checkpoint left it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InUse`], [`Error::Damaged`], [`Error::Truncated`]; where the options do not fit,
    /// [`Error::PoolSize`], [`Error::Partitions`], [`Error::Threshold`], [`Error::Interval`]; [`Error::NoThread`]; those
    /// of the medium.
    pub fn open(
        medium: &Arc<dyn Medium>,
        path: &Path,
        io: Arc<IoQueue>,
        options: &Options,
    ) -> Result<Database> {
        if !(options.max_dirty_ratio > 0.0 && options.max_dirty_ratio <= 1.0) {
            return Err(Error::Threshold(options.max_dirty_ratio));
        }
        if options.checkpoint_interval.is_some_and(|interval| interval.is_zero()) {
            return Err(Error::Interval);
        }
        let (files, allocation) = Files::open(medium, path)?;
        let (page_bytes, pool_bytes) = (files.page_bytes(), options.pool_bytes);
        let frames = pool_bytes / page_bytes;
        if !pool_bytes.is_multiple_of(page_bytes) || frames < FEWEST_FRAMES {
            return Err(Error::PoolSize { pool_bytes, page_bytes });
        }
        if options.partitions == 0 || options.partitions > frames {
            return Err(Error::Partitions { partitions: options.partitions, frames });
        }
        let config = buffer_pool::Config {
            page_bytes,
            frames,
            partitions: options.partitions,
            most_pages: MOST_PAGES,
            prefetch: options.prefetch,
            run_pages: 1,
            budget: None,
            topology: options.topology.clone(),
        };
        let pages = allocation.pages();
        let allocation = Arc::new(Mutex::new(allocation));
        let table = allocation.clone();
        let readable = move |page| {
            let table = table.lock();
            table.is_in_use(page) && !table.is_protected(page)
        };
        let pool = Pool::new(files.data.clone(), io, &config, Box::new(readable)).map_err(Error::Pool)?;
        pool.set_pages(pages);
        let inner = Arc::new(Inner {
            path: path.to_owned(),
            pool,
            allocation,
            room: Mutex::new(files.data.len()?),
            files: Mutex::new(files),
            gate: Gate::default(),
            busy: Monitor::new(false),
            counters: Counters::default(),
            worker: Arc::default(),
            // A frame at least is left for a unit that begins.
            threshold: ((frames as f64 * options.max_dirty_ratio) as usize).min(frames - 1),
            page_cleaner: options.page_cleaner,
        });
        let wanted = options.page_cleaner == PageCleaner::Background || options.checkpoint_interval.is_some();
        let started = wanted && start_cleaner(&inner, options.checkpoint_interval);
        let database = Database { inner, closed: false };
        // A unit can make the cleaner's checkpoints; nobody else makes those of an interval.
        if options.checkpoint_interval.is_some() && !started {
            return Err(Error::NoThread { path: path.to_owned() });
        }
        Ok(database)
    }

    /// Makes everything durable and closes the database; the redo log is gone then.
    ///
    /// # Errors
    /// Errors of [`Database::checkpoint`]; the medium has the state of the last one.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        // A panic has latched the files; the checkpoint meets that.
        let _ = self.inner.worker.finish();
        self.inner.checkpoint()?;
        let pages = self.inner.allocation.lock().pages();
        let mut files = self.inner.files.lock();
        let len = pages * self.inner.pool.page_bytes() as u64;
        if files.data.len()? != len {
            files.cut(len)?;
        }
        files.redo.delete()?;
        // Reads ahead that are still under way keep the file itself open a little longer.
        Ok(files.data.lock_range(0, 1, RangeLock::None).map(drop)?)
    }

    /// Pins a page.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`], [`Error::Protected`], [`Error::NotAllocated`], [`Error::Pool`].
    #[inline]
    pub fn pin(&self, page: PageId) -> Result<Pinned<'_>> {
        match self.inner.pool.try_pin(page) {
            Some(pinned) => Ok(pinned),
            None => self.inner.pin_slowly(page, true),
        }
    }

    /// Begins a unit of changes.
    ///
    /// # Errors
    /// Errors of the cleaning that may have to come first.
    pub fn unit(&self) -> Result<Unit<'_>> {
        let dirty = self.inner.pool.dirty();
        let most = match self.inner.page_cleaner {
            PageCleaner::Foreground => self.inner.threshold,
            // The thread has not come to it in time.
            PageCleaner::Background => self.inner.threshold.midpoint(self.inner.pool.frames()),
        };
        if dirty > most {
            self.inner.checkpoint()?;
        }
        self.inner.gate.enter();
        Ok(Unit { inner: &self.inner })
    }

    /// Begins a transaction: a unit of changes that is rolled back unless it is committed.
    ///
    /// # Errors
    /// As [`Database::unit`].
    pub fn transaction(&self) -> Result<Transaction<'_>> {
        Ok(Transaction::new(self.unit()?))
    }

    /// Makes everything durable that ended units have changed.
    ///
    /// # Errors
    /// [`Error::UnitOpen`]; those of the medium, after which nothing of it may be on the medium, and all of it is
    /// still in memory.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }

    /// Finds out whether memory, table and file agree.
    ///
    /// # Errors
    /// [`Error::Inconsistent`]; [`Error::UnitOpen`].
    pub fn check(&self) -> Result<()> {
        let mut wrong = self.inner.inconsistencies()?;
        if wrong.is_empty() {
            return Ok(());
        }
        let first = wrong.swap_remove(0);
        Err(Error::Inconsistent { path: self.inner.path.clone(), first, more: wrong.len() })
    }

    /// Everything that is wrong.
    ///
    /// # Errors
    /// [`Error::UnitOpen`].
    pub fn inconsistencies(&self) -> Result<Vec<Inconsistency>> {
        self.inner.inconsistencies()
    }

    /// The allocation table: runs of pages, and whether they are in use. Pages of the table itself count as used.
    pub fn dump(&self) -> Vec<(Range<PageId>, bool)> {
        let table = self.inner.allocation.lock();
        let mut runs: Vec<(Range<PageId>, bool)> = Vec::new();
        for page in 0..table.pages() {
            let used = table.is_in_use(page);
            match runs.last_mut() {
                Some((run, was)) if *was == used => run.end = page + 1,
                _ => runs.push((page..page + 1, used)),
            }
        }
        runs
    }

    /// The figures so far.
    pub fn statistics(&self) -> Statistics {
        let (pages, in_use) = {
            let table = self.inner.allocation.lock();
            (table.pages(), table.in_use())
        };
        let counters = &self.inner.counters;
        Statistics {
            pool: self.inner.pool.statistics(),
            pages,
            in_use,
            checkpoints: counters.checkpoints.load(Ordering::Relaxed),
            cleaned: counters.pages.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.inner.pool.page_bytes()
    }

    /// The data file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The pages in use that are not the table's.
    pub fn extents(&self) -> Extents {
        let table = self.inner.allocation.lock();
        (0..table.pages()).filter(|page| table.is_in_use(*page) && !table.is_protected(*page)).collect()
    }

    #[cfg(test)]
    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A caller that wants the error calls `close`.
        let _ = self.end();
    }
}

impl Pages for Database {
    type Guard<'a> = Pinned<'a>;

    fn page_bytes(&self) -> usize {
        self.inner.pool.page_bytes()
    }

    #[inline]
    fn page(&self, page: u64) -> pages::Result<Pinned<'_>> {
        self.pin(page).map_err(pages::Error::pages)
    }

    fn room_ahead(&self) -> usize {
        self.inner.pool.room_ahead()
    }

    fn read_ahead(&self, pages: &[u64]) {
        self.inner.pool.read_ahead(pages);
    }

    fn nodes(&self) -> usize {
        self.inner.pool.nodes()
    }

    fn node_of(&self, page: u64) -> usize {
        self.inner.pool.node_of(page)
    }
}

impl PagesMut for Database {
    fn allocate(&self, count: u64) -> pages::Result<Extents> {
        let most = pages_per_group(self.page_bytes()) - 1;
        let allocate = || -> Result<Extents> {
            let unit = self.unit()?;
            // Pages that cannot be numbered fail here, and not when the disk is full.
            if count > MOST_PAGES - self.inner.allocation.lock().pages() {
                return Err(Error::TooLarge { path: self.inner.path.clone(), pages: count });
            }
            let mut extents = Extents::new();
            while extents.len() < count {
                let run = most.min(count - extents.len());
                match unit.reserve(run) {
                    Ok(first) => extents.push_range(first..first + run),
                    Err(error) => {
                        extents.ranges().iter().cloned().flatten().try_for_each(|page| unit.release(page))?;
                        return Err(error);
                    }
                }
            }
            Ok(extents)
        };
        allocate().map_err(pages::Error::pages)
    }

    fn update(&self, page: u64, change: &mut dyn FnMut(&mut [u8])) -> pages::Result<()> {
        let mut update = || -> Result<()> {
            change(&mut self.unit()?.pin_mut(page)?);
            Ok(())
        };
        update().map_err(pages::Error::pages)
    }
}
