//! Words of the checker's, threads that die between two accesses, and a board of such words.

use crate::sync::group_board::of_test::FewWords;
use crate::sync::word::Word;
use loom::sync::atomic::{AtomicU8, AtomicU64, fence};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

loom::lazy_static! {
    /// One access for each fence: the checker changes the order of accesses to one word, and not that of fences.
    static ref FENCES: AtomicU64 = AtomicU64::new(0);
}

loom::thread_local! {
    /// Set where the last write of the thread was sequentially consistent, and no such read has followed.
    static HAS_WRITTEN: Cell<bool> = Cell::new(false);
    /// The accesses that are left to a thread that dies.
    static LEFT: Cell<Option<usize>> = Cell::new(None);
}

/// The end of a thread that dies.
struct Dead;

/// Before each access: a thread dies here, or goes on.
fn access(order: Ordering, writes: bool) {
    LEFT.with(|left| match left.get() {
        Some(0) => resume_unwind(Box::new(Dead)),
        Some(more) => left.set(Some(more - 1)),
        None => {}
    });
    let is_ordered = order == Ordering::SeqCst;
    if writes {
        HAS_WRITTEN.with(|has_written| has_written.set(is_ordered));
    } else if is_ordered && HAS_WRITTEN.with(|has_written| has_written.replace(false)) {
        FENCES.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// Runs `body`, and dies in it after so many accesses to words: the answer is `None` then.
pub fn until_death<T>(accesses: usize, body: impl FnOnce() -> T) -> Option<T> {
    LEFT.with(|left| left.set(Some(accesses)));
    let ended = catch_unwind(AssertUnwindSafe(body));
    LEFT.with(|left| left.set(None));
    match ended {
        Ok(answer) => Some(answer),
        Err(end) if end.is::<Dead>() => None,
        Err(end) => resume_unwind(end),
    }
}

/// A word that is checked.
#[derive(Debug, Default)]
pub struct Checked<A>(A);

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for Checked<$atomic> {
            fn load(&self, order: Ordering) -> $value {
                access(order, false);
                self.0.load(if order == Ordering::SeqCst { Ordering::Acquire } else { order })
            }
            fn store(&self, value: $value, order: Ordering) {
                access(order, true);
                self.0.store(value, if order == Ordering::SeqCst { Ordering::Release } else { order });
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                access(order, true);
                self.0.fetch_add(value, order)
            }
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                access(order, true);
                self.0.fetch_and(value, order)
            }
            fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                access(order, true);
                self.0.fetch_max(value, order)
            }
            fn replace(&self, from: $value, to: $value, order: Ordering) -> bool {
                access(order, true);
                self.0.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
            }
        }
    };
}

word!(AtomicU8, u8);
word!(AtomicU64, u64);

pub type Slots = Checked<AtomicU8>;
pub type Number = Checked<AtomicU64>;

pub type CheckedWords = FewWords<Slots, Number>;
