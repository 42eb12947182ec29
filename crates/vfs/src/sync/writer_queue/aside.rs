//! Writers that stand aside: their turn comes once all commits are durable, and others have theirs meanwhile.
//!
//! # Why
//! `BEGIN IMMEDIATE` shows what it reads, so that the commits before it must be durable. While it waits for that with the ticket, nobody commits, and
//! the sync that it waits for makes one commit durable where it could have made many.
//!
//! # Promises
//! 1. A writer stands aside without the ticket.
//! 2. Once everything is durable, the one that stands aside for longest is first: before those that wait, and before those that come.

use super::{WriterId, WriterQueue, WriterQueueState};
use crate::sync::waiting::{Threads, Waits};
use std::time::{Duration, Instant};

/// A writer that stands aside.
pub(super) struct Aside<S: Waits> {
    writer: WriterId,
    thread: S::Thread,
    since: Instant,
}

/// A writer stands aside until this is dropped.
pub struct StandsAside<'a, S: Waits = Threads> {
    queue: &'a WriterQueue<S>,
    writer: WriterId,
}

impl<S: Waits> WriterQueue<S> {
    /// The writer, which has waited since then, gives up a ticket that it does not use, and stands aside.
    pub fn stand_aside(&self, writer: WriterId, since: Instant) -> StandsAside<'_, S> {
        self.leave_unless_writing(writer);
        let aside = Aside { writer, thread: S::thread(), since };
        let mut state = self.state();
        let place = state.aside.partition_point(|other| other.since <= since);
        state.aside.insert(place, aside);
        StandsAside { queue: self, writer }
    }

    /// How many stand aside.
    pub fn aside(&self) -> usize {
        self.state().aside.len()
    }

    /// Everything is durable: gives a ticket that is free to the first that stands aside, which expires if it is not used within `most`. A round of
    /// so many writers begins, who are expected within that time.
    pub fn call_back(&self, most: Duration, (expected, within): (usize, Duration)) {
        let mut state = self.state();
        state.expire_ticket();
        if state.ticket.is_none()
            && let Some((writer, thread)) = state.first_aside()
        {
            state.give_ticket(writer, thread, Some(most));
        }
        state.begin_round(expected, within);
    }
}

impl<S: Waits> WriterQueueState<S> {
    fn first_aside(&self) -> Option<(WriterId, S::Thread)> {
        self.aside.first().map(|first| (first.writer, first.thread))
    }
}

impl<S: Waits> Drop for StandsAside<'_, S> {
    fn drop(&mut self) {
        self.queue.state().aside.retain(|aside| aside.writer != self.writer);
    }
}
