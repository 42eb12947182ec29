//! The sides, and how each opens a database.

use crate::harness::{open_stock, vfs_name};
use crate::{Error, Result};
use litefoot::Vfs;
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const STOCK: &str = "stock";
pub const MMAP: &str = "mmap";
pub const LITEFOOT: &str = "litefoot";

/// True if litefoot has a pool, and with it the options `pool` and `direct`. Without, the experiment measures litefoot as
/// it is: SQLite's own cache above the system's.
const POOL: bool = true;
/// The smallest pool there is.
const SMALLEST_POOL: u64 = 1 << 20;

/// Use of the system's cache by reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// As litefoot likes.
    Auto,
    /// Never: the pool is all the memory there is.
    On,
}

/// litefoot's options for reading.
fn options(pool_bytes: u64, direct: Direct) -> Result<litefoot::Options> {
    let mut options = litefoot::Options::default();
    if POOL {
        let direct = if direct == Direct::On { "on" } else { "auto" };
        let pool = pool_bytes.max(SMALLEST_POOL);
        options.set_list(&format!("buffer_pool_size={pool}&direct_io={direct}")).map_err(Error::Wrong)?;
    }
    Ok(options)
}

/// A database as one side sees it. Its connections must be closed before it is dropped.
pub struct Source {
    pub name: &'static str,
    path: PathBuf,
    /// SQLite's own VFS where there is none.
    vfs: Option<Vfs>,
    /// The settings of each connection.
    settings: Settings,
}

#[derive(Clone, Copy)]
enum Settings {
    Default,
    /// `mmap_size`, in bytes.
    Mapped(u64),
    /// `cache_size`, in KiB.
    Cache(u64),
}

impl Source {
    /// SQLite as it comes.
    pub fn stock(path: &Path) -> Source {
        Source { name: STOCK, path: path.to_owned(), vfs: None, settings: Settings::Default }
    }

    /// SQLite with the whole file mapped.
    pub fn mapped(path: &Path, bytes: u64) -> Source {
        Source { name: MMAP, path: path.to_owned(), vfs: None, settings: Settings::Mapped(bytes) }
    }

    /// SQLite with a cache of that size for each connection, on a medium.
    pub fn stock_on(path: &Path, medium: Arc<dyn Medium>, cache_bytes: u64) -> Result<Source> {
        let vfs = Vfs::builder(vfs_name()).medium(medium).pass_through(true).register()?;
        let settings = Settings::Cache((cache_bytes / 1024).max(1));
        Ok(Source { name: STOCK, path: path.to_owned(), vfs: Some(vfs), settings })
    }

    /// SQLite on litefoot.
    pub fn litefoot(path: &Path, pool_bytes: u64, direct: Direct) -> Result<Source> {
        Source::litefoot_on(path, Arc::new(OsMedium::new()), pool_bytes, direct)
    }

    /// The same on another medium.
    pub fn litefoot_on(path: &Path, medium: Arc<dyn Medium>, pool: u64, direct: Direct) -> Result<Source> {
        let vfs = Vfs::builder(vfs_name()).medium(medium).options(options(pool, direct)?).register()?;
        Ok(Source { name: LITEFOOT, path: path.to_owned(), vfs: Some(vfs), settings: Settings::Default })
    }

    /// So many connections.
    pub fn connect(&self, count: usize) -> Result<Vec<Connection>> {
        (0..count).map(|_| self.connection()).collect()
    }

    fn connection(&self) -> Result<Connection> {
        let connection = match &self.vfs {
            Some(vfs) => vfs.open(&self.path)?,
            None => open_stock(&self.path).map_err(|error| self.explain(error))?,
        };
        self.set(&connection).map_err(|error| self.explain(error))?;
        Ok(connection)
    }

    fn set(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self.settings {
            Settings::Default => Ok(()),
            Settings::Mapped(bytes) => {
                let sql = format!("PRAGMA mmap_size={bytes}");
                let mapped: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
                // SQLite cuts what it cannot map: the figures would be of something else.
                let enough = mapped.unsigned_abs() >= bytes;
                if enough { Ok(()) } else { Err(rusqlite::Error::IntegralValueOutOfRange(0, mapped)) }
            }
            Settings::Cache(kib) => connection.execute_batch(&format!("PRAGMA cache_size=-{kib}")),
        }
    }

    /// Closes connections, so that an error does not go unnoticed.
    pub fn close(&self, connections: Vec<Connection>) -> Result<()> {
        connections
            .into_iter()
            .try_for_each(|connection| connection.close().map_err(|(_, error)| self.explain(error)))
    }

    /// SQLite's error with the side's name before it.
    pub fn explain(&self, source: rusqlite::Error) -> Error {
        Error::Sqlite { what: format!("side {}", self.name), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_used_as_soon_as_there_is_one() {
        for name in ["buffer_pool_size", "direct_io"] {
            assert_eq!(litefoot::Options::default().get(name).is_some(), POOL, "{name}");
        }
        options(0, Direct::Auto).unwrap();
        options(1 << 30, Direct::On).unwrap();
    }
}
