//! `sweep`: transactions of every size, on stock SQLite and on litefoot.
//!
//! # Points
//! A point is a journal mode with a durability (`wal_full`, `wal_normal`, `delete_full`, `delete_normal`), a shape of
//! rows and a number of rows in each transaction, 1 to 100,000. A row has an indexed integer and a text of 30 or 300 bytes; the
//! integers are in order, or random. The short form has fewer of each; `--rows` and `--modes` choose.
//!
//! # Rounds
//! At each point stock SQLite and litefoot take turns, at least three rounds, on the same build of SQLite, with prepared
//! statements, on real files. Each round begins with a copy of one database of 10,000 rows, which is on the device
//! already, with an open connection and one transaction behind it. So many transactions follow as fit into the round's
//! time on the slower side. Opening, copying and verifying are not timed. After each round stock SQLite checks what was
//! stored.
//!
//! # What is counted, and how
//! Bytes and syncs are those at the medium, in one more round, as in `commit`: the calls of stock SQLite pass through
//! litefoot's VFS unchanged, so that both sides stand on a counting medium. Bytes are those of the blocks of 4 KiB, each once
//! between two syncs of a file, closing included. Processor time is that of all threads of the process, closing
//! included, in the timed rounds.
//!
//! # Figures
//! `POINT` is `MODE.SHAPE.ROWS`, as in `wal_full.ordered_30.1000`; `SIDE` is `stock` or `litefoot`. Only the points that
//! were measured have figures.
//!
//! | name | meaning |
//! |---|---|
//! | `ratio.POINT.rate` | transactions a second, closing included, of litefoot over stock; median of the rounds |
//! | `ratio.POINT.commits` | the same without closing |
//! | `ratio.POINT.processor` | processor time, litefoot over stock; median of the rounds |
//! | `ratio.POINT.bytes`, `ratio.POINT.syncs` | bytes and syncs at the medium, litefoot over stock |
//! | `txn_per_s.POINT.SIDE` | transactions a second, closing included; median of the rounds |
//! | `processor_us_per_txn.POINT.SIDE` | processor time of a transaction; median of the rounds |
//! | `bytes_per_txn.POINT.SIDE`, `syncs_per_txn.POINT.SIDE` | at the medium, closing included |
//! | `worst.rate`, `worst.MODE.rate` | the lowest `rate` of all points, and of a mode's; so with `commits` |
//! | `worst.processor`, `worst.MODE.processor` | the highest `processor`; so with `bytes` and `syncs` |

mod point;
mod round;
#[cfg(test)]
mod tests;
mod workload;

use super::commit::work_directory;
use crate::Result;
use crate::harness::{Progress, median, median_ratio, turns};
use crate::options::Options;
use crate::report::Figures;
use point::{LITEFOOT, Point, STOCK};
pub use point::{MODE_NAMES, MOST_ROWS};
use round::{Cost, Extent, Place, Round};
use std::time::{Duration, Instant};
use workload::{Prepared, Text};

/// Rounds of a point, unless the options have a number, and the fewest.
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 3;
const FEWEST_ROUNDS: usize = 3;
/// How long a side's transactions take in a round, unless one takes longer.
const ROUND_TIME: Duration = Duration::from_millis(500);
const QUICK_ROUND_TIME: Duration = Duration::from_millis(100);
/// The part of that time by which each side's pace is found.
const PROBE_PARTS: u32 = 4;
/// A point whose rounds took so many times their time has no more than the fewest.
const OVERTIME: u32 = 2;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: usize,
    round_time: Duration,
}

impl Plan {
    fn new(options: &Options) -> Plan {
        let (rounds, round_time) =
            if options.quick { (QUICK_ROUNDS, QUICK_ROUND_TIME) } else { (ROUNDS, ROUND_TIME) };
        let rounds = options.rounds.map_or(rounds, |rounds| usize::try_from(rounds).unwrap_or(usize::MAX));
        Plan { rounds: rounds.max(FEWEST_ROUNDS), round_time }
    }

    /// Steps of the progress at each point: a probe, the rounds and the counted round, of two sides.
    fn steps(&self) -> u64 {
        2 * (self.rounds as u64 + 2)
    }

    /// The time limit of a point's rounds; those that have begun end.
    fn time(&self) -> Duration {
        let turns = u32::try_from(2 * self.rounds).unwrap_or(u32::MAX);
        self.round_time.saturating_mul(turns).saturating_mul(OVERTIME)
    }
}

/// What was found at a point, for stock and litefoot.
struct Measured {
    point: Point,
    rounds: [Vec<Round>; 2],
    costs: [Cost; 2],
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let points = point::points(options.quick, &options.rows, &options.modes);
    let text = Text::new(options.seed);
    let plan = Plan::new(options);
    let mut measured: Vec<Measured> = Vec::new();
    // A mode and a shape share the database that everything begins with.
    for group in points.chunk_by(|a, b| a.mode.name == b.mode.name && a.shape == b.shape) {
        let prepared = Prepared::new(directory.path(), group[0], &text, options.seed)?;
        progress.begin(
            &format!("{}, {}", group[0].mode.name, group[0].shape.name),
            group.len() as u64 * plan.steps(),
        );
        for point in group {
            let place = Place { directory: directory.path(), prepared: &prepared, point: *point };
            measured.push(measure(&place, &plan, progress)?);
        }
    }
    Ok(figures(&measured))
}

/// Times and counts both sides at one point.
fn measure(place: &Place<'_>, plan: &Plan, progress: &mut dyn Progress) -> Result<Measured> {
    let sides = place.point.mode.sides();
    let mut pace = Duration::ZERO;
    for side in &sides {
        let probe = place.time(side, Extent::Time(plan.round_time / PROBE_PARTS))?;
        pace = pace.max(Duration::from_secs_f64(1.0 / probe.commits_per_s()));
        progress.advance(1)?;
    }
    let transactions = affordable(plan.round_time, pace);
    let mut rounds: [Vec<Round>; 2] = Default::default();
    let begun = Instant::now();
    for round in 0..plan.rounds {
        let late = round >= FEWEST_ROUNDS && begun.elapsed() > plan.time();
        for side in turns(round, sides.len()) {
            if !late {
                rounds[side].push(place.time(&sides[side], Extent::Count(transactions))?);
            }
            progress.advance(1)?;
        }
    }
    let costs = [place.count(&sides[0], transactions)?, place.count(&sides[1], transactions)?];
    progress.advance(2)?;
    Ok(Measured { point: place.point, rounds, costs })
}

/// Transactions of a round, by the time of one.
fn affordable(round_time: Duration, pace: Duration) -> u64 {
    u64::try_from(round_time.as_nanos() / pace.as_nanos().max(1)).unwrap_or(u64::MAX).max(1)
}

impl Measured {
    /// Litefoot over stock, by what it is of.
    fn ratios(&self) -> [(&'static str, f64); 5] {
        let [stock, litefoot] = &self.rounds;
        let of_rounds = |of: fn(&Round) -> f64| {
            let each = |rounds: &[Round]| rounds.iter().map(of).collect::<Vec<f64>>();
            median_ratio(&each(litefoot), &each(stock))
        };
        let [stock, litefoot] = &self.costs;
        [
            ("rate", of_rounds(Round::txn_per_s)),
            ("commits", of_rounds(Round::commits_per_s)),
            ("processor", of_rounds(Round::processor_us)),
            ("bytes", litefoot.bytes_per_txn / stock.bytes_per_txn),
            ("syncs", litefoot.syncs_per_txn / stock.syncs_per_txn),
        ]
    }
}

/// True if a smaller ratio of this name is the worse one.
fn is_speed(name: &str) -> bool {
    matches!(name, "rate" | "commits")
}

fn figures(measured: &[Measured]) -> Figures {
    let mut figures = Figures::new();
    for found in measured {
        for (name, value) in found.ratios() {
            figures.set(format!("ratio.{}.{name}", found.point.name()), value);
        }
    }
    for found in measured {
        for ((side, rounds), cost) in [STOCK, LITEFOOT].iter().zip(&found.rounds).zip(&found.costs) {
            let over_rounds = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
            for (name, value) in [
                ("txn_per_s", over_rounds(Round::txn_per_s)),
                ("processor_us_per_txn", over_rounds(Round::processor_us)),
                ("bytes_per_txn", cost.bytes_per_txn),
                ("syncs_per_txn", cost.syncs_per_txn),
            ] {
                figures.set(format!("{name}.{}.{side}", found.point.name()), value);
            }
        }
    }
    worst(&mut figures, "worst", measured, true);
    for of_mode in measured.chunk_by(|a, b| a.point.mode.name == b.point.mode.name) {
        worst(&mut figures, &format!("worst.{}", of_mode[0].point.mode.name), of_mode, false);
    }
    figures
}

/// The worst points of some, one for each ratio.
fn worst(figures: &mut Figures, prefix: &str, measured: &[Measured], tell: bool) {
    let Some(first) = measured.first() else { return };
    for (index, (name, _)) in first.ratios().into_iter().enumerate() {
        let ratio = |found: &&Measured| found.ratios()[index].1;
        let order = |a: &&Measured, b: &&Measured| ratio(a).total_cmp(&ratio(b));
        let points = measured.iter();
        let Some(found) = (if is_speed(name) { points.min_by(order) } else { points.max_by(order) }) else {
            return;
        };
        figures.set(format!("{prefix}.{name}"), ratio(&found));
        if tell {
            figures.note(format!("worst {name}: {:.2} of stock's at {}", ratio(&found), found.point.name()));
        }
    }
}
