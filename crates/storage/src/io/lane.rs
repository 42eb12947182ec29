//! The waiting requests of the queue, for one thread or several.
//!
//! # Invariants
//! 1. The requests that wait, and the batches made of them, are only ever changed under the lock.
//! 2. A thread that says it will sleep elsewhere (in the ring) does so under the lock; a thread that pushes after that
//!    rings its alarm.

use super::IoConfig;
use super::batch::{Batch, plan};
use super::request::Request;
use crate::file::File;
use crate::io::Monitor;
use crate::sync::{self, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Wakes a thread that sleeps elsewhere.
pub(super) type WakeUp = Box<dyn Fn() + Send + Sync>;

pub(super) struct Lane {
    waiting: Mutex<Waiting>,
    arrived: sync::Notify,
    /// Changes when requests have left.
    room: Monitor<()>,
    limit: usize,
    merge_bytes: usize,
    alarm: Option<WakeUp>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    batches: VecDeque<Batch>,
    /// Requests that the system was told of.
    foretold: usize,
    sleeps_elsewhere: bool,
    closed: bool,
}

/// Adjacent bytes of a file that are about to be read.
struct Span {
    file: Arc<dyn File>,
    offset: u64,
    len: u64,
}

impl Span {
    fn foretell(&self) {
        self.file.read_ahead(self.offset, self.len);
    }
}

impl Waiting {
    /// The requests that the system is told of, so that it reads all of them at the same time; none where a single
    /// request waits.
    fn untold(&mut self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        if self.batches.is_empty() && self.requests.len() < 2 {
            return spans;
        }
        for request in self.requests.iter_mut().skip(self.foretold).filter(|request| request.is_foretold()) {
            let (offset, len) = (request.offset, request.buffer.bytes().len() as u64);
            match spans.last_mut() {
                Some(span) if span.offset + span.len == offset && Arc::ptr_eq(&span.file, &request.file) => {
                    span.len += len;
                }
                _ => spans.push(Span { file: request.file.clone(), offset, len }),
            }
        }
        self.foretold = self.requests.len();
        spans
    }
}

impl Lane {
    pub fn new(config: &IoConfig) -> Lane {
        Lane {
            waiting: Mutex::default(),
            arrived: sync::Notify::default(),
            room: Monitor::default(),
            limit: config.queue_requests.max(1),
            merge_bytes: config.merge_bytes,
            alarm: None,
        }
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub fn with_alarm(config: &IoConfig, alarm: WakeUp) -> Lane {
        Lane { alarm: Some(alarm), ..Lane::new(config) }
    }

    /// Adds requests, as many at a time as there is room for.
    pub fn push(&self, requests: Vec<Request>) {
        let mut requests = VecDeque::from(requests);
        while !requests.is_empty() {
            self.room.wait(|()| self.push_some(&mut requests).then_some(()));
            self.wake();
        }
    }

    fn push_some(&self, requests: &mut VecDeque<Request>) -> bool {
        let mut waiting = self.waiting.lock();
        let room = self.limit.saturating_sub(waiting.requests.len()).min(requests.len());
        waiting.requests.extend(requests.drain(..room));
        room > 0
    }

    fn wake(&self) {
        let sleeps_elsewhere = std::mem::take(&mut self.waiting.lock().sleeps_elsewhere);
        self.arrived.notify();
        if let (true, Some(alarm)) = (sleeps_elsewhere, &self.alarm) {
            alarm();
        }
    }

    /// The next batch; waits for one. `None` when the lane is closed and empty.
    pub fn next(&self) -> Option<Batch> {
        loop {
            let rung = self.arrived.count();
            let mut waiting = self.waiting.lock();
            let spans = waiting.untold();
            if !spans.is_empty() {
                drop(waiting);
                spans.iter().for_each(Span::foretell);
                continue;
            }
            if self.merge(&mut waiting) {
                let batch = waiting.batches.pop_front();
                drop(waiting);
                self.room.change(|()| ());
                return batch;
            }
            if waiting.closed {
                return None;
            }
            drop(waiting);
            self.arrived.wait(rung);
        }
    }

    /// The next batch, if there is one. If not, the caller is about to sleep where its alarm wakes it.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub fn next_or_sleep_elsewhere(&self) -> Option<Batch> {
        let mut waiting = self.waiting.lock();
        if !self.merge(&mut waiting) {
            waiting.sleeps_elsewhere = true;
            return None;
        }
        let batch = waiting.batches.pop_front();
        drop(waiting);
        self.room.change(|()| ());
        batch
    }

    /// Makes batches of what waits, once the earlier ones are gone. `false` where nothing waits.
    fn merge(&self, waiting: &mut Waiting) -> bool {
        if waiting.batches.is_empty() && !waiting.requests.is_empty() {
            let requests = std::mem::take(&mut waiting.requests).into();
            waiting.batches = plan(requests, self.merge_bytes).into();
            waiting.foretold = 0;
        }
        !waiting.batches.is_empty()
    }

    /// Takes out the requests of a file that nobody has begun.
    pub fn take_waiting(&self, file: &Arc<dyn File>) -> Vec<Request> {
        let mut waiting = self.waiting.lock();
        let requests = std::mem::take(&mut waiting.requests);
        let is_its = |request: &Request| Arc::ptr_eq(&request.file, file);
        let told = requests.iter().take(waiting.foretold).filter(|request| !is_its(request)).count();
        let (taken, left): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_its);
        (waiting.requests, waiting.foretold) = (left.into(), told);
        drop(waiting);
        self.room.change(|()| ());
        taken
    }

    /// Lets the threads end once they have answered everything.
    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake();
    }
}
