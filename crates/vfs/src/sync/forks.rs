//! Forks: SQLite's locks of the whole process, around a fork of the process.
//!
//! # Why
//! SQLite has a few locks of the whole process; every statement takes that of its memory. If another thread is inside one of
//! them when the application forks, the child waits for that lock for ever. Stock SQLite has that hazard. Here it would be
//! larger: threads of ours checkpoint, and other threads wait less for the medium. So the thread that forks takes these
//! locks, and gives them back on both sides. The C library does the same with the locks of its own memory.
//!
//! # What it promises
//! 1. At a fork no thread but the forking one is inside a lock of SQLite's whole process.
//! 2. Nor is a thread of ours in SQLite's code, except in calls of ours from there: reads, writes and syncs.
//! 3. A fork waits for as long as SQLite computes, which is microseconds, and at most [`MAX_FORK_WAIT`]. That holds in a signal
//!    handler and inside SQLite, too.

use crate::ffi::Sqlite3Mutex;
use crate::ffi::api::Api;
use crate::ffi::codes::SQLITE_OK;
use crate::sync::relatives;
use litefoot_storage::fork::{self, Hooks};
use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// SQLite's locks of the whole process (`SQLITE_MUTEX_STATIC_*`), in the order in which SQLite takes them. They are the main
/// lock, and those of memory, of opening, of random numbers, of pages (two), and of SQLite's own VFS (three).
const STATIC_MUTEXES: [c_int; 9] = [2, 11, 12, 13, 4, 6, 7, 5, 3];

/// The locks of one SQLite library in the process.
struct Library {
    api: &'static Api,
    mutexes: [Mutex; STATIC_MUTEXES.len()],
    next: *mut Library,
}

/// One of these locks.
#[derive(Default)]
struct Mutex {
    mutex: AtomicPtr<Sqlite3Mutex>,
    /// The forking thread that has it; 0 for none.
    taken: AtomicUsize,
}

/// The SQLite libraries of the process; each stays for the life of the process.
static LIBRARIES: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());

/// Guards the locks of a library from now on. SQLite is initialised, or is being initialised.
pub(crate) fn guard(api: &'static Api) {
    let mutexes: [Mutex; STATIC_MUTEXES.len()] = Default::default();
    for (mutex, number) in mutexes.iter().zip(STATIC_MUTEXES) {
        // SAFETY: a number of a static mutex; SQLite returns null where it has none.
        mutex.mutex.store(unsafe { (api.mutex_alloc)(number) }, Ordering::Relaxed);
    }
    let library = Box::into_raw(Box::new(Library { api, mutexes, next: ptr::null_mut() }));
    let mut first = LIBRARIES.load(Ordering::Acquire);
    loop {
        // SAFETY: just made, and unknown to any other thread yet; those before it are leaked.
        if unsafe { is_guarded(first, &(*library).mutexes) } {
            // A fork would wait in vain for locks that it has taken already.
            // SAFETY: as above.
            return drop(unsafe { Box::from_raw(library) });
        }
        // SAFETY: as above.
        unsafe { (*library).next = first };
        match LIBRARIES.compare_exchange(first, library, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// True if one of the libraries has these locks: it is registered once more.
///
/// # Safety
/// The libraries are leaked, or there is none.
unsafe fn is_guarded(first: *const Library, mutexes: &[Mutex]) -> bool {
    let address = |mutex: &Mutex| mutex.mutex.load(Ordering::Relaxed);
    let mut next = first;
    // SAFETY: the caller's promise.
    while let Some(library) = unsafe { next.as_ref() } {
        if library.mutexes.iter().map(address).eq(mutexes.iter().map(address)) {
            return true;
        }
        next = library.next;
    }
    false
}

fn each_mutex(mut act: impl FnMut(&Library, &Mutex)) {
    let mut next = LIBRARIES.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `guard`.
    while let Some(library) = unsafe { next.as_ref() } {
        library.mutexes.iter().for_each(|mutex| act(library, mutex));
        next = library.next;
    }
}

/// Takes the locks that can be had in time. The forking thread may hold some of them itself.
fn take_mutexes(end: Instant) {
    each_mutex(|library, Mutex { mutex, taken }| {
        let mutex = mutex.load(Ordering::Relaxed);
        while !mutex.is_null() {
            // SAFETY: a static mutex of this library.
            if unsafe { (library.api.mutex_try)(mutex) } == SQLITE_OK {
                return taken.store(this_thread(), Ordering::Relaxed);
            }
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    });
}

/// Gives back the locks that this thread has taken.
fn give_mutexes_back() {
    each_mutex(|library, Mutex { mutex, taken }| {
        if taken.load(Ordering::Relaxed) == this_thread() {
            taken.store(0, Ordering::Relaxed);
            // SAFETY: this thread has taken it.
            unsafe { (library.api.mutex_leave)(mutex.load(Ordering::Relaxed)) };
        }
    });
}

/// Longest time that a fork waits.
const MAX_FORK_WAIT: Duration = Duration::from_millis(100);
/// Time between two looks of a waiting thread.
const PAUSE: Duration = Duration::from_micros(50);

/// Threads of ours in SQLite's code. Those of a parent do not count in its child.
static IN_SQLITE: AtomicU32 = AtomicU32::new(0);
/// Forks under way. Those of a parent do not count in its child.
static FORKING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Set while this thread is in SQLite's code.
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Identity of this thread, the same in a child.
fn this_thread() -> usize {
    ENTERED.with(|entered| ptr::from_ref(entered).addr())
}

/// Watches for forks from now on.
pub(crate) fn watch() {
    relatives::make_page();
    fork::watch(Hooks { before, in_parent, in_child });
}

extern "C" fn before() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let end = Instant::now() + MAX_FORK_WAIT;
    while IN_SQLITE.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    take_mutexes(end);
}

extern "C" fn in_parent() {
    give_mutexes_back();
    FORKING.fetch_sub(1, Ordering::SeqCst);
    relatives::forked_in_parent();
}

extern "C" fn in_child() {
    give_mutexes_back();
    IN_SQLITE.store(0, Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
    relatives::forked_in_child();
}

/// A stay of the calling thread in SQLite's code.
pub(crate) struct InSqlite(PhantomData<*const ()>);

impl InSqlite {
    /// Waits for forks under way; then no fork begins before the thread is out again.
    pub fn enter() -> InSqlite {
        enter();
        ENTERED.set(true);
        InSqlite(PhantomData)
    }
}

impl Drop for InSqlite {
    fn drop(&mut self) {
        ENTERED.set(false);
        leave();
    }
}

/// Does slow work in a call from SQLite, or between two calls. The process may fork meanwhile.
pub(crate) fn outside<T>(work: impl FnOnce() -> T) -> T {
    struct Again;
    impl Drop for Again {
        fn drop(&mut self) {
            enter();
        }
    }
    if !ENTERED.get() {
        return work();
    }
    leave();
    let _again = Again;
    work()
}

fn enter() {
    loop {
        IN_SQLITE.fetch_add(1, Ordering::SeqCst);
        if FORKING.load(Ordering::SeqCst) == 0 {
            return;
        }
        leave();
        while FORKING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(PAUSE);
        }
    }
}

fn leave() {
    IN_SQLITE.fetch_sub(1, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CStr, c_void};

    /// The locks of an SQLite that has nothing else; each is free at any time.
    fn locks() -> &'static Api {
        static MUTEXES: [u8; 16] = [0; 16];
        extern "C" fn alloc(number: c_int) -> *mut Sqlite3Mutex {
            ptr::from_ref(&MUTEXES[number as usize]).cast_mut().cast()
        }
        extern "C" fn nothing() -> c_int {
            SQLITE_OK
        }
        fn function(name: &CStr) -> *const c_void {
            if name == c"sqlite3_mutex_alloc" { alloc as *const c_void } else { nothing as *const c_void }
        }
        // SAFETY: `alloc` has its function's type; the others are called for locks alone, and look at nothing.
        Box::leak(Box::new(unsafe { Api::from_symbols(function) }.unwrap()))
    }

    #[test]
    fn a_library_that_is_registered_again_has_its_locks_taken_once() {
        guard(locks());
        guard(locks());
        // SAFETY: it looks at nothing.
        let main = unsafe { (locks().mutex_alloc)(STATIC_MUTEXES[0]) };
        let mut times = 0;
        each_mutex(|_, mutex| times += i32::from(mutex.mutex.load(Ordering::Relaxed) == main));
        assert_eq!(times, 1);
    }
}
