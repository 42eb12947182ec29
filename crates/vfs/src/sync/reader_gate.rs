//! The gate: how readers and an exclusive holder see each other without a lock on the reader's side.
//!
//! # Why
//! SQLite's file locks and the lock slots of the wal-index have the same traffic. Readers come and go all the time, and an
//! exclusive holder comes seldom. So a reader writes nothing but a word of its own, and the exclusive holder pays.
//!
//! # How
//! A reader announces itself in its [`Announcement`], and then looks whether the [`Gate`] is closed. An exclusive holder closes
//! the gate, and then looks at the announcements of all readers. Both do so in one order that all threads agree on, so at
//! least one of them sees the other. A reader that meets a closed gate takes its announcement back, and asks under the lock.
//!
//! # Invariants
//! 1. An announcement is written by its own handle, or under the lock that guards the gate.
//! 2. The gate changes under that lock only.

use crate::sync::word::Word;
use std::sync::atomic::{AtomicU8, Ordering};

/// One handle's word: what the handle has shared.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Announcement<W = AtomicU8>(W);

impl<W: Word<u8>> Announcement<W> {
    /// The word, for its own handle: nobody else changes it.
    #[inline]
    pub fn own(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// The word, for a thread that has closed the gate.
    #[inline]
    pub fn seen(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }

    /// Announces a word.
    #[inline]
    pub fn announce(&self, word: u8) {
        self.0.store(word, Ordering::SeqCst);
    }

    /// Puts a word in the place of another; `false` where somebody else has changed it. Where that is a thread that has closed the gate,
    /// it sees everything that was read before, as with [`Announcement::retract`].
    #[inline]
    pub fn replace(&self, from: u8, to: u8) -> bool {
        self.0.replace(from, to, Ordering::SeqCst)
    }

    /// Takes an announcement back. A thread that sees the new word sees everything that was read before. It may see the old
    /// word a little longer, and be told to wait.
    #[inline]
    pub fn retract(&self, word: u8) {
        self.0.store(word, Ordering::Release);
    }
}

/// The word of the exclusive holders: one bit for each thing that they hold, or are about to.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Gate<W = AtomicU8>(W);

impl<W: Word<u8>> Gate<W> {
    /// Announces `after` where none of the bits is closed. Otherwise the announcement is `before` again, and the answer
    /// `false`: the reader asks under the lock.
    #[inline]
    pub fn enter(&self, reader: &Announcement<W>, before: u8, after: u8, bits: u8) -> bool {
        reader.announce(after);
        if self.closed() & bits == 0 {
            return true;
        }
        reader.announce(before);
        false
    }

    /// The closed bits.
    #[inline]
    pub fn closed(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }

    /// The closed bits, under the lock, or for a first look.
    #[inline]
    pub fn glance(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Closes these bits and opens all others. Under the lock.
    #[inline]
    pub fn set(&self, bits: u8) {
        self.0.store(bits, Ordering::SeqCst);
    }

    /// Opens these bits. Under the lock.
    #[inline]
    pub fn open(&self, bits: u8) {
        self.0.fetch_and(!bits, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_reader_enters_unless_one_of_its_bits_is_closed() {
        // (closed, before, after, bits, entered, announced then)
        for (closed, before, after, bits, entered, announced) in [
            (0, 0, 1, u8::MAX, true, 1),
            (1, 0, 1, u8::MAX, false, 0),
            (0b0001, 0b1000, 0b1010, 0b0010, true, 0b1010),
            (0b0010, 0b1000, 0b1010, 0b0010, false, 0b1000),
            (0b0110, 0b1000, 0b1001, 0b1001, true, 0b1001),
        ] {
            let (gate, reader) = (<Gate>::default(), Announcement::default());
            reader.announce(before);
            gate.set(closed);
            assert_eq!(gate.enter(&reader, before, after, bits), entered, "{closed:b} {after:b}");
            assert_eq!((reader.own(), reader.seen()), (announced, announced), "{closed:b} {after:b}");
        }
    }

    #[test]
    fn opening_leaves_the_other_bits_closed() {
        let gate = <Gate>::default();
        gate.set(0b0111);
        gate.open(0b1010);
        assert_eq!((gate.closed(), gate.glance()), (0b0101, 0b0101));
    }

    /// Both may be refused, but never do both get what they want.
    #[test]
    fn a_reader_and_an_exclusive_holder_never_miss_each_other() {
        let (gate, reader, barrier) = (<Gate>::default(), Announcement::default(), Barrier::new(2));
        for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
            let entered = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    barrier.wait();
                    gate.enter(&reader, 0, 1, 1)
                });
                barrier.wait();
                gate.set(1);
                let is_alone = reader.seen() == 0;
                (other.join().unwrap_or_default(), is_alone)
            });
            assert_ne!(entered, (true, true));
            gate.set(0);
            reader.retract(0);
        }
    }
}
