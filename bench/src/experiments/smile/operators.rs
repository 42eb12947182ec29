//! The operators of the thesis' section 5.1 on pages of the store, and SQLite's answers to the same questions.
//!
//! The pages hold random bytes. SQLite has the same values as rows: one for each byte, for each 32-bit integer, for each pair of key and value.
//! Everything is in memory on both sides. SQLite's join is written as the operator works: both inputs are grouped by key first.

use super::files::{Files, ms, timed, workers};
use crate::harness::{Progress, interleave, median, median_ratio, open_stock};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::ops::{Extents, filter, group_by, hash_join};
use litefoot_pagestore::store::{Database, Options};
use litefoot_pagestore::task::Workers;
use litefoot_storage::file::Medium;
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::ops::RangeInclusive;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
/// The integers that the filter finds: a tenth of them.
const RANGE: RangeInclusive<u32> = 1_000_000_000..=1_429_496_729;
/// The build side of the join is one page in so many, as in the thesis.
const BUILD_SHARE: usize = 16;

const TABLES: &str = "PRAGMA journal_mode=off; PRAGMA synchronous=off; PRAGMA temp_store=memory;
     CREATE TABLE byte(value INTEGER); CREATE TABLE word(value INTEGER);
     CREATE TABLE build(key INTEGER, value INTEGER); CREATE TABLE probe(key INTEGER, value INTEGER);";

/// An operator, and its question in SQL. Answers are rows of integers.
struct Operator {
    name: &'static str,
    run: fn(&Workers, &Database, &Extents) -> Result<Answer>,
    sql: &'static str,
}

type Answer = Vec<Vec<i64>>;

const OPERATORS: [Operator; 3] = [
    Operator {
        name: "filter",
        run: |workers, pages, extents| {
            let found = filter(workers, pages, extents, RANGE)?;
            let bound = |value: Option<u32>| value.map_or(0, i64::from);
            Ok(vec![vec![found.count as i64, found.sum as i64, bound(found.min), bound(found.max)]])
        },
        sql: "SELECT count(*), sum(value), min(value), max(value) FROM word WHERE value BETWEEN 1000000000 AND 1429496729",
    },
    Operator {
        name: "group",
        run: |workers, pages, extents| {
            let groups = group_by(workers, pages, extents)?;
            let counted = groups.iter().enumerate().filter(|(_, count)| **count > 0);
            Ok(counted.map(|(value, count)| vec![value as i64, *count as i64]).collect())
        },
        sql: "SELECT value, count(*) FROM byte GROUP BY value ORDER BY value",
    },
    Operator {
        name: "join",
        run: |workers, pages, extents| {
            let joined = hash_join(workers, pages, extents)?;
            Ok(joined
                .iter()
                .map(|(key, join)| vec![i64::from(*key), join.pairs as i64, join.sum as i64])
                .collect())
        },
        sql: "WITH b AS (SELECT key, count(*) AS n FROM build WHERE key % 2 = 0 GROUP BY key),
              p AS (SELECT key, count(*) AS n, sum(value) AS sum FROM probe GROUP BY key)
              SELECT key, b.n * p.n, b.n * p.sum FROM b JOIN p USING (key) ORDER BY key",
    },
];

/// The sides: threads of the engine, or SQLite.
const SIDES: [(&str, Option<usize>); 3] =
    [("litefoot_1", Some(1)), ("litefoot_2", Some(2)), ("sqlite", None)];

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let mut bytes = vec![0; files.sizes.operator_bytes];
    fastrand::Rng::with_seed(files.seed).fill(&mut bytes);
    progress.begin("the values, as pages and as rows", 2);
    let database = store_of(files, &bytes)?;
    progress.advance(1)?;
    let path = files.directory.join("values.db");
    let explain = |source| Error::Sqlite { what: path.display().to_string(), source };
    let db = rows_of(&path, &bytes).map_err(explain)?;
    progress.advance(1)?;
    let extents = database.extents();
    let pools = [workers(1)?, workers(2)?];
    for operator in &OPERATORS {
        let mut expected = None;
        progress.begin(operator.name, (files.sizes.rounds * SIDES.len()) as u64);
        let times = interleave(&SIDES, files.sizes.rounds, |_, (side, threads)| {
            progress.advance(1)?;
            let (answer, time) = timed(|| match threads {
                Some(threads) => (operator.run)(&pools[threads - 1], &database, &extents),
                None => ask(&db, operator.sql).map_err(explain),
            })?;
            if *expected.get_or_insert_with(|| answer.clone()) != answer {
                return Err(Error::Wrong(format!("{}: {side} has another answer", operator.name)));
            }
            Ok(ms(time))
        })?;
        for ((side, _), times) in SIDES.iter().zip(&times) {
            figures.set(format!("operator_ms.{}.{side}", operator.name), median(times.iter().copied()));
        }
        figures.set(format!("ratio.{}_over_sqlite", operator.name), median_ratio(&times[2], &times[0]));
    }
    Ok(())
}

/// The bytes in pages of a store, all of them in memory.
fn store_of(files: &Files<'_>, bytes: &[u8]) -> Result<Database> {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    let path = files.directory.join("values.store");
    Database::create(&medium, &path, PAGE_BYTES)?;
    let options = Options { pool_bytes: 2 * bytes.len().max(64 * PAGE_BYTES), ..Options::default() };
    let database = Database::open(&medium, &path, Arc::new(IoQueue::start(&IoConfig::default())?), &options)?;
    for page in bytes.chunks_exact(PAGE_BYTES) {
        database.unit()?.alloc()?.1.copy_from_slice(page);
    }
    database.checkpoint()?;
    Ok(database)
}

/// The same values as rows.
fn rows_of(path: &std::path::Path, bytes: &[u8]) -> rusqlite::Result<Connection> {
    let db = open_stock(path)?;
    db.execute_batch(TABLES)?;
    // Rows take some ten bytes for a byte of value.
    db.execute_batch(&format!("PRAGMA cache_size=-{}; BEGIN", bytes.len() / 1024 * 32))?;
    {
        let mut byte = db.prepare("INSERT INTO byte VALUES (?1)")?;
        bytes.iter().try_for_each(|value| byte.execute([*value]).map(drop))?;
        let mut word = db.prepare("INSERT INTO word VALUES (?1)")?;
        for value in bytes.chunks_exact(4) {
            word.execute([u32::from_le_bytes([value[0], value[1], value[2], value[3]])])?;
        }
        let pages = bytes.len() / PAGE_BYTES;
        let (build, probe) = bytes.split_at(pages.div_ceil(BUILD_SHARE) * PAGE_BYTES);
        for (table, rows) in [("build", build), ("probe", probe)] {
            let mut insert = db.prepare(&format!("INSERT INTO {table} VALUES (?1, ?2)"))?;
            rows.chunks_exact(2).try_for_each(|row| insert.execute([row[0], row[1]]).map(drop))?;
        }
    }
    db.execute_batch("COMMIT")?;
    Ok(db)
}

fn ask(db: &Connection, sql: &str) -> rusqlite::Result<Answer> {
    let mut statement = db.prepare_cached(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?;
    rows.collect()
}
