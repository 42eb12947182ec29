//! `pcg`: transactions that are larger than SQLite's page cache.
//!
//! # What is written
//! A table with a text key of 8 characters, a text of 100 and an integer, in a fresh database. Rows come in random or
//! ascending order of their keys, by one `INSERT` each, or all by one `INSERT … SELECT`. `synchronous=FULL` everywhere.
//! After each round plain SQLite finds every row.
//!
//! # Memory
//! All sides but `inf` have the same memory: 2 MiB, and 64 MB for transactions of 100 MB (the short form: 1.5 MiB). The
//! paper's SQLite has 400 KB and transactions of 1 MB. Litefoot's pool has at least 1 MiB, so `5m` is the paper's
//! transaction at the paper's ratio: two and a half times the memory.
//!
//! # Sides
//! - `stock`: SQLite on its own VFS, `cache_size` of all the memory; it spills one page at a time once that is full;
//! - `inf`: the same with an unbounded cache;
//! - `litefoot`: SQLite on litefoot. The application's page cache has 100 pages (400 KB), `buffer_pool_size` is the rest.
//!   `litefoot_caller`, `litefoot_background`: the same with the option `page_cleaner`.
//!
//! They take turns, at least five rounds; figures are medians of the rounds, ratios medians of the ratios within each.
//!
//! # Figures
//! `C` is `MODE_SIZE` or `MODE_SIZE_ordered`, MODE one of `delete`, `truncate`, `persist`, `wal` and SIZE one of `10k`, `1m`,
//! `5m`, `10m`, `100m` and `select100m`; the last part of a name is the side.
//!
//! | name | meaning |
//! |---|---|
//! | `memory_bytes.SIZE` | memory of each side but `inf` |
//! | `mb_per_s.C` | megabytes of rows a second, committing and closing included |
//! | `ratio.C_over_inf`, `ratio.C_over_stock` | litefoot's over that of the others |
//! | `ratio.stock_over_inf.C` | stock SQLite's over that of `inf` |
//! | `ratio.C_caller_over_inf`, `ratio.C_background_over_inf`, `…_over_stock` | the same with the option `page_cleaner` (10k and 5m) |
//! | `cleanings.C` | batches of pages that were written before their commit, in a round; of stock SQLite, pages |
//! | `insert_p999_us.C` | 99.9th percentile of one insert inside the transaction |
//! | `ratio.insert_p999_over_inf.C` | litefoot's over that of `inf`: below 1 litefoot is faster |
//! | `commit_us.C`, `ratio.commit_over_stock.C` | the (last) commit; below 1 litefoot is faster |
//! | `write_s_per_gib.WAY.Nk`, `ratio.write_over_512k.WAY.Nk` | a file written by requests of N KiB, `cached` with a sync at the end or `direct`: seconds a GiB, and over those of 512 KiB |
//! | `threshold_mb_per_s.N` | transactions of `5m` in WAL mode, random keys, `page_cleaner=foreground`, `max_dirty_ratio` at N percent; `stock` in place of N: stock SQLite |
//! | `threshold_txn_ms.pP.N` | the latency of such a transaction, commit included, that P percent do not exceed; of all rounds |
//! | `threshold_cleanings.N`, `threshold_insert_p999_us.N` | cleanings of a transaction, and the 99.9th percentile of one insert |
//! | `read_p99_us.MODE.idle`, `….cleaning` | another connection's reads of single rows, while nobody writes and during a transaction of a third of `100m`, with a fifth of its memory |
//! | `ratio.read_p99.MODE` | the second over the first |
//! | `write_amplification.MODE` | bytes written for a byte of pages that a bulk insert of 10m changed, closing included |
//! | `write_amplification_100m.MODE` | the same of 100m |
//! | `write_amplification_scattered.MODE` | the same of a transaction that updates single rows all over a database of 10m |
//! | `write_amplification_stock.MODE`, `…_100m_stock.MODE`, `…_scattered_stock.MODE` | the same for stock SQLite |
//! | `peak_bytes.SIZE.SIDE` | memory of its own that the process had more than before, at most, during `5m` and `100m`; the most of all modes |

mod counted;
mod granularity;
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

/// Memory of the application's page cache on litefoot, in bytes: 100 pages.
const APPLICATION_CACHE_BYTES: u64 = 100 * 4096;

/// A kind of transaction.
#[derive(Clone, Copy, Debug)]
struct Plan {
    name: &'static str,
    /// Bytes of rows in each.
    bytes: u64,
    /// How many in a round.
    transactions: u64,
    /// Memory of each side.
    memory_bytes: u64,
    /// By one statement.
    by_select: bool,
    /// True if both page cleaners are measured, too.
    with_cleaners: bool,
}

impl Plan {
    fn rows(&self) -> u64 {
        (self.bytes / ROW_BYTES).max(1)
    }

    /// True if a transaction cannot stay in memory: its pages have more bytes than its rows.
    fn exceeds_memory(&self) -> bool {
        self.bytes > self.memory_bytes
    }

    /// Litefoot's options: the memory less what the application's own cache has of it.
    fn options(&self, more: &str) -> String {
        format!("buffer_pool_size={}&{more}", self.memory_bytes - APPLICATION_CACHE_BYTES)
    }
}

const fn plan(name: &'static str, bytes: u64, transactions: u64, memory_bytes: u64) -> Plan {
    Plan { name, bytes, transactions, memory_bytes, by_select: false, with_cleaners: false }
}

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    plans: [Plan; 6],
    /// At least [`MIN_ROUNDS`](crate::harness::MIN_ROUNDS), but in tests.
    rounds: usize,
    /// Reads while nobody writes.
    reads: u64,
    /// Transactions of a threshold in each round.
    threshold_transactions: u64,
    /// Bytes of the file that is written by requests of each length.
    file_bytes: u64,
}

const MEMORY: u64 = 2 << 20;
const MUCH_MEMORY: u64 = 64_000_000;
const FULL: Sizes = Sizes {
    plans: [
        Plan { with_cleaners: true, ..plan("10k", 10_000, 200, MEMORY) },
        plan("1m", 1_000_000, 8, MEMORY),
        Plan { with_cleaners: true, ..plan("5m", 5_000_000, 4, MEMORY) },
        plan("10m", 10_000_000, 2, MEMORY),
        plan("100m", 100_000_000, 1, MUCH_MEMORY),
        Plan { by_select: true, ..plan("select100m", 100_000_000, 1, MUCH_MEMORY) },
    ],
    rounds: 5,
    reads: 20_000,
    threshold_transactions: 20,
    file_bytes: 128 << 20,
};
const QUICK_MEMORY: u64 = 3 << 19;
const QUICK: Sizes = Sizes {
    plans: [
        Plan { with_cleaners: true, ..plan("10k", 10_000, 4, QUICK_MEMORY) },
        plan("1m", 100_000, 1, QUICK_MEMORY),
        Plan { with_cleaners: true, ..plan("5m", 2_000_000, 1, QUICK_MEMORY) },
        plan("10m", 2_000_000, 1, QUICK_MEMORY),
        plan("100m", 3_000_000, 1, QUICK_MEMORY),
        Plan { by_select: true, ..plan("select100m", 3_000_000, 1, QUICK_MEMORY) },
    ],
    rounds: 5,
    reads: 2_000,
    threshold_transactions: 2,
    file_bytes: 4 << 20,
};

/// State that the parts of a run share.
#[derive(Clone, Copy)]
struct Task<'a> {
    directory: &'a Path,
    sizes: Sizes,
}

impl Task<'_> {
    fn sides(&self, plan: &Plan) -> Result<Vec<Side>> {
        let mut sides = vec![
            Side::stock(STOCK, plan.memory_bytes),
            Side::stock(INF, plan.memory_bytes),
            Side::litefoot(LITEFOOT, &plan.options(""))?,
        ];
        if plan.with_cleaners {
            sides.push(Side::litefoot(CALLER, &plan.options("page_cleaner=foreground"))?);
            sides.push(Side::litefoot(BACKGROUND, &plan.options("page_cleaner=background"))?);
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
    for plan in &task.sizes.plans {
        figures.set(format!("memory_bytes.{}", plan.name), plan.memory_bytes as f64);
    }
    granularity::run(task, &mut figures, progress)?;
    memory::run(task, &mut figures, progress)?;
    counted::run(task, &mut figures, progress)?;
    readers::run(task, &mut figures, progress)?;
    sweep::run(task, &mut figures, progress)?;
    speed::run(task, &mut figures, progress)?;
    Ok(figures)
}

#[cfg(test)]
mod tests;
