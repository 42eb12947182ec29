//! Pinned pages, as values.

use super::Pool;
use super::shared::Shared;
use crate::page_state::PageState;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A page in memory, for as long as this lives.
pub struct Pinned<'a> {
    bytes: NonNull<u8>,
    page_bytes: usize,
    state: &'a PageState,
}

// SAFETY: it only reads bytes that no thread writes while the page is pinned, and unpins through an atomic.
unsafe impl Send for Pinned<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pinned<'_> {}

impl Deref for Pinned<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the page is pinned, so the frame is its own and not written (invariants 2 to 4 of the state). The
        // frames live as long as the pool, which is borrowed.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.page_bytes) }
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.state.unpin();
    }
}

/// A page in memory that one writer has alone.
pub struct PinnedMut<'a> {
    bytes: NonNull<u8>,
    page_bytes: usize,
    state: &'a PageState,
    was_clean: bool,
}

// SAFETY: it alone uses the bytes, and unpins through an atomic.
unsafe impl Send for PinnedMut<'_> {}
// SAFETY: through a shared reference the bytes are only read.
unsafe impl Sync for PinnedMut<'_> {}

impl<'a> PinnedMut<'a> {
    /// True if the medium had the page's bytes when it was pinned. [`Pool::discard`] brings them back.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// The state, in which the page is still pinned.
    pub(crate) fn into_state(self) -> &'a PageState {
        std::mem::ManuallyDrop::new(self).state
    }
}

impl Deref for PinnedMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page is pinned by this guard alone (invariant 3 of the state).
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.page_bytes) }
    }
}

impl DerefMut for PinnedMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.page_bytes) }
    }
}

impl Drop for PinnedMut<'_> {
    fn drop(&mut self) {
        self.state.written();
    }
}

/// A page whose bytes are on their way to the medium: readers may look, writers wait. Dirty again when this is
/// dropped, unless [`Cleaning::done`] was called.
pub struct Cleaning<'a> {
    page: u64,
    bytes: NonNull<u8>,
    state: &'a PageState,
    shared: &'a Shared,
    done: bool,
}

// SAFETY: as for `Pinned`.
unsafe impl Send for Cleaning<'_> {}

impl Cleaning<'_> {
    /// Its number.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// The page is on the medium, or will be before anything else is believed.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Deref for Cleaning<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page stays in its frame, and is not written while it is being cleaned.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.shared.page_bytes) }
    }
}

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.shared.dirty.fetch_add(1, Ordering::Relaxed);
        }
        self.state.cleaned(self.done);
        self.shared.cleaning.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a> Pinned<'a> {
    /// The guard of a page in a frame that the caller has pinned.
    #[inline]
    pub(crate) fn of(pool: &'a Pool, frame: u32, state: &'a PageState) -> Pinned<'a> {
        Pinned { bytes: pool.shared.frames.frame(frame), page_bytes: pool.shared.page_bytes, state }
    }
}

impl<'a> PinnedMut<'a> {
    /// The guard of a page in a frame that the caller has latched.
    pub(crate) fn of(pool: &'a Pool, frame: u32, state: &'a PageState, was_clean: bool) -> PinnedMut<'a> {
        let bytes = pool.shared.frames.frame(frame);
        PinnedMut { bytes, page_bytes: pool.shared.page_bytes, state, was_clean }
    }
}

impl<'a> Cleaning<'a> {
    /// The guard of a page that the caller is about to write.
    pub(crate) fn of(pool: &'a Pool, page: u64, frame: u32, state: &'a PageState) -> Cleaning<'a> {
        Cleaning { page, bytes: pool.shared.frames.frame(frame), state, shared: &pool.shared, done: false }
    }
}
