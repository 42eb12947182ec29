//! The model of the database: an ordered map, and the operations on it.

use litefoot_sim::Random;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The database on the simulated medium.
pub const DATABASE: &str = "/db/app.db";

/// Largest id that the workload uses; small, so that updates and deletes meet rows.
const IDS: u64 = 120;

/// The rows of `t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB)`.
pub type Rows = BTreeMap<i64, (i64, Vec<u8>)>;

/// The table and its index.
pub const SCHEMA: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB); CREATE INDEX t_k ON t(k);";

/// One statement, done to the database and to the model alike.
#[derive(Clone, Debug)]
pub enum Change {
    /// INSERT OR REPLACE.
    Put(i64, i64, Vec<u8>),
    /// UPDATE of one row, which may not be there.
    Update(i64, i64),
    /// DELETE of a range.
    Delete(i64, i64),
    /// UPDATE of one row's value, which is in no index: one page, mostly.
    Rewrite(i64, Vec<u8>),
    /// UPDATE of all rows.
    UpdateAll(i64),
}

impl Change {
    /// A change by chance.
    pub fn random(random: &mut Random) -> Change {
        let id = random.below(IDS) as i64;
        let k = random.below(1000) as i64;
        match random.below(24) {
            0..=11 => {
                let len = if random.one_in(12) { 1000 + random.below(9000) } else { random.below(200) };
                let byte = random.below(256) as u8;
                Change::Put(id, k, (0..len).map(|i| byte.wrapping_add((i % 251) as u8)).collect())
            }
            12..=16 => Change::Update(id, k),
            20..=23 => Change::Rewrite(id, vec![random.below(256) as u8; random.below(120) as usize]),
            17 | 18 => Change::Delete(id, id + random.below(8) as i64),
            _ => Change::UpdateAll(k),
        }
    }

    /// Does it to the model.
    pub fn apply(&self, rows: &mut Rows) {
        match self {
            Change::Put(id, k, v) => drop(rows.insert(*id, (*k, v.clone()))),
            Change::Update(id, k) => {
                if let Some(row) = rows.get_mut(id) {
                    row.0 = *k;
                }
            }
            Change::Rewrite(id, v) => {
                if let Some(row) = rows.get_mut(id) {
                    row.1.clone_from(v);
                }
            }
            Change::Delete(from, to) => rows.retain(|id, _| id < from || id > to),
            Change::UpdateAll(k) => rows.values_mut().for_each(|row| row.0 = row.0.wrapping_add(*k)),
        }
    }

    /// Does it to the database.
    pub fn execute(&self, db: &Connection) -> rusqlite::Result<usize> {
        let cached = |sql: &str| db.prepare_cached(sql);
        match self {
            Change::Put(id, k, v) => cached("INSERT OR REPLACE INTO t VALUES(?1,?2,?3)")?.execute((id, k, v)),
            Change::Update(id, k) => cached("UPDATE t SET k=?2 WHERE id=?1")?.execute((id, k)),
            Change::Rewrite(id, v) => cached("UPDATE t SET v=?2 WHERE id=?1")?.execute((id, v)),
            Change::Delete(from, to) => {
                cached("DELETE FROM t WHERE id BETWEEN ?1 AND ?2")?.execute((from, to))
            }
            Change::UpdateAll(k) => cached("UPDATE t SET k=k+?1")?.execute((k,)),
        }
    }
}

/// The rows that a database holds.
pub fn read(db: &Connection) -> rusqlite::Result<Rows> {
    let mut statement = db.prepare("SELECT id, k, v FROM t")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}
