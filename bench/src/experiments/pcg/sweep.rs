//! The effect of `max_dirty_ratio`, at which a transaction begins to spill: the paper's figure 9.

use super::Task;
use super::load::Keys;
use super::side::{LITEFOOT, Side};
use super::speed::{Round, round};
use crate::Result;
use crate::harness::{Progress, interleave, median};
use crate::report::Figures;

const PERCENTS: [u64; 5] = [20, 40, 60, 80, 100];

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("thresholds", (PERCENTS.len() * task.sizes.rounds) as u64);
    let side = |percent: &u64| {
        let share = *percent as f64 / 100.0;
        Side::litefoot(LITEFOOT, &task.options(&format!("max_dirty_ratio={share}&page_cleaner=foreground")))
    };
    let sides = PERCENTS.iter().map(side).collect::<Result<Vec<_>>>()?;
    let path = task.directory.join("sweep.db");
    let rounds = interleave(&sides, task.sizes.rounds, |_, side| {
        let round = round(side, &path, "wal", Keys::Random, &task.plan("100m"))?;
        progress.advance(1)?;
        Ok(round)
    })?;
    for (percent, rounds) in PERCENTS.iter().zip(&rounds) {
        figures.set(format!("threshold_mb_per_s.{percent}"), median(rounds.iter().map(Round::mb_per_s)));
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            let us = median(rounds.iter().map(|round| round.timing.inserts.percentile_us(share)));
            figures.set(format!("threshold_{name}_us.{percent}"), us);
        }
    }
    Ok(())
}
