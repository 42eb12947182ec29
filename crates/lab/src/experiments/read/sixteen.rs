//! Sixteen connections, each with a thread of its own, over one database that is in memory.

use super::Files;
use super::data::Data;
use super::load::Database;
use super::memory::{give_back, resident_bytes};
use super::queries::{Plan, Workload, together, touch_everything};
use super::source::{Direct, LITEFOOT, STOCK, Source};
use crate::Result;
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;

const CONNECTIONS: usize = 16;
/// The mix: queries of each kind in percent of a warm round's, each in a transaction of its own.
const MIX: [(Workload, usize); 3] = [(Workload::Point, 2), (Workload::Index, 2), (Workload::Range, 1)];

struct Round {
    queries_per_s: f64,
    /// By how much the process has grown.
    grown_bytes: f64,
}

pub fn run(
    files: &Files<'_>,
    data: &Data,
    database: &Database,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let sides = [STOCK, LITEFOOT];
    progress.begin("sixteen connections", (files.sizes.rounds * sides.len()) as u64);
    let rounds = interleave(&sides, files.sizes.rounds, |number, side| {
        let round = round(files, data, database, side, number)?;
        progress.advance(1)?;
        Ok(round)
    })?;
    let speeds = |side: usize| rounds[side].iter().map(|round| round.queries_per_s).collect::<Vec<_>>();
    for (number, side) in sides.iter().enumerate() {
        figures.set(format!("sixteen_queries_per_s.{side}"), median(speeds(number)));
    }
    // The most of all rounds: what a round leaves to the next makes the next look smaller.
    let grown = |side: usize| rounds[side].iter().map(|round| round.grown_bytes).fold(0.0, f64::max);
    for (number, side) in sides.iter().enumerate() {
        figures.set(format!("sixteen_resident_bytes.{side}"), grown(number));
    }
    figures.set("ratio.sixteen_connections_over_stock", median_ratio(&speeds(1), &speeds(0)));
    figures.set("ratio.sixteen_connections_memory", grown(1) / database.bytes as f64);
    Ok(())
}

fn round(files: &Files<'_>, data: &Data, database: &Database, side: &str, number: usize) -> Result<Round> {
    let plans = plans(files, data, number as u64);
    give_back();
    let before = resident_bytes();
    let source = match side {
        STOCK => Source::stock(&database.path),
        _ => Source::litefoot(&database.path, database.bytes, Direct::Auto)?,
    };
    let mut connections = source.connect(CONNECTIONS)?;
    touch_everything(&source, &connections[0], data)?;
    let (mut queries, mut seconds) = (0, 0.0);
    for plans in &plans {
        seconds += together(&source, &mut connections, plans)?.as_secs_f64();
        queries += plans.iter().map(Plan::len).sum::<usize>();
    }
    let grown_bytes = resident_bytes().saturating_sub(before) as f64;
    source.close(connections)?;
    Ok(Round { queries_per_s: queries as f64 / seconds.max(1e-9), grown_bytes })
}

/// For each part of the mix a plan for each connection.
fn plans(files: &Files<'_>, data: &Data, round: u64) -> Vec<Vec<Plan>> {
    let mut random = fastrand::Rng::with_seed(files.seed ^ round << 32);
    let mut part = |workload, share: usize| {
        let count = (files.sizes.queries * share / 100).max(1);
        (0..CONNECTIONS).map(|_| Plan::random(workload, data, count, &mut random).autocommit()).collect()
    };
    MIX.iter().map(|(workload, share)| part(*workload, *share)).collect()
}
