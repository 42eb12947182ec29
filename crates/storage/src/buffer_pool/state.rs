//! The state of a page: one word, changed by compare-and-swap (after vmcache and LeanStore).
//!
//! ```text
//! bits  0..32  frame, counted from 1; 0 where the page is not in memory
//! bits 32..48  holds
//! bit  48      READING   its read is under way: nobody may look at the frame yet
//! bits 49..51  USAGE     how often the clock's hand spares it: at most three times
//! bit  51      AHEAD     read ahead and wanted by nobody yet
//! bit  52      DIRTY     its bytes are newer than those on the medium
//! bit  53      WRITING   one writer has it, and nobody else may look
//! bit  54      CLEANING  the cleaner has it: its bytes are on their way to the medium
//! bit  55      LATCHED   somebody writes the page on the medium, in memory or not: no new holds, no reads
//! bit  56      SPOILED   held when it should have gone: its bytes are not what the medium has, until it goes
//!
//!   EMPTY --begin--> READING --ready--> READY <--hold / let go--> READY, held
//!     ^ |               |              ^  |  ^ \--write / written--> READY, dirty
//!     | +--begin_new----|--------------|--+   \--clean / cleaned--> READY, of the cleaner
//!     +-----failed------+---- evict, forget: without holds
//!
//!   EMPTY or READY --latch--> the same, LATCHED --unlatch--> the same
//! ```
//!
//! # Invariants
//! 1. Without the lock of its partition a word is changed by compare-and-swap only, and from ready to ready, or,
//!    by `evict` and `forget`, from ready, not held and not being written or cleaned, to empty.
//! 2. A frame belongs to the one page whose word names it.
//! 3. A writer is alone: WRITING implies one hold. A dirty page is never evicted; only `forget` drops it.
//! 4. `ready` and `written` release what they have written, `hold`, `write` and `clean` acquire it; `let_go` and
//!    `cleaned` release what they have read, `evict`, `forget` and `write` acquire that. So a frame is neither
//!    read too early nor overwritten too early.
//! 5. A page that is latched gets no new holds, is neither read nor evicted. Those who hold it already keep it, and
//!    see its bytes change, as in a file that is mapped: they must know that what they need of it does not.

use std::sync::atomic::{AtomicU64, Ordering};

const FRAME: u64 = (1 << 32) - 1;
const HOLD: u64 = 1 << 32;
const HOLDS: u64 = 0xffff << 32;
const READING: u64 = 1 << 48;
const USE: u64 = 1 << 49;
const USAGE: u64 = 3 << 49;
const AHEAD: u64 = 1 << 51;
const DIRTY: u64 = 1 << 52;
const WRITING: u64 = 1 << 53;
const CLEANING: u64 = 1 << 54;
const LATCHED: u64 = 1 << 55;
const SPOILED: u64 = 1 << 56;
/// The bits from here on are those of pages that must not be looked at again by those who hold them.
const NOT_STEADY: u32 = 55;

/// Most times that the clock's hand spares a page that is not used again.
pub(super) const MOST_USAGE: usize = (USAGE / USE) as usize;

/// The operations of an atomic word that are needed, so that a model checker can stand in for it.
pub(super) trait Word: Default {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn swap_if(&self, old: u64, new: u64, order: Ordering) -> Result<u64, u64>;
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;
    fn fetch_and(&self, value: u64, order: Ordering) -> u64;
    fn fetch_or(&self, value: u64, order: Ordering) -> u64;
}

macro_rules! word {
    ($atomic:ty) => {
        impl Word for $atomic {
            #[inline]
            fn load(&self, order: Ordering) -> u64 {
                <$atomic>::load(self, order)
            }
            fn store(&self, value: u64, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline]
            fn swap_if(&self, old: u64, new: u64, order: Ordering) -> Result<u64, u64> {
                <$atomic>::compare_exchange_weak(self, old, new, order, Ordering::Relaxed)
            }
            fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline]
            fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
                <$atomic>::fetch_sub(self, value, order)
            }
            fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
                <$atomic>::fetch_and(self, value, order)
            }
            fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
                <$atomic>::fetch_or(self, value, order)
            }
        }
    };
}

word!(AtomicU64);

/// What a look at a word finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Empty,
    Reading,
    /// In memory, in that frame, and one writer has it.
    Writing,
    /// In memory or not, and being written on the medium.
    Latched,
    /// In memory, in that frame.
    Ready(u32),
}

/// What came of forgetting a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgotten {
    /// It was not in memory.
    Empty,
    /// It was in that frame, which is nobody's now; and whether it was dirty.
    Frame(u32, bool),
    /// Somebody holds it.
    Held,
    /// It is being read or cleaned: that ends by itself.
    Busy,
}

/// What came of latching a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latched {
    /// It is not in memory, and does not come there.
    Absent,
    /// It is in that frame, and so many hold it.
    Frame(u32, u64),
    /// It is being read, written or cleaned: that ends by itself.
    Busy,
}

/// The word of one page.
#[derive(Debug, Default)]
pub(super) struct State<W = AtomicU64>(W);

fn frame_of(word: u64) -> u32 {
    ((word & FRAME) as u32).wrapping_sub(1)
}

impl<W: Word> State<W> {
    /// Holds a page that is ready and has been wanted before: the way of every hit.
    #[inline]
    pub fn hold(&self) -> Option<u32> {
        self.hold_unless(READING | WRITING | LATCHED | AHEAD)
    }

    /// Holds a page that is ready, wanted before or not.
    pub fn hold_ready(&self) -> Option<u32> {
        self.hold_unless(READING | WRITING | LATCHED)
    }

    /// The same without a trace: it was not wanted, only looked at.
    pub fn hold_quietly(&self) -> Option<u32> {
        self.hold_with(READING | WRITING | LATCHED, 0)
    }

    #[inline]
    fn hold_unless(&self, not: u64) -> Option<u32> {
        self.hold_with(not, USE)
    }

    #[inline]
    fn hold_with(&self, not: u64, usage: u64) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            // One hold too many would carry into READING.
            let held = word + HOLD;
            if word & FRAME == 0 || (word | held) & (not | READING) != 0 {
                return None;
            }
            let used = if word & USAGE == USAGE { held } else { held + usage };
            match self.0.swap_if(word, used, Ordering::Acquire) {
                Ok(_) => return Some(frame_of(word)),
                Err(now) => word = now,
            }
        }
    }

    /// Lets go of a page that is held.
    #[inline]
    pub fn let_go(&self) {
        self.0.fetch_sub(HOLD, Ordering::Release);
    }

    /// Takes a page that is ready and that nobody holds, for writing. Answers whether it was clean before.
    pub fn write(&self) -> Option<(u32, bool)> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FRAME == 0 || word & (READING | WRITING | CLEANING | LATCHED | HOLDS) != 0 {
                return None;
            }
            let used = if word & USAGE == USAGE { 0 } else { USE };
            let written = ((word & !AHEAD) + HOLD + used) | WRITING | DIRTY;
            match self.0.swap_if(word, written, Ordering::Acquire) {
                Ok(_) => return Some((frame_of(word), word & DIRTY == 0)),
                Err(now) => word = now,
            }
        }
    }

    /// The writer is done.
    pub fn written(&self) {
        self.0.fetch_sub(HOLD | WRITING, Ordering::Release);
    }

    /// The writer takes the page out of memory with what it has written; answers its frame.
    pub fn discard(&self) -> u32 {
        // Nobody else changes the word while it says that it is being written.
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(0, Ordering::Release);
        frame_of(word)
    }

    /// Begins to clean a page; `None` where it is not dirty, or being written.
    pub fn clean(&self) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let there = word & FRAME != 0 && word & DIRTY != 0;
            if !there || word & (READING | WRITING | CLEANING | LATCHED) != 0 {
                return None;
            }
            match self.0.swap_if(word, (word & !DIRTY) | CLEANING, Ordering::Acquire) {
                Ok(_) => return Some(frame_of(word)),
                Err(now) => word = now,
            }
        }
    }

    /// The cleaner is done; where it has failed, the page is as dirty as before.
    pub fn cleaned(&self, done: bool) {
        if !done {
            self.0.fetch_or(DIRTY, Ordering::Relaxed);
        }
        self.0.fetch_and(!CLEANING, Ordering::Release);
    }

    /// Whether nobody latches a page that the caller holds, and nobody who did has left it as it should not be.
    #[inline]
    pub fn is_steady(&self) -> bool {
        self.0.load(Ordering::Acquire) >> NOT_STEADY == 0
    }

    /// A page that is latched, and held, cannot be made what it should be. Whoever finds it unlatched finds that, too.
    pub fn spoil(&self) {
        self.0.fetch_or(SPOILED, Ordering::Relaxed);
    }

    pub fn look(&self) -> Found {
        let word = self.0.load(Ordering::Relaxed);
        match word {
            _ if word & LATCHED != 0 => Found::Latched,
            _ if word & FRAME == 0 => Found::Empty,
            _ if word & READING != 0 => Found::Reading,
            _ if word & WRITING != 0 => Found::Writing,
            _ => Found::Ready(frame_of(word)),
        }
    }

    #[cfg(test)]
    pub fn is_dirty(&self) -> bool {
        self.0.load(Ordering::Relaxed) & DIRTY != 0
    }

    /// Whether somebody has wanted it since it came into memory.
    pub fn is_wanted(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & FRAME != 0 && word & AHEAD == 0
    }

    /// How many hold it.
    pub fn holds(&self) -> u64 {
        (self.0.load(Ordering::Relaxed) & HOLDS) / HOLD
    }

    /// A read into a frame begins, for somebody who holds the page from now on, or ahead. Under the lock.
    pub fn begin(&self, frame: u32, ahead: bool) {
        let word = (u64::from(frame) + 1) | READING | if ahead { AHEAD | USE } else { HOLD };
        self.0.store(word, Ordering::Relaxed);
    }

    /// A page that is not in memory gets a frame, for one who writes all of it. Under the lock.
    pub fn begin_new(&self, frame: u32) {
        self.0.store((u64::from(frame) + 1) | HOLD | WRITING | DIRTY, Ordering::Relaxed);
    }

    /// Holds a page that is being read; `false` where too many do already. Under the lock.
    pub fn join(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & HOLDS == HOLDS {
            return false;
        }
        self.0.fetch_add(HOLD, Ordering::Relaxed);
        true
    }

    /// The first use of a page that was read ahead; `false` where it is none. Under the lock. What a scan uses
    /// once does not push out what is used often.
    pub fn first_use(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & AHEAD != 0 {
            match self.0.swap_if(word, word & !(AHEAD | USAGE), Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The frame holds the page. Under the lock.
    pub fn ready(&self) {
        self.0.fetch_and(!READING, Ordering::Release);
    }

    /// The read has failed: the frame is free, and those who joined hold nothing. Under the lock.
    pub fn failed(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Latches a page whose bytes on the medium are about to change. Under the lock.
    pub fn latch(&self) -> Latched {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & (READING | WRITING | CLEANING | LATCHED) != 0 {
                return Latched::Busy;
            }
            match self.0.swap_if(word, word | LATCHED, Ordering::Acquire) {
                Ok(_) if word & FRAME == 0 => return Latched::Absent,
                Ok(_) => return Latched::Frame(frame_of(word), (word & HOLDS) / HOLD),
                Err(now) => word = now,
            }
        }
    }

    /// The medium has its new bytes, and the frame, too.
    pub fn unlatch(&self) {
        self.0.fetch_and(!LATCHED, Ordering::Release);
    }

    /// Takes a page that is latched out of memory, latched as it is; `None` where somebody holds it.
    pub fn forget_latched(&self) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & HOLDS == 0 {
            match self.0.swap_if(word, LATCHED, Ordering::Acquire) {
                Ok(_) => return Some(frame_of(word)),
                Err(now) => word = now,
            }
        }
        None
    }

    /// The clock's hand comes by: takes the frame from the page, or spares it.
    pub fn evict(&self, frame: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let stays = HOLDS | READING | WRITING | CLEANING | LATCHED | DIRTY;
        if word & stays != 0 || word & FRAME != u64::from(frame) + 1 {
            return false;
        }
        if word & USAGE != 0 {
            // Where somebody else changed it, it was used just now.
            let _ = self.0.swap_if(word, word - USE, Ordering::Relaxed);
            return false;
        }
        self.0.swap_if(word, 0, Ordering::Acquire).is_ok()
    }

    /// Takes the page out of memory, dirty or not, unless somebody holds it.
    pub fn forget(&self) -> Forgotten {
        self.forget_unless(0)
    }

    /// The same, but a dirty page stays, and counts as held.
    pub fn forget_clean(&self) -> Forgotten {
        self.forget_unless(DIRTY)
    }

    fn forget_unless(&self, not: u64) -> Forgotten {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & (READING | CLEANING | LATCHED) != 0 {
                return Forgotten::Busy;
            }
            if word & FRAME == 0 {
                return Forgotten::Empty;
            }
            if word & (HOLDS | not) != 0 {
                return Forgotten::Held;
            }
            match self.0.swap_if(word, 0, Ordering::Acquire) {
                Ok(_) => return Forgotten::Frame(frame_of(word), word & DIRTY != 0),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(frame: u32) -> State {
        let state = State::default();
        state.begin(frame, false);
        state.ready();
        state.let_go();
        state
    }

    #[test]
    fn a_page_goes_through_its_states() {
        let state = State::<AtomicU64>::default();
        assert_eq!((state.look(), state.hold()), (Found::Empty, None));
        state.begin(7, false);
        assert_eq!((state.look(), state.hold(), state.evict(7)), (Found::Reading, None, false));
        assert!(state.join());
        state.ready();
        assert_eq!((state.look(), state.hold()), (Found::Ready(7), Some(7)));
        // Three holds, and then none.
        for _ in 0..3 {
            assert!(!state.evict(7));
            state.let_go();
        }
        // It was used again: spared once.
        assert!(!state.evict(7));
        assert!(!state.evict(8));
        assert!(state.evict(7));
        assert_eq!(state.look(), Found::Empty);
    }

    #[test]
    fn however_often_a_page_is_used_it_is_spared_three_times() {
        let state = ready(1);
        for _ in 0..100 {
            state.hold().unwrap();
            state.let_go();
        }
        assert_eq!((0..10).position(|_| state.evict(1)), Some(MOST_USAGE));
    }

    #[test]
    fn a_page_read_ahead_waits_for_its_first_use() {
        let state = State::<AtomicU64>::default();
        state.begin(0, true);
        state.ready();
        assert_eq!((state.look(), state.hold()), (Found::Ready(0), None));
        assert!(state.first_use());
        assert!(!state.first_use());
        assert_eq!(state.hold(), Some(0));
        state.let_go();

        let unused = State::<AtomicU64>::default();
        unused.begin(1, true);
        unused.ready();
        assert!(!unused.evict(1));
        assert!(unused.evict(1));
    }

    #[test]
    fn a_latched_page_stays_where_it_is_and_nobody_comes() {
        let state = State::<AtomicU64>::default();
        assert_eq!(state.latch(), Latched::Absent);
        assert_eq!(
            (state.look(), state.latch(), state.forget()),
            (Found::Latched, Latched::Busy, Forgotten::Busy)
        );
        state.unlatch();
        assert_eq!(state.look(), Found::Empty);

        let state = ready(5);
        state.hold().unwrap();
        assert_eq!(state.latch(), Latched::Frame(5, 1));
        assert_eq!(
            (state.hold(), state.hold_ready(), state.write(), state.clean()),
            (None, None, None, None)
        );
        assert_eq!((state.forget_latched(), state.evict(5)), (None, false));
        assert!(!state.is_steady());
        state.let_go();
        assert!((0..10).all(|_| !state.evict(5)));
        assert_eq!(state.forget_latched(), Some(5));
        assert_eq!(state.look(), Found::Latched);
        state.unlatch();
        assert_eq!(state.look(), Found::Empty);
        state.begin(1, false);
        assert_eq!(state.latch(), Latched::Busy);
    }

    #[test]
    fn a_page_is_spoiled_until_it_goes() {
        let state = ready(2);
        state.hold().unwrap();
        assert!(state.is_steady());
        assert_eq!(state.latch(), Latched::Frame(2, 1));
        state.spoil();
        state.unlatch();
        assert!(!state.is_steady());
        state.let_go();
        assert_eq!(state.forget(), Forgotten::Frame(2, false));
        state.begin(3, false);
        state.ready();
        assert!(state.is_steady());
    }

    #[test]
    fn a_failed_read_leaves_nothing() {
        let state = State::<AtomicU64>::default();
        state.begin(3, false);
        assert!(state.join());
        state.failed();
        assert_eq!(state.look(), Found::Empty);
    }

    #[test]
    fn holds_do_not_overflow() {
        let state = ready(3);
        let more = (0..100_000).map_while(|_| state.hold()).count();
        assert_eq!(more, 0xffff);
        assert!(!state.join());
        assert_eq!((state.look(), state.holds()), (Found::Ready(3), 0xffff));
    }

    #[test]
    fn a_writer_is_alone_and_leaves_a_dirty_page_that_stays() {
        let state = ready(4);
        state.hold().unwrap();
        assert_eq!(state.write(), None);
        state.let_go();
        assert_eq!(state.write(), Some((4, true)));
        assert_eq!((state.hold(), state.write(), state.look()), (None, None, Found::Writing));
        assert_eq!((state.clean(), state.forget()), (None, Forgotten::Held));
        state.written();
        assert!(state.is_dirty() && (0..10).all(|_| !state.evict(4)));
        assert_eq!(state.write(), Some((4, false)));
        state.written();
        // Cleaning lets readers in, and neither writers nor the clock.
        assert_eq!(state.clean(), Some(4));
        assert_eq!((state.clean(), state.write(), state.forget()), (None, None, Forgotten::Busy));
        assert_eq!(state.hold(), Some(4));
        state.cleaned(false);
        assert!(state.is_dirty());
        state.let_go();
        assert_eq!(state.clean(), Some(4));
        state.cleaned(true);
        assert!(!state.is_dirty());
        assert_eq!(state.forget(), Forgotten::Frame(4, false));
        state.begin_new(9);
        state.written();
        assert_eq!((state.forget(), state.forget()), (Forgotten::Frame(9, true), Forgotten::Empty));
    }
}

/// Every interleaving of two or three threads, as far as the C11 memory model allows it.
#[cfg(all(test, target_pointer_width = "64"))]
mod exhaustive {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Checked;
    use loom::thread;

    word!(Checked);

    /// A page in frame 0, and the frame: the checker finds every access to it that is not ordered.
    struct Page {
        state: State<Checked>,
        frame: UnsafeCell<u64>,
    }

    // SAFETY: who may look at the frame is what the checker is asked.
    unsafe impl Sync for Page {}
    // SAFETY: as above.
    unsafe impl Send for Page {}

    impl Page {
        fn look(&self) -> u64 {
            // SAFETY: the checker fails the test where somebody writes meanwhile.
            self.frame.with(|value| unsafe { *value })
        }

        fn put(&self, value: u64) {
            // SAFETY: the checker fails the test where anybody looks or writes meanwhile.
            self.frame.with_mut(|place| unsafe { *place = value });
        }
    }

    fn page() -> Arc<Page> {
        let page = Page { state: State::default(), frame: UnsafeCell::new(1) };
        page.state.begin(0, false);
        page.state.ready();
        page.state.let_go();
        Arc::new(page)
    }

    fn read(page: &Page) -> Option<u64> {
        page.state.hold()?;
        let value = page.look();
        page.state.let_go();
        Some(value)
    }

    fn write(page: &Page, value: u64) -> bool {
        let taken = page.state.write().is_some();
        if taken {
            page.put(value);
            page.state.written();
        }
        taken
    }

    #[test]
    fn a_frame_that_was_taken_is_read_by_nobody() {
        loom::model(|| {
            let page = page();
            let other = page.clone();
            let reader = thread::spawn(move || read(&other));
            // Whoever evicts gives the frame to another page, whose bytes are then written.
            if page.state.evict(0) {
                page.put(2);
            }
            assert_ne!(reader.join().unwrap(), Some(2));
        });
    }

    #[test]
    fn a_read_is_seen_whole() {
        loom::model(|| {
            let page = Arc::new(Page { state: State::default(), frame: UnsafeCell::new(0) });
            page.state.begin(0, true);
            let other = page.clone();
            let reader = thread::spawn(move || {
                other.state.hold_ready().map(|_| {
                    let value = other.look();
                    other.state.let_go();
                    value
                })
            });
            page.put(7);
            page.state.ready();
            assert!(matches!(reader.join().unwrap(), None | Some(7)));
        });
    }

    #[test]
    fn a_writer_a_reader_and_the_clock_never_meet() {
        loom::model(|| {
            let page = page();
            let (first, second) = (page.clone(), page.clone());
            let writer = thread::spawn(move || write(&first, 3));
            let reader = thread::spawn(move || read(&second));
            let evicted = page.state.evict(0);
            if evicted {
                page.put(9);
            }
            let (written, seen) = (writer.join().unwrap(), reader.join().unwrap());
            assert!(!(written && evicted), "a page that was written was evicted");
            assert!(matches!(seen, None | Some(1 | 3)));
        });
    }

    #[test]
    fn what_is_being_cleaned_does_not_change() {
        loom::model(|| {
            let page = page();
            assert!(write(&page, 3));
            let other = page.clone();
            let writer = thread::spawn(move || write(&other, 4));
            let cleaned = page.state.clean().map(|_| {
                let before = page.look();
                let after = page.look();
                assert_eq!(before, after);
                page.state.cleaned(true);
                after
            });
            let written = writer.join().unwrap();
            let last = page.look();
            assert_eq!(last, if written { 4 } else { 3 });
            assert!(page.state.is_dirty() || cleaned == Some(last), "what was written is lost");
        });
    }

    #[test]
    fn what_is_written_under_a_latch_is_seen_whole() {
        loom::model(|| {
            let page = page();
            let (first, second) = (page.clone(), page.clone());
            let reader = thread::spawn(move || read(&first));
            let rival = thread::spawn(move || second.state.evict(0));
            let written = match page.state.latch() {
                Latched::Frame(0, 0) => {
                    page.put(4);
                    page.state.unlatch();
                    true
                }
                Latched::Busy => false,
                _ => {
                    page.state.unlatch();
                    false
                }
            };
            let (evicted, seen) = (rival.join().unwrap(), reader.join().unwrap());
            assert!(seen.is_none_or(|value| value == 1 || (value == 4 && written)));
            assert!(!evicted || page.state.look() == Found::Empty);
        });
    }

    #[test]
    fn a_page_is_forgotten_by_one_and_held_by_none() {
        loom::model(|| {
            let page = page();
            let (first, second) = (page.clone(), page.clone());
            let reader = thread::spawn(move || read(&first));
            let rival = thread::spawn(move || matches!(second.state.forget(), Forgotten::Frame(0, _)));
            let mine = matches!(page.state.forget(), Forgotten::Frame(0, _));
            if mine {
                page.put(5);
            }
            assert!(!(mine && rival.join().unwrap()));
            assert_ne!(reader.join().unwrap(), Some(5));
        });
    }
}
