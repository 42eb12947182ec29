//! Reads and writes through io_uring.
//!
//! One thread owns the ring: it sets the ring up, alone submits to it, and takes it down. With nothing in flight, the
//! thread waits at the lane. Else it waits in the ring, for a completion or for its alarm, an eventfd that the ring
//! polls.
//!
//! # Invariants
//! 1. A batch whose operation the kernel has is in a box that only the completion with its address takes back.
//!    Buffers are therefore neither freed nor touched while the kernel may use them, and the file stays open.
//! 2. Besides the alarm's, at most as many operations are in flight as the submission queue has entries. The completion
//!    queue has twice that many, so that none is lost.

use super::batch::Batch;
use super::lane::{Lane, WakeUp};
use super::request::Direction;
use super::{Counters, Ordering};
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The completion of the alarm's poll; no box has this address.
const ALARM: u64 = 0;

/// The pause of the thread when the kernel refuses to take submissions, for want of memory or room.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Ring {
    ring: IoUring,
    limit: usize,
    alarm: Alarm,
    alarm_set: bool,
    in_flight: usize,
}

/// Wakes the ring's thread while it waits in the ring.
pub(super) struct Alarm {
    eventfd: Arc<OwnedFd>,
}

/// The operations that the kernel has.
struct InFlight {
    batch: Batch,
    vectors: Vec<libc::iovec>,
}

impl Alarm {
    /// An alarm, where there is a descriptor for it.
    pub fn new() -> Option<Alarm> {
        // SAFETY: a plain system call.
        let eventfd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if eventfd < 0 {
            return None;
        }
        // SAFETY: the descriptor was made just now, and has no other owner.
        Some(Alarm { eventfd: Arc::new(unsafe { OwnedFd::from_raw_fd(eventfd) }) })
    }

    /// Rings it.
    pub fn wake_up(&self) -> WakeUp {
        let eventfd = self.eventfd.clone();
        Box::new(move || {
            let one = 1u64;
            // SAFETY: eight bytes from a live variable. It fails only where the counter is full, and then the
            // alarm rings already.
            let _ = unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
        })
    }

    fn descriptor(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    fn quiet(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes into a live variable; the descriptor does not block.
        let _ = unsafe { libc::read(self.descriptor(), (&raw mut count).cast(), 8) };
    }
}

impl Ring {
    /// A ring for the calling thread, where the kernel allows one.
    pub fn probe(operations: u32, alarm: Alarm) -> Option<Ring> {
        let ring = open(operations.saturating_add(1))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        let needed = [opcode::Readv::CODE, opcode::Writev::CODE, opcode::PollAdd::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return None;
        }
        Some(Ring { ring, limit: operations as usize, alarm, alarm_set: false, in_flight: 0 })
    }

    /// Works until the lane is closed and empty.
    pub fn run(mut self, lane: &Lane, counters: &Counters) {
        loop {
            if self.in_flight == 0 {
                match lane.next() {
                    Some(batch) => self.push(batch),
                    None => return,
                }
            }
            let mut sleeps = false;
            while self.in_flight < self.limit && !sleeps {
                match lane.next_or_sleep_elsewhere() {
                    Some(batch) => self.push(batch),
                    None => sleeps = true,
                }
            }
            if sleeps && !self.alarm_set {
                self.set_alarm();
            }
            if self.ring.submit_and_wait(1).is_err() {
                // Nothing is lost: what was not taken is still in the submission queue.
                std::thread::sleep(REFUSED_PAUSE);
            }
            self.take_completions(counters);
        }
    }

    fn push(&mut self, mut batch: Batch) {
        let vectors = batch.vectors();
        let flight = Box::into_raw(Box::new(InFlight { batch, vectors }));
        // SAFETY: the box was leaked just now; no other owner has it until the kernel does.
        let InFlight { batch, vectors } = unsafe { &*flight };
        let descriptor: RawFd = batch.file().raw_descriptor().unwrap_or(-1);
        let (count, file) = (vectors.len() as u32, types::Fd(descriptor));
        let entry = match batch.direction() {
            Direction::Read => {
                opcode::Readv::new(file, vectors.as_ptr(), count).offset(batch.offset()).build()
            }
            Direction::Write => {
                opcode::Writev::new(file, vectors.as_ptr(), count).offset(batch.offset()).build()
            }
        };
        self.in_flight += 1;
        self.submit(&entry.user_data(flight as u64));
    }

    fn set_alarm(&mut self) {
        let poll = opcode::PollAdd::new(types::Fd(self.alarm.descriptor()), libc::POLLIN as u32);
        self.submit(&poll.build().user_data(ALARM));
        self.alarm_set = true;
    }

    /// There is room: invariant 2.
    fn submit(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: what the entry points to lives until its completion (invariant 1).
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            if self.ring.submit().is_err() {
                std::thread::sleep(REFUSED_PAUSE);
            }
        }
    }

    fn take_completions(&mut self, counters: &Counters) {
        let completed: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (user_data, result) in completed {
            if user_data == ALARM {
                self.alarm_set = false;
                self.alarm.quiet();
                continue;
            }
            self.in_flight -= 1;
            // SAFETY: the address of a box that was leaked in `push`; the kernel reports it once.
            let flight = unsafe { Box::from_raw(user_data as *mut InFlight) };
            let InFlight { batch, vectors } = *flight;
            drop(vectors);
            counters.ring_operations.fetch_add(1, Ordering::Relaxed);
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            batch.finish_after(result, counters);
        }
    }
}

/// The ring that interrupts its thread least. From Linux 6.1 on completions wait until the thread asks for them; from
/// 5.19 on they come with its next system call.
fn open(entries: u32) -> Option<IoUring> {
    let deferred = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    let cooperative = deferred.or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries));
    cooperative.or_else(|_| IoUring::new(entries)).ok()
}
