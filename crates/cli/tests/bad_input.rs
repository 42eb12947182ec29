//! Bad input: each is answered with a message that names the file and says what to do, an exit code that
//! is not 0, and nothing written.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::process::is_root;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use support::{Owner, PROGRAM, in_namespace, litefoot, output_of, snapshot, stderr_of, stdout_of, succeed};

/// A user without rights of its own, which tests that run as root become: root may do everything.
const NOBODY: u32 = 65_534;

struct Case {
    name: &'static str,
    /// Makes the bad input in an empty directory.
    prepare: fn(&Path),
    /// The commands that meet it.
    commands: &'static [&'static [&'static str]],
    /// Words that the message must contain.
    message: &'static [&'static str],
}

const INSERT: &str = "INSERT INTO t VALUES (2)";
const SELECT: &str = "SELECT * FROM t";

const CASES: &[Case] = &[
    Case {
        name: "not a database",
        prepare: |directory| fs::write(directory.join("a.db"), "timestamp,value\n".repeat(500)).unwrap(),
        commands: &[
            &["sql", "a.db", SELECT],
            &["sql", "a.db", INSERT],
            &["check", "a.db"],
            &["stat", "a.db"],
        ],
        message: &["a.db: is not a SQLite database", "Check the path"],
    },
    Case {
        name: "a file that cannot be written",
        prepare: |directory| {
            database(directory);
            permit(&directory.join("a.db"), 0o444);
        },
        commands: &[&["sql", "a.db", INSERT]],
        message: &["a.db", "nothing was written", "permissions"],
    },
    Case {
        name: "a file that cannot be read",
        prepare: |directory| {
            database(directory);
            permit(&directory.join("a.db"), 0o000);
        },
        commands: &[&["sql", "a.db", SELECT], &["check", "a.db"], &["stat", "a.db"]],
        message: &["a.db", "permissions"],
    },
    Case {
        name: "a directory that cannot be written",
        prepare: |directory| permit(directory, 0o555),
        commands: &[&["sql", "new.db", "CREATE TABLE t(a)"]],
        message: &["new.db", "permissions"],
    },
    Case {
        name: "a missing directory",
        prepare: |_| {},
        commands: &[&["sql", "data/a.db", "CREATE TABLE t(a)"]],
        message: &["data/a.db: the directory data does not exist", "mkdir -p data"],
    },
    Case {
        name: "a missing file",
        prepare: |_| {},
        commands: &[&["check", "a.db"], &["stat", "a.db"], &["sql", "--readonly", "a.db", SELECT]],
        message: &["a.db: no such file", "Check the path"],
    },
    Case {
        name: "a change where only reading was asked for",
        prepare: database,
        commands: &[&["sql", "--readonly", "a.db", INSERT]],
        message: &["a.db: was opened to be read only; nothing was written", "Leave out --readonly"],
    },
    Case {
        name: "a directory in the place of a file",
        prepare: |directory| fs::create_dir(directory.join("a.db")).unwrap(),
        commands: &[&["sql", "a.db", SELECT], &["check", "a.db"], &["stat", "a.db"]],
        message: &["a.db: is ", "Name a database file"],
    },
    Case {
        name: "an unknown URI parameter",
        prepare: database,
        commands: &[
            &["sql", "file:a.db?litefoot_durabilty=off", INSERT],
            &["sql", "file:new.db?litefoot_durabilty=off", "CREATE TABLE t(a)"],
            &["check", "file:a.db?litefoot_durabilty=off"],
        ],
        message: &["unknown option \"durabilty\"", "litefoot knows"],
    },
    Case {
        name: "a file cut off between two pages",
        prepare: |directory| truncate_database(directory, 2 * 4096),
        commands: &[&["sql", "a.db", SELECT], &["sql", "a.db", INSERT]],
        message: &["a.db: is damaged or cut short", "litefoot check"],
    },
    Case {
        name: "a file cut off within a page",
        prepare: |directory| truncate_database(directory, 2 * 4096 + 1000),
        commands: &[&["sql", "a.db", SELECT], &["sql", "a.db", INSERT]],
        message: &["a.db: is damaged or cut short", "litefoot check"],
    },
];

fn database(directory: &Path) {
    let sql = "CREATE TABLE t(a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (zeroblob(40000))";
    succeed(directory, &["sql", "a.db", sql]);
}

fn truncate_database(directory: &Path, bytes: u64) {
    database(directory);
    fs::File::options().write(true).open(directory.join("a.db")).unwrap().set_len(bytes).unwrap();
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The program, without root's rights: a copy, since the build directory may not be open to others.
fn unprivileged(home: &Path, directory: &Path, arguments: &[&str]) -> Command {
    if !is_root() {
        return litefoot(directory, arguments);
    }
    let copy = home.join("litefoot");
    if !copy.exists() {
        fs::copy(PROGRAM, &copy).unwrap();
    }
    let mut command = Command::new(copy);
    command.args(arguments).current_dir(directory).uid(NOBODY).gid(NOBODY);
    command
}

#[test]
fn bad_input_is_named_explained_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    permit(home.path(), 0o755);
    for case in CASES {
        let directory = tempfile::tempdir_in(home.path()).unwrap();
        permit(directory.path(), 0o755);
        (case.prepare)(directory.path());
        if is_root() {
            for path in snapshot(directory.path()).keys() {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let state = || {
            // Without root's rights an unreadable file cannot be compared; its length and time can.
            fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| {
                    let entry = entry.unwrap();
                    let metadata = entry.metadata().unwrap();
                    (entry.path(), metadata.len(), metadata.mtime_nsec(), fs::read(entry.path()).ok())
                })
                .collect::<Vec<_>>()
        };
        let before = state();
        for arguments in case.commands {
            let output = output_of(unprivileged(home.path(), directory.path(), arguments));
            let message = stderr_of(&output);
            let what = format!("{}: litefoot {arguments:?} said\n{message}", case.name);
            assert!(output.status.code().is_some_and(|code| code != 0), "{what}{}", output.status);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{what}");
            for part in case.message {
                assert!(message.contains(part), "{what}expected: {part}");
            }
            assert_eq!(state(), before, "{what}something was written");
        }
        permit(directory.path(), 0o755);
    }
}

#[test]
fn check_explains_a_truncated_file() {
    for (bytes, expected) in [(2 * 4096, "the header says"), (2 * 4096 + 1000, "not a whole number of pages")]
    {
        let directory = tempfile::tempdir().unwrap();
        truncate_database(directory.path(), bytes);
        let before = snapshot(directory.path());
        let output = output_of(litefoot(directory.path(), &["check", "a.db"]));
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{found}");
        assert!(found.starts_with("a.db: ") && found.contains(expected), "{found}");
        assert_eq!(snapshot(directory.path()), before);
    }
}

/// A large transaction writes its new pages behind the end of the file; a crash leaves them there.
#[test]
fn pages_behind_the_end_are_in_nobodys_way() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(1)"]);
    let mut bytes = fs::read(directory.join("a.db")).unwrap();
    bytes.extend([7; 3 * 4096]);
    fs::write(directory.join("a.db"), &bytes).unwrap();
    for arguments in [&["check", "a.db"][..], &["release", "a.db"]] {
        let shown = succeed(directory, arguments);
        assert!(shown.contains("12,288 bytes behind its last page are unused"), "{arguments:?}: {shown}");
    }
    assert!(succeed(directory, &["adopt", "a.db"]).contains("Nothing needs to be changed"));
    succeed(directory, &["sql", "a.db", "VACUUM"]);
    assert_eq!(succeed(directory, &["check", "a.db"]), "a.db: in order\n");
}

#[test]
fn a_second_owner_is_told_who_is_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    database(directory);
    let exclusive = litefoot(directory, &["sql", "file:a.db?sharing=exclusive"]);
    let owner = Owner::start(exclusive, "BEGIN IMMEDIATE");

    let before = snapshot(directory);
    for arguments in [&["sql", "a.db", INSERT][..], &["sql", "a.db", SELECT], &["check", "a.db"]] {
        let output = output_of(litefoot(directory, arguments));
        let message = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.contains("a.db: ") && message.contains("has this database open"),
            "{arguments:?}: {message}"
        );
        assert!(message.contains("Close the other program first"), "{arguments:?}: {message}");
        assert_eq!(snapshot(directory), before, "{arguments:?}");
    }
    owner.end();
    succeed(directory, &["sql", "a.db", INSERT]);
}

/// A file system of 256 KiB that exists only for the commands run in it, in a mount namespace of its own.
const FULL_DISK: &str = r#"
    set -e
    mount -t tmpfs -o size=256k none disk
    cd disk
    "$PROGRAM" sql a.db "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(100000))"
    cp a.db ../before.db
    set +e
    "$PROGRAM" sql a.db "INSERT INTO t VALUES (zeroblob(1000000))" 2> ../message
    echo "$?" > ../code
    set -e
    cmp a.db ../before.db
    "$PROGRAM" check a.db
"#;

#[test]
fn a_full_disk_costs_the_transaction_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let Some(output) = in_namespace(directory, FULL_DISK) else { return };
    assert!(stdout_of(output, "the script").ends_with("a.db: in order\n"));
    let message = fs::read_to_string(directory.join("message")).unwrap();
    assert_eq!(fs::read_to_string(directory.join("code")).unwrap(), "1\n", "{message}");
    assert!(message.contains("a.db: the disk is full") && message.contains("Make room"), "{message}");
}

/// Fills a disk with commits in WAL mode; `$FORM` is set before.
const FULL_DISK_WAL: &str = r#"
    set -e
    mount -t tmpfs -o size=700k none disk
    cd disk
    db="file:a.db?commit_log=$FORM"
    "$PROGRAM" sql "$db" "PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES(zeroblob(3000))"
    set +e
    "$PROGRAM" sql "$db" < ../inserts.sql 2> ../message
    echo "$?" > ../code
    set -e
    ls
    "$PROGRAM" check a.db
    "$PROGRAM" sql "$db" "SELECT 'rows:' || count(*) AS r FROM t"
"#;

const DELETE_MOST: &str = r#"
    "$PROGRAM" sql "$db" "DELETE FROM t WHERE rowid > 5; SELECT 'left:' || count(*) AS r FROM t"
"#;

/// A log of pages has taken the whole disk, as SQLite's has then: nothing can be added to it, nor to the database.
const DELETE_WITH_ROOM: &str = r#"
    stat -f -c 'free:%a:%S' .
    set +e
    "$PROGRAM" sql "$db" "DELETE FROM t WHERE rowid > 5" 2> ../delete-message
    echo "$?" > ../delete-code
    set -e
    "$PROGRAM" check a.db
    "$PROGRAM" sql "$db" "SELECT 'still:' || count(*) AS r FROM t"
    mount -o remount,size=2M ../disk
"#;

/// Runs [`FULL_DISK_WAL`] and `then`, and returns what they print and how many rows were committed; `None` where this
/// system does not let us.
fn fill_disk_in_wal_mode(directory: &Path, form: &str, then: &str) -> Option<(String, u64)> {
    // No function call: SQLite does not show that it is its own, so it would not be logged as a statement.
    let insert = "INSERT INTO t VALUES((SELECT a FROM t WHERE rowid = 1));\n";
    fs::write(directory.join("inserts.sql"), insert.repeat(400)).unwrap();
    let output = in_namespace(directory, &format!("FORM={form}\n{FULL_DISK_WAL}{then}"))?;
    let output = stdout_of(output, "the script");
    let message = fs::read_to_string(directory.join("message")).unwrap();
    assert_eq!(fs::read_to_string(directory.join("code")).unwrap(), "1\n", "{message}");
    assert!(message.contains("the disk is full") && message.contains("Make room"), "{message}");
    let failed: u64 =
        message.split("line ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok()).unwrap();
    // The first row was there before the first line.
    assert!(output.contains("in order") && output.contains(&format!("rows:{failed}\n")), "{message}{output}");
    assert!(form != "pages" || !output.contains("a.db-commits"), "{output}");
    Some((output, failed))
}

/// Transactions that are logged as deltas or statements need space for their pages later: a full disk is met by a commit. What
/// was committed before can be read. A DELETE needs room, too, as with SQLite's own log: it fails only where the disk has none for
/// an image in the redo log of each page of the database.
#[test]
fn a_full_disk_is_met_by_a_commit_in_wal_mode_too() {
    for form in ["deltas", "statements", "pages"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let then = [DELETE_WITH_ROOM, DELETE_MOST].concat();
        let Some((output, rows)) = fill_disk_in_wal_mode(directory, form, &then) else { return };
        let message = fs::read_to_string(directory.join("delete-message")).unwrap();
        let failed = fs::read_to_string(directory.join("delete-code")).unwrap() == "1\n";
        let free: Vec<u64> = output
            .split("free:")
            .nth(1)
            .and_then(|rest| rest.lines().next())
            .map(|found| found.split(':').map(|number| number.parse().unwrap()).collect())
            .unwrap();
        // Each row has a page of its own; few pages more are not of rows.
        let needed = (rows + 16) * (4096 + 24);
        assert!(!failed || free[0] * free[1] < needed, "{free:?} {needed} {message}{output}");
        // The log of pages has taken the whole disk.
        assert!(failed || form != "pages", "{message}{output}");
        let told = message.contains("the disk is full") && message.contains("Make room");
        assert_eq!(told, failed, "{message}");
        assert_eq!(output.matches("in order").count(), 2, "{output}");
        let still = if failed { rows } else { 5 };
        assert!(
            output.contains(&format!("still:{still}\n")) && output.contains("left:5"),
            "{form}: {output}"
        );
    }
}

/// The log is as large as the disk, and the database would be larger than what is left.
const FULL_DISK_ADOPT: &str = r#"
    set -e
    mount -t tmpfs -o size=700k none disk
    cd disk
    cp ../a.db ../a.db-wal .
    set +e
    "$PROGRAM" adopt --yes a.db 2> ../message
    echo "$?" > ../code
    set -e
    mount -o remount,size=2M ../disk
    "$PROGRAM" adopt --yes a.db
    ls
"#;

#[test]
fn a_full_disk_does_not_pass_for_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let elsewhere = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(elsewhere.path().join("a.db")).unwrap();
    let sql = "PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a); INSERT INTO t VALUES(zeroblob(500000))";
    db.execute_batch(sql).unwrap();
    for name in ["a.db", "a.db-wal"] {
        fs::copy(elsewhere.path().join(name), directory.join(name)).unwrap();
    }
    let Some(output) = in_namespace(directory, FULL_DISK_ADOPT) else { return };
    let output = stdout_of(output, "the script");
    let message = fs::read_to_string(directory.join("message")).unwrap();
    assert_eq!(fs::read_to_string(directory.join("code")).unwrap(), "1\n", "{message}{output}");
    assert!(message.contains("the disk is full"), "{message}");
    assert_eq!(output.matches("adopted").count(), 1, "{output}");
    assert!(output.ends_with("a.db\n"), "{output}");
}
