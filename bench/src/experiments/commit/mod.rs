//! The cost of a small durable transaction.
//!
//! # Sides
//! Stock SQLite in four settings, and litefoot under a WAL database and under a rollback-journal database. The *floor*
//! is 300 bytes written in place into a file whose space is written already, and a data sync. Nothing that keeps a
//! transaction durable can be cheaper than the floor on the same device.
//!
//! # Workloads
//! Autocommit transactions of one row. `insert` goes into a table of a text of 100 bytes, an indexed integer and a
//! double. `update` changes the text and the double of a row, so the index stays; 90 % of the updates hit 5 % of 20,000
//! rows. Both use the same seeded values for all sides, on a fresh database in each round.
//!
//! # Two runs
//! 1. **Timed**: stock sides on SQLite's own `unix` VFS, litefoot on the operating system's files. The sides take
//!    turns, at least five rounds. Closing the database belongs to the time: it checkpoints the logs.
//! 2. **Counted**: the stock sides' file calls pass through litefoot's VFS unchanged, and all sides stand on a
//!    counting and a modelling medium. One run: counts do not vary.
//!
//! After each run, stock SQLite checks that the database holds what the side was given.
//!
//! # Figures
//! The last part of a name is the side. `NAME.SIDE` is over both workloads, `NAME.insert.SIDE` and
//! `NAME.update.SIDE` are over one.
//!
//! | name | meaning |
//! |---|---|
//! | `transactions` | transactions of a side in each round and workload |
//! | `txn_per_s` | transactions a second, closing included; median of the rounds |
//! | `p50_us`, `p99_us`, `p999_us` | latency of a transaction; median of the rounds |
//! | `bytes_per_txn` | bytes of the blocks of 4 KiB handed to the device, each once between two syncs of a file, closing included |
//! | `syncs_per_txn` | syncs of files and directories, closing included |
//! | `model_us.DEVICE` | time of the device in the model, closing and write-back included, without processor time |
//! | `ratio.SIDE_over_wal_full` | `txn_per_s` of a side over that of `wal_full`; median of the rounds |
//! | `ratio.litefoot_over_delete_full` | the same over SQLite's defaults |
//! | `ratio.p50_over_floor` | `p50_us` of litefoot over that of the floor; median of the rounds |

mod counted;
pub(super) mod floor;
pub(super) mod meter;
pub(super) mod side;
mod timed;
pub(super) mod values;
pub(super) mod workload;

use crate::harness::{MIN_ROUNDS, Progress, median, median_ratio};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use counted::Cost;
use litefoot_sim::Device;
use litefoot_storage::file::beside;
use side::{SIDES, Side};
use std::path::Path;
use std::time::Duration;
use timed::Timing;
use workload::Workload;

/// Transactions of a side, in each round and workload.
const TRANSACTIONS: u64 = 5000;
/// The same for the short form, unless the device is too slow for it.
const QUICK_TRANSACTIONS: u64 = 400;
const FEWEST_TRANSACTIONS: u64 = 10;
/// Transactions by which the short form finds out how slow the device is.
const PROBE_TRANSACTIONS: u64 = 10;
/// The time limit of the short form's transactions; setup comes on top.
const QUICK_TIME: Duration = Duration::from_secs(20);

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let task = Task { directory: directory.path(), seed: options.seed, sides: &SIDES };
    let mut figures = measure(&task, options.quick, progress)?;
    figures.ratios(&SIDES);
    Ok(figures.figures)
}

/// State that all parts of a run share.
pub(super) struct Task<'a> {
    pub directory: &'a Path,
    pub seed: u64,
    pub sides: &'a [Side],
}

/// The figures of a run, and the timings that ratios are made from.
pub(super) struct Measured {
    pub figures: Figures,
    timings: Vec<Vec<Timing>>,
}

/// Times and counts the sides of a task.
pub(super) fn measure(task: &Task<'_>, quick: bool, progress: &mut dyn Progress) -> Result<Measured> {
    let transactions = if quick { quick_transactions(task, progress)? } else { TRANSACTIONS };
    let timings = timed::run(task, "timing", transactions, progress)?;
    let costs = counted::run(task, transactions, progress)?;
    Ok(Measured { figures: figures(task.sides, transactions, &timings, &costs), timings })
}

pub(super) fn work_directory(parent: &Path) -> Result<tempfile::TempDir> {
    std::fs::canonicalize(parent)
        .and_then(|parent| tempfile::Builder::new().prefix("litefoot-bench-").tempdir_in(parent))
        .map_err(|source| Error::Directory { path: parent.to_owned(), source })
}

/// Removes a database and whatever a side has left beside it.
pub(super) fn remove_database(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-wal.new", "-shm", "-journal", "-commits"] {
        let path = beside(path, suffix);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Directory { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// As many transactions as the short form has time for on this device.
fn quick_transactions(task: &Task<'_>, progress: &mut dyn Progress) -> Result<u64> {
    let probe = timed::run(task, "looking how fast the device is", PROBE_TRANSACTIONS, progress)?;
    let all: Duration = probe.iter().flatten().map(Timing::elapsed).sum();
    // The probe ran as many rounds as the timed run will, and the counted run is one more.
    let each_s = all.as_secs_f64() / PROBE_TRANSACTIONS as f64 * (MIN_ROUNDS + 1) as f64 / MIN_ROUNDS as f64;
    let affordable = (QUICK_TIME.as_secs_f64() / each_s.max(1e-9)) as u64;
    Ok(affordable.clamp(FEWEST_TRANSACTIONS, QUICK_TRANSACTIONS))
}

/// All figures, in the order of the report.
fn figures(sides: &[Side], transactions: u64, timings: &[Vec<Timing>], costs: &[Cost]) -> Figures {
    let mut figures = Figures::new();
    figures.set("transactions", transactions as f64);
    for (side, rounds) in sides.iter().zip(timings) {
        time_figures(&mut figures, side, rounds);
    }
    for (side, cost) in sides.iter().zip(costs) {
        cost_figures(&mut figures, side, cost);
    }
    figures
}

/// Both workloads, and each of them, with what stands for it in a name; the floor knows no workloads.
fn scopes(side: &Side) -> impl Iterator<Item = (String, Option<Workload>)> {
    let workloads = if side.is_floor() { &[][..] } else { &Workload::ALL[..] };
    let each =
        workloads.iter().map(|workload| (format!("{}.{}", workload.name(), side.name), Some(*workload)));
    std::iter::once((side.name.to_owned(), None)).chain(each)
}

fn time_figures(figures: &mut Figures, side: &Side, rounds: &[Timing]) {
    for (scope, workload) in scopes(side) {
        let over_rounds = |of: &dyn Fn(&Timing) -> f64| median(rounds.iter().map(of));
        figures.set(format!("txn_per_s.{scope}"), over_rounds(&|timing| timing.txn_per_s(workload)));
        for (percentile, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            let us = over_rounds(&|timing| timing.percentile_us(workload, share));
            figures.set(format!("{percentile}.{scope}"), us);
        }
    }
}

fn cost_figures(figures: &mut Figures, side: &Side, cost: &Cost) {
    for (scope, workload) in scopes(side) {
        figures.set(format!("bytes_per_txn.{scope}"), cost.bytes_per_txn(workload));
        figures.set(format!("syncs_per_txn.{scope}"), cost.syncs_per_txn(workload));
    }
    for device in Device::ALL {
        figures.set(format!("model_us.{device}.{}", side.name), cost.model_us(device));
    }
}

impl Measured {
    /// The speed of one side over that of another: the median over the rounds.
    pub fn speed_ratio(&self, sides: &[Side], side: &str, over: &str) -> f64 {
        self.ratio(sides, side, over, |timing| timing.txn_per_s(None))
    }

    /// The median latency of one side over that of another.
    pub fn p50_ratio(&self, sides: &[Side], side: &str, over: &str) -> f64 {
        self.ratio(sides, side, over, |timing| timing.percentile_us(None, 0.5))
    }

    fn ratio(&self, sides: &[Side], side: &str, over: &str, value: fn(&Timing) -> f64) -> f64 {
        let rounds_of = |name: &str| -> Vec<f64> {
            let rounds = sides.iter().zip(&self.timings).find(|(side, _)| side.name == name);
            rounds.into_iter().flat_map(|(_, rounds)| rounds).map(value).collect()
        };
        median_ratio(&rounds_of(side), &rounds_of(over))
    }

    fn ratios(&mut self, sides: &[Side]) {
        for side in sides.iter().filter(|side| side.name != side::WAL_FULL) {
            let ratio = self.speed_ratio(sides, side.name, side::WAL_FULL);
            self.figures.set(format!("ratio.{}_over_wal_full", side.name), ratio);
        }
        let over_delete = self.speed_ratio(sides, side::LITEFOOT, side::DELETE_FULL);
        self.figures.set("ratio.litefoot_over_delete_full", over_delete);
        let over_floor = self.p50_ratio(sides, side::LITEFOOT, side::FLOOR);
        self.figures.set("ratio.p50_over_floor", over_floor);
    }
}

#[cfg(test)]
mod tests;
