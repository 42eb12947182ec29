//! A file that takes the name of an open database meets none of its logs.
//!
//! The system tells of renames on the file systems of this machine only (`F_NOTIFY`). Nothing here depends on how soon.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_testkit::files::copy_as_a_crash_leaves;
use litefoot_testkit::sqlite::{metric_or_zero, stock, vfs_name};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Journal modes, with options.
const MODES: [(&str, &str); 8] = [
    ("delete", ""),
    ("truncate", ""),
    ("persist", ""),
    ("delete", "sharing=exclusive"),
    ("delete", "commit_log=deltas"),
    ("wal", "commit_log=pages"),
    ("wal", "commit_log=deltas"),
    ("wal", "commit_log=pages&sharing=exclusive"),
];
const ROWS: i64 = 60;

/// Looks until it is so.
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbers(db: &Connection, table: &str) -> litefoot::rusqlite::Result<Vec<i64>> {
    db.prepare(&format!("SELECT n FROM {table} ORDER BY n"))?.query_map([], |row| row.get(0))?.collect()
}

fn is_sound(db: &Connection) -> bool {
    db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
}

/// A VFS of a name of its own: a connection of litefoot's own finds its database by that.
fn register(options: &Options) -> Vfs {
    Vfs::builder(vfs_name("renamed")).options(options.clone()).register().unwrap()
}

/// A database that is open, with logs beside it.
struct Scene {
    directory: TempDir,
    /// Dropped, and so closed, before the directory is.
    old: Option<Connection>,
    options: Options,
    log: u64,
    what: String,
}

impl Scene {
    fn new((mode, options): (&str, &str)) -> Scene {
        // On a file system that has leases.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut set = Options::default();
        set.set_list(options).unwrap();
        let vfs = register(&set);
        let old = vfs.open(directory.path().join("app.db")).unwrap();
        old.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE old(n INTEGER PRIMARY KEY, v); PRAGMA cache_size=10"
        ))
        .unwrap();
        for n in 1..=ROWS {
            old.execute("INSERT INTO old VALUES(?1, randomblob(500))", [n]).unwrap();
        }
        let log = fs::metadata(directory.path().join("app.db-wal")).unwrap().ino();
        let scene = Scene { directory, old: Some(old), options: set, log, what: format!("{mode} {options}") };
        // Whatever becomes of its name, it has one more.
        fs::hard_link(scene.path("app.db"), scene.path("kept.db")).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn old(&self) -> &Connection {
        self.old.as_ref().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(self.directory.path()).unwrap().map(name).collect();
        names.sort();
        names
    }

    /// Another database, by stock SQLite.
    fn make_other(&self, path: &Path) {
        let other = stock(path);
        let make =
            "CREATE TABLE IF NOT EXISTS new(n INTEGER PRIMARY KEY); INSERT OR IGNORE INTO new VALUES(7)";
        // SQLite removes a log beside a new file, and may find it gone.
        while let Err(error) = other.execute_batch(make) {
            assert!(error.to_string().contains("disk I/O error"), "{error}");
        }
    }

    /// Renames another database over this one.
    fn replace(&self) {
        self.make_other(&self.path("other.db"));
        fs::rename(self.path("other.db"), self.path("app.db")).unwrap();
    }

    /// True where the log has its first name.
    fn has_log_at_its_name(&self) -> bool {
        fs::metadata(self.path("app.db-wal")).is_ok_and(|found| found.ino() == self.log)
    }

    fn await_names(&self) {
        await_that(&self.what, || !self.has_log_at_its_name() && !self.path("app.db-commits").exists());
    }

    /// Uses the new database as stock SQLite does, until the log is made and copied to the file.
    fn use_new(&self) {
        let new = stock(&self.path("app.db"));
        assert_eq!(numbers(&new, "new").unwrap(), [7], "{}", self.what);
        assert!(numbers(&new, "old").is_err() && is_sound(&new), "{}", self.what);
        new.execute_batch("PRAGMA journal_mode=wal; INSERT INTO new VALUES(8)").unwrap();
        new.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        new.execute_batch("INSERT INTO new VALUES(9); PRAGMA journal_mode=delete").unwrap();
    }

    /// The old one goes on, and is closed: all of it is where its name was kept, and the new one is as it was.
    fn end(mut self, expected: &[i64]) {
        let old = self.old.take().unwrap();
        let before = fs::read(self.path("app.db")).unwrap();
        assert_eq!(numbers(&old, "old").unwrap(), expected, "{}", self.what);
        let mut expected = expected.to_vec();
        // As with stock SQLite, a journal that would lie beside the new file is not begun.
        if old.execute("INSERT INTO old VALUES(1000, 'late')", []).is_ok() {
            expected.push(1000);
        }
        assert_eq!(numbers(&old, "old").unwrap(), expected, "{}", self.what);
        drop(old);
        assert!(fs::read(self.path("app.db")).unwrap() == before, "{}", self.what);
        assert_eq!(self.names(), ["app.db", "kept.db"], "{}", self.what);
        let kept = stock(&self.path("kept.db"));
        assert_eq!(numbers(&kept, "old").unwrap(), expected, "{}", self.what);
        assert!(is_sound(&kept), "{}", self.what);
        let new = stock(&self.path("app.db"));
        assert_eq!(numbers(&new, "new").unwrap(), [7, 8, 9], "{}", self.what);
        assert!(is_sound(&new), "{}", self.what);
    }
}

fn rows(up_to: i64) -> Vec<i64> {
    (1..=up_to).collect()
}

#[test]
fn a_file_that_is_renamed_over_an_idle_database_meets_no_log() {
    for mode in MODES {
        let scene = Scene::new(mode);
        scene.replace();
        scene.await_names();
        scene.use_new();
        scene.end(&rows(ROWS));
    }
}

#[test]
fn a_database_that_is_made_where_one_was_removed_or_moved_away_meets_no_log() {
    for mode in MODES {
        for is_moved in [false, true] {
            let scene = Scene::new(mode);
            if is_moved {
                fs::rename(scene.path("app.db"), scene.path("away.db")).unwrap();
            } else {
                fs::remove_file(scene.path("app.db")).unwrap();
            }
            if mode.0 != "wal" {
                // Before anybody has the name.
                scene.await_names();
            }
            scene.make_other(&scene.path("app.db"));
            scene.await_names();
            if is_moved {
                fs::remove_file(scene.path("away.db")).unwrap();
            }
            scene.use_new();
            scene.end(&rows(ROWS));
        }
    }
}

#[test]
fn a_transaction_that_has_pages_in_the_log_goes_on_without_its_name() {
    for mode in ["delete", "wal"] {
        for commits in [true, false] {
            let scene = Scene::new((mode, "commit_log=pages&write_buffer_size=64K"));
            scene.old().execute_batch("UPDATE old SET v=randomblob(9000)").unwrap();
            scene.old().execute_batch("BEGIN; UPDATE old SET v=randomblob(9000)").unwrap();
            scene.old().execute_batch("INSERT INTO old VALUES(500, randomblob(500000))").unwrap();
            assert!(metric_or_zero(scene.old(), "spilled_bytes") > 300_000, "{}", scene.what);
            scene.replace();
            scene.await_names();
            scene.use_new();
            let mut expected = rows(ROWS);
            if commits {
                scene.old().execute_batch("INSERT INTO old VALUES(501, 'v'); COMMIT").unwrap();
                expected.extend([500, 501]);
            } else {
                scene.old().execute_batch("ROLLBACK").unwrap();
            }
            if mode == "delete" {
                // Its end has brought everything home, and not the close alone.
                assert_eq!(scene.names(), ["app.db", "kept.db"], "{mode}, commits: {commits}");
            }
            scene.end(&expected);
        }
    }
}

/// What a killed process leaves is taken up by its name. A copy is one more `open`, so nobody is to hear of that.
fn found_after_a_crash(scene: &Scene) -> Vec<i64> {
    let copy = tempfile::tempdir().unwrap();
    copy_as_a_crash_leaves(&scene.path("app.db"), &copy.path().join("app.db"));
    let vfs = Vfs::builder("renamed-after").register().unwrap();
    let db = vfs.open(copy.path().join("app.db")).unwrap();
    numbers(&db, "old").unwrap_or_default()
}

#[test]
fn a_name_that_comes_back_finds_the_logs_beside_it() {
    for (mode, options) in MODES {
        for is_replaced in [true, false] {
            let mut scene = Scene::new((mode, &format!("{options}&sharing=exclusive")));
            fs::remove_file(scene.path("kept.db")).unwrap();
            for round in 1..=3 {
                fs::rename(scene.path("app.db"), scene.path("kept.db")).unwrap();
                if is_replaced {
                    scene.replace();
                    scene.await_names();
                } else if round == 2 {
                    std::thread::sleep(Duration::from_millis(30));
                }
                fs::rename(scene.path("kept.db"), scene.path("app.db")).unwrap();
                await_that(&format!("{}, set aside", scene.what), || {
                    !scene.names().iter().any(|name| name.contains("set-aside"))
                });
                // A thread may be at work on what is copied just now.
                await_that(&format!("{}, before a commit", scene.what), || {
                    found_after_a_crash(&scene) == rows(ROWS + round - 1)
                });
                scene.old().execute("INSERT INTO old VALUES(?1, 'v')", [ROWS + round]).unwrap();
                await_that(&format!("{}, behind a commit", scene.what), || {
                    found_after_a_crash(&scene) == rows(ROWS + round)
                });
            }
            drop(scene.old.take());
            assert_eq!(scene.names(), ["app.db"], "{}", scene.what);
            assert_eq!(numbers(&stock(&scene.path("app.db")), "old").unwrap(), rows(ROWS + 3));
        }
    }
}

#[test]
fn a_log_that_a_transaction_keeps_has_its_name_again_with_the_database() {
    let scene = Scene::new(("delete", "write_buffer_size=64K&sharing=exclusive"));
    fs::remove_file(scene.path("kept.db")).unwrap();
    scene.old().execute_batch("UPDATE old SET v=randomblob(9000)").unwrap();
    scene.old().execute_batch("BEGIN; UPDATE old SET v=randomblob(9000), n=n+1000").unwrap();
    assert!(metric_or_zero(scene.old(), "spilled_bytes") > 300_000);
    fs::rename(scene.path("app.db"), scene.path("kept.db")).unwrap();
    scene.replace();
    scene.await_names();
    fs::rename(scene.path("kept.db"), scene.path("app.db")).unwrap();
    await_that("its log has its name", || scene.has_log_at_its_name());
    assert_eq!(found_after_a_crash(&scene), rows(ROWS));
    scene.old().execute_batch("COMMIT").unwrap();
    assert_eq!(found_after_a_crash(&scene).first(), Some(&1001));
}

#[test]
fn the_last_close_waits_for_what_a_rename_has_begun() {
    for round in 0..24 {
        let mut scene = Scene::new(("delete", "sharing=exclusive"));
        scene.replace();
        std::thread::sleep(Duration::from_micros(round * 300));
        drop(scene.old.take());
        let vfs = Vfs::builder("renamed-again").options(scene.options.clone()).register().unwrap();
        let again = vfs.open(scene.path("kept.db")).unwrap();
        again.busy_timeout(Duration::ZERO).unwrap();
        assert_eq!(numbers(&again, "old").unwrap(), rows(ROWS), "nobody has it any more");
    }
}

/// Stock SQLite has the hazard that its log is another one's, and its journals come and go in the directory.
#[test]
fn only_an_owner_watches_its_directory() {
    let scene = Scene::new(("delete", ""));
    let watches = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|one| fs::read_link(one.ok()?.path()).ok());
        links.filter(|link| link == scene.directory.path()).count()
    };
    assert_eq!(watches(), 1);
    let visitor = stock(&scene.path("app.db"));
    assert_eq!(numbers(&visitor, "old").unwrap(), rows(ROWS));
    assert_eq!(watches(), 0);
    drop(visitor);
    await_that(&scene.what, || numbers(scene.old(), "old").unwrap() == rows(ROWS) && watches() == 1);
}

/// Its own log and its index would lie beside the other one.
#[test]
fn a_database_in_wal_mode_is_not_shared_while_another_one_has_its_name() {
    for form in ["pages", "deltas"] {
        let scene = Scene::new(("wal", &format!("commit_log={form}")));
        scene.replace();
        scene.await_names();
        scene.use_new();
        let visitor = stock(&scene.path("kept.db"));
        visitor.busy_timeout(Duration::from_millis(10)).unwrap();
        assert!(numbers(&visitor, "old").unwrap_err().to_string().contains("locked"));
        scene.old().execute("INSERT INTO old VALUES(?1, 'v')", [ROWS + 1]).unwrap();
        assert!(numbers(&visitor, "old").is_err());
        drop(visitor);
        scene.end(&rows(ROWS + 1));
    }
}

#[test]
fn other_names_in_the_directory_disturb_nobody() {
    for mode in [("delete", ""), ("wal", "commit_log=pages")] {
        let scene = Scene::new(mode);
        let neighbour =
            Vfs::builder("renamed-neighbour").register().unwrap().open(scene.path("b.db")).unwrap();
        neighbour.execute_batch(&format!("PRAGMA journal_mode={}; CREATE TABLE t(n)", mode.0)).unwrap();
        neighbour.execute("INSERT INTO t VALUES(1)", []).unwrap();
        let (there, log) = (scene.path("b.db-wal"), fs::metadata(scene.path("b.db-wal")).unwrap().ino());
        std::thread::scope(|scope| {
            let place = scene.directory.path();
            let noise = scope.spawn(move || {
                for n in 0..5_000 {
                    let [one, two] = ["x", "y"].map(|name| place.join(format!("{name}{}", n % 7)));
                    fs::write(&one, "").unwrap();
                    fs::rename(one, &two).unwrap();
                    fs::remove_file(two).unwrap();
                }
            });
            for n in 1..=20 {
                scene.old().execute("INSERT INTO old VALUES(?1, 'v')", [ROWS + n]).unwrap();
            }
            noise.join().unwrap();
        });
        assert!(scene.has_log_at_its_name(), "{}", scene.what);
        scene.replace();
        scene.await_names();
        assert_eq!(fs::metadata(there).unwrap().ino(), log, "that of a neighbour");
        neighbour.execute("INSERT INTO t VALUES(2)", []).unwrap();
        drop(neighbour);
        fs::remove_file(scene.path("b.db")).unwrap();
        scene.use_new();
        scene.end(&rows(ROWS + 20));
    }
}
