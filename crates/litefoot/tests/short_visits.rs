//! Visitors without a busy timeout come to an application whose transactions lock the file nearly all the time.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot_testkit::sqlite::{number, stock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const VISITS: u32 = 12;
/// A commit may last longer than a visitor waits for it, where the machine is busy.
const MOST_REFUSED: u32 = VISITS / 4;

#[test]
fn a_visitor_that_comes_alone_meets_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let vfs = Vfs::builder("short-visits").register().unwrap();
    let db = vfs.open(&path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let ends = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        let ends = &ends;
        scope.spawn(move || {
            let mut commits = 0;
            while !ends.load(Ordering::Relaxed) {
                // The lock keeps readers out from here to the commit.
                db.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES(1)").unwrap();
                std::thread::sleep(Duration::from_millis(15));
                db.execute_batch("COMMIT").unwrap();
                commits += 1;
            }
            assert_eq!(number(&db, "SELECT count(*) FROM t"), commits);
        });
        let mut refused = 0;
        for _ in 0..VISITS {
            let visitor = stock(&path);
            visitor.busy_timeout(Duration::ZERO).unwrap();
            // It has the file open, and is a guest.
            std::thread::sleep(Duration::from_millis(10));
            let count = visitor.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            refused += u32::from(count.is_err());
            drop(visitor);
            // The database stays multi-process meanwhile.
            std::thread::sleep(Duration::from_millis(60));
        }
        ends.store(true, Ordering::Relaxed);
        refused
    });
    assert!(refused <= MOST_REFUSED, "{refused} of {VISITS} visitors were refused");
}
