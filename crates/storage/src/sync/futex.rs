//! Sleeping until a word of memory changes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word has this value, at most so long; may wake without a reason.
#[cfg(target_os = "linux")]
pub(super) fn wait(word: &AtomicU32, value: u32, at_most: Option<Duration>) {
    /// The time as the system call takes it: two machine words, whatever the C library makes of a time.
    #[repr(C)]
    struct Timeout {
        seconds: libc::c_long,
        nanoseconds: libc::c_long,
    }
    let timeout = at_most.map(|time| Timeout {
        seconds: libc::c_long::try_from(time.as_secs()).unwrap_or(libc::c_long::MAX),
        nanoseconds: time.subsec_nanos() as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time are valid for the call, which changes neither. Callers look again after any answer.
    unsafe { preserving_errno(|| libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout)) };
}

/// Wakes so many threads that sleep on the word.
#[cfg(target_os = "linux")]
pub(super) fn wake(word: &AtomicU32, most: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the address is only compared with those that are slept on.
    unsafe { preserving_errno(|| libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most)) };
}

/// An application may look at its own `errno` after a call that has waited here.
#[cfg(target_os = "linux")]
unsafe fn preserving_errno(call: impl FnOnce() -> libc::c_long) {
    // SAFETY: the address is that of the calling thread's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        call();
        *errno = before;
    }
}

/// Elsewhere a thread looks again and again.
#[cfg(not(target_os = "linux"))]
pub(super) fn wait(_word: &AtomicU32, _value: u32, at_most: Option<Duration>) {
    const PAUSE: Duration = Duration::from_micros(50);
    std::thread::sleep(at_most.map_or(PAUSE, |time| time.min(PAUSE)));
}

#[cfg(not(target_os = "linux"))]
pub(super) fn wake(_word: &AtomicU32, _most: i32) {}
