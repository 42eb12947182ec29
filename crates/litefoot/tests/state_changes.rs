//! The edges of a change of state: what other processes leave unsynced, what is not theirs to leave, and where the system tells
//! nothing of them.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot::{Options, Vfs};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{FileKind, Medium as _, OpenMode};
use litefoot_storage::rollback_journal::MAGIC;
use litefoot_testkit::sqlite::vfs_name;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// The application's VFS, and that of another process.
fn on(medium: &SimMedium) -> (Vfs, Vfs) {
    let there = || Arc::new(medium.clone());
    let ours = Vfs::builder(vfs_name("states")).medium(there()).register().unwrap();
    (ours, Vfs::builder(vfs_name("states")).medium(there()).pass_through(true).register().unwrap())
}

fn rows(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

fn insert(db: &Connection, count: usize) {
    for _ in 0..count {
        db.execute("INSERT INTO t VALUES(randomblob(2000))", []).unwrap();
    }
}

/// The number of cuts after which the database is not sound with these rows, and this number of the application's.
fn unsound(medium: &SimMedium, expected: i64, number: i64) -> usize {
    let mut random = Random::new(31);
    let is_unsound = |_: &usize| {
        let image = medium.cut(&mut random);
        let (vfs, _) = on(&image);
        let found = vfs.open("/app.db").and_then(|db| {
            let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            Ok((rows(&db)?, db.query_row("SELECT n FROM n", [], |row| row.get(0))?, integrity))
        });
        !matches!(found, Ok((rows, n, text)) if (rows, n, text.as_str()) == (expected, number, "ok"))
    };
    (0..60).filter(is_unsound).count()
}

/// Each sync on the way back, left out at that place alone. A visitor ends its journal without a sync, or writes without one.
#[test]
fn each_sync_on_the_way_back_is_needed() {
    for (mode, synchronous, site) in [
        ("persist", "OFF", SyncSite::File(FileKind::Database)),
        // The journal that is left void or empty is removed.
        ("persist", "OFF", SyncSite::Directory),
        ("truncate", "NORMAL", SyncSite::Directory),
        ("delete", "FULL", SyncSite::Directory),
    ] {
        let mut lost = [0; 2];
        for (is_left_out, lost) in [false, true].into_iter().zip(&mut lost) {
            let medium = SimMedium::new();
            let (vfs, stock) = on(&medium);
            let db = vfs.open("/app.db").unwrap();
            db.execute_batch("PRAGMA journal_mode=persist; CREATE TABLE t(v); CREATE TABLE n(n)").unwrap();
            db.execute_batch("INSERT INTO n VALUES(1)").unwrap();
            insert(&db, 3);
            let visitor = stock.open("/app.db").unwrap();
            let pragmas = format!("PRAGMA journal_mode={mode}; PRAGMA synchronous={synchronous}");
            visitor.execute_batch(&pragmas).unwrap();
            // The next commit behind it changes none of these pages: the log has none of them.
            insert(&visitor, 4);
            drop(visitor);
            if is_left_out {
                medium.set_faults(Faults::ignoring(site, Some(0)));
            }
            assert_eq!(rows(&db).unwrap(), 7);
            medium.set_faults(Faults::default());
            assert!(vfs.databases()[0].is_owned(), "{mode}");
            *lost = unsound(&medium, 7, 1);
            db.execute_batch("UPDATE n SET n=2").unwrap();
            *lost += unsound(&medium, 7, 2);
        }
        assert!(lost[0] == 0 && lost[1] > 0, "{mode} {synchronous} {site:?}: {lost:?}");
    }
}

/// A commit is durable with everything that it builds upon, whoever has written that before this process had the file.
#[test]
fn what_a_process_before_has_not_synced_is_durable_below_the_first_commit() {
    let modes = ["delete", "truncate", "persist"];
    for (mode, synchronous) in modes.into_iter().flat_map(|mode| [(mode, "OFF"), (mode, "NORMAL")]) {
        let medium = SimMedium::new();
        let (vfs, stock) = on(&medium);
        let careless = stock.open("/app.db").unwrap();
        careless.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
        careless.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
        insert(&careless, 9);
        drop(careless);
        let db = vfs.open("/app.db").unwrap();
        // The first page has all that this one changes but for the new one.
        db.execute_batch("CREATE TABLE n AS SELECT 2 AS n").unwrap();
        assert!(vfs.databases()[0].is_owned());
        assert_eq!(unsound(&medium, 9, 2), 0, "{mode} {synchronous}");
    }
}

/// A process was killed before it had synced that its journal is void, and the next one with a log.
#[test]
fn a_void_journal_that_is_found_never_comes_back_with_its_transaction() {
    for is_left_out in [false, true] {
        let before = SimMedium::new();
        let killed = on(&before).1.open("/app.db").unwrap();
        killed.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); CREATE TABLE n(n)").unwrap();
        killed.execute_batch("INSERT INTO n VALUES(1)").unwrap();
        insert(&killed, 2);
        killed.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
        insert(&killed, 1);
        let medium = before.copy();
        let journal =
            medium.open(Path::new("/app.db-journal"), FileKind::Journal, OpenMode::CreateNew).unwrap();
        // The database had one page before it, of 4,096 bytes.
        let numbers = [0_u32, 0, 1, 512, 4096].map(u32::to_be_bytes).concat();
        journal.write_at(&[&MAGIC, &numbers[..], &[0; 484]].concat(), 0).unwrap();
        journal.sync().unwrap();
        medium.sync_directory(Path::new("/")).unwrap();
        journal.write_at(&[0; 28], 0).unwrap();
        if is_left_out {
            medium.set_faults(Faults::ignoring(SyncSite::File(FileKind::Journal), Some(0)));
        }
        let (vfs, _) = on(&medium);
        let db = vfs.open("/app.db").unwrap();
        insert(&db, 4);
        assert_eq!(unsound(&medium, 7, 1) > 0, is_left_out);
    }
}

/// The journal of a hard link lies beside the first name of the file.
#[test]
fn a_transaction_by_another_name_of_the_file_ends_as_any_other() {
    for (mode, is_visited) in [("delete", false), ("delete", true), ("truncate", true), ("persist", true)] {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("app.db"), directory.path().join("link.db"));
        let vfs = Vfs::builder(vfs_name("states")).register().unwrap();
        let db = vfs.open(&path).unwrap();
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
        fs::hard_link(&path, &link).unwrap();
        let linked = vfs.open(&link).unwrap();
        linked.execute_batch(&format!("PRAGMA journal_mode={mode}")).unwrap();
        let visitor = is_visited.then(|| stock(&path).unwrap());
        insert(&linked, 3);
        insert(&db, 3);
        insert(&linked, 3);
        assert_eq!((rows(&db).unwrap(), rows(&linked).unwrap()), (9, 9), "{mode}");
        if let Some(visitor) = visitor {
            assert_eq!(rows(&visitor).unwrap(), 9, "{mode}");
        }
        // What another file has beside it stays.
        let away = directory.path().join("away.db");
        fs::rename(&path, &away).unwrap();
        fs::write(directory.path().join("app.db-journal"), "theirs").unwrap();
        drop((db, linked));
        assert_eq!(fs::read(directory.path().join("app.db-journal")).unwrap(), b"theirs", "{mode}");
    }
}

/// SQLite's own VFS on real files: another process, as far as locks go.
fn stock(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix")?;
    db.busy_timeout(std::time::Duration::ZERO)?;
    Ok(db)
}

/// Its pages are in memory once, and the file has one description all the same.
#[test]
fn a_database_that_is_read_past_the_systems_cache_is_shared_like_any_other() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("app.db");
        let mut options = Options::default();
        options.set("direct_io", "on").unwrap();
        let vfs = Vfs::builder(vfs_name("states")).options(options).register().unwrap();
        let db = vfs.open(&path).unwrap();
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
        insert(&db, 20);
        assert_eq!(rows(&db).unwrap(), 20);
        assert!(vfs.databases()[0].stats().contains(&("pool.direct".to_owned(), 1)), "{mode}");
        for round in 0..2 {
            let visitor = stock(&path).unwrap();
            assert_eq!(rows(&visitor).unwrap(), 20 + 2 * round, "{mode}");
            for connection in [&visitor, &db] {
                insert(connection, 1);
            }
            assert_eq!(
                (rows(&visitor).unwrap(), rows(&db).unwrap()),
                (22 + 2 * round, 22 + 2 * round),
                "{mode}"
            );
            assert!(!vfs.databases()[0].is_owned(), "{mode}");
        }
    }
}

/// A user to whom the database is open by its mode, and who does not own it: the system grants no lease. Nobody is locked out.
#[test]
fn a_user_who_does_not_own_the_file_keeps_nobody_out() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: needs root");
    }
    for mode in ["delete", "persist", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let path = directory.path().join("app.db");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let made = stock(&path).unwrap();
        made.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
        drop(made);
        let theirs = path.clone();
        let user = std::thread::spawn(move || {
            // Of this thread alone, which ends.
            // SAFETY: changes the user of this thread.
            unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            let vfs = Vfs::builder(vfs_name("states")).register().unwrap();
            let [db, other] = [vfs.open(&theirs).unwrap(), vfs.open(&theirs).unwrap()];
            insert(&db, 3);
            let visitor = stock(&theirs).unwrap();
            for connection in [&visitor, &db, &other, &visitor] {
                insert(connection, 2);
            }
            assert!(!vfs.databases()[0].is_owned());
            drop(visitor);
            insert(&db, 1);
            assert!(!vfs.databases()[0].is_owned(), "{mode}: it would hear of nobody");
            let figures = vfs.databases()[0].stats();
            assert!(figures.contains(&("lease_refused".to_owned(), 1)), "{figures:?}");
            // One who wants an owner has one.
            let mut options = Options::default();
            options.set("sharing", "exclusive").unwrap();
            drop((db, other));
            let vfs = Vfs::builder(vfs_name("states")).options(options).register().unwrap();
            let db = vfs.open(&theirs).unwrap();
            insert(&db, 1);
            assert!(vfs.databases()[0].is_owned() && rows(&stock(&theirs).unwrap()).is_err(), "{mode}");
        });
        user.join().unwrap();
        let found = stock(&path).unwrap();
        assert_eq!(rows(&found).unwrap(), 13, "{mode}");
    }
}
