//! Threads of litefoot inside another program.
//!
//! # Why
//! A signal that is meant for the process goes to any thread that lets it in. On a thread of litefoot it would run the
//! application's handler where the application expects none, on a small stack, perhaps under a lock. And the standard
//! library takes memory for a thread by a way of its own, which ends the process where there is none.
//!
//! # What it promises
//! 1. A thread that is started here lets no signal in, from its first instruction on. Signals of its own faults are let
//!    in, for programs that report crashes.
//! 2. The caller's own signals are as before.
//! 3. Where there is no thread, or no memory for one, that is an error. A panic ends the thread and nothing else.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The signals that a thread raises itself. To block them makes a fault kill the process without its handler.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// Address space for a stack, as the standard library has it.
const STACK_BYTES: usize = 2 << 20;

/// A thread that was started. Dropping it lets the thread go its way.
pub struct Handle {
    thread: libc::pthread_t,
    joined: bool,
}

// SAFETY: the name of a thread may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Waits for the end of the thread.
    pub fn join(mut self) {
        self.joined = true;
        // SAFETY: the thread was neither joined nor detached before: both take the handle.
        unsafe { libc::pthread_join(self.thread, ptr::null_mut()) };
    }

    /// True if it is the calling thread.
    pub fn is_current(&self) -> bool {
        // SAFETY: both are threads that were not joined.
        unsafe { libc::pthread_equal(self.thread, libc::pthread_self()) != 0 }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.joined {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(self.thread) };
        }
    }
}

/// The arguments of a new thread.
struct Start {
    name: CString,
    run: Box<dyn FnOnce() + Send>,
}

/// Starts a thread. The system shows the first 15 bytes of its name.
///
/// # Errors
/// Errors of the system, which may give none.
pub fn spawn(name: impl Into<Vec<u8>>, run: impl FnOnce() + Send + 'static) -> io::Result<Handle> {
    let mut name: Vec<u8> = name.into();
    name.truncate(15);
    let start = Box::new(Start { name: CString::new(name).unwrap_or_default(), run: Box::new(run) });
    let start = Box::into_raw(start).cast::<c_void>();
    // A new thread inherits what its parent blocks.
    let _blocked = Blocked::begin();
    let mut thread = MaybeUninit::uninit();
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised before they are used, and destroyed once; the thread takes the box over.
    let code = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let code = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin, start);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        code
    };
    if code != 0 {
        // SAFETY: no thread was made, and the box is still ours.
        drop(unsafe { Box::from_raw(start.cast::<Start>()) });
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: the call has succeeded and stored the thread.
    Ok(Handle { thread: unsafe { thread.assume_init() }, joined: false })
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` has leaked this box for this call.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    #[cfg(target_os = "linux")]
    // SAFETY: the name is NUL-terminated and short enough.
    unsafe {
        libc::pthread_setname_np(libc::pthread_self(), start.name.as_ptr());
    }
    IS_OURS.set(true);
    // A thread that waits for its work has a guard of its own.
    let _ = catch_unwind(AssertUnwindSafe(start.run));
    ptr::null_mut()
}

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread that was started here.
pub fn is_ours() -> bool {
    IS_OURS.get()
}

/// A number that tells the living threads of a process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(usize);

/// The thread that asks. Unlike the standard library's this takes no memory.
pub fn id() -> Id {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| Id(ptr::from_ref(here) as usize))
}

/// While this lives, its thread lets no signal in.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn begin() -> Blocked {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` initialises the set before anything reads it, and `pthread_sigmask` the other one. It
        // fails only for an unknown `how`. Both sets live throughout.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by `begin`, on this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn blocked(signal: libc::c_int) -> bool {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a null set asks only; the answer is written before it is read.
        unsafe {
            libc::sigemptyset(mask.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn threads_of_ours_let_no_signal_of_the_application_in() {
        let (sender, receiver) = channel();
        let ask = move || {
            let signals = [libc::SIGTERM, libc::SIGALRM, libc::SIGCHLD, libc::SIGUSR1, libc::SIGSEGV];
            sender.send(signals.map(blocked)).unwrap();
        };
        let before = blocked(libc::SIGTERM);
        spawn("asks", ask).unwrap().join();
        assert_eq!(receiver.recv().unwrap(), [true, true, true, true, false]);
        assert_eq!(blocked(libc::SIGTERM), before);
    }

    #[test]
    fn a_panic_ends_a_thread_and_nothing_else() {
        let (sender, receiver) = channel();
        let here = id();
        let panics = move || {
            sender.send(id() != here).unwrap();
            panic!("on purpose");
        };
        spawn("panics", panics).unwrap().join();
        assert_eq!((receiver.recv(), id()), (Ok(true), here));
    }
}
