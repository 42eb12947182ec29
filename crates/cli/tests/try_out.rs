//! `litefoot try`: the sides are compared, and the user's databases stay as they are.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{finish, litefoot, output_of, snapshot, stderr_of, stdout_of, succeed};

const INSERTS: u64 = 30;

/// A database of stock SQLite's, and a script of small transactions; `None` where there is no `sqlite3`.
fn prepare(directory: &Path, journal_mode: &str) -> Option<String> {
    let schema = format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t(a, b)");
    let mut stock = Command::new("sqlite3");
    stock.args(["app.db", &schema]).current_dir(directory);
    if !stock.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no sqlite3");
        return None;
    }
    Some("INSERT INTO t VALUES(1, hex(randomblob(20)));".repeat(INSERTS as usize))
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn both_sides_do_the_same_work_on_copies() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let Some(script) = prepare(directory, mode) else { return };
        let before = snapshot(directory);
        let said =
            succeed(directory, &["try", "--rounds", "2", "--json", "--", "sqlite3", "app.db", &script]);
        assert_eq!(snapshot(directory), before, "{mode}: something of the user's was changed, or left");
        let object: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(object["rounds"], 2);
        let path = directory.canonicalize().unwrap().join("app.db");
        assert_eq!(object["databases"], serde_json::json!([path.to_str().unwrap()]));
        for side in ["stock", "litefoot"] {
            let figures = &object[side];
            assert_eq!(figures["commits"], INSERTS as f64, "{mode}, {side}: {object:#}");
            let syncs = figures["syncs_per_commit"].as_f64().unwrap();
            assert!(
                (0.9..8.0).contains(&syncs) && figures["bytes_per_commit"].as_f64().unwrap() >= 4096.0,
                "{mode}: {object:#}"
            );
        }
        // A rollback journal is made, synced twice with its directory, and deleted: at least three syncs on stock's side.
        let [stock, ours] =
            ["stock", "litefoot"].map(|side| object[side]["syncs_per_commit"].as_f64().unwrap());
        assert!(mode == "wal" || (stock >= 3.0 && ours < stock), "{object:#}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn databases_that_the_program_makes_stay_in_the_trial() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let Some(_) = prepare(directory, "delete") else { return };
    fs::remove_file(directory.join("app.db")).unwrap();
    let said = succeed(directory, &["try", "--rounds", "1", "--", "sqlite3", "new.db", "CREATE TABLE t(a)"]);
    assert!(said.contains("new.db") && said.contains("commits/s") && said.contains("syncs/commit"), "{said}");
    assert!(snapshot(directory).is_empty(), "{said}");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn what_cannot_be_compared_is_said_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let Some(_) = prepare(directory, "delete") else { return };
    let before = snapshot(directory);
    for (program, message) in [
        (&["true"][..], "opened no database"),
        (&["sqlite3", "app.db", "SELECT count(*) FROM t"], "committed nothing"),
        (&["sqlite3", "app.db", "INSERT INTO missing VALUES(1)"], "no such table"),
        (&["no-such-program"], "no such program"),
    ] {
        let output = output_of(litefoot(directory, &[&["try", "--rounds", "1", "--"], program].concat()));
        assert!(output.status.code().is_some_and(|code| code != 0), "{program:?}");
        assert!(stderr_of(&output).contains(message), "{program:?}: {}", stderr_of(&output));
        assert_eq!(snapshot(directory), before, "{program:?}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn an_interrupt_ends_the_program_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let Some(_) = prepare(directory, "delete") else { return };
    let before = snapshot(directory);
    let script = "sqlite3 app.db 'INSERT INTO t VALUES(1, 2)'; touch began; exec sleep 600";
    let mut command = litefoot(directory, &["try", "--", "sh", "-c", script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while !directory.join("began").exists() {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(directory.join("began")).unwrap();
    let mut kill = Command::new("kill");
    kill.args(["-INT", &child.id().to_string()]);
    stdout_of(output_of(kill), "kill");
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    assert_eq!(snapshot(directory), before);
}
