//! Skewed reads of a database of ten times the memory, and what a scan in between does to it.
//!
//! # The same memory
//! The system's cache is memory, too, and a side that reads through it has more than it was given. So both sides read
//! past it. Litefoot does so by its option; stock SQLite goes through litefoot's VFS, which passes its calls on
//! unchanged, on files that are read directly. Stock's own cache is as large as the pool, shared out among its
//! connections. That is the best that SQLite can make of so much memory: a hit costs it no system call, and no page is
//! held twice.

use super::Files;
use super::cold::Pair;
use super::data::Data;
use super::direct::DirectReads;
use super::load::{Database, copy};
use super::queries::{Plan, together};
use super::source::{Direct, LITEFOOT, STOCK, Source};
use crate::Result;
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;
use litefoot_sim::CountingMedium;
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::sync::Arc;

/// The memory as a share of the file.
const POOL_SHARE: u64 = 10;
const PAGE_BYTES: u64 = 4096;
const SIDES: [&str; 2] = [STOCK, LITEFOOT];
const THREADS: [usize; 2] = [1, 2];
/// Queries that fill the memory, for each of its pages.
const WARM_UP: u64 = 6;
/// The skew of YCSB's workloads (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010).
const SKEW: f64 = 0.99;

/// The ranks 1 to `most`, the rank r with a probability of about r^-[`SKEW`] (Gray et al., Quickly Generating
/// Billion-Record Synthetic Databases, 1994).
struct Zipf {
    most: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(most: i64) -> Zipf {
        let zeta = |most: i64| (1..=most).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>();
        let all = zeta(most);
        let eta = (1.0 - (2.0 / most as f64).powf(1.0 - SKEW)) / (1.0 - zeta(2) / all);
        Zipf { most: most as f64, zeta: all, alpha: 1.0 / (1.0 - SKEW), eta }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> i64 {
        let u = random.f64();
        let rank = match u * self.zeta {
            below if below < 1.0 => 1.0,
            below if below < 1.0 + 0.5f64.powf(SKEW) => 2.0,
            _ => 1.0 + self.most * (self.eta * u - self.eta + 1.0).powf(self.alpha),
        };
        rank.clamp(1.0, self.most) as i64
    }
}

/// Input of the queries of both parts.
struct Draw<'a> {
    data: &'a Data,
    zipf: Zipf,
    seed: u64,
}

impl Draw<'_> {
    /// Points, the popular ones anywhere in the file.
    fn plan(&self, count: u64, number: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(self.seed ^ number << 32 ^ 1 << 61);
        Plan::points(self.data, (0..count).map(|_| self.data.id(self.zipf.draw(&mut random))))
    }
}

pub fn run(files: &Files<'_>, pair: &Pair, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let draw = Draw { data: &pair.data, zipf: Zipf::new(pair.data.rows()), seed: files.seed };
    let stock = &pair.ordered;
    // Litefoot owns what it has open. With a file of its own both sides keep what they hold from round to round.
    let own = copy(stock, files.directory.join("zipf-litefoot.db"))?;
    for threads in THREADS {
        timed(files, &draw, [stock, &own], threads, figures, progress)?;
    }
    own.remove()?;
    scanned(&draw, stock, figures, progress)
}

fn timed(
    files: &Files<'_>,
    draw: &Draw<'_>,
    [stock, own]: [&Database; 2],
    threads: usize,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let pool = stock.bytes / POOL_SHARE;
    let cache = pool / threads as u64;
    let mut opened = Vec::new();
    for source in [
        Source::stock_on(&stock.path, Arc::new(DirectReads::new()), cache)?,
        Source::litefoot(&own.path, pool, Direct::On)?,
    ] {
        let mut connections = source.connect(threads)?;
        let fill = |number| draw.plan(WARM_UP * pool / PAGE_BYTES / threads as u64, 1 << 20 | number);
        together(&source, &mut connections, &(0..threads as u64).map(fill).collect::<Vec<_>>())?;
        opened.push((source, connections));
    }
    let suffix = if threads == 1 { String::new() } else { format!("_{threads}t") };
    progress.begin(&format!("zipf{suffix}"), (files.sizes.rounds * SIDES.len()) as u64);
    let times = interleave(&[0, 1], files.sizes.rounds, |round, side| {
        let queries = files.sizes.cold_queries as u64;
        let plan = |thread| draw.plan(queries, (round * threads + thread) as u64);
        let plans: Vec<Plan> = (0..threads).map(plan).collect();
        let (source, connections): &mut (Source, Vec<Connection>) = &mut opened[*side];
        let time = together(source, connections, &plans)?;
        progress.advance(1)?;
        Ok(time.as_secs_f64() * 1e6 / (queries * threads as u64) as f64)
    })?;
    opened.into_iter().try_for_each(|(source, connections)| source.close(connections))?;
    for (side, times) in SIDES.iter().zip(&times) {
        figures.set(format!("zipf{suffix}_us.{side}"), median(times.iter().copied()));
    }
    figures.set(format!("ratio.zipf_over_stock{suffix}"), median_ratio(&times[0], &times[1]));
    Ok(())
}

/// Pages read for a query, before a full scan and right after it.
fn scanned(
    draw: &Draw<'_>,
    database: &Database,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let pool = database.bytes / POOL_SHARE;
    progress.begin("a scan in between", SIDES.len() as u64);
    for side in SIDES {
        let counting = CountingMedium::new(Arc::new(OsMedium::new()));
        let medium = Arc::new(counting.clone());
        let source = match side {
            STOCK => Source::stock_on(&database.path, medium, pool)?,
            _ => Source::litefoot_on(&database.path, medium, pool, Direct::On)?,
        };
        let mut connections = source.connect(1)?;
        let mut pages_each = |count: u64, plan: Plan| -> Result<f64> {
            let bytes = || counting.snapshot().of(FileKind::Database).bytes_read;
            let before = bytes();
            together(&source, &mut connections, &[plan])?;
            Ok((bytes() - before) as f64 / PAGE_BYTES as f64 / count as f64)
        };
        let pages = pool / PAGE_BYTES;
        // As many queries as the pool has pages: more of them would hide what the scan has done.
        let measured = pages.max(1);
        pages_each(1, draw.plan(WARM_UP * pages, 1 << 20))?;
        let before = pages_each(measured, draw.plan(measured, 1))?;
        pages_each(1, Plan::scan(draw.data, 0, 1, 1))?;
        let after = pages_each(measured, draw.plan(measured, 2))?;
        source.close(connections)?;
        figures.set(format!("zipf_reads_before_scan.{side}"), before);
        figures.set(format!("zipf_reads_after_scan.{side}"), after);
        if side == LITEFOOT {
            // At least a page: a file that fits is not read at all.
            let at_least = |each: f64| each.max(1.0 / measured as f64);
            figures.set("ratio.zipf_reads_after_scan", at_least(after) / at_least(before));
        }
        progress.advance(1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_rows_are_drawn_as_often_as_they_should() {
        let (most, draws) = (1000, 200_000);
        let zipf = Zipf::new(most);
        let mut random = fastrand::Rng::with_seed(4);
        let mut counts = vec![0u32; most as usize + 1];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        assert_eq!(counts[0], 0);
        for rank in [1, 2] {
            let expected = f64::from(draws) * f64::from(rank).powf(-SKEW) / zipf.zeta;
            let found = f64::from(counts[rank as usize]);
            assert!((found / expected - 1.0).abs() < 0.05, "{rank}: {found}, expected {expected}");
        }
        assert!(counts[1..=100].iter().sum::<u32>() > counts[101..].iter().sum());
    }
}
