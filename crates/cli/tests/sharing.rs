//! Commands beside a program that has the database open.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::sqlite::stock;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Owner, finish, litefoot, run, snapshot, stderr_of, succeed};

/// The words of a command beside an owner that does not share its database.
const REFUSED: &str = "has this database open";

fn exit_code(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let output = run(directory, arguments);
    (output.status.code().unwrap(), stderr_of(&output))
}

/// Counts how often a file is opened, by anybody.
struct Opens(std::fs::File);

impl Opens {
    fn of(path: &Path) -> Opens {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the descriptor is new and belongs to nobody else; the path ends with NUL.
        let file = unsafe {
            let file = std::fs::File::from_raw_fd(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC));
            assert!(libc::inotify_add_watch(file.as_raw_fd(), path.as_ptr(), libc::IN_OPEN) > 0);
            file
        };
        Opens(file)
    }

    /// Events since the last call; equal ones that follow one another may be one.
    fn count(&self) -> usize {
        let mut events = [0; 4096];
        let bytes = (&self.0).read(&mut events).unwrap_or(0);
        bytes / size_of::<libc::inotify_event>()
    }
}

#[test]
fn commands_that_read_are_visitors_beside_stock_sqlite() {
    for mode in ["wal", "delete"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let db = stock(&directory.join("a.db"));
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)"
        ))
        .unwrap();
        assert_eq!(succeed(directory, &["check", "a.db"]), "a.db: in order\n");
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(succeed(directory, &["check", "a.db"]), "a.db: in order\n");
    }
}

/// A database that its owner does not share, and a command that must not change that: nothing is opened, and files stay.
#[test]
fn what_only_looks_leaves_the_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let owner =
        Owner::start(litefoot(directory, &["sql", "file:a.db?sharing=exclusive"]), "CREATE TABLE t(a)");
    let before = snapshot(directory);

    let opens = Opens::of(&directory.join("a.db"));
    let stat = succeed(directory, &["stat", "a.db"]);
    assert!(
        stat.contains("not read: its owner keeps others out") && stat.contains(") keeps others out"),
        "{stat}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&succeed(directory, &["stat", "--json", "a.db"])).unwrap();
    assert_eq!((&json["header"], &json["sharing"]["state"]), (&serde_json::Value::Null, &"owned".into()));
    assert_eq!(
        (&json["sharing"]["changes"], &json["sharing"]["because"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert!(
        succeed(directory, &["stat", "--prometheus", "a.db"])
            .contains("litefoot_multi_process{database=\"a.db\"} 0")
    );

    succeed(directory, &["stat", "--watch", "--interval", "0.1", "--count", "1", "a.db"]);
    assert_eq!(opens.count(), 0, "its owner would share the database");

    let named = format!("process {} (litefoot) ", owner.id());
    for (arguments, reads) in [
        (&["release", "a.db"][..], false),
        (&["release", "a.db", "--wait", "1"], false),
        (&["recover", "a.db"], false),
        (&["adopt", "a.db"], false),
        (&["tier", "drain", "a.db"], false),
        (&["check", "a.db"], true),
        (&["sql", "--readonly", "a.db", "SELECT * FROM t"], true),
        (&["backup", "a.db", "b.db", "--wait", "0"], true),
    ] {
        let (code, message) = exit_code(directory, arguments);
        assert_eq!(code, 1, "{arguments:?}: {message}");
        assert!(message.contains(&named) && message.contains(REFUSED), "{arguments:?}: {message}");
        assert_eq!(opens.count() > 0, reads, "{arguments:?}");
        assert_eq!(snapshot(directory), before, "{arguments:?}");
        // The snapshot has opened it, too.
        opens.count();
    }
    let (code, message) = exit_code(directory, &["yield", "a.db", "--wait", "0", "--", "touch", "was-run"]);
    assert!(code == 1 && message.contains(&named) && message.contains("does not share"), "{message}");
    assert_eq!(snapshot(directory), before, "the program was not run");

    let waiting =
        litefoot(directory, &["release", "a.db", "--wait", "60"]).stderr(Stdio::piped()).spawn().unwrap();
    owner.end();
    let output = finish(waiting);
    assert!(output.status.success(), "{}", stderr_of(&output));
}

#[test]
fn a_database_that_stock_sqlite_has_open_is_not_released() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let db = stock(&directory.join("a.db"));
    db.execute_batch("PRAGMA journal_mode=persist; CREATE TABLE t(a)").unwrap();
    let (code, message) = exit_code(directory, &["release", "a.db"]);
    assert!(code == 1 && message.contains(REFUSED), "its journal may be in use at any moment: {message}");
    drop(db);
    succeed(directory, &["release", "a.db"]);
    assert!(!directory.join("a.db-journal").exists());
}

#[test]
fn a_program_runs_while_the_file_is_held_open() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a)"]);
    // The parent of the shell is the command.
    let script = "echo run; ls -l /proc/$PPID/fd | grep -c a.db; exit 7";
    let output = run(directory, &["yield", "a.db", "--", "sh", "-c", script]);
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()),
        (Some(7), "run\n1\n")
    );
    assert!(
        stderr_of(&output).contains("a.db: no program that can be seen has it open"),
        "{}",
        stderr_of(&output)
    );
    for (arguments, code, message) in [
        (&["yield", "a.db", "--", "no-such-program"][..], 127, "no-such-program: no such program"),
        (&["yield", "a.db", "--", "./a.db"], 126, "a.db: cannot be run"),
        (&["yield", "none.db", "--", "true"], 1, "none.db: no such file"),
        (&["yield", ".", "--", "true"], 1, "is not a regular file"),
        (&["yield", "a.db"], 2, "required"),
        (&["yield", "a.db", "true"], 2, "unexpected argument"),
    ] {
        let (found, said) = exit_code(directory, arguments);
        assert_eq!(found, code, "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}

#[test]
fn signals_reach_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a)"]);
    for (script, code) in
        [("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done", 9), ("echo up; exec sleep 100", 143)]
    {
        let mut child = litefoot(directory, &["yield", "a.db", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(finish(child).status.code(), Some(code), "{script}");
    }
}

/// A process that is killed where its test fails.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_group_is_held_until_a_signal_comes() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a)"]);
    let mut hold = Killed(litefoot(directory, &["hold", "a.db"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(hold.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("the group stays"), "{line}");
    for n in 0..3 {
        let insert = format!("INSERT INTO t VALUES({n})");
        succeed(directory, &["sql", "file:a.db?sharing=group", &insert]);
    }
    // One that stays is seen with its number.
    let mut member = litefoot(directory, &["sql", "file:a.db?sharing=group"]);
    let mut member = Killed(member.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut input = member.0.stdin.take().unwrap();
    input.write_all(b"SELECT count(*) FROM t;\n").unwrap();
    let mut answer = BufReader::new(member.0.stdout.take().unwrap());
    answer.read_line(&mut line).unwrap();
    let (leader, process) = (hold.0.id(), member.0.id());
    let stat = succeed(directory, &["stat", "a.db"]);
    let expected = format!("leads; commits for 1 connection of process {process} (litefoot), ");
    assert!(stat.contains(&expected), "{stat}");
    let doctor = run(directory, &["doctor", &process.to_string()]).stdout;
    let doctor = String::from_utf8(doctor).unwrap();
    let expected = format!("a.db: on litefoot, as a member of the group of process {leader} (litefoot)");
    assert!(doctor.contains(&expected), "{doctor}");
    drop(input);
    assert_eq!(member.0.wait().unwrap().code(), Some(0));
    // The end of the last one may not have been heard yet.
    let says = |what: &str| succeed(directory, &["stat", "a.db"]).contains(what);
    assert!((0..200).any(|_| says("leads; commits for 0 connections of other processes")));
    let status = Command::new("kill").args(["-TERM", &hold.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(hold.0.wait().unwrap().code(), Some(0));
    let rows = stock(&directory.join("a.db")).query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    assert_eq!(rows, Ok(3));
    let (code, message) = exit_code(directory, &["hold", "none.db"]);
    assert_eq!(code, 1, "{message}");
}
