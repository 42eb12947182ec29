//! The systems that are compared, and one run of an application on one of them.

use super::apps::{App, Values};
use super::tiering::TieringMedium;
use super::trace::{Trace, TracingMedium};
use crate::harness::vfs_name;
use crate::nand::{Costs, Ftl, NandMedium, Placement};
use crate::{Error, Result};
use litefoot::CommitLogForm;
use litefoot_storage::file::Medium;
use litefoot_tier::{Config, PolicyKind, device_bytes, look};
use rusqlite::Connection;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
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
    /// The paper's design: the policy and the chunks of a tier beneath SQLite.
    pub tier: Option<(PolicyKind, u32)>,
    pub journal: Journal,
    pub stack: Stack,
}

/// The journal mode of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// A rollback journal, which is deleted.
    Rollback,
    /// A write-ahead log.
    Wal,
}

/// The storage between the application and the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// SQLite as it is.
    Stock,
    /// SQLite on litefoot.
    Litefoot(Commits),
    /// SQLite on litefoot, with the option `tier`.
    Tiered(TierOptions),
}

/// How litefoot commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Pages, in the redo log.
    Pages,
    /// Statements, in a log on flash.
    Statements,
    /// Statements, in a log on PRAM.
    StatementsOnPram,
}

/// The options of a tier; all others have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierOptions {
    /// Option `tier`. The device is on PRAM wherever its name is; the logs beside it are on flash, unless the name is
    /// below [`Placement::PRAM`].
    pub path: &'static str,
    /// Option `tier_size`, in chunks; `None` for its default.
    pub chunks: Option<u32>,
    /// Option `tier_policy`.
    pub kind: PolicyKind,
}

/// The cost of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub costs: Costs,
    /// Writes of every slot of the tier, where there was one.
    pub slot_writes: Vec<u64>,
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
        let closed = tiering.map(|tiering| tiering.close()).transpose()?;
        nand.write_back();
        let costs = nand.costs().since(&before);
        drop(vfs);
        let slot_writes = match (closed, self.stack) {
            (Some(closed), _) => closed.into_iter().flat_map(|tier| tier.slot_writes).collect(),
            (None, Stack::Tiered(tier)) => slot_writes(&nand, tier.path)?,
            (None, _) => Vec::new(),
        };
        Ok(Outcome { costs, slot_writes, digest: self.digest(app, &nand)? })
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
        let mut options = litefoot::Options::default();
        match self.stack {
            Stack::Stock => {}
            Stack::Litefoot(Commits::Pages) => options.commit_log = CommitLogForm::Pages,
            Stack::Litefoot(Commits::Statements) => options.commit_log = CommitLogForm::Statements,
            Stack::Litefoot(Commits::StatementsOnPram) => {
                options.commit_log = CommitLogForm::Statements;
                options.commit_log_path = Some(PathBuf::from(COMMIT_LOG));
                options.commit_log_size = COMMIT_LOG_BYTES;
            }
            Stack::Tiered(tier) => {
                options.tier = Some(PathBuf::from(tier.path));
                options.tier_policy = tier.kind;
                if let Some(chunks) = tier.chunks {
                    options.tier_size = device_bytes(chunks) as usize;
                }
            }
        }
        let builder = litefoot::Vfs::builder(vfs_name()).medium(medium).options(options);
        Ok(builder.pass_through(self.stack == Stack::Stock).register()?)
    }

    /// A database with the application's schema and its first rows.
    fn open(&self, vfs: &litefoot::Vfs, app: &App, seed: u64) -> Result<Connection> {
        let db = vfs.open(DATABASE)?;
        let mode = match self.journal {
            Journal::Rollback => "delete",
            Journal::Wal => "wal",
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
        let stock = Scheme { stack: Stack::Stock, journal: Journal::Rollback, ..*self };
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

/// The writes of every slot of a device that is closed.
fn slot_writes(nand: &NandMedium, path: &str) -> Result<Vec<u64>> {
    let medium: Arc<dyn Medium> = Arc::new(nand.clone());
    let overview = look(&medium, Path::new(path)).map_err(|error| Error::Wrong(error.to_string()))?;
    Ok(overview.map(|overview| overview.slot_writes).unwrap_or_default())
}

impl Outcome {
    /// Writes of the slot written most against the mean; `None` where no slot was written.
    pub fn wear(&self) -> Option<f64> {
        let most = self.slot_writes.iter().copied().max()?;
        let mean = self.slot_writes.iter().sum::<u64>() as f64 / self.slot_writes.len() as f64;
        (most > 0).then(|| most as f64 / mean)
    }

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
