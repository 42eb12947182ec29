//! Memory nodes: warm scans of which each thread takes the pages of its own node, and scans that know of no nodes.
//!
//! A machine with one node is taken for one with two, each with half of its processors. Threads then keep to their half. The
//! system refuses memory of a node that is not there, and the pages stay where they are. Such a run shows what it does to a
//! scan that threads keep to processors and pages. What the mode is for takes memory that is far away.

use super::files::Files;
use super::scans::{PAGE_BYTES, THREADS, WARM_SCANS, cold_and_warm};
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::pagefile::Options;
use litefoot_storage::numa::Topology;
use std::path::Path;

/// Partitions of the pool: the most that the other scans have.
const PARTITIONS: usize = 16;

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let bytes = files.sizes.cold_bytes;
    let path = files.random(PAGE_BYTES, bytes, progress)?;
    let machine = Topology::of_machine();
    let is_made_up = machine.nodes() == 1;
    let aware = if is_made_up { halves(&files.directory.join("nodes"))? } else { machine };
    let sides: Vec<(usize, Topology)> = THREADS
        .iter()
        .flat_map(|threads| [(*threads, aware.clone()), (*threads, Topology::single())])
        .collect();
    progress.begin("scans by memory nodes", (files.sizes.rounds * sides.len()) as u64);
    let times = interleave(&sides, files.sizes.rounds, |_, (threads, topology)| {
        progress.advance(1)?;
        let topology = topology.clone();
        let options =
            Options { cache_bytes: bytes as usize, partitions: PARTITIONS, topology, ..Options::default() };
        Ok(cold_and_warm(&path, *threads, &options, WARM_SCANS)?.1)
    })?;
    for (pair, threads) in times.chunks(2).zip(THREADS) {
        figures.set(format!("scan_ms.warm.nodes_on_threads_{threads}"), median(pair[0].iter().copied()));
        figures.set(format!("scan_ms.warm.nodes_off_threads_{threads}"), median(pair[1].iter().copied()));
        figures.set(format!("ratio.scan_warm_nodes.threads_{threads}"), median_ratio(&pair[1], &pair[0]));
    }
    figures.set("nodes_made_up", if is_made_up { 2.0 } else { 0.0 });
    Ok(())
}

/// Two nodes, each with half of the processors of this machine; both have the processor of a machine with one.
fn halves(directory: &Path) -> Result<Topology> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let half = processors.div_ceil(2);
    let lists = [format!("0-{}", half - 1), format!("{}-{}", half.min(processors - 1), processors - 1)];
    let write = |path: &Path, list: &str| {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, list)
    };
    let files =
        [("online", "0-1"), ("node0/cpulist", lists[0].as_str()), ("node1/cpulist", lists[1].as_str())];
    for (name, list) in files {
        let path = directory.join(name);
        write(&path, list).map_err(|source| Error::Directory { path, source })?;
    }
    Ok(Topology::read(directory))
}
