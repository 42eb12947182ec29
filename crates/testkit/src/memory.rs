//! Memory that a program has from Rust's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, which counts. A test installs it as its `#[global_allocator]`.
pub struct CountingAllocator;

/// Bytes that were allocated and not freed, where [`CountingAllocator`] is installed.
pub fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::SeqCst)
}

// SAFETY: every block comes from the system's allocator, and goes back to it as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::SeqCst);
        // SAFETY: by contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::SeqCst);
        // SAFETY: by contract.
        unsafe { System.dealloc(block, layout) }
    }
}
