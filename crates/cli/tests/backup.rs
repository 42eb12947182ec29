//! `litefoot backup`: consistent copies beside programs that write, whole or not at all.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::sqlite::{number, stock};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use support::{
    Owner, Watchdog, crashed_in, finish, in_namespace, litefoot, run, stderr_of, stdout_of, succeed,
};

/// Pages that are not rewritten make the copy take several steps.
const SCHEMA: &str = "CREATE TABLE count(a); INSERT INTO count VALUES(0); CREATE TABLE other(a); \
                      INSERT INTO other VALUES(0); CREATE TABLE blob(a);";

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The count in a copy, which is in order.
fn counted(copy: &Path) -> i64 {
    let copy = stock(copy);
    let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let [count, other] = ["count", "other"].map(|table| number(&copy, &format!("SELECT a FROM {table}")));
    assert_eq!(count, -other, "half of a transaction was copied");
    count
}

#[test]
fn a_copy_is_one_moment_of_a_database_that_stock_sqlite_writes() {
    for mode in ["wal", "delete", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let writer = stock(&directory.join("a.db"));
        writer.busy_timeout(Duration::from_secs(60)).unwrap();
        writer
            .execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF; {SCHEMA}"))
            .unwrap();
        let pages = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) \
                     INSERT INTO blob SELECT randomblob(4000) FROM n";
        writer.execute_batch(pages).unwrap();
        let (committed, stop) = (AtomicI64::new(0), AtomicBool::new(false));
        let (committed, stop) = (&committed, &stop);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let change = "BEGIN; UPDATE count SET a = a + 1; UPDATE other SET a = a - 1; COMMIT";
                    writer.execute_batch(change).unwrap();
                    committed.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            for round in 0..3 {
                let before = committed.load(Ordering::SeqCst);
                let copy = format!("{round}.db");
                let output = run(directory, &["backup", "a.db", &copy, "--check"]);
                let after = committed.load(Ordering::SeqCst) + 1;
                stop.store(!output.status.success(), Ordering::Relaxed);
                assert!(stdout_of(output, mode).starts_with(&format!("{copy}: complete, ")));
                let count = counted(&directory.join(&copy));
                let of_one_moment = before <= count && count <= after;
                stop.store(!of_one_moment || round == 2, Ordering::Relaxed);
                assert!(of_one_moment, "{mode}: {before} <= {count} <= {after}");
            }
        });
    }
}

#[test]
fn a_copy_has_the_pages_the_mode_and_the_owner_of_its_database() {
    for mode in ["wal", "delete"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        succeed(
            directory,
            &["sql", "a.db", &format!("PRAGMA page_size=1024; PRAGMA journal_mode={mode}; {SCHEMA}")],
        );
        fs::set_permissions(directory.join("a.db"), fs::Permissions::from_mode(0o640)).unwrap();
        succeed(directory, &["backup", "a.db", "--to", "copy.db"]);
        let [found, copy] = ["a.db", "copy.db"].map(|name| fs::metadata(directory.join(name)).unwrap());
        assert_eq!(copy.mode() & 0o777, 0o640);
        assert_eq!((copy.uid(), copy.gid(), copy.len()), (found.uid(), found.gid(), found.len()));
        assert!(!names(directory).iter().any(|name| name.starts_with("copy.db-") || name.contains("tmp")));
        let now: String =
            stock(&directory.join("copy.db")).query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(now, mode);
        assert_eq!(counted(&directory.join("copy.db")), 0);
    }
}

#[test]
fn what_a_crash_has_left_is_in_the_copy() {
    for (mode, form) in [("wal", "deltas"), ("wal", "statements"), ("delete", "deltas"), ("delete", "pages")]
    {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        crashed_in(directory, mode, form);
        succeed(directory, &["backup", "a.db", "copy.db", "--check"]);
        let copy = stock(&directory.join("copy.db"));
        assert_eq!(number(&copy, "SELECT count(*) FROM t"), 2, "{mode} {form}");
    }
}

#[test]
fn an_empty_database_has_an_empty_copy() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("a.db"), "").unwrap();
    succeed(directory, &["backup", "a.db", "copy.db", "--check"]);
    assert_eq!(number(&stock(&directory.join("copy.db")), "SELECT count(*) FROM sqlite_schema"), 0);
}

/// An owner that shares the database is copied; one that does not is named.
#[test]
fn the_database_of_a_working_application_is_copied() {
    for (mode, sharing) in
        [("wal", "auto"), ("delete", "auto"), ("wal", "exclusive"), ("delete", "exclusive")]
    {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let sql =
            format!("PRAGMA journal_mode={mode}; {SCHEMA} UPDATE count SET a = 1; UPDATE other SET a = -1");
        let mut owner =
            Owner::start(litefoot(directory, &["sql", &format!("file:a.db?sharing={sharing}")]), &sql);
        let output = run(directory, &["backup", "a.db", "copy.db", "--wait", "0"]);
        assert_eq!(output.status.success(), sharing == "auto", "{mode}, {sharing}");
        if sharing == "auto" {
            assert_eq!(counted(&directory.join("copy.db")), 1);
        } else {
            let message = stderr_of(&output);
            let named = format!("a.db: process {} (litefoot) has this database open", owner.id());
            assert!(message.contains(&named) && message.contains("Close the other"), "{message}");
            assert!(!names(directory).iter().any(|name| name.contains("copy") || name.contains("tmp")));
        }
        owner.tell("UPDATE count SET a = 2");
        owner.end();
    }
}

#[test]
fn a_copy_streams_to_standard_output_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", &format!("{SCHEMA} INSERT INTO blob VALUES(zeroblob(900000))")]);
    fs::create_dir(directory.join("tmp")).unwrap();
    let output = run(directory, &["backup", "a.db", "--to", "-", "--tmp", "tmp", "--check"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    succeed(directory, &["backup", "a.db", "copy.db"]);
    assert_eq!(output.stdout, fs::read(directory.join("copy.db")).unwrap());
    // A reader that has had enough.
    let mut child = litefoot(directory, &["backup", "a.db", "--to", "-", "--tmp", "tmp"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 16];
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"SQLite format 3\0");
    drop(reader);
    assert_eq!(finish(child).status.code(), Some(141));
    assert_eq!(names(&directory.join("tmp")), Vec::<String>::new());
}

#[test]
fn ctrl_c_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let writer = stock(&directory.join("a.db"));
    writer.execute_batch(&format!("{SCHEMA} BEGIN EXCLUSIVE")).unwrap();
    let child = litefoot(directory, &["backup", "a.db", "copy.db"]).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::over(&child);
    // It waits for the lock once its temporary file is there.
    while !names(directory).iter().any(|name| name.contains("litefoot-backup")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(names(directory), ["a.db"]);
}

#[test]
fn a_damaged_copy_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(
        directory,
        &["sql", "a.db", "CREATE TABLE t(a); CREATE INDEX i ON t(a); INSERT INTO t VALUES(1)"],
    );
    let mut bytes = fs::read(directory.join("a.db")).unwrap();
    let index = bytes.len() - 4096;
    bytes[index..].fill(0);
    fs::write(directory.join("a.db"), bytes).unwrap();
    let output = run(directory, &["backup", "a.db", "copy.db", "--check"]);
    let message = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("a.db: its copy is damaged, and was not kept"), "{message}");
    assert_eq!(names(directory), ["a.db"]);
}

/// What stands at the place of the copy, or cannot be a place.
#[test]
fn nothing_is_replaced_that_should_stay() {
    type Prepare = fn(&Path);
    let nothing: Prepare = |_| {};
    let cases: [(&str, Prepare, &[&str], i32, &str); 12] = [
        (
            "exists",
            |at| fs::write(at.join("b.db"), "mine").unwrap(),
            &["a.db", "b.db"],
            1,
            "b.db: there is a file already",
        ),
        (
            "directory",
            |at| fs::create_dir(at.join("b")).unwrap(),
            &["a.db", "b", "--force"],
            1,
            "b: is a directory",
        ),
        ("itself", nothing, &["a.db", "a.db", "--force"], 1, "a.db: is the database itself"),
        (
            "itself by another name",
            |at| fs::hard_link(at.join("a.db"), at.join("b.db")).unwrap(),
            &["a.db", "b.db", "--force"],
            1,
            "b.db: is the database itself",
        ),
        ("no directory", nothing, &["a.db", "none/b.db"], 1, "none: no such directory"),
        (
            "a log of another",
            |at| fs::write(at.join("b.db-wal"), "log").unwrap(),
            &["a.db", "b.db"],
            1,
            "b.db-wal: there is a log",
        ),
        (
            "a journal of another",
            |at| fs::write(at.join("b.db-journal"), "log").unwrap(),
            &["a.db", "b.db", "--force"],
            1,
            "b.db-journal: there is a log",
        ),
        ("no database", nothing, &["none.db", "b.db"], 1, "none.db: no such file"),
        (
            "not a database",
            |at| fs::write(at.join("a.txt"), "text, and longer than a header is. ".repeat(9)).unwrap(),
            &["a.txt", "b.db"],
            1,
            "a.txt: is not a SQLite database",
        ),
        ("no place", nothing, &["a.db"], 2, "required"),
        ("two places", nothing, &["a.db", "b.db", "--to", "c.db"], 2, "cannot be used with"),
        ("a temporary place for nothing", nothing, &["a.db", "b.db", "--tmp", "."], 2, "--tmp is for --to -"),
    ];
    for (name, prepare, arguments, code, message) in cases {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        succeed(directory, &["sql", "a.db", SCHEMA]);
        prepare(directory);
        let before = support::snapshot(directory);
        let output = run(directory, &[&["backup"], arguments].concat());
        let said = stderr_of(&output);
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
        assert!(said.contains(message), "{name}: {said}");
        assert_eq!(support::snapshot(directory), before, "{name}");
    }
}

#[test]
fn a_file_is_replaced_only_by_force_and_only_while_nobody_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", SCHEMA]);
    // Its logs are void, and would be taken for those of the copy.
    let other = stock(&directory.join("b.db"));
    other.execute_batch("PRAGMA journal_mode=persist; CREATE TABLE t(a)").unwrap();
    let refused = run(directory, &["backup", "a.db", "b.db", "--force"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("b.db: process "), "{}", stderr_of(&refused));
    drop(other);
    assert!(directory.join("b.db-journal").exists());
    std::os::unix::fs::symlink("b.db", directory.join("link.db")).unwrap();
    succeed(directory, &["backup", "a.db", "link.db", "--force"]);
    assert_eq!(counted(&directory.join("b.db")), 0);
    assert_eq!(names(directory), ["a.db", "b.db", "link.db"], "the link stays, and leads to the copy");
}

/// A disk that has no room for the copy.
const FULL_DISK: &str = r#"
    mount -t tmpfs -o size=256k none disk
    "$PROGRAM" backup a.db disk/copy.db 2> message
    echo "$?" > code
    ls -A disk
"#;

#[test]
fn a_full_disk_keeps_nothing_of_the_copy() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(zeroblob(1000000))"]);
    let Some(output) = in_namespace(directory, FULL_DISK) else { return };
    assert_eq!(stdout_of(output, "the script"), "", "nothing is left");
    let message = fs::read_to_string(directory.join("message")).unwrap();
    assert_eq!(fs::read_to_string(directory.join("code")).unwrap(), "1\n", "{message}");
    assert!(message.contains("disk: the disk is full") && message.contains("Make room"), "{message}");
}
