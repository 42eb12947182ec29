//! The memory of a pool: one contiguous range, a frame for each page; `partition` hands frames out.
//!
//! # Invariants
//! 1. The range lives as long as this does, and is not moved.
//! 2. Behind the last frame are [`TAIL_BYTES`] readable bytes: comparisons may read a little past a page's end.
//! 3. The right to read or write a frame is decided by the page's [`PageState`](crate::page_state::PageState).

pub(crate) mod partition;

use crate::numa::{self, Node};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

/// Readable bytes behind the last frame.
pub(crate) const TAIL_BYTES: usize = 128;

/// The unit of memory of the system. A system with larger pages refuses smaller parts.
const SYSTEM_PAGE: usize = 4096;

/// True if ranges made from now on are shown to others read-only.
static SHOWN_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// For tests: pools made from now on answer addresses ([`MappedPool::map`](crate::mapped_pool::MappedPool::map)) at
/// which nobody can write, or as ever. A write to such an address ends the process.
#[doc(hidden)]
pub fn show_read_only(read_only: bool) {
    SHOWN_READ_ONLY.store(read_only, Ordering::Relaxed);
}

/// The address space of frames could not be had.
#[derive(Debug)]
pub(crate) struct NoMemory {
    /// Bytes asked for.
    pub bytes: usize,
    /// The system's answer.
    pub why: io::Error,
}

/// The memory of all frames of a pool.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: NonNull<u8>,
    /// The same memory as others are shown it: the same range, or another of which they can only read.
    shown: NonNull<u8>,
    bytes: usize,
    page_bytes: usize,
}

// SAFETY: the range belongs to this value alone and may be used from any thread; access to its frames is governed
// by invariant 3.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    /// Address space for so many frames; memory is taken by those that are used.
    pub fn new(count: usize, page_bytes: usize) -> Result<Frames, NoMemory> {
        let bytes = count.checked_mul(page_bytes).and_then(|bytes| bytes.checked_add(TAIL_BYTES));
        let failed = |why: io::Error| NoMemory { bytes: bytes.unwrap_or(usize::MAX), why };
        let bytes = bytes.ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new private mapping, which replaces nothing.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        let mut frames = Frames { memory, shown: memory, bytes, page_bytes };
        if SHOWN_READ_ONLY.load(Ordering::Relaxed) {
            frames.show_read_only().map_err(failed)?;
        }
        Ok(frames)
    }

    /// Puts memory that can be mapped twice in the place of the range, and maps it once more, read-only.
    #[cfg(target_os = "linux")]
    fn show_read_only(&mut self) -> io::Result<()> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        // SAFETY: the name is a string that ends; the descriptor is new, and has no other owner.
        let file = unsafe {
            let file = libc::memfd_create(c"frames".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(file)
        };
        let bytes = libc::off_t::try_from(self.bytes).map_err(io::Error::other)?;
        let (shared, both) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the first mapping replaces exactly our range, which is not used yet; the second is new.
        let shown = unsafe {
            if libc::ftruncate(file.as_raw_fd(), bytes) != 0 {
                return Err(io::Error::last_os_error());
            }
            let (memory, fixed) = (self.memory.as_ptr().cast(), shared | libc::MAP_FIXED);
            if libc::mmap(memory, self.bytes, both, fixed, file.as_raw_fd(), 0) == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            libc::mmap(ptr::null_mut(), self.bytes, libc::PROT_READ, shared, file.as_raw_fd(), 0)
        };
        if shown == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.shown = NonNull::new(shown.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn show_read_only(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks for large pages of memory from now on. A page that is looked up at random then costs one miss less of the
    /// processor's address cache. For ranges of which much is used; else what is rounded up is memory lost.
    pub fn ask_for_large_pages(&self) {
        #[cfg(target_os = "linux")]
        // SAFETY: advice on our own range. Where the system has no large pages, small ones do.
        let _ = unsafe { libc::madvise(self.memory.as_ptr().cast(), self.bytes, libc::MADV_HUGEPAGE) };
    }

    /// Asks for memory of that node for frames that were not used yet. It is a wish: where the system does not
    /// grant it, memory comes from wherever it does.
    pub fn prefer(&self, frames: std::ops::Range<usize>, node: &Node) -> io::Result<()> {
        debug_assert!(frames.end * self.page_bytes + TAIL_BYTES <= self.bytes);
        // The system binds whole pages of its own; those of two partitions belong to the first.
        let start = (frames.start * self.page_bytes).next_multiple_of(SYSTEM_PAGE);
        let bytes = (frames.end * self.page_bytes).saturating_sub(start);
        // SAFETY: the frames lie inside the range, which is ours.
        unsafe { numa::prefer_memory(self.memory.as_ptr().add(start).cast(), bytes, node) }
    }

    /// Gives the memory of frames back to the system. No thread may look at them, or be about to.
    pub fn give_up(&self, mut frames: Vec<u32>) {
        frames.sort_unstable();
        for run in frames.chunk_by(|a, b| a + 1 == *b) {
            let start = run[0] as usize * self.page_bytes;
            let end = start + run.len() * self.page_bytes;
            // Smaller frames keep what they share with others.
            let (start, end) = (start.next_multiple_of(SYSTEM_PAGE), end / SYSTEM_PAGE * SYSTEM_PAGE);
            if start < end {
                // SAFETY: the frames lie inside the range, which is ours, and belong to no page.
                let _ = unsafe {
                    libc::madvise(self.memory.as_ptr().add(start).cast(), end - start, libc::MADV_DONTNEED)
                };
            }
        }
    }

    /// The address of a frame.
    #[inline]
    pub fn frame(&self, frame: u32) -> NonNull<u8> {
        let offset = frame as usize * self.page_bytes;
        debug_assert!(offset + self.page_bytes + TAIL_BYTES <= self.bytes);
        // SAFETY: frames are handed out by their number below the count, so it lies inside the range.
        unsafe { self.memory.add(offset) }
    }

    /// The address of a frame for readers.
    #[inline]
    pub fn shown(&self, frame: u32) -> NonNull<u8> {
        let offset = frame as usize * self.page_bytes;
        debug_assert!(offset + self.page_bytes + TAIL_BYTES <= self.bytes);
        // SAFETY: as above; both ranges are equally long.
        unsafe { self.shown.add(offset) }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; nothing refers to it any more.
        let _ = unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
        if self.shown != self.memory {
            // SAFETY: the second mapping, in the same way.
            let _ = unsafe { libc::munmap(self.shown.as_ptr().cast(), self.bytes) };
        }
    }
}
