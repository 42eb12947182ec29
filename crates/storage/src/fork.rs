//! Forked processes: locks, threads and descriptors that a child must not use.
//!
//! # Why
//! A child has its parent's memory and descriptors, and of its threads only the one that forked. Locks of other threads
//! stay taken for ever. A lock on an open file stays with the parent as long as any child has the descriptor.
//!
//! # What it promises
//! 1. [`generation`] differs between a process and its children; it costs one load.
//! 2. A child has none of the open files that its parent has locked ([`LockedFile`]): their descriptors stay taken, but lead
//!    nowhere. When the parent gives a lock up, or dies, the lock is gone.
//! 3. The code that runs in the child at the fork allocates nothing and takes no lock.
//!
//! # Limits
//! A child that is made past the C library (`clone`, `_Fork`) is not noticed.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of forks between the first process that has used this and the calling one.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The functions that the forking thread calls around a fork.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Before it.
    pub before: extern "C" fn(),
    /// After it in the parent, also where there is no child.
    pub in_parent: extern "C" fn(),
    /// After it in the child, where nothing may be allocated or waited for.
    pub in_child: extern "C" fn(),
}

/// Notices forks from now on. The first caller says what is done around them.
pub fn watch(hooks: Hooks) {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // Not a lock: a process that forks just now must not leave it to its child.
    if !WATCHED.swap(true, Ordering::AcqRel) {
        let [before, in_parent, in_child]: [unsafe extern "C" fn(); 3] =
            [hooks.before, hooks.in_parent, hooks.in_child];
        // SAFETY: the functions stay for the life of the process; those of the child do what is allowed there.
        unsafe {
            libc::pthread_atfork(None, None, Some(after_fork_in_child));
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        }
    }
}

unsafe extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    LOCKED.give_up();
}

/// Descriptors of files that are locked, as many as fit; the next ones behind them.
struct Descriptors {
    slots: [AtomicI32; 62],
    next: AtomicPtr<Descriptors>,
}

/// No descriptor.
const NONE: RawFd = -1;

static LOCKED: Descriptors = Descriptors::new();

impl Descriptors {
    const fn new() -> Descriptors {
        Descriptors { slots: [const { AtomicI32::new(NONE) }; 62], next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Descriptors> {
        // SAFETY: null, or leaked by `put`.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn put(&'static self, descriptor: RawFd) -> &'static AtomicI32 {
        let mut here = self;
        loop {
            let take = |slot: &&AtomicI32| {
                slot.compare_exchange(NONE, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if let Some(slot) = here.slots.iter().find(take) {
                return slot;
            }
            here = here.next().unwrap_or_else(|| here.add());
        }
    }

    fn add(&'static self) -> &'static Descriptors {
        let new = Box::into_raw(Box::new(Descriptors::new()));
        match self.next.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was just made, and stays for the life of the process.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: no other thread has seen the new one; the other one stays for the life of the process.
                unsafe {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }

    /// In a child: puts something harmless in the place of each.
    fn give_up(&'static self) {
        // SAFETY: plain system calls, allowed in a child; the application's `errno` is put back.
        unsafe {
            let errno = *libc::__errno_location();
            let mut nowhere = NONE;
            let mut here = Some(self);
            while let Some(descriptors) = here {
                for slot in &descriptors.slots {
                    let descriptor = slot.swap(NONE, Ordering::Relaxed);
                    if descriptor == NONE {
                        continue;
                    }
                    if nowhere == NONE {
                        nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                    }
                    if nowhere == NONE || libc::dup3(nowhere, descriptor, libc::O_CLOEXEC) < 0 {
                        // The number may be taken by something else now, which is read only, and refuses all else.
                        libc::close(descriptor);
                    }
                }
                here = descriptors.next();
            }
            if nowhere != NONE {
                libc::close(nowhere);
            }
            *libc::__errno_location() = errno;
        }
    }
}

/// The note that a file is locked, by its descriptor, for as long as this lives.
pub struct LockedFile {
    slot: &'static AtomicI32,
    descriptor: RawFd,
}

impl LockedFile {
    /// Notes that this process has, or may get, a lock on a file.
    pub fn note(descriptor: RawFd) -> LockedFile {
        LockedFile { slot: LOCKED.put(descriptor), descriptor }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // In a child it has another owner by now.
        let _ = self.slot.compare_exchange(self.descriptor, NONE, Ordering::AcqRel, Ordering::Relaxed);
    }
}
