//! Relatives: processes related by fork share a database in turns.
//!
//! # Why
//! A server opens a database, forks its workers, and stays idle. Each worker opens the database as well, or goes on with the
//! connection that it has inherited. With stock SQLite that works: an idle process holds nothing. Here a process owns the
//! database for as long as it is open there. So a process that finds a relative in its way asks for the database. The
//! relative hands it over as soon as none of its connections is in a transaction (`open/handover.rs`).
//!
//! # How
//! A page of memory is shared with all children. A process that wants a database counts that up in the page, and rings there.
//! A thread of every owner sleeps on that; the thread exists only in a process that has relatives and owns a database. The
//! thread answers, whatever the outcome.
//!
//! # What it promises
//! 1. Nothing is decided by the page: the lock on the file says which process is the owner. A process that dies, or counts
//!    wrongly, costs time only.
//! 2. A process that asks waits for [`HEARD_TIMEOUT`] where no relative hears it, and for [`ANSWER_TIMEOUT`] at most.
//! 3. A process without relatives has no thread, and nothing to do.

use litefoot_storage::file::FileId;
use litefoot_storage::fork;
use litefoot_storage::sync::{AcrossFork, Global};
use litefoot_storage::thread::spawn;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time for which a process waits to be heard by a relative.
const HEARD_TIMEOUT: Duration = Duration::from_millis(400);
/// Time for which a process then waits for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Places for databases in the page. Databases that share a place are asked for together.
const PLACES: usize = 128;

/// A database that its owner may give up to a related process.
pub(crate) trait Lendable: Send + Sync {
    /// Tells whether this process owns it now.
    fn is_owned(&self) -> bool;

    /// Identity of its file, the same in all processes.
    fn file_id(&self) -> FileId;

    /// Tells whether relatives have asked for it since the last answer. They have asked `wanted` times so far.
    fn is_wanted(&self, wanted: u32) -> bool;

    /// Hands it over if no connection of this process is in a transaction, or else as soon as their transactions have ended.
    fn hand_over(&self, wanted: u32);
}

/// The page that all relatives share.
#[repr(C)]
struct SharedPage {
    /// Forks of processes that have the page.
    forks: AtomicU32,
    /// Counted up whenever an owner has something to do.
    notify: AtomicU32,
    /// Requests for the databases of a place.
    wanted: [AtomicU32; PLACES],
    /// Processes that wait for an answer.
    waiting: [AtomicU32; PLACES],
    /// Requests that an owner has heard.
    heard: [AtomicU32; PLACES],
    /// Requests that an owner has answered.
    answered: [AtomicU32; PLACES],
}

static PAGE: AtomicPtr<SharedPage> = AtomicPtr::new(ptr::null_mut());

/// Makes the page, which all children will have. Where that fails, no process has relatives.
pub(crate) fn make_page() {
    if !PAGE.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: a new mapping at an address of the system's choice; it is zeros, which the page may be.
    let page = unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(ptr::null_mut(), size_of::<SharedPage>(), protection, flags, -1, 0)
    };
    if page == libc::MAP_FAILED {
        return;
    }
    if PAGE.compare_exchange(ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: no other thread has seen it.
        unsafe { libc::munmap(page, size_of::<SharedPage>()) };
    }
}

fn page() -> Option<&'static SharedPage> {
    // SAFETY: null, or mapped for the life of the process; it holds nothing but atomics.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// The page, if there may be relatives.
fn relatives() -> Option<&'static SharedPage> {
    page().filter(|page| page.forks.load(Ordering::Relaxed) > 0)
}

/// Tells whether there may be relatives.
pub(crate) fn has_relatives() -> bool {
    relatives().is_some()
}

/// The place of a database in the page.
pub(crate) fn place_of(id: FileId) -> usize {
    let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % PLACES
}

/// Requests for a database so far.
pub(crate) fn wanted(place: usize) -> u32 {
    page().map_or(0, |page| page.wanted[place].load(Ordering::SeqCst))
}

/// Tells whether a process waits for a database.
pub(crate) fn is_awaited(place: usize) -> bool {
    page().is_some_and(|page| page.waiting[place].load(Ordering::SeqCst) > 0)
}

/// Asks relatives for a database, and calls `again` once one has answered; `None` where no relative hears that.
pub(crate) fn ask<T>(place: usize, waits: bool, again: impl FnOnce() -> Option<T>) -> Option<Answer<T>> {
    let page = relatives()?;
    let heard = page.heard[place].load(Ordering::SeqCst);
    let answered = page.answered[place].load(Ordering::SeqCst);
    page.waiting[place].fetch_add(1, Ordering::SeqCst);
    page.wanted[place].fetch_add(1, Ordering::SeqCst);
    wake_owners(page);
    let since = Instant::now();
    let answer = (waits && await_change(&page.heard[place], heard, since + HEARD_TIMEOUT)).then(|| {
        await_change(&page.answered[place], answered, since + ANSWER_TIMEOUT);
        again().map_or(Answer::Busy, Answer::Given)
    });
    page.waiting[place].fetch_sub(1, Ordering::SeqCst);
    answer
}

/// Waits for a word to change; `false` where it has not changed in time.
fn await_change(word: &AtomicU32, before: u32, end: Instant) -> bool {
    while word.load(Ordering::SeqCst) == before {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        futex(word, libc::FUTEX_WAIT, before, Some(left));
    }
    true
}

/// The answer to a request.
pub(crate) enum Answer<T> {
    /// The database was handed over, and taken.
    Given(T),
    /// A connection of the owner, or of a faster relative, is in a transaction.
    Busy,
}

/// The databases that this process owns and may hand over.
#[derive(Default)]
struct Owned {
    databases: Vec<Weak<dyn Lendable>>,
    /// Set while a thread answers requests.
    watched: bool,
}

impl AcrossFork for Owned {
    fn inherit(parents: Owned) -> Owned {
        // The databases are the parent's, and so is the thread.
        std::mem::forget(parents);
        Owned::default()
    }
}

static OWNED: Global<Owned> = Global::new(Owned { databases: Vec::new(), watched: false });

/// This process has become the owner of a database that it may hand over.
pub(crate) fn note_owned<D: Lendable + 'static>(database: &Arc<D>) {
    let database: Arc<dyn Lendable> = database.clone();
    let mut owned = OWNED.lock();
    owned
        .databases
        .retain(|other| other.strong_count() > 0 && !ptr::addr_eq(other.as_ptr(), Arc::as_ptr(&database)));
    owned.databases.push(Arc::downgrade(&database));
    drop(owned);
    watch();
}

/// Around a fork, in the parent: from now on there are relatives.
pub(crate) fn forked_in_parent() {
    let Some(page) = page() else { return };
    page.forks.fetch_add(1, Ordering::Relaxed);
    // A thread is started where that is harmless: not by a signal handler, nor by a program that is about to run another.
    // SAFETY: plain system calls on memory of this function.
    let is_calm = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked) == 0
            && (1..32).all(|signal| libc::sigismember(&raw const blocked, signal) != 1)
    };
    if is_calm {
        watch();
    }
}

/// Around a fork, in the child.
pub(crate) fn forked_in_child() {
    if let Some(page) = page() {
        page.forks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts the thread, unless it runs or has nothing to do.
fn watch() {
    let Some(page) = relatives() else { return };
    let mut owned = OWNED.lock();
    if owned.watched || owned.databases.is_empty() {
        return;
    }
    let generation = fork::generation();
    let run = move || keep_watch(page, generation);
    owned.watched = spawn("litefoot-turns", run).is_ok();
}

/// Answers requests until this process owns no database.
fn keep_watch(page: &'static SharedPage, generation: u32) {
    loop {
        let rings = page.notify.load(Ordering::SeqCst);
        let mut databases = Vec::new();
        {
            let mut owned = OWNED.lock();
            owned.databases.retain(|database| database.upgrade().is_some_and(|database| database.is_owned()));
            if owned.databases.is_empty() || generation != fork::generation() {
                owned.watched = false;
                return;
            }
            databases.extend(owned.databases.iter().filter_map(Weak::upgrade));
        }
        for database in databases {
            let place = place_of(database.file_id());
            let wanted = page.wanted[place].load(Ordering::SeqCst);
            if database.is_wanted(wanted) {
                count_and_wake(&page.heard[place]);
                database.hand_over(wanted);
                count_and_wake(&page.answered[place]);
            }
        }
        futex(&page.notify, libc::FUTEX_WAIT, rings, None);
    }
}

/// A transaction has ended in a database that was asked for, or the database was closed.
#[cold]
pub(crate) fn look_again() {
    if let Some(page) = relatives() {
        wake_owners(page);
    }
}

/// Wakes the threads of all owners.
fn wake_owners(page: &SharedPage) {
    count_and_wake(&page.notify);
}

/// Counts a word up, and wakes all threads that sleep on it.
fn count_and_wake(word: &AtomicU32) {
    word.fetch_add(1, Ordering::SeqCst);
    futex(word, libc::FUTEX_WAKE, i32::MAX as u32, None);
}

/// The futex call: sleeps on a word that several processes share, or wakes its sleepers.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, at_most: Option<Duration>) {
    /// The system call's timeout: two machine words.
    #[repr(C)]
    struct Timeout {
        seconds: libc::c_long,
        nanoseconds: libc::c_long,
    }
    let timeout = at_most.map(|time| Timeout {
        seconds: time.as_secs() as libc::c_long,
        nanoseconds: time.subsec_nanos() as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the time are valid for the call; callers look again, whatever it answers. The application's `errno`
    // is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout);
        *errno = before;
    }
}
