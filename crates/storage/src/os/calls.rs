//! Calls of Linux for which C libraries have had functions for a few years only: musl has had `statx` since 1.2.4, and
//! `preadv2` and `pwritev2` since 1.2.5.
//!
//! The kernel is asked directly, so that a library made for musl is loaded where an older one is installed.

use libc::{c_int, c_long, c_uint, c_ulong, iovec};
use std::ffi::CStr;
use std::io;

/// Reads into vectors, with flags (`RWF_NOWAIT` and others); -1 and `errno` for an error.
///
/// # Safety
/// As for `preadv`.
#[inline]
pub(super) unsafe fn preadv2(
    descriptor: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: u64,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's.
    unsafe { vectored(libc::SYS_preadv2, descriptor, vectors, count, offset, flags) }
}

/// Writes vectors, with flags (`RWF_DSYNC` and others); -1 and `errno` for an error.
///
/// # Safety
/// As for `pwritev`.
#[inline]
pub(super) unsafe fn pwritev2(
    descriptor: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: u64,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's.
    unsafe { vectored(libc::SYS_pwritev2, descriptor, vectors, count, offset, flags) }
}

/// Either of the two calls, by its number.
///
/// # Safety
/// That of the call.
#[inline]
unsafe fn vectored(
    number: c_long,
    descriptor: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: u64,
    flags: c_int,
) -> isize {
    // Where a register has 64 bits the first half has all of the offset, and the kernel drops the second.
    let (low, high) = (offset as c_ulong, (offset >> 32) as c_ulong);
    let (descriptor, count) = (c_long::from(descriptor), c_long::from(count));
    // SAFETY: the caller's.
    unsafe { libc::syscall(number, descriptor, vectors, count, low, high, flags) as isize }
}

/// What the system knows of the file of a name, as far as `mask` asks; relative to a directory, or the descriptor itself where the name is
/// empty and `flags` say so.
pub fn statx(directory: c_int, name: &CStr, flags: c_int, mask: c_uint) -> io::Result<libc::statx> {
    // SAFETY: zeros are a value of this structure of numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and the structure is as the call expects it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_statx,
            c_long::from(directory),
            name.as_ptr(),
            c_long::from(flags),
            c_long::from(mask as i32),
            &raw mut found,
        )
    };
    if done == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn bytes_far_behind_the_beginning_are_written_and_read_there() {
        let mut file = tempfile::tempfile().unwrap();
        for offset in [0, 3, (1_u64 << 32) + 5, (5 << 32) + 7] {
            let written = *b"some bytes";
            let vector = iovec { iov_base: written.as_ptr().cast_mut().cast(), iov_len: written.len() };
            // SAFETY: the vector is the array, which outlives the call.
            let count = unsafe { pwritev2(file.as_raw_fd(), &raw const vector, 1, offset, libc::RWF_DSYNC) };
            assert_eq!((count, file.seek(SeekFrom::End(0)).unwrap()), (10, offset + 10));
            let mut read = [0; 10];
            let vector = iovec { iov_base: read.as_mut_ptr().cast(), iov_len: read.len() };
            // SAFETY: as above.
            let count = unsafe { preadv2(file.as_raw_fd(), &raw const vector, 1, offset, libc::RWF_HIPRI) };
            assert_eq!((count, read), (10, written), "{offset}");
        }
        file.flush().unwrap();
        // SAFETY: no vector is looked at.
        let failed = unsafe { preadv2(-1, std::ptr::null(), 0, 0, 0) };
        assert_eq!((failed, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EBADF)));
    }

    #[test]
    fn what_is_known_of_a_file_is_what_stat_says() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, b"seven b").unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let found = statx(libc::AT_FDCWD, &name, 0, libc::STATX_INO | libc::STATX_SIZE).unwrap();
        let expected = std::fs::metadata(&path).unwrap();
        assert_eq!((found.stx_ino, found.stx_size), (expected.ino(), 7));
        assert_eq!(
            statx(libc::AT_FDCWD, c"/does/not/exist", 0, 0).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
