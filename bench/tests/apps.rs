//! `litefoot bench apps`, with what every machine has: Python and its module sqlite3.
//!
//! These tests need `liblitefoot.so` beside the program under test. Without root there is no loop device, and litefoot's
//! own counts are what is looked at.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::files::snapshot;
use litefoot_testkit::process::{finish, output_of, stderr_of, stdout_of};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::bench;

const ARGUMENTS: &[&str] = &["apps", "--quick", "--patterns", "python_kept,python_per_connection"];

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn patterns_are_measured_on_both_sides_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [ARGUMENTS, &["--commits", "40", "--json", "apps.json"]].concat();
    let table = stdout_of(output_of(bench(directory.path(), &arguments)), "litefoot-bench apps");
    let json = std::fs::read_to_string(directory.path().join("apps.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let figures = report["figures"].as_object().unwrap();
    let counted = !table.contains("The device is not counted");
    for mode in ["wal_full", "wal_normal", "delete_full"] {
        for pattern in ["python_kept", "python_per_connection"] {
            let of =
                |name: &str| figures.get(&format!("{pattern}.{mode}.{name}")).map(|v| v.as_f64().unwrap());
            let positive =
                |name: &str| assert!(of(name) > Some(0.0), "{pattern}.{mode}.{name}: {:?}", of(name));
            ["rate_ratio", "stock_per_s", "litefoot_per_s", "own_bytes"].into_iter().for_each(positive);
            let device = ["stock_bytes", "litefoot_bytes", "bytes_ratio", "life_ratio", "stock_life_flushes"];
            match counted {
                true => device.into_iter().for_each(positive),
                false => assert_eq!(device.map(of), [None; 5], "{pattern}.{mode}"),
            }
            // A connection for each commit finds a void log, or a void journal, of the one before.
            if pattern == "python_per_connection" {
                let (syncs, bytes) = if mode == "delete_full" { (4.3, 45_000.0) } else { (2.1, 20_000.0) };
                assert!(of("own_syncs") <= Some(syncs), "{mode}: {:?}", of("own_syncs"));
                assert!(of("own_bytes") <= Some(bytes), "{mode}: {:?}", of("own_bytes"));
                if counted {
                    assert!(of("bytes_ratio") < Some(0.65), "{mode}: {:?}", of("bytes_ratio"));
                    let (ours, stock) = (of("litefoot_flushes").unwrap(), of("stock_flushes").unwrap());
                    assert!(ours <= stock + 0.2, "{mode}: {ours} {stock}");
                }
            }
            // A commit of stock SQLite with a rollback journal syncs the journal twice, the database, and the directory.
            if counted && mode == "delete_full" {
                assert!(of("stock_flushes") > Some(2.5), "{pattern}: {:?}", of("stock_flushes"));
            }
        }
    }
    let left: Vec<_> = snapshot(directory.path()).into_keys().collect();
    assert_eq!(left, [directory.path().join("apps.json")]);
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn an_interrupt_leaves_no_device_and_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bench(directory.path(), &[ARGUMENTS, &["--commits", "1000000"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let work_directory = || std::fs::read_dir(directory.path()).unwrap().next();
    while work_directory().is_none() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Until the device is there, and a program runs.
    std::thread::sleep(Duration::from_millis(2000));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    assert!(snapshot(directory.path()).is_empty());
}

#[test]
fn a_pattern_that_there_is_not_is_named_with_those_that_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let output = output_of(bench(directory.path(), &["apps", "--patterns", "cobol"]));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("there is no pattern \"cobol\"") && said.contains("python_kept"), "{said}");
}
