//! One piece of work on a thread of its own, for which others wait.
//!
//! # Why
//! Whoever waits for a thread must hear of its end, however it ends. After a panic the state that it was changing is
//! unknown: nothing may be written on top of that.
//!
//! # What it promises
//! 1. Where a thread has started, `end` runs once, after `work` and everything that `work` owned are gone.
//! 2. A panic in `work` latches the database first, and `end` gets [`Error::Panic`].
//! 3. Where no thread is to be had, neither runs, and the caller does the work itself.

use crate::error::{Error, Result};
use litefoot_storage::file::SyncLatch;
use litefoot_storage::thread::spawn;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Starts `work` on a thread of that name; `end` gets its result. Whether there was a thread.
pub(crate) fn start<T>(
    name: &'static str,
    latch: &Arc<SyncLatch>,
    work: impl FnOnce() -> T + Send + 'static,
    end: impl FnOnce(Result<T>) + Send + 'static,
) -> bool {
    let latch = latch.clone();
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            let error = Error::Panic(format!("{name}: {}", text_of(&*panic)));
            latch.close(&error.to_string());
            error
        });
        drop(latch);
        end(result);
    };
    spawn(name, run).is_ok()
}

/// What a panic said.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::mpsc::channel;

    #[test]
    fn who_waits_for_a_thread_that_panics_hears_of_it_after_the_database_was_latched() {
        let latch = Arc::new(SyncLatch::new());
        for panics in [false, true] {
            let (sender, receiver) = channel();
            let owned = Arc::new(());
            let (inside, outside) = (owned.clone(), owned.clone());
            let work = move || {
                let _owned = inside;
                assert!(!panics, "on purpose");
                7
            };
            let seen = latch.clone();
            let end = move |result: Result<i32>| {
                let others = Arc::strong_count(&outside) - 2;
                sender.send((result, seen.reason().is_some(), others)).unwrap();
            };
            assert!(start("test", &latch, work, end));
            let (result, latched, others) = receiver.recv().unwrap();
            assert_eq!((result.is_err(), latched, others), (panics, panics, 0));
        }
        let error = latch.check(Path::new("a.db")).unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{error}");
    }
}
