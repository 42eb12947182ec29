//! Flusher: makes commits at `synchronous=NORMAL` durable within `flush_interval_ms` (PostgreSQL: WAL writer).
//!
//! # Why
//! A thread for each flush costs more than the flush, where commits keep coming. So one thread lives as long as they do, and a
//! commit tells it in one word of memory.
//!
//! # Promises
//! 1. The flush of a commit begins at most one interval after its request, or after the flush under way. On a slow device the
//!    interval is longer: flushes take no more than one part of [`SHARES`] of the time.
//! 2. One flush serves all commits until it begins.
//! 3. [`Flusher::finish`] flushes at once what was requested, and waits for the end of the thread.
//! 4. The thread ends after [`IDLE_INTERVALS`] without a commit.

use litefoot_storage::file::SyncLatch;
use litefoot_storage::worker::{Run, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Intervals without a commit after which the thread ends.
const IDLE_INTERVALS: u32 = 10;

/// Flushes take one part of so many of the time, and leave the others to reads and checkpoints.
const SHARES: u32 = 8;

/// What the thread has to do: there is none, it has nothing to do, it is to flush.
const NO_THREAD: u8 = 0;
const IDLE: u8 = 1;
const WANTED: u8 = 2;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushRequest {
    Begun,
    /// The thread that is there serves this commit, too.
    Served,
    /// The system has no thread: the commits so far must wait for their own sync.
    NoThread,
}

/// The background thread of one database.
#[derive(Default)]
pub(crate) struct Flusher {
    worker: Arc<Worker>,
    state: Arc<AtomicU8>,
}

impl Flusher {
    /// Requests a flush of everything written so far. `work` gives what flushes, for a thread that begins now; it answers
    /// `false` where nothing is there to be flushed any more.
    pub fn request<F: FnMut() -> bool + Send + 'static>(
        &self,
        latch: &Arc<SyncLatch>,
        interval: Duration,
        work: impl FnOnce() -> F,
    ) -> FlushRequest {
        // The flush takes the lock that the commit was written under after it has taken the request.
        if self.state.load(Ordering::Acquire) == WANTED
            || self.state.swap(WANTED, Ordering::AcqRel) != NO_THREAD
        {
            return FlushRequest::Served;
        }
        let (state, flush) = (self.state.clone(), work());
        let begun = self.worker.claim().is_some_and(|claim| {
            claim.start("litefoot-flush", latch, move |run| watch(run, &state, interval, flush)).is_ok()
        });
        if begun {
            return FlushRequest::Begun;
        }
        // Commits from now on try again; those before are the caller's.
        self.state.store(NO_THREAD, Ordering::Release);
        FlushRequest::NoThread
    }

    /// The last connection closes: flushes now.
    pub fn finish(&self) {
        let _ = self.worker.finish();
    }
}

/// The thread: flushes once in an interval while commits keep coming.
fn watch(run: &mut Run<()>, state: &AtomicU8, interval: Duration, mut flush: impl FnMut() -> bool) {
    let (mut idle, mut pause) = (0, interval);
    loop {
        let goes_on = run.pause(pause);
        if state.compare_exchange(WANTED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let begun = Instant::now();
            if !flush() {
                return;
            }
            (idle, pause) = (0, pause_after(interval, begun.elapsed()));
            continue;
        }
        idle += 1;
        let ends = !goes_on || idle >= IDLE_INTERVALS;
        if ends && state.compare_exchange(IDLE, NO_THREAD, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return;
        }
    }
}

/// The pause after a flush that took so long.
fn pause_after(interval: Duration, took: Duration) -> Duration {
    interval.max(took.saturating_mul(SHARES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(3_600);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn one_flush_serves_all_requests_of_its_pause_and_finish_ends_it() {
        let (flusher, latch, flushes) = (Flusher::default(), Arc::default(), Arc::new(AtomicU32::new(0)));
        let request = || {
            flusher.request(&latch, LONG, || {
                let flushes = flushes.clone();
                move || {
                    flushes.fetch_add(1, Ordering::AcqRel);
                    true
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
    fn one_thread_serves_commits_that_keep_coming_and_ends_behind_them() {
        let (flusher, latch) = (Flusher::default(), Arc::<SyncLatch>::default());
        let (flushed, flushes) = channel();
        let request = || {
            let flushed = flushed.clone();
            flusher.request(&latch, SHORT, || move || flushed.send(()).is_ok())
        };
        assert_eq!(request(), FlushRequest::Begun);
        for _ in 0..3 {
            flushes.recv().unwrap();
            // A thread that was kept waiting for long may have ended.
            request();
        }
        flushes.recv().unwrap();
        while flusher.worker.is_running() {
            std::thread::yield_now();
        }
        assert!(flushes.try_recv().is_err());
        assert_eq!(request(), FlushRequest::Begun);
        flusher.finish();
    }

    #[test]
    fn a_slow_device_has_longer_intervals() {
        let ms = Duration::from_millis;
        for (took, expected) in [(0, 10), (1, 10), (2, 14), (100, 700)] {
            assert_eq!(pause_after(ms(10), ms(took)), ms(expected), "{took}");
        }
        assert_eq!(pause_after(Duration::MAX, ms(1)), Duration::MAX);
    }

    #[test]
    fn a_thread_with_nothing_left_to_flush_ends() {
        let (flusher, latch) = (Flusher::default(), Arc::<SyncLatch>::default());
        flusher.request(&latch, SHORT, || || false);
        assert!(flusher.worker.wait().is_ok());
    }

    #[test]
    fn a_flush_that_panics_latches_the_database() {
        let (flusher, latch) = (Flusher::default(), Arc::<SyncLatch>::default());
        flusher.request(&latch, LONG, || || panic!("on purpose"));
        flusher.finish();
        assert!(latch.reason().is_some());
    }
}
