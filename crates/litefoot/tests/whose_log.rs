//! A log belongs to its database: whatever becomes of the names of either.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::{Options, Sharing, Vfs};
use litefoot_sim::{CountingMedium, SimMedium};
use litefoot_sim::{Faults, Random, SyncSite};
use litefoot_storage::file::{FileKind, Medium, OpenMode, Operation};
use litefoot_storage::os::OsMedium;
use litefoot_testkit::files::copy_as_a_crash_leaves;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATABASE: &str = "/app.db";
const LOG: &str = "/app.db-wal";
const COMMITS: &str = "/app.db-commits";

fn vfs_on(medium: &SimMedium, name: &str, options: &str) -> Vfs {
    let mut set = Options::default();
    set.set_list(options).unwrap();
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(set).register().unwrap()
}

fn numbers(db: &Connection, table: &str) -> litefoot::rusqlite::Result<Vec<i64>> {
    db.prepare(&format!("SELECT n FROM {table} ORDER BY n"))?.query_map([], |row| row.get(0))?.collect()
}

fn is_sound(db: &Connection) -> bool {
    db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
}

fn set_aside(medium: &SimMedium) -> Vec<(PathBuf, Vec<u8>)> {
    let aside = |path: &Path| path.to_string_lossy().contains(".set-aside-");
    medium
        .files()
        .into_iter()
        .filter(|(path, ..)| aside(path))
        .map(|(path, _, bytes)| (path, bytes))
        .collect()
}

/// A database whose newest rows are in its log alone.
fn crashed(name: &str, mode: &str, table: &str, rows: i64) -> SimMedium {
    crashed_with("", name, mode, table, rows)
}

/// The same, under these options.
fn crashed_with(options: &str, name: &str, mode: &str, table: &str, rows: i64) -> SimMedium {
    let medium = SimMedium::new();
    let vfs = vfs_on(&medium, name, options);
    let db = vfs.open(DATABASE).unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE {table}(n INTEGER PRIMARY KEY, v)"))
        .unwrap();
    for n in 0..rows {
        db.execute(&format!("INSERT INTO {table} VALUES(?1, randomblob(300))"), [n]).unwrap();
    }
    medium.copy()
}

fn replace_database(medium: &SimMedium, bytes: &[u8]) {
    medium.delete(Path::new(DATABASE)).unwrap();
    let file = medium.open(Path::new(DATABASE), FileKind::Database, OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
}

fn bytes_at(medium: &SimMedium, path: &str) -> Vec<u8> {
    medium.files().into_iter().find(|(there, ..)| there == Path::new(path)).unwrap().2
}

#[test]
fn no_cut_in_a_checkpoint_makes_a_log_another_databases() {
    for (number, (mode, page_bytes, atomic_bytes, options)) in [
        ("delete", 4096, 0, "max_wal_size=40K"),
        ("truncate", 512, 0, "max_wal_size=20K"),
        ("persist", 4096, 4096, "max_wal_size=60K"),
        ("wal", 4096, 0, "commit_log_size=0&write_buffer_size=64K"),
    ]
    .into_iter()
    .enumerate()
    {
        let medium = SimMedium::new();
        medium.set_atomic_write_bytes(atomic_bytes);
        let vfs = vfs_on(&medium, "whose-cuts", options);
        let db = vfs.open(DATABASE).unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA journal_mode={mode}; CREATE TABLE t(n INTEGER PRIMARY KEY, v)"
        ))
        .unwrap();
        let mut acknowledged = vec![medium.operations()];
        for n in 0..60 {
            match n % 10 {
                9 => db.execute_batch("PRAGMA synchronous=OFF").unwrap(),
                _ => db.execute_batch("PRAGMA synchronous=FULL").unwrap(),
            }
            db.execute("INSERT INTO t VALUES(?1, randomblob(700))", [n]).unwrap();
            // Pages of their own, which may be written in place.
            db.execute("UPDATE t SET v=randomblob(700) WHERE n=?1", [n / 2]).unwrap();
            if n % 10 != 9 {
                acknowledged.push(medium.operations());
            }
        }
        drop(db);
        let mut replay = medium.replay();
        let mut random = Random::new(number as u64);
        for point in (acknowledged[0]..=replay.len()).step_by(2) {
            replay.advance(point);
            for copied in [false, true] {
                let mut image = replay.cut(&mut random);
                if copied {
                    image = SimMedium::with_files(image.files());
                }
                let after = vfs_on(&image, "whose-cuts-after", "");
                let db = after.open(DATABASE).unwrap();
                let what = format!("{mode} {options}: cut at {point}, copied: {copied}");
                let found = numbers(&db, "t").unwrap_or_else(|error| panic!("{what}: {error}"));
                let least = acknowledged.iter().filter(|operation| **operation <= point).count() - 1;
                assert!(found.len() >= least, "{what}: {} rows and not {least}", found.len());
                assert!(is_sound(&db), "{what}");
                assert!(set_aside(&image).is_empty(), "{what}: set aside");
            }
        }
    }
}

#[test]
fn a_log_beside_a_new_file_is_kept_under_another_name() {
    let cases =
        [("delete", "", LOG), ("wal", "commit_log=pages", LOG), ("wal", "commit_log=deltas", COMMITS)];
    for (mode, options, name) in cases {
        let medium = crashed_with(options, "whose-new", mode, "old", 20);
        let log = bytes_at(&medium, name);
        medium.delete(Path::new(DATABASE)).unwrap();
        let vfs = vfs_on(&medium, "whose-new-after", "");
        for round in 0..2 {
            let db = vfs.open(DATABASE).unwrap();
            db.execute_batch("CREATE TABLE IF NOT EXISTS new(n INTEGER); INSERT INTO new VALUES(1)").unwrap();
            assert_eq!(numbers(&db, "new").unwrap().len(), 1 + round, "{mode}");
            assert!(numbers(&db, "old").is_err() && is_sound(&db), "{mode}");
        }
        let aside = set_aside(&medium);
        let kept = aside.iter().find(|(path, _)| path == Path::new(&format!("{name}.set-aside-1")));
        assert!(kept.unwrap().1 == log, "{mode}");
        // A log that was set aside is still one that SQLite takes for its database.
        drop(vfs);
        assert!(medium.files().len() == 1 + aside.len(), "{mode}: {:?}", medium.files().len());
    }
}

#[test]
fn a_log_is_not_applied_to_a_file_that_has_come_in_between() {
    // A copy of an earlier time: written over the file, and moved in its place.
    for in_place in [true, false] {
        let medium = SimMedium::new();
        let vfs = vfs_on(&medium, "whose-between", "");
        let insert = |rows: std::ops::Range<i64>| {
            let db = vfs.open(DATABASE).unwrap();
            db.execute_batch("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY)").unwrap();
            for n in rows {
                db.execute("INSERT INTO t VALUES(?1)", [n]).unwrap();
            }
            db
        };
        drop(insert(0..3));
        let earlier = bytes_at(&medium, DATABASE);
        drop(insert(3..10));
        let _open = insert(10..20);
        let medium = medium.copy();
        if in_place {
            let file = medium.open(Path::new(DATABASE), FileKind::Database, OpenMode::ReadWrite).unwrap();
            file.set_len(0).unwrap();
            file.write_at(&earlier, 0).unwrap();
        } else {
            replace_database(&medium, &earlier);
        }
        let vfs = vfs_on(&medium, "whose-between-after", "");
        let db = vfs.open(DATABASE).unwrap();
        assert_eq!(numbers(&db, "t").unwrap(), [0, 1, 2], "in place: {in_place}");
        assert!(is_sound(&db));
        assert_eq!(set_aside(&medium).len(), 1, "in place: {in_place}");
    }
    // A file that is what the log was begun upon, and is another one.
    let medium = crashed("whose-twin", "delete", "t", 20);
    let twin = crashed("whose-twin-other", "delete", "t", 5);
    let begun = bytes_at(&medium, DATABASE);
    assert!(begun[..512] == bytes_at(&twin, DATABASE)[..512], "the log alone tells them apart");
    replace_database(&medium, &begun);
    let vfs = vfs_on(&medium, "whose-twin-after", "");
    assert_eq!(numbers(&vfs.open(DATABASE).unwrap(), "t").unwrap(), [0; 0]);
    assert_eq!(set_aside(&medium).len(), 1);
}

#[test]
fn a_database_and_its_log_that_were_copied_together_recover() {
    for (mode, options) in [("delete", ""), ("wal", "commit_log=pages")] {
        let medium = SimMedium::with_files(crashed_with(options, "whose-copy", mode, "t", 20).files());
        let vfs = vfs_on(&medium, "whose-copy-after", "");
        assert_eq!(numbers(&vfs.open(DATABASE).unwrap(), "t").unwrap().len(), 20, "{mode}");
        assert!(set_aside(&medium).is_empty(), "{mode}");
    }
}

#[test]
fn deltas_are_applied_to_a_copy_with_its_times_and_kept_beside_one_without() {
    for mode in ["delete", "wal"] {
        let crashed = crashed_with("commit_log=deltas", "whose-times", mode, "t", 20);
        let without_times = SimMedium::with_files(crashed.files());
        let log = bytes_at(&crashed, COMMITS);
        let count = |medium: &SimMedium| {
            let vfs = vfs_on(medium, "whose-times-after", "");
            let db = vfs.open(DATABASE).unwrap();
            let found = numbers(&db, "t").map_or(0, |found| found.len());
            (found, db.execute("INSERT INTO t(n) VALUES(100)", []).is_ok())
        };
        assert_eq!(count(&crashed.copy()), (20, true), "{mode}");
        let (found, writable) = count(&without_times);
        assert!(found < 20 && !writable, "{mode}: {found} rows");
        assert!(bytes_at(&without_times, COMMITS) == log, "{mode}");
    }
}

/// Copies a database and its logs, as `cp` does: the copies have times of their own.
fn copy_all(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-journal", "-commits"] {
        let [from, to] = [from, to].map(|path| PathBuf::from(format!("{}{suffix}", path.display())));
        if from.exists() {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// In WAL mode, and beside a `-wal` in any mode, SQLite changes pages and leaves page 1 as it is. Where no delta is of these
/// pages, the content of the file does not show them.
#[test]
fn deltas_are_not_merged_into_a_copy_of_a_file_that_is_another_than_they_were_made_from() {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name}(n INTEGER PRIMARY KEY, v); INSERT INTO {name} VALUES(0, randomblob(3000));"
        )
    };
    for (mode, by_stock) in
        [("delete", true), ("truncate", true), ("persist", true), ("wal", true), ("wal", false)]
    {
        let what = format!("{mode}, by stock SQLite: {by_stock}");
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let options = || {
            let mut options = Options::default();
            options.set_list("commit_log=deltas&sharing=exclusive").unwrap();
            options
        };
        let vfs = Vfs::builder("whose-merged").options(options()).register().unwrap();
        let db = vfs.open(at("app.db")).unwrap();
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; {} {}", table("t"), table("u"))).unwrap();
        drop(db);
        copy_as_a_crash_leaves(&at("app.db"), &at("earlier.db"));
        vfs.open(at("app.db")).unwrap().execute("INSERT INTO u(n) VALUES(1)", []).unwrap();
        let db = vfs.open(at("app.db")).unwrap();
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; UPDATE t SET n=n+1; UPDATE t SET n=n+1"))
            .unwrap();
        copy_as_a_crash_leaves(&at("app.db"), &at("crashed.db"));
        copy_as_a_crash_leaves(&at("crashed.db"), &at("kept.db"));
        drop(db);
        let rows = |name: &str| {
            let db = vfs.open(at(name)).unwrap();
            let rows = ["t", "u"].map(|table| numbers(&db, table).unwrap());
            assert!(is_sound(&db), "{what}");
            (rows, db.execute("INSERT INTO u(n) VALUES(100)", []).is_ok())
        };
        // Each page that they change is as before them, and so is the first sector.
        let sector = fs::read(at("crashed.db")).unwrap()[..512].to_vec();
        let log = fs::read(at("crashed.db-commits")).unwrap();
        let expected = if by_stock {
            let flags = litefoot::rusqlite::OpenFlags::default();
            let stock = Connection::open_with_flags_and_vfs(at("crashed.db"), flags, "unix").unwrap();
            stock.execute("INSERT INTO u(n) VALUES(2)", []).unwrap();
            [vec![0], vec![0, 1, 2]]
        } else {
            fs::copy(at("earlier.db"), at("crashed.db")).unwrap();
            [vec![0], vec![0]]
        };
        assert!(fs::read(at("crashed.db")).unwrap()[..512] == sector, "{what}");
        copy_all(&at("crashed.db"), &at("copy.db"));
        assert_eq!(rows("copy.db"), (expected, false), "{what}");
        assert!(fs::read(at("copy.db-commits")).unwrap() == log, "{what}");
        // Nobody has had the others in his hands.
        assert_eq!(rows("kept.db"), ([vec![2], vec![0, 1]], true), "{what}");
    }
}

/// Where the old name came back, SQLite itself would take the foreign log for the database's.
#[test]
fn a_log_that_was_set_aside_does_not_come_back() {
    let run = |faults: Faults| {
        let medium = crashed("whose-back", "delete", "t", 20);
        let other = crashed("whose-back-other", "delete", "another", 1);
        let other = {
            let vfs = vfs_on(&other, "whose-back-closed", "");
            numbers(&vfs.open(DATABASE).unwrap(), "another").unwrap();
            bytes_at(&other, DATABASE)
        };
        replace_database(&medium, &other);
        let medium = {
            let files = medium.files();
            SimMedium::with_files(files)
        };
        medium.set_faults(faults);
        let vfs = vfs_on(&medium, "whose-back-after", "");
        assert_eq!(numbers(&vfs.open(DATABASE).unwrap(), "another").unwrap(), [0]);
        drop(vfs);
        let mut random = Random::new(7);
        let is_back = |image: SimMedium| image.info(Path::new(LOG)).unwrap().is_some();
        (0..30).filter(|_| is_back(medium.cut(&mut random))).count()
    };
    assert_eq!(run(Faults::default()), 0);
    assert!(run(Faults::ignoring(SyncSite::Directory, None)) > 0, "the sync of the directory is not needed");
}

fn names(directory: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(directory).unwrap().map(name).collect()
}

fn set_up(db: &Connection, mode: &str, table: &str) {
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE {table}(n INTEGER PRIMARY KEY);
         INSERT INTO {table} VALUES(1); INSERT INTO {table} VALUES(2)"
    ))
    .unwrap();
}

fn found_by_stock(path: &Path, table: &str) -> Vec<i64> {
    let flags = litefoot::rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap();
    assert!(is_sound(&db));
    numbers(&db, table).unwrap()
}

#[test]
fn a_file_that_lost_its_name_while_it_was_open_and_the_one_that_has_it_now_are_two_databases() {
    for mode in ["delete", "truncate", "memory", "wal"] {
        for with_logs in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("app.db");
            let away = directory.path().join("away.db");
            let vfs = Vfs::builder("whose-two").register().unwrap();
            let old = vfs.open(&path).unwrap();
            set_up(&old, mode, "old");
            for name in names(directory.path()).iter().filter(|name| with_logs || *name == "app.db") {
                let to = directory.path().join(name.replace("app", "away"));
                fs::rename(directory.path().join(name), to).unwrap();
            }
            let what = format!("{mode}, with its logs: {with_logs}");
            let new = vfs.open(&path).unwrap();
            set_up(&new, mode, "new");
            // As with stock SQLite, a journal that would lie beside the new file is not begun.
            let goes_on = !matches!(mode, "delete" | "truncate");
            assert_eq!(old.execute("INSERT INTO old VALUES(3)", []).is_ok(), goes_on, "{what}");
            let expected = if goes_on { vec![1, 2, 3] } else { vec![1, 2] };
            assert_eq!(numbers(&old, "old").unwrap(), expected, "{what}");
            new.execute("INSERT INTO new VALUES(3)", []).unwrap();
            drop(old);
            new.execute("INSERT INTO new VALUES(4)", []).unwrap();
            assert_eq!(numbers(&new, "new").unwrap(), [1, 2, 3, 4], "{what}");
            drop(new);
            assert_eq!(found_by_stock(&path, "new"), [1, 2, 3, 4], "{what}");
            assert_eq!(found_by_stock(&away, "old"), expected, "{what}");
            let left = names(directory.path());
            let logs = |name: &String| name.starts_with("app.db-") || name.contains("set-aside");
            assert!(!left.iter().any(logs), "{what}: {left:?}");
        }
    }
}

/// The one that has the name does not know of the other, as where that is another process. Nor is that one told that it has lost its name.
#[test]
fn a_log_that_another_owner_has_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let untold = Arc::new(CountingMedium::new(Arc::new(OsMedium)));
    let one = Vfs::builder("whose-one").medium(untold).register().unwrap();
    let other = Vfs::builder("whose-other").register().unwrap();
    let old = one.open(&path).unwrap();
    set_up(&old, "delete", "old");
    let log = directory.path().join("app.db-wal");
    let before = fs::read(&log).unwrap();
    fs::rename(&path, directory.path().join("away.db")).unwrap();
    let new = other.open(&path).unwrap();
    set_up(&new, "delete", "new");
    assert!(fs::read(&log).unwrap() == before);
    // It has a journal meanwhile, of SQLite's own.
    new.execute_batch("BEGIN; INSERT INTO new VALUES(3); PRAGMA cache_size=1; PRAGMA cache_spill=1").unwrap();
    new.execute_batch("ROLLBACK; INSERT INTO new VALUES(4)").unwrap();
    drop(old);
    assert_eq!(found_by_stock(&directory.path().join("away.db"), "old"), [1, 2]);
    new.execute("INSERT INTO new VALUES(5)", []).unwrap();
    assert_eq!(numbers(&new, "new").unwrap(), [1, 2, 4, 5]);
    drop(new);
    assert_eq!(found_by_stock(&path, "new"), [1, 2, 4, 5]);
}

#[test]
fn a_commit_under_way_when_the_file_is_renamed_is_in_the_file() {
    for mode in ["delete", "persist", "memory", "off"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, away) = (directory.path().join("app.db"), directory.path().join("away.db"));
        let vfs = Vfs::builder("whose-commit").register().unwrap();
        let db = vfs.open(&path).unwrap();
        set_up(&db, mode, "t");
        db.execute_batch("BEGIN; INSERT INTO t VALUES(3)").unwrap();
        fs::rename(&path, &away).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        db.execute_batch("COMMIT").unwrap();
        // The remains of a killed process.
        let copy = directory.path().join("copy.db");
        fs::copy(&away, &copy).unwrap();
        assert_eq!(found_by_stock(&copy, "t"), [1, 2, 3], "{mode}");
        drop(db);
        assert_eq!(found_by_stock(&away, "t"), [1, 2, 3], "{mode}");
        assert!(!names(directory.path()).contains("app.db-wal"), "{mode}");
    }
}

#[test]
fn a_log_that_was_removed_or_renamed_while_open_is_replaced_before_the_next_commit_counts_on_it() {
    for removed in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (path, log) = (directory.path().join("app.db"), directory.path().join("app.db-wal"));
        let options = Options { sharing: Sharing::Exclusive, ..Options::default() };
        let vfs = Vfs::builder("whose-replaced").options(options).register().unwrap();
        let db = vfs.open(&path).unwrap();
        set_up(&db, "delete", "t");
        if removed {
            fs::remove_file(&log).unwrap();
        } else {
            fs::rename(&log, directory.path().join("elsewhere-wal")).unwrap();
        }
        db.execute("INSERT INTO t VALUES(3)", []).unwrap();
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        fs::copy(&log, directory.path().join("copy.db-wal")).unwrap();
        assert_eq!(found_by_stock(&copy, "t"), [1, 2, 3], "removed: {removed}");
        drop(db);
        assert_eq!(found_by_stock(&path, "t"), [1, 2, 3], "removed: {removed}");
    }
}

#[test]
fn a_log_that_was_cut_while_open_shows_no_older_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (path, log) = (directory.path().join("app.db"), directory.path().join("app.db-wal"));
    let mut options = Options::default();
    options.set("buffer_pool_size", "0").unwrap();
    let vfs = Vfs::builder("whose-cut").options(options).register().unwrap();
    let db = vfs.open(&path).unwrap();
    set_up(&db, "delete", "t");
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
    assert!(db.execute("INSERT INTO t VALUES(3)", []).is_err());
    let other = vfs.open(&path).unwrap();
    match numbers(&other, "t") {
        Ok(found) => assert_eq!(found, [1, 2]),
        Err(error) => assert!(error.to_string().contains("disk I/O error"), "{error}"),
    }
}

/// A failed look leaves the file's identity unknown for a moment. That is no reason to take the log for another one's.
#[test]
fn a_failure_to_look_at_a_file_sets_no_log_aside() {
    let mut met = 0;
    for (mode, kind) in [
        ("delete", FileKind::Database),
        ("delete", FileKind::RedoLog),
        ("wal", FileKind::Database),
        ("wal", FileKind::RedoLog),
    ] {
        for n in 0..3 {
            let medium = crashed("look-crash", mode, "t", 5);
            let mut faults = Faults::failing(Operation::Info, kind, n);
            faults.fail_again = false;
            medium.set_faults(faults);
            let vfs = vfs_on(&medium, "look", "");
            let numbers_now = || vfs.open(DATABASE).ok().and_then(|db| numbers(&db, "t").ok());
            let first = numbers_now();
            assert!(
                first.is_none() || first.as_ref().is_some_and(|found| found.len() == 5),
                "{mode} {kind:?} {n}"
            );
            met += u32::from(first.is_none());
            medium.set_faults(Faults::default());
            assert_eq!(numbers_now().unwrap().len(), 5, "{mode} {kind:?} {n}");
            assert!(set_aside(&medium).is_empty(), "{mode} {kind:?} {n}");
        }
    }
    assert!(met > 0);
}
