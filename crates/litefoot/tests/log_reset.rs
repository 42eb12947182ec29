//! Commits while a thread of its own begins the log anew, on a medium that takes its time for that.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
use litefoot_storage::pass_on;
use litefoot_testkit::process::thread_name;
use litefoot_testkit::sqlite::{number, vfs_name};
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::HookedMedium;

/// Delays every write that the thread makes, so that commits come in between.
const DELAY: Duration = Duration::from_millis(4);

#[derive(Clone)]
struct SlowMedium(SimMedium);

struct SlowFile(Arc<dyn File>);

impl Medium for SlowMedium {
    pass_on!(0: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.open(path, kind, mode)?)))
    }
}

impl File for SlowFile {
    pass_on!(0: read_at, read_vectored_at, write_durable_at, sync, len, set_len, allocate);
    pass_on!(0: stamp, set_stamp, id, birth, path, lock_range);

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        if thread_name() == "litefoot-log" {
            std::thread::sleep(DELAY);
        }
        self.0.write_vectored_at(bufs, offset)
    }
}

/// Fills a log beyond its limit, lets `meanwhile` happen while it is begun anew, and reopens the database.
fn while_the_log_restarts(name: &str, meanwhile: &str) -> (i64, i64, String) {
    let medium = SimMedium::new();
    let mut options = Options::default();
    options.set("max_wal_size", "64K").unwrap();
    let vfs =
        Vfs::builder(name).medium(Arc::new(SlowMedium(medium.clone()))).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA page_size=512; PRAGMA journal_mode=delete; BEGIN; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1500)
         INSERT INTO t SELECT i, zeroblob(400) FROM n; COMMIT;
         UPDATE t SET v = randomblob(401);",
    )
    .unwrap();
    db.execute_batch(meanwhile).unwrap();
    db.execute("INSERT INTO t VALUES (5000, randomblob(300))", []).unwrap();
    drop(db);
    drop(vfs);
    let files = medium.files();
    assert_eq!(files.len(), 1, "only the database should be left");
    let vfs = Vfs::builder(name).medium(Arc::new(medium)).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    let integrity = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    db.query_row("SELECT count(*), max(id) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?, integrity)))
        .unwrap()
}

#[test]
fn commits_go_on() {
    let result =
        while_the_log_restarts("reset-commits", "DELETE FROM t WHERE id <= 100; UPDATE t SET v=zeroblob(5)");
    assert_eq!(result, (1401, 5000, "ok".to_owned()));
}

/// A connection is opened while the last one waits for the thread. Its transaction has pages in the log before that one goes on.
#[test]
fn a_transaction_that_begins_meanwhile_outlives_the_last_close() {
    let (reaches, reached) = channel();
    let (opens, opened) = channel::<()>();
    let (is_armed, opened) = (Arc::new(AtomicBool::new(false)), Mutex::new(opened));
    let armed = is_armed.clone();
    let hook = move |kind: FileKind, is_durable: bool| {
        let is_reset = kind == FileKind::Database && is_durable && thread_name() == "litefoot-log";
        if is_reset && armed.swap(false, Ordering::AcqRel) {
            reaches.send(()).unwrap();
            let _ = opened.lock().unwrap().recv();
        }
    };
    let medium = SimMedium::new();
    let mut options = Options::default();
    options.set_list("max_wal_size=64K&write_buffer_size=64K&commit_log=pages").unwrap();
    let hooked = HookedMedium { medium: medium.clone(), hook: Arc::new(hook) };
    let vfs =
        Vfs::builder(vfs_name("reset-close")).medium(Arc::new(hooked)).options(options).register().unwrap();
    let first = vfs.open("/app.db").unwrap();
    is_armed.store(true, Ordering::Release);
    first
        .execute_batch(
            "PRAGMA journal_mode=delete; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000)
             INSERT INTO t SELECT i, zeroblob(3000) FROM n; UPDATE t SET v = randomblob(3000) WHERE id % 20 = 0",
        )
        .unwrap();
    reached.recv_timeout(Duration::from_secs(60)).unwrap();
    let closes = std::thread::spawn(move || drop(first));
    // Until it waits for the thread. If it has not come there the test shows nothing, and fails all the same where it should.
    std::thread::sleep(Duration::from_millis(100));
    let second = vfs.open("/app.db").unwrap();
    second
        .execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10; BEGIN; UPDATE t SET v = zeroblob(3001)")
        .unwrap();
    opens.send(()).unwrap();
    closes.join().unwrap();
    second.execute_batch("COMMIT").unwrap();
    drop(second);
    assert_eq!(medium.files().len(), 1, "only the database should be left");
    let again = Vfs::builder(vfs_name("reset-close")).medium(Arc::new(medium)).register().unwrap();
    let db = again.open("/app.db").unwrap();
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((integrity.as_str(), number(&db, "SELECT sum(length(v)) FROM t")), ("ok", 2000 * 3001));
}

#[test]
fn a_vacuum_cuts_the_file() {
    let result = while_the_log_restarts("reset-vacuum", "DELETE FROM t WHERE id > 100; VACUUM");
    assert_eq!(result, (101, 5000, "ok".to_owned()));
}

#[test]
fn a_vacuum_changes_the_page_size() {
    let result = while_the_log_restarts("reset-page-size", "PRAGMA page_size=4096; VACUUM");
    assert_eq!(result, (1501, 5000, "ok".to_owned()));
}

#[test]
fn the_journal_mode_becomes_wal_and_back() {
    let meanwhile = "PRAGMA journal_mode=wal; INSERT INTO t VALUES(4000, NULL); PRAGMA journal_mode=delete";
    assert_eq!(while_the_log_restarts("reset-mode", meanwhile), (1502, 5000, "ok".to_owned()));
}
