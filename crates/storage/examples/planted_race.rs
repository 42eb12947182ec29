//! Two threads write one cell without a lock.
//!
//! The thread sanitizer must report it before its silence about anything else means something; see the
//! step `threads` of `cargo xtask test`.

use std::cell::UnsafeCell;

struct Unguarded(UnsafeCell<u64>);

// SAFETY: none, and that is the point: the cell is not guarded by anything.
unsafe impl Sync for Unguarded {}

impl Unguarded {
    fn count(&self) {
        for _ in 0..1000 {
            // SAFETY: none; see above.
            unsafe { *self.0.get() += 1 };
        }
    }
}

fn main() {
    let cell = Unguarded(UnsafeCell::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| cell.count());
        scope.spawn(|| cell.count());
    });
    println!("{}", cell.0.into_inner());
}
