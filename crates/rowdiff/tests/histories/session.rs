//! Changesets: the same changes as SQLite's session extension finds, and it applies them.
//!
//! The bundled SQLite has no session extension, and the system's often has. It is loaded at run time; without it these tests say so and end.

use super::history::History;
use super::image::{Image, truth};
use super::system_sqlite::{Database, SystemSqlite};
use litefoot_format::number::varint;
use litefoot_rowdiff::encode::changeset;
use litefoot_rowdiff::{Changed, Collect, Map};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Tables that it understands: it compares keys by their collations, and has nothing to say of generated columns.
const TABLES: [&str; 4] = ["a", "b", "w", "s"];

/// A changeset without the order of its tables and changes, which is that of hash tables in SQLite.
type Parts = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

fn parts(bytes: &[u8]) -> Parts {
    let mut parts = Parts::new();
    let (mut header, mut columns, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let start = at;
        if bytes[at] == b'T' {
            let (count, rest) = varint(&bytes[at + 1..]).unwrap();
            columns = count as usize;
            let name = bytes.len() - rest.len() + columns;
            at = name + bytes[name..].iter().position(|byte| *byte == 0).unwrap() + 1;
            header = bytes[start..at].to_vec();
            continue;
        }
        let values = if bytes[at] == 23 { 2 * columns } else { columns };
        at += 2;
        for _ in 0..values {
            at += value_bytes(&bytes[at..]);
        }
        let change = bytes[start..at].to_vec();
        if !is_the_same_to_sql(&change, columns) {
            assert!(parts.entry(header.clone()).or_default().insert(change), "a change stands twice");
        }
    }
    parts
}

fn value_bytes(bytes: &[u8]) -> usize {
    match bytes[0] {
        1 | 2 => 9,
        3 | 4 => {
            let (length, rest) = varint(&bytes[1..]).unwrap();
            bytes.len() - rest.len() + length as usize
        }
        _ => 1,
    }
}

/// An update of nothing but 1 to 1.0: the extension compares with IS, and does not see it.
fn is_the_same_to_sql(change: &[u8], columns: usize) -> bool {
    if change[0] != 23 {
        return false;
    }
    let mut values = Vec::new();
    let mut rest = &change[2..];
    for _ in 0..2 * columns {
        let (value, behind) = rest.split_at(value_bytes(rest));
        values.push(value);
        rest = behind;
    }
    let number = |value: &[u8]| match value[0] {
        1 => Some(i64::from_be_bytes(value[1..9].try_into().unwrap()) as f64),
        2 => Some(f64::from_be_bytes(value[1..9].try_into().unwrap())),
        _ => None,
    };
    let (old, new) = values.split_at(columns);
    let mut changed = old.iter().zip(new).filter(|(_, new)| new[0] != 0);
    changed.all(|(old, new)| number(old).is_some_and(|old| number(new) == Some(old)))
}

fn run(sqlite: &SystemSqlite, seed: u64, steps: u32) -> usize {
    let mut history = History::new(seed, false);
    let mut before = Image::of(&mut history.database);
    let mut map = Map::of(&before).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [older, newer] = ["older.db", "newer.db"].map(|name| directory.path().join(name));
    let mut changes = 0;
    for step in 0..steps {
        let place = format!("{}, step {step}", history.settings);
        history.advance();
        let after = Image::of(&mut history.database);
        let mut found = Collect::default();
        let changed = before.changed(&after);
        let difference = map.diff(&before, &after, &Changed::Pages(&changed), &mut found).unwrap();
        map.apply(difference);
        found.tables.retain(|table| TABLES.contains(&table.after.as_ref().unwrap().name.as_str()));
        let ours = changeset::encode(&found.tables);
        std::fs::write(&older, before.bytes()).unwrap();
        std::fs::write(&newer, after.bytes()).unwrap();
        let theirs = sqlite.difference(&older, &newer, &TABLES);
        assert_eq!(parts(&ours), parts(&theirs), "{place}");
        changes += parts(&ours).values().map(BTreeSet::len).sum::<usize>();

        Database::open(sqlite, &older).apply(&ours).unwrap_or_else(|error| panic!("{place}: {error}"));
        let (expected, found) = (truth(&history.database), truth(&Connection::open(&older).unwrap()));
        for table in TABLES {
            // Rowids beside a primary key are SQLite's affair.
            let values = |truth: &super::Truth| {
                let mut rows: Vec<_> = truth[table].rows.values().map(|row| format!("{row:?}")).collect();
                rows.sort();
                rows
            };
            assert_eq!(values(&expected), values(&found), "{place}, table {table}");
        }
        before = after;
    }
    changes
}

#[test]
fn changesets_are_those_of_the_session_extension() {
    let Some(sqlite) = SystemSqlite::load() else {
        println!("skipped: the system has no SQLite with the session extension");
        return;
    };
    let changes: usize = (0..30).map(|seed| run(&sqlite, seed, 6)).sum();
    assert!(changes > 500, "{changes}");
}
