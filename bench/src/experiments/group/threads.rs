//! Loads of 1 to 64 threads, and four threads at fixed rates of arrivals.

use super::load::{Load, Plan};
use super::side::{FLOOR, Loaded};
use super::{LITEFOOT, WAL_FULL, WRITERS};
use crate::Result;
use crate::harness::{Latencies, Progress, median, median_ratio, take_turns};
use crate::report::Figures;
use std::path::Path;
use std::time::Duration;

/// Threads that write at once.
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Those of the short form: with more, SQLite's last thread waits for seconds until it may write.
const QUICK_THREADS: [usize; 3] = [1, 4, 16];

/// The rates of arrivals: name, whose commits a second they are a share of (of each side's own for nothing), and the
/// share.
const RATES: [(&str, Option<&str>, f64); 3] =
    [("half_of_own", None, 0.5), ("most_of_own", None, 0.8), ("half_of_sqlite", Some(WAL_FULL), 0.5)];

const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 3;
const ROUND_MS: u64 = 500;
const QUICK_ROUND_MS: u64 = 120;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub threads: &'static [usize],
    pub rounds: usize,
    pub time_ms: u64,
    pub seed: u64,
}

impl Extent {
    pub fn new(quick: bool, seed: u64) -> Extent {
        if quick {
            Extent { threads: &QUICK_THREADS, rounds: QUICK_ROUNDS, time_ms: QUICK_ROUND_MS, seed }
        } else {
            Extent { threads: &THREADS, rounds: ROUNDS, time_ms: ROUND_MS, seed }
        }
    }

    fn plan(self, threads: usize, arrivals_per_s: Option<f64>) -> Plan {
        Plan { threads, time_ms: self.time_ms, arrivals_per_s, seed: self.seed }
    }
}

/// The rounds of each side.
type Rounds = Vec<Vec<Measured>>;

/// One side's round.
struct Measured {
    txn_per_s: f64,
    latencies: Latencies,
}

impl Measured {
    fn new(load: &Load, plan: &Plan) -> Result<Measured> {
        let mut latencies = Latencies::new()?;
        load.latencies_ns.iter().for_each(|ns| latencies.record(Duration::from_nanos(*ns)));
        // A device so slow that none returned in time has less than one in that time.
        let commits = load.in_time.max(1) as f64;
        Ok(Measured { txn_per_s: commits * 1e3 / plan.time_ms as f64, latencies })
    }
}

/// Runs all loads.
pub fn run(
    sides: &[Loaded<'_>],
    extent: Extent,
    directory: &Path,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let turns = (extent.rounds * sides.len()) as u64;
    let mut own_rates = Vec::new();
    for threads in extent.threads {
        let (threads, plan) = (*threads, extent.plan(*threads, None));
        progress.begin(&format!("{threads} writing"), turns);
        let rounds = take_turns(sides, extent.rounds, |_, side| {
            progress.advance(1)?;
            Measured::new(&side.run(&plan, directory)?, &plan)
        })?;
        closed(figures, &format!("threads_{threads}"), sides, &rounds);
        if threads == WRITERS {
            own_rates = rounds.iter().map(|rounds| speed(rounds)).collect();
        }
    }
    for (name, whose, share) in RATES {
        let place = |whose: &str| sides.iter().position(|side| side.name() == whose);
        progress.begin("fixed rates of arrivals", turns);
        let numbered: Vec<(usize, &Loaded<'_>)> = sides.iter().enumerate().collect();
        let rounds = take_turns(&numbered, extent.rounds, |_, (index, side)| {
            progress.advance(1)?;
            let of = whose.and_then(place).unwrap_or(*index);
            let rate = own_rates.get(of).copied().unwrap_or(1.0) * share;
            let plan = extent.plan(WRITERS, Some(rate));
            Measured::new(&side.run(&plan, directory)?, &plan)
        })?;
        for (side, rounds) in sides.iter().zip(&rounds) {
            latencies(figures, &format!("arrivals_{name}"), side.name(), rounds);
        }
    }
    Ok(())
}

fn speed(rounds: &[Measured]) -> f64 {
    median(rounds.iter().map(|round| round.txn_per_s))
}

fn percentiles(rounds: &[Measured], share: f64) -> Vec<f64> {
    rounds.iter().map(|round| round.latencies.percentile_us(share)).collect()
}

fn latencies(figures: &mut Figures, what: &str, side: &str, rounds: &[Measured]) {
    figures.set(format!("txn_per_s.{what}.{side}"), speed(rounds));
    for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        figures.set(format!("{name}.{what}.{side}"), median(percentiles(rounds, share)));
    }
}

/// The figures of threads that commit as fast as they can.
fn closed(figures: &mut Figures, what: &str, sides: &[Loaded<'_>], rounds: &Rounds) {
    for (side, rounds) in sides.iter().zip(rounds) {
        latencies(figures, what, side.name(), rounds);
    }
    let of = |name: &str| sides.iter().zip(rounds).find(|(side, _)| side.name() == name);
    let Some((_, ours)) = of(LITEFOOT) else { return };
    let speeds = |rounds: &[Measured]| rounds.iter().map(|round| round.txn_per_s).collect::<Vec<f64>>();
    let mut best = vec![0.0; ours.len()];
    for (side, rounds) in
        sides.iter().zip(rounds).filter(|(side, _)| ![LITEFOOT, FLOOR].contains(&side.name()))
    {
        let theirs = speeds(rounds);
        let ratio = median_ratio(&speeds(ours), &theirs);
        figures.set(format!("ratio.litefoot_over_{}.{what}", side.name()), ratio);
        if side.is_peer() {
            best.iter_mut().zip(theirs).for_each(|(best, speed)| *best = f64::max(*best, speed));
        }
    }
    if sides.iter().any(Loaded::is_peer) {
        figures.set(format!("ratio.litefoot_over_best_peer.{what}"), median_ratio(&speeds(ours), &best));
    }
    if let Some((_, floor)) = of(FLOOR) {
        let ratio = median_ratio(&percentiles(ours, 0.5), &percentiles(floor, 0.5));
        figures.set(format!("ratio.p50_over_floor.{what}"), ratio);
    }
}
