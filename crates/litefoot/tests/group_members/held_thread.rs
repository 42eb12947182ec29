//! A thread of another process that is held before one of its system calls, while the others of that process go on.
//!
//! The system's scheduler does the same to any thread, for as long as it likes. By `ptrace(2)` a test chooses the thread and the call.

use crate::kit::Process;
use libc::{c_int, c_uint, c_void, pid_t};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

/// The stop of a call, as `PTRACE_O_TRACESYSGOOD` tells it from a signal.
const CALL: c_int = libc::SIGTRAP | 0x80;
/// The beginning of `struct ptrace_syscall_info` where the stop is before a call.
#[repr(C)]
struct CallInfo {
    kind: u8,
    _places: [u64; 2],
    number: u64,
    arguments: [u64; 6],
}

/// The kind of such a stop that comes before the call.
const ENTRY: u8 = 1;
const PAUSE: Duration = Duration::from_micros(50);

/// The threads of a process that serve members.
pub(crate) fn serving(process: &Process) -> BTreeSet<pid_t> {
    // One that has just been started has no name yet.
    std::thread::sleep(Duration::from_millis(20));
    let threads = process.named_threads().into_iter();
    threads.filter(|(_, name)| name == "litefoot-member").map(|(thread, _)| thread).collect()
}

/// A thread of a child process. The thread that makes this does all that is done with it.
pub(crate) struct HeldThread(pid_t);

impl HeldThread {
    /// Holds a thread where it is.
    pub(crate) fn hold(thread: pid_t) -> HeldThread {
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        request(libc::PTRACE_SEIZE, thread, options as usize);
        request(libc::PTRACE_INTERRUPT, thread, 0);
        let held = HeldThread(thread);
        held.await_stop(Duration::from_secs(10)).unwrap();
        held
    }

    /// Lets it run to its call of that number, counted from 1; `false` where it makes no call for a while before.
    pub(crate) fn run_to_call(&self, last: usize) -> bool {
        self.run_to_call_where(last, |_| true)
    }

    /// The same behind its first wait. Waits, and looks whether somebody has locks, do not count.
    pub(crate) fn run_to_call_behind_waiting(&self, last: usize) -> bool {
        let (mut has_waited, mut is_behind) = (false, false);
        self.run_to_call_where(last, |call| {
            let is_pause = call.number == libc::SYS_clock_nanosleep as u64;
            let is_look =
                call.number == libc::SYS_fcntl as u64 && call.arguments[1] == libc::F_OFD_SETLK as u64;
            has_waited |= is_pause;
            is_behind |= has_waited && !is_pause && !is_look;
            is_behind && !is_pause && !is_look
        })
    }

    fn run_to_call_where(&self, last: usize, mut counts: impl FnMut(&CallInfo) -> bool) -> bool {
        let mut calls = 0;
        loop {
            request(libc::PTRACE_SYSCALL, self.0, 0);
            let Some(signal) = self.await_stop(Duration::from_millis(500)) else { return false };
            let call = (signal == CALL).then(|| self.call()).flatten();
            calls += usize::from(call.is_some_and(|call| counts(&call)));
            if calls == last {
                return true;
            }
        }
    }

    /// The signal with which it stops next; `None` where it does not in time.
    fn await_stop(&self, patience: Duration) -> Option<c_int> {
        let until = Instant::now() + patience;
        let mut status = 0;
        let flags = libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
        // SAFETY: the status outlives the call.
        while unsafe { libc::waitpid(self.0, &raw mut status, flags) } == 0 {
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    /// The call that it is about to make; `None` where it is behind one.
    fn call(&self) -> Option<CallInfo> {
        let mut info = MaybeUninit::<CallInfo>::zeroed();
        // SAFETY: the kernel writes as many bytes as it is told at most, and any bytes are such a structure.
        unsafe {
            let bytes = ptr::without_provenance_mut::<c_void>(size_of::<CallInfo>());
            let is_told = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.0, bytes, info.as_mut_ptr()) > 0;
            Some(info.assume_init()).filter(|info| is_told && info.kind == ENTRY)
        }
    }

    /// Kills its process.
    pub(crate) fn kill_with(self, process: Process) {
        // SAFETY: a child that nobody has waited for.
        unsafe { libc::kill(process.child.id().cast_signed(), libc::SIGKILL) };
        // The process is there until its threads have been waited for by those that hold them.
        let mut status = 0;
        // SAFETY: the status outlives the call.
        while unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL | libc::__WNOTHREAD) } > 0
            && libc::WIFSTOPPED(status)
        {}
        process.kill();
    }
}

fn request(request: c_uint, thread: pid_t, data: usize) {
    // SAFETY: the requests that are made here take a number, and change nothing in memory.
    let done = unsafe {
        libc::ptrace(request, thread, ptr::null_mut::<c_void>(), ptr::without_provenance_mut::<c_void>(data))
    };
    assert!(done >= 0, "{request}: {}", std::io::Error::last_os_error());
}
