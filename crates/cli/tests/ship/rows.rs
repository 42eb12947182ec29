//! Rows to a directory: what is shipped, who is refused, and all of it once more.

use crate::Case;
use crate::support::{litefoot, stderr_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMA: &str = "CREATE TABLE kept(id INTEGER PRIMARY KEY, v); INSERT INTO kept(v) VALUES('a'), ('b');
                      CREATE TABLE left_out(id INTEGER PRIMARY KEY, v); INSERT INTO left_out(v) VALUES('secret');";

/// The lines of all batches, in their order.
fn lines(case: &Case) -> Vec<serde_json::Value> {
    let files = |directory: &Path| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    };
    let sources = files(&case.path().join("rows")).into_iter().filter(|path| path.is_dir());
    let batches = sources.flat_map(|source| files(&source)).filter(|path| path.extension().is_some());
    let texts = batches.map(|file| fs::read_to_string(file).unwrap());
    texts
        .flat_map(|text| {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
        })
        .collect()
}

fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn added(arguments: &[&str]) -> Case {
    let case = Case::new(SCHEMA);
    let url = format!("jsonl://{}", case.path().join("rows").display());
    succeed(case.ship(&[&["add", "a.db", &url, "--name", "rows"], arguments].concat()));
    case
}

#[test]
fn tables_are_left_out_and_deleted_rows_stay_where_that_is_said() {
    let case = added(&["--table", "kept", "--keep-deleted", "kept"]);
    succeed(case.ship(&["run", "--once"]));
    let whole = lines(&case);
    let text = serde_json::to_string(&whole).unwrap();
    assert!(text.contains("kept") && !text.contains("secret"), "{text}");
    let service = case.serve();
    let before = whole.len();
    case.wait_for("the first look", || lines(&case).len() >= 2 * before);
    case.database().execute_batch("DELETE FROM kept WHERE id = 1; INSERT INTO kept(v) VALUES('c')").unwrap();
    case.wait_for("the change", || serde_json::to_string(&lines(&case)).unwrap().contains("\"c\""));
    service.kill();
    let text = serde_json::to_string(&lines(&case)).unwrap();
    assert!(!text.contains("delete"), "{text}");
}

/// The same with what the copy of the device remembers.
fn of_copy(case: &Case, arguments: &[&str]) -> Command {
    litefoot(case.path(), &[&["ship", "--directory", "copied"], arguments].concat())
}

#[test]
fn all_rows_come_once_more_and_a_copy_of_the_device_is_refused_from_then_on() {
    let case = added(&["--interval", "100ms"]);
    succeed(case.ship(&["run", "--once"]));
    // The device is copied, with what it remembers.
    succeed({
        let mut copy = Command::new("cp");
        copy.current_dir(case.path()).args(["-r", "jobs", "copied"]);
        copy
    });
    let before = lines(&case).len();
    let said = succeed(case.ship(&["resync", "rows"]));
    assert!(said.contains("rows: all rows have arrived, as epoch 2"), "{said}");
    let all = lines(&case);
    let head = &all[before];
    assert_eq!((&head["epoch"], &head["batch"], &head["whole"]), (&2.into(), &1.into(), &true.into()));
    assert_eq!(all.len(), 2 * before, "the same rows");
    // The other one goes on as if nothing had been.
    let refused = of_copy(&case, &["run", "--once"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("resync"), "{}", stderr_of(&refused));
    assert_eq!(lines(&case).len(), all.len());
    // It may be the right one, after all.
    let said = succeed(of_copy(&case, &["resync", "rows"]));
    assert!(said.contains("epoch 3"), "{said}");
    assert_eq!(case.ship(&["run", "--once"]).output().unwrap().status.code(), Some(1));
    // A service goes on behind a resync.
    succeed(case.ship(&["resync", "rows"]));
    succeed(case.ship(&["run", "--once"]));
}

#[test]
fn what_cannot_be_sent_anew_says_why() {
    let case = added(&[]);
    let service = case.serve();
    case.wait_for("the first look", || case.path().join("rows").exists() && !lines(&case).is_empty());
    let refusals = [
        (vec!["resync", "rows"], "a service runs"),
        (vec!["resync", "other"], "there are: \"rows\""),
        (vec!["add", "a.db", "file:///tmp/nowhere", "--table", "kept"], "a backup has all tables"),
    ];
    let answers = refusals.map(|(arguments, why)| (case.ship(&arguments).output().unwrap(), why));
    service.kill();
    for (output, why) in answers {
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr_of(&output).contains(why), "{}", stderr_of(&output));
    }
    succeed(case.ship(&["add", "a.db", &case.url(), "--name", "backup"]));
    let refused = case.ship(&["resync", "backup"]).output().unwrap();
    assert!(stderr_of(&refused).contains("a backup has no rows"), "{}", stderr_of(&refused));
}
