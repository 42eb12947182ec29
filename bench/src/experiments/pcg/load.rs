//! The transactions, and what they leave behind.

use crate::Result;
use crate::harness::Latencies;
use rusqlite::Connection;
use std::time::{Duration, Instant};

pub const SCHEMA: &str = "CREATE TABLE t(key TEXT PRIMARY KEY, value TEXT, number INTEGER)";
/// The row of an insert: a key of 8 characters, a text of 100, an integer.
pub const ROW_BYTES: u64 = 112;

/// In which order keys come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Random,
    Ordered,
}

impl Keys {
    /// Its suffix in the names of figures.
    pub fn suffix(self) -> &'static str {
        match self {
            Keys::Random => "",
            Keys::Ordered => "_ordered",
        }
    }

    /// The key of row `n`; no two rows have the same.
    pub fn key(self, n: u64) -> String {
        let number = match self {
            Keys::Random => scatter(n),
            Keys::Ordered => n,
        };
        format!("{number:08x}")
    }

    /// The same in SQL, of the row number in column `n`.
    fn sql(self) -> String {
        match self {
            Keys::Ordered => "n".to_owned(),
            Keys::Random => {
                let first = format!("((n * {FIRST}) & {WORD})");
                format!("((({first} >> 16) | (({first} & 65535) << 16)) * {SECOND}) & {WORD}")
            }
        }
    }
}

const WORD: u64 = 0xffff_ffff;
/// Odd, so that multiplying by them loses nothing.
const FIRST: u64 = 0x9e37_79b1;
const SECOND: u64 = 0x45d9_f3bd;

/// A permutation of the numbers of 32 bits without a pattern.
fn scatter(n: u64) -> u64 {
    let first = n.wrapping_mul(FIRST) & WORD;
    ((first >> 16) | ((first & 0xffff) << 16)).wrapping_mul(SECOND) & WORD
}

/// Times of transactions.
pub struct Timing {
    pub inserts: Latencies,
    /// Whole ones, from `BEGIN` until the commit returned.
    pub transactions: Latencies,
    /// The last commit.
    pub commit: Duration,
}

impl Timing {
    pub fn new() -> Result<Timing> {
        Ok(Timing { inserts: Latencies::new()?, transactions: Latencies::new()?, commit: Duration::ZERO })
    }
}

/// So many rows from row `first` on, one statement for each, in one transaction.
pub fn insert(
    db: &Connection,
    keys: Keys,
    first: u64,
    rows: u64,
    timing: &mut Timing,
) -> rusqlite::Result<()> {
    let text = "x".repeat(100);
    let begun = Instant::now();
    db.execute_batch("BEGIN")?;
    {
        let mut statement = db.prepare_cached("INSERT INTO t VALUES(?1, ?2, ?3)")?;
        let mut last = Instant::now();
        for n in first..first + rows {
            statement.execute((keys.key(n), &text, n as i64))?;
            let now = Instant::now();
            timing.inserts.record(now - last);
            last = now;
        }
    }
    commit(db, begun, timing)
}

fn commit(db: &Connection, begun: Instant, timing: &mut Timing) -> rusqlite::Result<()> {
    let committing = Instant::now();
    db.execute_batch("COMMIT")?;
    timing.commit = committing.elapsed();
    timing.transactions.record(begun.elapsed());
    Ok(())
}

/// The same by one statement.
pub fn select(
    db: &Connection,
    keys: Keys,
    first: u64,
    rows: u64,
    timing: &mut Timing,
) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM c WHERE n < ?2)
         SELECT printf('%08x', {}), ?3, n FROM c",
        keys.sql()
    );
    let begun = Instant::now();
    db.execute_batch("BEGIN")?;
    db.execute(&sql, (first as i64, (first + rows - 1) as i64, "x".repeat(100)))?;
    commit(db, begun, timing)
}

/// True if the table holds the rows `0..rows`, and nothing else.
pub fn holds(db: &Connection, rows: u64) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*), sum(number), max(number) FROM t", [], |row| {
        let (count, sum, last): (u64, u64, u64) =
            (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64);
        Ok((count, sum, last + 1) == (rows, rows * (rows - 1) / 2, rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_makes_the_same_keys() {
        let db = Connection::open_in_memory().unwrap();
        for keys in [Keys::Random, Keys::Ordered] {
            for n in [0u64, 1, 2, 77, 65_536, 900_000] {
                let sql = format!("SELECT printf('%08x', {}) FROM (SELECT ?1 AS n)", keys.sql());
                let found: String = db.query_row(&sql, [n as i64], |row| row.get(0)).unwrap();
                assert_eq!(found, keys.key(n), "{keys:?} {n}");
            }
        }
    }

    #[test]
    fn keys_differ_and_have_eight_characters() {
        let mut keys: Vec<String> = (0..50_000).map(|n| Keys::Random.key(n)).collect();
        assert!(keys.iter().all(|key| key.len() == 8));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 50_000);
    }
}
