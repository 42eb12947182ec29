//! Large transactions with a log: what SQLite does with its frames besides writing them once.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot::{Options, Vfs};
use litefoot_engine::device::SimMedium;
use litefoot_engine::device::sim::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn vfs(medium: &SimMedium, options: &str) -> Vfs {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut list = Options::default();
    list.set_list(options).unwrap();
    let name = format!("large-log-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(list).register().unwrap()
}

fn open(vfs: &Vfs, name: &str) -> Connection {
    Connection::open_with_flags_and_vfs(name, OpenFlags::default(), vfs.name()).unwrap()
}

/// How many rows there are; sound otherwise.
fn rows(db: &Connection) -> i64 {
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    db.query_row("SELECT count(*) FROM t WHERE length(v) > 100", [], |row| row.get(0)).unwrap()
}

/// A database in WAL mode with a table, all in its file.
fn prepared(vfs: &Vfs, name: &str, page_bytes: u32) -> Connection {
    let db = open(vfs, name);
    db.execute_batch(&format!(
        "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
    ))
    .unwrap();
    drop(db);
    let db = open(vfs, name);
    db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10; SELECT * FROM t").unwrap();
    db
}

/// Without `psow` SQLite writes the last frame of a commit once more, to fill the sector.
#[test]
fn frames_that_fill_the_sector_are_part_of_the_commit() {
    for page_bytes in [512, 4096, 65536] {
        let medium = SimMedium::new();
        let litefoot = vfs(&medium, "wal_memory=1M&cleaner=caller");
        let db = prepared(&litefoot, "file:/app.db?psow=0", page_bytes);
        let mut expected = 0;
        for round in 0..4 {
            let sql = format!(
                "WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 3000)
                 INSERT INTO t SELECT {round} * 3000 + v, zeroblob(900 + v % 150) FROM n"
            );
            db.execute_batch(&sql).unwrap();
            expected += 3000;
            assert_eq!(rows(&db), expected, "{page_bytes}");
            for seed in 0..3 {
                let cut = vfs(&medium.cut(&mut Random::new(seed)), "");
                assert_eq!(rows(&open(&cut, "/app.db")), expected, "{page_bytes}: cut {seed}");
            }
        }
    }
}

/// The same for small commits, wherever the end of a sector is in a frame.
#[test]
fn a_sector_may_end_in_the_header_of_a_frame() {
    for page_bytes in [512, 1024, 4096] {
        let medium = SimMedium::new();
        let litefoot = vfs(&medium, "wal_memory=16M&sla_size=0");
        let db = prepared(&litefoot, "file:/app.db?psow=0", page_bytes);
        db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
        for id in 1..=400 {
            db.execute("INSERT INTO t VALUES(?1, zeroblob(200))", [id]).unwrap();
            if id % 20 == 0 {
                let cut = vfs(&medium.cut(&mut Random::new(1)), "");
                assert_eq!(rows(&open(&cut, "/app.db")), id, "{page_bytes}");
            }
        }
    }
}
