//! `smile`: the page engine, after the figures 4.1 to 4.11 of SMILE's evaluation.
//!
//! # What is measured
//! Page files of random bytes, read through [`PageFile`] by the operators of the engine. *Warm* is with all pages
//! in the engine's memory; *cold* with none there and none in the system's page cache.
//!
//! - **Pins**: pin and unpin a page that is in memory; CPU time of the thread, not the clock's.
//! - **Scans**: the sequential scan of the thesis, which counts 32-bit integers above a threshold, against the
//!   same loop over one flat buffer.
//! - **Prefetch**: cold scans and random reads, with it and without, by a plain thread, with pages of 4 KiB. On this
//!   disk by the clock. On a modelled SD card by the device's time alone, for two scans that take turns, as a merge
//!   join reads. A single scan gains nothing in the model, which charges a read that goes on where the last one
//!   ended by bandwidth, whatever its size.
//! - **Hits**: a mix of random, skewed and sequential requests with memory for 10 % of the pages, against LRU.
//! - **Graph**: breadth-first search of an R-MAT graph, stored as it came and reordered; and by SQLite.
//! - **Operators**: filter, group by and hash join on pages of the store, and SQLite on the same values.
//! - **Store**: the page store itself, and SQLite with a row for each page.
//!
//! All sides take turns, at least five rounds, and figures are medians of the rounds.
//!
//! # Figures
//! | name | meaning | thesis |
//! |---|---|---|
//! | `pin_unpin_ns.hot`, `.random_64k`, `.random_4k` | CPU time of a hold: one page, random pages of 64 KiB and of 4 KiB | |
//! | `pin_unpin_ns.hot_2t`, … | the same per thread, two at once on distinct pages | |
//! | `scan_ms.iteration.N` | the Nth scan of a file that began cold | 4.1, 4.7 |
//! | `scan_ms.warm.page_S`, `scan_ms.cold.page_S` | a scan by page size | 4.2, 4.8 |
//! | `scan_ms.warm.threads_N_in_P`, `scan_ms.cold.threads_N_in_P` | a scan by threads and partitions of the pool; warm, of ten | 4.3, 4.9 |
//! | `ratio.scan_warm_speedup.threads_N_in_P` | over one thread with as many partitions | 4.3, 4.9 |
//! | `ratio.scan_warm_partitions.threads_N_in_P` | over one partition with as many threads | 4.4, 4.10 |
//! | `scan_ms.warm.nodes_on_threads_N`, `…_off_threads_N` | a warm scan whose threads keep to memory nodes, and one without | 4.5 |
//! | `ratio.scan_warm_nodes.threads_N` | speed with nodes over without | 4.5 |
//! | `nodes_made_up` | nodes that the machine does not have and was taken to have | |
//! | `ratio.scan_warm_over_first` | the first scan over a further one | 4.1, 4.7 |
//! | `scan_ms.cold.prefetch_on`, `…_off` | a cold scan of a plain thread | 4.6, 4.11 |
//! | `scan_ms.cold.prefetch_on_threads_N`, `…_off_threads_N` | a cold scan of so many workers | 4.6, 4.11 |
//! | `ratio.cold_prefetch_time.threads_N` | time with over without | 4.6, 4.11 |
//! | `ratio.scan_warm_over_flat` | a warm scan over the flat buffer | |
//! | `reads.second_scan` | pages read by a second, equal scan | |
//! | `ratio.cold_prefetch_speedup` | on the modelled SD card | 4.11 |
//! | `ratio.cold_prefetch_speedup.disk` | on this disk, where the system reads ahead, too | 4.6 |
//! | `ratio.cold_prefetch_speedup.disk_without_readahead` | on this disk, where it does not | 4.6 |
//! | `ratio.random_prefetch_bytes` | bytes read by random access, with prefetch over without | |
//! | `hit_rate.engine`, `hit_rate.lru`, `ratio.hit_rate_over_lru` | the mix | |
//! | `bfs_ms.text`, `bfs_ms.locality`, `bfs_ms.sqlite` | a cold search with memory for a tenth of the graph in its order | 5.1.5 |
//! | `bfs_ms.text_ahead`, `bfs_ms.locality_ahead` | the same with the correlation prefetcher | 5.3 |
//! | `bfs_reads.text`, … | the pages that a search reads | 5.1.4 |
//! | `bfs_waits.text`, … | of them, those that nothing read ahead | 5.3 |
//! | `ratio.bfs_ahead.text`, `.locality`, `.modelled` | speed with the prefetcher over without; on the modelled SD card, by the device's time | 5.3 |
//! | `ratio.bfs_locality_over_text`, `ratio.bfs_over_sqlite` | speed | |
//! | `operator_ms.O.litefoot_N`, `operator_ms.O.sqlite` | `filter`, `group` and `join` by so many threads, and by SQLite | 5.1 |
//! | `ratio.O_over_sqlite` | speed of one thread over SQLite's | |
//! | `store_alloc_us`, `store_change_us`, `store_release_us` | for a page, durable in the end | 5.1.1 |
//! | `store_roll_back_us` | for a transaction of four pages | |
//! | `store_checkpoint_ms` | a checkpoint of a quarter of the pages | |
//! | `store_recovery_ms` | from a crash in such a checkpoint until all pages are home | |
//! | `ratio.store_S_over_sqlite` | speed of a step | |
//!
//! On a machine with one memory node, figure 4.5 is of nodes that are made up, and all memory is near (`numa.rs`).

mod files;
mod graph;
mod hits;
mod interrupted;
mod numa;
mod operators;
mod pins;
mod plain;
mod prefetch;
mod scans;
mod store;

use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use files::Files;

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Bytes of the page files for scans and pins.
    file_bytes: u64,
    /// Bytes of the file that is scanned against a flat buffer.
    scan_bytes: u64,
    /// Bytes read by the runs that begin cold.
    cold_bytes: u64,
    /// Holds in a row.
    pins: u64,
    /// Rounds.
    rounds: usize,
    /// Bytes of values for operators that SQLite runs, too.
    operator_bytes: usize,
    /// R-MAT: log2 of the nodes.
    scale: u32,
}

const FULL: Sizes = Sizes {
    file_bytes: 512 << 20,
    scan_bytes: 1 << 30,
    cold_bytes: 256 << 20,
    pins: 2_000_000,
    rounds: 7,
    operator_bytes: 8 << 20,
    scale: 17,
};
const QUICK: Sizes = Sizes {
    file_bytes: 128 << 20,
    scan_bytes: 128 << 20,
    cold_bytes: 32 << 20,
    pins: 300_000,
    rounds: 5,
    operator_bytes: 1 << 20,
    scale: 14,
};

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let sizes = if options.quick { QUICK } else { FULL };
    let directory = std::fs::canonicalize(&options.directory)
        .and_then(|parent| tempfile::Builder::new().prefix("litefoot-bench-").tempdir_in(parent))
        .map_err(|source| Error::Directory { path: options.directory.clone(), source })?;
    let files = Files { directory: directory.path(), seed: options.seed, sizes };
    let mut figures = Figures::new();
    pins::run(&files, &mut figures, progress)?;
    scans::run(&files, &mut figures, progress)?;
    numa::run(&files, &mut figures, progress)?;
    prefetch::run(&files, &mut figures, progress)?;
    hits::run(&files, &mut figures, progress)?;
    graph::run(&files, &mut figures, progress)?;
    operators::run(&files, &mut figures, progress)?;
    store::run(&files, &mut figures, progress)?;
    Ok(figures)
}

#[cfg(test)]
mod tests;
