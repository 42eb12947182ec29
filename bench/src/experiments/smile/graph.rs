//! Breadth-first search with little memory, in both orders.

use super::files::{Files, ms, open, timed, workers};
use crate::harness::{Progress, interleave, make_cold, median};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph, Order, Search, Text, load, rmat};
use litefoot_pagestore::pagefile::Builder;
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use std::fmt::Write;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const EDGES_PER_NODE: usize = 8;
const MEMORY_SHARE: u64 = 10;

const SIDES: [(&str, Order); 2] = [("text", Order::Text), ("locality", Order::Locality)];

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let scale = files.sizes.scale;
    progress.begin("making a graph", 3);
    let edges = rmat(scale, EDGES_PER_NODE << scale, files.seed);
    let start = busiest(&edges);
    let mut text = format!("{} {}\n", 1u64 << scale, edges.len());
    for (source, target) in &edges {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{source} {target}");
    }
    let mut paths = Vec::new();
    for (name, order) in SIDES {
        progress.advance(1)?;
        let path = files.directory.join(format!("{name}.graph"));
        let builder = Builder::create(Arc::new(OsMedium::new()), &path, PAGE_BYTES)?;
        let mut text = Text::new(BufReader::new(text.as_bytes()), &path)?;
        load(&builder, &mut text, order, &mut |_| Ok(()))?;
        builder.finish()?;
        paths.push(path);
    }
    search_both(files, figures, progress, &paths, start)
}

/// The node with most edges: a search from it reaches most others.
fn busiest(edges: &[(u64, u64)]) -> u64 {
    let groups = edges.chunk_by(|a, b| a.0 == b.0);
    groups.max_by_key(|group| group.len()).map_or(0, |group| group[0].0)
}

/// One search.
struct Searched {
    ms: f64,
    reads: u64,
    found: u64,
}

fn search_both(
    files: &Files<'_>,
    figures: &mut Figures,
    progress: &mut dyn Progress,
    paths: &[PathBuf],
    start: u64,
) -> Result<()> {
    progress.begin("searches", (files.sizes.rounds * SIDES.len()) as u64);
    let results = interleave(paths, files.sizes.rounds, |_, path| {
        progress.advance(1)?;
        search(path, start)
    })?;
    let found: Vec<u64> = results.iter().flatten().map(|searched| searched.found).collect();
    if found.iter().any(|count| *count != found[0]) {
        return Err(Error::Wrong(format!("searches of one graph found {found:?} nodes")));
    }
    for ((name, _), rounds) in SIDES.iter().zip(&results) {
        figures.set(format!("bfs_ms.{name}"), median(rounds.iter().map(|searched| searched.ms)));
    }
    for ((name, _), rounds) in SIDES.iter().zip(&results) {
        figures.set(format!("bfs_reads.{name}"), median(rounds.iter().map(|searched| searched.reads as f64)));
    }
    Ok(())
}

fn search(path: &Path, start: u64) -> Result<Searched> {
    let medium = OsMedium::new();
    let bytes = medium.info(path)?.map_or(0, |info| info.len);
    make_cold(path)?;
    let (file, workers) = (open(&medium, path, bytes / MEMORY_SHARE, true)?, workers(2)?);
    let (found, time) = timed(|| {
        let graph = Graph::open(&file, GRAPH_PAGE)?;
        let mut search = Search::from(&graph, start)?;
        let mut found = 0;
        while let Some(level) = search.next_level(&workers, &graph)? {
            found += level.nodes.len() as u64;
        }
        Ok(found)
    })?;
    let statistics = file.statistics();
    Ok(Searched { ms: ms(time), reads: statistics.missed + statistics.ahead, found })
}
