//! A checkpoint that begins while a large transaction goes into the database file ahead of its commit.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_engine::device::sim::Random;
use litefoot_engine::device::{FileKind, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::HookedMedium;

/// Long enough for a checkpoint to come as far as it can.
const MOMENT: Duration = Duration::from_millis(300);
const ROWS: i64 = 200;

fn insert(db: &Connection, ids: std::ops::Range<i64>, version: u8) {
    let mut statement = db.prepare_cached("INSERT OR REPLACE INTO t VALUES(?1, ?2)").unwrap();
    for id in ids {
        statement.execute((id, vec![version; 3500])).unwrap();
    }
}

fn rows_of(db: &Connection, version: u8) -> Result<i64, litefoot::rusqlite::Error> {
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    assert_eq!(sound, "ok");
    db.query_row("SELECT count(*) FROM t WHERE substr(v, 3500) = ?1", [vec![version]], |row| row.get(0))
}

/// The checkpoint knows of the small transaction before it, which is in the statement log and has added pages that the large
/// one changes. What it writes of them must not take the place of what the large one has written there.
#[test]
fn a_checkpoint_of_what_came_before_does_not_undo_it() {
    let medium = SimMedium::new();
    let (sync, armed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begin, begun) = mpsc::channel();
    let hook = {
        let (sync, armed) = (sync.clone(), armed.clone());
        move |kind, durable| {
            if kind == FileKind::Database && durable && armed.swap(false, Ordering::SeqCst) {
                sync.store(true, Ordering::SeqCst);
                begin.send(()).unwrap();
                std::thread::sleep(MOMENT);
            }
        }
    };
    let hooked = HookedMedium { medium: medium.clone(), hook: Arc::new(hook) };
    let mut options = Options::default();
    options.set_list("wal_memory=4M").unwrap();
    let vfs = Vfs::builder("large-checkpoint").medium(Arc::new(hooked)).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 0..10, 1);
    drop(db);
    let (db, other) = (vfs.open("/app.db").unwrap(), vfs.open("/app.db").unwrap());
    insert(&db, 10..30, 1);
    // SQLite opens the log with the first read, and takes a checkpoint before that for done.
    assert_eq!(rows_of(&other, 1).unwrap(), 30);
    let checkpoint = std::thread::spawn(move || {
        begun.recv().unwrap();
        other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        other
    });
    armed.store(true, Ordering::SeqCst);
    db.execute_batch("BEGIN").unwrap();
    insert(&db, 0..ROWS, 2);
    db.execute_batch("COMMIT").unwrap();
    let other = checkpoint.join().unwrap();
    assert!(sync.load(Ordering::SeqCst), "nothing went into the file ahead of the commit");
    for seed in 0..40 {
        let image = medium.cut(&mut Random::new(seed));
        let name = format!("large-checkpoint-{seed}");
        let vfs = Vfs::builder(name).medium(Arc::new(image)).register().unwrap();
        assert_eq!(rows_of(&vfs.open("/app.db").unwrap(), 2).unwrap(), ROWS, "cut {seed}");
    }
    assert_eq!(rows_of(&other, 2).unwrap(), ROWS);
}
