//! Sixteen connections, each with a thread of its own, over one database that is in memory.

use super::Files;
use super::data::Data;
use super::load::{Database, Journal, Order, load};
use super::memory::{give_back, resident_bytes};
use super::queries::{Plan, Workload, together, touch_everything};
use super::source::{Direct, LITEFOOT, STOCK, Source};
use crate::Result;
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;
use rusqlite::Connection;

const CONNECTIONS: usize = 16;
/// The mix: queries of each kind in percent of a warm round's, each in a transaction of its own.
const MIX: [(Workload, usize); 3] = [(Workload::Point, 2), (Workload::Index, 2), (Workload::Range, 1)];

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let at_first = resident_bytes();
    let data = Data::of_file(files.sizes.sixteen_bytes, files.seed);
    let database = load(&data, Order::Key, files.directory.join("sixteen.db"), progress)?;
    // Not what the process has now: the allocator may keep something of the loading, and litefoot would not have to ask for it.
    let without = at_first + data.memory_bytes();
    let resident = memory(files, &data, &database)?.saturating_sub(without) as f64;
    for journal in [Journal::Delete, Journal::Wal] {
        database.set_journal(journal)?;
        speed(files, &data, &database, journal, figures, progress)?;
    }
    figures.set(format!("sixteen_resident_bytes.{LITEFOOT}"), resident);
    figures.set("ratio.sixteen_connections_memory", resident / database.bytes as f64);
    database.remove()
}

fn source(side: &str, database: &Database) -> Result<Source> {
    match side {
        STOCK => Ok(Source::stock(&database.path)),
        _ => Source::litefoot(&database.path, database.bytes, Direct::Auto),
    }
}

/// Memory of the process once all of litefoot's connections have read.
fn memory(files: &Files<'_>, data: &Data, database: &Database) -> Result<u64> {
    give_back();
    let source = source(LITEFOOT, database)?;
    let mut connections = source.connect(CONNECTIONS)?;
    read(files, data, &source, &mut connections, 0)?;
    let resident = resident_bytes();
    source.close(connections)?;
    Ok(resident)
}

fn speed(
    files: &Files<'_>,
    data: &Data,
    database: &Database,
    journal: Journal,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let suffix = journal.suffix();
    let sides = [STOCK, LITEFOOT];
    progress.begin("sixteen connections", (files.sizes.rounds * sides.len()) as u64);
    let speeds = interleave(&sides, files.sizes.rounds, |round, side| {
        let source = source(side, database)?;
        let mut connections = source.connect(CONNECTIONS)?;
        let speed = read(files, data, &source, &mut connections, round as u64)?;
        source.close(connections)?;
        progress.advance(1)?;
        Ok(speed)
    })?;
    for (side, speeds) in sides.iter().zip(&speeds) {
        figures.set(format!("sixteen_queries{suffix}_per_s.{side}"), median(speeds.iter().copied()));
    }
    let ratio = median_ratio(&speeds[1], &speeds[0]);
    figures.set(format!("ratio.sixteen_connections_over_stock{suffix}"), ratio);
    Ok(())
}

/// Warms up, and runs the mix; queries a second.
fn read(
    files: &Files<'_>,
    data: &Data,
    source: &Source,
    connections: &mut [Connection],
    round: u64,
) -> Result<f64> {
    touch_everything(source, &connections[0], data)?;
    let (mut queries, mut seconds) = (0, 0.0);
    for plans in plans(files, data, round) {
        seconds += together(source, connections, &plans)?.as_secs_f64();
        queries += plans.iter().map(Plan::len).sum::<usize>();
    }
    Ok(queries as f64 / seconds.max(1e-9))
}

/// For each part of the mix a plan for each connection; made when its turn has come, so that it takes little memory.
fn plans(files: &Files<'_>, data: &Data, round: u64) -> impl Iterator<Item = Vec<Plan>> {
    let mut random = fastrand::Rng::with_seed(files.seed ^ round << 32);
    let mut part = move |workload, share: usize| {
        let count = (files.sizes.queries * share / 100).max(1);
        (0..CONNECTIONS).map(|_| Plan::random(workload, data, count, &mut random).autocommit()).collect()
    };
    MIX.iter().map(move |(workload, share)| part(*workload, *share))
}
