//! Which of SQLite's checkpoints copy pages: those that the application wants, and no automatic ones.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::rusqlite::{Connection, ffi};
use litefoot::{CommitLogForm, Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::FileKind;
use litefoot_testkit::sqlite::vfs_name;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::HookedMedium;

/// A database in WAL mode, and the writes to its file by the test's own thread.
struct Watched {
    db: Connection,
    written: Arc<AtomicU64>,
    _vfs: Vfs,
}

impl Watched {
    fn new(setup: &str) -> Watched {
        let written = Arc::new(AtomicU64::new(0));
        let (count, thread) = (written.clone(), std::thread::current().id());
        let hook = move |kind: FileKind, is_durable: bool| {
            if kind == FileKind::Database && !is_durable && std::thread::current().id() == thread {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let medium = HookedMedium { medium: SimMedium::new(), hook: Arc::new(hook) };
        // Where deltas are to begin, the checkpointer completes the data file before.
        let options = Options { commit_log: CommitLogForm::Pages, ..Options::default() };
        let vfs = Vfs::builder(vfs_name("auto-checkpoint"))
            .medium(Arc::new(medium))
            .options(options)
            .register()
            .unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE t(v)").unwrap();
        db.execute_batch(setup).unwrap();
        Watched { db, written, _vfs: vfs }
    }

    /// Commits of a row each; answers the writes to the database file meanwhile.
    fn commits(&self, count: usize) -> u64 {
        self.writes_of(|| {
            for _ in 0..count {
                self.db.execute("INSERT INTO t VALUES(1)", []).unwrap();
                // SAFETY: the connection is alive.
                let code = unsafe { ffi::sqlite3_errcode(self.db.handle()) };
                assert!([ffi::SQLITE_OK, ffi::SQLITE_DONE].contains(&code), "{code}");
            }
        })
    }

    fn writes_of(&self, act: impl FnOnce()) -> u64 {
        let before = self.written.load(Ordering::Relaxed);
        act();
        self.written.load(Ordering::Relaxed) - before
    }

    /// A checkpoint by a call of C; answers SQLite's code, and the writes.
    fn call(&self, mode: i32) -> (i32, u64) {
        let mut code = -1;
        // SAFETY: the connection is alive, and SQLite may be given no place for its figures.
        let call = |raw| unsafe {
            ffi::sqlite3_wal_checkpoint_v2(
                raw,
                std::ptr::null(),
                mode,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        // SAFETY: as above.
        let writes = self.writes_of(|| code = call(unsafe { self.db.handle() }));
        (code, writes)
    }

    /// `sqlite3_wal_autocheckpoint`.
    fn set_interval(&self, frames: i32) {
        // SAFETY: the connection is alive.
        assert_eq!(unsafe { ffi::sqlite3_wal_autocheckpoint(self.db.handle(), frames) }, ffi::SQLITE_OK);
    }
}

#[test]
fn an_automatic_checkpoint_is_left_to_the_checkpointer() {
    let watched = Watched::new("");
    assert_eq!(watched.commits(1300), 0);
    // The application's own come behind.
    let (code, writes) = watched.call(ffi::SQLITE_CHECKPOINT_PASSIVE);
    assert!(code == ffi::SQLITE_OK && writes > 0, "{code} {writes}");
    let (code, _) = watched.call(ffi::SQLITE_CHECKPOINT_TRUNCATE);
    assert_eq!(code, ffi::SQLITE_OK);
    assert_eq!(watched.commits(1100), 0, "the next log");
    let pragma = watched.writes_of(|| {
        let answer =
            |row: &litefoot::rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?));
        let (busy, log, copied): (i64, i64, i64) =
            watched.db.query_row("PRAGMA wal_checkpoint", [], answer).unwrap();
        assert!(busy == 0 && log == copied && log >= 1000, "{busy} {log} {copied}");
    });
    assert!(pragma > 0);
}

#[test]
fn an_interval_of_the_applications_counts() {
    let watched = Watched::new("PRAGMA wal_autocheckpoint=1100");
    assert_eq!(watched.commits(1000), 0);
    assert!(watched.commits(200) > 0);
    let watched = Watched::new("");
    watched.set_interval(100);
    assert!(watched.commits(150) > 0);
}

#[test]
fn a_call_right_behind_a_commit_does_what_it_says() {
    for mode in [ffi::SQLITE_CHECKPOINT_FULL, ffi::SQLITE_CHECKPOINT_RESTART, ffi::SQLITE_CHECKPOINT_TRUNCATE]
    {
        let watched = Watched::new("");
        watched.set_interval(0);
        assert_eq!(watched.commits(1100), 0);
        let (code, writes) = watched.call(mode);
        assert!(code == ffi::SQLITE_OK && writes > 0, "mode {mode}: {code} {writes}");
    }
    // A passive one is never an error, and copies when it is asked for again.
    let watched = Watched::new("");
    watched.set_interval(0);
    watched.commits(1100);
    assert_eq!(watched.call(ffi::SQLITE_CHECKPOINT_PASSIVE).0, ffi::SQLITE_OK);
    assert!(watched.call(ffi::SQLITE_CHECKPOINT_PASSIVE).1 > 0);
}
