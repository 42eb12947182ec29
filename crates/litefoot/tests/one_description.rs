//! A process opens a database file once, whatever opens it: to a lease, a second description is somebody else.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// The files of this machine, and how often a database was opened.
struct Opens {
    system: OsMedium,
    count: Arc<AtomicUsize>,
}

impl Medium for Opens {
    pass_on!(system: delete, rename, rename_new, info, identity, unlinked_identity, glance, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.system.open(path, kind, mode);
        if kind == FileKind::Database && file.is_ok() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        file
    }
}

/// A VFS of that name, and how often it has opened a database.
fn vfs(name: &str) -> (litefoot::Vfs, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let medium = Opens { system: OsMedium, count: count.clone() };
    (litefoot::Vfs::builder(name).medium(Arc::new(medium)).register().unwrap(), count)
}

fn rows(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

#[test]
fn connections_in_many_threads_and_by_many_names_open_the_file_once() {
    const THREADS: usize = 8;
    for mode in ["delete", "persist", "wal"] {
        let (vfs, count) = vfs(mode);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let ready = Barrier::new(THREADS);
        // Also the first ones, which find no file.
        let open: Vec<Connection> = std::thread::scope(|scope| {
            let open = |_| {
                scope.spawn(|| {
                    ready.wait();
                    vfs.open(&path).unwrap()
                })
            };
            (0..THREADS)
                .map(open)
                .collect::<Vec<_>>()
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(count.load(Ordering::SeqCst), 1, "{mode}");
        open[0].execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
        for db in &open {
            db.execute("INSERT INTO t VALUES(1)", []).unwrap();
        }
        let (link, hard) = (directory.path().join("link"), directory.path().join("hard"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::hard_link(&path, &hard).unwrap();
        for name in [link, directory.path().join("./app.db")] {
            vfs.open(&name).unwrap().execute("INSERT INTO t VALUES(2)", []).unwrap();
        }
        // SQLite would look for a journal beside this name.
        assert_eq!(rows(&vfs.open(&hard).unwrap()), THREADS as i64 + 2);
        let attached = &open[1];
        attached.execute_batch(&format!("ATTACH '{}' AS other", path.display())).unwrap();
        let all: i64 = attached.query_row("SELECT count(*) FROM other.t", [], |row| row.get(0)).unwrap();
        assert_eq!((all, rows(&open[2])), (THREADS as i64 + 2, THREADS as i64 + 2), "{mode}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{mode}");
        drop(open);
        drop(vfs.open(&path).unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 2, "{mode}: it was closed");
    }
}

#[test]
fn another_file_at_the_path_is_another_database() {
    let (vfs, count) = vfs("another");
    let directory = tempfile::tempdir().unwrap();
    let (path, away) = (directory.path().join("app.db"), directory.path().join("away.db"));
    let first = vfs.open(&path).unwrap();
    first.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
    fs::rename(&path, &away).unwrap();
    let second = vfs.open(&path).unwrap();
    second.execute_batch("CREATE TABLE t(v)").unwrap();
    assert_eq!((rows(&first), rows(&second), count.load(Ordering::SeqCst)), (1, 0, 2));
    // A link in the place of the file is followed by SQLite before the open, and never by the open.
    assert_eq!((rows(&vfs.open(&away).unwrap()), count.load(Ordering::SeqCst)), (1, 2));
}

/// The rights of a handle are those that the process has when it opens, although the file is open already.
#[test]
fn a_later_connection_has_the_rights_of_its_time() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let (vfs, count) = vfs("rights");
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("app.db");
    let db = vfs.open(&path).unwrap();
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
    for (mode, is_read_only) in [(0o644, Some(true)), (0o666, Some(false)), (0o600, None)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        // A thread whose user owns nothing.
        let opened = std::thread::scope(|scope| {
            let open = || {
                // SAFETY: changes this thread, which ends.
                unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
                let db = vfs.open(&path).ok()?;
                assert_eq!(rows(&db), 1);
                let is_read_only = db.is_readonly("main").unwrap();
                assert_eq!(db.execute("INSERT INTO t VALUES(2)", []).is_err(), is_read_only);
                db.execute("DELETE FROM t WHERE v=2", []).ok();
                Some(is_read_only)
            };
            scope.spawn(open).join().unwrap()
        });
        assert_eq!(opened, is_read_only, "{mode:o}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
