//! Bytes of a transaction that reach the device, on a counting medium.
//!
//! The baseline is the pages that a transaction changes. They are the frames that SQLite writes to the write-ahead log
//! with an unbounded cache, one for each page.

use super::load::{Keys, SCHEMA, Timing, insert};
use super::side::{INF, LITEFOOT, MODES, STOCK, Side};
use super::speed::check;
use super::{Plan, Task};
use crate::Result;
use crate::experiments::commit::remove_database;
use crate::harness::Progress;
use crate::report::Figures;
use litefoot_sim::CountingMedium;
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a page and of its frame.
const PAGE_BYTES: f64 = 4096.0;
const FRAME_BYTES: f64 = 4096.0 + 24.0;
/// One row in so many is updated.
const SCATTER: i64 = 97;

/// The transaction that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CountedTransaction {
    Bulk,
    Scattered,
}

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("counting", 3 + MODES.len() as u64 * 6);
    let path = task.directory.join("counted.db");
    let cases = [
        ("", task.plan("10m"), CountedTransaction::Bulk),
        ("_100m", task.plan("100m"), CountedTransaction::Bulk),
        ("_scattered", task.plan("10m"), CountedTransaction::Scattered),
    ];
    for (suffix, plan, work) in cases {
        let changed = changed(&path, &plan, work)?;
        progress.advance(1)?;
        for mode in MODES {
            let medium = CountingMedium::new(Arc::new(OsMedium::new()));
            let side = Side::litefoot_on(LITEFOOT, &plan.options(""), Arc::new(medium.clone()))?;
            let written = written(&side, &medium, &path, mode, &plan, work)?;
            figures.set(format!("write_amplification{suffix}.{mode}"), written / changed);
            progress.advance(1)?;
            let medium = CountingMedium::new(Arc::new(OsMedium::new()));
            let side = Side::stock_on(STOCK, plan.memory_bytes, Arc::new(medium.clone()))?;
            let written = self::written(&side, &medium, &path, mode, &plan, work)?;
            figures.set(format!("write_amplification{suffix}_stock.{mode}"), written / changed);
            progress.advance(1)?;
        }
    }
    Ok(())
}

/// Bytes of the pages that the transaction changes.
fn changed(path: &Path, plan: &Plan, work: CountedTransaction) -> Result<f64> {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let side = Side::stock_on(INF, plan.memory_bytes, Arc::new(medium.clone()))?;
    let db = side.open(path, "wal")?;
    prepare(&side, &db, plan, work)?;
    let before = medium.snapshot();
    transact(&side, &db, plan, work)?;
    let frames = (medium.snapshot() - before).of(FileKind::RedoLog).bytes_written as f64 / FRAME_BYTES;
    side.close(db)?;
    remove_database(path)?;
    Ok(frames.floor() * PAGE_BYTES)
}

/// Bytes written for it.
fn written(
    side: &Side,
    medium: &CountingMedium,
    path: &Path,
    mode: &str,
    plan: &Plan,
    work: CountedTransaction,
) -> Result<f64> {
    let db = side.open(path, mode)?;
    prepare(side, &db, plan, work)?;
    let before = medium.snapshot();
    transact(side, &db, plan, work)?;
    side.close(db)?;
    let written = (medium.snapshot() - before).total().block_bytes_written as f64;
    check(side, path, plan.rows())?;
    remove_database(path)?;
    Ok(written)
}

fn prepare(side: &Side, db: &Connection, plan: &Plan, work: CountedTransaction) -> Result<()> {
    db.execute_batch(SCHEMA).map_err(|error| side.explain(error))?;
    if work == CountedTransaction::Scattered { fill(side, db, plan) } else { Ok(()) }?;
    // Nothing of that is to be counted.
    let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    Ok(())
}

fn transact(side: &Side, db: &Connection, plan: &Plan, work: CountedTransaction) -> Result<()> {
    if work == CountedTransaction::Bulk {
        return fill(side, db, plan);
    }
    let update = "UPDATE t SET value = upper(value) WHERE rowid % ?1 = 0";
    db.execute(update, [SCATTER]).map(drop).map_err(|error| side.explain(error))
}

fn fill(side: &Side, db: &Connection, plan: &Plan) -> Result<()> {
    let mut timing = Timing::new()?;
    insert(db, Keys::Random, 0, plan.rows(), &mut timing).map_err(|error| side.explain(error))
}
