//! Damaged pages: an error, or the rows that SQLite reads in them, too.

use super::history::History;
use super::image::{Image, key_bytes, truth};
use litefoot_rowdiff::{Change, Changed, Collect, Map, Value};
use rusqlite::Connection;

/// Changes some bytes of a page where they are likely to matter.
fn damage(image: &mut Image, number: u32, random: &mut fastrand::Rng) {
    let page = image.page(number);
    for _ in 0..random.usize(1..4) {
        let at = match random.u8(..3) {
            0 => random.usize(..12.min(page.len())) + if number == 1 { 100 } else { 0 },
            1 => random.usize(..page.len().min(200)),
            _ => random.usize(..page.len()),
        };
        page[at] = match random.u8(..3) {
            0 => random.u8(..),
            1 => page[at].wrapping_add(1),
            _ => page[at] ^ 1 << random.u8(..8),
        };
    }
}

#[test]
fn damaged_pages_give_no_wrong_row() {
    let (mut errors, mut rows, mut same) = (0, 0, 0);
    for seed in 0..40 {
        let mut history = History::new(seed, true);
        (0..3).for_each(|_| history.advance());
        let before = Image::of(&mut history.database);
        let map = Map::of(&before).unwrap();
        history.advance();
        let whole = Image::of(&mut history.database);
        let schema = truth(&history.database)["sqlite_schema"].rows.clone();
        for _ in 0..25 {
            let mut after = whole.clone();
            let changed = before.changed(&after);
            let Some(number) = history.random.choice(&changed).copied() else { continue };
            damage(&mut after, number, &mut history.random);
            let mut found = Collect::default();
            if map.diff(&before, &after, &Changed::Pages(&changed), &mut found).is_err() {
                errors += 1;
                continue;
            }
            let mut database = Connection::open_in_memory().unwrap();
            if database.deserialize_read_exact("main", after.bytes(), after.bytes().len(), false).is_err() {
                continue;
            }
            let is_sound = database
                .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
                .is_ok_and(|answer| answer == "ok");
            // Another definition gives rows that have not changed other values.
            if is_sound && truth(&database)["sqlite_schema"].rows == schema {
                let old = truth(&{
                    let mut database = Connection::open_in_memory().unwrap();
                    database
                        .deserialize_read_exact("main", before.bytes(), before.bytes().len(), false)
                        .unwrap();
                    database
                });
                super::compare(&old, &truth(&database), &found.tables, &history.settings);
                same += 1;
            }
            rows += newer_rows(&database, &found, &history.settings);
        }
    }
    assert!(errors > 100 && rows > 100 && same > 20, "{errors} errors, {rows} rows, {same} sound");
}

/// Looks for each newer row with a rowid in SQLite.
fn newer_rows(database: &Connection, found: &Collect, place: &str) -> u64 {
    let mut rows = 0;
    for table in &found.tables {
        let Some(definition) = table.after.as_ref().filter(|table| table.has_rowid()) else { continue };
        let columns: Vec<String> =
            definition.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let select = format!("SELECT {} FROM \"{}\" WHERE rowid = ?", columns.join(", "), definition.name);
        let Ok(mut select) = database.prepare(&select) else { continue };
        for change in &table.changes {
            let (Change::Insert(row) | Change::Update { after: row, .. }) = change else { continue };
            let read = select.query_row([row.rowid], |found| {
                Ok((0..columns.len())
                    .map(|at| super::image::value(found.get_ref_unwrap(at)))
                    .collect::<Vec<Value>>())
            });
            // SQLite may refuse to read on, or be led to another leaf; it may not read another row.
            if let Ok(values) = read {
                assert_eq!(key_bytes(&values), key_bytes(&row.values), "{place}");
                rows += 1;
            }
        }
    }
    rows
}
