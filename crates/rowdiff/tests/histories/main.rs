//! Random histories: what the differ says, against what SQL says.
//!
//! `ROWDIFF_HISTORIES=100000 cargo test --release -p litefoot-rowdiff --test histories -- --ignored --nocapture` runs as many;
//! `ROWDIFF_SEED` is the first seed.

#![allow(clippy::unwrap_used)]

mod history;
mod image;
mod lost_pages;
mod redefined;
mod session;
mod suite;
mod system_sqlite;
mod wrong_bytes;

use history::History;
use image::{Image, Truth, key_bytes, truth};
use litefoot_rowdiff::{Change, Changed, Collect, Map, Row, TableChanges, Value};
use std::collections::BTreeMap;

#[derive(Default)]
struct Tally {
    histories: u64,
    differences: u64,
    changes: u64,
}

/// Runs a history, and compares each step.
fn run(seed: u64, steps: u32, tally: &mut Tally) {
    let mut history = History::new(seed, true);
    let mut before = Image::of(&mut history.database);
    let mut old = truth(&history.database);
    let mut map = Map::of(&before).unwrap();
    for step in 0..steps {
        history.advance();
        let (after, new) = (Image::of(&mut history.database), truth(&history.database));
        let mut changed = before.changed(&after);
        if history.random.u8(..4) == 0 {
            // Pages that have not changed may be said to have.
            changed.extend((0..5).map(|_| history.random.u32(1..=litefoot_rowdiff::Pages::count(&after))));
        }
        let mut found = Collect::default();
        let difference = map
            .diff(&before, &after, &Changed::Pages(&changed), &mut found)
            .unwrap_or_else(|error| panic!("{}, step {step}: {error}", history.settings));
        map.apply(difference);
        let place = format!("{}, step {step}", history.settings);
        tally.changes += compare(&old, &new, &found.tables, &place);
        assert_eq!(map.verify(&after).unwrap(), None, "{place}");
        (before, old) = (after, new);
        tally.differences += 1;
    }
    tally.histories += 1;
}

/// Compares the changes of all tables with the truth; answers how many there were.
fn compare(old: &Truth, new: &Truth, found: &[TableChanges], place: &str) -> u64 {
    let mut changes = 0;
    let empty = image::Rows::default();
    let of = |truth: &Truth, name: Option<&str>| {
        name.map_or_else(|| empty.clone(), |name| truth.get(name).unwrap_or(&empty).clone())
    };
    let mut told = (Vec::new(), Vec::new());
    for table in found {
        let names =
            [&table.before, &table.after].map(|table| table.as_ref().map(|table| table.name.as_str()));
        told.0.extend(names[0]);
        told.1.extend(names[1]);
        let rows = (of(old, names[0]), of(new, names[1]));
        changes += compare_table(&rows.0, &rows.1, table, &format!("{place}, table {names:?}"));
    }
    // A table that was not named has not changed.
    for (name, rows) in new.iter().filter(|(name, _)| !told.1.contains(&name.as_str())) {
        assert_eq!(
            old.get(name).map(|rows| &rows.rows),
            Some(&rows.rows),
            "{place}, table {name} was not named"
        );
    }
    for name in old.keys().filter(|name| !told.0.contains(&name.as_str())) {
        assert!(new.contains_key(name), "{place}, table {name} is gone");
    }
    changes
}

fn compare_table(old: &image::Rows, new: &image::Rows, table: &TableChanges, place: &str) -> u64 {
    let key = |row: &Row, definition: &Option<litefoot_rowdiff::Table>| match row.rowid {
        Some(rowid) => key_bytes(&[Value::Integer(rowid)]),
        None => {
            let key = definition.as_ref().unwrap().primary_key();
            key_bytes(&key.iter().map(|column| row.values[*column].clone()).collect::<Vec<_>>())
        }
    };
    if let Some(after) = &table.after {
        assert_eq!(after.has_rowid(), new.has_rowid, "{place}");
    }
    let (mut gone, mut come) = (BTreeMap::new(), BTreeMap::new());
    for change in &table.changes {
        let (before, after) = match change {
            Change::Insert(after) => (None, Some(after)),
            Change::Delete(before) => (Some(before), None),
            Change::Update { before, after } => {
                assert_eq!(key(before, &table.before), key(after, &table.after), "{place}");
                (Some(before), Some(after))
            }
        };
        if let Some(row) = before {
            assert!(gone.insert(key(row, &table.before), &row.values).is_none(), "{place}: twice");
        }
        if let Some(row) = after {
            assert!(come.insert(key(row, &table.after), &row.values).is_none(), "{place}: twice");
        }
        assert!(matches!(change, Change::Update { .. }) || before.is_none() || after.is_none());
    }
    for (key, values) in &gone {
        assert_eq!(old.rows.get(key), Some(*values), "{place}: an older row");
    }
    for (key, values) in &come {
        assert_eq!(new.rows.get(key), Some(*values), "{place}: a newer row");
    }
    for key in old.rows.keys() {
        assert!(gone.contains_key(key) || new.rows.contains_key(key), "{place}: a deleted row was not named");
    }
    let default = |name: &str| {
        let columns = &table.after.as_ref().unwrap().columns;
        columns.iter().find(|column| column.name == name).unwrap().default.clone().unwrap()
    };
    for (key, values) in &new.rows {
        match (gone.contains_key(key), come.contains_key(key), old.rows.get(key)) {
            (true, true, _) => assert!(
                old.columns != new.columns || old.rows[key] != *values,
                "{place}: an update without a change"
            ),
            (true, false, _) => panic!("{place}: a deletion of a row that is there"),
            (_, true, old) => assert!(old.is_none(), "{place}: an insert of an older row"),
            (_, false, None) => panic!("{place}: an inserted row was not named"),
            (_, false, Some(before)) => {
                // A row that was not named has its values, in the columns that are new the default ones.
                for (at, (name, value)) in new.columns.iter().zip(values).enumerate() {
                    let by_name = old.columns.iter().position(|of| of == name);
                    let is_gone = |name: &&String| !new.columns.contains(name);
                    let is_renamed = old.columns.len() <= new.columns.len()
                        && old.columns.get(at).filter(is_gone).is_some();
                    let expected = match by_name.or(is_renamed.then_some(at)) {
                        Some(at) => before[at].clone(),
                        None => default(name),
                    };
                    assert_eq!(*value, expected, "{place}: column {name} of a row that was not named");
                }
            }
        }
    }
    table.changes.len() as u64
}

#[test]
fn the_changes_are_those_that_sql_tells() {
    let mut tally = Tally::default();
    for seed in 0..60 {
        run(seed, 12, &mut tally);
    }
    assert!(tally.changes > 3000, "{}", tally.changes);
}

#[test]
#[ignore = "takes as long as it is told to"]
fn many_histories() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, first) = (number("ROWDIFF_HISTORIES", 1000), number("ROWDIFF_SEED", 1_000_000));
    let mut tally = Tally::default();
    for seed in first..first + count {
        run(seed, 12, &mut tally);
        if tally.histories % 1000 == 0 {
            let Tally { histories, differences, changes } = tally;
            println!("{histories} histories, {differences} differences, {changes} changed rows, 0 wrong");
        }
    }
    println!(
        "{} histories, {} differences, {} changed rows, 0 wrong",
        tally.histories, tally.differences, tally.changes
    );
}

#[test]
fn the_first_look_has_all_rows() {
    for seed in 0..20 {
        let mut history = History::new(seed, true);
        (0..4).for_each(|_| history.advance());
        let (image, rows) = (Image::of(&mut history.database), truth(&history.database));
        let mut found = Collect::default();
        let mut map = Map::default();
        let step = map.diff(&litefoot_rowdiff::Empty, &image, &Changed::All, &mut found).unwrap();
        map.apply(step);
        compare(&Truth::new(), &rows, &found.tables, &history.settings);
        assert_eq!(map.verify(&image).unwrap(), None);
    }
}
