//! Threads of ours in somebody else's program.
//!
//! # Why
//! A signal that is meant for the process goes to any thread that lets it in. On one of ours it would run the
//! application's handler where the application expects none, on a small stack, perhaps under a lock of ours.
//!
//! # What it promises
//! 1. A thread that is started here lets no signal in, from its first instruction on, but for those that a fault of
//!    its own raises: whoever reports crashes is told of ours, too.
//! 2. The caller's own signals are as before.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// The signals that a thread raises itself. To block them makes a fault kill the process without its handler.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Starts a thread.
///
/// # Errors
/// When the system gives none.
pub fn spawn(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.into());
    // A new thread inherits what its parent blocks.
    let _blocked = Blocked::begin();
    builder.spawn(run)
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
        spawn("asks", ask).unwrap().join().unwrap();
        assert_eq!(receiver.recv().unwrap(), [true, true, true, true, false]);
        assert_eq!(blocked(libc::SIGTERM), before);
    }
}
