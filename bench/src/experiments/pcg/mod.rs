//! `pcg`: transactions that are larger than SQLite's page cache.
//!
//! # What is written
//! A table with a text key of 8 characters, a text of 100 and an integer, in a fresh database. The application's page
//! cache has 100 pages (400 KB). Rows come in random or ascending order of their keys, by one `INSERT` each, or all by
//! one `INSERT … SELECT`. `synchronous=FULL` everywhere. After each round plain SQLite finds every row.
//!
//! # Sides
//! - `stock`: SQLite on its own VFS, which spills one page at a time once its cache is full;
//! - `inf`: the same with an unbounded cache;
//! - `litefoot`: SQLite on litefoot, which has 64 MB in all and decides by itself. The short form has 1 MB, and smaller
//!   transactions. `litefoot_caller`, `litefoot_background`: the same with the option `page_cleaner`.
//!
//! They take turns, at least five rounds; figures are medians of the rounds, ratios medians of the ratios within each.
//!
//! # Figures
//! `C` is `MODE_SIZE` or `MODE_SIZE_ordered`, MODE one of `delete`, `truncate`, `persist`, `wal` and SIZE one of `10k`, `1m`,
//! `10m`, `100m` and `select100m`; the last part of a name is the side.
//!
//! | name | meaning |
//! |---|---|
//! | `mb_per_s.C` | megabytes of rows a second, committing and closing included |
//! | `ratio.C_over_inf`, `ratio.C_over_stock` | litefoot's over that of the others |
//! | `ratio.C_caller_over_inf`, `ratio.C_background_over_inf` | the same with the option `page_cleaner` (1m and 10m) |
//! | `insert_p999_us.C` | 99.9th percentile of one insert inside the transaction |
//! | `ratio.insert_p999_over_inf.C` | litefoot's over that of `inf`: below 1 litefoot is faster |
//! | `commit_us.C`, `ratio.commit_over_stock.C` | the (last) commit; below 1 litefoot is faster |
//! | `threshold_mb_per_s.N`, `threshold_p50_us.N`, `…_p90_us`, `…_p99_us`, `…_p999_us`, `…_max_us` | `wal_100m` (random) with `max_dirty_ratio` at N percent: speed, and an insert's latency |
//! | `read_p99_us.MODE.idle`, `….cleaning` | another connection's reads of single rows, while nobody writes and during a transaction of a third of `100m`, with a fifth of the memory |
//! | `ratio.read_p99.MODE` | the second over the first |
//! | `write_amplification.MODE` | bytes written for a byte of pages that a bulk insert of 10m changed, closing included |
//! | `write_amplification_100m.MODE` | the same of 100m, which do not fit into memory |
//! | `write_amplification_scattered.MODE` | the same of a transaction that updates single rows all over a database of 10m |
//! | `write_amplification_stock.MODE`, `…_scattered_stock.MODE` | the first and the third for stock SQLite |
//! | `peak_bytes.litefoot` | memory of its own that the process had more than before, at most, during `100m` in all modes |
//! | `peak_bytes.inf` | the same |

mod counted;
mod load;
mod memory;
mod readers;
mod side;
mod speed;
mod sweep;

use super::commit::work_directory;
use crate::Result;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use load::ROW_BYTES;
use side::{BACKGROUND, CALLER, INF, LITEFOOT, STOCK, Side};
use std::path::Path;

/// A kind of transaction.
#[derive(Clone, Copy, Debug)]
struct Plan {
    name: &'static str,
    /// Bytes of rows in each.
    bytes: u64,
    /// How many in a round.
    transactions: u64,
    /// By one statement.
    by_select: bool,
    /// True if both page cleaners are measured, too.
    with_cleaners: bool,
}

impl Plan {
    fn rows(&self) -> u64 {
        (self.bytes / ROW_BYTES).max(1)
    }
}

const fn plan(name: &'static str, bytes: u64, transactions: u64, with_cleaners: bool) -> Plan {
    Plan { name, bytes, transactions, by_select: false, with_cleaners }
}

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    plans: [Plan; 5],
    /// Memory of litefoot, in bytes.
    pool_bytes: u64,
    rounds: usize,
    /// Reads while nobody writes.
    reads: u64,
}

const FULL: Sizes = Sizes {
    plans: [
        plan("10k", 10_000, 200, false),
        plan("1m", 1_000_000, 8, true),
        plan("10m", 10_000_000, 2, true),
        plan("100m", 100_000_000, 1, false),
        Plan { by_select: true, ..plan("select100m", 100_000_000, 1, false) },
    ],
    pool_bytes: 64_000_000,
    rounds: 5,
    reads: 20_000,
};
const QUICK: Sizes = Sizes {
    plans: [
        plan("10k", 10_000, 4, false),
        plan("1m", 100_000, 1, true),
        plan("10m", 400_000, 1, true),
        plan("100m", 2_000_000, 1, false),
        Plan { by_select: true, ..plan("select100m", 2_000_000, 1, false) },
    ],
    pool_bytes: 1 << 20,
    rounds: 5,
    reads: 2_000,
};

/// State that the parts of a run share.
#[derive(Clone, Copy)]
struct Task<'a> {
    directory: &'a Path,
    sizes: Sizes,
}

impl Task<'_> {
    /// Litefoot's options.
    fn options(&self, more: &str) -> String {
        format!("buffer_pool_size={}&{more}", self.sizes.pool_bytes)
    }

    fn sides(&self, with_cleaners: bool) -> Result<Vec<Side>> {
        let mut sides =
            vec![Side::stock(STOCK), Side::stock(INF), Side::litefoot(LITEFOOT, &self.options(""))?];
        if with_cleaners {
            sides.push(Side::litefoot(CALLER, &self.options("page_cleaner=foreground"))?);
            sides.push(Side::litefoot(BACKGROUND, &self.options("page_cleaner=background"))?);
        }
        Ok(sides)
    }

    fn plan(&self, name: &str) -> Plan {
        let plans = &self.sizes.plans;
        plans.iter().find(|plan| plan.name == name).copied().unwrap_or(plans[0])
    }
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let sizes = if options.quick { QUICK } else { FULL };
    let directory = work_directory(&options.directory)?;
    measure(&Task { directory: directory.path(), sizes }, progress)
}

fn measure(task: &Task<'_>, progress: &mut dyn Progress) -> Result<Figures> {
    let mut figures = Figures::new();
    memory::run(task, &mut figures, progress)?;
    counted::run(task, &mut figures, progress)?;
    readers::run(task, &mut figures, progress)?;
    sweep::run(task, &mut figures, progress)?;
    speed::run(task, &mut figures, progress)?;
    Ok(figures)
}

#[cfg(test)]
mod tests;
