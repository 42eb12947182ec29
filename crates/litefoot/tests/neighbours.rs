//! The files beside a database: whose they are, who may read them, and what others may have put there.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use litefoot_storage::wal_file::format::Header;
use litefoot_testkit::process::{is_root, own_process};
use litefoot_testkit::sqlite::stock;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

const MODES: [&str; 3] = ["delete", "persist", "wal"];
/// Everything that either SQLite or litefoot has beside a database.
const SUFFIXES: [&str; 3] = ["-wal", "-commits", "-journal"];
const PRECIOUS: &str = "what somebody else needs\n";

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A database in a directory of its own, made by stock SQLite.
fn made(directory: &Path, journal_mode: &str) -> PathBuf {
    let path = directory.join("app.db");
    stock(&path).execute_batch(&format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t(a)")).unwrap();
    path
}

/// Mode, user and group of all files of a directory, by name.
fn rights(directory: &Path) -> Vec<(String, u32, u32, u32)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut rights: Vec<_> = entries
        .map(|entry| {
            let found = entry.metadata().unwrap();
            (entry.file_name().into_string().unwrap(), found.mode() & 0o7777, found.uid(), found.gid())
        })
        .collect();
    rights.sort();
    rights
}

#[test]
fn files_beside_a_database_have_its_mode_and_as_root_its_owner() {
    for journal_mode in MODES {
        for mode in [0o600, 0o640, 0o666] {
            let directory = tempfile::tempdir().unwrap();
            let path = made(directory.path(), journal_mode);
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            if is_root() {
                chown(&path, Some(65_534), Some(65_534)).unwrap();
            }
            let (other, wanted) = (directory.path().join("other.db"), fs::metadata(&path).unwrap());
            fs::copy(&path, &other).unwrap();
            if is_root() {
                chown(&other, Some(65_534), Some(65_534)).unwrap();
            }
            let db = Connection::open(&path).unwrap();
            db.execute_batch("INSERT INTO t VALUES('secret')").unwrap();
            // A transaction over two databases has real journals, which PERSIST keeps.
            db.execute("ATTACH ?1 AS other", [other.to_str()]).unwrap();
            db.execute_batch(&format!("PRAGMA other.journal_mode={journal_mode}")).unwrap();
            db.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO other.t VALUES(1); COMMIT")
                .unwrap();
            db.execute_batch("INSERT INTO t VALUES('more')").unwrap();
            let rights = rights(directory.path());
            assert!(rights.len() > 2, "there is nothing beside it: {rights:?}");
            for (name, found, user, group) in rights {
                assert_eq!(found, mode, "{journal_mode}: {name} is {found:o}");
                assert_eq!((user, group), (wanted.uid(), wanted.gid()), "{journal_mode}: {name}");
            }
        }
    }
}

#[test]
fn the_tier_and_the_logs_beside_it_have_the_rights_of_the_database() {
    for journal_mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let fast = tempfile::tempdir().unwrap();
        let path = made(directory.path(), journal_mode);
        fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
        if is_root() {
            chown(&path, Some(65_534), Some(65_534)).unwrap();
        }
        let wanted = fs::metadata(&path).unwrap();
        let name = format!("file:{}?tier={}/tier", path.display(), fast.path().display());
        let db = Connection::open(name).unwrap();
        db.execute_batch(
            "INSERT INTO t VALUES(randomblob(200000)); PRAGMA wal_checkpoint; INSERT INTO t VALUES(1);
             INSERT INTO t VALUES(2)",
        )
        .unwrap();
        let rights = rights(fast.path());
        assert!(!rights.is_empty(), "{journal_mode}");
        for (name, found, user, group) in rights {
            assert_eq!((found, user, group), (0o660, wanted.uid(), wanted.gid()), "{journal_mode}: {name}");
        }
    }
}

#[test]
fn a_new_database_follows_the_umask_as_with_stock_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours.db"), directory.path().join("theirs.db"));
    Connection::open(&ours).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    stock(&theirs).execute_batch("CREATE TABLE t(a)").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode();
    assert_eq!(mode(&ours), mode(&theirs));
}

/// Things that somebody may put where a log or journal is expected.
const IN_THE_WAY: [&str; 4] = ["link to a file", "link to nothing", "pipe", "directory"];

fn put(what: &str, place: &Path, target: &Path) {
    match what {
        "link to a file" => {
            fs::write(target, PRECIOUS).unwrap();
            symlink(target, place).unwrap();
        }
        "link to nothing" => symlink(target, place).unwrap(),
        "pipe" => {
            let name = std::ffi::CString::new(place.to_str().unwrap()).unwrap();
            // SAFETY: the name is terminated.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        }
        _ => fs::create_dir(place).unwrap(),
    }
}

/// Nothing was written through what is in the way, and it is still there.
fn is_untouched(what: &str, place: &Path, target: &Path) {
    assert!(fs::symlink_metadata(place).is_ok(), "{what}: {} is gone", place.display());
    match what {
        "link to a file" => assert_eq!(fs::read_to_string(target).unwrap(), PRECIOUS, "{}", place.display()),
        "link to nothing" => assert!(!target.exists(), "{}: was created through", place.display()),
        _ => {}
    }
}

fn writes(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch("INSERT INTO t VALUES(1)")?;
    db.execute_batch("INSERT INTO t VALUES(2); UPDATE t SET a = a + 1; PRAGMA wal_checkpoint")
}

#[test]
fn what_others_put_in_the_place_of_a_log_is_neither_followed_nor_waited_for() {
    for journal_mode in MODES {
        for suffix in SUFFIXES {
            for what in IN_THE_WAY {
                for late in [false, true] {
                    let directory = tempfile::tempdir().unwrap();
                    let path = made(directory.path(), journal_mode);
                    let (place, target) = (beside(&path, suffix), directory.path().join("target"));
                    // A finished journal that stays there is the database's own.
                    let _ = fs::remove_file(&place);
                    let mut early = None;
                    if late {
                        let db = Connection::open(&path).unwrap();
                        db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
                        early = Some(db);
                    }
                    if place.exists() {
                        continue;
                    }
                    put(what, &place, &target);
                    let done = match early {
                        Some(db) => writes(&db),
                        None => Connection::open(&path).and_then(|db| Ok(writes(&db)?)).map_err(|error| {
                            match error {
                                litefoot::Error::Sqlite(error) => error,
                                other => rusqlite::Error::ToSqlConversionFailure(other.into()),
                            }
                        }),
                    };
                    let case = format!("{journal_mode}, {suffix}, {what}, late: {late}");
                    is_untouched(what, &place, &target);
                    if let Err(error) = done {
                        let said = litefoot::last_error().unwrap_or_default();
                        assert!(
                            said.contains(place.file_name().unwrap().to_str().unwrap()),
                            "{case}: {error}: {said:?} does not name the file"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_symbolic_link_beside_the_database_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = made(directory.path(), "delete");
    symlink(directory.path().join("elsewhere"), beside(&path, "-wal")).unwrap();
    let db = Connection::open(&path).unwrap();
    writes(&db).unwrap_err();
    let said = litefoot::last_error().unwrap();
    assert!(said.contains("app.db-wal") && said.contains("symbolic link"), "{said}");
}

/// Opens a database with the standard streams closed, in a process of its own.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn without_standard_streams() {
    let directory = PathBuf::from(std::env::var("LITEFOOT_TEST_DIRECTORY").unwrap());
    // SQLite's own files come first: it fills the places of closed streams, too.
    Connection::open(directory.join("first.db")).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    for stream in 0..3 {
        // SAFETY: nothing of this process needs them any more.
        unsafe { libc::close(stream) };
    }
    let db = Connection::open(directory.join("app.db")).unwrap();
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    db.execute_batch("PRAGMA temp_store=file; CREATE TEMP TABLE u AS SELECT randomblob(900000)").unwrap();
    let streams: Vec<String> = (0..3)
        .map(|stream| {
            let target = fs::read_link(format!("/proc/self/fd/{stream}"));
            target.map_or_else(|_| "closed".to_owned(), |target| target.display().to_string())
        })
        .collect();
    for stream in 0..3 {
        // Programs print such a thing by mistake. SAFETY: the bytes outlive the call.
        unsafe { libc::write(stream, b"oops".as_ptr().cast(), 4) };
    }
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    fs::write(directory.join("seen"), format!("{streams:?} {sound}")).unwrap();
}

/// What a test in a process of its own has written to the file `seen` of a directory; or how it ended.
fn seen_by(test: &str, directory: &Path) -> String {
    let status = own_process(test).env("LITEFOOT_TEST_DIRECTORY", directory).status().unwrap();
    fs::read_to_string(directory.join("seen")).unwrap_or_else(|_| status.to_string())
}

#[test]
fn no_file_of_a_database_takes_the_place_of_a_standard_stream() {
    let directory = tempfile::tempdir().unwrap();
    let seen = seen_by("without_standard_streams", directory.path());
    assert_eq!(seen, r#"["/dev/null", "/dev/null", "/dev/null"] ok"#);
}

#[test]
fn no_program_that_is_started_inherits_a_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(directory.path())));
    let mut seen = 0;
    for entry in open {
        let descriptor: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: asks only.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        assert!(flags & libc::FD_CLOEXEC != 0, "{entry:?}");
        seen += 1;
    }
    assert!(seen > 0, "the database is not open");
}

/// A redo log of one page, whose last frame says that the database has as many pages as can be.
fn immense_log(page: &[u8]) -> Vec<u8> {
    let header = Header { page_bytes: page.len() as u32, generation: 0, salts: [1, 2], big_endian: false };
    let (head, checksum) = header.encode();
    let (frame, _) = header.encode_frame(checksum, 1, 0x7fff_fffe, page);
    [&head[..], &frame, page].concat()
}

/// Opens a database beside such a log, in a process of its own with little address space.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn beside_an_immense_log() {
    let directory = PathBuf::from(std::env::var("LITEFOOT_TEST_DIRECTORY").unwrap());
    let limit = libc::rlimit { rlim_cur: 6 << 30, rlim_max: 6 << 30 };
    // SAFETY: the structure outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let db = Connection::open(directory.join("app.db")).unwrap();
    let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    fs::write(directory.join("seen"), rows.to_string()).unwrap();
    std::process::exit(0);
}

#[test]
fn a_small_log_that_claims_an_immense_database_takes_no_memory_for_it() {
    for journal_mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let path = made(directory.path(), journal_mode);
        stock(&path).execute_batch("INSERT INTO t VALUES(1)").unwrap();
        let page = fs::read(&path).unwrap()[..4096].to_vec();
        let log = immense_log(&page);
        fs::write(beside(&path, "-wal"), &log).unwrap();
        let theirs: i64 = stock(&path).query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        fs::write(beside(&path, "-wal"), &log).unwrap();
        let seen = seen_by("beside_an_immense_log", directory.path());
        assert_eq!(seen, theirs.to_string(), "{journal_mode}");
    }
}
