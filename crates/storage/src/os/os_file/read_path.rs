//! The way of reads: through the system's cache, past it, or through it without a trace.
//!
//! # Why
//! Pages are in memory once, in the buffer pool; what the system caches of a large database is memory lost. A description that
//! bypasses the cache (`O_DIRECT`) is a second one, and a file with two has no lease. So a file that has one, or may have one again,
//! is read through the cache by `RWF_DONTCACHE` (Linux 6.14): what was not there is dropped with the read. Older systems are told to drop
//! it behind the read (`posix_fadvise`), and keep what they have read ahead.

use super::VECTORS_PER_CALL;
use crate::os::calls::preadv2;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
use libc::{off_t, preadv};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use libc::{off64_t as off_t, preadv64 as preadv};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// `RWF_DONTCACHE` (linux/fs.h).
const RWF_DONTCACHE: libc::c_int = 0x80;

/// How a handle reads.
pub(super) struct ReadPath {
    reads: Reads,
    /// True once the system was found to have no such read as `RWF_DONTCACHE`.
    has_no_flag: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Cached,
    Direct,
    Uncached,
}

impl ReadPath {
    /// Through the system's cache.
    pub fn cached() -> ReadPath {
        ReadPath::new(Reads::Cached)
    }

    /// Past it: the description is one that bypasses it.
    pub fn direct() -> ReadPath {
        ReadPath::new(Reads::Direct)
    }

    /// Through it, and what was not there does not stay.
    pub fn uncached() -> ReadPath {
        ReadPath::new(Reads::Uncached)
    }

    fn new(reads: Reads) -> ReadPath {
        ReadPath { reads, has_no_flag: AtomicBool::new(false) }
    }

    pub fn is_cached(&self) -> bool {
        self.reads == Reads::Cached
    }

    pub fn is_uncached(&self) -> bool {
        self.reads == Reads::Uncached
    }

    /// Reads until the buffers are full or the file ends; answers the bytes read.
    pub fn read_vectored(&self, file: &File, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        let mut bufs = bufs;
        IoSliceMut::advance_slices(&mut bufs, 0);
        while !bufs.is_empty() {
            match self.read(file, bufs, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => {
                    done += read;
                    IoSliceMut::advance_slices(&mut bufs, read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read(&self, file: &File, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        if !self.is_uncached() {
            return call(file, bufs, offset, 0);
        }
        if !self.has_no_flag.load(Ordering::Relaxed) {
            match call(file, bufs, offset, RWF_DONTCACHE) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    self.has_no_flag.store(true, Ordering::Relaxed);
                }
                read => return read,
            }
        }
        let read = call(file, bufs, offset, 0)?;
        let (from, len) = (offset as libc::off_t, read as libc::off_t);
        // SAFETY: plain system call on a descriptor we own.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), from, len, libc::POSIX_FADV_DONTNEED) };
        Ok(read)
    }
}

/// One call of the system.
fn call(file: &File, bufs: &mut [IoSliceMut<'_>], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let count = bufs.len().min(VECTORS_PER_CALL) as libc::c_int;
    let (descriptor, vectors) = (file.as_raw_fd(), bufs.as_mut_ptr().cast());
    // SAFETY: IoSliceMut is ABI-compatible with iovec; the slices outlive the call.
    let read = unsafe {
        if flags == 0 {
            preadv(descriptor, vectors, count, offset as off_t)
        } else {
            preadv2(descriptor, vectors, count, offset, flags)
        }
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Bytes of a file that the system has in its cache.
    fn cached_bytes(file: &File, len: usize) -> usize {
        // SAFETY: a new mapping of a file that is open, which is asked for and given back at once.
        unsafe {
            let start =
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let mut there = vec![0u8; len.div_ceil(page)];
            assert_eq!(libc::mincore(start, len, there.as_mut_ptr()), 0);
            libc::munmap(start, len);
            there.iter().filter(|byte| **byte & 1 != 0).count() * page
        }
    }

    #[test]
    fn nothing_stays_in_the_cache_that_was_not_there() {
        const LEN: usize = 4 << 20;
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        let content: Vec<u8> = (0..LEN).map(|index| (index / 4096) as u8).collect();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        let forget = || {
            // SAFETY: plain system call on a descriptor we own.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        };
        let without_flag = ReadPath { has_no_flag: AtomicBool::new(true), ..ReadPath::uncached() };
        forget();
        if cached_bytes(&file, LEN) > 0 {
            return eprintln!("skipped: this file system has nothing but its cache");
        }
        for (path, stays) in
            [(ReadPath::cached(), Some(true)), (ReadPath::uncached(), Some(false)), (without_flag, None)]
        {
            forget();
            let mut at = 0;
            while at < LEN {
                let (mut one, mut other) = (vec![0; 4096], vec![0; 61_440]);
                let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
                let read = path.read_vectored(&file, &mut bufs, at as u64).unwrap();
                assert_eq!(
                    (&one[..], &other[..read - 4096]),
                    (&content[at..at + 4096], &content[at + 4096..at + read])
                );
                at += read;
            }
            let cached = cached_bytes(&file, LEN);
            let has_flag = !path.has_no_flag.load(Ordering::Relaxed);
            assert!(stays.is_none_or(|stays| !has_flag || stays == (cached > LEN / 2)), "{cached} bytes");
        }
        let mut rest = [0; 100];
        let short =
            ReadPath::uncached().read_vectored(&file, &mut [IoSliceMut::new(&mut rest)], LEN as u64 - 7);
        assert_eq!(short.unwrap(), 7);
    }
}
