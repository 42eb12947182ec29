//! `read`: reading through litefoot's pool, against SQLite's own cache and the system's.
//!
//! # What is read
//! A table `item` has rows of 200 to 350 bytes with an integer key. Its index does not cover the rows, and has another
//! order than the table. The rows of a table `link` point to rows of `item`. Pages have 4 KiB. *Ordered* files were
//! loaded by key, the index made at the end; *fragmented* ones in random order, index included. Every answer of every query is compared with a plain calculation.
//!
//! # Sides
//! - `stock`: SQLite on its own `unix` VFS with its defaults;
//! - `mmap`: the same with the whole file mapped;
//! - `litefoot`: SQLite on litefoot.
//!
//! All on the same SQLite. They take turns, at least five rounds. Figures are medians of the rounds, ratios medians of
//! the ratios within each round; above 1 litefoot is faster. With two threads each has a connection of its own.
//!
//! # What is measured
//! Databases are as SQLite makes them, with a rollback journal; what is measured in WAL mode, too, is marked by `_wal`. A
//! transaction of reads costs more system calls with a rollback journal, and one look into the log's index for each page
//! with a log.
//!
//! - **Warm**: all in memory, the pool larger than the file. Litefoot reads a copy of the file, because nobody else can
//!   open what it owns.
//! - **Sixteen connections**: each on a thread of its own, over one file that the pool just holds. They make points,
//!   index lookups and ranges, each a transaction of its own. Memory is the growth of the process since the beginning
//!   of the run, over the bytes of the pool, with all connections open. Pages of files in the system's cache do not
//!   count. It comes first, so that nothing of another part is in it.
//! - **Cold**: nothing in memory, the pool a third of the file. Time is by the clock on this disk. Bytes are those of a
//!   counting medium (see `counted`), without the system's readahead for stock. The time of modelled devices is that of
//!   a modelling medium. It charges a page that continues the last one by bandwidth, any other as a random read, and
//!   knows no requests at the same time.
//! - **Zipf**: ten times the memory; how memory is kept equal is told in `zipf`.
//!
//! # Figures
//! The last part of a name is the side. `W` is `point_auto` (each read a transaction of its own), `point`, `index`,
//! `range` (50 rows), `scan`, `join`. `C` is `scan_ordered`, `scan_fragmented`, `index_fragmented`, `point`, `range50`
//! (these two on the fragmented file), `range50_ordered`. `D` is `sd` or `emmc`. `_2t` marks two threads, `_wal` before
//! it a database in WAL mode.
//!
//! | name | meaning |
//! |---|---|
//! | `sixteen_queries_per_s`, `sixteen_queries_wal_per_s` | queries a second of all sixteen together |
//! | `sixteen_resident_bytes` | by how much the process has grown, with all of litefoot's connections open |
//! | `ratio.sixteen_connections_over_stock`, `ratio.sixteen_connections_over_stock_wal` | queries a second |
//! | `ratio.sixteen_connections_memory` | `sixteen_resident_bytes` over the bytes of the pool |
//! | `W_us`, `W_2t_us`, `W_wal_us`, `W_wal_2t_us` | microseconds for a query, warm |
//! | `ratio.W_over_stock`, `ratio.W_over_mmap`, `…_2t`, `…_wal`, `…_wal_2t` | speed, warm |
//! | `cold_C_us`, `cold_C_2t_us` | microseconds for all queries of a round, cold |
//! | `cold_C_disk_bytes`, `cold_C_2t_disk_bytes` | what the disk gave for them, the system's reading ahead included; 0 where nobody tells |
//! | `ratio.cold_C_over_stock`, `…_2t` | speed, cold |
//! | `cold_C_bytes`, `ratio.cold_C_bytes` | bytes asked for, cold, and those that the system was asked to read ahead, although they come from the disk once; litefoot's over stock's |
//! | `cold_C_model_us.DEVICE` | time of a modelled device |
//! | `ratio.cold_C_D_over_stock` | speed on that device |
//! | `zipf_us`, `zipf_2t_us`, `ratio.zipf_over_stock`, `…_2t` | microseconds for a query; speed |
//! | `zipf_reads_before_scan`, `zipf_reads_after_scan` | pages read for a query, before a full scan and right after it |
//! | `ratio.zipf_reads_after_scan` | litefoot's pages after the scan over those before: 1 where the scan displaced nothing |

mod cold;
mod counted;
mod data;
mod direct;
mod load;
pub(super) mod memory;
mod queries;
mod sixteen;
mod source;
mod warm;
mod zipf;

use super::commit::work_directory;
use crate::Result;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use cold::Pair;
use data::Data;
use load::{Order, load};
use std::path::Path;

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Bytes of the file that is read warm.
    warm_bytes: u64,
    /// Bytes of the file that sixteen connections read, and of the pool.
    sixteen_bytes: u64,
    /// Bytes of the ordered file that is read cold; the fragmented one is larger by a third.
    cold_bytes: u64,
    /// Queries of a thread in a warm round; fewer where each reads more.
    queries: usize,
    /// Scans of a thread in a warm round.
    scans: usize,
    /// Queries, or rows of an index range, of a cold round.
    cold_queries: usize,
    /// Rounds.
    rounds: usize,
}

const FULL: Sizes = Sizes {
    warm_bytes: 768 << 20,
    sixteen_bytes: 256 << 20,
    cold_bytes: 256 << 20,
    queries: 200_000,
    scans: 1,
    cold_queries: 8_000,
    rounds: 7,
};
const QUICK: Sizes = Sizes {
    warm_bytes: 64 << 20,
    sixteen_bytes: 64 << 20,
    cold_bytes: 16 << 20,
    queries: 20_000,
    scans: 2,
    cold_queries: 500,
    rounds: 5,
};

/// State that the parts of a run share.
#[derive(Clone, Copy)]
struct Files<'a> {
    directory: &'a Path,
    seed: u64,
    sizes: Sizes,
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let sizes = if options.quick { QUICK } else { FULL };
    let directory = work_directory(&options.directory)?;
    measure(&Files { directory: directory.path(), seed: options.seed, sizes }, progress)
}

fn measure(files: &Files<'_>, progress: &mut dyn Progress) -> Result<Figures> {
    let mut figures = Figures::new();
    sixteen::run(files, &mut figures, progress)?;
    warm::run(files, &mut figures, progress)?;
    let data = Data::of_file(files.sizes.cold_bytes, files.seed);
    let ordered = load(&data, Order::Key, files.directory.join("ordered.db"), progress)?;
    let fragmented = load(&data, Order::Random, files.directory.join("fragmented.db"), progress)?;
    let pair = Pair { data, ordered, fragmented };
    cold::run(files, &pair, &mut figures, progress)?;
    counted::run(files, &pair, &mut figures, progress)?;
    zipf::run(files, &pair, &mut figures, progress)?;
    Ok(figures)
}

#[cfg(test)]
mod tests;
