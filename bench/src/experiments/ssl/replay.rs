//! A trace on one side: its databases are prepared, the transactions run, and the databases are closed and checked.
//!
//! # What it promises
//! Clocks and counters see the transactions and the closing, and nothing of the preparation. That ends with a checkpoint,
//! so that no side takes work of its preparation along.

use super::traces::{INSERT, Plan, SCHEMA, Trace};
use crate::experiments::commit::meter::{Meter, Spent};
use crate::experiments::commit::remove_database;
use crate::experiments::commit::side::Side;
use crate::harness::device::{Counters, Device};
use crate::harness::vfs_name;
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Commits by what litefoot wrote for them; all zero for stock SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms([u64; Forms::NAMES.len()]);

impl Forms {
    pub const NAMES: [&str; 3] = ["statements", "deltas", "pages"];

    /// Each form's share of all commits; nothing of stock SQLite.
    pub fn shares(self) -> impl Iterator<Item = (&'static str, f64)> {
        let all: u64 = self.0.iter().sum();
        let shares = Forms::NAMES.into_iter().zip(self.0);
        shares.filter(move |_| all > 0).map(move |(name, count)| (name, count as f64 / all as f64))
    }
}

/// What a trace cost a side.
pub struct Counted {
    pub spent: Spent,
    pub forms: Forms,
}

/// The databases of a trace on a side, prepared.
struct Databases<'a> {
    trace: &'a Trace,
    plan: &'a Plan,
    side: &'a Side,
    paths: Vec<PathBuf>,
    connections: Vec<Connection>,
}

/// One round; transactions a second, closing included.
pub fn timed(trace: &Trace, plan: &Plan, side: &Side, directory: &Path) -> Result<f64> {
    let mut databases = Databases::prepare(trace, plan, side, directory, &mut |path| side.open_timed(path))?;
    let begun = Instant::now();
    databases.transact()?;
    databases.close()?;
    let elapsed = begun.elapsed();
    databases.verify_and_remove()?;
    Ok(plan.transactions.len() as f64 / elapsed.as_secs_f64().max(1e-9))
}

/// The same on media that count and model.
pub fn counted(trace: &Trace, plan: &Plan, side: &Side, directory: &Path) -> Result<Counted> {
    let meter = Meter::new();
    let vfs = litefoot::Vfs::builder(vfs_name())
        .medium(meter.medium())
        .pass_through(!side.is_litefoot())
        .register()?;
    let mut databases =
        Databases::prepare(trace, plan, side, directory, &mut |path| side.open_through(&vfs, path))?;
    let (begun, forms_before) = (meter.begin(), databases.forms()?);
    databases.transact()?;
    let forms = databases.forms()?;
    databases.close()?;
    let spent = meter.end(&begun);
    databases.verify_and_remove()?;
    let forms = Forms(std::array::from_fn(|form| forms.0[form] - forms_before.0[form]));
    Ok(Counted { spent, forms })
}

/// The same on a device that the kernel counts: with the journal and the metadata of its file system.
pub fn at_device(trace: &Trace, plan: &Plan, side: &Side, device: &Device) -> Result<Counters> {
    let open = &mut |path: &Path| side.open_timed(path);
    let mut databases = Databases::prepare(trace, plan, side, device.directory(), open)?;
    let before = device.synced()?;
    databases.transact()?;
    databases.close()?;
    let spent = device.synced()?.since(before);
    databases.verify_and_remove()?;
    Ok(spent)
}

impl<'a> Databases<'a> {
    fn prepare(
        trace: &'a Trace,
        plan: &'a Plan,
        side: &'a Side,
        directory: &Path,
        open: &mut dyn FnMut(&Path) -> Result<Connection>,
    ) -> Result<Databases<'a>> {
        let path = |file| directory.join(format!("{}-{}-{file}.db", trace.name, side.name));
        let paths: Vec<PathBuf> = (0..trace.files).map(path).collect();
        let connections = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
        for db in &connections {
            fill(trace, db).map_err(|error| side.explain(error))?;
        }
        Ok(Databases { trace, plan, side, paths, connections })
    }

    fn transact(&self) -> Result<()> {
        let mut transactions = self.plan.transactions.iter();
        transactions
            .try_for_each(|transaction| transaction.run(self.trace, &self.connections[transaction.file]))
            .map_err(|error| self.side.explain(error))
    }

    fn forms(&self) -> Result<Forms> {
        let mut forms = Forms::default();
        if self.side.is_litefoot() {
            for db in &self.connections {
                for (count, form) in forms.0.iter_mut().zip(Forms::NAMES) {
                    *count +=
                        stat(db, &format!("commits_{form}")).map_err(|error| self.side.explain(error))?;
                }
            }
        }
        Ok(forms)
    }

    fn close(&mut self) -> Result<()> {
        let mut connections = self.connections.drain(..);
        connections.try_for_each(|db| db.close().map_err(|(_, error)| self.side.explain(error)))
    }

    fn verify_and_remove(&self) -> Result<()> {
        for (path, expected) in self.paths.iter().zip(&self.plan.expected) {
            verify(self.trace, self.side, path, expected)?;
            remove_database(path)?;
        }
        Ok(())
    }
}

fn fill(trace: &Trace, db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(SCHEMA)?;
    db.execute_batch("BEGIN")?;
    for (sender, at, text) in trace.rows_before() {
        db.prepare_cached(INSERT)?.execute((sender, at, text))?;
    }
    db.execute_batch("COMMIT")?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// A figure of litefoot's about a database.
pub fn stat(db: &Connection, name: &str) -> rusqlite::Result<u64> {
    let value =
        db.query_row("SELECT value FROM litefoot_stats WHERE name = ?1", [name], |row| row.get::<_, i64>(0));
    Ok(value.optional()?.unwrap_or_default().cast_unsigned())
}

/// Every row must be there as it was written last, as stock SQLite reads it.
fn verify(trace: &Trace, side: &Side, path: &Path, expected: &[super::traces::Row]) -> Result<()> {
    let wrong = |what: String| Error::Wrong(format!("side {}, {}: {what}", side.name, trace.name));
    let db = Connection::open(path).map_err(|error| side.explain(error))?;
    let read = || -> rusqlite::Result<(String, Vec<super::traces::Row>)> {
        let integrity = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        let mut rows = db.prepare("SELECT sender, at, body FROM item ORDER BY id")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok((integrity, rows.collect::<rusqlite::Result<_>>()?))
    };
    let (integrity, rows) = read().map_err(|error| side.explain(error))?;
    if integrity != "ok" {
        return Err(wrong(integrity));
    }
    if rows != expected {
        return Err(wrong(format!("{} rows are not the {} that were written", rows.len(), expected.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::traces::TRACES;
    use super::super::{DELETE, DELTAS, STATEMENTS, WAL};
    use super::*;
    use litefoot_sim::Device as Modelled;
    use litefoot_storage::file::FileKind;

    #[test]
    fn each_trace_runs_on_all_sides_and_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        for trace in &TRACES {
            let plan = Plan::new(trace, 200, 1);
            for side in [&WAL, &DELETE, &DELTAS, &STATEMENTS] {
                let counted = counted(trace, &plan, side, directory.path()).unwrap();
                let name = format!("{} {}", trace.name, side.name);
                // A commit is one sync at least.
                assert!(counted.spent.counts.all_syncs() >= plan.transactions.len() as u64, "{name}");
                assert!(counted.spent.model_us(Modelled::SdCardA1) > counted.spent.model_us(Modelled::Ufs31));
                let commits: u64 = counted.forms.0.iter().sum();
                let expected = if side.is_litefoot() { plan.transactions.len() } else { 0 };
                assert_eq!(commits, expected as u64, "{name}");
            }
        }
    }

    #[test]
    fn the_preparation_is_not_counted() {
        let directory = tempfile::tempdir().unwrap();
        for side in [&WAL, &DELETE, &DELTAS, &STATEMENTS] {
            // 500 rows are prepared, and there is no transaction.
            let trace = &TRACES[5];
            let none = Plan { transactions: Vec::new(), expected: vec![trace.rows_before(); trace.files] };
            let spent = counted(trace, &none, side, directory.path()).unwrap().spent;
            let database = spent.counts.of(FileKind::Database);
            assert_eq!((database.writes, database.syncs), (0, 0), "{}", side.name);
            // Closing may void a log, which is a block of each file.
            let blocks = spent.counts.total().block_bytes_written / 4096;
            assert!(blocks <= trace.files as u64, "{}: {blocks}", side.name);
        }
    }

    #[test]
    fn statements_are_captured_on_their_side_alone() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::new(&TRACES[0], 100, 1);
        let share = |side: &Side, form: &str| {
            let forms = counted(&TRACES[0], &plan, side, directory.path()).unwrap().forms;
            forms.shares().find(|(name, _)| *name == form).map(|(_, share)| share)
        };
        assert_eq!(share(&WAL, "statements"), None);
        assert_eq!(share(&DELTAS, "statements"), Some(0.0));
        assert!(share(&STATEMENTS, "pages") < Some(0.5), "{:?}", share(&STATEMENTS, "pages"));
    }

    #[test]
    fn a_row_that_is_not_as_written_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let trace = &TRACES[5];
        let mut plan = Plan::new(trace, 200, 1);
        plan.expected[3][4].2.push('x');
        let result = timed(trace, &plan, &WAL, directory.path());
        assert!(result.is_err_and(|error| error.to_string().contains("twitter")));
    }
}
