//! A checkpoint that begins while a large transaction goes into the database file ahead of its commit.

use crate::hooked::HookedMedium;
use crate::support::{in_transaction, insert, open, rows_of, vfs_on};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::FileKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Long enough for a checkpoint to come as far as it can.
const MOMENT: Duration = Duration::from_millis(300);
const ROWS: i64 = 200;

/// The checkpoint knows of the small transaction before it, which is in the commit log and has added pages that the
/// large one changes. Its copies of these pages must not replace the large transaction's.
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
    let vfs = vfs_on(Arc::new(hooked), "write_buffer_size=4M");
    let db = vfs.open("/app.db").unwrap();
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 0..10, 1).unwrap();
    drop(db);
    let (db, other) = (vfs.open("/app.db").unwrap(), vfs.open("/app.db").unwrap());
    insert(&db, 10..30, 1).unwrap();
    // SQLite opens the log with the first read, and takes a checkpoint before that for done.
    assert_eq!(rows_of(&other, 1), 30);
    let checkpoint = std::thread::spawn(move || {
        begun.recv().unwrap();
        other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        other
    });
    armed.store(true, Ordering::SeqCst);
    in_transaction(&db, |db| insert(db, 0..ROWS, 2)).unwrap();
    let other = checkpoint.join().unwrap();
    assert!(sync.load(Ordering::SeqCst), "nothing went into the file ahead of the commit");
    for seed in 0..40 {
        let (_vfs, db) = open(&medium.cut(&mut Random::new(seed)), "");
        assert_eq!(rows_of(&db, 2), ROWS, "cut {seed}");
    }
    assert_eq!(rows_of(&other, 2), ROWS);
}
