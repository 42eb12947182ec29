//! A reserve of memory for the time when the system has none.
//!
//! # Why
//! A failed allocation of a Rust program ends the process. Storage inside another program must not do that: SQLite
//! answers `SQLITE_NOMEM`, and the program goes on. So memory that the system refuses comes from a reserve, with which
//! the call under way comes to its end. While the reserve is in use, and the system has nothing to give, no call begins
//! work that needs more ([`is_short`]).
//!
//! # What it promises
//! 1. The reserve was taken from the system when the program was loaded. It costs address space, and memory only once it
//!    is used.
//! 2. It takes no lock: a child that was forked in the middle of an allocation can go on.
//!
//! # What it does not do
//! Serve what is larger than itself, or more than that at a time: then the process ends, as ever. Memory that grows
//! with a database or a transaction is therefore asked for by ways that can fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes that one bit of a word stands for.
const GRANULE_BYTES: usize = 256;
/// Bytes that a word stands for.
const BLOCK_BYTES: usize = 64 * GRANULE_BYTES;
/// Words of the reserve: 4 MiB.
const BLOCKS: usize = 256;
/// Bytes that the system must be able to give before the reserve counts as no longer needed.
const PROBE_BYTES: usize = 64 << 10;

static RESERVE: Arena<BLOCKS> = Arena::new();

/// The system's allocator with a reserve behind it. A program that uses litefoot as a Rust crate installs it itself:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: litefoot_storage::reserve::Allocator = litefoot_storage::reserve::Allocator;
/// # fn main() {}
/// ```
pub struct Allocator;

/// True if nothing of the reserve is in use, and so memory is not short. One load, and no call.
#[inline]
pub fn is_untouched() -> bool {
    RESERVE.used.load(Ordering::Relaxed) == 0
}

/// True while memory has run out: the reserve is in use, and the system has nothing to give. Costs one load where it
/// has not.
#[inline]
pub fn is_short() -> bool {
    !is_untouched() && is_short_now()
}

/// True once most of the reserve is used up: work that would take more, and can fail, fails.
#[inline]
pub fn is_nearly_gone() -> bool {
    RESERVE.used.load(Ordering::Relaxed) > BLOCKS * BLOCK_BYTES / 4 * 3
}

#[cold]
fn is_short_now() -> bool {
    if RESERVE.used.load(Ordering::Relaxed) > BLOCKS * BLOCK_BYTES / 2 {
        return true;
    }
    let Ok(layout) = Layout::from_size_align(PROBE_BYTES, 16) else { return true };
    // SAFETY: the layout has a size; what was got is given back as it came.
    unsafe {
        let probe = System.alloc(layout);
        if !probe.is_null() {
            // The address is looked at, so that the pair of calls is not taken for nothing.
            System.dealloc(std::hint::black_box(probe), layout);
        }
        probe.is_null()
    }
}

// SAFETY: every block comes from the system's allocator or the reserve, which never hand out the same memory twice. It
// goes back to where it came from: its address tells.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by contract.
        let found = unsafe { System.alloc(layout) };
        if found.is_null() { RESERVE.take(layout) } else { found }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by contract.
        let found = unsafe { System.alloc_zeroed(layout) };
        if !found.is_null() {
            return found;
        }
        let found = RESERVE.take(layout);
        if !found.is_null() {
            // SAFETY: the block has that many bytes, and is ours alone.
            unsafe { ptr::write_bytes(found, 0, layout.size()) };
        }
        found
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if RESERVE.owns(block) {
            return RESERVE.give_back(block, layout);
        }
        // SAFETY: by contract, and it is not of the reserve.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if !RESERVE.owns(block) {
            // SAFETY: by contract, and it is not of the reserve.
            let moved = unsafe { System.realloc(block, layout, new_bytes) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: by contract the size is not too large for the alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: by contract the size is not 0; the old block is given back after its bytes were copied.
        unsafe {
            let moved = self.alloc(new_layout);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_bytes));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Memory of which parts are taken and given back.
///
/// # Invariants
/// 1. A granule belongs to the thread that set its bit, until that thread clears it.
/// 2. A block of up to [`BLOCK_BYTES`] lies inside one word's granules; a larger one takes whole words.
#[repr(C, align(16384))]
struct Arena<const COUNT: usize> {
    memory: UnsafeCell<[[u8; BLOCK_BYTES]; COUNT]>,
    taken: [AtomicU64; COUNT],
    /// Bytes that are taken.
    used: AtomicUsize,
}

// SAFETY: the memory is reached only through blocks, each of which has one owner (invariant 1).
unsafe impl<const COUNT: usize> Sync for Arena<COUNT> {}

/// The bytes that a block takes.
enum Size {
    /// So many granules of one word.
    Granules(u32),
    /// So many words.
    Words(usize),
}

impl Size {
    fn of(layout: Layout) -> Size {
        if layout.size() <= BLOCK_BYTES && layout.align() <= GRANULE_BYTES {
            Size::Granules(layout.size().div_ceil(GRANULE_BYTES).max(1) as u32)
        } else {
            Size::Words(layout.size().div_ceil(BLOCK_BYTES))
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Size::Granules(count) => *count as usize * GRANULE_BYTES,
            Size::Words(count) => count * BLOCK_BYTES,
        }
    }
}

/// The bits of so many granules.
fn granules(count: u32) -> u64 {
    u64::MAX >> (64 - count)
}

impl<const COUNT: usize> Arena<COUNT> {
    const fn new() -> Arena<COUNT> {
        Arena {
            memory: UnsafeCell::new([[0; BLOCK_BYTES]; COUNT]),
            taken: [const { AtomicU64::new(0) }; COUNT],
            used: AtomicUsize::new(0),
        }
    }

    fn start(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    #[inline]
    fn owns(&self, block: *mut u8) -> bool {
        (block as usize).wrapping_sub(self.start() as usize) < COUNT * BLOCK_BYTES
    }

    /// A block, or null.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.align() > BLOCK_BYTES {
            return ptr::null_mut();
        }
        let size = Size::of(layout);
        let offset = match size {
            Size::Granules(count) => self.take_granules(count),
            Size::Words(count) => self.take_words(count),
        };
        let Some(offset) = offset else { return ptr::null_mut() };
        self.used.fetch_add(size.bytes(), Ordering::Relaxed);
        // SAFETY: the block lies inside the memory.
        unsafe { self.start().add(offset) }
    }

    fn take_granules(&self, count: u32) -> Option<usize> {
        let bits = granules(count);
        for (index, word) in self.taken.iter().enumerate() {
            let mut now = word.load(Ordering::Relaxed);
            while let Some(place) = (0..=64 - count).find(|place| now & (bits << place) == 0) {
                let with = now | bits << place;
                match word.compare_exchange_weak(now, with, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(index * BLOCK_BYTES + place as usize * GRANULE_BYTES),
                    Err(other) => now = other,
                }
            }
        }
        None
    }

    fn take_words(&self, count: usize) -> Option<usize> {
        let mut first = 0;
        while first + count <= COUNT {
            let take = |word: &AtomicU64| {
                word.compare_exchange(0, u64::MAX, Ordering::Acquire, Ordering::Relaxed).is_ok()
            };
            match self.taken[first..first + count].iter().position(|word| !take(word)) {
                None => return Some(first * BLOCK_BYTES),
                Some(got) => {
                    let taken = &self.taken[first..first + got];
                    taken.iter().for_each(|word| word.store(0, Ordering::Release));
                    first += got + 1;
                }
            }
        }
        None
    }

    #[cold]
    fn give_back(&self, block: *mut u8, layout: Layout) {
        let offset = block as usize - self.start() as usize;
        let (word, inside) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let size = Size::of(layout);
        match size {
            Size::Granules(count) => {
                let bits = granules(count) << (inside / GRANULE_BYTES);
                self.taken[word].fetch_and(!bits, Ordering::Release);
            }
            Size::Words(count) => {
                self.taken[word..word + count].iter().for_each(|word| word.store(0, Ordering::Release));
            }
        }
        self.used.fetch_sub(size.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_comes_back_is_given_again() {
        static ARENA: Arena<4> = Arena::new();
        assert!(ARENA.take(layout(5 * BLOCK_BYTES, 1)).is_null());
        assert!(ARENA.take(layout(1, 2 * BLOCK_BYTES)).is_null());
        for _ in 0..3 {
            let all = ARENA.take(layout(4 * BLOCK_BYTES, 16));
            assert!(ARENA.owns(all) && ARENA.take(layout(1, 1)).is_null());
            ARENA.give_back(all, layout(4 * BLOCK_BYTES, 16));
            let small: Vec<_> = (0..256).map(|_| ARENA.take(layout(250, 8))).collect();
            assert!(small.iter().all(|block| !block.is_null()) && ARENA.take(layout(1, 1)).is_null());
            small.into_iter().for_each(|block| ARENA.give_back(block, layout(250, 8)));
            assert_eq!(ARENA.used.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn threads_never_share_a_block() {
        static ARENA: Arena<8> = Arena::new();
        std::thread::scope(|scope| {
            for number in 1..5u8 {
                scope.spawn(move || {
                    for round in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let bytes = if round % 7 == 0 { 2 * BLOCK_BYTES } else { 1 + round % 5000 };
                        let layout = layout(bytes, 16);
                        let block = ARENA.take(layout);
                        if block.is_null() {
                            continue;
                        }
                        // SAFETY: the block is ours until it is given back.
                        unsafe {
                            ptr::write_bytes(block, number, layout.size());
                            std::thread::yield_now();
                            let bytes = std::slice::from_raw_parts(block, layout.size());
                            assert!(bytes.iter().all(|byte| *byte == number));
                        }
                        ARENA.give_back(block, layout);
                    }
                });
            }
        });
        assert_eq!(ARENA.used.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]

        /// Blocks are aligned, inside, and apart from each other.
        #[test]
        fn blocks_are_sound(steps in prop::collection::vec((1usize..70_000, 0u32..15, any::<bool>()), 1..60)) {
            let arena: Box<Arena<16>> = Box::new(Arena::new());
            let mut blocks: Vec<(usize, Layout)> = Vec::new();
            for (bytes, align, gives_back) in steps {
                if gives_back && !blocks.is_empty() {
                    let (block, layout) = blocks.swap_remove(bytes % blocks.len());
                    arena.give_back(block as *mut u8, layout);
                    continue;
                }
                let layout = layout(bytes, 1 << align);
                let block = arena.take(layout) as usize;
                if block == 0 {
                    continue;
                }
                prop_assert!(block.is_multiple_of(layout.align()) && arena.owns(block as *mut u8));
                prop_assert!(arena.owns((block + bytes - 1) as *mut u8));
                for (other, its) in &blocks {
                    prop_assert!(block + bytes <= *other || other + its.size() <= block);
                }
                blocks.push((block, layout));
            }
            blocks.into_iter().for_each(|(block, layout)| arena.give_back(block as *mut u8, layout));
            prop_assert_eq!(arena.used.load(Ordering::Relaxed), 0);
        }
    }
}
