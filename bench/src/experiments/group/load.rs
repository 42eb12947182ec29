//! Threads that commit rows, as fast as they can or at a fixed rate of arrivals.
//!
//! This file is part of two programs, as `peers/round.rs` is: of litefoot's, for SQLite and litefoot, and of
//! `litefoot-peers`, for the stores beside them.
//!
//! # Arrivals
//! At a fixed rate each commit is due at a moment that nothing delays. Whichever thread is free takes the next one and
//! waits until it is due; where all threads are busy it is late. Its latency counts from when it was due, so a stall is
//! charged to every commit that it keeps waiting (no *coordinated omission*). Waking up belongs to the latency, too.

use super::round::{Outcome, Row};
use super::values::Values;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much of everything.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// Threads that write.
    pub threads: usize,
    /// How long commits begin, or are due.
    pub time_ms: u64,
    /// Commits that are due in a second, of all threads together; as many as there can be for none.
    pub arrivals_per_s: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
}

/// The figures of a load.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Load {
    /// Each commit, thread by thread.
    pub latencies_ns: Vec<u64>,
    /// Commits that returned within the plan's time: those that others kept waiting return later, one by one.
    pub in_time: u64,
}

/// One thread's way to a store.
pub trait Writer: Send {
    /// Stores a row in a transaction of its own, which is durable afterwards.
    fn commit(&mut self, row: &Row) -> Outcome<()>;
}

/// Has each writer commit in a thread of its own.
pub fn run(plan: &Plan, writers: Vec<Box<dyn Writer + '_>>) -> Outcome<Load> {
    let work = Work { plan, begun: Instant::now(), ids: AtomicI64::new(0), arrivals: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(writers)
            .map(|(number, mut writer)| {
                let work = &work;
                scope.spawn(move || work.of_thread(number, writer.as_mut()))
            })
            .collect();
        let mut load = Load::default();
        for thread in threads {
            let part = thread.join().map_err(|_| "a writer has panicked")??;
            load.latencies_ns.extend(part.latencies_ns);
            load.in_time += part.in_time;
        }
        Ok(load)
    })
}

/// State that the threads share.
struct Work<'a> {
    plan: &'a Plan,
    begun: Instant,
    ids: AtomicI64,
    arrivals: AtomicU64,
}

impl Work<'_> {
    fn of_thread(&self, number: u64, writer: &mut dyn Writer) -> Outcome<Load> {
        wake_exactly();
        let mut values = Values::new(self.plan.seed.wrapping_add(number));
        let mut load = Load::default();
        loop {
            let (text, number, value) = (values.text(), values.number(), values.value());
            // However late the system lets a thread begin, it makes one commit.
            let owes_one = load.latencies_ns.is_empty() && self.plan.arrivals_per_s.is_none();
            let Some(begun) = self.next().or_else(|| owes_one.then(Instant::now)) else { return Ok(load) };
            let row = Row { id: 1 + self.ids.fetch_add(1, Ordering::Relaxed), text, number, value };
            writer.commit(&row)?;
            load.latencies_ns.push(nanoseconds(begun));
            load.in_time += u64::from(self.begun.elapsed() <= self.time());
        }
    }

    /// Waits until a commit may begin; the moment from which it counts, or nothing where all are done.
    fn next(&self) -> Option<Instant> {
        let time = self.time();
        let Some(rate) = self.plan.arrivals_per_s else {
            let now = Instant::now();
            return Some(now).filter(|now| now.duration_since(self.begun) < time);
        };
        let due = due(self.arrivals.fetch_add(1, Ordering::Relaxed), rate);
        if due >= time {
            return None;
        }
        std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        Some(self.begun + due)
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.plan.time_ms)
    }
}

/// When the arrival of a number, from 0, is due.
fn due(arrival: u64, arrivals_per_s: f64) -> Duration {
    Duration::try_from_secs_f64(arrival as f64 / arrivals_per_s).unwrap_or(Duration::MAX)
}

/// Linux lets a thread sleep 50 us longer than it wants, so that it need not wake up so often.
fn wake_exactly() {
    // SAFETY: sets the timer slack of the calling thread, in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn nanoseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
