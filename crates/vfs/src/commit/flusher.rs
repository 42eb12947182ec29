//! Flusher: makes commits at `synchronous=NORMAL` durable within `flush_interval_ms` (PostgreSQL: WAL writer).
//!
//! # Promises
//! 1. Each commit is durable one interval after it asked for a flush, or after the flush under way has ended its pause.
//! 2. One flush serves all commits until the end of its pause.
//! 3. [`Flusher::finish`] ends the pause at once, and waits for the flush.

use litefoot_storage::file::SyncLatch;
use litefoot_storage::worker::{Run, Worker};
use std::sync::Arc;
use std::time::Duration;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushRequest {
    Begun,
    /// A flush that still pauses serves this commit, too.
    Served,
    /// The system has no thread: the commit must wait for its own sync.
    NoThread,
}

/// The background thread of one database.
#[derive(Default)]
pub(crate) struct Flusher {
    worker: Arc<Worker>,
}

impl Flusher {
    /// Begins a flush, unless one pauses. `work` gives what the thread does after the pause.
    pub fn request<F: FnOnce() + Send + 'static>(
        &self,
        latch: &Arc<SyncLatch>,
        interval: Duration,
        work: impl FnOnce() -> F,
    ) -> FlushRequest {
        let Some(claim) = self.worker.claim() else { return FlushRequest::Served };
        let flush = work();
        let run = move |run: &mut Run<()>| {
            // Commits from the end of the pause on need another run.
            run.pause(interval);
            flush();
        };
        match claim.start("litefoot-flush", latch, run) {
            Ok(()) => FlushRequest::Begun,
            Err(_) => FlushRequest::NoThread,
        }
    }

    /// The last connection closes: flushes now.
    pub fn finish(&self) {
        let _ = self.worker.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn one_flush_serves_all_requests_of_its_pause_and_finish_ends_it() {
        let (flusher, latch, flushes) = (Flusher::default(), Arc::default(), Arc::new(AtomicU32::new(0)));
        let request = || {
            flusher.request(&latch, LONG, || {
                let flushes = flushes.clone();
                move || {
                    flushes.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        let begun = Instant::now();
        assert_eq!(
            [request(), request(), request()],
            [FlushRequest::Begun, FlushRequest::Served, FlushRequest::Served]
        );
        assert_eq!(flushes.load(Ordering::Acquire), 0);
        flusher.finish();
        assert_eq!(flushes.load(Ordering::Acquire), 1);
        // A later request gets a flush of its own.
        assert_eq!(request(), FlushRequest::Begun);
        flusher.finish();
        assert_eq!(flushes.load(Ordering::Acquire), 2);
        assert!(begun.elapsed() < LONG);
    }

    #[test]
    fn a_flush_that_panics_latches_the_database() {
        let (flusher, latch) = (Flusher::default(), Arc::<SyncLatch>::default());
        flusher.request(&latch, LONG, || || panic!("on purpose"));
        flusher.finish();
        assert!(latch.reason().is_some());
    }
}
