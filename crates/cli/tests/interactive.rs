//! The prompt, Ctrl-C, and the demo, as somebody at a terminal meets them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::{PROGRAM, Watchdog, finish, litefoot, snapshot, stderr_of, succeed};

/// A prompt on a pseudo-terminal.
struct Prompt {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<u8>,
}

/// How long a prompt may show nothing new before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The file in which the prompt's exit status is left. The status that `script --return` hands on cannot be
/// relied on: where the terminal closes before the child is reaped, it is that of a failed read.
const STATUS: &str = "status";

impl Prompt {
    fn open(directory: &Path) -> Prompt {
        // The shell is in the terminal's foreground group too and must outlive a Ctrl-C.
        let command = format!("trap : INT; {PROGRAM} sql a.db; echo $? > {STATUS}");
        let mut child = Command::new("script")
            .args(["--quiet", "--command", &command, "/dev/null"])
            .current_dir(directory)
            .env("XDG_STATE_HOME", directory.join("state"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = child.stdin.take().unwrap();
        let shown = child.stdout.take().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            BufReader::new(shown).bytes().map_while(Result::ok).try_for_each(|byte| sender.send(byte)).ok();
        });
        Prompt { child, keys, screen }
    }

    /// Reads the screen until `text` has appeared on it.
    fn wait_for(&mut self, text: &str) {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(byte) => seen.push(byte),
                Err(_) => panic!("{text:?} never came: {}", String::from_utf8_lossy(&seen)),
            }
        }
    }

    /// Types, once the prompt is there: what is typed ahead of a prompt is lost.
    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn the_prompt_knows_statements_of_many_lines_dot_commands_ctrl_c_and_history() {
    const CTRL_C: &str = "\u{3}";
    let directory = tempfile::tempdir().unwrap();
    let mut prompt = Prompt::open(directory.path());
    prompt.wait_for("litefoot> ");
    prompt.type_in("CREATE TABLE pair(\r");
    prompt.wait_for("...> ");
    prompt.type_in("a, b);\r");
    prompt.wait_for("litefoot> ");
    prompt.type_in(".tables\r");
    prompt.wait_for("\npair\r\n");
    prompt.wait_for("litefoot> ");
    prompt.type_in("SELEKT 1;\r");
    prompt.wait_for("syntax error");
    // Ctrl-C drops what is half typed …
    prompt.wait_for("litefoot> ");
    prompt.type_in("SELECT 'never\r");
    prompt.wait_for("...> ");
    prompt.type_in(CTRL_C);
    prompt.wait_for("litefoot> ");
    // … and interrupts what runs, without leaving.
    prompt.type_in("SELECT 'runs'; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT max(x) FROM c;\r");
    prompt.wait_for("\nruns\r\n");
    prompt.type_in(CTRL_C);
    prompt.wait_for("interrupted");
    prompt.wait_for("litefoot> ");
    prompt.type_in("SELECT 6 * 7 AS answer;\r");
    prompt.wait_for("\n    42\r\n");
    prompt.wait_for("litefoot> ");
    prompt.type_in(".quit\r");
    prompt.child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(directory.path().join(STATUS)).unwrap(), "0\n");
    let history = std::fs::read_to_string(directory.path().join("state/litefoot/sql_history")).unwrap();
    assert!(history.contains("SELECT 6 * 7 AS answer;"), "{history}");
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn ctrl_c_interrupts_a_statement_and_rolls_it_back() {
    let directory = tempfile::tempdir().unwrap();
    succeed(directory.path(), &["sql", "a.db", "CREATE TABLE t(a)"]);
    let endless = "SELECT 'begun'; INSERT INTO t \
                   WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    let mut child = litefoot(directory.path(), &["sql", "--csv", "a.db", endless])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "begun"));
    interrupt(&child);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr_of(&output).contains("interrupted"), "{}", stderr_of(&output));
    let count = succeed(directory.path(), &["sql", "--csv", "a.db", "SELECT count(*) AS n FROM t"]);
    assert_eq!(count, "n\n0\n");
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let child = litefoot(directory.path(), &["demo", "--readings", "10000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    while snapshot(directory.path()).is_empty() {
        std::thread::yield_now();
    }
    interrupt(&child);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    assert_eq!(snapshot(directory.path()).len(), 0);
}

/// An interrupt at any moment: what was to be made is there whole or not at all, and the database is in order.
#[test]
fn interrupted_work_leaves_things_sound() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let rows = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT randomblob(3000) FROM n";
    succeed(directory, &["sql", "a.db", &format!("CREATE TABLE t(a); {rows}")]);
    std::fs::write(directory.join("g.txt"), format!("2 200000\n{}", "0 1\n".repeat(200_000))).unwrap();
    let before: Vec<_> = snapshot(directory).into_keys().collect();
    for arguments in [
        &["check", "a.db"][..],
        &["backup", "--check", "a.db", "made"],
        &["release", "--journal", "wal", "a.db"],
        &["adopt", "--yes", "a.db"],
        &["pages", "create", "made", "--size", "64M"],
        &["graph", "load", "g.txt", "made"],
    ] {
        for milliseconds in [3, 20, 60] {
            let mut command = litefoot(directory, arguments);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(milliseconds));
            interrupt(&child);
            let output = finish(child);
            let made = directory.join("made");
            match output.status.code() {
                Some(0) => {}
                // Before it listens, the system ends it.
                Some(130) | None => assert!(!made.exists(), "{arguments:?}: half of it is left"),
                _ => panic!("{arguments:?}: {}", stderr_of(&output)),
            }
            let _ = std::fs::remove_file(made);
            succeed(directory, &["check", "a.db"]);
            let after: Vec<_> = snapshot(directory).into_keys().collect();
            assert_eq!(after, before, "{arguments:?}");
        }
    }
}

#[test]
fn the_demo_reads_back_what_each_side_stored_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let text = succeed(directory.path(), &["demo", "--readings", "120"]);
    for part in ["commits/s", "SQLite, its defaults", "litefoot, WAL", "read back all 120 readings"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(snapshot(directory.path()).len(), 0);
}
