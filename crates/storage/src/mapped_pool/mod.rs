//! Pages by address, as if their file were mapped, and writes beneath them.
//!
//! # Why
//! SQLite takes the address of a page, and says later that it has done with it. A writer of the file does not wait for
//! that: the file behaves as if it were mapped. A guard promises bytes that do not change, and cannot be used like
//! that. So a pool has either guards or addresses, and its type says which.
//!
//! # What it promises
//! 1. [`MappedPool::map`] is [`Pool::pin`] without a guard.
//! 2. Under [`MappedPool::change`] no thread reads the pages from the medium, and no thread pins them anew. After it,
//!    every new pin sees the new bytes, also of pages that were read ahead before. It waits for reads that are under
//!    way, and for no pin.
//! 3. After [`MappedPool::truncate`] only pinned pages behind the end are still in memory. They are zeros, as the file
//!    would be if it grew again.

pub mod shown;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use crate::frames::show_read_only;

use crate::buffer_pool::{Advisor, Error, Pool, Resident, Result, Statistics};
use crate::file::File;
use crate::io::Backoff;
use crate::page_state::{Latched, PageState};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The address of a page's state, so that the holder of a pin need not look it up again.
#[derive(Clone, Copy, Debug)]
pub struct PagePlace(NonNull<PageState>);

// SAFETY: a state may be used from any thread, and this is only its address.
unsafe impl Send for PagePlace {}
// SAFETY: as above.
unsafe impl Sync for PagePlace {}

impl PagePlace {
    /// The bare address.
    pub fn into_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    /// # Safety
    /// It comes from [`PagePlace::into_raw`].
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<()>) -> PagePlace {
        PagePlace(raw.cast())
    }

    /// True if no thread is changing the page, which the caller has pinned, and the page equals the file. If so, the
    /// bytes of the last change are seen.
    ///
    /// # Safety
    /// The pool that it is from is still there.
    #[inline]
    pub unsafe fn is_steady(self) -> bool {
        // SAFETY: states live as long as their pool, and do not move.
        unsafe { self.0.as_ref() }.is_steady()
    }
}

/// A pool that answers addresses, and whose pages may be changed while they are pinned.
///
/// It has no guards, which promise bytes that do not change:
///
/// ```compile_fail,E0599
/// fn guard(pool: &crate::mapped_pool::MappedPool) {
///     let page = pool.pin(1);
/// }
/// ```
///
/// And a pool with guards cannot be changed beneath them:
///
/// ```compile_fail,E0599
/// fn cut(pool: &crate::buffer_pool::Pool) {
///     let page = pool.pin(1);
///     pool.truncate(0);
/// }
/// ```
pub struct MappedPool(Pool);

impl MappedPool {
    /// Makes a pool answer addresses from now on.
    pub fn new(pool: Pool) -> MappedPool {
        MappedPool(pool)
    }

    /// The file has so many pages now.
    pub fn set_pages(&self, pages: u64) {
        self.0.set_pages(pages);
    }

    /// Pages of the file.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.0.pages()
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.0.page_bytes()
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn File> {
        self.0.file()
    }

    /// Frames that have memory.
    #[inline]
    pub fn populated(&self) -> usize {
        self.0.populated()
    }

    /// The figures that take no look at the pages.
    pub fn counts(&self) -> Statistics {
        self.0.counts()
    }

    /// All figures.
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    /// Pinned pages.
    #[doc(hidden)]
    pub fn pins(&self) -> u64 {
        self.0.pins()
    }

    /// True while a page is on its way into memory.
    #[doc(hidden)]
    pub fn is_reading(&self) -> bool {
        self.0.is_reading()
    }

    /// The pages in memory that differ from `read`, and all other faults. No thread may change pages meanwhile.
    #[doc(hidden)]
    pub fn differences(&self, read: impl Fn(u64, &mut [u8]) -> bool) -> Vec<(u64, String)> {
        self.0.differences(read)
    }

    #[cfg(test)]
    pub(crate) fn inconsistencies(&self) -> Vec<(u64, String)> {
        self.0.inconsistencies()
    }

    /// Pins a page if it is in memory; answers its address. The caller unpins the page with [`MappedPool::unpin`].
    #[inline]
    pub fn try_map(&self, page: u64) -> Option<NonNull<u8>> {
        self.try_map_at(page).map(|(address, _)| address)
    }

    /// The same, and where its state lies.
    #[inline]
    pub fn try_map_at(&self, page: u64) -> Option<(NonNull<u8>, PagePlace)> {
        if page >= self.pages() {
            return None;
        }
        let state = self.0.shared.table.of(page)?;
        Some((self.0.shared.frames.shown(state.pin()?), PagePlace(NonNull::from(state))))
    }

    /// Pins a page; answers its address. The caller unpins the page with [`MappedPool::unpin`].
    ///
    /// # Errors
    /// As [`Pool::pin`].
    pub fn map(&self, page: u64, advisor: &mut dyn Advisor) -> Result<NonNull<u8>> {
        let state = self.0.state(page)?;
        let frame = self.0.frame_slowly(page, state, advisor)?;
        Ok(self.0.shared.frames.shown(frame))
    }

    /// Unpins a page that was mapped.
    ///
    /// # Safety
    /// The caller has pinned the page by [`MappedPool::map`] or [`MappedPool::try_map`], and does not look at it any
    /// more.
    #[inline]
    pub unsafe fn unpin(&self, page: u64) {
        if let Some(state) = self.0.shared.table.of(page) {
            state.unpin();
        }
    }

    /// The same where the state of the page is known.
    ///
    /// # Safety
    /// As for [`MappedPool::unpin`]; the place is the page's, and this pool's.
    #[inline]
    pub unsafe fn unpin_at(&self, place: PagePlace) {
        // SAFETY: states live as long as their pool, and do not move.
        unsafe { place.0.as_ref() }.unpin();
    }

    /// True once a page differs from the file, because it was pinned when it should have been changed or dropped. Zeros
    /// in place of bytes that were cut off count as such.
    pub fn is_stale(&self) -> bool {
        self.0.shared.stale.load(Ordering::Acquire)
    }

    /// Changes pages on the medium: calls `change`, and then `fill` for each of the pages in memory, to write all of
    /// its new bytes. Where `fill` answers `false`, or `change` failed, a page without pins is taken out of memory.
    ///
    /// # Errors
    /// Errors of `change`; [`Error::Waited`], and then nothing was changed.
    pub fn change<R, E: From<Error>>(
        &self,
        pages: Range<u64>,
        change: impl FnOnce() -> std::result::Result<R, E>,
        mut fill: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> std::result::Result<R, E> {
        // In order, so that two threads that change the same pages do not wait for each other.
        let mut latched: Vec<(u64, LatchedPage<'_>)> = Vec::new();
        for page in pages {
            // Behind the end nothing can be in memory, or come there, before the end is moved.
            let Some(state) = self.0.shared.table.of(page) else { break };
            latched.push((page, self.latch(page, state)?));
        }
        let result = change();
        let mut bytes = vec![0; if latched.is_empty() { 0 } else { self.0.shared.page_bytes }];
        for (page, latch) in latched {
            let Some((frame, _)) = latch.frame else { continue };
            if result.is_ok() && fill(page, &mut bytes) {
                self.put(frame, &bytes);
            } else {
                self.forget_latched(latch);
            }
        }
        result
    }

    /// The file ends after `pages` pages now, which are no more than before.
    ///
    /// # Errors
    /// [`Error::Waited`].
    pub fn truncate(&self, pages: u64) -> Result<()> {
        let before = self.pages();
        // First of all: no read behind the end begins from now on.
        self.0.shared.pages.store(pages, Ordering::Release);
        for page in self.0.shared.perhaps_in_memory(pages..before) {
            let Some(state) = self.0.shared.table.of(page) else { break };
            // Should one be waited for in vain, those behind it stay as they are.
            let latch = self
                .latch(page, state)
                .inspect_err(|_| self.0.shared.stale.store(true, Ordering::Release))?;
            match latch.frame {
                Some((frame, pins)) if pins > 0 => {
                    self.put(frame, &vec![0; self.0.shared.page_bytes]);
                    self.spoil(&latch);
                }
                Some(_) => self.forget_latched(latch),
                None => {}
            }
        }
        Ok(())
    }

    /// Shows the bytes of a page as [`Resident::peek`] does.
    pub fn peek(&self, page: u64, look: &mut dyn FnMut(&[u8])) -> bool {
        Resident(&self.0).peek(page, look)
    }

    /// Reads pages ahead, as far as there are frames for them.
    pub fn read_ahead(&self, pages: &[u64]) {
        self.0.read_ahead(pages);
    }

    fn latch<'a>(&self, page: u64, state: &'a PageState) -> Result<LatchedPage<'a>> {
        let mut backoff = Backoff::default();
        loop {
            let latched = {
                let _partition = self.0.shared.partition(page).lock();
                state.latch()
            };
            match latched {
                Latched::Absent => return Ok(LatchedPage { state, frame: None }),
                Latched::Frame(frame, pins) => return Ok(LatchedPage { state, frame: Some((frame, pins)) }),
                Latched::Busy => self.0.pause(page, &mut backoff)?,
            }
        }
    }

    fn put(&self, frame: u32, bytes: &[u8]) {
        let place = self.0.shared.frames.frame(frame).as_ptr();
        // SAFETY: the frame has as many bytes, and belongs to a latched page: no other thread writes it. The holders of
        // older pins may look at it meanwhile, and know that it may change (invariant 5 of the state). This pool has no
        // guards.
        unsafe { shown::store(bytes, place) }
    }

    fn spoil(&self, latch: &LatchedPage<'_>) {
        latch.state.spoil();
        self.0.shared.stale.store(true, Ordering::Release);
    }

    fn forget_latched(&self, latch: LatchedPage<'_>) {
        let frame = latch.state.forget_latched();
        if frame.is_none() {
            self.spoil(&latch);
        }
        drop(latch);
        if let Some(frame) = frame {
            self.0.shared.give_back(frame);
        }
    }
}

/// A page that is latched, until this is dropped.
struct LatchedPage<'a> {
    state: &'a PageState,
    /// Its frame, and the number of its pins then.
    frame: Option<(u32, u64)>,
}

impl Drop for LatchedPage<'_> {
    fn drop(&mut self) {
        self.state.unlatch();
    }
}
