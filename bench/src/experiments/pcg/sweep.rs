//! The effect of `max_dirty_ratio`, at which a transaction begins to spill: the paper's figures 9a and 9b.
//!
//! As in the paper: the thread of the statement cleans, WAL mode, transactions of two and a half times the memory. Stock
//! SQLite takes turns with the thresholds.

use super::load::Keys;
use super::side::{LITEFOOT, STOCK, Side};
use super::speed::{Round, round};
use super::{Plan, Task};
use crate::Result;
use crate::harness::{Latencies, Progress, median, take_turns};
use crate::report::Figures;

const PERCENTS: [u64; 5] = [20, 40, 60, 80, 100];
/// Percent of the transactions, for the points of a distribution.
const SHARES: [u32; 8] = [10, 25, 50, 75, 90, 95, 99, 100];

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let plan = Plan { transactions: task.sizes.threshold_transactions, ..task.plan("5m") };
    let mut sides = vec![("stock".to_owned(), Side::stock(STOCK, plan.memory_bytes))];
    for percent in PERCENTS {
        let share = percent as f64 / 100.0;
        let options = plan.options(&format!("max_dirty_ratio={share}&page_cleaner=foreground"));
        sides.push((percent.to_string(), Side::litefoot(LITEFOOT, &options)?));
    }
    progress.begin("thresholds", (sides.len() * task.sizes.rounds) as u64);
    let path = task.directory.join("sweep.db");
    let rounds = take_turns(&sides, task.sizes.rounds, |_, (_, side)| {
        let round = round(side, &path, "wal", Keys::Random, &plan)?;
        progress.advance(1)?;
        Ok(round)
    })?;
    for ((name, _), rounds) in sides.iter().zip(&rounds) {
        figures.set(format!("threshold_mb_per_s.{name}"), median(rounds.iter().map(Round::mb_per_s)));
        let mut all = Latencies::new()?;
        rounds.iter().try_for_each(|round| all.add(&round.timing.transactions))?;
        for share in SHARES {
            let ms = all.percentile_us(f64::from(share) / 100.0) / 1000.0;
            figures.set(format!("threshold_txn_ms.p{share}.{name}"), ms);
        }
        let p999 = |round: &Round| round.timing.inserts.percentile_us(0.999);
        figures.set(format!("threshold_insert_p999_us.{name}"), median(rounds.iter().map(p999)));
        let each = |round: &Round| round.cleanings as f64 / plan.transactions as f64;
        figures.set(format!("threshold_cleanings.{name}"), median(rounds.iter().map(each)));
    }
    Ok(())
}
