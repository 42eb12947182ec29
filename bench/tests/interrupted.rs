//! Long experiments say how far they are, and what they have found when they are interrupted.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot_testkit::files::snapshot;
use litefoot_testkit::process::{finish, output_of, stderr_of};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use support::bench;

const MANY: &str = "1000000";

/// The number behind a name in the table of figures.
fn figure(table: &str, name: &str) -> u64 {
    let row = |line: &'_ str| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')).map(str::to_owned);
    let row = table.lines().find_map(row).unwrap();
    row.trim().replace(',', "").parse().unwrap()
}

/// A signal of the terminal reaches the processes that the experiment has started, unless they are kept from it.
#[test]
fn an_experiment_that_is_interrupted_shows_what_it_has_done_until_then() {
    for (experiment, flag, stage, counted) in [
        ("crash", "--cuts", "power cuts", "cuts"),
        ("random", "--sequences", "sequences", "sequences"),
        ("histories", "--count", "histories", "histories"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let arguments = [experiment, flag, MANY, "--lines-every", "0", "--json", "out.json"];
        let mut command = bench(directory.path(), &arguments);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        for _ in 0..2 {
            line.clear();
            errors.read_line(&mut line).unwrap();
            assert!(line.starts_with(&format!("litefoot: {stage}: ")), "{experiment}: {line}");
            assert!(line.contains(" of 1,000,000, about "), "{experiment}: {line}");
        }
        Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap();
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        let output = finish(child);
        assert_eq!(output.status.code(), Some(130), "{experiment}: {said}");
        let last: Vec<&str> = said.lines().filter(|line| !line.contains(stage)).collect();
        assert_eq!(
            last,
            [
                "litefoot: interrupted; the figures are those of what was done until then",
                "  out.json was not written."
            ],
            "{experiment}"
        );
        let table = String::from_utf8(output.stdout).unwrap();
        assert!((2..1_000_000).contains(&figure(&table, counted)), "{experiment}: {table}");
        assert!(snapshot(directory.path()).is_empty(), "{experiment}");
    }
}

#[test]
fn a_short_experiment_says_nothing_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let output = output_of(bench(directory.path(), &["crash", "--cuts", "100"]));
    assert!(output.status.success());
    assert_eq!(stderr_of(&output), "");
}
