//! The requests of the queue, and its answers.

use crate::file::{File, Result};
use crate::io::Monitor;
use std::sync::Arc;

/// Memory that a request reads into or writes from. The queue owns it until it answers.
pub trait Buffer: Send {
    /// The bytes. Always the same ones, wherever the buffer itself is moved.
    fn bytes(&mut self) -> &mut [u8];
}

impl Buffer for Vec<u8> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

impl Buffer for Box<[u8]> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// One read or write.
pub struct Request {
    /// Of which file.
    pub file: Arc<dyn File>,
    /// The direction.
    pub direction: Direction,
    /// The offset in the file.
    pub offset: u64,
    /// The bytes.
    pub buffer: Box<dyn Buffer>,
    /// The receiver of the answer. Called on a thread of the queue: it must neither wait nor take long. A panic in it
    /// is caught and goes no further.
    pub done: Box<dyn FnOnce(Completion) + Send>,
}

impl Request {
    /// True if the ring should have it: a plain file, and no wait for the system's cache.
    pub(super) fn suits_ring(&self) -> bool {
        self.file.raw_descriptor().is_some() && !self.is_foretold()
    }

    /// True if the system is told of it beforehand: a read through the system's cache.
    pub(super) fn is_foretold(&self) -> bool {
        self.direction == Direction::Read && self.file.reads_ahead()
    }
}

/// The answer to a request.
pub struct Completion {
    /// The buffer that came with it.
    pub buffer: Box<dyn Buffer>,
    /// Bytes read or written. Fewer than asked only for a read that meets the end of the file.
    pub result: Result<usize>,
}

/// An answer that can be waited for.
pub struct Ticket {
    slot: Arc<Monitor<Option<Completion>>>,
}

impl Ticket {
    pub(super) fn new() -> (Ticket, Box<dyn FnOnce(Completion) + Send>) {
        let slot: Arc<Monitor<Option<Completion>>> = Arc::new(Monitor::new(None));
        let ticket = Ticket { slot: slot.clone() };
        (ticket, Box::new(move |completion| slot.change(|place| *place = Some(completion))))
    }

    /// Waits for the answer: a fiber leaves its thread to others meanwhile.
    pub fn wait(self) -> Completion {
        self.slot.wait(Option::take)
    }
}
