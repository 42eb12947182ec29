//! Breadth-first search with little memory: in both orders, with the correlation prefetcher and without; and by SQLite.

use super::files::{Files, ms, open, timed, workers};
use crate::harness::{Progress, interleave, make_cold, median, median_ratio, open_stock};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph, Order, Search, Text, load, rmat};
use litefoot_pagestore::pagefile::Builder;
use litefoot_sim::{Device, ModelledMedium};
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use std::fmt::Write;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const EDGES_PER_NODE: usize = 8;
const MEMORY_SHARE: u64 = 10;

const ORDERS: [(&str, Order); 2] = [("text", Order::Text), ("locality", Order::Locality)];

/// The page file to search, by its place in [`ORDERS`], and whether the search reads ahead. SQLite has no page file.
const SIDES: [(&str, Option<usize>, bool); 5] = [
    ("text", Some(0), false),
    ("locality", Some(1), false),
    ("text_ahead", Some(0), true),
    ("locality_ahead", Some(1), true),
    ("sqlite", None, false),
];

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
    for (name, order) in ORDERS {
        progress.advance(1)?;
        let path = files.directory.join(format!("{name}.graph"));
        let builder = Builder::create(Arc::new(OsMedium::new()), &path, PAGE_BYTES)?;
        let mut text = Text::new(BufReader::new(text.as_bytes()), &path)?;
        load(&builder, &mut text, order, &mut |_| Ok(()))?;
        builder.finish()?;
        paths.push(path);
    }
    let table = files.directory.join("graph.db");
    store_edges(&table, &edges).map_err(|source| explain(&table, source))?;
    search_all(files, figures, progress, &Stored { paths, table, start })
}

/// The graph in its forms, and the node to search from.
struct Stored {
    paths: Vec<PathBuf>,
    table: PathBuf,
    start: u64,
}

fn explain(path: &Path, source: rusqlite::Error) -> Error {
    Error::Sqlite { what: path.display().to_string(), source }
}

/// The edges as SQLite finds them fastest: a table whose rows are its index.
fn store_edges(path: &Path, edges: &[(u64, u64)]) -> rusqlite::Result<()> {
    let mut db = open_stock(path)?;
    db.execute_batch(
        "PRAGMA journal_mode=off; PRAGMA synchronous=off;
         CREATE TABLE edge(source INTEGER, target INTEGER, PRIMARY KEY(source, target)) WITHOUT ROWID;",
    )?;
    let transaction = db.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO edge VALUES (?1, ?2)")?;
        for (source, target) in edges {
            insert.execute([*source as i64, *target as i64])?;
        }
    }
    transaction.commit()
}

/// The node with most edges: a search from it reaches most others.
fn busiest(edges: &[(u64, u64)]) -> u64 {
    let groups = edges.chunk_by(|a, b| a.0 == b.0);
    groups.max_by_key(|group| group.len()).map_or(0, |group| group[0].0)
}

/// One search.
struct Searched {
    ms: f64,
    /// Pages read.
    reads: u64,
    /// Of them, those that were waited for from their beginning.
    waits: u64,
    found: u64,
}

fn search_all(
    files: &Files<'_>,
    figures: &mut Figures,
    progress: &mut dyn Progress,
    stored: &Stored,
) -> Result<()> {
    progress.begin("searches", (files.sizes.rounds * SIDES.len()) as u64);
    let memory = OsMedium::new().info(&stored.paths[0])?.map_or(0, |info| info.len) / MEMORY_SHARE;
    let results = interleave(&SIDES, files.sizes.rounds, |_, (_, path, ahead)| {
        progress.advance(1)?;
        match path {
            Some(path) => search(&OsMedium::new(), &stored.paths[*path], stored.start, memory, *ahead),
            None => search_by_sqlite(&stored.table, stored.start, memory),
        }
    })?;
    let found: Vec<u64> = results.iter().flatten().map(|searched| searched.found).collect();
    if found.iter().any(|count| *count != found[0]) {
        return Err(Error::Wrong(format!("searches of one graph found {found:?} nodes")));
    }
    let times = |side: usize| results[side].iter().map(|searched| searched.ms).collect::<Vec<f64>>();
    for (side, (name, path, _)) in SIDES.iter().enumerate() {
        figures.set(format!("bfs_ms.{name}"), median(times(side)));
        if path.is_some() {
            let of = |count: fn(&Searched) -> u64| median(results[side].iter().map(|one| count(one) as f64));
            figures.set(format!("bfs_reads.{name}"), of(|searched| searched.reads));
            figures.set(format!("bfs_waits.{name}"), of(|searched| searched.waits));
        }
    }
    figures.set("ratio.bfs_locality_over_text", median_ratio(&times(0), &times(1)));
    figures.set("ratio.bfs_over_sqlite", median_ratio(&times(4), &times(0)));
    figures.set("ratio.bfs_ahead.text", median_ratio(&times(0), &times(2)));
    figures.set("ratio.bfs_ahead.locality", median_ratio(&times(1), &times(3)));
    let modelled = |ahead: bool| -> Result<f64> {
        let medium = ModelledMedium::new(Arc::new(OsMedium::new()));
        search(&medium, &stored.paths[0], stored.start, memory, ahead)?;
        Ok(medium.virtual_us(Device::SdCardA1))
    };
    figures.set("ratio.bfs_ahead.modelled", modelled(false)? / modelled(true)?);
    Ok(())
}

/// The same search as a recursive statement, with as much memory.
fn search_by_sqlite(path: &Path, start: u64, memory: u64) -> Result<Searched> {
    make_cold(path)?;
    let ask = || -> rusqlite::Result<u64> {
        let db = open_stock(path)?;
        db.execute_batch(&format!("PRAGMA cache_size=-{}", memory / 1024))?;
        db.query_row(
            "WITH RECURSIVE found(node) AS (VALUES(?1) UNION SELECT target FROM edge JOIN found ON source = node)
             SELECT count(*) FROM found",
            [start as i64],
            |row| row.get::<_, i64>(0).map(i64::cast_unsigned),
        )
    };
    let (found, time) = timed(|| ask().map_err(|source| explain(path, source)))?;
    Ok(Searched { ms: ms(time), reads: 0, waits: 0, found })
}

fn search(medium: &dyn Medium, path: &Path, start: u64, memory: u64, ahead: bool) -> Result<Searched> {
    make_cold(path)?;
    let (file, workers) = (open(medium, path, memory, true)?, workers(1)?);
    let (found, time) = timed(|| {
        let graph = Graph::open(&file, GRAPH_PAGE)?;
        let search = Search::from(&graph, start)?;
        let mut search = if ahead { search.reading_ahead() } else { search };
        let mut found = 0;
        while let Some(level) = search.next_level(&workers, &graph)? {
            found += level.nodes.len() as u64;
        }
        Ok(found)
    })?;
    let statistics = file.statistics();
    let reads = statistics.missed + statistics.ahead;
    Ok(Searched { ms: ms(time), reads, waits: statistics.missed, found })
}
