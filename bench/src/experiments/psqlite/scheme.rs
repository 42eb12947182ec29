//! The systems that are compared, and one run of an application on one of them.

use super::apps::{App, Values};
use super::tiering::TieringMedium;
use super::trace::{Trace, TracingMedium};
use crate::harness::vfs_name;
use crate::nand::{Costs, Ftl, NandMedium, Placement};
use crate::{Error, Result};
use litefoot::CommitLogForm;
use litefoot_storage::file::Medium;
use litefoot_tier::{Config, PolicyKind, Statistics, device_bytes};
use rusqlite::Connection;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

const DATABASE: &str = "/data/data/app.db";
/// Of the flash, this much belongs to other files.
pub const FILLED_PERCENT: u32 = 90;
/// Litefoot's commit log on PRAM, and its largest size there. That is no larger than the tier of 256 chunks.
const COMMIT_LOG: &str = "/pram/app.commits";
const COMMIT_LOG_BYTES: usize = 512 << 10;

/// One system.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// Its name in figures.
    pub name: &'static str,
    pub placement: Placement,
    /// The policy and the chunks of the tier.
    pub tier: Option<(PolicyKind, u32)>,
    pub stack: Stack,
}

/// The storage between the application and the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// SQLite as it is, with a rollback journal that is deleted.
    Stock,
    /// SQLite on litefoot.
    Litefoot(Commits),
}

/// How litefoot commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Pages, in the redo log; for the application, a rollback journal.
    Pages,
    /// Statements, in a log on flash.
    Statements,
    /// Statements, in a log on PRAM.
    StatementsOnPram,
}

/// The cost of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub costs: Costs,
    /// Of the tier, if there was one.
    pub tier: Option<Statistics>,
    /// Tells whether two runs have left the same rows.
    digest: u64,
}

impl Scheme {
    /// Runs an application on an aged device; `each` hears of every transaction.
    pub fn run(
        &self,
        app: &App,
        flash: &Ftl,
        transactions: u64,
        seed: u64,
        each: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Outcome> {
        let nand = NandMedium::new(flash.clone(), FILLED_PERCENT, self.placement);
        let tiering = self.tier.map(|(kind, chunks)| {
            let config = Config { bytes: device_bytes(chunks), kind, ..Config::default() };
            TieringMedium::new(Arc::new(nand.clone()), config)
        });
        let medium: Arc<dyn Medium> = match &tiering {
            Some(tiering) => Arc::new(tiering.clone()),
            None => Arc::new(nand.clone()),
        };
        let vfs = self.vfs(medium)?;
        let db = self.open(&vfs, app, seed)?;
        nand.write_back();
        let before = nand.costs();
        let mut values = Values::new(seed + 1);
        for _ in 0..transactions {
            (app.transact)(&db, &mut values).map_err(|error| self.explain(app, error))?;
            each()?;
        }
        db.close().map_err(|(_, error)| self.explain(app, error))?;
        let tier =
            tiering.map(|tiering| tiering.close()).transpose()?.and_then(|done| done.into_iter().next());
        nand.write_back();
        let costs = nand.costs().since(&before);
        drop(vfs);
        Ok(Outcome { costs, tier, digest: self.digest(app, &nand)? })
    }

    /// The chunks that each transaction of an application writes.
    pub fn trace(&self, app: &App, flash: &Ftl, transactions: u64, seed: u64) -> Result<Trace> {
        let nand = NandMedium::new(flash.clone(), FILLED_PERCENT, self.placement);
        let tracing = TracingMedium::new(Arc::new(nand));
        let vfs = self.vfs(Arc::new(tracing.clone()))?;
        let db = self.open(&vfs, app, seed)?;
        tracing.take();
        let mut values = Values::new(seed + 1);
        for _ in 0..transactions {
            (app.transact)(&db, &mut values).map_err(|error| self.explain(app, error))?;
        }
        Ok(tracing.take())
    }

    fn vfs(&self, medium: Arc<dyn Medium>) -> Result<litefoot::Vfs> {
        let commit_log = match self.stack {
            Stack::Litefoot(Commits::Pages) => CommitLogForm::Pages,
            _ => CommitLogForm::Statements,
        };
        let mut options = litefoot::Options { commit_log, ..litefoot::Options::default() };
        if self.stack == Stack::Litefoot(Commits::StatementsOnPram) {
            options.commit_log_path = Some(PathBuf::from(COMMIT_LOG));
            options.commit_log_size = COMMIT_LOG_BYTES;
        }
        let builder = litefoot::Vfs::builder(vfs_name()).medium(medium).options(options);
        Ok(builder.pass_through(self.stack == Stack::Stock).register()?)
    }

    /// A database with the application's schema and its first rows.
    fn open(&self, vfs: &litefoot::Vfs, app: &App, seed: u64) -> Result<Connection> {
        let db = vfs.open(DATABASE)?;
        let mode = match self.stack {
            Stack::Stock | Stack::Litefoot(Commits::Pages) => "delete",
            Stack::Litefoot(_) => "wal",
        };
        let fill = || -> rusqlite::Result<()> {
            db.set_prepared_statement_cache_capacity(64);
            db.execute_batch("PRAGMA page_size=1024; PRAGMA auto_vacuum=FULL; PRAGMA synchronous=FULL")?;
            db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))?;
            db.execute_batch("BEGIN")?;
            db.execute_batch(app.schema)?;
            (app.prepare)(&db, &mut Values::new(seed))?;
            db.execute_batch("COMMIT")?;
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        fill().map_err(|error| self.explain(app, error))?;
        Ok(db)
    }

    fn explain(&self, app: &App, source: rusqlite::Error) -> Error {
        Error::Sqlite { what: format!("{} on {}", app.name, self.name), source }
    }

    /// The rows of the flash file, read by stock SQLite.
    fn digest(&self, app: &App, nand: &NandMedium) -> Result<u64> {
        let stock = Scheme { stack: Stack::Stock, ..*self };
        let vfs = stock.vfs(Arc::new(nand.clone()))?;
        let db = vfs.open(DATABASE)?;
        let digest = || -> rusqlite::Result<(String, u64)> {
            let check = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            let mut hasher = DefaultHasher::new();
            let mut tables =
                db.prepare("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'words%'")?;
            for table in tables.query_map([], |row| row.get::<_, String>(0))? {
                let mut rows = db.prepare(&format!("SELECT * FROM \"{}\"", table?))?;
                let columns = rows.column_count();
                let mut rows = rows.query([])?;
                while let Some(row) = rows.next()? {
                    for column in 0..columns {
                        format!("{:?}", row.get_ref(column)?).hash(&mut hasher);
                    }
                }
            }
            Ok((check, hasher.finish()))
        };
        let (check, digest) = digest().map_err(|error| self.explain(app, error))?;
        if check == "ok" {
            Ok(digest)
        } else {
            Err(Error::Wrong(format!("{} on {}: {check}", app.name, self.name)))
        }
    }
}

impl Outcome {
    /// Fails if the two have not left the same rows.
    pub fn agrees(&self, other: &Outcome, app: &App, scheme: &Scheme) -> Result<()> {
        if self.digest == other.digest {
            Ok(())
        } else {
            Err(Error::Wrong(format!(
                "{} on {}: the database does not hold what was stored",
                app.name, scheme.name
            )))
        }
    }
}
