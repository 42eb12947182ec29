//! The C library's functions by their own names. Offsets are 64 bits wide here; elsewhere nothing is counted.

#![cfg(target_pointer_width = "64")]

use super::{closed, synced, synced_mapped, written};
use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

/// The kernel's answer to a call with the caller's arguments.
macro_rules! ask {
    ($number:expr, $($argument:expr),+) => {
        // SAFETY: the caller's own arguments, for the call that it wanted.
        unsafe { libc::syscall($number as c_long, $($argument),+) }
    };
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd);
    ask!(libc::SYS_fsync, fd) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd);
    ask!(libc::SYS_fdatasync, fd) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    if flags & libc::MS_SYNC != 0 {
        synced_mapped();
    }
    ask!(libc::SYS_msync, address, length, flags) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn close(fd: c_int) -> c_int {
    closed(fd);
    ask!(libc::SYS_close, fd) as c_int
}

/// Where a file stands after a write of that length: the write began so far before.
fn written_here(fd: c_int, length: ssize_t) -> ssize_t {
    let end = ask!(libc::SYS_lseek, fd, 0 as off_t, libc::SEEK_CUR);
    written(fd, end - length as off_t, length);
    length
}

fn written_at(fd: c_int, offset: off_t, length: ssize_t) -> ssize_t {
    written(fd, offset, length);
    length
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    written_here(fd, ask!(libc::SYS_write, fd, buffer, length) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    written_here(fd, ask!(libc::SYS_writev, fd, buffers, count) as ssize_t)
}

/// Both names of one function.
macro_rules! positioned {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t {
            written_at(fd, offset, ask!(libc::SYS_pwrite64, fd, buffer, length, offset) as ssize_t)
        }
    )+};
}
positioned!(pwrite pwrite64);

/// Both names of one function; the kernel has the offset in two halves, of which the first is all of it.
macro_rules! positioned_vectored {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, buffers: *const iovec, count: c_int, offset: off_t) -> ssize_t {
            written_at(fd, offset, ask!(libc::SYS_pwritev, fd, buffers, count, offset, 0) as ssize_t)
        }
    )+};
}
positioned_vectored!(pwritev pwritev64);
