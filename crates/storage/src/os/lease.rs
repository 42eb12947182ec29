//! File leases: word of an `open` by anybody else, before it returns.
//!
//! # Why
//! A lease (`F_SETLEASE`) is granted while one open file description of the file exists in the whole system. An `open` or
//! `truncate` by anybody then waits in the kernel until the lease is given back, 45 s at most
//! (`/proc/sys/fs/lease-break-time`). The kernel says so by a signal, and only by a signal.
//!
//! # What it promises
//! 1. No signal handler is installed, and no thread of the application gets a signal. The signals go to one thread, the
//!    broker, which blocks all of them and waits. It is started with the first lease of a process.
//! 2. No signal of a lease ends the process, wherever it goes. Its number is one that a process without a handler ignores
//!    ([`NUMBERS`]). Such a number is sent even where the system can queue no more. `SIGIO`, which ends processes, never comes
//!    in its place.
//! 3. No break is missed. The signal is queued from before the lease is granted, and the broker looks at all leases after each
//!    signal. One that the application's `sigaction` has discarded is replaced within [`MAX_UNNOTICED`].
//! 4. `on_break` runs in the broker, without a lock of the broker's, once for each granted lease. It may take and release
//!    leases. Breaks of two files wait for each other's `on_break`, and for nothing else.
//! 5. A lease ends with its file: it is given back, and forgotten here, before the descriptor's number is free again.
//! 6. A signal of the application's that reaches the broker goes on to the process. The broker then waits for another number,
//!    and where there is none, for no signal: it looks every [`LOOK_EVERY`].
//! 7. A forked child has no lease of its parent's: the descriptor is noted as locked ([`crate::fork`]). The child's first
//!    lease starts a broker of its own.
//!
//! The broker also hears of names that lead elsewhere ([`super::renames`]): the same thread, the same number, the same promises.
//!
//! # Limits
//! A signal that goes on to the process keeps its value, but of `kill` the sender is lost, and of `F_SETSIG` the file.

use super::renames::Names;
use crate::file::{LeaseAnswer, OnBreak};
use crate::sync::{AcrossFork, Condvar, Global, Mutex};
use crate::thread;
use libc::{c_int, pid_t, siginfo_t};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests of `fcntl` that the C library's crate does not name (asm-generic/fcntl.h).
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
/// A descriptor's owner is one thread.
const F_OWNER_TID: c_int = 0;
/// The code of a lease's signal (asm-generic/siginfo.h).
const POLL_MSG: c_int = 3;
/// The numbers that signals of leases may have. Both are ignored where they are not handled; a thread that blocks them gets them.
const NUMBERS: [c_int; 2] = [libc::SIGURG, libc::SIGWINCH];
/// Longest time until a break is found whose signal was discarded: `sigaction` does that to one that nobody has fetched yet.
pub(super) const MAX_UNNOTICED: Duration = Duration::from_secs(5);
/// The time between two looks where all numbers are the application's.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// `struct f_owner_ex` (asm-generic/fcntl.h).
#[repr(C)]
struct OwnerEx {
    kind: c_int,
    id: pid_t,
}

/// The lease of one descriptor.
#[derive(Default)]
pub(super) struct Lease {
    taken: AtomicBool,
}

impl Lease {
    /// Takes the lease, a former one given back first.
    pub fn take(&self, descriptor: RawFd, on_break: OnBreak) -> LeaseAnswer {
        let mut broker = BROKER.lock();
        let former = broker.forget(descriptor);
        let answer = broker.take(descriptor, on_break);
        self.taken.store(answer == LeaseAnswer::Granted, Ordering::Release);
        drop(broker);
        drop(former);
        answer
    }

    /// Gives the lease back, if there is one.
    pub fn release(&self, descriptor: RawFd) {
        if self.is_taken() {
            let mut broker = BROKER.lock();
            let former = broker.forget(descriptor);
            self.taken.store(false, Ordering::Release);
            drop(broker);
            drop(former);
        }
    }

    /// True until the lease is given back, also where it breaks.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

pub(super) static BROKER: Global<Broker> = Global::new(Broker::new());

/// All leases of the process, and all names that are watched.
pub(super) struct Broker {
    leases: Vec<Held>,
    pub(super) names: Names,
    /// The thread that gets the signals.
    thread: Option<pid_t>,
    /// The number of the signals.
    number: c_int,
    /// The numbers that were found to be the application's, one bit each.
    theirs: u64,
}

struct Held {
    descriptor: RawFd,
    on_break: OnBreak,
    told: bool,
}

impl Default for Broker {
    fn default() -> Broker {
        Broker::new()
    }
}

impl AcrossFork for Broker {
    fn inherit(parents: Broker) -> Broker {
        // What is called at a break is the parent's.
        std::mem::forget(parents);
        Broker::new()
    }
}

impl Broker {
    const fn new() -> Broker {
        Broker { leases: Vec::new(), names: Names::new(), thread: None, number: NUMBERS[0], theirs: 0 }
    }

    fn take(&mut self, descriptor: RawFd, on_break: OnBreak) -> LeaseAnswer {
        let Some(thread) = self.thread() else { return LeaseAnswer::Unsupported };
        // The kernel forgets both when a lease is given back. Without the number its signal would be one that ends the process.
        if !set_number(descriptor, self.number) || !set_owner(descriptor, thread) {
            return LeaseAnswer::Unsupported;
        }
        // SAFETY: the request takes a number and changes nothing in memory.
        if unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) } != 0 {
            return match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN) => LeaseAnswer::Company,
                _ => LeaseAnswer::Unsupported,
            };
        }
        self.leases.push(Held { descriptor, on_break, told: false });
        if is_breaking(descriptor) {
            self.wake(thread);
        }
        LeaseAnswer::Granted
    }

    /// Gives a lease back. Its `on_break` is to be dropped without the lock.
    fn forget(&mut self, descriptor: RawFd) -> Option<Held> {
        let at = self.leases.iter().position(|held| held.descriptor == descriptor)?;
        // SAFETY: the request takes a number and changes nothing in memory. The descriptor is its caller's.
        unsafe { libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK) };
        Some(self.leases.swap_remove(at))
    }

    /// The broker's thread, started where there is none yet.
    pub(super) fn thread(&mut self) -> Option<pid_t> {
        if self.thread.is_none() {
            self.number = unused_number(&usages(), 0);
            self.thread = start();
        }
        self.thread
    }

    /// The number of the signals that its thread waits for.
    pub(super) fn number(&self) -> c_int {
        self.number
    }

    /// Lets the broker look at all leases and names.
    pub(super) fn wake(&self, thread: pid_t) {
        // SAFETY: the signal is blocked in that thread, which is there for the life of the process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, self.number) };
    }

    /// The next lease that breaks, and was not told of it.
    fn next_break(&mut self) -> Option<OnBreak> {
        let held = self.leases.iter_mut().find(|held| !held.told && is_breaking(held.descriptor))?;
        held.told = true;
        Some(held.on_break.clone())
    }

    /// From now on the number is the application's.
    fn leave(&mut self, number: c_int) {
        self.theirs |= bit(number);
        if number == self.number {
            self.number = unused_number(&usages(), self.theirs);
            for held in &self.leases {
                set_number(held.descriptor, self.number);
            }
            self.names.set_number(self.number);
        }
    }
}

/// The bit of a signal's number.
fn bit(number: c_int) -> u64 {
    1u64.checked_shl(number.cast_unsigned() - 1).unwrap_or(0)
}

/// The number of the signal that a descriptor's events send.
pub(super) fn set_number(descriptor: RawFd, number: c_int) -> bool {
    // SAFETY: the request takes a number and changes nothing in memory.
    unsafe { libc::fcntl(descriptor, F_SETSIG, number) == 0 }
}

/// The thread that gets that signal.
pub(super) fn set_owner(descriptor: RawFd, thread: pid_t) -> bool {
    let owner = OwnerEx { kind: F_OWNER_TID, id: thread };
    // SAFETY: the structure is the request's, and outlives the call.
    unsafe { libc::fcntl(descriptor, F_SETOWN_EX, &raw const owner) == 0 }
}

/// True if the lease is gone, or somebody waits for it.
fn is_breaking(descriptor: RawFd) -> bool {
    // SAFETY: asks only.
    unsafe { libc::fcntl(descriptor, libc::F_GETLEASE) != libc::F_WRLCK }
}

/// What the application makes of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    number: c_int,
    /// It is handled, or ignored.
    handled: bool,
    /// The calling thread blocks it.
    blocked: bool,
}

fn is_handled(number: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action asks only; zeros are a value of the structure.
    unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction != libc::SIG_DFL
    }
}

/// What the application makes of the numbers that there are.
fn usages() -> [Usage; NUMBERS.len()] {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before the call, for which a null set asks only.
    let mask = unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    };
    NUMBERS.map(|number| Usage {
        number,
        handled: is_handled(number),
        // SAFETY: the set was filled in above.
        blocked: unsafe { libc::sigismember(&raw const mask, number) == 1 },
    })
}

/// The signal that the application uses least by all that is known. One that it waits for, it has blocked.
fn unused_number(usages: &[Usage], theirs: u64) -> c_int {
    let rank = |usage: &&Usage| (theirs & bit(usage.number) != 0, usage.blocked, usage.handled);
    usages.iter().min_by_key(rank).map_or(NUMBERS[0], |usage| usage.number)
}

/// A signal that has come to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrived {
    code: c_int,
    /// This process sent it; of `kill`, any process did.
    from_here: bool,
    handled: bool,
}

/// True if a signal was meant for the application.
fn is_theirs(signal: Arrived) -> bool {
    match signal.code {
        // Of a lease. An application that has leases itself takes a signal that is queued.
        POLL_MSG => false,
        libc::SI_TKILL => !signal.from_here,
        // A signal about which nothing could be noted has this code, and no sender.
        libc::SI_USER => signal.handled || signal.from_here,
        _ => true,
    }
}

fn arrived(info: &siginfo_t) -> Arrived {
    let from_here = match info.si_code {
        // SAFETY: signals with these codes have a sender.
        libc::SI_TKILL => unsafe { info.si_pid() == libc::getpid() },
        // SAFETY: as above.
        libc::SI_USER => unsafe { info.si_pid() != 0 },
        _ => false,
    };
    Arrived { code: info.si_code, from_here, handled: is_handled(info.si_signo) }
}

/// Gives a signal to the process. The kernel lets codes of its own be sent by the first thread only.
fn pass_on(info: &siginfo_t) {
    // SAFETY: the information is as the kernel has filled it in, and is for this process.
    unsafe {
        let sent =
            libc::syscall(libc::SYS_rt_sigqueueinfo, libc::getpid(), info.si_signo, ptr::from_ref(info));
        if sent != 0 {
            libc::kill(libc::getpid(), info.si_signo);
        }
    }
}

/// Starts the broker. Answers its thread's number, once all signals are blocked there.
fn start() -> Option<pid_t> {
    let started = Arc::new((Mutex::new(0), Condvar::new()));
    let theirs = started.clone();
    let run = move || {
        // SAFETY: the call has no preconditions.
        *theirs.0.lock() = unsafe { libc::syscall(libc::SYS_gettid) } as pid_t;
        theirs.1.notify_all();
        drop(theirs);
        serve();
    };
    thread::spawn("litefoot-lease", run).ok()?;
    let mut number = started.0.lock();
    started.1.wait_while(&mut number, |number| *number == 0);
    Some(*number)
}

/// The life of the broker.
fn serve() {
    loop {
        let (number, is_theirs_too, pause) = {
            let broker = BROKER.lock();
            let is_theirs_too = broker.theirs & bit(broker.number) != 0;
            (broker.number, is_theirs_too, broker.names.pause(Instant::now()).min(MAX_UNNOTICED))
        };
        let mut has_word = true;
        if is_theirs_too {
            std::thread::sleep(LOOK_EVERY);
        } else if let Some(info) = wait(number, pause) {
            if is_theirs(arrived(&info)) {
                // First: what is passed on must not come here again.
                BROKER.lock().leave(info.si_signo);
                pass_on(&info);
            }
        } else {
            has_word = false;
        }
        loop {
            let next = BROKER.lock().next_break();
            let Some(on_break) = next else { break };
            // The message of a panic was printed.
            let _ = catch_unwind(AssertUnwindSafe(|| on_break()));
        }
        super::renames::look(has_word);
    }
}

/// Waits for a signal; `None` where it is time to look without one.
fn wait(number: c_int, time: Duration) -> Option<siginfo_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut info = MaybeUninit::<siginfo_t>::zeroed();
    let mut limit = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: 0 };
    limit.tv_nsec = time.subsec_nanos() as _;
    // SAFETY: `sigemptyset` initialises the set before anything reads it. All three outlive the call, and zeros are a
    // value of the information.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), number);
        (libc::sigtimedwait(set.as_ptr(), info.as_mut_ptr(), &raw const limit) > 0)
            .then(|| info.assume_init())
    }
}

#[cfg(test)]
mod tests;
