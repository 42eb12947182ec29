//! The database files, loaded in one of two orders.

use super::data::{Data, FILE_BYTES_PER_ROW};
use crate::harness::{Progress, make_cold, open_stock};
use crate::{Error, Result};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// In which order rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the key of the table, the index made at the end: neighbours in a tree are neighbours in the file.
    Key,
    /// At random, the index kept up meanwhile: neighbours in a tree lie anywhere.
    Random,
}

/// SQLite's way of committing, which also decides what a transaction of reads costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// SQLite's default, a rollback journal.
    Delete,
    /// A write-ahead log.
    Wal,
}

impl Journal {
    /// Its suffix in the names of figures.
    pub fn suffix(self) -> &'static str {
        match self {
            Journal::Delete => "",
            Journal::Wal => "_wal",
        }
    }
}

/// A loaded database, closed; with a rollback journal unless set otherwise.
pub struct Database {
    pub path: PathBuf,
    pub bytes: u64,
}

const TABLES: &str =
    "CREATE TABLE item(id INTEGER PRIMARY KEY, k INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);
     CREATE TABLE link(id INTEGER PRIMARY KEY, item INTEGER NOT NULL, n INTEGER NOT NULL);";
const INDEX: &str = "CREATE INDEX item_k ON item(k)";
/// A crash while loading costs nothing but the experiment.
const SETTINGS: &str = "PRAGMA page_size=4096; PRAGMA journal_mode=off; PRAGMA synchronous=off;
     PRAGMA locking_mode=exclusive; PRAGMA temp_store=memory;";
/// Trees filled at random are larger than ones filled in order: pages are two thirds full.
const RANDOM_GROWTH: i64 = 2;
const REPORT_EVERY: u64 = 4096;

/// Loads a database.
pub fn load(data: &Data, order: Order, path: PathBuf, progress: &mut dyn Progress) -> Result<Database> {
    progress.begin("loading", data.rows().unsigned_abs());
    let explain = |source| Error::Sqlite { what: format!("loading {}", path.display()), source };
    let db = open_stock(&path).map_err(explain)?;
    begin(&db, data, order).map_err(explain)?;
    let mut ids: Vec<i64> = (1..=data.rows()).collect();
    if order == Order::Random {
        fastrand::Rng::with_seed(data.rows().unsigned_abs()).shuffle(&mut ids);
    }
    for part in ids.chunks(REPORT_EVERY as usize) {
        insert(&db, data, part).map_err(explain)?;
        progress.advance(part.len() as u64)?;
    }
    end(&db, data, order).map_err(explain)?;
    db.close().map_err(|(_, error)| explain(error))?;
    super::memory::give_back();
    finished(path)
}

/// A second, equal database.
pub fn copy(database: &Database, path: PathBuf) -> Result<Database> {
    std::fs::copy(&database.path, &path).map_err(|source| Error::Directory { path: path.clone(), source })?;
    finished(path)
}

fn begin(db: &Connection, data: &Data, order: Order) -> rusqlite::Result<()> {
    db.execute_batch(SETTINGS)?;
    if order == Order::Random {
        // All of it in memory: else each row would cost a read and a write of the disk.
        let kib = RANDOM_GROWTH * data.rows() * FILE_BYTES_PER_ROW as i64 / 1024;
        db.execute_batch(&format!("PRAGMA cache_size=-{kib}"))?;
    }
    db.execute_batch(TABLES)?;
    if order == Order::Random {
        db.execute_batch(INDEX)?;
    }
    db.execute_batch("BEGIN")
}

fn insert(db: &Connection, data: &Data, ids: &[i64]) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO item VALUES(?1, ?2, ?3, ?4)")?;
    let mut body = Vec::new();
    for id in ids {
        data.body(*id, &mut body);
        insert.execute((id, data.key(*id), data.number(*id), body.as_slice()))?;
    }
    Ok(())
}

fn end(db: &Connection, data: &Data, order: Order) -> rusqlite::Result<()> {
    let mut insert = db.prepare("INSERT INTO link VALUES(?1, ?2, ?3)")?;
    for link in 1..=data.links() {
        insert.execute((link, data.linked(link), data.weight(link)))?;
    }
    if order == Order::Key {
        db.execute_batch(INDEX)?;
    }
    db.execute_batch("COMMIT")
}

/// Nothing of the file waits to be written when something else is measured.
fn finished(path: PathBuf) -> Result<Database> {
    make_cold(&path)?;
    let bytes = length(&path)?;
    Ok(Database { path, bytes })
}

fn length(path: &Path) -> Result<u64> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    std::fs::metadata(path).map(|metadata| metadata.len()).map_err(failed)
}

impl Database {
    /// Changes how it commits.
    pub fn set_journal(&self, journal: Journal) -> Result<()> {
        let explain = |source| Error::Sqlite { what: format!("setting {}", self.path.display()), source };
        let mode = match journal {
            Journal::Delete => "delete",
            Journal::Wal => "wal",
        };
        let db = open_stock(&self.path).map_err(explain)?;
        let sql = format!("PRAGMA journal_mode={mode}");
        let set: String = db.query_row(&sql, [], |row| row.get(0)).map_err(explain)?;
        db.close().map_err(|(_, error)| explain(error))?;
        if set == mode {
            return Ok(());
        }
        Err(Error::Wrong(format!("{}: its journal is {set} instead of {mode}", self.path.display())))
    }

    /// Removes it: its room is wanted for the next.
    pub fn remove(&self) -> Result<()> {
        super::super::commit::remove_database(&self.path)
    }
}
