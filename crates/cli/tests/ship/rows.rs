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
    batches(case).concat()
}

/// The lines of each batch.
pub fn batches(case: &Case) -> Vec<Vec<serde_json::Value>> {
    let files = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    };
    let sources = files(&case.path().join("rows")).into_iter().filter(|path| path.is_dir());
    let batches = sources.flat_map(|source| files(&source)).filter(|path| path.extension().is_some());
    let texts = batches.map(|file| fs::read_to_string(file).unwrap());
    texts.map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()).collect()
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
        (vec!["add", "a.db", "file:///tmp/nowhere", "--history"], "a backup has all tables"),
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

/// The minute of the day so many minutes from now, as windows have it.
fn time_of_day(minutes: i64) -> String {
    let now = Command::new("date").args(["-d", &format!("{minutes} minutes"), "+%H:%M"]).output().unwrap();
    String::from_utf8(now.stdout).unwrap().trim().to_owned()
}

#[test]
fn outside_of_its_window_a_job_waits_until_that_is_too_long() {
    let other_time = format!("{}-{}", time_of_day(120), time_of_day(180));
    let (in_time, is_late) = (format!("{}-{}", time_of_day(-60), time_of_day(60)), ["--max-lag", "1s"]);
    let wait_and_see = |arguments: &[&str]| {
        let case = added(&[&["--interval", "100ms", "--window"], arguments].concat());
        let service = case.serve();
        let status = || succeed_or_not(case.ship(&["status"]));
        case.wait_for("a state", || !status().contains("starting") && !status().contains("no service"));
        let is_waiting = status().contains("waits for its window");
        assert!(!is_waiting || case.ship(&["status"]).output().unwrap().status.success(), "nothing is wrong");
        case.wait_for("a batch", || is_waiting && arguments.len() == 1 || !lines(&case).is_empty());
        let is_empty = lines(&case).is_empty();
        assert!(service.terminate().success());
        assert_eq!(is_empty, lines(&case).is_empty(), "nor is there a last look");
        (is_waiting, is_empty)
    };
    assert_eq!(wait_and_see(&[&other_time]), (true, true));
    assert_eq!(wait_and_see(&[&in_time]), (false, false));
    assert_eq!(wait_and_see(&[&[other_time.as_str()], &is_late[..]].concat()), (true, false));
    let refused = |arguments: &[&str]| {
        let case = Case::new(SCHEMA);
        stderr_of(&case.ship(&[&["add", "a.db", "jsonl:///tmp/x"], arguments].concat()).output().unwrap())
    };
    assert!(refused(&["--window", "2-4"]).contains("two times of the day"));
    assert!(refused(&["--max-lag", "1h"]).contains("--window"));
}

fn succeed_or_not(mut command: Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn a_changeset_of_sqlites_is_in_the_head_where_that_is_said() {
    let case = added(&["--format", "changeset"]);
    let service = case.serve();
    case.wait_for("the first look", || !lines(&case).is_empty());
    let before = lines(&case).len();
    case.database()
        .execute_batch("UPDATE kept SET v = 'changed'; CREATE TABLE new(a); INSERT INTO new VALUES(1)")
        .unwrap();
    assert!(service.terminate().success());
    let last = &lines(&case)[before..];
    let told: Vec<_> = last[1..]
        .iter()
        .map(|line| (line["table"].as_str().unwrap(), line["op"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("new", "define"), ("new", "insert")]);
    // 'T', two columns of which the first is the key, the name, and two updates.
    assert!(last[0]["changeset"].as_str().unwrap().starts_with("VAIBAGtlcHQAFw"), "{}", last[0]);
}

#[test]
fn lines_are_events_of_debezium_where_that_is_said() {
    let case = added(&["--format", "debezium", "--table", "kept"]);
    succeed(case.ship(&["run", "--once"]));
    let service = case.serve();
    let ops = || lines(&case).iter().map(|line| line["op"].as_str().unwrap().to_owned()).collect::<String>();
    // Each start sends all rows.
    case.wait_for("the first look", || ops() == "mtrrmtrr");
    case.database().execute_batch("DELETE FROM kept WHERE id = 1; UPDATE kept SET v = 'c'").unwrap();
    service.kill();
    succeed(case.ship(&["run", "--once"]));
    assert_eq!(ops(), "mtrrmtrrmtr");
    let last = lines(&case).pop().unwrap();
    assert_eq!((&last["source"]["db"], &last["after"]["v"]), (&"a".into(), &"c".into()));
    let refused = case.ship(&["add", "a.db", "postgres://x@y/z", "--format", "debezium"]).output().unwrap();
    assert!(stderr_of(&refused).contains("jsonl: and NATS"), "{}", stderr_of(&refused));
}
