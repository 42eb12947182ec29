//! `scan`: aggregates over a whole table, by `litefoot_scan`, by SQLite itself, and by DuckDB's reader of SQLite files.
//!
//! # What is read
//! A table `reading` of some 100 bytes a row, 1 GB, in rowid order; `--quick` has 64 MB. The three statements are in
//! [`CASES`]. Every side answers each of them, and the answers are compared.
//!
//! # Sides
//! - `stock`: the statement by SQLite on its own `unix` VFS with its defaults;
//! - `litefoot`: the same statement by `litefoot_scan`, with defaults, by as many threads as there are processors;
//! - `floor`: the file is read from end to end by as many threads, and nobody looks at it: no reader of the whole file is faster;
//! - `duckdb`: the statement over `sqlite_scan`, with as many threads, where Python has `duckdb` with its SQLite extension.
//!
//! They take turns over one file, and each turn opens it anew. What is timed is the statement, with what its side does at
//! the first look at a database; DuckDB's own start is not. **Warm** files are in the system's cache, **cold** ones were taken
//! out of it.
//!
//! # Figures
//! `Q` is `total`, `filter` or `group`; the last part of a name is the side.
//!
//! | name | meaning |
//! |---|---|
//! | `rows`, `file_bytes` | the table |
//! | `Q_ms`, `Q_cold_ms` | milliseconds |
//! | `ratio.Q_over_stock`, `ratio.Q_cold_over_stock` | speed over SQLite's: above 1 litefoot is faster |
//! | `ratio.Q_over_duckdb`, `ratio.Q_cold_over_duckdb` | speed over DuckDB's, where it is there |

use super::commit::work_directory;
use crate::harness::{Progress, interleave, make_cold, median, median_ratio, open_stock};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use rusqlite::types::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const FULL_BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 64 << 20;
/// Bytes of the file for a row, about.
const ROW_BYTES: u64 = 104;
const ROUNDS: usize = 5;

const STOCK: &str = "stock";
const LITEFOOT: &str = "litefoot";
const FLOOR: &str = "floor";
const DUCKDB: &str = "duckdb";

/// The statements, by name. Each begins with a count, and `FROM reading` is where DuckDB has its function.
const CASES: [(&str, &str); 3] = [
    ("total", "SELECT count(*), sum(sensor), total(value), min(value), max(sensor) FROM reading"),
    ("filter", "SELECT count(*), sum(sensor) FROM reading WHERE value > 900 AND sensor < 5000"),
    ("group", "SELECT count(*), city, sum(sensor), avg(value) FROM reading GROUP BY city"),
];

const TABLE: &str = "PRAGMA journal_mode=off; PRAGMA synchronous=off;
     CREATE TABLE reading(id INTEGER PRIMARY KEY, city TEXT, sensor INTEGER, value REAL, note TEXT);";
const ROWS: &str = "WITH RECURSIVE n(i) AS (VALUES(?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
     INSERT INTO reading SELECT i, 'city number ' || (i * 7919 % 500), i * 31 % 10007, (i * 37 % 100003) * 0.01,
     'a note that nobody reads, of fifty bytes and more' FROM n";

/// DuckDB's turn: prints its milliseconds and the first cell. Its extension may be a package of its own.
const SCRIPT: &str = "
import glob, os, sys, time, duckdb
db = duckdb.connect()
try:
    db.execute('LOAD sqlite_scanner')
except Exception:
    import duckdb_extension_sqlite_scanner as package
    files = glob.glob(os.path.join(os.path.dirname(package.__file__), '**', '*.duckdb_extension'), recursive=True)
    db.execute(f\"LOAD '{files[0]}'\")
db.execute('SET threads=' + sys.argv[3])
if len(sys.argv[2]) == 0:
    sys.exit(0)
begin = time.perf_counter()
rows = db.execute(sys.argv[2].replace('FROM reading', f\"FROM sqlite_scan('{sys.argv[1]}', 'reading')\")
    .replace('total(', 'sum(')).fetchall()
print((time.perf_counter() - begin) * 1000, sum(row[0] for row in rows))
";

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let path = directory.path().join("scan.db");
    let bytes = if options.quick { QUICK_BYTES } else { FULL_BYTES };
    let mut figures = Figures::new();
    load(&path, bytes / ROW_BYTES, &mut figures, progress)?;
    let mut sides = vec![STOCK, LITEFOOT, FLOOR];
    if duckdb(&path, "").is_ok() {
        sides.push(DUCKDB);
    } else {
        figures.note("DuckDB was left out: python3 has no duckdb with its SQLite extension");
    }
    for (name, sql) in CASES {
        for cold in [false, true] {
            measure(&Case { path: &path, sql, cold }, name, &sides, &mut figures, progress)?;
        }
    }
    Ok(figures)
}

fn load(path: &Path, rows: u64, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    const PART: u64 = 100_000;
    let explain = |source| Error::Sqlite { what: format!("loading {}", path.display()), source };
    progress.begin("loading", rows);
    let db = open_stock(path).map_err(explain)?;
    db.execute_batch(TABLE).map_err(explain)?;
    for first in (1..=rows).step_by(PART as usize) {
        let last = rows.min(first + PART - 1);
        db.execute(ROWS, [first, last].map(|row| row as i64)).map_err(explain)?;
        progress.advance(last + 1 - first)?;
    }
    db.close().map_err(|(_, source)| explain(source))?;
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    figures.set("rows", rows as f64);
    figures.set("file_bytes", std::fs::metadata(path).map_err(failed)?.len() as f64);
    Ok(())
}

struct Case<'a> {
    path: &'a Path,
    sql: &'a str,
    cold: bool,
}

fn measure(
    case: &Case<'_>,
    name: &str,
    sides: &[&'static str],
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let cold = if case.cold { "_cold" } else { "" };
    progress.begin(&format!("{name}{cold}"), (sides.len() * ROUNDS) as u64);
    let mut expected = None;
    let turns = interleave(sides, ROUNDS, |_, side| {
        if case.cold {
            make_cold(case.path)?;
        }
        let (ms, count) = match *side {
            FLOOR => {
                progress.advance(1)?;
                return bare_read(case.path);
            }
            STOCK => stock(case)?,
            LITEFOOT => litefoot(case)?,
            _ => duckdb(case.path, case.sql)?,
        };
        if *expected.get_or_insert(count) != count {
            return Err(Error::Wrong(format!("{name}: {side} counted {count} rows")));
        }
        progress.advance(1)?;
        Ok(ms)
    })?;
    let times = |wanted: &str| sides.iter().position(|side| *side == wanted).map(|place| &turns[place]);
    for side in sides {
        figures.set(format!("{name}{cold}_ms.{side}"), median(times(side).into_iter().flatten().copied()));
    }
    for other in [STOCK, DUCKDB] {
        if let (Some(theirs), Some(ours)) = (times(other), times(LITEFOOT)) {
            figures.set(format!("ratio.{name}{cold}_over_{other}"), median_ratio(theirs, ours));
        }
    }
    Ok(())
}

/// Runs a statement whose first column is a count; answers the time in milliseconds and the sum of the counts.
fn timed(db: &rusqlite::Connection, sql: &str, parameters: &[Value]) -> rusqlite::Result<(f64, i64)> {
    let begin = Instant::now();
    let mut statement = db.prepare(sql)?;
    let counts = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, i64>(0))?;
    let sum = counts.sum::<rusqlite::Result<i64>>()?;
    Ok((begin.elapsed().as_secs_f64() * 1e3, sum))
}

fn stock(case: &Case<'_>) -> Result<(f64, i64)> {
    let explain = |source| Error::Sqlite { what: format!("side {STOCK}"), source };
    let db = open_stock(case.path).map_err(explain)?;
    timed(&db, case.sql, &[]).map_err(explain)
}

fn litefoot(case: &Case<'_>) -> Result<(f64, i64)> {
    let explain = |source| Error::Sqlite { what: format!("side {LITEFOOT}"), source };
    let db = litefoot::Connection::open(case.path)?;
    let sql = [Value::Text(case.sql.to_owned())];
    let result = timed(&db, "SELECT * FROM litefoot_scan(?1)", &sql).map_err(explain)?;
    let plan: String = db
        .query_row(
            "SELECT plan FROM litefoot_scan(?1)",
            ["SELECT count(*) FROM reading WHERE id < 0"],
            |row| row.get(0),
        )
        .map_err(explain)?;
    if plan.starts_with("parallel") { Ok(result) } else { Err(Error::Wrong(format!("{}: {plan}", case.sql))) }
}

/// Reads a file as fast as its parts come; answers the time in milliseconds.
fn bare_read(path: &Path) -> Result<f64> {
    const PART: u64 = 1 << 20;
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    let (begin, next) = (Instant::now(), AtomicU64::new(0));
    let read = || -> std::io::Result<()> {
        let (file, mut part) = (File::open(path)?, vec![0; PART as usize]);
        while file.read_at(&mut part, next.fetch_add(PART, Ordering::Relaxed))? > 0 {}
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for end in ends {
        end.map_err(|_| Error::Wrong("a thread that reads has panicked".to_owned()))?.map_err(failed)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn duckdb(path: &Path, sql: &str) -> Result<(f64, i64)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(path).args([sql, &threads]).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.ok_or_else(|| Error::Wrong("DuckDB failed".to_owned()))?;
    let mut words = text.split_whitespace();
    let (ms, count) = (words.next(), words.next());
    match (sql.is_empty(), ms.and_then(|ms| ms.parse().ok()), count.and_then(|count| count.parse().ok())) {
        (false, Some(ms), Some(count)) => Ok((ms, count)),
        (true, ..) => Ok((0.0, 0)),
        _ => Err(Error::Wrong(format!("DuckDB said: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Silent;

    #[test]
    fn all_sides_count_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scan.db");
        let mut figures = Figures::new();
        load(&path, 20_000, &mut figures, &mut Silent).unwrap();
        for (name, sql) in CASES {
            let case = Case { path: &path, sql, cold: name == "total" };
            measure(&case, name, &[STOCK, LITEFOOT, FLOOR], &mut figures, &mut Silent).unwrap();
            assert!(
                figures
                    .get(&format!("{name}_ms.litefoot"))
                    .or(figures.get(&format!("{name}_cold_ms.litefoot")))
                    .is_some()
            );
        }
    }
}
