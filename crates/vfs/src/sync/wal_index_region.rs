//! Regions of the wal-index: memory that SQLite knows by its address.
//!
//! # Invariant
//! A region does not move, and is freed when it is dropped. A region that a forked child has inherited is never freed there,
//! since inherited connections know its address.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Alignment of a region; SQLite wants 8, a cache line keeps the header from being split.
const REGION_ALIGNMENT: usize = 64;

/// A region of the wal-index.
pub(super) struct Region {
    pub memory: NonNull<u8>,
    layout: Layout,
    /// Set in a forked child where the region was the parent's. Inherited connections know its address, so it is never freed.
    pub inherited: bool,
}

// SAFETY: the region owns the memory, and hands it out as a raw pointer only. SQLite synchronises its own accesses by
// the lock slots and barriers.
unsafe impl Send for Region {}

impl Region {
    /// A region of zeros; `None` where memory runs out.
    pub fn new(bytes: usize) -> Option<Region> {
        let layout =
            Layout::from_size_align(bytes, REGION_ALIGNMENT).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout has a size that is not zero.
        let memory = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Region { memory, layout, inherited: false })
    }

    /// The region of the parent, in a forked child.
    pub fn inherit(&self) -> Region {
        Region { inherited: true, ..*self }
    }

    /// Fills the region with zeros. No handle uses it.
    pub fn clear(&self) {
        // SAFETY: it has as many bytes.
        unsafe { self.memory.as_ptr().write_bytes(0, self.layout.size()) };
    }

    /// A word of 32 bits.
    ///
    /// # Safety
    /// The region is longer.
    pub unsafe fn word(&self, number: usize) -> &AtomicU32 {
        // SAFETY: by contract; a region is aligned, and lives as long as `self`.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU32>().add(number) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.inherited {
            // SAFETY: allocated in `new` with this layout, freed once.
            unsafe { std::alloc::dealloc(self.memory.as_ptr(), self.layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_region_is_aligned_zeros_and_is_cleared() {
        assert!(Region::new(0).is_none());
        let region = Region::new(32768).unwrap();
        assert!(region.memory.addr().get().is_multiple_of(REGION_ALIGNMENT));
        // SAFETY: the region has 8192 words.
        let last = unsafe { region.word(8191) };
        assert_eq!(last.swap(7, Ordering::Relaxed), 0);
        region.clear();
        assert_eq!(last.load(Ordering::Relaxed), 0);
        // The parent's region is never freed by the child's copy.
        drop(region.inherit());
        assert_eq!(last.swap(8, Ordering::Relaxed), 0);
    }
}
