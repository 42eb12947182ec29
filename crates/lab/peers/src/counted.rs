//! Syncs of this process, counted without anybody's help.
//!
//! The program has functions of its own by the names of the C library's, so that the calls of everything that is linked
//! into it come here first, C and C++ included. Each counts, and then asks the kernel for what was wanted. LMDB writes its
//! meta page through a descriptor that is opened with `O_DSYNC`: such a write is a sync, too.

use libc::{c_int, c_void, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicU64, Ordering};

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// Syncs so far.
pub fn syncs() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

fn count() {
    SYNCS.fetch_add(1, Ordering::Relaxed);
}

/// `fsync` of the C library.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    count();
    // SAFETY: a plain system call with the caller's argument.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

/// `fdatasync` of the C library.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    count();
    // SAFETY: a plain system call with the caller's argument.
    unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
}

/// `msync` of the C library.
///
/// # Safety
/// That of the system call.
#[unsafe(no_mangle)]
unsafe extern "C" fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    if flags & libc::MS_SYNC != 0 {
        count();
    }
    // SAFETY: the caller's arguments, passed on.
    unsafe { libc::syscall(libc::SYS_msync, address, length, flags) as c_int }
}

/// `pwrite` of the C library.
///
/// # Safety
/// That of the system call.
#[cfg(target_pointer_width = "64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    // SAFETY: asks for the flags of a descriptor; an error is negative and has all bits.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_DSYNC != 0 {
        count();
    }
    // SAFETY: the caller's arguments, passed on.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, buffer, length, offset) as ssize_t }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};

    #[test]
    fn syncs_of_the_standard_library_and_of_descriptors_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join("file")).unwrap();
        let before = syncs();
        file.write_all_at(b"text", 0).unwrap();
        assert_eq!(syncs(), before);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert_eq!(syncs(), before + 2);
        let open = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DSYNC)
            .open(directory.path().join("file"));
        let file = open.unwrap();
        // SAFETY: four bytes, on an open descriptor.
        let written =
            unsafe { pwrite(std::os::fd::AsRawFd::as_raw_fd(&file), b"text".as_ptr().cast(), 4, 0) };
        assert_eq!((written, syncs()), (4, before + 3));
    }
}
