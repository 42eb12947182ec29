//! Rows that say whether they are right, and what a database of them must hold.
//!
//! A row's bytes follow from its number and its version; the database counts its rows and sums up their versions in a
//! table of its own, changed in the same transaction. So every snapshot can be checked by itself.

use litefoot::rusqlite::{Connection, Error, ErrorCode, Result};
use litefoot_sim::Random;
use std::collections::BTreeMap;

/// The version of each row.
pub type Rows = BTreeMap<i64, i64>;

pub const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, version INT, k INT, body BLOB);
     CREATE INDEX i ON t(k);
     CREATE TABLE total(count INT, versions INT);
     INSERT INTO total VALUES(0, 0)";

/// The content that a row must have. Some have overflow pages.
pub fn body(id: i64, version: i64) -> Vec<u8> {
    let mut random = Random::new(id as u64 * 1_000_003 + version as u64);
    let bytes = match random.below(40) {
        0 => 3000 + random.below(30_000),
        _ => random.below(400),
    };
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes());
    words.take(bytes as usize).collect()
}

/// The row's key in the index.
pub fn key(id: i64, version: i64) -> i64 {
    (id * 7919 + version) % 1000
}

/// True if another connection was in the way, which is nobody's fault.
pub fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The result, if nobody was in the way.
pub fn unless_busy<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if is_busy(&error) => None,
        Err(error) => panic!("{error}: {:?}", litefoot::last_error()),
    }
}

/// Puts rows of that version there.
pub fn put(db: &Connection, id: i64, version: i64) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute((id, version, key(id, version), body(id, version))).map(drop)
}

/// Says what the rows sum up to.
pub fn put_total(db: &Connection, rows: &Rows) -> Result<()> {
    let sums = (rows.len() as i64, rows.values().sum::<i64>());
    db.prepare_cached("UPDATE total SET count = ?1, versions = ?2")?.execute(sums).map(drop)
}

/// A new database of `count` rows.
pub fn fill(db: &Connection, count: i64) -> Rows {
    db.execute_batch(SCHEMA).unwrap();
    let rows: Rows = (1..=count).map(|id| (id, 1)).collect();
    db.execute_batch("BEGIN").unwrap();
    rows.keys().for_each(|id| put(db, *id, 1).unwrap());
    put_total(db, &rows).unwrap();
    db.execute_batch("COMMIT").unwrap();
    rows
}

/// Reads rows and checks each; answers how many, and the sum of their versions.
fn check_rows(db: &Connection, sql: &str, parameter: i64) -> Result<(i64, i64)> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([parameter])?;
    let (mut count, mut versions) = (0, 0);
    while let Some(row) = rows.next()? {
        let (id, version, k): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let found = row.get_ref(3)?.as_blob().unwrap();
        assert!(found == body(id, version) && k == key(id, version), "row {id}, version {version}: {sql}");
        (count, versions) = (count + 1, versions + version);
    }
    Ok((count, versions))
}

pub const FORWARD: &str = "SELECT id, version, k, body FROM t WHERE id >= ?1 ORDER BY id";
pub const BACKWARD: &str = "SELECT id, version, k, body FROM t WHERE id >= ?1 ORDER BY id DESC";
pub const BY_KEY: &str = "SELECT id, version, k, body FROM t INDEXED BY i WHERE k >= ?1 ORDER BY k";

/// All rows in one snapshot, in three orders: each is right, and the sums are.
pub fn check_snapshot(db: &Connection) -> Result<()> {
    db.execute_batch("BEGIN")?;
    let checked = check_in_snapshot(db);
    // An error may have ended the transaction already.
    let ended = db.execute_batch("ROLLBACK");
    checked.and(ended)
}

fn check_in_snapshot(db: &Connection) -> Result<()> {
    let total =
        db.query_row("SELECT count, versions FROM total", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for sql in [FORWARD, BACKWARD, BY_KEY] {
        assert_eq!(check_rows(db, sql, i64::MIN)?, total, "{sql}");
    }
    Ok(())
}

/// A few rows from a place on.
pub fn check_some(db: &Connection, random: &mut Random) -> Result<()> {
    let sql = [FORWARD, BACKWARD, BY_KEY][random.below(3) as usize].to_owned() + " LIMIT 20";
    check_rows(db, &sql, random.below(1000) as i64).map(drop)
}

/// The database holds exactly these rows, and its b-trees are sound.
pub fn check_all(db: &Connection, rows: &Rows) {
    check_snapshot(db).unwrap();
    let mut statement = db.prepare("SELECT id, version FROM t").unwrap();
    let found: Result<Rows> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect();
    assert!(found.unwrap() == *rows, "rows were lost, or came back");
    drop(statement);
    check_integrity(db);
}

pub fn check_integrity(db: &Connection) {
    let found: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}
