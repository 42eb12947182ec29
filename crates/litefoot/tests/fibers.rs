//! Connections in fibers: while one waits for a page, its thread serves the next.

use litefoot::task::{Config, Place, Workers};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const QUERIES: usize = 64;

#[test]
fn one_thread_runs_many_queries_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.db");
    for mode in ["wal", "delete"] {
        let db = litefoot::Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode};
             DROP TABLE IF EXISTS row;
             CREATE TABLE row(id INTEGER PRIMARY KEY, value INTEGER, filler BLOB);
             INSERT INTO row
                 WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 SELECT i * 7 % 20001, i, zeroblob(400) FROM n;"
        ))
        .unwrap();
        // The last connection gives the pool's memory back: nothing is in it when the next ones come.
        drop(db);
        let connections: Vec<_> = (0..QUERIES).map(|_| litefoot::Connection::open(&path).unwrap()).collect();
        let workers = Workers::start(Config { threads: 1, ..Config::default() }).unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let answers: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(query, db)| {
                let (now, most) = (now.clone(), most.clone());
                let task = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    let sql = "SELECT id, value FROM row WHERE id = ?1";
                    let pair: (i64, i64) = db
                        .query_row(sql, [300 * query as i64], |row| Ok((row.get(0)?, row.get(1)?)))
                        .unwrap();
                    now.fetch_sub(1, Ordering::Relaxed);
                    pair
                };
                workers.execute(Place::Any, task).unwrap()
            })
            .collect();
        for (query, answer) in answers.into_iter().enumerate() {
            let (id, value) = answer.join().unwrap();
            assert_eq!((id, value * 7 % 20001), (300 * query as i64, id), "{mode}");
        }
        assert!(most.load(Ordering::Relaxed) > 4, "{mode}: {} at a time", most.load(Ordering::Relaxed));
    }
}
