//! Bytes and syncs of an insert and of an update, on a counting medium, closing included.

use super::{PERSIST_FULL, PERSIST_MODE};
use crate::experiments::commit::meter::{Meter, Spent};
use crate::experiments::commit::remove_database;
use crate::experiments::ssl::stat;
use crate::harness::vfs_name;
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_sim::{Random, Snapshot};
use litefoot_storage::file::FileKind;
use rusqlite::Connection;
use std::path::Path;

/// The side's name, and litefoot's options; nothing for stock SQLite.
const SIDES: [(&str, Option<&str>); 3] =
    [(PERSIST_FULL, None), ("litefoot", Some("")), ("litefoot_assume4k", Some("atomic=assume4k"))];

/// What a transaction does: rows that come at the end of the table, or rows all over it that change.
const WORKLOADS: [(&str, &str); 2] =
    [("insert", "INSERT INTO t(b) VALUES(?1)"), ("update", "UPDATE t SET b = ?1 WHERE a = ?2")];
/// Rows that are there before: more pages than a transaction can find in the log by chance.
const ROWS: u64 = 20_000;

/// Sets the figures of so many transactions of each kind on each side.
pub fn run(directory: &Path, transactions: u64, seed: u64, figures: &mut Figures) -> Result<()> {
    for (side, options) in SIDES {
        for (name, sql) in WORKLOADS {
            let task = Task { side, options, sql, seed };
            let (counts, in_place) =
                task.count(&directory.join(format!("counted-{side}.db")), transactions)?;
            let each = |count: u64| count as f64 / transactions as f64;
            figures.set(format!("{name}_bytes.{side}"), each(counts.total().block_bytes_written));
            figures.set(format!("{name}_log_bytes.{side}"), each(log_bytes(&counts)));
            figures.set(format!("{name}_syncs.{side}"), each(counts.all_syncs()));
            figures.set(format!("{name}_in_place.{side}"), each(in_place));
        }
    }
    Ok(())
}

struct Task {
    side: &'static str,
    options: Option<&'static str>,
    sql: &'static str,
    seed: u64,
}

impl Task {
    /// What so many transactions cost, and how many of them wrote their page in place.
    fn count(&self, path: &Path, transactions: u64) -> Result<(Snapshot, u64)> {
        let explain = |source| Error::Sqlite { what: format!("counting, {}", self.side), source };
        let meter = Meter::new();
        let mut options = litefoot::Options::default();
        options.set_list(self.options.unwrap_or_default()).map_err(Error::Wrong)?;
        let vfs = litefoot::Vfs::builder(vfs_name())
            .medium(meter.medium())
            .options(options)
            .pass_through(self.options.is_none())
            .register()?;
        // Closing leaves no page of the rows in a log.
        let db = vfs.open(path)?;
        fill(&db).map_err(explain)?;
        db.close().map_err(|(_, error)| explain(error))?;
        let db = vfs.open(path)?;
        let in_place = || match self.options {
            Some(_) => stat(&db, "commits_in_place"),
            None => Ok(0),
        };
        let transact = || -> rusqlite::Result<(Spent, u64)> {
            db.execute_batch(PERSIST_MODE)?;
            let mut random = Random::new(self.seed);
            let mut statement = db.prepare(self.sql)?;
            db.query_row("SELECT count(*) FROM t", [], |_| Ok(()))?;
            let (begun, before) = (meter.begin(), in_place()?);
            for _ in 0..transactions {
                let row = 1 + random.below(ROWS).cast_signed();
                let text: String = (0..100).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
                statement.raw_bind_parameter(1, text)?;
                if statement.parameter_count() > 1 {
                    statement.raw_bind_parameter(2, row)?;
                }
                statement.raw_execute()?;
            }
            Ok((begun, in_place()? - before))
        };
        let (begun, in_place) = transact().map_err(explain)?;
        db.close().map_err(|(_, error)| explain(error))?;
        let counts = meter.end(&begun).counts;
        remove_database(path)?;
        Ok((counts, in_place))
    }
}

fn fill(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(PERSIST_MODE)?;
    db.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); BEGIN")?;
    let mut insert = db.prepare("INSERT INTO t(b) VALUES(?1)")?;
    let text = "x".repeat(100);
    for _ in 0..ROWS {
        insert.execute([&text])?;
    }
    db.execute_batch("COMMIT")
}

/// Bytes of the files that stand beside a database.
fn log_bytes(counts: &Snapshot) -> u64 {
    let kinds = [FileKind::Journal, FileKind::RedoLog, FileKind::CommitLog];
    kinds.iter().map(|kind| counts.of(*kind).block_bytes_written).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::{CountingMedium, SimMedium};
    use std::sync::Arc;

    #[test]
    fn an_insert_costs_what_it_should() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new();
        run(directory.path(), 300, 1, &mut figures).unwrap();
        let get = |name: &str| figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        // A journal of SQLite's: the journal twice, the database, the journal's end.
        assert!(get("insert_syncs.persist_full") >= 4.0 && get("update_syncs.persist_full") >= 4.0);
        assert_eq!(get("update_in_place.persist_full") + get("update_in_place.litefoot"), 0.0);
        for name in ["litefoot", "litefoot_assume4k"] {
            let syncs = get(&format!("insert_syncs.{name}"));
            assert!((1.0..=1.2).contains(&syncs), "{name}: {syncs}");
        }
        // An insert finds its page in the log, where its predecessor was; an update is alone on its page.
        assert!(get("update_in_place.litefoot_assume4k") > 0.9);
        let logged = |name: &str| get(&format!("update_log_bytes.{name}"));
        assert!(logged("litefoot_assume4k") < logged("litefoot") / 10.0, "{}", logged("litefoot_assume4k"));
        assert!(get("insert_bytes.litefoot") < get("insert_bytes.persist_full"));
    }

    /// A device that says that it never tears a page, as `RWF_ATOMIC` needs it: nothing has to be assumed there.
    #[test]
    fn a_device_that_writes_pages_whole_gets_them_in_place_without_an_option() {
        for (atomic_bytes, expected) in [(0, 0), (2048, 0), (4096, 40), (16_384, 40)] {
            let medium = SimMedium::new();
            medium.set_atomic_write_bytes(atomic_bytes);
            let counting = CountingMedium::new(Arc::new(medium.clone()));
            let vfs =
                litefoot::Vfs::builder(vfs_name()).medium(Arc::new(counting.clone())).register().unwrap();
            let db = vfs.open("/a.db").unwrap();
            fill(&db).unwrap();
            db.close().unwrap();
            let db = vfs.open("/a.db").unwrap();
            db.execute_batch(PERSIST_MODE).unwrap();
            // The first one logs page 1.
            let update =
                |row: u64| db.execute("UPDATE t SET b = 'new' WHERE a = ?1", [row.cast_signed()]).unwrap();
            update(1);
            let before = counting.snapshot();
            (1..41).for_each(|n| assert_eq!(update(n * 400), 1));
            let spent = counting.snapshot() - before;
            assert_eq!(stat(&db, "commits_in_place").unwrap(), expected, "{atomic_bytes}");
            assert_eq!(spent.of(FileKind::Database).syncs, expected, "{atomic_bytes}");
            assert_eq!(log_bytes(&spent) == 0, expected > 0, "{atomic_bytes}");
            db.close().unwrap();
        }
    }
}
