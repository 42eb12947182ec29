//! Sixty-four queries of a database that is not in memory, by one thread: first one behind the other, then at once.
//!
//! ```sh
//! cargo run --release -p litefoot --example fibers
//! ```
//!
//! A connection in a fiber gives its thread to the next one while it waits for the device. Nothing in the queries says
//! so, and SQLite does not know.

use litefoot::task::{Config, TaskPlace, Workers};
use std::error::Error;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const QUERIES: i64 = 64;
const ROWS: i64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir_in(".")?;
    let path = directory.path().join("rows.db");
    load(&path)?;

    let connections = open_all(&path)?;
    let begin = Instant::now();
    let mut sum = 0;
    for (query, db) in (0..).zip(&connections) {
        sum += ask(db, query)?;
    }
    let one_by_one = begin.elapsed();
    drop(connections);

    let workers = Workers::start(Config { threads: 1, ..Config::default() })?;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let connections = open_all(&path)?;
    let begin = Instant::now();
    let answers: Vec<_> = (0..)
        .zip(connections)
        .map(|(query, db)| {
            let (now, most) = (now.clone(), most.clone());
            workers.execute(TaskPlace::Any, move || {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let answer = ask(&db, query);
                now.fetch_sub(1, Ordering::Relaxed);
                answer
            })
        })
        .collect::<Result<_, _>>()?;
    let mut sum_at_once = 0;
    for answer in answers {
        sum_at_once += answer.join()??;
    }
    let at_once = begin.elapsed();

    if sum != sum_at_once {
        return Err(format!("the answers differ: {sum} and {sum_at_once}").into());
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("{QUERIES} queries, one thread");
    println!("one by one  {:6.1} ms", milliseconds(one_by_one));
    println!("at once     {:6.1} ms, {} at a time", milliseconds(at_once), most.load(Ordering::Relaxed));
    Ok(())
}

/// Rows in an order that has nothing to do with their keys.
fn load(path: &Path) -> Result<(), litefoot::Error> {
    let db = litefoot::Connection::open(path)?;
    db.execute_batch(&format!(
        "PRAGMA journal_mode=WAL;
         PRAGMA synchronous=OFF;
         CREATE TABLE row(id INTEGER PRIMARY KEY, value INTEGER, filler BLOB);
         INSERT INTO row
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {ROWS})
             SELECT i * 61 % {ROWS}, i, zeroblob(500) FROM n;"
    ))?;
    Ok(())
}

/// A connection for each query, which knows the schema; the rows are in nobody's memory.
fn open_all(path: &Path) -> Result<Vec<litefoot::Connection>, Box<dyn Error>> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    // SAFETY: a plain system call on an open descriptor.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    let mut connections = Vec::new();
    for _ in 0..QUERIES {
        let db = litefoot::Connection::open(path)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        connections.push(db);
    }
    Ok(connections)
}

fn ask(db: &litefoot::Connection, query: i64) -> Result<i64, litefoot::Error> {
    let id = query * 1543 % ROWS;
    Ok(db.query_row("SELECT value FROM row WHERE id = ?1", [id], |row| row.get(0))?)
}
