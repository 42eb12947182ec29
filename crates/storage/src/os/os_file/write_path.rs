//! The way of writes: all bytes of a request, in the fewest calls, and what the system keeps whole.

use super::{OsFile, VECTORS_PER_CALL};
use crate::os::calls::{pwritev2, statx};
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
use libc::{off_t, pwritev};
// Offsets have 64 bits in these on 32-bit processors as well.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use libc::{off64_t as off_t, pwritev64 as pwritev};
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

/// `RWF_ATOMIC` (linux/fs.h): the write reaches the medium whole or not at all.
#[cfg(target_os = "linux")]
pub(super) const RWF_ATOMIC: libc::c_int = 0x40;

impl OsFile {
    /// Writes the buffers one behind the other, with flags of `pwritev2(2)`.
    pub(super) fn write_all(&self, bufs: &[IoSlice<'_>], offset: u64, flags: libc::c_int) -> io::Result<()> {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut done = 0;
        // The first call covers the whole request in all but extreme cases. The slice table is copied only for the rest
        // of a short write or of a long table.
        let mut rest: Vec<IoSlice<'_>>;
        let mut remaining: &mut [IoSlice<'_>] = &mut [];
        while done < total {
            let (pointer, count) = if done == 0 {
                (bufs.as_ptr(), bufs.len().min(VECTORS_PER_CALL))
            } else {
                (remaining.as_ptr(), remaining.len().min(VECTORS_PER_CALL))
            };
            let written = write_call(self.file.as_raw_fd(), pointer, count, offset + done as u64, flags);
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    if done == 0 && written < total {
                        rest = bufs.to_vec();
                        remaining = &mut rest;
                        IoSlice::advance_slices(&mut remaining, written);
                    } else if done > 0 {
                        IoSlice::advance_slices(&mut remaining, written);
                    }
                    done += written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One call, which may write less.
pub(super) fn write_call(
    descriptor: libc::c_int,
    bufs: *const IoSlice<'_>,
    count: usize,
    offset: u64,
    flags: libc::c_int,
) -> io::Result<usize> {
    let count = count as libc::c_int;
    // SAFETY: IoSlice is ABI-compatible with iovec; the caller's slices outlive the call.
    let written = unsafe {
        if flags == 0 {
            pwritev(descriptor, bufs.cast(), count, offset as off_t)
        } else {
            pwritev2(descriptor, bufs.cast(), count, offset, flags)
        }
    };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// `stx_atomic_write_unit_max` of Linux 6.11 and later; 0 where it is unknown.
#[cfg(target_os = "linux")]
pub(super) fn atomic_write_bytes(file: &fs::File) -> u32 {
    const STATX_WRITE_ATOMIC: libc::c_uint = 0x0001_0000;
    /// The word of `stx_atomic_write_unit_max` in `struct statx` (linux/stat.h).
    const UNIT_MAX_WORD: usize = 0xb4 / 4;
    // The empty path with AT_EMPTY_PATH names the descriptor itself.
    let Ok(found) = statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, STATX_WRITE_ATOMIC) else { return 0 };
    if found.stx_mask & STATX_WRITE_ATOMIC == 0 {
        return 0;
    }
    // SAFETY: the structure has 256 bytes, and is aligned for larger numbers.
    unsafe { (&raw const found).cast::<u32>().add(UNIT_MAX_WORD).read() }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn atomic_write_bytes(_file: &fs::File) -> u32 {
    0
}
