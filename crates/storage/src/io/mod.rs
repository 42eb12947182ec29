//! The I/O queue: one for all reads and writes that should not block a thread.
//!
//! # Why
//! Requests that wait together can be sorted and merged: adjacent pages become one vectored operation (the disk access
//! coalescing of SMILE, section 3.3). A fiber that waits leaves its thread to the next one.
//!
//! # What it promises
//! 1. Every request is answered once: its `done` is called with its buffer and its own result, from a thread
//!    of the queue. Dropping the queue answers everything first.
//! 2. Requests of a file with a descriptor go through io_uring where the kernel allows it and the processor has 64
//!    bits. All others, and all of them elsewhere, go through [`File`] on a few threads: what counts or models sees
//!    each operation. Reads through the system's cache are announced to the system before the first of them is done
//!    ([`File::read_ahead`]). All are under way then, in the order in which they were submitted. Through the ring they
//!    take half as long again where they are not in the cache: it wakes its thread for each page.
//! 3. Merged requests are of one handle and one direction, adjacent, at most [`IoConfig::merge_bytes`].
//! 4. Where a merged read fails, its parts are read again one by one, so that an error reaches only those
//!    whose bytes are bad. Where a merged write fails, all its parts have failed.
//! 5. At most [`IoConfig::queue_requests`] requests wait; a thread that submits more waits for room.
//! 6. A ring is set up, used and taken down by a thread of the queue and by no other. The end of a ring interrupts the
//!    system calls of every thread that ever used it: those of an application would come back too early.
//!
//! # What it does not do
//! Order anything. Requests that overlap must not be in flight together; the pool's states see to that. It
//! does not sync.

mod backoff;
mod batch;
mod lane;
mod monitor;
mod request;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod ring;
pub mod scheduler;
mod threads;

pub use backoff::Backoff;
pub use monitor::Monitor;
pub use request::{Buffer, Completion, Direction, Request, Ticket};

use crate::file::File;
use crate::sync::{Mutex, Notify};
use crate::thread::{Handle, spawn};
use batch::Batch;
use lane::Lane;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The parameters of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoConfig {
    /// Threads for what does not go through io_uring.
    pub threads: usize,
    /// Requests that may wait.
    pub queue_requests: usize,
    /// Operations in flight at once through io_uring; 0 to do without it.
    pub ring_operations: u32,
    /// Largest merged operation, in bytes.
    pub merge_bytes: usize,
}

impl Default for IoConfig {
    fn default() -> IoConfig {
        IoConfig { threads: 2, queue_requests: 1024, ring_operations: 64, merge_bytes: 256 * 1024 }
    }
}

/// The system gives no thread to the queue.
#[derive(Debug, thiserror::Error)]
#[error("no thread for the I/O queue: {0}; end other threads, or raise the limit of this user")]
pub struct NoThread(std::io::Error);

/// Figures of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStatistics {
    /// Requests answered.
    pub requests: u64,
    /// Operations they were merged into.
    pub operations: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Operations of these that went through io_uring.
    pub ring_operations: u64,
}

/// Counters shared by the threads of a queue.
#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    operations: AtomicU64,
    bytes: AtomicU64,
    ring_operations: AtomicU64,
}

/// The queue.
pub struct IoQueue {
    config: IoConfig,
    counters: Arc<Counters>,
    /// The sender to the threads, once there are any.
    lanes: OnceLock<Lanes>,
    /// Set once there are. It orders what `OnceLock` orders as well, but inside the standard library, which comes
    /// compiled: there the thread sanitizer does not see it.
    has_lanes: AtomicBool,
    threads: Mutex<Vec<Handle>>,
}

struct Lanes {
    direct: Arc<Lane>,
    ring: Option<RingLane>,
}

/// The sender to the ring's thread.
struct RingLane {
    lane: Arc<Lane>,
    /// The kernel's answer to a request for a ring; unknown until the lane's thread has asked. If the kernel refuses,
    /// that thread serves the requests that it has got until then as the others do.
    allowed: Arc<Allowed>,
}

/// An answer that is given once.
#[derive(Default)]
struct Allowed {
    answer: AtomicU8,
    answered: Notify,
}

const NO_ANSWER: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Allowed {
    fn answer(&self, is_allowed: bool) {
        self.answer.store(if is_allowed { YES } else { NO }, Ordering::Release);
        self.answered.notify();
    }

    fn is_refused(&self) -> bool {
        self.answer.load(Ordering::Acquire) == NO
    }

    fn wait(&self) -> bool {
        loop {
            let rung = self.answered.count();
            match self.answer.load(Ordering::Acquire) {
                NO_ANSWER => self.answered.wait(rung),
                answer => return answer == YES,
            }
        }
    }
}

impl Lanes {
    /// The ring's lane, unless the kernel is known to allow no ring.
    fn for_ring(&self) -> Option<&Lane> {
        let ring = self.ring.as_ref()?;
        (!ring.allowed.is_refused()).then_some(&ring.lane)
    }
}

impl IoQueue {
    /// Starts the queue's threads and finds out whether io_uring can be used.
    ///
    /// # Errors
    /// [`NoThread`] where the system gives no thread.
    pub fn start(config: &IoConfig) -> Result<IoQueue, NoThread> {
        let queue = IoQueue::idle(config);
        queue.lanes()?;
        Ok(queue)
    }

    /// A queue whose threads start with its first request.
    pub fn idle(config: &IoConfig) -> IoQueue {
        let counters = Arc::new(Counters::default());
        IoQueue {
            config: config.clone(),
            counters,
            lanes: OnceLock::new(),
            has_lanes: AtomicBool::new(false),
            threads: Mutex::default(),
        }
    }

    fn lanes(&self) -> Result<&Lanes, NoThread> {
        if self.has_lanes.load(Ordering::Acquire)
            && let Some(lanes) = self.lanes.get()
        {
            return Ok(lanes);
        }
        let mut threads = self.threads.lock();
        if let Some(lanes) = self.lanes.get() {
            return Ok(lanes);
        }
        let direct = Arc::new(Lane::new(&self.config));
        for index in 0..self.config.threads.max(1) {
            let (lane, counters) = (direct.clone(), self.counters.clone());
            let run = move || threads::run(&lane, &counters);
            match spawn(format!("litefoot-io-{index}"), run) {
                Ok(thread) => threads.push(thread),
                // One is enough.
                Err(_) if index > 0 => break,
                Err(error) => return Err(NoThread(error)),
            }
        }
        let ring = self.start_ring(&mut threads);
        let lanes = self.lanes.get_or_init(|| Lanes { direct, ring });
        self.has_lanes.store(true, Ordering::Release);
        Ok(lanes)
    }

    /// Without it, all goes through the threads.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn start_ring(&self, threads: &mut Vec<Handle>) -> Option<RingLane> {
        if self.config.ring_operations == 0 {
            return None;
        }
        let alarm = ring::Alarm::new()?;
        let lane = Arc::new(Lane::with_alarm(&self.config, alarm.wake_up()));
        let allowed = Arc::new(Allowed::default());
        let (for_thread, answer) = (lane.clone(), allowed.clone());
        let (counters, operations) = (self.counters.clone(), self.config.ring_operations);
        let run = move || {
            let ring = ring::Ring::probe(operations, alarm);
            answer.answer(ring.is_some());
            match ring {
                Some(ring) => ring.run(&for_thread, &counters),
                None => threads::run(&for_thread, &counters),
            }
        };
        threads.push(spawn("litefoot-ring", run).ok()?);
        Some(RingLane { lane, allowed })
    }

    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    fn start_ring(&self, _threads: &mut Vec<Handle>) -> Option<RingLane> {
        None
    }

    /// True if requests of plain files go through io_uring. Waits until the kernel was asked.
    pub fn uses_ring(&self) -> bool {
        let lanes = self.lanes().ok();
        lanes.and_then(|lanes| lanes.ring.as_ref()).is_some_and(|ring| ring.allowed.wait())
    }

    /// Submits a request. Waits for room where too many wait already.
    pub fn submit(&self, request: Request) {
        self.submit_all(vec![request]);
    }

    /// Submits requests together, so that adjacent ones are merged.
    pub fn submit_all(&self, requests: Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        let Ok(lanes) = self.lanes() else {
            // No thread to be had: the caller waits.
            return requests.into_iter().for_each(|request| self.perform(request));
        };
        let Some(ring) = lanes.for_ring() else { return lanes.direct.push(requests) };
        let (for_ring, direct) = requests.into_iter().partition(Request::suits_ring);
        ring.push(for_ring);
        lanes.direct.push(direct);
    }

    /// Does a request on the calling thread, for callers that would wait for it and have nothing else to do.
    pub fn perform(&self, request: Request) {
        let mut batch = Batch::of(request);
        let result = batch.perform(0);
        batch.answer(result, &self.counters);
    }

    /// Answers the requests of a file that nobody has begun, with an error: for a file that is about to be closed.
    pub fn cancel(&self, file: &Arc<dyn File>) {
        let Some(lanes) = self.lanes.get() else { return };
        let lanes = lanes.ring.iter().map(|ring| &ring.lane).chain([&lanes.direct]);
        lanes.flat_map(|lane| lane.take_waiting(file)).for_each(batch::refuse);
    }

    /// Reads `buffer.bytes().len()` bytes from `offset`. The answer is short only where the file ends.
    pub fn read(&self, file: &Arc<dyn File>, offset: u64, buffer: impl Buffer + 'static) -> Ticket {
        self.ask(file, Direction::Read, offset, Box::new(buffer))
    }

    /// Writes the buffer at `offset`.
    pub fn write(&self, file: &Arc<dyn File>, offset: u64, buffer: impl Buffer + 'static) -> Ticket {
        self.ask(file, Direction::Write, offset, Box::new(buffer))
    }

    fn ask(
        &self,
        file: &Arc<dyn File>,
        direction: Direction,
        offset: u64,
        buffer: Box<dyn Buffer>,
    ) -> Ticket {
        let (ticket, done) = Ticket::new();
        self.submit(Request { file: file.clone(), direction, offset, buffer, done });
        ticket
    }

    /// The figures so far.
    pub fn statistics(&self) -> IoStatistics {
        IoStatistics {
            requests: self.counters.requests.load(Ordering::Relaxed),
            operations: self.counters.operations.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            ring_operations: self.counters.ring_operations.load(Ordering::Relaxed),
        }
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        if let Some(lanes) = self.lanes.get() {
            lanes.direct.close();
            lanes.ring.iter().for_each(|ring| ring.lane.close());
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().filter(|thread| !thread.is_current()).for_each(Handle::join);
    }
}

#[cfg(test)]
mod tests;
