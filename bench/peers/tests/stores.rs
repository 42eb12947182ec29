//! The program as the experiment calls it.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_litefoot-peers")).args(arguments).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_store_that_was_built_in_keeps_what_it_is_given_and_syncs_each_commit() {
    for store in lines(&run(&[])) {
        let name = store["name"].as_str().unwrap();
        assert!(store["version"].as_str().unwrap().contains('.'), "{store}");
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().to_str().unwrap();
        let round =
            lines(&run(&[name, path, r#"{"commits": 20, "rows": 300, "reads": 100, "seed": 3}"#])).remove(0);
        assert_eq!(round["commit_ns"].as_array().unwrap().len(), 20, "{name}");
        assert!(round["syncs"].as_u64().unwrap() >= 20, "{name}: {}", round["syncs"]);
        assert!(round["bytes"].as_u64().unwrap() >= 20 * 4096, "{name}: {}", round["bytes"]);
        assert!(round["reads_ns"].as_u64().unwrap() > 0 && round["scan_ns"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn several_threads_write_a_store_and_every_commit_is_there() {
    for store in lines(&run(&[])).iter().filter(|store| store["concurrent"] == true) {
        let name = store["name"].as_str().unwrap();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().to_str().unwrap();
        for rate in ["null", "500.0"] {
            let plan = format!(r#"{{"threads": 4, "time_ms": 40, "arrivals_per_s": {rate}, "seed": 3}}"#);
            let load = lines(&run(&["load", name, path, &plan])).remove(0);
            assert!(!load["latencies_ns"].as_array().unwrap().is_empty(), "{name}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{name}");
        }
    }
}

#[test]
fn what_it_does_not_know_it_says() {
    for (arguments, said) in [
        (
            &["nothing", ".", r#"{"commits": 1, "rows": 1, "reads": 1, "seed": 1}"#][..],
            "nothing was not built in",
        ),
        (&["redb", ".", "{}"], "missing field"),
        (&["redb"], "NAME DIRECTORY PLAN"),
        (
            &["load", "libsql", ".", r#"{"threads": 1, "time_ms": 1, "arrivals_per_s": null, "seed": 1}"#],
            "libsql",
        ),
    ] {
        let output = run(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(said), "{arguments:?}: {stderr}");
    }
}
