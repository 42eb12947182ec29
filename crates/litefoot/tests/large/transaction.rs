//! A large transaction of every kind of change, and what is there before it and after it.

use crate::support::{insert, integrity, open, open_small};
use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_sim::SimMedium;

pub const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
pub const CLEANERS: [&str; 3] = ["auto", "foreground", "background"];
/// Rows of a large transaction, a page each.
pub const ROWS: i64 = 150;

pub struct Setup {
    pub medium: SimMedium,
    pub vfs: Vfs,
    pub db: Connection,
}

/// A database with some rows, all in its file, whose next transaction does not fit into memory.
pub fn prepared(mode: &str, page_cleaner: &str) -> Setup {
    prepared_with(mode, &format!("write_buffer_size=64K&page_cleaner={page_cleaner}"))
}

pub fn prepared_with(mode: &str, options: &str) -> Setup {
    let medium = SimMedium::new();
    let (vfs, db) = open(&medium, options);
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 0..40, 1).unwrap();
    drop(db);
    let db = open_small(&vfs, "/app.db");
    Setup { medium, vfs, db }
}

/// The transaction: rows that are new, rows that were there, and some of them twice, with something undone in between.
pub fn transact(db: &Connection) -> litefoot::rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    insert(db, 40..ROWS, 2)?;
    insert(db, 0..40, 2)?;
    db.execute_batch("SAVEPOINT s")?;
    insert(db, 20..ROWS + 60, 9)?;
    db.execute_batch("ROLLBACK TO s")?;
    insert(db, 10..30, 2)?;
    db.execute_batch("COMMIT")
}

/// How many rows there are of each version; sound otherwise.
pub fn state(db: &Connection) -> Result<(i64, i64), String> {
    let sql =
        "SELECT total(hex(substr(v, 3500)) = '01'), total(hex(substr(v, 3500)) = '02'), count(*) FROM t";
    let row = db.query_row(sql, [], |row| {
        Ok((row.get::<_, f64>(0)? as i64, row.get::<_, f64>(1)? as i64, row.get::<_, i64>(2)?))
    });
    let (old, new, all) = row.map_err(|error| error.to_string())?;
    let integrity = integrity(db).map_err(|error| error.to_string())?;
    if integrity == "ok" && all == old + new {
        Ok((old, new))
    } else {
        Err(format!("{old} {new} {all} {integrity}"))
    }
}

pub const BEFORE: (i64, i64) = (40, 0);
pub const AFTER: (i64, i64) = (0, ROWS);
