//! The pages of a database in memory: one buffer pool for all its connections.
//!
//! # Why
//! SQLite's page cache belongs to one connection: sixteen of them hold sixteen copies, and every miss is a system call.
//! Its memory-map hooks (`xFetch`, `xUnfetch`) ask for the address of a page, and say when SQLite has done with it: pin
//! and unpin.
//!
//! # What it promises
//! 1. Of every page in it, the pool has the newest committed version, which a reader that starts now would see. That
//!    version may be in the database file or still in the redo log.
//! 2. Nothing here fails where SQLite could go on: where no page can be had, it reads the file.
//! 3. Nobody who writes waits for a page that somebody looks at.
//! 4. The last close of a database ends its reads ahead ([`Pages::end_reads`]): none keeps the file open. Else the next opening
//!    would meet this one as if it were another process.
//!
//! # How it stays true
//! - SQLite's writes in place (a checkpoint, a rollback, a transaction by its own protocol) pass [`Pages::write`]. The
//!   pages are latched, written, and changed in memory.
//! - [`Pages::committed`] puts the dirty pages of a transaction into the pool, after they are in the redo log and
//!   before its lock is dropped. Until then nobody may read, so nobody sees the old pages; a read ahead that was under
//!   way is waited for and overtaken.
//! - Copying from the redo log to the database file changes nothing that a reader sees, and the pool is not told.
//! - A pinned page that should be changed or evicted, and cannot be, makes the pool be dropped. Connections pin pages
//!   for themselves (`pin_cache`) while they read nothing.
//! - The pool lives only while this process owns the database, and pages of another size need another pool.
//!
//! # Locks
//! Reads of the pool take the redo log's lock. So nobody waits for the pool who has that.

use crate::cache::PageSource;
use crate::cache::pool_policy::{full_file_pages, most_cached_pins, reads_past_cache};
use crate::error::{Error, Result};
use crate::memory::process_budget::{BudgetShare, free_memory};
use crate::options::Direct;
use crate::readahead;
use crate::readahead::{FullFileMode, Memory, ReadAhead};
use crate::stats::{Stats, StatsPage};
use litefoot_storage::buffer_pool::{self, Advisor, Config, Pool, Resident};
use litefoot_storage::file::{self, File};
use litefoot_storage::mapped_pool::{MappedPool, PagePlace, shown};
use litefoot_storage::numa::Topology;
use litefoot_storage::pass_on;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Parts of the pool that lock by themselves.
const PARTITIONS: usize = 4;
/// Adjacent pages that lie together in memory where they can.
const RUN_PAGES: u64 = 128;
/// References to a file of the pool's that are no reads: the pool's own, and that of [`Pages`].
const HOLDERS: usize = 2;
/// The time between two looks for reads that are under way.
const GLANCE: Duration = Duration::from_micros(50);
/// Bytes that the system reads ahead where nothing is gained by telling it of more.
const FAR_ENOUGH: u64 = 1 << 20;
/// Where page 1 says how many bytes at the end of each page b-trees leave alone (file format, section 1.3.4).
const RESERVED_BYTES: usize = 20;
/// Most pages SQLite can have.
const MOST_PAGES: u64 = 0xffff_fffe;

/// The setup of a pool.
pub struct Setup<'a, S> {
    /// The database file.
    pub file: &'a Arc<dyn File>,
    /// The redo log of its rollback-journal transactions.
    pub log: &'a Arc<S>,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Length of the database.
    pub len: u64,
    /// The option for reads past the system's cache.
    pub direct: Direct,
    /// The figures of the database.
    pub(crate) stats: &'a Arc<StatsPage>,
}

/// The pool of one database.
pub struct Pages {
    pool: MappedPool,
    shift: u32,
    direct: bool,
    /// The file where reads pass the system's cache, and when it is swept.
    file: Arc<dyn File>,
    /// The files that the pool reads: its reads under way hold them, and nobody else but the pool.
    read_files: [Arc<dyn File>; 2],
    full_file_mode: FullFileMode,
    system_reads_ahead: bool,
    stats: Arc<StatsPage>,
    share: Arc<BudgetShare>,
    /// Pages that connections hold for themselves.
    kept: AtomicU64,
    /// In how many requests one finds nothing, for tests; 0 for none.
    refuses_one_in: AtomicU64,
    requests: AtomicU64,
    /// How many calls from now on one panics, for tests; 0 for none.
    panics_in: AtomicU64,
}

impl Pages {
    /// A pool over a database; `None` where there can be none.
    pub fn new<S: PageSource>(share: &Arc<BudgetShare>, setup: &Setup<'_, S>) -> Option<Pages> {
        let free = free_memory();
        let direct = past_cache(setup, free);
        let config = Config {
            page_bytes: setup.page_bytes,
            frames: share.bytes() / setup.page_bytes,
            partitions: PARTITIONS,
            most_pages: MOST_PAGES,
            topology: Topology::of_machine(),
            run_pages: RUN_PAGES,
            prefetch: false,
            budget: Some(share.budget().clone()),
        };
        let (file, log) = (setup.file.clone(), setup.log.clone());
        let newest: Arc<dyn File> = Arc::new(Newest { file: file.clone(), log: log.clone() });
        // Page 1 may be newer than the log says.
        let read: Arc<dyn File> = Arc::new(ReadFile(direct.clone().unwrap_or(file)));
        let read_files = [read.clone(), newest.clone()];
        let in_log = move |page: u64| log.is_live() && (page == 0 || log.contains(page as u32 + 1));
        let is_direct = direct.is_some();
        let full_file_mode = if is_direct { FullFileMode::Never } else { full_file_mode(setup, free) };
        let pool = Pool::new(read, share.io().clone(), &config, Box::new(|_| true))
            .ok()?
            .with_source(Box::new(move |page| in_log(page).then(|| newest.clone())));
        let pool = MappedPool::new(pool);
        pool.set_pages(setup.len / setup.page_bytes as u64);
        Some(Pages {
            pool,
            shift: setup.page_bytes.trailing_zeros(),
            direct: is_direct,
            full_file_mode,
            system_reads_ahead: !is_direct && setup.file.own_read_ahead() >= FAR_ENOUGH,
            file: setup.file.clone(),
            read_files,
            stats: setup.stats.clone(),
            share: share.clone(),
            kept: AtomicU64::new(0),
            refuses_one_in: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            panics_in: AtomicU64::new(0),
        })
    }

    /// From now on one in so many requests finds no page, as if every frame were held; 0 for none. Builds for release
    /// do not.
    #[doc(hidden)]
    pub fn refuse(&self, one_in: u64) {
        self.refuses_one_in.store(one_in, Ordering::Relaxed);
    }

    /// True if this request is one of these.
    #[inline]
    pub fn refuses(&self) -> bool {
        if !cfg!(debug_assertions) {
            return false;
        }
        match self.refuses_one_in.load(Ordering::Relaxed) {
            0 => false,
            // Not every n-th: SQLite asks again by another way.
            n => {
                let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
                request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff < 0x1_0000 / n
            }
        }
    }

    /// The so-manyth call from now on that asks for an address, or gives one back, panics. Builds for release do not.
    #[doc(hidden)]
    pub fn panic_in(&self, calls: u64) {
        self.panics_in.store(calls, Ordering::Relaxed);
    }

    /// Such a call.
    #[inline]
    pub fn count_towards_panic(&self) {
        if cfg!(debug_assertions) && self.panics_in.load(Ordering::Relaxed) > 0 {
            assert_ne!(self.panics_in.fetch_sub(1, Ordering::Relaxed), 1, "on purpose");
        }
    }

    /// The pages in memory that are not what was committed last, and what else is wrong.
    #[doc(hidden)]
    pub fn differences(&self, read: impl Fn(&mut [u8], u64) -> bool) -> Vec<(u64, String)> {
        self.pool.differences(|page, bytes| read(bytes, page << self.shift))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        1 << self.shift
    }

    /// Brings the figures of the database up to date.
    pub fn note(&self) {
        let stats = &self.stats;
        let counts = self.pool.counts();
        let budget = self.share.budget();
        for (place, value) in [
            (&stats.pool_misses, counts.missed),
            (&stats.pool_evictions, counts.evicted),
            (&stats.pool_prefetched, counts.ahead),
            (&stats.pool_prefetched_used, counts.ahead_used),
            (&stats.pool_bytes, counts.frames * self.page_bytes() as u64),
            (&stats.pool_limit_bytes, self.share.bytes() as u64),
            (&stats.pool_process_bytes, budget.used() as u64),
            (&stats.pool_direct, u64::from(self.direct)),
        ] {
            Stats::set(place, value);
        }
    }

    /// The pool, for tests.
    #[doc(hidden)]
    pub fn pool(&self) -> &MappedPool {
        &self.pool
    }

    /// One who decides what to read ahead for a connection.
    pub fn read_ahead(&self) -> ReadAhead {
        let mut reserved = 0;
        self.pool.peek(0, &mut |page| reserved = page[RESERVED_BYTES].into());
        let pages = self.share.bytes() / self.page_bytes();
        ReadAhead::new(readahead::Config {
            usable_bytes: self.page_bytes() as u32 - reserved,
            memory_pages: u32::try_from(pages).unwrap_or(u32::MAX),
            full_file_mode: self.full_file_mode,
            system_reads_ahead: self.system_reads_ahead,
        })
    }

    /// The page that lies at an offset, where that is one whole page and not the first, which SQLite never maps.
    #[inline]
    pub fn whole_page(&self, offset: u64, bytes: usize) -> Option<u64> {
        let page = offset >> self.shift;
        let is_page = bytes == self.page_bytes() && page << self.shift == offset && page > 0;
        (is_page && !self.refuses()).then_some(page)
    }

    /// Bytes of a page, as a power of two.
    #[inline]
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The page that so many bytes at an offset lie in, where that is one that the pool has.
    #[inline]
    pub fn page_of(&self, offset: u64, bytes: usize) -> Option<u64> {
        let (page, inside) = (offset >> self.shift, offset as usize & (self.page_bytes() - 1));
        let is_inside = inside + bytes <= self.page_bytes() && page < self.pool.pages();
        (is_inside && !self.refuses()).then_some(page)
    }

    /// Copies from a page whatever lies there at an offset of the file.
    ///
    /// # Safety
    /// The page is held, and has as many bytes from there on. Where it changes meanwhile, SQLite's locks see to it that
    /// nobody believes what was read.
    #[inline]
    pub unsafe fn copy(&self, address: NonNull<u8>, offset: u64, buf: &mut [u8]) {
        let inside = offset as usize & (self.page_bytes() - 1);
        // SAFETY: by contract.
        unsafe {
            shown::load(address.as_ptr().add(inside), buf);
        }
    }

    /// The address of a page that is in memory. It stays until [`Pages::unpin`].
    #[inline]
    pub fn try_map(&self, page: u64) -> Option<(NonNull<u8>, PagePlace)> {
        self.pool.try_map_at(page)
    }

    /// The address of a page; `None` where it cannot be had.
    pub fn map(&self, page: u64, advisor: &mut dyn Advisor) -> Option<NonNull<u8>> {
        let address = self.pool.map(page, advisor).ok();
        self.note();
        address
    }

    /// Asks the system for what a connection wants it to have in its cache.
    pub fn sweep(&self, ahead: &mut ReadAhead) {
        let count = u32::try_from(self.pool.pages()).unwrap_or(u32::MAX);
        while let Some(pages) = ahead.next_full_file_range(count) {
            let offset = u64::from(pages.start - 1) << self.shift;
            self.file.read_ahead(offset, (pages.len() as u64) << self.shift);
        }
    }

    /// Ends the reads ahead, so that none of them keeps the file open: those that nobody has begun are not made. For the last
    /// close of a database.
    pub fn end_reads(&self) {
        for file in &self.read_files {
            self.share.io().cancel(file);
            while Arc::strong_count(file) > HOLDERS {
                std::thread::sleep(GLANCE);
            }
        }
    }

    /// So many pages more are looked at than before.
    pub fn count(&self, pinned: i64) {
        self.stats.pool_pinned.fetch_add(pinned as u64, Ordering::Relaxed);
    }

    /// True if a page more may be held that nobody looks at.
    #[inline]
    pub fn may_cache_pin(&self) -> bool {
        self.cached_pins() < most_cached_pins(self.pool.populated())
    }

    /// True if too many are: there is less memory than there was.
    pub fn pins_too_much(&self) -> bool {
        self.cached_pins() > 2 * most_cached_pins(self.pool.populated())
    }

    /// So many pages more are held that nobody looks at, or that SQLite was lent although it does not hold them.
    pub fn count_cached_pins(&self, more: i64) {
        self.kept.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Pages that connections hold for themselves.
    #[doc(hidden)]
    #[inline]
    pub fn cached_pins(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// True if a page in memory is not what it should be: the pool must be dropped.
    pub fn is_stale(&self) -> bool {
        self.pool.is_stale()
    }

    /// A page is not looked at any more.
    ///
    /// # Safety
    /// The caller has its address from [`Pages::map`] or [`Pages::try_map`].
    #[inline]
    pub unsafe fn unpin(&self, page: u64) {
        // SAFETY: by contract.
        unsafe { self.pool.unpin(page) }
    }

    /// The same where the state of the page is known.
    ///
    /// # Safety
    /// As for [`Pages::unpin`]; the place is the page's, and this pool's.
    #[inline]
    pub unsafe fn unpin_at(&self, place: PagePlace) {
        // SAFETY: by contract.
        unsafe { self.pool.unpin_at(place) }
    }

    /// Reads a part of one page; answers whether it was in memory, `None` where the pool cannot serve that.
    pub fn read(&self, buf: &mut [u8], offset: u64, advisor: &mut dyn Advisor) -> Option<bool> {
        let page = self.page_of(offset, buf.len())?;
        let found = self.pool.try_map(page);
        let address = match found {
            Some(address) => address,
            None => self.map(page, advisor)?,
        };
        // SAFETY: the page is held until it was copied, and the part lies inside of it.
        unsafe {
            self.copy(address, offset, buf);
            self.pool.unpin(page);
        }
        Some(found.is_some())
    }

    /// Changes the database file at an offset by `write`, and then the pages in memory.
    pub fn write(&self, buf: &[u8], offset: u64, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let end = offset + buf.len() as u64;
        let pages = offset >> self.shift..(end + self.page_bytes() as u64 - 1) >> self.shift;
        self.pool.change(pages, write, |page, bytes| {
            let from = (page << self.shift).checked_sub(offset).map(|from| from as usize);
            let part = from.and_then(|from| buf.get(from..from + bytes.len()));
            part.is_some_and(|part| {
                bytes.copy_from_slice(part);
                true
            })
        })
    }

    /// A transaction that was held back is in the redo log: puts its pages into the pool, where they are in
    /// memory. The database has `len` bytes now. `read` reads what was committed.
    pub fn committed(
        &self,
        numbers: impl Iterator<Item = u32>,
        len: u64,
        read: impl Fn(&mut [u8], u64) -> bool,
    ) -> Result<()> {
        self.resize(len)?;
        for page in numbers.map(|number| u64::from(number) - 1).take_while(|page| *page < self.pool.pages()) {
            self.pool.change(
                page..page + 1,
                || Ok::<_, Error>(()),
                |page, bytes| read(bytes, page << self.shift),
            )?;
        }
        Ok(())
    }

    /// The database has `len` bytes now.
    pub fn resize(&self, len: u64) -> Result<()> {
        let pages = len >> self.shift;
        if pages < self.pool.pages() {
            self.pool.truncate(pages)?;
        } else {
            self.pool.set_pages(pages);
        }
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Nobody asks for these pages any more.
        self.read_files.iter().for_each(|file| self.share.io().cancel(file));
    }
}

impl From<buffer_pool::Error> for Error {
    fn from(error: buffer_pool::Error) -> Error {
        Error::Io(error.to_string())
    }
}

/// Asks one connection's [`ReadAhead`], whose pages are counted from 1.
pub struct Ahead<'a>(pub &'a mut ReadAhead);

impl Advisor for Ahead<'_> {
    fn wanted(&mut self, page: u64, memory: &Resident<'_>, ahead: &mut Vec<u64>) {
        let mut numbers = Vec::new();
        let pages = u32::try_from(memory.pages()).unwrap_or(u32::MAX);
        self.0.plan(page as u32 + 1, pages, &InPool(memory), &mut numbers);
        ahead.extend(numbers.into_iter().map(|number| u64::from(number) - 1));
    }
}

/// The pages in memory, counted from 1.
struct InPool<'a>(&'a Resident<'a>);

impl Memory for InPool<'_> {
    fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool {
        self.0.peek(u64::from(page).wrapping_sub(1), look)
    }

    fn holds(&self, page: u32) -> bool {
        self.0.has(u64::from(page).wrapping_sub(1))
    }
}

/// The file past the system's cache, where reads are to go there.
fn past_cache<S>(setup: &Setup<'_, S>, free: Option<usize>) -> Option<Arc<dyn File>> {
    reads_past_cache(setup.direct, setup.page_bytes, setup.len, free)
        .then(|| setup.file.past_cache())
        .flatten()
}

/// When the whole file is read ahead: where the system has memory for it. Not for a clock where time is not the system's.
fn full_file_mode<S>(setup: &Setup<'_, S>, free: Option<usize>) -> FullFileMode {
    if setup.file.raw_descriptor().is_none() {
        return FullFileMode::Always;
    }
    FullFileMode::UpTo(full_file_pages(setup.page_bytes, free))
}

/// The database file, as the pool's reads have it.
struct ReadFile(Arc<dyn File>);

impl File for ReadFile {
    pass_on!(0: read_at, read_vectored_at, read_cached_at, write_vectored_at, write_durable_at, sync, stamp, set_stamp, read_ahead, len, set_len, allocate, id, path, lock_range);

    fn raw_descriptor(&self) -> Option<RawFd> {
        self.0.raw_descriptor()
    }

    fn reads_ahead(&self) -> bool {
        self.0.reads_ahead()
    }
}

/// The database as it was committed last: pages of the redo log, and else of the file.
struct Newest<S> {
    file: Arc<dyn File>,
    log: Arc<S>,
}

impl<S: PageSource> File for Newest<S> {
    pass_on!(file: write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path, lock_range);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        self.log.read(&*self.file, buf, offset)
    }
}
