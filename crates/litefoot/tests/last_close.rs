//! The last connection in WAL mode is closed beside other processes: SQLite holds the database exclusively while it deletes the
//! log. A visitor that comes meanwhile, without a busy timeout, fails. So the directory is not synced then, and no commit may be lost by that.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_sim::{Random, SimMedium};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, RangeLock, Result};
use litefoot_storage::pass_on;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// SQLite's bytes for SHARED.
const SHARED: (u64, u64) = (0x4000_0002, 510);

/// What the syncs of the directory meet, once a visitor has the file open.
#[derive(Default)]
struct Seen {
    visitors: Mutex<Option<Arc<dyn File>>>,
    syncs: AtomicU64,
    /// Those for which a visitor would have to wait.
    in_the_way: AtomicU64,
}

struct Watching {
    medium: SimMedium,
    seen: Arc<Seen>,
}

impl Medium for Watching {
    pass_on!(medium: open, delete, rename, rename_new, info, identity, unlinked_identity, glance, list, absolute);

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        if let Some(file) = &*self.seen.visitors.lock().unwrap() {
            self.seen.syncs.fetch_add(1, Ordering::Relaxed);
            let (offset, bytes) = SHARED;
            let is_locked = file.is_locked(offset, bytes, RangeLock::Shared)?;
            self.seen.in_the_way.fetch_add(u64::from(is_locked), Ordering::Relaxed);
        }
        self.medium.sync_directory(directory)
    }
}

/// What is seen while a connection beside a visitor does this, in WAL mode and alone with that; syncs, and those in the way.
fn seen(name: &str, last: impl FnOnce(Connection)) -> [u64; 2] {
    let medium = SimMedium::new();
    let seen = Arc::<Seen>::default();
    let watching = Watching { medium: medium.clone(), seen: seen.clone() };
    let mut options = Options::default();
    options.set("sharing", "auto").unwrap();
    let vfs = Vfs::builder(format!("last-close-{name}")).medium(Arc::new(watching)).options(options);
    let vfs = vfs.register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let visitors = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    *seen.visitors.lock().unwrap() = Some(visitors);
    db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    assert!(!vfs.databases()[0].is_owned());
    [&seen.syncs, &seen.in_the_way].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    last(db);
    assert!(medium.files().iter().all(|(path, ..)| path != Path::new("/app.db-wal")));
    [&seen.syncs, &seen.in_the_way].map(|count| count.load(Ordering::Relaxed))
}

#[test]
fn the_directory_is_not_synced_for_it() {
    assert_eq!(seen("close", drop), [0, 0]);
}

/// Registers a VFS of its own on a medium, and opens the database.
fn open(name: &str, medium: &SimMedium) -> (Vfs, Connection) {
    let mut options = Options::default();
    options.set("sharing", "auto").unwrap();
    let vfs = Vfs::builder(name).medium(Arc::new(medium.clone())).options(options).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    (vfs, db)
}

fn rows(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// The log is deleted, and may come back in every power cut until the directory is synced. Whatever comes next, all commits that were
/// acknowledged before the cut are there.
fn nothing_is_lost(name: &str, next: &[&str], visitor_stays: bool) {
    let medium = SimMedium::new();
    let (_vfs, db) = open(name, &medium);
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let visitor = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    drop(db);
    let deleted = medium.operations();
    // Operations, and the rows that were acknowledged behind so many.
    let mut acknowledged = vec![(deleted, 1)];
    let visitor = visitor_stays.then_some(visitor);
    for sql in next {
        let (_vfs, db) = open(&format!("{name}-{sql}"), &medium);
        db.execute_batch(sql).unwrap();
        acknowledged.push((medium.operations(), rows(&db)));
        drop(db);
    }
    drop(visitor);
    let mut random = Random::new(7);
    for (point, cut) in medium.cuts(deleted..=medium.operations(), 6, &mut random) {
        let known = acknowledged.iter().filter(|(operations, _)| *operations <= point);
        let least = known.map(|(_, rows)| *rows).max().unwrap();
        let (_vfs, db) = open(&format!("{name}-cut"), &cut);
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert!(
            integrity == "ok" && rows(&db) >= least,
            "{name}, cut at {point}: {integrity}, {} rows",
            rows(&db)
        );
    }
}

#[test]
fn a_log_that_comes_back_hides_no_commit() {
    let insert = "INSERT INTO t VALUES(2)";
    for visitor_stays in [true, false] {
        nothing_is_lost(&format!("writes-{visitor_stays}"), &[insert; 3], visitor_stays);
        let leaves = ["PRAGMA journal_mode=delete; INSERT INTO t VALUES(2)", insert, insert];
        nothing_is_lost(&format!("leaves-{visitor_stays}"), &leaves, visitor_stays);
    }
}

/// Its journal needs no sync of the directory: without one the old log could come back over later commits.
#[test]
fn a_database_that_leaves_wal_mode_has_its_log_gone_before_it_is_written() {
    let [syncs, in_the_way] = seen("mode", |db| {
        let mode: String = db.query_row("PRAGMA journal_mode=off", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "off");
    });
    assert!(syncs > 0 && in_the_way == syncs, "{in_the_way} of {syncs}");
}
