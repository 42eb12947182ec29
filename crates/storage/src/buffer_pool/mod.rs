//! The buffer pool: pages of one file in a bounded memory, shared by threads and fibers.
//!
//! # Why
//! A device of a gigabyte has pages for many and memory for few. A hit costs one compare-and-swap. A miss costs one
//! read, however many threads want the page. A change costs no write until many pages are written together.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the pool: pin, change, forget, clean |
//! | `miss` | the slow path: reading, waiting, reading ahead |
//! | `guard` | pinned pages |
//! | `advisor` | the questions of a pool to a planner of readahead |
//! | `shared` | the part of a pool that reads under way keep alive: frames, words, partitions and counters |
//! | `check` | checks of the invariants, for tests |
//!
//! The rooms below are `page_state` (the word of a page), `frames` (the memory) and
//! [`budget`](crate::budget). A pool of pages by address is a [`MappedPool`](crate::mapped_pool::MappedPool).
//!
//! # What it promises
//! 1. A pinned page is not evicted, and its bytes do not change. A page that is pinned for writing has no other pin.
//!    Guards unpin their page when they are dropped.
//! 2. A hit takes no lock. A page is read once, however many want it at the same time; a fiber that waits leaves its
//!    thread to others. A failed read is an error for the threads that asked for the page, and for no other.
//! 3. Frames are one contiguous range with 128 readable bytes behind the last. A page belongs to partition *number /
//!    run mod partitions* (see [`Config::run_pages`]), whose frames lie on one memory node. A partition without a free
//!    frame borrows one.
//! 4. A pool without a frame to give answers an error and does not hang. The error names the reason: all pinned, or all
//!    dirty.
//! 5. Pages are read ahead as [`Detector`] says, through the I/O queue, which merges
//!    adjacent ones; at most half of the frames at a time.
//!
//! 6. With a [`Budget`], frames get their memory as they are needed, and lose it when others need it more.
//!
//! # What it does not do
//! Write. A dirty page stays until its owner has cleaned or dropped it ([`Pool::forget`]). The owner decides where and
//! when it is written: that is a matter of durability.
//!
//! # Invariants
//! 1. A frame is free, or named by the state of exactly the page that its partition says.
//! 2. A page has a slot in `reading` exactly while its state says that it is being read.
//! 3. The lock of a page's partition is taken before that of another partition, which is only tried. The detector's
//!    lock is taken under neither.

mod advisor;
mod check;
mod guard;
mod miss;
mod shared;
#[cfg(test)]
pub(crate) mod tests;

pub use advisor::{Advisor, Resident};
pub use guard::{Cleaning, Pinned, PinnedMut};

use crate::budget::Budget;
use crate::file::File;
use crate::frames::partition::Partition;
use crate::frames::{Frames, NoMemory};
use crate::io::Backoff;
use crate::io::IoQueue;
use crate::numa::Topology;
use crate::page_state::table::Table;
use crate::page_state::{Forgotten, Found, PageState};
use crate::prefetch::{self, Detector};
use crate::sync::Mutex;

use miss::LOOKS_FOR_A_FRAME;
use shared::{Shared, portion};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Frames in any case.
pub const FEWEST_FRAMES: usize = 16;

/// The parameters of a pool.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Frames.
    pub frames: usize,
    /// Partitions; as many as there are frames at most.
    pub partitions: usize,
    /// Most pages the file can have.
    pub most_pages: u64,
    /// Adjacent pages that belong to one partition. With 1, the threads of a parallel scan meet least; with more, pages
    /// that are read together lie together in memory.
    pub run_pages: u64,
    /// True if pages are read ahead.
    pub prefetch: bool,
    /// The source of the memory; without a budget, all frames have memory from the beginning.
    pub budget: Option<Arc<Budget>>,
    /// The memory nodes that the partitions are spread over.
    pub topology: Topology,
}

/// Says which pages may be read ahead.
pub type Readable = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// Says where a page is read from now, if not from the pool's file.
pub type Source = Box<dyn Fn(u64) -> Option<Arc<dyn File>> + Send + Sync>;

/// Result of an operation on a pool.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons for which a page cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No memory for the frames.
    #[error("no memory for {bytes} bytes of pages: {why}; ask for less")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// The system's answer.
        why: std::io::Error,
    },
    /// Every frame is pinned.
    #[error("every page in memory is pinned; unpin of some, or use more memory ({frames} pages now)")]
    AllPinned {
        /// Frames there are.
        frames: usize,
    },
    /// Every frame that is not pinned is dirty.
    #[error(
        "every page in memory is held or was changed; clean some, or use more memory ({frames} pages now)"
    )]
    AllDirty {
        /// Frames there are.
        frames: usize,
    },
    /// The read of a page failed.
    #[error("page {page} cannot be read: {why}")]
    Read {
        /// The page.
        page: u64,
        /// The medium's answer.
        why: String,
    },
    /// The page stayed pinned for the whole wait.
    #[error("page {page} did not become free in {waited:?}; does this thread hold it itself?")]
    Waited {
        /// The page.
        page: u64,
        /// The time waited.
        waited: Duration,
    },
    /// The page is pinned.
    #[error("page {page} is pinned; unpin of it first")]
    Pinned {
        /// The page.
        page: u64,
    },
    /// A page beyond the most the file can have.
    #[error("there is no page {page}")]
    NoSuchPage {
        /// The page.
        page: u64,
    },
}

impl From<NoMemory> for Error {
    fn from(NoMemory { bytes, why }: NoMemory) -> Error {
        Error::Memory { bytes, why }
    }
}

/// Figures of a pool: its work so far, and its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Pages that had to be read, and waited for.
    pub missed: u64,
    /// Pages read ahead.
    pub ahead: u64,
    /// Pages read ahead that were wanted then.
    pub ahead_used: u64,
    /// Pages that gave their frame to another.
    pub evicted: u64,
    /// Frames.
    pub frames: u64,
    /// Free frames.
    pub free: u64,
    /// Pages that are newer than on the medium.
    pub dirty: u64,
    /// Pinned pages.
    pub pinned: u64,
    /// Partitions for whose frames the system did not take the wish for a memory node.
    pub refused_partitions: u64,
}

/// A buffer pool over a file.
pub struct Pool {
    file: Arc<dyn File>,
    io: Arc<IoQueue>,
    readable: Readable,
    source: Option<Source>,
    pub(crate) shared: Arc<Shared>,
}

impl Pool {
    /// A pool of pages of `file`; `readable` says which of them may be read ahead.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn new(file: Arc<dyn File>, io: Arc<IoQueue>, config: &Config, readable: Readable) -> Result<Pool> {
        let count = config.frames.clamp(FEWEST_FRAMES, 1 << 31);
        let partitions = config.partitions.clamp(1, count);
        let frames = Frames::new(count, config.page_bytes)?;
        let range = |part: usize| part * count / partitions..(part + 1) * count / partitions;
        let refused = |part: &usize| {
            let node = config.topology.node_of(*part);
            node.is_some_and(|node| frames.prefer(range(*part), node).is_err())
        };
        let refused_partitions = (0..partitions).filter(refused).count() as u64;
        let mut ahead = prefetch::Config::for_page_bytes(config.page_bytes);
        // Pages read ahead must not evict those read ahead before them.
        ahead.longest_window = ahead.longest_window.min((count / 4) as u32);
        ahead.first_window = ahead.first_window.min(ahead.longest_window);
        let detector = Mutex::new(config.prefetch.then(|| Detector::new(ahead)));
        let mut parts: Vec<Partition> = (0..partitions).map(|part| Partition::new(range(part))).collect();
        if config.budget.is_none() {
            parts.iter_mut().for_each(|part| part.populate(count));
        }
        let shared = Arc::new(Shared {
            page_bytes: config.page_bytes,
            frames,
            table: Table::new(config.most_pages),
            partitions: parts.into_iter().map(Mutex::new).collect(),
            detector,
            count,
            run_pages: config.run_pages.max(1),
            nodes: config.topology.nodes(),
            refused_partitions,
            populated: AtomicUsize::new(if config.budget.is_none() { count } else { 0 }),
            portion: portion(config),
            budget: config.budget.clone(),
            pages: AtomicU64::new(0),
            ahead_on_their_way: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            stale: AtomicBool::new(false),
            cleaning: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            ahead_used: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        });
        if config.budget.is_none() && count >= shared.large() {
            shared.frames.ask_for_large_pages();
        }
        if let Some(budget) = &config.budget {
            let member: std::sync::Weak<Shared> = Arc::downgrade(&shared);
            budget.join(member);
        }
        Ok(Pool { file, io, readable, source: None, shared })
    }

    /// Reads pages from where `source` says, which is asked for each of them when its read begins.
    #[must_use]
    pub fn with_source(self, source: Source) -> Pool {
        Pool { source: Some(source), ..self }
    }

    /// The file has so many pages now.
    pub fn set_pages(&self, pages: u64) {
        self.shared.table.grow(pages);
        self.shared.pages.store(pages, Ordering::Release);
    }

    /// Pages of the file.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.shared.pages.load(Ordering::Acquire)
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    /// The memory node of a page, counted from 0; 0 where there is one only.
    pub fn node_of(&self, page: u64) -> usize {
        self.shared.partition_of(page) % self.shared.nodes
    }

    /// Memory nodes that the pages are spread over.
    pub fn nodes(&self) -> usize {
        self.shared.nodes
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Frames there are.
    pub fn frames(&self) -> usize {
        self.shared.count
    }

    /// Pages that a caller may have read ahead and not wanted yet, without taking the frames of one another; 0 where the
    /// pool does not read ahead.
    pub fn room_ahead(&self) -> usize {
        if self.shared.detector.lock().is_some() { self.shared.count / 4 } else { 0 }
    }

    /// Frames that have memory.
    #[inline]
    pub fn populated(&self) -> usize {
        self.shared.populated.load(Ordering::Relaxed)
    }

    /// Pages that are newer than on the medium.
    pub fn dirty(&self) -> usize {
        self.shared.dirty.load(Ordering::Relaxed)
    }

    /// The figures that take no look at the pages.
    pub fn counts(&self) -> Statistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &*self.shared;
        Statistics {
            missed: load(&shared.missed),
            ahead: load(&shared.ahead),
            ahead_used: load(&shared.ahead_used),
            evicted: load(&shared.evicted),
            dirty: self.dirty() as u64,
            frames: shared.populated.load(Ordering::Relaxed) as u64,
            refused_partitions: shared.refused_partitions,
            ..Statistics::default()
        }
    }

    /// All figures.
    pub fn statistics(&self) -> Statistics {
        let shared = &*self.shared;
        let mut statistics = self.counts();
        for partition in &shared.partitions {
            let partition = partition.lock();
            statistics.free += partition.free() as u64;
            let is_pinned = |page| shared.table.of(page).is_some_and(|state| state.pins() > 0);
            statistics.pinned += partition.pages().filter(|page| is_pinned(*page)).count() as u64;
        }
        statistics
    }

    /// Pins a page that is in memory and not being written: without any lock.
    #[inline]
    pub fn try_pin(&self, page: u64) -> Option<Pinned<'_>> {
        let state = self.shared.table.of(page)?;
        state.pin().map(|frame| Pinned::of(self, frame, state))
    }

    /// Pins a page.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::AllPinned`], [`Error::AllDirty`], [`Error::Waited`].
    #[inline]
    pub fn pin(&self, page: u64) -> Result<Pinned<'_>> {
        match self.try_pin(page) {
            Some(pinned) => Ok(pinned),
            None => self.pin_slowly(page, self.state(page)?),
        }
    }

    /// Pins a page alone, to change it; the page is dirty from now on.
    ///
    /// # Errors
    /// As [`Pool::pin`].
    pub fn pin_mut(&self, page: u64) -> Result<PinnedMut<'_>> {
        let state = self.state(page)?;
        let mut backoff = Backoff::default();
        loop {
            if let Some((frame, was_clean)) = self.take(state) {
                return Ok(PinnedMut::of(self, frame, state, was_clean));
            }
            match state.look() {
                Found::Empty | Found::Reading => drop(self.pin_slowly(page, state)?),
                Found::Ready(_) | Found::Writing | Found::Latched => self.pause(page, &mut backoff)?,
            }
        }
    }

    /// Pins a page alone, filled with zeros: its bytes on the medium do not matter.
    ///
    /// # Errors
    /// As [`Pool::pin`], but for [`Error::Read`].
    pub fn pin_new(&self, page: u64) -> Result<PinnedMut<'_>> {
        let state = self.state(page)?;
        let mut backoff = Backoff::default();
        let mut full = 0;
        let (frame, was_clean) = loop {
            if let Some(taken) = self.take(state) {
                break taken;
            }
            if state.look() == Found::Empty {
                match self.begin_new(page, state) {
                    Ok(Some(frame)) => break (frame, true),
                    Err(error) if full + 1 >= LOOKS_FOR_A_FRAME => return Err(error),
                    looked => full = if looked.is_err() { full + 1 } else { 0 },
                }
            }
            self.pause(page, &mut backoff)?;
        };
        let mut pinned = PinnedMut::of(self, frame, state, was_clean);
        pinned.fill(0);
        Ok(pinned)
    }

    /// Takes a page out of memory, dirty or not. Waits for its read, or its cleaning, to end.
    ///
    /// # Errors
    /// [`Error::Pinned`] where the page is pinned.
    pub fn forget(&self, page: u64) -> Result<()> {
        self.forget_under(page, || ())
    }

    /// The same under a lock of the caller, which is answered: its next holder finds the page gone. The lock is free
    /// while this waits, and is taken under no lock of the pool.
    pub fn forget_under<L>(&self, page: u64, lock: impl Fn() -> L) -> Result<L> {
        let state = self.state(page)?;
        let mut backoff = Backoff::default();
        loop {
            let locked = lock();
            match state.forget() {
                Forgotten::Empty => return Ok(locked),
                Forgotten::Pinned => return Err(Error::Pinned { page }),
                Forgotten::Busy => {}
                Forgotten::Frame(frame, dirty) => {
                    if dirty {
                        self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
                    }
                    self.shared.give_back(frame);
                    return Ok(locked);
                }
            }
            drop(locked);
            self.pause(page, &mut backoff)?;
        }
    }

    /// Takes a clean page out of memory, unless the page is pinned.
    pub fn forget_clean(&self, page: u64) {
        if let Some(Forgotten::Frame(frame, _)) = self.shared.table.of(page).map(PageState::forget_clean) {
            self.shared.give_back(frame);
        }
    }

    /// Takes a page out of memory together with what was written.
    pub fn discard(&self, pinned: PinnedMut<'_>) {
        let frame = pinned.into_state().discard();
        self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
        self.shared.give_back(frame);
    }

    /// All dirty pages, in order: of the cleaner, and clean unless the cleaning fails. No thread may write pages
    /// meanwhile.
    pub fn clean(&self) -> Vec<Cleaning<'_>> {
        let mut all = Vec::new();
        for page in self.shared.in_frames() {
            let Some(state) = self.shared.table.of(page) else { continue };
            if let Some(frame) = state.clean() {
                // In this order: a thread that finds no dirty page finds this one being cleaned.
                self.shared.cleaning.fetch_add(1, Ordering::Relaxed);
                self.shared.dirty.fetch_sub(1, Ordering::Release);
                all.push(Cleaning::of(self, page, frame, state));
            }
        }
        all
    }

    /// The pages in memory that were pinned since their read.
    pub fn resident(&self) -> Vec<u64> {
        let mut pages = self.shared.in_frames();
        pages.retain(|page| self.shared.table.of(*page).is_some_and(PageState::is_wanted));
        pages
    }

    #[inline]
    pub(crate) fn state(&self, page: u64) -> Result<&PageState> {
        // The count first: those below it have their words.
        let state = (page < self.pages()).then(|| self.shared.table.of(page)).flatten();
        state.ok_or(Error::NoSuchPage { page })
    }

    /// Takes a ready page without pins, for a writer. Answers whether it was clean before.
    fn take(&self, state: &PageState) -> Option<(u32, bool)> {
        let (frame, was_clean) = state.write()?;
        self.shared.dirty.fetch_add(usize::from(was_clean), Ordering::Relaxed);
        Some((frame, was_clean))
    }

    /// Waits a little for page `page` to become free.
    pub(crate) fn pause(&self, page: u64, backoff: &mut Backoff) -> Result<()> {
        backoff.pause().map_err(|waited| Error::Waited { page, waited })
    }
}
