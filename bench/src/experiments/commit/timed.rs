//! The timed run: nothing but the side itself stands between the transactions and the disk.

use super::floor::Floor;
use super::side::Side;
use super::workload::Workload;
use super::{Task, remove_database};
use crate::Result;
use crate::harness::{Latencies, MIN_ROUNDS, Progress, interleave};
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// Transactions after which somebody may look at the progress.
const PROGRESS_STEP: u64 = 50;

/// How long the transactions of one side took in one round.
pub struct Timing {
    /// One part for each workload; a single one for the floor.
    parts: Vec<Part>,
    both: Latencies,
}

struct Part {
    latencies: Latencies,
    closing: Duration,
}

impl Part {
    fn elapsed(&self) -> Duration {
        self.latencies.total() + self.closing
    }
}

impl Timing {
    fn new(parts: Vec<Part>) -> Result<Timing> {
        let mut both = Latencies::new()?;
        for part in &parts {
            both.add(&part.latencies)?;
        }
        Ok(Timing { parts, both })
    }

    fn part(&self, workload: Workload) -> Option<&Part> {
        self.parts.get(workload as usize)
    }

    /// All transactions and closings.
    pub fn elapsed(&self) -> Duration {
        self.parts.iter().map(Part::elapsed).sum()
    }

    /// Transactions a second, closing included.
    pub fn txn_per_s(&self, workload: Option<Workload>) -> f64 {
        let (count, elapsed) = match workload.and_then(|workload| self.part(workload)) {
            Some(part) => (part.latencies.count(), part.elapsed()),
            None => (self.both.count(), self.elapsed()),
        };
        count as f64 / elapsed.as_secs_f64().max(1e-9)
    }

    /// The latency that this share of the transactions does not exceed, in microseconds.
    pub fn percentile_us(&self, workload: Option<Workload>, share: f64) -> f64 {
        let latencies =
            workload.and_then(|workload| self.part(workload)).map_or(&self.both, |part| &part.latencies);
        latencies.percentile_us(share)
    }
}

/// Lets the sides take turns; gives the timings of each side, one for each round.
pub fn run(
    task: &Task<'_>,
    stage: &str,
    transactions: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<Vec<Timing>>> {
    let parts: u64 = task.sides.iter().map(Workload::count).sum();
    progress.begin(stage, MIN_ROUNDS as u64 * parts * transactions);
    interleave(task.sides, MIN_ROUNDS, |_, side| {
        if side.is_floor() {
            return Timing::new(vec![time_floor(task, transactions, progress)?]);
        }
        let parts = Workload::ALL.iter().map(|workload| time(task, side, *workload, transactions, progress));
        Timing::new(parts.collect::<Result<_>>()?)
    })
}

fn time_floor(task: &Task<'_>, transactions: u64, progress: &mut dyn Progress) -> Result<Part> {
    let path = task.directory.join("floor");
    let floor = Floor::open(&OsMedium::new(), &path)?;
    let mut stopwatch = Stopwatch::new(progress)?;
    for number in 0..transactions {
        stopwatch.time(&mut || floor.write(number))?;
    }
    let latencies = stopwatch.finish()?;
    drop(floor);
    remove_database(&path)?;
    Ok(Part { latencies, closing: Duration::ZERO })
}

fn time(
    task: &Task<'_>,
    side: &Side,
    workload: Workload,
    transactions: u64,
    progress: &mut dyn Progress,
) -> Result<Part> {
    let path = task.directory.join(format!("{}.db", side.name));
    let connection = side.open_timed(&path)?;
    workload.prepare(side, &connection, task.seed)?;
    let mut stopwatch = Stopwatch::new(progress)?;
    workload.transact(side, &connection, task.seed, transactions, |txn| stopwatch.time(txn))?;
    let latencies = stopwatch.finish()?;
    let begun = Instant::now();
    connection.close().map_err(|(_, error)| side.explain(error))?;
    let closing = begun.elapsed();
    let stock = Connection::open(&path).map_err(|error| side.explain(error))?;
    workload.verify(side, &stock, task.seed, transactions)?;
    drop(stock);
    remove_database(&path)?;
    Ok(Part { latencies, closing })
}

/// Times operations, and says between them how far we are.
struct Stopwatch<'a> {
    latencies: Latencies,
    unreported: u64,
    progress: &'a mut dyn Progress,
}

impl<'a> Stopwatch<'a> {
    fn new(progress: &'a mut dyn Progress) -> Result<Stopwatch<'a>> {
        Ok(Stopwatch { latencies: Latencies::new()?, unreported: 0, progress })
    }

    fn time(&mut self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        operation()?;
        self.latencies.record(begun.elapsed());
        self.unreported += 1;
        if self.unreported == PROGRESS_STEP { self.report() } else { Ok(()) }
    }

    fn report(&mut self) -> Result<()> {
        self.progress.advance(std::mem::take(&mut self.unreported))
    }

    fn finish(mut self) -> Result<Latencies> {
        self.report()?;
        Ok(self.latencies)
    }
}
