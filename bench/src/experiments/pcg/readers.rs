//! How another connection reads while a transaction is under way that does not fit into memory.

use super::Task;
use super::load::{Keys, SCHEMA, Timing, insert};
use super::side::{LITEFOOT, Side};
use crate::experiments::commit::remove_database;
use crate::harness::{Latencies, Progress, median};
use crate::report::Figures;
use crate::{Error, Result};
use rusqlite::Connection;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MODES: [&str; 2] = ["delete", "wal"];
/// As long as anybody would wait.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("readers", (MODES.len() * task.sizes.rounds) as u64);
    // A fifth of the memory, so that a transaction of moderate length spills.
    let pool = (task.plan("100m").memory_bytes / 5).max(1 << 20);
    let side = Side::litefoot(LITEFOOT, &format!("buffer_pool_size={pool}"))?;
    for mode in MODES {
        let (mut idle, mut cleaning, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..task.sizes.rounds {
            let (before, during) = round(task, &side, mode)?;
            ratios.push(during / before);
            idle.push(before);
            cleaning.push(during);
            progress.advance(1)?;
        }
        figures.set(format!("read_p99_us.{mode}.idle"), median(idle));
        figures.set(format!("read_p99_us.{mode}.cleaning"), median(cleaning));
        figures.set(format!("ratio.read_p99.{mode}"), median(ratios));
    }
    Ok(())
}

/// The 99th percentile of a read, in microseconds: while nobody writes, and during the transaction up to its commit.
fn round(task: &Task<'_>, side: &Side, mode: &str) -> Result<(f64, f64)> {
    let path = task.directory.join("readers.db");
    let explain = |error| side.explain(error);
    let (writer, reader) = (side.open(&path, mode)?, side.open(&path, mode)?);
    reader.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
    writer.execute_batch(SCHEMA).map_err(explain)?;
    let mut timing = Timing::new()?;
    let rows = task.plan("1m").rows();
    insert(&writer, Keys::Random, 0, rows, &mut timing).map_err(explain)?;
    let plan = task.plan("100m");
    let more = (plan.rows() / 3).max(rows);
    let (begin, stop) = (Barrier::new(2), AtomicBool::new(false));
    let mut idle = Latencies::new()?;
    for n in 0..task.sizes.reads {
        read(&reader, rows, n, &mut idle).map_err(explain)?;
    }
    let during = std::thread::scope(|scope| {
        let reading = scope.spawn(|| -> Result<(Connection, Latencies)> {
            let latencies = Latencies::new();
            begin.wait();
            let (mut latencies, mut n) = (latencies?, 0);
            // At least one, however late this thread gets a processor.
            loop {
                read(&reader, rows, n, &mut latencies).map_err(explain)?;
                n += 1;
                if stop.load(Ordering::Relaxed) {
                    return Ok((reader, latencies));
                }
            }
        });
        begin.wait();
        let written = insert(&writer, Keys::Random, rows, more, &mut timing).map_err(explain);
        stop.store(true, Ordering::Relaxed);
        let read = reading.join().unwrap_or_else(|_| Err(Error::Wrong("a reader has panicked".to_owned())));
        written.and(read)
    });
    let (reader, latencies) = during?;
    side.close(reader)?;
    side.close(writer)?;
    remove_database(&path)?;
    Ok((idle.percentile_us(0.99), latencies.percentile_us(0.99)))
}

fn read(db: &Connection, rows: u64, n: u64, latencies: &mut Latencies) -> rusqlite::Result<()> {
    let key = Keys::Random.key(n.wrapping_mul(7919) % rows);
    let begun = Instant::now();
    let mut statement = db.prepare_cached("SELECT number FROM t WHERE key = ?1")?;
    statement.query_row([key], |row| row.get::<_, i64>(0))?;
    latencies.record(begun.elapsed());
    Ok(())
}
