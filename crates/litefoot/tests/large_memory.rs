//! The memory of the process, while transactions are under way that are many times larger. A program of its own: what it
//! looks at belongs to the whole process.

#![allow(clippy::unwrap_used)]

use litefoot::{Options, Vfs};
use litefoot_testkit::sqlite::metric;

const MEMORY_BYTES: i64 = 4 << 20;
/// The other memory of the process. It is two connections with 400 KB of clean pages each, their indexes of the log,
/// threads, and memory that the allocator keeps. The transactions have 24 MB each.
const UNCOUNTED_BYTES: i64 = 3 << 20;

/// Memory of its own that the process has.
fn own_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

#[test]
fn large_transactions_stay_within_the_memory_of_the_process_and_give_it_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.set("buffer_pool_size", "4M").unwrap();
    let vfs = Vfs::builder("large-memory").options(options).register().unwrap();
    let before = own_bytes();
    for mode in ["delete", "wal"] {
        // Two databases at once share it.
        let paths = ["a", "b"].map(|name| directory.path().join(format!("{name}-{mode}.db")));
        let connections = paths.each_ref().map(|path| {
            let db = vfs.open(path).unwrap();
            db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v); PRAGMA cache_size=100").unwrap();
            db.execute_batch("INSERT INTO t VALUES(-1, 1); BEGIN").unwrap();
            db
        });
        let (mut most, mut peak) = (0, 0);
        for id in 0..24_000i64 {
            for db in &connections {
                let key = id.wrapping_mul(7919) % 24_000;
                db.prepare_cached("INSERT INTO t VALUES(?1, zeroblob(1000))")
                    .unwrap()
                    .execute([key])
                    .unwrap();
            }
            if id % 200 == 0 {
                most = most.max(metric(&connections[0], "pool.process_bytes"));
                peak = peak.max(own_bytes() - before);
            }
        }
        assert!((MEMORY_BYTES / 4..=MEMORY_BYTES).contains(&most), "{mode}: {most}");
        assert!(peak < MEMORY_BYTES + UNCOUNTED_BYTES, "{mode}: the process has {peak} bytes more");
        for db in connections {
            db.execute_batch("COMMIT").unwrap();
            assert_eq!(metric(&db, "txn_dirty_bytes"), 0);
            let count: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(count, 24_001);
        }
    }
}
