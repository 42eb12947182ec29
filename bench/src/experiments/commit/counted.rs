//! The counted run: the same transactions, on a medium that counts and models.

use super::floor::Floor;
use super::meter::{Meter, Spent};
use super::side::Side;
use super::workload::Workload;
use super::{Task, remove_database};
use crate::Result;
use crate::harness::{Progress, vfs_name};
use litefoot_sim::Device;
use rusqlite::Connection;
use std::path::Path;

/// The cost of one side's transactions.
pub struct Cost {
    /// One part for each workload; a single one for the floor.
    parts: Vec<Part>,
}

struct Part {
    transactions: u64,
    spent: Spent,
}

impl Cost {
    fn per_txn(&self, workload: Option<Workload>, of: impl Fn(&Part) -> f64) -> f64 {
        let parts = match workload {
            Some(workload) => self.parts.get(workload as usize..=workload as usize).unwrap_or_default(),
            None => &self.parts,
        };
        let transactions: u64 = parts.iter().map(|part| part.transactions).sum();
        parts.iter().map(of).sum::<f64>() / transactions as f64
    }

    pub fn bytes_per_txn(&self, workload: Option<Workload>) -> f64 {
        self.per_txn(workload, |part| part.spent.counts.total().block_bytes_written as f64)
    }

    pub fn syncs_per_txn(&self, workload: Option<Workload>) -> f64 {
        self.per_txn(workload, |part| part.spent.counts.all_syncs() as f64)
    }

    pub fn model_us(&self, device: Device) -> f64 {
        self.per_txn(None, |part| part.spent.model_us(device))
    }
}

/// Runs every side once; gives the cost of each.
pub fn run(task: &Task<'_>, transactions: u64, progress: &mut dyn Progress) -> Result<Vec<Cost>> {
    progress.begin("counting", task.sides.iter().map(Workload::count).sum::<u64>() * transactions);
    task.sides
        .iter()
        .map(|side| {
            let path = task.directory.join(format!("{}.counted.db", side.name));
            let count = |workload: &Workload| {
                let part = count(task, side, *workload, transactions, &path)?;
                remove_database(&path)?;
                progress.advance(transactions)?;
                Ok(part)
            };
            let workloads = if side.is_floor() { &Workload::ALL[..1] } else { &Workload::ALL };
            Ok(Cost { parts: workloads.iter().map(count).collect::<Result<_>>()? })
        })
        .collect()
}

fn count(task: &Task<'_>, side: &Side, workload: Workload, transactions: u64, path: &Path) -> Result<Part> {
    let meter = Meter::new();
    if side.is_floor() {
        let floor = Floor::open(&*meter.medium(), path)?;
        let begun = meter.begin();
        (0..transactions).try_for_each(|number| floor.write(number))?;
        return Ok(Part { transactions, spent: meter.end(&begun) });
    }
    let vfs = litefoot::Vfs::builder(vfs_name())
        .medium(meter.medium())
        .pass_through(!side.is_litefoot())
        .register()?;
    let connection = side.open_through(&vfs, path)?;
    workload.prepare(side, &connection, task.seed)?;
    let begun = meter.begin();
    workload.transact(side, &connection, task.seed, transactions, |txn| txn())?;
    connection.close().map_err(|(_, error)| side.explain(error))?;
    let part = Part { transactions, spent: meter.end(&begun) };
    let stock = Connection::open(path).map_err(|error| side.explain(error))?;
    workload.verify(side, &stock, task.seed, transactions)?;
    Ok(part)
}
