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
//! 3. A child has memory of its own, zeros, where its parent shares memory with other processes ([`SharedMemory`]).
//! 4. The code that runs in the child at the fork allocates nothing and takes no lock.
//!
//! # Limits
//! A child that is made past the C library (`clone`, `_Fork`) is not noticed.

use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

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
    give_up();
}

/// What a child must not share with its parent, as many as fit; the next ones behind them.
struct Notes<S: 'static> {
    slots: [S; 62],
    next: AtomicPtr<Notes<S>>,
}

/// Memory that is shared with other processes: its address, and its bytes.
struct SharedRange {
    address: AtomicUsize,
    bytes: AtomicUsize,
}

/// No descriptor.
const NONE: RawFd = -1;
/// No address, and one that is not known yet.
const FREE: usize = 0;
const CLAIMED: usize = 1;

/// Descriptors of files that are locked.
static LOCKED: Notes<AtomicI32> =
    Notes { slots: [const { AtomicI32::new(NONE) }; 62], next: AtomicPtr::new(ptr::null_mut()) };
static SHARED: Notes<SharedRange> =
    Notes { slots: [const { SharedRange::new() }; 62], next: AtomicPtr::new(ptr::null_mut()) };

impl SharedRange {
    const fn new() -> SharedRange {
        SharedRange { address: AtomicUsize::new(FREE), bytes: AtomicUsize::new(0) }
    }
}

impl<S> Notes<S> {
    fn next(&self) -> Option<&'static Notes<S>> {
        // SAFETY: null, or leaked by `add`.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The first slot that can be taken; `new` makes further ones.
    fn put(&'static self, take: impl Fn(&&S) -> bool, new: fn() -> S) -> &'static S {
        let mut here = self;
        loop {
            if let Some(slot) = here.slots.iter().find(&take) {
                return slot;
            }
            here = here.next().unwrap_or_else(|| here.add(new));
        }
    }

    fn add(&'static self, new: fn() -> S) -> &'static Notes<S> {
        let notes = Notes { slots: std::array::from_fn(|_| new()), next: AtomicPtr::default() };
        let new = Box::into_raw(Box::new(notes));
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

    fn each(&'static self, mut act: impl FnMut(&S)) {
        let mut here = Some(self);
        while let Some(notes) = here {
            notes.slots.iter().for_each(&mut act);
            here = notes.next();
        }
    }
}

/// In a child: puts something harmless in the place of each descriptor, and zeros of its own in the place of shared memory.
fn give_up() {
    // SAFETY: plain system calls, allowed in a child; the application's `errno` is put back. The memory is a mapping whose
    // owner has noted it, and is replaced as a whole.
    unsafe {
        let errno = *libc::__errno_location();
        let mut nowhere = NONE;
        LOCKED.each(|slot| {
            let descriptor = slot.swap(NONE, Ordering::Relaxed);
            if descriptor == NONE {
                return;
            }
            if nowhere == NONE {
                nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            }
            if nowhere == NONE || libc::dup3(nowhere, descriptor, libc::O_CLOEXEC) < 0 {
                // The number may be taken by something else now, which is read only, and refuses all else.
                libc::close(descriptor);
            }
        });
        if nowhere != NONE {
            libc::close(nowhere);
        }
        SHARED.each(|slot| {
            let address = slot.address.swap(FREE, Ordering::Acquire);
            if address > CLAIMED {
                let bytes = slot.bytes.load(Ordering::Relaxed);
                let (protection, flags) =
                    (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let memory = ptr::with_exposed_provenance_mut(address);
                libc::mmap(memory, bytes, protection, flags | libc::MAP_FIXED, NONE, 0);
            }
        });
        *libc::__errno_location() = errno;
    }
}

/// The note that memory is shared with other processes, for as long as this lives. A child has zeros of its own there.
pub struct SharedMemory {
    slot: &'static SharedRange,
    address: usize,
}

impl SharedMemory {
    /// Notes that a whole mapping of this process's is, or becomes, a file.
    pub fn note(memory: NonNull<u8>, bytes: usize) -> SharedMemory {
        let take = |slot: &&SharedRange| {
            slot.address.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = SHARED.put(take, SharedRange::new);
        slot.bytes.store(bytes, Ordering::Relaxed);
        let address = memory.as_ptr().expose_provenance();
        slot.address.store(address, Ordering::Release);
        SharedMemory { slot, address }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // In a child it has another owner by now.
        let _ = self.slot.address.compare_exchange(self.address, FREE, Ordering::AcqRel, Ordering::Relaxed);
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
        let take = |slot: &&AtomicI32| {
            slot.compare_exchange(NONE, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        LockedFile { slot: LOCKED.put(take, || AtomicI32::new(NONE)), descriptor }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // In a child it has another owner by now.
        let _ = self.slot.compare_exchange(self.descriptor, NONE, Ordering::AcqRel, Ordering::Relaxed);
    }
}
