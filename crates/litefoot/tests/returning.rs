//! The last visitor has left, and the application makes no pause: the database is owned again nevertheless.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_testkit::process::own_process;
use litefoot_testkit::sqlite::{number, stock};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DATABASE: &str = "LITEFOOT_TEST_DATABASE";
/// A machine may be as slow as this.
const DEADLINE: Duration = Duration::from_secs(100);
/// A transaction waits for so long until another one has begun.
const OVERLAPS: Duration = Duration::from_millis(10);

#[test]
#[ignore = "is a process of the test below"]
fn visitor() {
    let Ok(path) = std::env::var(DATABASE) else { return };
    let db = stock(Path::new(&path));
    assert!(number(&db, "SELECT count(*) FROM t") > 0);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Transaction after transaction. Each ends when one of the other connection's has begun, or after a while, so that one of the two
/// is inside at any moment, unless something holds both back.
fn transactions(db: &Connection, begun: [&AtomicU64; 2], is_over: &AtomicBool) {
    let [mine, others] = begun;
    while !is_over.load(Ordering::Acquire) {
        db.execute_batch("BEGIN").unwrap();
        let seen = others.load(Ordering::SeqCst);
        assert!(number(db, "SELECT count(*) FROM t") > 0);
        mine.fetch_add(1, Ordering::SeqCst);
        let end = Instant::now() + OVERLAPS;
        while others.load(Ordering::SeqCst) == seen && Instant::now() < end {
            std::thread::yield_now();
        }
        db.execute_batch("COMMIT").unwrap();
    }
}

#[test]
fn a_process_that_is_always_in_a_transaction_owns_its_database_again() {
    let vfs = Vfs::builder("returning").register().unwrap();
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let both = [(); 2].map(|()| vfs.open(&path).unwrap());
        let set_up = format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v); INSERT INTO t VALUES(0)");
        both[0].execute_batch(&set_up).unwrap();
        let is = |owned: bool| {
            let end = Instant::now() + DEADLINE;
            while vfs.databases()[0].is_owned() != owned && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            vfs.databases()[0].is_owned() == owned
        };
        assert!(is(true), "{mode}");
        let (begun, is_over) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
        let (was_shared, was_owned) = std::thread::scope(|scope| {
            for (number, db) in both.into_iter().enumerate() {
                let (begun, is_over) = ([&begun[number], &begun[1 - number]], &is_over);
                scope.spawn(move || transactions(&db, begun, is_over));
            }
            let mut visitor =
                own_process("visitor").env(DATABASE, &path).stdin(Stdio::piped()).spawn().unwrap();
            let was_shared = is(false);
            drop(visitor.stdin.take());
            let was_owned = visitor.wait().unwrap().success() && is(true);
            is_over.store(true, Ordering::Release);
            (was_shared, was_owned)
        });
        assert!(was_shared, "{mode}: the visitor was not let in");
        assert!(was_owned, "{mode}");
    }
}
