//! The common part of the tests of large transactions.

use litefoot::rusqlite::{Connection, Result};
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use litefoot_testkit::sqlite::vfs_name;
use std::ops::Range;
use std::sync::Arc;

/// SQLite keeps next to nothing of a transaction to itself.
pub const SMALL_CACHE: &str = "PRAGMA cache_size=10; PRAGMA cache_spill=10";

/// A VFS with a name of its own.
pub fn vfs(medium: &SimMedium, options: &str) -> Vfs {
    vfs_on(Arc::new(medium.clone()), options)
}

pub fn vfs_on(medium: Arc<dyn Medium>, options: &str) -> Vfs {
    let mut list = Options::default();
    list.set_list(options).unwrap();
    Vfs::builder(vfs_name("large")).medium(medium).options(list).register().unwrap()
}

/// A database, and the VFS that it is open through.
pub fn open(medium: &SimMedium, options: &str) -> (Vfs, Connection) {
    open_on(Arc::new(medium.clone()), options)
}

pub fn open_on(medium: Arc<dyn Medium>, options: &str) -> (Vfs, Connection) {
    let vfs = vfs_on(medium, options);
    let db = vfs.open("/app.db").unwrap();
    (vfs, db)
}

/// A connection whose large transactions do not wait for the commit in SQLite's own cache.
pub fn open_small(vfs: &Vfs, name: &str) -> Connection {
    let db = vfs.open(name).unwrap();
    db.execute_batch(SMALL_CACHE).unwrap();
    db
}

/// Rows of a page each.
pub fn insert(db: &Connection, ids: Range<i64>, version: u8) -> Result<()> {
    put(db, "t", ids, version)
}

pub fn put(db: &Connection, table: &str, ids: Range<i64>, version: u8) -> Result<()> {
    let mut statement = db.prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES(?1, ?2)"))?;
    ids.into_iter().try_for_each(|id| statement.execute((id, vec![version; 3500])).map(drop))
}

/// A transaction that is committed.
pub fn in_transaction(db: &Connection, act: impl Fn(&Connection) -> Result<()>) -> Result<()> {
    db.execute_batch("BEGIN")?;
    act(db)?;
    db.execute_batch("COMMIT")
}

/// SQLite's verdict on the database: `ok` if nothing is wrong.
pub fn integrity(db: &Connection) -> Result<String> {
    db.query_row("PRAGMA integrity_check", [], |row| row.get(0))
}

/// How many rows there are; sound otherwise.
pub fn rows(db: &Connection) -> i64 {
    assert_eq!(integrity(db).unwrap(), "ok");
    db.query_row("SELECT count(*) FROM t WHERE length(v) > 100", [], |row| row.get(0)).unwrap()
}

/// How many rows there are of a version; sound otherwise.
pub fn rows_of(db: &Connection, version: u8) -> i64 {
    assert_eq!(integrity(db).unwrap(), "ok");
    let sql = "SELECT count(*) FROM t WHERE v = ?1";
    db.query_row(sql, [vec![version; 3500]], |row| row.get(0)).unwrap()
}
