//! Key-value tables: workloads A and D of YCSB.
//!
//! # Sources
//! - B. Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010, and the project's `workloads/workloada`,
//!   `workloadd`: 1,000 records of a key and ten fields with 100 bytes each. A: one half reads, one half updates of a
//!   field, of records by a Zipfian distribution (constant 0.99) whose popular ones are scattered. D: 95 % reads of new
//!   records, 5 % inserts.
//! - O. Kennedy et al., *Pocket Data: The Need for TPC-MOBILE*, TPCTC 2015: SQLite's statements on eleven phones over a
//!   month. The majority of the queries are those of a key-value store: a row by its key, or a whole table. The
//!   authors' benchmark of phones (<http://www.pocketdata.info>) therefore begins with the workloads of YCSB.
//!
//! Reads write nothing, so a transaction here is one of the writes. A has hot pages. D appends rows, and scatters entries
//! over its index.

use super::{App, Values};
use rusqlite::{Connection, Result, params};
use std::sync::LazyLock;

const RECORDS: usize = 1000;
const FIELDS: i64 = 10;
const FIELD_BYTES: usize = 100;
const ZIPFIAN_CONSTANT: f64 = 0.99;

const SCHEMA: &str =
    "CREATE TABLE usertable(ycsb_key TEXT PRIMARY KEY, field0 TEXT, field1 TEXT, field2 TEXT,
    field3 TEXT, field4 TEXT, field5 TEXT, field6 TEXT, field7 TEXT, field8 TEXT, field9 TEXT)";

pub const YCSB_A: App = App { name: "ycsb_a", application: None, schema: SCHEMA, prepare, transact: update };

pub const YCSB_D: App =
    App { name: "ycsb_d", application: None, schema: SCHEMA, prepare, transact: insert_next };

fn prepare(db: &Connection, values: &mut Values) -> Result<()> {
    (0..RECORDS as i64).try_for_each(|number| insert(db, values, number))
}

/// The key of the record with this number: numbers are hashed, as in YCSB, so that neighbours lie apart.
fn key(number: i64) -> String {
    let hash = number.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("user{}", hash >> 1)
}

fn insert(db: &Connection, values: &mut Values, number: i64) -> Result<()> {
    let field = |values: &mut Values| values.word(FIELD_BYTES, FIELD_BYTES);
    db.prepare_cached("INSERT INTO usertable VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?
        .execute(params![
            key(number),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
            field(values),
        ])
        .map(drop)
}

fn insert_next(db: &Connection, values: &mut Values) -> Result<()> {
    let next = super::integer(db, "SELECT count(*) FROM usertable")?;
    insert(db, values, next)
}

fn update(db: &Connection, values: &mut Values) -> Result<()> {
    let (field, number) = (values.below(FIELDS), zipfian(values));
    db.prepare_cached(&format!("UPDATE usertable SET field{field}=?2 WHERE ycsb_key=?1"))?
        .execute(params![key(number), values.word(FIELD_BYTES, FIELD_BYTES)])
        .map(drop)
}

/// The sums of 1/k^0.99: what of the distribution the first records have.
static SUMS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut sum = 0.0;
    let parts = (1..=RECORDS).map(|rank| {
        sum += (rank as f64).powf(-ZIPFIAN_CONSTANT);
        sum
    });
    parts.collect()
});

/// A record, of which low numbers are more popular. Their keys are scattered.
fn zipfian(values: &mut Values) -> i64 {
    let whole = SUMS.last().copied().unwrap_or_default();
    let wanted = values.share() * whole;
    SUMS.partition_point(|sum| *sum < wanted).min(RECORDS - 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_record_has_its_share_and_all_are_possible() {
        let mut values = Values::new(1);
        let mut counts = vec![0_u32; RECORDS];
        (0..100_000).for_each(|_| counts[zipfian(&mut values) as usize] += 1);
        // 1 / (the sum of 1/k^0.99 up to 1,000) is 0.1294.
        assert!((12_500..13_400).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[9] && counts[9] > counts[999]);
        assert!(counts.iter().filter(|count| **count > 0).count() > 950);
    }
}
