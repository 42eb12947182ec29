//! Writer queue: writers of a database in WAL mode wait in order.
//!
//! # Why
//! With SQLite alone, a writer that finds the lock taken sleeps and tries again, and chance decides who is next. Inside one
//! process writers can wait in order, and the next one starts the moment the lock is free.
//!
//! Waking a thread takes longer than a small transaction. So a new writer overtakes a first waiter that is still being woken.
//! A waiter that has waited for [`FAIRNESS`] is not overtaken any more: it is handed the ticket. For the same reason a writer looks
//! again for [`SPIN`] before it sleeps: most tickets end within that time.
//!
//! A writer of which nothing is told before its statement has read joins the queue once it is refused, where SQLite lets it sleep
//! ([`refused_writer`](crate::sync::refused_writer)).
//!
//! # Invariants
//! 1. At most one writer holds the ticket; no other writer gets the write lock meanwhile.
//! 2. A ticket ends when its writer says so. Where that writer may not be heard of again before it has the lock, the ticket
//!    expires ([`WriterQueue::await_turn`]).
//! 3. Every wait is bounded, and a thread never waits for itself. A writer that gives up goes on without a ticket, and meets
//!    SQLite's busy handling.
//! 4. Those that wait stand in the order in which they were first refused, however often they have given up meanwhile. One whose
//!    ticket was taken before it woke stands there again.
//! 5. The first that waits is told where the ticket is free, or has got an end.
//! 6. A writer whose commit has returned is in nobody's way: where its ticket has not ended yet, others wait for that ([`WriterQueue::await_end`]).
//! 7. Where syncs take long, one that waits for a sync is the first behind it (`aside`), and others let it go first (`round`).

use crate::stats::{Stats, StatsPage};
use crate::sync::waiting::{Threads, Waits};
use aside::Aside;
use round::Round;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for which a waiting writer may be overtaken.
const FAIRNESS: Duration = Duration::from_micros(500);

/// How long a writer looks for the end of a ticket before it sleeps. A small transaction holds its ticket for about 20 us.
const SPIN: Duration = Duration::from_micros(60);
/// Most writers that look at the same time. More would take the processors from the one that writes.
const MOST_SPINNING: usize = 4;

/// How long a turn lasts that is not used.
pub(crate) const UNUSED_TURN: Duration = Duration::from_millis(10);

/// How long one waits for the end of a ticket whose commit has been made. Its writer says so in a message.
const ENDING: Duration = Duration::from_millis(100);

/// A connection that writes.
pub type WriterId = u64;

/// The checkpointer, which is no connection: those count from 1.
pub const CHECKPOINTER: WriterId = 0;

/// The queue of one database.
pub struct WriterQueue<S: Waits = Threads> {
    state: S::Mutex<WriterQueueState<S>>,
    /// Where it is shown how many wait.
    stats: Option<Arc<StatsPage>>,
}

impl<S: Waits> Default for WriterQueue<S> {
    fn default() -> WriterQueue<S> {
        WriterQueue { state: S::mutex(WriterQueueState::default()), stats: None }
    }
}

struct WriterQueueState<S: Waits> {
    /// The ticket, while a writer holds it.
    ticket: Option<Ticket<S>>,
    waiting: VecDeque<Waiting<S>>,
    /// Writers that stand aside, in the order in which they have come.
    aside: Vec<Aside<S>>,
    round: Round<S>,
    /// Writers that look for the end of the ticket, and have not gone to sleep.
    spinning: usize,
}

impl<S: Waits> Default for WriterQueueState<S> {
    fn default() -> WriterQueueState<S> {
        WriterQueueState {
            ticket: None,
            waiting: VecDeque::new(),
            aside: Vec::new(),
            round: Round::default(),
            spinning: 0,
        }
    }
}

/// The right to write.
struct Ticket<S: Waits> {
    writer: WriterId,
    thread: S::Thread,
    /// Set once the writer holds SQLite's write lock.
    writing: bool,
    /// Set once its commit has been made, and may have returned.
    is_ending: bool,
    /// The time at which an unused ticket expires, for a writer that may not say so.
    expires: Option<Instant>,
}

impl<S: Waits> Ticket<S> {
    fn unused(writer: WriterId, thread: S::Thread, expires: Option<Instant>) -> Ticket<S> {
        Ticket { writer, thread, writing: false, is_ending: false, expires }
    }
}

/// A writer that waits for the ticket.
struct Waiting<S: Waits> {
    writer: WriterId,
    thread: S::Thread,
    since: Instant,
    wakes: Arc<S::Condvar>,
}

impl<S: Waits> WriterQueueState<S> {
    /// Gives the free ticket to a writer. One that waits already does not know of its end.
    fn give_ticket(&mut self, writer: WriterId, thread: S::Thread, most: Option<Duration>) {
        self.ticket = Some(Ticket::unused(writer, thread, most.map(|most| S::now() + most)));
        if most.is_some() {
            self.tell_first();
        }
    }

    /// A writer waits behind all that were refused before it.
    fn line_up(&mut self, writer: Waiting<S>) {
        let place = self.waiting.partition_point(|other| other.since <= writer.since);
        self.waiting.insert(place, writer);
    }

    /// Tells the first that waits that the ticket has got an end, or is free.
    fn tell_first(&self) {
        if let Some(first) = self.waiting.front() {
            S::notify_one(&first.wakes);
        }
    }

    /// Ends a ticket that has expired.
    fn expire_ticket(&mut self) {
        let has_expired =
            |ticket: &Ticket<S>| !ticket.writing && ticket.expires.is_some_and(|at| at <= S::now());
        if self.ticket.as_ref().is_some_and(has_expired) {
            self.ticket = None;
        }
    }

    /// Tells whether a writer that was refused at `since` gets the ticket at once, ahead of those that wait.
    fn is_free(&self, since: Instant) -> bool {
        let first = self.waiting.front().map(|first| first.since).filter(|first| *first < since);
        self.ticket.is_none() && may_overtake(first.map(|first| elapsed::<S>(first)))
    }
}

/// The time since a moment.
fn elapsed<S: Waits>(since: Instant) -> Duration {
    S::now().saturating_duration_since(since)
}

/// Tells whether a new writer may go ahead of the first that waits, by the time for which that one has waited.
fn may_overtake(first_waited: Option<Duration>) -> bool {
    first_waited.is_none_or(|waited| waited < FAIRNESS)
}

impl WriterQueue {
    /// A queue that shows in these figures how many wait.
    pub(crate) fn new(stats: Arc<StatsPage>) -> WriterQueue {
        WriterQueue { stats: Some(stats), ..WriterQueue::default() }
    }
}

impl<S: Waits> WriterQueue<S> {
    fn state(&self) -> S::Guard<'_, WriterQueueState<S>> {
        S::lock(&self.state)
    }

    /// Waits for the ticket, at most `limit`. It has no end of its own.
    pub fn enter(&self, writer: WriterId, limit: Duration) {
        self.wait(writer, S::now(), limit, None);
    }

    /// Waits for the ticket, at most `limit`, behind all that were refused before `refused`; `true` where the writer has it.
    /// The ticket expires if it is not used within `most`.
    pub fn await_turn(&self, writer: WriterId, refused: Instant, limit: Duration, most: Duration) -> bool {
        self.wait(writer, refused, limit, Some(most))
    }

    fn wait(&self, writer: WriterId, since: Instant, limit: Duration, most: Option<Duration>) -> bool {
        let (thread, begun) = (S::thread(), S::now());
        let mut state = self.state();
        state.expire_ticket();
        if state.is_free(since) {
            state.give_ticket(writer, thread, most);
            return true;
        }
        if let Some(ticket) = state.ticket.as_mut().filter(|ticket| ticket.writer == writer) {
            ticket.expires = most.map(|most| S::now() + most).or(ticket.expires);
            state.tell_first();
            return true;
        }
        if limit.is_zero() || state.ticket.as_ref().is_some_and(|ticket| ticket.thread == thread) {
            return false;
        }
        let (mut state, is_free) = self.spin(state, since, limit.min(SPIN));
        if is_free {
            state.give_ticket(writer, thread, most);
            return true;
        }
        let wakes = Arc::new(S::Condvar::default());
        state.line_up(Waiting { writer, thread, since, wakes: wakes.clone() });
        let _shown = ShownWait::begin(self.stats.as_deref());
        let until = begun + limit;
        loop {
            let expires = state.ticket.as_ref().and_then(|ticket| ticket.expires).unwrap_or(until);
            S::wait_until(&wakes, &mut state, expires.min(until));
            state.expire_ticket();
            if let Some(ticket) = state.ticket.as_mut().filter(|ticket| ticket.writer == writer) {
                ticket.expires = most.map(|most| S::now() + most);
                state.tell_first();
                return true;
            }
            if !state.waiting.iter().any(|waiting| waiting.writer == writer) {
                // Another one has taken the ticket that was handed over to this one.
                state.line_up(Waiting { writer, thread, since, wakes: wakes.clone() });
            }
            let first = state.waiting.front().is_some_and(|first| first.writer == writer);
            if elapsed::<S>(begun) >= limit || first && state.ticket.is_none() {
                state.waiting.retain(|waiting| waiting.writer != writer);
                let is_free = state.ticket.is_none();
                if is_free {
                    state.give_ticket(writer, thread, most);
                } else {
                    // The next one does not know of the ticket's end.
                    state.tell_first();
                }
                return is_free;
            }
        }
    }

    /// Looks for the end of the ticket for at most `time`, and lets other threads run meanwhile. Tells whether a writer that was
    /// refused at `since` gets the ticket at once.
    fn spin<'a>(
        &'a self,
        mut state: S::Guard<'a, WriterQueueState<S>>,
        since: Instant,
        time: Duration,
    ) -> (S::Guard<'a, WriterQueueState<S>>, bool) {
        if state.spinning >= MOST_SPINNING {
            return (state, false);
        }
        state.spinning += 1;
        let begun = S::now();
        let mut is_free = false;
        while !is_free && elapsed::<S>(begun) < time {
            drop(state);
            S::yield_now();
            state = self.state();
            state.expire_ticket();
            is_free = state.is_free(since);
        }
        state.spinning -= 1;
        (state, is_free)
    }

    /// Tells whether the writer holds the ticket.
    pub fn has_turn(&self, writer: WriterId) -> bool {
        let mut state = self.state();
        state.expire_ticket();
        state.ticket.as_ref().is_some_and(|ticket| ticket.writer == writer)
    }

    /// Tells whether the writer may take the write lock now.
    pub fn may_write(&self, writer: WriterId) -> bool {
        self.in_the_way(writer).is_none()
    }

    /// The writer whose turn it is, where that is in the way of another one.
    pub fn in_the_way(&self, writer: WriterId) -> Option<WriterId> {
        let mut state = self.state();
        state.expire_ticket();
        let ticket = state.ticket.as_ref()?;
        // The thread of the ticket may use another handle: a database that is attached to itself.
        let may_write = ticket.writer == writer || !ticket.writing && ticket.thread == S::thread();
        (!may_write).then_some(ticket.writer)
    }

    /// Takes the ticket from another writer that has not used it yet, for a writer that SQLite does not let wait. The
    /// checkpointer keeps its own.
    pub fn overtake_unused(&self, writer: WriterId) -> bool {
        let mut state = self.state();
        let is_unused = |ticket: &Ticket<S>| !ticket.writing && ticket.writer != CHECKPOINTER;
        let overtakes = state.ticket.as_ref().is_none_or(is_unused);
        if overtakes {
            state.give_ticket(writer, S::thread(), Some(FAIRNESS));
        }
        overtakes
    }

    /// The writer has got the write lock. Answers if the ticket was its own before.
    pub fn writes(&self, writer: WriterId) -> bool {
        let mut state = self.state();
        let thread = S::thread();
        let had_turn = state.ticket.as_ref().is_some_and(|ticket| ticket.writer == writer);
        state.ticket = Some(Ticket { writing: true, ..Ticket::unused(writer, thread, None) });
        had_turn
    }

    /// The writer's commit has been made: it is about to leave, and does not wait for that.
    pub fn note_ending(&self, writer: WriterId) {
        if let Some(ticket) = self.state().ticket.as_mut().filter(|ticket| ticket.writer == writer) {
            ticket.is_ending = true;
        }
    }

    /// Waits for the end of a ticket whose commit has been made. Mostly that is under way already.
    pub fn await_end(&self) {
        let begun = S::now();
        while self.state().ticket.as_ref().is_some_and(|ticket| ticket.is_ending)
            && elapsed::<S>(begun) < ENDING
        {
            S::yield_now();
        }
    }

    /// Ends the writer's ticket, and wakes the first that waits.
    pub fn leave(&self, writer: WriterId) {
        let mut state = self.state();
        if state.ticket.as_ref().is_none_or(|ticket| ticket.writer != writer) {
            return;
        }
        state.ticket = None;
        state.round.open();
        let Some(first) = state.waiting.front() else { return };
        let hands_over = !may_overtake(Some(elapsed::<S>(first.since)));
        state.tell_first();
        if hands_over {
            let next = state.waiting.pop_front();
            state.ticket = next.map(|next| Ticket::unused(next.writer, next.thread, None));
        }
    }

    /// Ends the writer's ticket, unless the writer has the write lock.
    pub fn leave_unless_writing(&self, writer: WriterId) {
        let idle =
            self.state().ticket.as_ref().is_some_and(|ticket| ticket.writer == writer && !ticket.writing);
        if idle {
            self.leave(writer);
        }
    }
}

/// A writer that waits, in the figures.
struct ShownWait<'a>(Option<&'a StatsPage>);

impl ShownWait<'_> {
    fn begin(stats: Option<&StatsPage>) -> ShownWait<'_> {
        if let Some(stats) = stats {
            Stats::add(&stats.writers_waiting, 1);
        }
        ShownWait(stats)
    }
}

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        if let Some(stats) = self.0 {
            // Each begin has added one.
            stats.writers_waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

mod aside;
mod round;
#[cfg(test)]
mod tests;
