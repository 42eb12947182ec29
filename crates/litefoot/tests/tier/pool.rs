//! Pages in memory over chunks in two places, on files of the operating system: what is read past its cache, or ahead,
//! comes from where it is.

use crate::{MODES, stock_at};
use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::metric;
use std::path::Path;

const ROWS: i64 = 2000;

/// A row's blob, as its number and how often it was written make it.
fn blob(id: i64, version: i64) -> Vec<u8> {
    (0..700).map(|at| (id * 31 + version * 7 + at) as u8).collect()
}

fn put(db: &Connection, id: i64, version: i64) {
    let sql = "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)";
    db.prepare_cached(sql).unwrap().execute((id, version, blob(id, version))).unwrap();
}

fn check(db: &Connection, versions: &[i64], order: &str) {
    let mut statement = db.prepare(&format!("SELECT id, version, v FROM t ORDER BY id {order}")).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut count = 0;
    while let Some(row) = rows.next().unwrap() {
        let (id, version, v): (i64, i64, Vec<u8>) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        assert_eq!(version, versions[id as usize], "row {id}");
        assert!(v == blob(id, version), "row {id}, version {version}");
        count += 1;
    }
    assert_eq!(count, ROWS);
}

fn vfs(directory: &Path) -> Vfs {
    let name = format!("tier-pool-{}", directory.file_name().unwrap().to_string_lossy());
    Vfs::builder(name).register().unwrap()
}

#[test]
fn reads_past_the_systems_cache_and_ahead_find_chunks_where_they_are() {
    for mode in MODES {
        for direct in ["on", "off"] {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
            let vfs = vfs(directory.path());
            let mut versions = vec![1; ROWS as usize + 1];
            let db = vfs.open(path("app.db")).unwrap();
            db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, version, v); BEGIN").unwrap();
            (1..=ROWS).for_each(|id| put(&db, id, 1));
            db.execute_batch("COMMIT").unwrap();
            drop(db);
            let device = path("app.tier");
            let name = format!(
                "file:{}?tier={device}&tier_size=2M&tier_policy=lru&buffer_pool_size=256k&direct_io={direct}&max_wal_size=64k",
                path("app.db")
            );
            let db = vfs.open(&name).unwrap();
            db.execute_batch("PRAGMA cache_size=5; PRAGMA mmap_size=0").unwrap();
            let mut random = litefoot_sim::Random::new(7);
            for round in 2..6 {
                for _ in 0..150 {
                    // Half of the table stays where it is.
                    let id = 1 + random.below(ROWS as u64 / 2) as i64;
                    versions[id as usize] = round;
                    put(&db, id, round);
                }
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
                let mapped = if round % 2 == 0 { 0 } else { 1 << 30 };
                db.execute_batch(&format!("PRAGMA mmap_size={mapped}")).unwrap();
                check(&db, &versions, "");
                check(&db, &versions, "DESC");
            }
            assert!(metric(&db, "tier.away") > 100, "{mode}: {} chunks are away", metric(&db, "tier.away"));
            assert!(metric(&db, "pool.prefetched") > 100, "{mode}: {}", metric(&db, "pool.prefetched"));
            assert!(vfs.databases()[0].wrong_pages().is_empty());
            drop(db);
            let plain = stock_at(path("app.db")).unwrap();
            check(&plain, &versions, "");
        }
    }
}
