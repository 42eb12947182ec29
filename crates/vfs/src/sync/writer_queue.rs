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
//! 4. Those that wait stand in the order in which they were first refused, however often they have given up meanwhile.

use crate::stats::{Stats, StatsPage};
use litefoot_storage::sync::{Condvar, Mutex, MutexGuard};
use litefoot_storage::thread;
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

/// A connection that writes.
pub type WriterId = u64;

/// The checkpointer, which is no connection: those count from 1.
pub const CHECKPOINTER: WriterId = 0;

/// The queue of one database.
#[derive(Default)]
pub struct WriterQueue {
    state: Mutex<WriterQueueState>,
    /// Where it is shown how many wait.
    stats: Option<Arc<StatsPage>>,
}

#[derive(Default)]
struct WriterQueueState {
    /// The ticket, while a writer holds it.
    ticket: Option<Ticket>,
    waiting: VecDeque<Waiting>,
    /// Writers that look for the end of the ticket, and have not gone to sleep.
    spinning: usize,
}

/// The right to write.
struct Ticket {
    writer: WriterId,
    thread: thread::Id,
    /// Set once the writer holds SQLite's write lock.
    writing: bool,
    /// The time at which an unused ticket expires, for a writer that may not say so.
    expires: Option<Instant>,
}

impl Ticket {
    fn unused(writer: WriterId, thread: thread::Id, most: Option<Duration>) -> Ticket {
        let expires = most.map(|most| Instant::now() + most);
        Ticket { writer, thread, writing: false, expires }
    }
}

/// A writer that waits for the ticket.
struct Waiting {
    writer: WriterId,
    thread: thread::Id,
    since: Instant,
    wakes: Arc<Condvar>,
}

impl WriterQueueState {
    /// Gives the free ticket to a writer. One that waits already does not know of its end.
    fn give_ticket(&mut self, writer: WriterId, thread: thread::Id, most: Option<Duration>) {
        self.ticket = Some(Ticket::unused(writer, thread, most));
        if most.is_some() {
            self.tell_first();
        }
    }

    /// Tells the first that waits that the ticket has got an end, or is free.
    fn tell_first(&self) {
        if let Some(first) = self.waiting.front() {
            first.wakes.notify_one();
        }
    }

    /// Ends a ticket that has expired.
    fn expire_ticket(&mut self) {
        let has_expired =
            |ticket: &Ticket| !ticket.writing && ticket.expires.is_some_and(|at| at <= Instant::now());
        if self.ticket.as_ref().is_some_and(has_expired) {
            self.ticket = None;
        }
    }

    /// Tells whether a writer that was refused at `since` gets the ticket at once, ahead of those that wait.
    fn is_free(&self, since: Instant) -> bool {
        let first = self.waiting.front().map(|first| first.since).filter(|first| *first < since);
        self.ticket.is_none() && may_overtake(first.map(|first| first.elapsed()))
    }
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

    /// Waits for the ticket, at most `limit`. It has no end of its own.
    pub fn enter(&self, writer: WriterId, limit: Duration) {
        self.wait(writer, Instant::now(), limit, None);
    }

    /// Waits for the ticket, at most `limit`, behind all that were refused before `refused`; `true` where the writer has it.
    /// The ticket expires if it is not used within `most`.
    pub fn await_turn(&self, writer: WriterId, refused: Instant, limit: Duration, most: Duration) -> bool {
        self.wait(writer, refused, limit, Some(most))
    }

    fn wait(&self, writer: WriterId, since: Instant, limit: Duration, most: Option<Duration>) -> bool {
        let (thread, begun) = (thread::id(), Instant::now());
        let mut state = self.state.lock();
        state.expire_ticket();
        if state.is_free(since) {
            state.give_ticket(writer, thread, most);
            return true;
        }
        if let Some(ticket) = state.ticket.as_mut().filter(|ticket| ticket.writer == writer) {
            ticket.expires = most.map(|most| Instant::now() + most).or(ticket.expires);
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
        let wakes = Arc::new(Condvar::new());
        let place = state.waiting.partition_point(|other| other.since <= since);
        state.waiting.insert(place, Waiting { writer, thread, since, wakes: wakes.clone() });
        let _shown = ShownWait::begin(self.stats.as_deref());
        let until = begun + limit;
        loop {
            let expires = state.ticket.as_ref().and_then(|ticket| ticket.expires).unwrap_or(until);
            wakes.wait_until(&mut state, expires.min(until));
            state.expire_ticket();
            if let Some(ticket) = state.ticket.as_mut().filter(|ticket| ticket.writer == writer) {
                ticket.expires = most.map(|most| Instant::now() + most);
                state.tell_first();
                return true;
            }
            let first = state.waiting.front().is_some_and(|first| first.writer == writer);
            if begun.elapsed() >= limit || first && state.ticket.is_none() {
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
        mut state: MutexGuard<'a, WriterQueueState>,
        since: Instant,
        time: Duration,
    ) -> (MutexGuard<'a, WriterQueueState>, bool) {
        if state.spinning >= MOST_SPINNING {
            return (state, false);
        }
        state.spinning += 1;
        let begun = Instant::now();
        let mut is_free = false;
        while !is_free && begun.elapsed() < time {
            drop(state);
            std::thread::yield_now();
            state = self.state.lock();
            state.expire_ticket();
            is_free = state.is_free(since);
        }
        state.spinning -= 1;
        (state, is_free)
    }

    /// Tells whether the writer holds the ticket.
    pub fn has_turn(&self, writer: WriterId) -> bool {
        let mut state = self.state.lock();
        state.expire_ticket();
        state.ticket.as_ref().is_some_and(|ticket| ticket.writer == writer)
    }

    /// Tells whether the writer may take the write lock now.
    pub fn may_write(&self, writer: WriterId) -> bool {
        self.in_the_way(writer).is_none()
    }

    /// The writer whose turn it is, where that is in the way of another one.
    pub fn in_the_way(&self, writer: WriterId) -> Option<WriterId> {
        let mut state = self.state.lock();
        state.expire_ticket();
        let ticket = state.ticket.as_ref()?;
        // The thread of the ticket may use another handle: a database that is attached to itself.
        let may_write = ticket.writer == writer || !ticket.writing && ticket.thread == thread::id();
        (!may_write).then_some(ticket.writer)
    }

    /// Takes the ticket from another writer that has not used it yet, for a writer that SQLite does not let wait. The
    /// checkpointer keeps its own.
    pub fn overtake_unused(&self, writer: WriterId) -> bool {
        let mut state = self.state.lock();
        let is_unused = |ticket: &Ticket| !ticket.writing && ticket.writer != CHECKPOINTER;
        let overtakes = state.ticket.as_ref().is_none_or(is_unused);
        if overtakes {
            state.ticket = Some(Ticket::unused(writer, thread::id(), Some(FAIRNESS)));
        }
        overtakes
    }

    /// The writer has got the write lock. Answers if the ticket was its own before.
    pub fn writes(&self, writer: WriterId) -> bool {
        let mut state = self.state.lock();
        let thread = thread::id();
        let had_turn = state.ticket.as_ref().is_some_and(|ticket| ticket.writer == writer);
        state.ticket = Some(Ticket { writing: true, ..Ticket::unused(writer, thread, None) });
        had_turn
    }

    /// Ends the writer's ticket, and wakes the first that waits.
    pub fn leave(&self, writer: WriterId) {
        let mut state = self.state.lock();
        if state.ticket.as_ref().is_none_or(|ticket| ticket.writer != writer) {
            return;
        }
        state.ticket = None;
        let Some(first) = state.waiting.front() else { return };
        let hands_over = !may_overtake(Some(first.since.elapsed()));
        state.tell_first();
        if hands_over {
            let next = state.waiting.pop_front();
            state.ticket = next.map(|next| Ticket::unused(next.writer, next.thread, None));
        }
    }

    /// Ends the writer's ticket, unless the writer has the write lock.
    pub fn leave_unless_writing(&self, writer: WriterId) {
        let idle = self
            .state
            .lock()
            .ticket
            .as_ref()
            .is_some_and(|ticket| ticket.writer == writer && !ticket.writing);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_writer_is_overtaken_for_a_while_only() {
        for (waited, may) in [
            (None, true),
            (Some(Duration::ZERO), true),
            (Some(FAIRNESS - Duration::from_nanos(1)), true),
            (Some(FAIRNESS), false),
            (Some(LONG), false),
        ] {
            assert_eq!(may_overtake(waited), may, "{waited:?}");
        }
    }

    #[test]
    fn a_ticket_expires_only_where_it_has_an_end_and_is_not_used() {
        let now = Instant::now();
        for (writing, expires, remains) in [
            (false, None, true),
            (false, Some(now + LONG), true),
            (false, Some(now), false),
            (true, Some(now), true),
        ] {
            let ticket = Some(Ticket { writer: 1, thread: thread::id(), writing, expires });
            let mut state = WriterQueueState { ticket, ..WriterQueueState::default() };
            state.expire_ticket();
            assert_eq!(state.ticket.is_some(), remains, "{writing} {expires:?}");
        }
    }

    #[test]
    fn a_ticket_that_ends_soon_is_taken_without_sleep_by_a_few_writers() {
        let queue = WriterQueue::default();
        let ended = |time| {
            let (state, is_free) = queue.spin(queue.state.lock(), Instant::now(), time);
            (state.spinning, is_free)
        };
        assert_eq!(ended(LONG), (0, true), "a ticket that is free");
        queue.enter(1, LONG);
        assert_eq!(ended(Duration::from_micros(1)), (0, false), "one that lasts");
        std::thread::scope(|scope| {
            let spins = scope.spawn(|| ended(LONG));
            while queue.state.lock().spinning == 0 {
                std::thread::yield_now();
            }
            queue.leave(1);
            assert_eq!(spins.join().unwrap(), (0, true), "one that ends meanwhile");
        });
        queue.enter(1, LONG);
        queue.state.lock().spinning = MOST_SPINNING;
        assert_eq!(ended(LONG), (MOST_SPINNING, false), "enough others look");
    }

    fn wait_until_queued(writer_queue: &WriterQueue, count: usize) {
        while writer_queue.state.lock().waiting.len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn writers_are_served_in_the_order_in_which_they_came() {
        let writer_queue = Arc::new(WriterQueue::default());
        writer_queue.enter(0, LONG);
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (1..4)
            .map(|writer| {
                let (queue, sender) = (writer_queue.clone(), sender.clone());
                let thread = std::thread::spawn(move || {
                    queue.enter(writer, LONG);
                    queue.writes(writer);
                    assert!(queue.may_write(writer) && !queue.may_write(writer + 1));
                    sender.send(writer).unwrap();
                    queue.leave(writer);
                });
                wait_until_queued(&writer_queue, writer as usize);
                thread
            })
            .collect();
        writer_queue.leave(0);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(writer_queue.may_write(9));
    }

    fn may_write_elsewhere(writer_queue: &Arc<WriterQueue>, writer: WriterId) -> bool {
        let writer_queue = writer_queue.clone();
        std::thread::spawn(move || writer_queue.may_write(writer)).join().unwrap()
    }

    #[test]
    fn a_ticket_that_nobody_ends_expires() {
        let writer_queue = Arc::new(WriterQueue::default());
        writer_queue.await_turn(0, Instant::now(), LONG, LONG);
        assert!(writer_queue.may_write(0) && !may_write_elsewhere(&writer_queue, 1));
        writer_queue.leave(0);
        writer_queue.await_turn(0, Instant::now(), LONG, Duration::from_millis(20));
        let other = writer_queue.clone();
        std::thread::spawn(move || {
            other.enter(1, LONG);
            assert!(other.may_write(1));
        })
        .join()
        .unwrap();
        assert!(!writer_queue.may_write(0));
        writer_queue.leave(1);
        // A writer that has the lock by then keeps its ticket.
        writer_queue.await_turn(0, Instant::now(), LONG, Duration::ZERO);
        writer_queue.writes(0);
        assert!(!writer_queue.may_write(1));
        writer_queue.leave(0);
        writer_queue.await_turn(0, Instant::now(), LONG, Duration::ZERO);
        assert!(writer_queue.may_write(1));
    }

    #[test]
    fn a_waiter_hears_that_a_ticket_gets_an_end() {
        let writer_queue = Arc::new(WriterQueue::default());
        writer_queue.enter(0, LONG);
        let other = writer_queue.clone();
        let waiting = std::thread::spawn(move || {
            other.enter(1, Duration::from_secs(10));
            assert!(other.may_write(1));
        });
        wait_until_queued(&writer_queue, 1);
        let begun = Instant::now();
        writer_queue.await_turn(0, Instant::now(), LONG, Duration::from_millis(20));
        waiting.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn the_next_hears_of_a_tickets_end_when_the_first_gives_up() {
        let writer_queue = Arc::new(WriterQueue::default());
        let first_refused = Instant::now();
        writer_queue.await_turn(0, Instant::now(), LONG, Duration::from_millis(80));
        // The first in line is the last to come, so that it is there for as long as anybody looks.
        let [next, _first] =
            [(LONG, Instant::now()), (Duration::from_millis(20), first_refused)].map(|(limit, refused)| {
                let other = writer_queue.clone();
                let writer = limit.as_millis() as u64;
                let thread = std::thread::spawn(move || {
                    other.await_turn(writer, refused, limit, Duration::from_millis(1))
                });
                // On a slow machine the ticket may have ended by now, and nobody waits.
                let waits = || limit == LONG && !thread.is_finished();
                while waits() && writer_queue.state.lock().waiting.is_empty() {
                    std::thread::yield_now();
                }
                thread
            });
        assert!(next.join().unwrap(), "it waits for a minute where nobody tells it");
    }

    #[test]
    fn a_writer_that_comes_again_stands_where_it_stood() {
        let writer_queue = Arc::new(WriterQueue::default());
        let first_refused = Instant::now();
        writer_queue.enter(0, LONG);
        let (sender, receiver) = mpsc::channel();
        let threads = [(1, Instant::now()), (2, first_refused)].map(|(writer, refused)| {
            let (queue, sender) = (writer_queue.clone(), sender.clone());
            let thread = std::thread::spawn(move || {
                assert!(queue.await_turn(writer, refused, LONG, LONG));
                queue.writes(writer);
                sender.send(writer).unwrap();
                queue.leave(writer);
            });
            wait_until_queued(&writer_queue, writer as usize);
            thread
        });
        writer_queue.leave(0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_turn_that_is_only_reserved_is_overtaken_by_one_that_cannot_wait() {
        let writer_queue = WriterQueue::default();
        for (holder, writes, expected) in [
            (None, false, true),
            (Some(1), false, true),
            (Some(1), true, false),
            (Some(CHECKPOINTER), false, false),
        ] {
            if let Some(holder) = holder {
                writer_queue.await_turn(holder, Instant::now(), LONG, LONG);
                if writes {
                    writer_queue.writes(holder);
                }
            }
            assert_eq!(writer_queue.overtake_unused(2), expected, "{holder:?} {writes}");
            assert_eq!(writer_queue.has_turn(2), expected);
            [CHECKPOINTER, 1, 2].into_iter().for_each(|writer| writer_queue.leave(writer));
        }
    }

    #[test]
    fn nobody_waits_for_itself_or_without_end() {
        let writer_queue = Arc::new(WriterQueue::default());
        writer_queue.enter(0, LONG);
        writer_queue.enter(1, LONG);
        // The thread of the ticket may use another handle, as a database that is attached to itself does.
        assert!(writer_queue.may_write(1) && !may_write_elsewhere(&writer_queue, 1));
        let other = writer_queue.clone();
        std::thread::spawn(move || other.enter(2, Duration::from_millis(1))).join().unwrap();
        assert!(writer_queue.state.lock().waiting.is_empty());
        writer_queue.leave_unless_writing(0);
        assert!(writer_queue.may_write(1));
    }
}
