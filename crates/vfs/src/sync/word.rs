//! Atomic words of the protocols between readers and exclusive holders.
//!
//! # Why
//! The protocols are written for any type of atomic word: a model checker puts its own words in the place of the processor's
//! (`exhaustive`). The compiler makes the same instructions of it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The operations of an atomic word that are needed.
pub(crate) trait Word<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    fn fetch_and(&self, value: T, order: Ordering) -> T;
    fn fetch_max(&self, value: T, order: Ordering) -> T;
    /// Puts `to` in the place of `from`; `false` where something else is there.
    fn replace(&self, from: T, to: T, order: Ordering) -> bool;
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_and(self, value, order)
            }
            #[inline]
            fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_max(self, value, order)
            }
            #[inline]
            fn replace(&self, from: $value, to: $value, order: Ordering) -> bool {
                self.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
            }
        }
    };
}

word!(AtomicU8, u8);
word!(AtomicU64, u64);
