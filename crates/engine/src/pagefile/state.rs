//! The state of a page: one word, changed by compare-and-swap (after vmcache and LeanStore).
//!
//! ```text
//! bits  0..32  frame, counted from 1; 0 where the page is not in memory
//! bits 32..48  holds
//! bit  48      its read is under way: nobody may look at the frame yet
//! bit  49      spared when the clock's hand comes by
//! bit  50      read ahead and wanted by nobody yet
//!
//!   EMPTY --begin--> READING --ready--> READY <--hold / let go--> READY, held
//!     ^                 |                  |
//!     +-----failed------+---- evict, only without holds
//! ```
//!
//! # Invariants
//! 1. Without the lock of the slow path, only `hold` and `let_go` change a word, and `hold` only a ready one.
//! 2. A frame belongs to the one page whose word names it. It is given to another only by a successful `evict`
//!    or by `failed`; both need that nobody holds it ready.
//! 3. `ready` releases what the read has written, `hold` acquires it; `let_go` releases what was read of the
//!    frame, `evict` acquires that. So a frame is neither read too early nor overwritten too early.

use std::sync::atomic::{AtomicU64, Ordering};

const FRAME: u64 = (1 << 32) - 1;
const HOLD: u64 = 1 << 32;
const HOLDS: u64 = 0xffff << 32;
const READING: u64 = 1 << 48;
const SPARED: u64 = 1 << 49;
const AHEAD: u64 = 1 << 50;

/// What a look at a word finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Empty,
    Reading,
    /// In memory, in that frame.
    Ready(u32),
}

/// The word of one page.
#[derive(Debug, Default)]
pub(super) struct State(AtomicU64);

fn frame_of(word: u64) -> u32 {
    ((word & FRAME) as u32).wrapping_sub(1)
}

impl State {
    /// Holds a page that is ready and has been wanted before: the way of every hit.
    #[inline]
    pub fn hold(&self) -> Option<u32> {
        self.hold_unless(READING | AHEAD)
    }

    /// Holds a page that is ready, wanted before or not.
    pub fn hold_ready(&self) -> Option<u32> {
        self.hold_unless(READING)
    }

    #[inline]
    fn hold_unless(&self, not: u64) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FRAME == 0 || word & not != 0 || word & HOLDS == HOLDS {
                return None;
            }
            let held = (word | SPARED) + HOLD;
            match self.0.compare_exchange_weak(word, held, Ordering::Acquire, Ordering::Relaxed) {
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

    pub fn look(&self) -> Found {
        let word = self.0.load(Ordering::Relaxed);
        match (word & FRAME, word & READING) {
            (0, _) => Found::Empty,
            (_, 0) => Found::Ready(frame_of(word)),
            _ => Found::Reading,
        }
    }

    /// A read into a frame begins, for somebody who holds the page from now on, or ahead. Under the lock.
    pub fn begin(&self, frame: u32, ahead: bool) {
        let word = (u64::from(frame) + 1) | READING | if ahead { AHEAD | SPARED } else { HOLD };
        self.0.store(word, Ordering::Relaxed);
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
        self.0.fetch_and(!(AHEAD | SPARED), Ordering::Relaxed) & AHEAD != 0
    }

    /// The frame holds the page. Under the lock.
    pub fn ready(&self) {
        self.0.fetch_and(!READING, Ordering::Release);
    }

    /// The read has failed: the frame is free, and those who joined hold nothing. Under the lock.
    pub fn failed(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The clock's hand comes by: takes the frame from the page, or spares it. Under the lock.
    pub fn evict(&self, frame: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & (HOLDS | READING) != 0 || word & FRAME != u64::from(frame) + 1 {
            return false;
        }
        if word & SPARED != 0 {
            self.0.fetch_and(!SPARED, Ordering::Relaxed);
            return false;
        }
        self.0.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_through_its_states() {
        let state = State::default();
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
    fn a_page_read_ahead_waits_for_its_first_use() {
        let state = State::default();
        state.begin(0, true);
        state.ready();
        assert_eq!((state.look(), state.hold()), (Found::Ready(0), None));
        assert!(state.first_use());
        assert!(!state.first_use());
        assert_eq!(state.hold(), Some(0));
        state.let_go();

        let unused = State::default();
        unused.begin(1, true);
        unused.ready();
        assert!(!unused.evict(1));
        assert!(unused.evict(1));
    }

    #[test]
    fn a_failed_read_leaves_nothing() {
        let state = State::default();
        state.begin(3, false);
        assert!(state.join());
        state.failed();
        assert_eq!(state.look(), Found::Empty);
    }

    #[test]
    fn holds_do_not_overflow() {
        let state = State::default();
        state.begin(3, false);
        state.ready();
        let more = (0..100_000).map_while(|_| state.hold()).count();
        assert_eq!(more, 0xffff - 1);
        assert!(!state.join());
        assert_eq!(state.look(), Found::Ready(3));
    }
}
