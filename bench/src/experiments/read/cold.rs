//! Reading from the disk, with memory for a third of the file.

use super::Files;
use super::data::Data;
use super::load::{Database, Order};
use super::memory::disk_bytes;
use super::queries::{Plan, Workload, together};
use super::source::{Direct, LITEFOOT, STOCK, Source};
use crate::Result;
use crate::harness::{Progress, interleave, make_cold, median, median_ratio};
use crate::report::Figures;

/// The pool as a share of the file.
pub const POOL_SHARE: u64 = 3;
const THREADS: [usize; 2] = [1, 2];

/// The two files with the same content.
pub struct Pair {
    pub data: Data,
    pub ordered: Database,
    pub fragmented: Database,
}

impl Pair {
    pub fn of(&self, order: Order) -> &Database {
        match order {
            Order::Key => &self.ordered,
            Order::Random => &self.fragmented,
        }
    }
}

/// Something to read from a file that is not in memory.
pub struct Case {
    pub name: &'static str,
    pub order: Order,
    workload: Workload,
}

pub const SCAN_ORDERED: Case = Case { name: "scan_ordered", order: Order::Key, workload: Workload::Scan };
pub const SCAN_FRAGMENTED: Case =
    Case { name: "scan_fragmented", order: Order::Random, workload: Workload::Scan };
pub const INDEX_FRAGMENTED: Case =
    Case { name: "index_fragmented", order: Order::Random, workload: Workload::IndexRange };
pub const POINT: Case = Case { name: "point", order: Order::Random, workload: Workload::Point };
pub const RANGE: Case = Case { name: "range50", order: Order::Random, workload: Workload::Range };
pub const RANGE_ORDERED: Case =
    Case { name: "range50_ordered", order: Order::Key, workload: Workload::Range };

const CASES: [Case; 6] = [SCAN_ORDERED, SCAN_FRAGMENTED, INDEX_FRAGMENTED, POINT, RANGE, RANGE_ORDERED];

impl Case {
    /// The share of one thread: scans are divided, and each thread has its part of the other queries.
    pub fn plans(&self, files: &Files<'_>, data: &Data, threads: usize, round: u64) -> Vec<Plan> {
        let mut random = fastrand::Rng::with_seed(files.seed ^ round << 32 ^ 1 << 60);
        let queries = (files.sizes.cold_queries / threads).max(1);
        let plan = |thread| match self.workload {
            Workload::Scan => Plan::scan(data, thread, threads, 1),
            Workload::IndexRange => Plan::index_range(data, queries as i64, &mut random),
            Workload::Range => Plan::random(self.workload, data, queries.div_ceil(4), &mut random),
            _ => Plan::random(self.workload, data, queries, &mut random),
        };
        (0..threads).map(plan).collect()
    }
}

/// One side's turn.
struct Turn {
    us: f64,
    disk_bytes: f64,
}

pub fn run(files: &Files<'_>, pair: &Pair, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    for threads in THREADS {
        for case in CASES {
            measure(files, pair, &case, threads, figures, progress)?;
        }
    }
    Ok(())
}

fn measure(
    files: &Files<'_>,
    pair: &Pair,
    case: &Case,
    threads: usize,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let sides = [STOCK, LITEFOOT];
    let suffix = if threads == 1 { String::new() } else { format!("_{threads}t") };
    let name = format!("cold_{}{suffix}", case.name);
    progress.begin(&name, (files.sizes.rounds * sides.len()) as u64);
    let turns = interleave(&sides, files.sizes.rounds, |round, side| {
        let turn = turn(side, pair.of(case.order), &case.plans(files, &pair.data, threads, round as u64))?;
        progress.advance(1)?;
        Ok(turn)
    })?;
    let times = |side: usize| turns[side].iter().map(|turn: &Turn| turn.us).collect::<Vec<_>>();
    for (number, side) in sides.iter().enumerate() {
        figures.set(format!("{name}_us.{side}"), median(times(number)));
        let bytes = turns[number].iter().map(|turn| turn.disk_bytes);
        figures.set(format!("{name}_disk_bytes.{side}"), median(bytes));
    }
    figures.set(format!("ratio.cold_{}_over_stock{suffix}", case.name), median_ratio(&times(0), &times(1)));
    Ok(())
}

fn turn(side: &str, database: &Database, plans: &[Plan]) -> Result<Turn> {
    make_cold(&database.path)?;
    let source = match side {
        STOCK => Source::stock(&database.path),
        _ => Source::litefoot(&database.path, database.bytes / POOL_SHARE, Direct::Auto)?,
    };
    let mut connections = source.connect(plans.len())?;
    let before = disk_bytes();
    let time = together(&source, &mut connections, plans)?;
    let disk_bytes = (disk_bytes() - before) as f64;
    source.close(connections)?;
    Ok(Turn { us: time.as_secs_f64() * 1e6, disk_bytes })
}
