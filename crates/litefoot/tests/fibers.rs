//! Connections in fibers: while one waits for a page, its thread serves the next.

#![allow(clippy::unwrap_used)]

use litefoot::task::{Config, TaskPlace, Workers};
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
use litefoot_storage::pass_on;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const QUERIES: usize = 64;
/// Queries that have begun when the first read is answered.
const TOGETHER: usize = 16;
const LONGEST: Duration = Duration::from_secs(20);

/// How many queries are under way, and for how many the device waits before it answers.
#[derive(Default)]
struct Gate {
    now_and_most: Mutex<(usize, usize)>,
    changed: Condvar,
    wanted: AtomicUsize,
}

impl Gate {
    fn begin(&self) {
        let mut counts = self.now_and_most.lock().unwrap();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        self.changed.notify_all();
    }

    fn end(&self) {
        self.now_and_most.lock().unwrap().0 -= 1;
    }

    fn most(&self) -> usize {
        self.now_and_most.lock().unwrap().1
    }

    fn wait(&self) {
        let wanted = self.wanted.load(Ordering::Acquire);
        let counts = self.now_and_most.lock().unwrap();
        drop(self.changed.wait_timeout_while(counts, LONGEST, |(_, most)| *most < wanted).unwrap());
    }
}

/// A device that answers reads of the database only when enough queries have begun.
struct Slow(SimMedium, Arc<Gate>);

impl Medium for Slow {
    pass_on!(0: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.0.open(path, kind, mode)?;
        if kind != FileKind::Database {
            return Ok(file);
        }
        Ok(Arc::new(SlowFile(file, self.1.clone())))
    }
}

struct SlowFile(Arc<dyn File>, Arc<Gate>);

impl File for SlowFile {
    pass_on!(0: write_vectored_at, write_durable_at, sync, stamp, set_stamp, len, set_len, allocate, id, path, lock_range);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.1.wait();
        self.0.read_at(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.1.wait();
        self.0.read_vectored_at(bufs, offset)
    }
}

#[test]
fn one_thread_runs_many_queries_at_once() {
    for mode in ["wal", "delete"] {
        let gate = Arc::new(Gate::default());
        let medium = Arc::new(Slow(SimMedium::new(), gate.clone()));
        let vfs = Vfs::builder(format!("fibers-{mode}")).medium(medium).options(Options::default());
        let vfs = vfs.register().unwrap();
        let db = vfs.open("/rows.db").unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode};
             CREATE TABLE row(id INTEGER PRIMARY KEY, value INTEGER, filler BLOB);
             INSERT INTO row
                 WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 SELECT i * 7 % 20001, i, zeroblob(400) FROM n;"
        ))
        .unwrap();
        // The last connection gives the pool's memory back: nothing is in it when the next ones come.
        drop(db);
        let connections: Vec<_> = (0..QUERIES).map(|_| vfs.open("/rows.db").unwrap()).collect();
        for db in &connections {
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).unwrap();
        }
        gate.wanted.store(TOGETHER, Ordering::Release);
        let workers = Workers::start(Config { threads: 1, ..Config::default() }).unwrap();
        let answers: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(query, db)| {
                let gate = gate.clone();
                let task = move || {
                    gate.begin();
                    let sql = "SELECT id, value FROM row WHERE id = ?1";
                    let pair: (i64, i64) = db
                        .query_row(sql, [300 * query as i64], |row| Ok((row.get(0)?, row.get(1)?)))
                        .unwrap();
                    gate.end();
                    pair
                };
                workers.execute(TaskPlace::Any, task).unwrap()
            })
            .collect();
        for (query, answer) in answers.into_iter().enumerate() {
            let (id, value) = answer.join().unwrap();
            assert_eq!((id, value * 7 % 20001), (300 * query as i64, id), "{mode}");
        }
        assert!(gate.most() >= TOGETHER, "{mode}: {} at a time", gate.most());
    }
}
