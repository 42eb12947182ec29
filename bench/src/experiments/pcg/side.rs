//! The sides, and how a database of each is opened.

use super::APPLICATION_CACHE_BYTES;
use crate::harness::{open_stock, vfs_name};
use crate::{Error, Result};
use litefoot::Vfs;
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use rusqlite::ffi::sqlite3_db_status;
use std::path::Path;
use std::sync::Arc;

pub const STOCK: &str = "stock";
pub const INF: &str = "inf";
pub const LITEFOOT: &str = "litefoot";
pub const CALLER: &str = "litefoot_caller";
pub const BACKGROUND: &str = "litefoot_background";

/// Of `sqlite3_db_status` (sqlite3.h): dirty pages that SQLite has written because its cache was full.
const DBSTATUS_CACHE_SPILL: std::ffi::c_int = 12;

/// The journal modes, as SQLite and figures name them.
pub const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];

/// One way of running the transactions.
pub struct Side {
    pub name: &'static str,
    /// SQLite's own VFS where there is none.
    vfs: Option<Vfs>,
    /// Bytes of SQLite's page cache, unless it is unbounded.
    cache_bytes: u64,
}

impl Side {
    /// SQLite on its own VFS, with so much memory unless it is [`INF`].
    pub fn stock(name: &'static str, memory_bytes: u64) -> Side {
        Side { name, vfs: None, cache_bytes: memory_bytes }
    }

    /// The same on a medium.
    pub fn stock_on(name: &'static str, memory_bytes: u64, medium: Arc<dyn Medium>) -> Result<Side> {
        let vfs = Vfs::builder(vfs_name()).medium(medium).pass_through(true).register()?;
        Ok(Side { name, vfs: Some(vfs), cache_bytes: memory_bytes })
    }

    /// SQLite on litefoot, with options.
    pub fn litefoot(name: &'static str, options: &str) -> Result<Side> {
        Side::litefoot_on(name, options, Arc::new(OsMedium::new()))
    }

    /// The same on a medium.
    pub fn litefoot_on(name: &'static str, list: &str, medium: Arc<dyn Medium>) -> Result<Side> {
        let mut options = litefoot::Options::default();
        options.set_list(list).map_err(Error::Wrong)?;
        let vfs = Vfs::builder(vfs_name()).medium(medium).options(options).register()?;
        Ok(Side { name, vfs: Some(vfs), cache_bytes: APPLICATION_CACHE_BYTES })
    }

    /// Opens a database in a journal mode at `synchronous=FULL`.
    pub fn open(&self, path: &Path, mode: &str) -> Result<Connection> {
        let db = match &self.vfs {
            Some(vfs) => vfs.open(path)?,
            None => open_stock(path).map_err(|error| self.explain(error))?,
        };
        let set = || -> rusqlite::Result<(String, i64)> {
            let mode = db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))?;
            db.execute_batch("PRAGMA synchronous=FULL")?;
            if self.name == INF {
                db.execute_batch("PRAGMA cache_size=1000000; PRAGMA cache_spill=off")?;
            } else {
                db.execute_batch(&format!("PRAGMA cache_size=-{}", self.cache_bytes >> 10))?;
            }
            Ok((mode, db.pragma_query_value(None, "synchronous", |row| row.get(0))?))
        };
        let found = set().map_err(|error| self.explain(error))?;
        if found == (mode.to_owned(), 2) {
            Ok(db)
        } else {
            Err(Error::Wrong(format!("side {}: journal and synchronous are {found:?}", self.name)))
        }
    }

    /// Batches of pages that litefoot has written before their commit; of stock SQLite, pages.
    pub fn cleanings(&self, db: &Connection) -> Result<u64> {
        let spills = "SELECT value FROM litefoot_stats WHERE name = 'spills'";
        if [STOCK, INF].contains(&self.name) {
            let (mut pages, mut most) = (0, 0);
            // SAFETY: the connection is open, and both places live through the call.
            unsafe { sqlite3_db_status(db.handle(), DBSTATUS_CACHE_SPILL, &raw mut pages, &raw mut most, 0) };
            return Ok(u64::try_from(pages).unwrap_or(0));
        }
        let batches = db.query_row(spills, [], |row| row.get::<_, i64>(0));
        batches.map(|batches| u64::try_from(batches).unwrap_or(0)).map_err(|error| self.explain(error))
    }

    /// Closes a connection, so that an error does not go unnoticed.
    pub fn close(&self, db: Connection) -> Result<()> {
        db.close().map_err(|(_, error)| self.explain(error))
    }

    /// SQLite's error with the side's name before it.
    pub fn explain(&self, source: rusqlite::Error) -> Error {
        Error::Sqlite { what: format!("side {}", self.name), source }
    }
}
