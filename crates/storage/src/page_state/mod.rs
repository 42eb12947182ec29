//! The state of a page: one word, changed by compare-and-swap (after vmcache and LeanStore).
//!
//! ```text
//! bits  0..32  frame, counted from 1; 0 where the page is not in memory
//! bits 32..48  pins
//! bit  48      READING   its read is under way: no thread may look at the frame yet
//! bits 49..51  USAGE     how often the clock's hand spares it: at most three times
//! bit  51      AHEAD     read ahead, and not pinned yet
//! bit  52      DIRTY     its bytes are newer than those on the medium
//! bit  53      WRITING   one writer has it, and no other thread may look
//! bit  54      CLEANING  the cleaner has it: its bytes are on their way to the medium
//! bit  55      LATCHED   the page is being written on the medium, in memory or not: no new pins, no reads
//! bit  56      SPOILED   pinned when it should have been dropped: differs from the medium until it is
//!
//!   EMPTY --begin--> READING --ready--> READY <---pin / unpin---> READY, pinned
//!     ^ |               |              ^  |  ^ \--write / written--> READY, dirty
//!     | +--begin_new----|--------------|--+   \--clean / cleaned--> READY, of the cleaner
//!     +-----failed------+---- evict, forget: without pins
//!
//!   EMPTY or READY --latch--> the same, LATCHED --unlatch--> the same
//! ```
//!
//! # Invariants
//! 1. Without the lock of its partition, a word is changed by compare-and-swap only: from ready to ready. `evict` and
//!    `forget` alone change it from ready, not pinned and not being written or cleaned, to empty.
//! 2. A frame belongs to the one page whose word names it.
//! 3. A writer is alone: WRITING implies one pin. A dirty page is never evicted; only `forget` drops it.
//! 4. `ready` and `written` release what they have written; `pin`, `write` and `clean` acquire it. `unpin` and
//!    `cleaned` release what they have read; `evict`, `forget` and `write` acquire that. So a frame is neither read too
//!    early nor overwritten too early.
//! 5. A latched page gets no new pins, and is neither read nor evicted. The holders of older pins keep it, and see its
//!    bytes change, as in a mapped file. They rely only on bytes that do not change.

pub(crate) mod table;

use std::sync::atomic::{AtomicU64, Ordering};

const FRAME: u64 = (1 << 32) - 1;
const PIN: u64 = 1 << 32;
const PINS: u64 = 0xffff << 32;
const READING: u64 = 1 << 48;
const USE: u64 = 1 << 49;
const USAGE: u64 = 3 << 49;
const AHEAD: u64 = 1 << 51;
const DIRTY: u64 = 1 << 52;
const WRITING: u64 = 1 << 53;
const CLEANING: u64 = 1 << 54;
const LATCHED: u64 = 1 << 55;
const SPOILED: u64 = 1 << 56;
/// From this bit on: marks of pages whose older pins must not be used any more.
const NOT_STEADY: u32 = 55;

/// Most times that the clock's hand spares a page that is not used again.
pub(crate) const MOST_USAGE: usize = (USAGE / USE) as usize;

/// The operations of an atomic word that are needed, so that a model checker can stand in for it.
pub(crate) trait Word: Default {
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

/// The state of a page, as one look at its word finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Empty,
    Reading,
    /// In memory, in that frame, and one writer has it.
    Writing,
    /// In memory or not, and being written on the medium.
    Latched,
    /// In memory, in that frame.
    Ready(u32),
}

/// The outcome of forgetting a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgotten {
    /// It was not in memory.
    Empty,
    /// The page was in that frame, which is free of it now; true if it was dirty.
    Frame(u32, bool),
    /// It is pinned.
    Pinned,
    /// It is being read or cleaned: that ends by itself.
    Busy,
}

/// The outcome of latching a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latched {
    /// It is not in memory, and does not come there.
    Absent,
    /// It is in that frame, and has so many pins.
    Frame(u32, u64),
    /// It is being read, written or cleaned: that ends by itself.
    Busy,
}

/// The word of one page.
#[derive(Debug, Default)]
pub(crate) struct PageState<W = AtomicU64>(W);

fn frame_of(word: u64) -> u32 {
    ((word & FRAME) as u32).wrapping_sub(1)
}

impl<W: Word> PageState<W> {
    /// Holds a page that is ready and has been wanted before: the way of every hit.
    #[inline]
    pub fn pin(&self) -> Option<u32> {
        self.pin_unless(READING | WRITING | LATCHED | AHEAD)
    }

    /// Holds a page that is ready, wanted before or not.
    pub fn pin_ready(&self) -> Option<u32> {
        self.pin_unless(READING | WRITING | LATCHED)
    }

    /// The same without a trace: it was not wanted, only looked at.
    pub fn pin_quietly(&self) -> Option<u32> {
        self.pin_with(READING | WRITING | LATCHED, 0)
    }

    #[inline]
    fn pin_unless(&self, not: u64) -> Option<u32> {
        self.pin_with(not, USE)
    }

    #[inline]
    fn pin_with(&self, not: u64, usage: u64) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            // One hold too many would carry into READING.
            let pinned = word + PIN;
            if word & FRAME == 0 || (word | pinned) & (not | READING) != 0 {
                return None;
            }
            let used = if word & USAGE == USAGE { pinned } else { pinned + usage };
            match self.0.swap_if(word, used, Ordering::Acquire) {
                Ok(_) => return Some(frame_of(word)),
                Err(now) => word = now,
            }
        }
    }

    /// Unpins a page.
    #[inline]
    pub fn unpin(&self) {
        self.0.fetch_sub(PIN, Ordering::Release);
    }

    /// Takes a ready page without pins, for writing. Answers whether it was clean before.
    pub fn write(&self) -> Option<(u32, bool)> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FRAME == 0 || word & (READING | WRITING | CLEANING | LATCHED | PINS) != 0 {
                return None;
            }
            let used = if word & USAGE == USAGE { 0 } else { USE };
            let written = ((word & !AHEAD) + PIN + used) | WRITING | DIRTY;
            match self.0.swap_if(word, written, Ordering::Acquire) {
                Ok(_) => return Some((frame_of(word), word & DIRTY == 0)),
                Err(now) => word = now,
            }
        }
    }

    /// The writer is done.
    pub fn written(&self) {
        self.0.fetch_sub(PIN | WRITING, Ordering::Release);
    }

    /// The writer drops the page from memory, with its changes; answers its frame.
    pub fn discard(&self) -> u32 {
        // No other thread changes the word while the page is being written.
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

    /// True if a page that the caller has pinned is neither LATCHED nor SPOILED.
    #[inline]
    pub fn is_steady(&self) -> bool {
        self.0.load(Ordering::Acquire) >> NOT_STEADY == 0
    }

    /// Notes that a latched page, which is pinned, could not be brought up to date. A thread that finds it unlatched
    /// finds the mark, too.
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

    /// True if the page was pinned since it came into memory.
    pub fn is_wanted(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word & FRAME != 0 && word & AHEAD == 0
    }

    /// The number of pins.
    pub fn pins(&self) -> u64 {
        (self.0.load(Ordering::Relaxed) & PINS) / PIN
    }

    /// A read into a frame begins: for a thread that has pinned the page from now on, or ahead. Under the lock.
    pub fn begin(&self, frame: u32, ahead: bool) {
        let word = (u64::from(frame) + 1) | READING | if ahead { AHEAD | USE } else { PIN };
        self.0.store(word, Ordering::Relaxed);
    }

    /// A page that is not in memory gets a frame, for a writer of all its bytes. Under the lock.
    pub fn begin_new(&self, frame: u32) {
        self.0.store((u64::from(frame) + 1) | PIN | WRITING | DIRTY, Ordering::Relaxed);
    }

    /// Pins a page that is being read; `false` at the most pins. Under the lock.
    pub fn join(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & PINS == PINS {
            return false;
        }
        self.0.fetch_add(PIN, Ordering::Relaxed);
        true
    }

    /// The first use of a page that was read ahead; `false` where it is none. Under the lock. A page that a scan uses
    /// once does not evict pages that are used often.
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

    /// The frame has the page's bytes. Under the lock.
    pub fn ready(&self) {
        self.0.fetch_and(!READING, Ordering::Release);
    }

    /// The read has failed: the frame is free, and the pins of those who joined are gone. Under the lock.
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
                Ok(_) => return Latched::Frame(frame_of(word), (word & PINS) / PIN),
                Err(now) => word = now,
            }
        }
    }

    /// The medium has its new bytes, and the frame, too.
    pub fn unlatch(&self) {
        self.0.fetch_and(!LATCHED, Ordering::Release);
    }

    /// Takes a latched page out of memory, latched as it is; `None` where it is pinned.
    pub fn forget_latched(&self) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & PINS == 0 {
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
        let stays = PINS | READING | WRITING | CLEANING | LATCHED | DIRTY;
        if word & stays != 0 || word & FRAME != u64::from(frame) + 1 {
            return false;
        }
        if word & USAGE != 0 {
            // Where another thread changed the word, the page was used just now.
            let _ = self.0.swap_if(word, word - USE, Ordering::Relaxed);
            return false;
        }
        self.0.swap_if(word, 0, Ordering::Acquire).is_ok()
    }

    /// Takes the page out of memory, dirty or not, unless it is pinned.
    pub fn forget(&self) -> Forgotten {
        self.forget_unless(0)
    }

    /// The same, but a dirty page stays, and counts as pinned.
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
            if word & (PINS | not) != 0 {
                return Forgotten::Pinned;
            }
            match self.0.swap_if(word, 0, Ordering::Acquire) {
                Ok(_) => return Forgotten::Frame(frame_of(word), word & DIRTY != 0),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod exhaustive;
#[cfg(test)]
mod tests;
