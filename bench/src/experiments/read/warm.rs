//! Reading what is in memory.

use super::Files;
use super::data::Data;
use super::load::{Database, Journal, Order, copy, load};
use super::queries::{Plan, Workload, together, touch_everything};
use super::source::{Direct, LITEFOOT, MMAP, STOCK, Source};
use crate::Result;
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;
use rusqlite::Connection;

/// The sides, by their places in [`Sides`].
const NAMES: [&str; 3] = [STOCK, MMAP, LITEFOOT];
const THREADS: [usize; 2] = [1, 2];
/// Memory for all of the file and what the pool needs besides.
const POOL_OVER_FILE: f64 = 1.125;

const WORKLOADS: [Workload; 6] =
    [Workload::PointAuto, Workload::Point, Workload::Index, Workload::Range, Workload::Scan, Workload::Join];

/// A side with its connections, which are open through all rounds.
struct Opened {
    source: Source,
    connections: Vec<Connection>,
}

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let data = Data::of_file(files.sizes.warm_bytes, files.seed);
    let stock = load(&data, Order::Key, files.directory.join("warm.db"), progress)?;
    // Litefoot owns what it has open. With a file of its own all sides stay warm from round to round.
    let own = copy(&stock, files.directory.join("warm-litefoot.db"))?;
    for journal in [Journal::Delete, Journal::Wal] {
        [&stock, &own].into_iter().try_for_each(|database| database.set_journal(journal))?;
        of_journal(files, &data, (&stock, &own), journal, figures, progress)?;
    }
    [stock, own].iter().try_for_each(Database::remove)
}

fn of_journal(
    files: &Files<'_>,
    data: &Data,
    (stock, own): (&Database, &Database),
    journal: Journal,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let mut opened = open(stock, own)?;
    progress.begin("warming up", opened.len() as u64);
    for side in &opened {
        side.connections
            .iter()
            .try_for_each(|connection| touch_everything(&side.source, connection, data))?;
        progress.advance(1)?;
    }
    for threads in THREADS {
        for workload in WORKLOADS {
            measure(files, data, &mut opened, (workload, threads, journal), figures, progress)?;
        }
    }
    opened.into_iter().try_for_each(|side| side.source.close(side.connections))
}

fn open(stock: &Database, own: &Database) -> Result<Vec<Opened>> {
    let pool = (own.bytes as f64 * POOL_OVER_FILE) as u64;
    let sources = [
        Source::stock(&stock.path),
        Source::mapped(&stock.path, stock.bytes),
        Source::litefoot(&own.path, pool, Direct::Auto)?,
    ];
    sources
        .into_iter()
        .map(|source| Ok(Opened { connections: source.connect(THREADS.len())?, source }))
        .collect()
}

fn measure(
    files: &Files<'_>,
    data: &Data,
    opened: &mut [Opened],
    (workload, threads, journal): (Workload, usize, Journal),
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let rounds = files.sizes.rounds;
    let suffix = match threads {
        1 => journal.suffix().to_owned(),
        _ => format!("{}_{threads}t", journal.suffix()),
    };
    let name = format!("{}{suffix}", workload.name());
    progress.begin(&name, (rounds * NAMES.len()) as u64);
    let times = interleave(&[0, 1, 2], rounds, |round, side| {
        let plans = (0..threads)
            .map(|thread| plan(files, data, workload, (round * threads + thread) as u64))
            .collect::<Vec<_>>();
        let Opened { source, connections } = &mut opened[*side];
        let time = together(source, connections, &plans)?;
        progress.advance(1)?;
        Ok(time.as_secs_f64() * 1e6 / plans.iter().map(Plan::len).sum::<usize>() as f64)
    })?;
    for (side, times) in NAMES.iter().zip(&times) {
        figures.set(format!("{name}_us.{side}"), median(times.iter().copied()));
    }
    for (side, times_of_side) in NAMES.iter().zip(&times).take(2) {
        let ratio = median_ratio(times_of_side, &times[2]);
        figures.set(format!("ratio.{}_over_{side}{suffix}", workload.name()), ratio);
    }
    Ok(())
}

fn plan(files: &Files<'_>, data: &Data, workload: Workload, number: u64) -> Plan {
    let queries = files.sizes.queries;
    let count = match workload {
        Workload::PointAuto => queries / 2,
        Workload::Range => queries / 10,
        Workload::Join => (queries / 1000).max(1),
        Workload::Scan => return Plan::scan(data, 0, 1, files.sizes.scans),
        _ => queries,
    };
    Plan::random(workload, data, count, &mut fastrand::Rng::with_seed(files.seed ^ number << 32))
}
