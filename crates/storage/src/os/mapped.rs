//! Files that are memory: on a DAX file system a store and a flush of its cache lines is all a durable write
//! takes.
//!
//! # What it promises
//! After [`Mapping::write`] returned `true`, the bytes survive a power cut, like after a write and a sync.
//!
//! # How
//! The file is mapped with `MAP_SYNC`, which succeeds only where pages of the mapping are the medium itself. The system
//! makes the metadata of a page durable before the first store into it. A store then is durable once its cache lines
//! were written back and a fence has passed. Where the system or the processor cannot do that, nothing is mapped, and
//! the caller writes and syncs as ever.
//!
//! # Invariants
//! 1. Only bytes below the file's length are mapped: beyond it a store would end the process. The caller that shortens
//!    the file calls [`Mapping::forget`] before.
//! 2. Stores go to the range of one caller's write; callers do not write the same range at once.

use crate::sync::Mutex;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

/// The kind of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappingKind {
    /// So that a flushed cache line is durable; not everywhere.
    Synchronous,
    /// Any file, for tests: bytes arrive in the file, but survive the process only.
    #[cfg(test)]
    Shared,
}

/// The mapping of one file, made when it is first needed.
pub(super) struct Mapping {
    kind: MappingKind,
    state: Mutex<MappingState>,
}

enum MappingState {
    Untried,
    /// The file is no memory, or the processor has no way to write lines back.
    Impossible,
    Mapped(Region),
}

/// Mapped bytes from the beginning of a file.
struct Region {
    start: *mut u8,
    len: usize,
    write_back: flush::WriteBack,
}

// SAFETY: the region belongs to this value alone, and its memory to no thread.
unsafe impl Send for Region {}

impl Mapping {
    pub fn new(kind: MappingKind) -> Mapping {
        Mapping { kind, state: Mutex::new(MappingState::Untried) }
    }

    /// Writes the buffers one behind the other from `offset`, durably. `false` if the range is not in the file yet or
    /// the file cannot be mapped; then nothing was written.
    pub fn write(&self, file: &File, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<bool> {
        let mut state = self.state.lock();
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let Some(end) = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(total)) else {
            return Ok(false);
        };
        let mapped = match &*state {
            MappingState::Impossible => return Ok(false),
            MappingState::Untried => 0,
            MappingState::Mapped(region) => region.len,
        };
        if end > mapped {
            let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
            if end > len {
                return Ok(false);
            }
            *state = match Region::new(file, len, self.kind) {
                Some(region) => MappingState::Mapped(region),
                None => MappingState::Impossible,
            };
        }
        let MappingState::Mapped(region) = &mut *state else { return Ok(false) };
        region.store(bufs, end - total);
        Ok(true)
    }

    /// Gives the mapping up: the file may become shorter.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        if matches!(*state, MappingState::Mapped(_)) {
            *state = MappingState::Untried;
        }
    }
}

impl Region {
    /// Maps the first `len` bytes, where that can be done.
    fn new(file: &File, len: usize, kind: MappingKind) -> Option<Region> {
        let write_back = flush::WriteBack::of_this_processor()?;
        if len == 0 {
            return None;
        }
        let flags = match kind {
            #[cfg(target_os = "linux")]
            MappingKind::Synchronous => libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            #[cfg(not(target_os = "linux"))]
            MappingKind::Synchronous => return None,
            #[cfg(test)]
            MappingKind::Shared => libc::MAP_SHARED,
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no memory that is in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        (start != libc::MAP_FAILED).then(|| Region { start: start.cast(), len, write_back })
    }

    /// Copies the buffers to `offset` and makes them durable.
    fn store(&mut self, bufs: &[IoSlice<'_>], offset: usize) {
        let mut at = offset;
        for buf in bufs {
            assert!(at + buf.len() <= self.len);
            // SAFETY: the range is inside the mapping, as just asserted, and no reference to it exists.
            unsafe { std::ptr::copy_nonoverlapping(buf.as_ptr(), self.start.add(at), buf.len()) };
            at += buf.len();
        }
        // SAFETY: the range is inside the mapping.
        unsafe { self.write_back.range(self.start.add(offset), at - offset) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Writing cache lines back to memory.
#[cfg(target_arch = "x86_64")]
mod flush {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_sfence};

    const LINE_BYTES: usize = 64;

    /// The best instruction that the processor has for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WriteBack {
        /// Writes back and keeps the line.
        Clwb,
        /// Evicts the line; several at once are under way.
        ClflushOpt,
        /// Evicts the line, one after the other. All have it.
        Clflush,
    }

    impl WriteBack {
        pub fn of_this_processor() -> Option<WriteBack> {
            /// Bits of register EBX of leaf 7 (Intel SDM, CPUID).
            const CLFLUSHOPT: u32 = 1 << 23;
            const CLWB: u32 = 1 << 24;
            let features = if __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).ebx };
            Some(match features {
                features if features & CLWB != 0 => WriteBack::Clwb,
                features if features & CLFLUSHOPT != 0 => WriteBack::ClflushOpt,
                _ => WriteBack::Clflush,
            })
        }

        /// Writes the lines of a range back, and waits for them.
        ///
        /// # Safety
        /// The range is mapped.
        pub unsafe fn range(self, start: *mut u8, len: usize) {
            let first = start.map_addr(|address| address & !(LINE_BYTES - 1));
            let lines = (start.addr() + len - first.addr()).div_ceil(LINE_BYTES);
            for line in (0..lines).map(|index| first.wrapping_add(index * LINE_BYTES)) {
                // SAFETY: the line has a byte of the range, so it is mapped; the processor has the instruction.
                unsafe {
                    match self {
                        WriteBack::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack)),
                        WriteBack::ClflushOpt => asm!("clflushopt [{}]", in(reg) line, options(nostack)),
                        WriteBack::Clflush => _mm_clflush(line),
                    }
                }
            }
            // SAFETY: the fence has no preconditions.
            unsafe { _mm_sfence() };
        }
    }
}

/// Writing cache lines back to memory, as far as the point of persistence: only ARMv8.2 and later can do so. No such
/// board with a DAX file system is known to test on.
#[cfg(not(target_arch = "x86_64"))]
mod flush {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WriteBack {}

    impl WriteBack {
        pub fn of_this_processor() -> Option<WriteBack> {
            None
        }

        pub unsafe fn range(self, _start: *mut u8, _len: usize) {
            match self {}
        }
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::flush::WriteBack;
    use super::*;
    use std::os::unix::fs::FileExt;

    fn content(file: &File, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn stores_arrive_in_the_file_wherever_they_begin_and_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let mapping = Mapping::new(MappingKind::Shared);
        let mut expected = vec![0; 10_000];
        for (offset, len) in [(0, 1), (63, 2), (64, 64), (100, 1000), (4095, 4098), (9_999, 1)] {
            let bytes: Vec<u8> = (0..len).map(|index| (index + offset) as u8 | 1).collect();
            let (first, second) = bytes.split_at(len / 3);
            let bufs = [IoSlice::new(first), IoSlice::new(second)];
            assert!(mapping.write(&file, &bufs, offset as u64).unwrap());
            expected[offset..offset + len].copy_from_slice(&bytes);
        }
        assert!(content(&file, 10_000) == expected);
    }

    #[test]
    fn a_range_behind_the_end_is_left_to_the_caller_until_the_file_has_grown() {
        let file = tempfile::tempfile().unwrap();
        let mapping = Mapping::new(MappingKind::Shared);
        let write = |offset| mapping.write(&file, &[IoSlice::new(b"abcd")], offset).unwrap();
        assert!(!write(0) && !write(u64::MAX - 1));
        file.set_len(4096).unwrap();
        assert!(write(4092) && !write(4093));
        file.set_len(8192).unwrap();
        assert!(write(4094));
        // Bytes that were cut off are mapped no more.
        mapping.forget();
        file.set_len(100).unwrap();
        assert!(!write(4094) && write(96));
        assert_eq!(content(&file, 100)[96..], *b"abcd");
    }

    #[test]
    fn a_file_that_is_no_memory_is_never_mapped_as_if_it_were() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::new(MappingKind::Synchronous);
        assert!(!mapping.write(&file, &[IoSlice::new(b"abcd")], 0).unwrap());
        assert_eq!(content(&file, 4), [0; 4]);
    }

    #[test]
    fn every_instruction_of_the_processor_does_it() {
        let mut bytes = vec![7u8; 1000];
        let best = WriteBack::of_this_processor().unwrap();
        let supported = match best {
            WriteBack::Clwb => &[WriteBack::Clwb, WriteBack::ClflushOpt, WriteBack::Clflush][..],
            WriteBack::ClflushOpt => &[WriteBack::ClflushOpt, WriteBack::Clflush],
            WriteBack::Clflush => &[WriteBack::Clflush],
        };
        for write_back in supported {
            // SAFETY: the range is the vector's.
            unsafe { write_back.range(bytes.as_mut_ptr().add(3), 990) };
        }
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}
