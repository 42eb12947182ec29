//! Where files may not be written, unmodified programs meet with litefoot what they meet without.
//!
//! Each case runs `sqlite3` as an ordinary user twice, plain and with the library preloaded, on the same files, and
//! compares what it prints. Where SQLite's own protocol fails for want of its wal-index, litefoot may succeed.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::process::is_root;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{PROGRAM, output_of};

const NOBODY: u32 = 65534;

fn library() -> PathBuf {
    let place = Path::new(PROGRAM).parent().unwrap();
    place.join("liblitefoot.so")
}

/// A copy of the library where every user reaches it.
fn library_for_all(directory: &Path) -> PathBuf {
    let copy = directory.join("liblitefoot.so");
    fs::copy(library(), &copy).unwrap();
    allow(&copy, 0o755);
    copy
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The output and errors of `sqlite3` as an ordinary user.
fn sqlite3(library: Option<&Path>, database: &str, commands: &[&str], directory: &Path) -> String {
    let mut command = Command::new("sqlite3");
    command.arg("-batch").arg(database).args(commands).current_dir(directory);
    command.env_remove("LITEFOOT_OPTIONS").env("LITEFOOT_QUIET", "1");
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = output_of(command);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
}

/// The part of a database that may not be written.
#[derive(Clone, Copy, Debug)]
enum Forbidden {
    Nothing,
    Database,
    Log,
    Both,
    Directory,
    All,
}

/// A database in WAL mode whose last transaction is in its log only, `d/app.db`.
fn database_with_log(base: &Path, keeps_index: bool) {
    let place = base.join("d");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    allow(&place, 0o777);
    let copy = if keeps_index {
        "for f in a.db*; do cp $f app${f#a}; done"
    } else {
        "cp a.db app.db; cp a.db-wal app.db-wal"
    };
    let copy = format!(".shell {copy}");
    let commands = [
        "PRAGMA journal_mode=wal",
        "PRAGMA wal_autocheckpoint=0",
        "CREATE TABLE t(x)",
        "PRAGMA wal_checkpoint",
        "INSERT INTO t VALUES(1)",
        &copy,
    ];
    sqlite3(None, "a.db", &commands, &place);
    for file in ["a.db", "a.db-wal", "a.db-shm"] {
        let _ = fs::remove_file(place.join(file));
    }
}

fn forbid(base: &Path, what: Forbidden) {
    let place = base.join("d");
    let (database, log) = (place.join("app.db"), place.join("app.db-wal"));
    if matches!(what, Forbidden::Database | Forbidden::Both | Forbidden::All) {
        allow(&database, 0o400);
    }
    if matches!(what, Forbidden::Log | Forbidden::Both | Forbidden::All) {
        allow(&log, 0o400);
    }
    if matches!(what, Forbidden::Directory | Forbidden::All) {
        allow(&place, 0o555);
        if is_root() {
            chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

/// A directory that every user reaches; removed at the end.
struct Base(tempfile::TempDir);

impl Base {
    fn new() -> Base {
        let directory = tempfile::tempdir().unwrap();
        allow(directory.path(), 0o777);
        Base(directory)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let place = self.0.path().join("d");
        if place.exists() {
            allow(&place, 0o755);
        }
    }
}

#[test]
fn a_wal_database_that_may_not_be_written_is_read_as_stock_reads_it() {
    let base = Base::new();
    let library = library_for_all(base.path());
    for keeps_index in [true, false] {
        for what in [
            Forbidden::Nothing,
            Forbidden::Database,
            Forbidden::Log,
            Forbidden::Both,
            Forbidden::Directory,
            Forbidden::All,
        ] {
            for (name, sql) in [
                ("app.db", "SELECT 'read', count(*) FROM t"),
                ("file:app.db?mode=ro", "SELECT 'read', count(*) FROM t"),
                ("app.db", "INSERT INTO t VALUES(2); SELECT 'written', count(*) FROM t"),
            ] {
                let [stock, ours] = [None, Some(&*library)].map(|library| {
                    database_with_log(base.path(), keeps_index);
                    forbid(base.path(), what);
                    let said = sqlite3(library, name, &[sql], &base.path().join("d"));
                    allow(&base.path().join("d"), 0o777);
                    said
                });
                // Without an index in a file there is none that could be missing.
                let does_better = !keeps_index && stock.contains("unable to open");
                assert!(
                    ours == stock || (does_better && ours.contains('|')),
                    "{keeps_index} {what:?} {name} {sql}: {stock} / {ours}"
                );
            }
        }
    }
}

#[test]
fn in_a_directory_that_may_not_be_written_a_database_is_read_only() {
    let base = Base::new();
    let library = library_for_all(base.path());
    let place = base.path().join("d");
    for mode in ["delete", "wal"] {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        allow(&place, 0o777);
        let mode = format!("PRAGMA journal_mode={mode}");
        sqlite3(None, "app.db", &[&mode, "CREATE TABLE t(x)"], &place);
        forbid(base.path(), Forbidden::Directory);
        for library in [None, Some(&*library)] {
            let said = sqlite3(library, "app.db", &["INSERT INTO t VALUES(1)"], &place);
            assert!(said.contains("attempt to write a readonly database"), "{mode} {library:?}: {said}");
        }
        let new = "CREATE TABLE t(x)";
        let [stock, ours] = [None, Some(&*library)].map(|library| sqlite3(library, "new.db", &[new], &place));
        assert_eq!(ours, stock);
        allow(&place, 0o777);
    }
}

#[test]
fn parameters_of_others_are_ignored_by_a_program_that_knows_nothing_of_litefoot() {
    let base = Base::new();
    let library = library_for_all(base.path());
    let said = |parameters: &str| {
        let name = format!("file:app.db?{parameters}");
        sqlite3(Some(&library), &name, &["SELECT 'opened'"], base.path())
    };
    for parameters in [
        "another=x",
        "readonly_shm=0",
        "commit_logs=pages",
        "_txlock=immediate&psow=0",
        "litefoot_buffer_pool_size=4M",
    ] {
        assert_eq!(said(parameters), "opened", "{parameters}");
    }
    assert!(said("litefoot_commit_logs=pages").contains("unknown option \"commit_logs\""));
    assert!(said("commit_logs=pages&vfs=litefoot").contains("unknown option \"commit_logs\""));
}
