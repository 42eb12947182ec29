//! The sides, and how a database of each is opened.

use crate::harness::{open_stock, vfs_name};
use crate::{Error, Result};
use litefoot::Vfs;
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

pub const STOCK: &str = "stock";
pub const INF: &str = "inf";
pub const LITEFOOT: &str = "litefoot";
pub const CALLER: &str = "litefoot_caller";
pub const BACKGROUND: &str = "litefoot_background";

/// Pages of the application's cache, where it is not unbounded.
const CACHE_PAGES: u64 = 100;

/// The journal modes, as SQLite and figures name them.
pub const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];

/// One way of running the transactions.
pub struct Side {
    pub name: &'static str,
    /// SQLite's own VFS where there is none.
    vfs: Option<Vfs>,
}

impl Side {
    /// SQLite on its own VFS, its cache bounded or not.
    pub fn stock(name: &'static str) -> Side {
        Side { name, vfs: None }
    }

    /// The same on a medium.
    pub fn stock_on(name: &'static str, medium: Arc<dyn Medium>) -> Result<Side> {
        let vfs = Vfs::builder(vfs_name()).medium(medium).pass_through(true).register()?;
        Ok(Side { name, vfs: Some(vfs) })
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
        Ok(Side { name, vfs: Some(vfs) })
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
                db.execute_batch(&format!("PRAGMA cache_size={CACHE_PAGES}"))?;
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

    /// Closes a connection, so that an error does not go unnoticed.
    pub fn close(&self, db: Connection) -> Result<()> {
        db.close().map_err(|(_, error)| self.explain(error))
    }

    /// SQLite's error with the side's name before it.
    pub fn explain(&self, source: rusqlite::Error) -> Error {
        Error::Sqlite { what: format!("side {}", self.name), source }
    }
}
