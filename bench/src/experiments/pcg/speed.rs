//! How fast transactions of each size are, in each journal mode.

use super::load::{self, Keys, ROW_BYTES, SCHEMA, Timing};
use super::side::{BACKGROUND, CALLER, INF, LITEFOOT, MODES, STOCK, Side};
use super::{Plan, Task};
use crate::experiments::commit::remove_database;
use crate::harness::{Progress, median, median_ratio, open_stock, take_turns};
use crate::report::Figures;
use crate::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// One side's round.
pub struct Round {
    pub timing: Timing,
    /// Closing included: it writes the database file where that was put off.
    elapsed: Duration,
    rows: u64,
    pub cleanings: u64,
}

impl Round {
    pub fn mb_per_s(&self) -> f64 {
        (self.rows * ROW_BYTES) as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn commit_us(&self) -> f64 {
        self.timing.commit.as_secs_f64() * 1e6
    }
}

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    for plan in &task.sizes.plans {
        let sides = task.sides(plan)?;
        let turns = MODES.len() * 2 * task.sizes.rounds * sides.len();
        progress.begin(&format!("transactions of {}", plan.name), turns as u64);
        for mode in MODES {
            for keys in [Keys::Random, Keys::Ordered] {
                let rounds = take_turns(&sides, task.sizes.rounds, |_, side| {
                    let round = round(side, &task.directory.join("speed.db"), mode, keys, plan)?;
                    progress.advance(1)?;
                    Ok(round)
                })?;
                let case = format!("{mode}_{}{}", plan.name, keys.suffix());
                set(figures, &case, plan, &sides, &rounds);
            }
        }
    }
    Ok(())
}

fn set(figures: &mut Figures, case: &str, plan: &Plan, sides: &[Side], rounds: &[Vec<Round>]) {
    let each = |name: &str, value: &dyn Fn(&Round) -> f64| -> Vec<f64> {
        let side = sides.iter().zip(rounds).find(|(side, _)| side.name == name);
        side.into_iter().flat_map(|(_, rounds)| rounds).map(value).collect()
    };
    let p999 = |round: &Round| round.timing.inserts.percentile_us(0.999);
    for side in sides {
        let cleanings = median(each(side.name, &|round| round.cleanings as f64));
        figures.set(format!("cleanings.{case}.{}", side.name), cleanings);
        if cleanings == 0.0 && plan.exceeds_memory() && side.name != INF {
            figures.alarm(format!(
                "{case}, {}: nothing was cleaned, so this measures something else",
                side.name
            ));
        }
        figures.set(format!("mb_per_s.{case}.{}", side.name), median(each(side.name, &Round::mb_per_s)));
        figures.set(format!("commit_us.{case}.{}", side.name), median(each(side.name, &Round::commit_us)));
        if !plan.by_select {
            figures.set(format!("insert_p999_us.{case}.{}", side.name), median(each(side.name, &p999)));
        }
    }
    let speed =
        |name: &str, over: &str| median_ratio(&each(name, &Round::mb_per_s), &each(over, &Round::mb_per_s));
    figures.set(format!("ratio.{case}_over_inf"), speed(LITEFOOT, INF));
    figures.set(format!("ratio.{case}_over_stock"), speed(LITEFOOT, STOCK));
    figures.set(format!("ratio.stock_over_inf.{case}"), speed(STOCK, INF));
    if plan.with_cleaners {
        for (over, name) in [(INF, "inf"), (STOCK, "stock")] {
            figures.set(format!("ratio.{case}_caller_over_{name}"), speed(CALLER, over));
            figures.set(format!("ratio.{case}_background_over_{name}"), speed(BACKGROUND, over));
        }
    }
    let commit = median_ratio(&each(LITEFOOT, &Round::commit_us), &each(STOCK, &Round::commit_us));
    figures.set(format!("ratio.commit_over_stock.{case}"), commit);
    if !plan.by_select {
        let ratio = median_ratio(&each(LITEFOOT, &p999), &each(INF, &p999));
        figures.set(format!("ratio.insert_p999_over_inf.{case}"), ratio);
    }
}

/// A fresh database, the transactions, closing; then plain SQLite counts the rows.
pub fn round(side: &Side, path: &Path, mode: &str, keys: Keys, plan: &Plan) -> Result<Round> {
    let db = side.open(path, mode)?;
    let mut timing = Timing::new()?;
    let explain = |error| side.explain(error);
    db.execute_batch(SCHEMA).map_err(explain)?;
    let begun = Instant::now();
    let rows = plan.rows();
    for transaction in 0..plan.transactions {
        let work = if plan.by_select { load::select } else { load::insert };
        work(&db, keys, transaction * rows, rows, &mut timing).map_err(explain)?;
    }
    let worked = begun.elapsed();
    let cleanings = side.cleanings(&db)?;
    let closing = Instant::now();
    side.close(db)?;
    let elapsed = worked + closing.elapsed();
    let round = Round { timing, elapsed, rows: rows * plan.transactions, cleanings };
    check(side, path, round.rows)?;
    remove_database(path)?;
    Ok(round)
}

/// Plain SQLite must find what was committed.
pub fn check(side: &Side, path: &Path, rows: u64) -> Result<()> {
    let holds =
        open_stock(path).and_then(|db| load::holds(&db, rows)).map_err(|error| side.explain(error))?;
    if holds {
        Ok(())
    } else {
        Err(Error::Wrong(format!("side {}: rows are missing, or there are others", side.name)))
    }
}
