//! Four threads and transactions of two kinds.
//!
//! Four threads make durable transactions for a while, each with a connection of its own and the busy timeout of common
//! drivers (5 s). Three in four transactions insert one row, the fourth is `BEGIN IMMEDIATE` with an insert and an
//! update. Stock SQLite in WAL mode at `synchronous=FULL`, litefoot, and litefoot with `commit_log=statements` take turns, at
//! least five rounds. After each round stock SQLite counts the rows: every acknowledged transaction must be there.

use super::super::commit::remove_database;
use super::{BUSY_TIMEOUT, SIDES, Side, WRITERS};
use crate::harness::{Latencies, MIN_ROUNDS, Progress, interleave, median, median_ratio};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_sim::CountingMedium;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long they do in each round.
const ROUND: Duration = Duration::from_millis(2500);
const QUICK_ROUND: Duration = Duration::from_millis(500);

const SCHEMA: &str = "CREATE TABLE r(id INTEGER PRIMARY KEY, writer INTEGER, n INTEGER, text TEXT);
     CREATE TABLE w(writer INTEGER PRIMARY KEY, n INTEGER);
     INSERT INTO w SELECT value, 0 FROM json_each('[0,1,2,3]');";

/// One side's round.
struct Round {
    latencies: Latencies,
    elapsed: Duration,
    /// The 99.9th percentile of the thread that was served worst.
    worst_p999_us: f64,
    /// Transactions of each thread.
    counts: Vec<u64>,
}

impl Round {
    fn txn_per_s(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn least_share(&self) -> f64 {
        let mean = self.counts.iter().sum::<u64>() as f64 / self.counts.len() as f64;
        self.counts.iter().copied().min().unwrap_or(0) as f64 / mean.max(1.0)
    }
}

/// Runs the experiment.
pub fn run(quick: bool, directory: &Path, progress: &mut dyn Progress) -> Result<Figures> {
    let time = if quick { QUICK_ROUND } else { ROUND };
    progress.begin("four writers", (MIN_ROUNDS * SIDES.len() + 1) as u64);
    let rounds = interleave(&SIDES, MIN_ROUNDS, |_, side| {
        let path = directory.join(format!("{}.db", side.name));
        let round = work(side, &path, time, &mut || side.open_timed(&path))?;
        remove_database(&path)?;
        progress.advance(1)?;
        Ok(round)
    })?;
    let mut figures = Figures::new();
    for (side, rounds) in SIDES.iter().zip(&rounds) {
        let mut set = |name: &str, value: &dyn Fn(&Round) -> f64| {
            figures.set(format!("{name}.{}", side.name), median(rounds.iter().map(value)));
        };
        set("txn_per_s", &Round::txn_per_s);
        set("p50_us", &|round| round.latencies.percentile_us(0.5));
        set("p99_us", &|round| round.latencies.percentile_us(0.99));
        set("p999_us", &|round| round.latencies.percentile_us(0.999));
        set("worst_p999_us", &|round| round.worst_p999_us);
        set("least_share", &Round::least_share);
    }
    let each =
        |side: usize, value: &dyn Fn(&Round) -> f64| rounds[side].iter().map(value).collect::<Vec<f64>>();
    let speed = |side: usize| each(side, &Round::txn_per_s);
    let slowest = |side: usize| each(side, &|round: &Round| round.latencies.percentile_us(0.999));
    for (number, side) in SIDES.iter().enumerate().skip(1) {
        let ratio = median_ratio(&speed(number), &speed(0));
        figures.set(format!("ratio.{}_over_wal_full", side.name), ratio);
    }
    let worst = |side: usize| each(side, &|round: &Round| round.worst_p999_us);
    figures.set("ratio.p999_wal_full_over_litefoot", median_ratio(&worst(0), &worst(1)));
    figures.set("ratio.pooled_p999_wal_full_over_litefoot", median_ratio(&slowest(0), &slowest(1)));
    for side in &SIDES {
        let path = directory.join(format!("counted-{}.db", side.name));
        figures.set(format!("syncs_per_txn.{}", side.name), count(side, &path, time)?);
        remove_database(&path)?;
    }
    progress.advance(1)?;
    Ok(figures)
}

/// Syncs of a transaction, by a counting medium beneath the side.
fn count(side: &Side, path: &Path, time: Duration) -> Result<f64> {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let vfs = litefoot::Vfs::builder(format!("group-{}", side.name))
        .medium(Arc::new(medium.clone()))
        .pass_through(!side.is_litefoot())
        .register()?;
    let before = medium.snapshot();
    let round = work(side, path, time, &mut || side.open_through(&vfs, path))?;
    Ok((medium.snapshot() - before).all_syncs() as f64 / round.latencies.count().max(1) as f64)
}

/// One round: fresh database, writers, closing, verification.
fn work(
    side: &Side,
    path: &Path,
    time: Duration,
    open: &mut dyn FnMut() -> Result<Connection>,
) -> Result<Round> {
    let explain = |source| side.explain(source);
    let keeper = open()?;
    keeper.execute_batch(SCHEMA).map_err(explain)?;
    let connections = (0..WRITERS).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, connection)| {
                let stop = &stop;
                scope.spawn(move || writer(side, connection, number as i64, stop))
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<Latencies>>| {
            thread.join().unwrap_or_else(|_| Err(Error::Wrong("a writer has panicked".to_owned())))
        };
        threads.into_iter().map(ended).collect::<Result<Vec<Latencies>>>()
    })?;
    let elapsed = begun.elapsed();
    keeper.close().map_err(|(_, error)| explain(error))?;
    let mut latencies = Latencies::new()?;
    parts.iter().try_for_each(|part| latencies.add(part))?;
    let counts: Vec<u64> = parts.iter().map(Latencies::count).collect();
    let worst_p999_us = parts.iter().map(|part| part.percentile_us(0.999)).fold(0.0, f64::max);
    verify(side, path, &counts)?;
    Ok(Round { latencies, elapsed, worst_p999_us, counts })
}

/// Writes until it is told to stop.
fn writer(side: &Side, db: Connection, number: i64, stop: &AtomicBool) -> Result<Latencies> {
    let explain = |source| side.explain(source);
    db.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
    let mut latencies = Latencies::new()?;
    let text = "x".repeat(100);
    let mut n = 0i64;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let begun = Instant::now();
        transact(&db, number, n, &text).map_err(explain)?;
        latencies.record(begun.elapsed());
    }
    db.close().map_err(|(_, error)| explain(error))?;
    Ok(latencies)
}

fn transact(db: &Connection, writer: i64, n: i64, text: &str) -> rusqlite::Result<()> {
    let insert = || {
        let sql = "INSERT INTO r(writer, n, text) VALUES(?1, ?2, ?3)";
        db.prepare_cached(sql)?.execute((writer, n, text)).map(drop)
    };
    if n % 4 != 0 {
        return insert();
    }
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    insert()?;
    db.prepare_cached("UPDATE w SET n = ?2 WHERE writer = ?1")?.execute((writer, n))?;
    db.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Everything acknowledged must be there.
fn verify(side: &Side, path: &Path, counts: &[u64]) -> Result<()> {
    let explain = |source| side.explain(source);
    let db = Connection::open(path).map_err(explain)?;
    for (writer, count) in counts.iter().enumerate() {
        let sql = "SELECT count(*), (SELECT n FROM w WHERE writer = ?1) FROM r WHERE writer = ?1";
        let (rows, last): (u64, u64) = db
            .query_row(sql, [writer as i64], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
            })
            .map_err(explain)?;
        if rows != *count || last != count - count % 4 {
            return Err(Error::Wrong(format!(
                "side {}: writer {writer} made {count} transactions, the database holds {rows} rows and says {last}",
                side.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_that_scripts_rely_on_are_there() {
        let directory = tempfile::tempdir().unwrap();
        for side in &SIDES {
            let path = directory.path().join(format!("{}.db", side.name));
            let round = work(side, &path, Duration::from_millis(30), &mut || side.open_timed(&path)).unwrap();
            assert!(round.txn_per_s() > 0.0 && round.counts.len() == WRITERS);
        }
        let path = directory.path().join("counted.db");
        assert!(count(&SIDES[1], &path, Duration::from_millis(30)).unwrap() > 0.0);
    }

    #[test]
    fn a_row_that_is_missing_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let round =
            work(&SIDES[0], &path, Duration::from_millis(30), &mut || SIDES[0].open_timed(&path)).unwrap();
        let mut counts = round.counts;
        verify(&SIDES[0], &path, &counts).unwrap();
        counts[2] += 1;
        assert!(verify(&SIDES[0], &path, &counts).is_err());
    }
}
