//! The cost of watching a statement: transactions that are rolled back, with and without a log of statements.

use super::STATEMENTS;
use super::traces::{INSERT, SCHEMA};
use crate::experiments::commit::remove_database;
use crate::harness::{Progress, interleave, median};
use crate::{Error, Result};
use std::path::Path;
use std::time::Instant;

/// Rounds, transactions of each, and statements of each.
const ROUNDS: usize = 7;
const TRANSACTIONS: usize = 40;
const STATEMENTS_OF_EACH: usize = 1000;

/// Nanoseconds that a statement takes more with a log of statements than with one of pages; median of the rounds.
pub fn run(directory: &Path, progress: &mut dyn Progress) -> Result<f64> {
    let explain = |source| STATEMENTS.explain(source);
    let sides = [("commit_log=pages", 0), ("commit_log=statements", 1)];
    progress.begin("watching statements", (ROUNDS * sides.len()) as u64);
    let times = interleave(&sides, ROUNDS, |round, (list, number)| {
        let mut side_options = litefoot::Options::default();
        side_options.set_list(list).map_err(Error::Wrong)?;
        let vfs =
            litefoot::Vfs::builder(format!("capture-{number}-{round}")).options(side_options).register()?;
        let path = directory.join(format!("capture-{number}.db"));
        let db = vfs.open(&path)?;
        db.execute_batch("PRAGMA journal_mode=wal").map_err(explain)?;
        db.execute_batch(SCHEMA).map_err(explain)?;
        let time = || -> rusqlite::Result<f64> {
            let mut insert = db.prepare(INSERT)?;
            insert.execute((1, 1, "a text"))?;
            let mut elapsed = 0.0;
            for _ in 0..TRANSACTIONS {
                db.execute_batch("BEGIN")?;
                let begun = Instant::now();
                for statement in 0..STATEMENTS_OF_EACH {
                    insert.execute((statement as i64, 0.5, "a text"))?;
                }
                elapsed += begun.elapsed().as_secs_f64();
                db.execute_batch("ROLLBACK")?;
            }
            Ok(elapsed * 1e9 / (TRANSACTIONS * STATEMENTS_OF_EACH) as f64)
        };
        let each = time().map_err(explain)?;
        db.close().map_err(|(_, error)| explain(error))?;
        remove_database(&path)?;
        progress.advance(1)?;
        Ok(each)
    })?;
    Ok(median(times[1].iter().zip(&times[0]).map(|(with, without)| with - without)))
}
