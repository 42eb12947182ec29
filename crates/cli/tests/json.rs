//! `--json`: each command prints one object with the keys that `docs/cli.md` tells.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use support::{litefoot, output_of, stderr_of, succeed};

/// Keys by command, from the table in the documentation.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md")).unwrap();
    let (_, table) = text.split_once("<!-- table: json -->").unwrap();
    let (table, _) = table.split_once("<!-- end of table -->").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|');
        let command = cells.next().unwrap().trim().trim_matches('`').to_owned();
        // What stands in brackets are values.
        let mut keys = cells.next().unwrap().to_owned();
        while let Some((before, rest)) = keys.split_once('(') {
            keys = format!("{before}{}", rest.split_once(')').unwrap().1);
        }
        let keys = keys.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (command, keys)
    })
    .collect()
}

#[test]
fn objects_have_the_keys_that_are_documented() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(1)"]);
    fs::write(directory.join("g.txt"), "3 2\n0 1\n1 2\n").unwrap();
    let documented = documented();
    let mut seen = BTreeSet::new();
    for (command, arguments) in [
        ("check", &["a.db"][..]),
        ("adopt", &["a.db"]),
        ("release", &["a.db"]),
        ("backup", &["a.db", "copy.db"]),
        ("recover", &["a.db"]),
        ("demo", &["--readings", "5"]),
        ("graph load", &["g.txt", "g.graph"]),
        ("graph bfs", &["g.graph", "--start", "0"]),
        ("graph stat", &["g.graph"]),
        ("pages create", &["p.pages", "--size", "64K"]),
        ("pages check", &["p.pages"]),
        ("pages scan", &["p.pages"]),
        ("pages stat", &["p.pages"]),
        ("tier drain", &["a.db"]),
    ] {
        let words: Vec<&str> =
            command.split(' ').chain(["--json"]).chain(arguments.iter().copied()).collect();
        let object: Value = serde_json::from_str(&succeed(directory, &words)).unwrap();
        let keys: BTreeSet<String> = object.as_object().unwrap().keys().cloned().collect();
        assert_eq!(Some(&keys), documented.get(command), "{command}: {object:#}");
        seen.insert(command.to_owned());
    }
    assert_eq!(seen, documented.keys().cloned().collect(), "documented, and not tried here");
}

#[test]
fn findings_are_in_the_object_and_in_the_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(zeroblob(40000))"]);
    fs::File::options().write(true).open(directory.join("a.db")).unwrap().set_len(2 * 4096).unwrap();
    let output = output_of(litefoot(directory, &["check", "--json", "a.db"]));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &object["in_order"]), (Some(1), &Value::Bool(false)), "{object:#}");
    assert!(object["findings"][0].as_str().unwrap().contains("the header says"), "{object:#}");
    let output = output_of(litefoot(directory, &["adopt", "--json", "--yes", "a.db"]));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &object["in_order"]), (Some(1), &Value::Bool(false)), "{object:#}");
    assert_eq!((&object["adopted"], &object["findings"][0].is_string()), (&Value::Bool(false), &true));
    let output = output_of(litefoot(directory, &["backup", "--json", "a.db", "--to", "-"]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr_of(&output));
}

#[test]
fn an_adoption_says_what_changes_and_whether_it_was_made() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a); INSERT INTO t VALUES(1)"]);
    for (arguments, mode, adopted) in
        [(&["--journal", "wal"][..], "rollback", false), (&["--journal", "wal", "--yes"], "wal", true)]
    {
        let words = [&["adopt", "--json", "a.db"], arguments].concat();
        let object: Value = serde_json::from_str(&succeed(directory, &words)).unwrap();
        assert_eq!(
            (&object["journal_mode"], &object["adopted"]),
            (&mode.into(), &adopted.into()),
            "{object:#}"
        );
        assert_eq!((object["changes"].as_array().unwrap().len(), &object["in_order"]), (1, &true.into()));
    }
}
