//! Readers, a writer and checkpoints on several threads, over a pool that is too small for the database.

use crate::model::{check_all, check_snapshot, check_some, fill, unless_busy};
use crate::support::{databases_agree, vfs};
use crate::writer::{Writer, open};
use litefoot::Vfs;
use litefoot_sim::Random;
use litefoot_testkit::at_end::AtEnd;
use litefoot_testkit::sqlite::stock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const ROWS: i64 = 1500;

/// How a run goes.
pub struct Run {
    pub mode: &'static str,
    pub page_bytes: u32,
    pub changes: usize,
    /// In how many requests of SQLite's one finds no page; 0 for none.
    pub refuses_one_in: u64,
    pub seed: u64,
    /// Options of the database besides.
    pub options: &'static str,
}

/// Runs it; in the end the database is what the model says, by the pool, past it, and for stock SQLite.
pub fn run(name: &str, run: &Run) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let options = format!(
        "buffer_pool_size=1M&max_wal_size=256K&write_buffer_size=256K&commit_log=statements&commit_log_size=64K&{}",
        run.options
    );
    let vfs = vfs(name, &options);
    let db = open(&vfs, &path);
    db.execute_batch(&format!(
        "PRAGMA page_size={}; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode={}",
        run.page_bytes, run.mode
    ))
    .unwrap();
    let rows = fill(&db, ROWS);
    let refuse = || {
        let known = |database: &_| litefoot_vfs::open::OpenDatabase::known_pages(database);
        vfs.databases().iter().filter_map(|database| known(database)).for_each(|pages| {
            pages.refuse(run.refuses_one_in);
        });
    };
    let writer = Writer::new(&vfs, &path, rows, run.mode, run.seed);
    let over = AtomicBool::new(false);
    let rows = std::thread::scope(|scope| {
        let (vfs, path, over) = (&vfs, path.as_path(), &over);
        let readers = [
            scope.spawn(move || read(vfs, path, over, run.seed + 1)),
            scope.spawn(move || read_with_many_statements(vfs, path, over, run.seed + 2)),
            scope.spawn(move || come_and_go(vfs, path, over, run.seed + 3)),
        ];
        let end = AtEnd(|| over.store(true, Ordering::Relaxed));
        // Dropped first: readers wait for nobody who has ended.
        let mut writer = writer;
        for change in 0..run.changes {
            refuse();
            writer.change();
            if change == run.changes / 2 {
                db.execute_batch("PRAGMA cache_size=200").unwrap();
            }
        }
        drop(end);
        let reads = readers.map(|reader| reader.join().unwrap());
        assert!(reads.iter().all(|reads| *reads > 0), "{reads:?}");
        writer.finish()
    });
    databases_agree(&vfs);
    drop(db);
    assert_eq!(vfs.databases().len(), 0, "all are closed");
    check_all(&stock(&path), &rows);
    check_all(&open(&vfs, &path), &rows);
}

/// How often `reading` was not disturbed until it is over, but once at least.
fn until_over(over: &AtomicBool, mut reading: impl FnMut() -> bool) -> u64 {
    let mut done = 0;
    while !over.load(Ordering::Relaxed) || done == 0 {
        done += u64::from(reading());
    }
    done
}

/// All rows, a few rows, and the whole database.
fn read(vfs: &Vfs, path: &Path, over: &AtomicBool, seed: u64) -> u64 {
    let db = open(vfs, path);
    let mut random = Random::new(seed);
    until_over(over, || match random.below(30) {
        0 => unless_busy(db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)))
            .is_some_and(|found| found == "ok" || panic!("{found}")),
        1..15 => unless_busy(check_some(&db, &mut random)).is_some(),
        _ => unless_busy(check_snapshot(&db)).is_some(),
    })
}

/// Many cursors at a time, each of which looks at a page for as long as it is there.
fn read_with_many_statements(vfs: &Vfs, path: &Path, over: &AtomicBool, seed: u64) -> u64 {
    let db = open(vfs, path);
    let mut random = Random::new(seed);
    until_over(over, || {
        if unless_busy(db.execute_batch("BEGIN; SELECT count(*) FROM t")).is_none() {
            // What has begun goes on, also where its first statement was refused.
            let _ = db.execute_batch("ROLLBACK");
            return false;
        }
        let sql = "SELECT id, version, body FROM t WHERE id >= ?1 ORDER BY id";
        let mut statements: Vec<_> = (0..60).map(|_| db.prepare(sql).unwrap()).collect();
        let mut rows: Vec<_> = statements
            .iter_mut()
            .map(|statement| statement.query([random.below(ROWS as u64) as i64]).unwrap())
            .collect();
        for _ in 0..4 {
            for rows in &mut rows {
                if let Some(row) = rows.next().unwrap() {
                    let (id, version) = (row.get(0).unwrap(), row.get(1).unwrap());
                    assert!(row.get_ref(2).unwrap().as_blob().unwrap() == crate::model::body(id, version));
                }
            }
        }
        drop(rows);
        drop(statements);
        unless_busy(check_snapshot_inside(&db)).unwrap();
        db.execute_batch("COMMIT").unwrap();
        true
    })
}

/// The sums hold in a transaction that has begun.
fn check_snapshot_inside(db: &litefoot::rusqlite::Connection) -> litefoot::rusqlite::Result<()> {
    let sql =
        "SELECT count(*) = (SELECT count FROM total), sum(version) = (SELECT versions FROM total) FROM t";
    let right = |row: &litefoot::rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let right: (bool, Option<bool>) = db.query_row(sql, [], right)?;
    assert!(right.0 && right.1 != Some(false), "the sums do not hold");
    Ok(())
}

/// A new connection each time.
fn come_and_go(vfs: &Vfs, path: &Path, over: &AtomicBool, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    until_over(over, || {
        let mut db = vfs.open(path).unwrap();
        db.busy_handler(Some(crate::writer::wait_long)).unwrap();
        if random.one_in(3) {
            db.execute_batch("PRAGMA mmap_size=0").unwrap();
        }
        unless_busy(check_snapshot(&db)).is_some()
    })
}

/// `LITEFOOT_POOL_SEEDS=100 cargo test -p litefoot --test pool stress` runs it more often than the checks do.
#[test]
fn every_journal_mode_with_small_and_large_pages() {
    let seeds = std::env::var("LITEFOOT_POOL_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    let runs = [
        ("wal", [512, 4096, 65536].as_slice()),
        ("delete", &[512, 4096, 65536]),
        ("truncate", &[4096]),
        ("persist", &[1024]),
        ("memory", &[65536]),
    ];
    for seed in 0..seeds {
        for (mode, sizes) in runs {
            for page_bytes in sizes {
                let name = format!("stress-{mode}-{page_bytes}");
                let seed = seed + u64::from(*page_bytes);
                run(
                    &name,
                    &Run { mode, page_bytes: *page_bytes, changes: 12, refuses_one_in: 0, seed, options: "" },
                );
            }
        }
    }
}

/// Short, so that a failure is found soon.
#[test]
fn together_they_read_and_write_pages_in_turn() {
    for (mode, page_bytes) in [("wal", 1024), ("delete", 4096)] {
        let name = format!("threads-{mode}");
        run(&name, &Run { mode, page_bytes, changes: 12, refuses_one_in: 0, seed: 5, options: "" });
    }
}

/// Reads past the system's cache, writes through it.
#[test]
fn pages_are_read_past_the_systems_cache() {
    for mode in ["wal", "delete"] {
        let name = format!("direct-{mode}");
        run(
            &name,
            &Run { mode, page_bytes: 4096, changes: 20, refuses_one_in: 0, seed: 6, options: "direct_io=on" },
        );
    }
}

/// Pages of transactions that are written away before they commit are nobody else's.
#[test]
fn transactions_that_do_not_fit_into_memory_are_spilled_meanwhile() {
    for (mode, options) in [
        ("delete", "write_buffer_size=16K&page_cleaner=background"),
        ("truncate", "write_buffer_size=16K&page_cleaner=foreground"),
        ("wal", "write_buffer_size=16K"),
    ] {
        let name = format!("cleaned-{mode}");
        run(&name, &Run { mode, page_bytes: 1024, changes: 30, refuses_one_in: 0, seed: 8, options });
    }
}

/// One connection that never drops its lock.
#[test]
fn in_exclusive_mode_a_connection_sees_what_it_has_written() {
    for mode in ["wal", "delete", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs =
            vfs(&format!("exclusive-{mode}"), "buffer_pool_size=1M&max_wal_size=256K&write_buffer_size=256K");
        let db = open(&vfs, &path);
        db.execute_batch(&format!("PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode={mode}")).unwrap();
        let rows = fill(&db, ROWS);
        drop(db);
        let mut writer = Writer::new(&vfs, &path, rows, mode, 9);
        writer.exclude();
        for _ in 0..40 {
            writer.change();
            databases_agree(&vfs);
        }
        let rows = writer.finish();
        check_all(&stock(&path), &rows);
    }
}

/// The locks on the database are all that orders what a connection keeps and what a writer does to it.
#[test]
fn pages_are_kept_between_the_transactions_of_a_rollback_journal() {
    run(
        "kept",
        &Run { mode: "delete", page_bytes: 512, changes: 12, refuses_one_in: 0, seed: 10, options: "" },
    );
}
