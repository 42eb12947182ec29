use super::*;
use litefoot_storage::thread;
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
        let ticket = Some(Ticket { writer: 1, thread: thread::id(), writing, is_ending: false, expires });
        let mut state: WriterQueueState<Threads> = WriterQueueState { ticket, ..WriterQueueState::default() };
        state.expire_ticket();
        assert_eq!(state.ticket.is_some(), remains, "{writing} {expires:?}");
    }
}

#[test]
fn a_ticket_that_ends_soon_is_taken_without_sleep_by_a_few_writers() {
    let queue = <WriterQueue>::default();
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

#[test]
fn the_end_of_a_commit_that_has_been_made_is_waited_for_and_no_other() {
    let queue = <WriterQueue>::default();
    queue.await_end();
    queue.enter(1, LONG);
    queue.writes(1);
    queue.note_ending(2);
    queue.await_end();
    assert!(queue.has_turn(1), "it still writes");
    queue.note_ending(1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            queue.await_end();
            queue.may_write(2)
        });
        queue.leave(1);
        assert!(waits.join().unwrap());
    });
    queue.enter(2, LONG);
    queue.writes(2);
    queue.await_end();
    assert!(queue.has_turn(2), "the next one has not made its commit");
    queue.note_ending(2);
    queue.await_end();
    assert!(queue.has_turn(2), "one that does not go on is in the way again");
}

fn wait_until_queued(writer_queue: &WriterQueue, count: usize) {
    while writer_queue.state.lock().waiting.len() < count {
        std::thread::yield_now();
    }
}

#[test]
fn writers_are_served_in_the_order_in_which_they_came() {
    let writer_queue = Arc::new(<WriterQueue>::default());
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
    let writer_queue = Arc::new(<WriterQueue>::default());
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
    let writer_queue = Arc::new(<WriterQueue>::default());
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
    let writer_queue = Arc::new(<WriterQueue>::default());
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
    let writer_queue = Arc::new(<WriterQueue>::default());
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
#[cfg_attr(miri, ignore = "an interpreter takes longer than a reserved turn lasts")]
fn a_turn_that_is_only_reserved_is_overtaken_by_one_that_cannot_wait() {
    let writer_queue = <WriterQueue>::default();
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
    let writer_queue = Arc::new(<WriterQueue>::default());
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

#[test]
fn a_writer_that_stands_aside_is_the_first_once_it_is_called() {
    let queue = Arc::new(<WriterQueue>::default());
    let now = Instant::now();
    assert!(queue.await_turn(1, now, LONG, LONG));
    let later = queue.stand_aside(1, now + FAIRNESS);
    assert!(may_write_elsewhere(&queue, 9), "it has given up its turn");
    let first = queue.stand_aside(2, now);
    assert_eq!(queue.aside(), 2);
    queue.enter(3, LONG);
    queue.writes(3);
    queue.call_back(LONG, (0, LONG));
    assert!(queue.has_turn(3), "one that writes goes on");
    queue.leave(3);
    queue.call_back(LONG, (0, LONG));
    assert!(queue.has_turn(2) && !may_write_elsewhere(&queue, 1), "it was the first");
    drop(first);
    queue.leave(2);
    queue.call_back(LONG, (0, LONG));
    assert!(queue.has_turn(1));
    drop(later);
    queue.leave(1);
    queue.call_back(LONG, (0, LONG));
    assert!(queue.aside() == 0 && may_write_elsewhere(&queue, 9));
}

#[test]
fn a_writer_that_has_begun_to_write_does_not_give_that_up_where_it_stands_aside() {
    let queue = Arc::new(<WriterQueue>::default());
    queue.enter(1, LONG);
    queue.writes(1);
    let _aside = queue.stand_aside(1, Instant::now());
    assert!(!may_write_elsewhere(&queue, 2));
}

/// A round of three writers that wait for so long.
fn begin_round(queue: &WriterQueue, within: Duration) {
    queue.call_back(LONG, (3, within));
}

fn wait_until_held(queue: &WriterQueue, count: usize) {
    while queue.state.lock().round.waiting.len() < count {
        std::thread::yield_now();
    }
}

#[test]
fn one_that_goes_first_does_not_wait_and_others_wait_until_all_have_come_or_a_turn_has_ended() {
    for is_complete in [true, false] {
        let queue = Arc::new(<WriterQueue>::default());
        queue.come(true);
        begin_round(&queue, LONG);
        std::thread::scope(|scope| {
            for count in 1..=2 {
                scope.spawn(|| queue.come(false));
                wait_until_held(&queue, count);
            }
            if is_complete {
                // It goes on at once, and is the third.
                queue.come(true);
            } else {
                assert!(queue.await_turn(9, Instant::now(), LONG, LONG));
                queue.leave(9);
            }
            let round = &queue.state.lock().round;
            assert!(round.until.is_none() && round.waiting.is_empty());
        });
    }
}

#[test]
fn nobody_waits_for_long_or_where_nobody_has_gone_first_lately() {
    let queue = <WriterQueue>::default();
    begin_round(&queue, LONG);
    assert!(queue.state.lock().round.until.is_none());
    queue.come(true);
    begin_round(&queue, Duration::ZERO);
    queue.come(false);
    queue.come(true);
    for _ in 0..16 {
        assert!(queue.state.lock().round.until.is_none());
        begin_round(&queue, LONG);
        assert!(queue.state.lock().round.until.is_some());
        queue.state.lock().round.open();
    }
    begin_round(&queue, LONG);
    assert!(queue.state.lock().round.until.is_none());
}

#[test]
fn those_that_stand_aside_have_come() {
    let queue = <WriterQueue>::default();
    queue.come(true);
    let mut aside: Vec<_> = (0..3).map(|n| queue.stand_aside(n, Instant::now())).collect();
    begin_round(&queue, LONG);
    assert!(queue.state.lock().round.until.is_none());
    aside.pop();
    begin_round(&queue, LONG);
    assert!(queue.state.lock().round.until.is_some());
    queue.come(false);
    assert!(queue.state.lock().round.until.is_none(), "it was the third");
}
