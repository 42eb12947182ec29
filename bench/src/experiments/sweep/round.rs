//! One side's round at one point, timed or counted.

use super::point::Point;
use super::workload::{Prepared, Transactions};
use crate::Result;
use crate::experiments::commit::remove_database;
use crate::experiments::commit::side::Side;
use crate::harness::{process_cpu, vfs_name};
use litefoot_sim::CountingMedium;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many transactions.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// So many.
    Count(u64),
    /// As many as fit into a time, at least one.
    Time(Duration),
}

impl Extent {
    fn is_reached(self, transactions: u64, begun: Instant) -> bool {
        match self {
            Extent::Count(count) => transactions >= count,
            Extent::Time(time) => transactions > 0 && begun.elapsed() >= time,
        }
    }
}

/// Time spent on a round's transactions.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub transactions: u64,
    /// Until the last commit returned.
    pub committing: Duration,
    /// Until the database was closed.
    pub elapsed: Duration,
    /// Of all threads of this process, closing included.
    pub processor: Duration,
}

impl Round {
    /// Transactions a second, closing included.
    pub fn txn_per_s(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Transactions a second, without closing.
    pub fn commits_per_s(&self) -> f64 {
        self.transactions as f64 / self.committing.as_secs_f64().max(1e-9)
    }

    pub fn processor_us(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.transactions as f64
    }
}

/// Requests of a round at the medium.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub bytes_per_txn: f64,
    pub syncs_per_txn: f64,
}

/// A point where rounds run.
pub struct Place<'a> {
    pub directory: &'a Path,
    pub prepared: &'a Prepared<'a>,
    pub point: Point,
}

impl Place<'_> {
    /// Times a round. Neither copying and opening the database nor verifying it belong to the time.
    pub fn time(&self, side: &Side, extent: Extent) -> Result<Round> {
        let path = self.path(side)?;
        let connection = side.open_timed(&path)?;
        let round = self.work(side, connection, extent, &mut || {})?;
        self.finish(side, &path, round.transactions, false)?;
        Ok(round)
    }

    /// Counts a round's requests: stock's calls pass through litefoot's VFS unchanged, so both sides stand on a counting
    /// medium.
    pub fn count(&self, side: &Side, transactions: u64) -> Result<Cost> {
        let path = self.path(side)?;
        let medium = CountingMedium::new(Arc::new(OsMedium::new()));
        let vfs = litefoot::Vfs::builder(vfs_name())
            .medium(Arc::new(medium.clone()))
            .pass_through(!side.is_litefoot())
            .register()?;
        let connection = side.open_through(&vfs, &path)?;
        let mut before = medium.snapshot();
        let begin = &mut || before = medium.snapshot();
        self.work(side, connection, Extent::Count(transactions), begin)?;
        let spent = medium.snapshot() - before;
        self.finish(side, &path, transactions, true)?;
        let per_txn = |all: u64| all as f64 / transactions as f64;
        Ok(Cost {
            bytes_per_txn: per_txn(spent.total().block_bytes_written),
            syncs_per_txn: per_txn(spent.all_syncs()),
        })
    }

    /// A fresh copy of the prepared database.
    fn path(&self, side: &Side) -> Result<PathBuf> {
        let path = self.directory.join(format!("{}.db", side.name));
        self.prepared.copy(&path)?;
        Ok(path)
    }

    /// Transactions and closing; `begin` is called before the first.
    fn work(
        &self,
        side: &Side,
        connection: Connection,
        extent: Extent,
        begin: &mut dyn FnMut(),
    ) -> Result<Round> {
        let explain = |error| side.explain(error);
        let mut values = self.prepared.values();
        let mut transactions = Transactions::prepare(&connection).map_err(explain)?;
        // The connection reads the schema, and both sides open their logs.
        transactions.run(1, &mut values).map_err(explain)?;
        begin();
        let (begun, processor) = (Instant::now(), process_cpu());
        let mut done = 0;
        while !extent.is_reached(done, begun) {
            transactions.run(self.point.rows, &mut values).map_err(explain)?;
            done += 1;
        }
        let committing = begun.elapsed();
        drop(transactions);
        connection.close().map_err(|(_, error)| explain(error))?;
        let (elapsed, processor) = (begun.elapsed(), process_cpu().saturating_sub(processor));
        Ok(Round { transactions: done, committing, elapsed, processor })
    }

    /// Verifies a round's database, the row before the first transaction included, and removes it.
    fn finish(&self, side: &Side, path: &Path, transactions: u64, all: bool) -> Result<()> {
        self.prepared.verify(path, side.name, 1 + transactions * self.point.rows, all)?;
        remove_database(path)
    }
}
