//! SQLite's changeset (<https://www.sqlite.org/session/intro.html>; the format is in `ext/session/sqlite3session.c`).
//!
//! ```text
//! table    'T' | columns: varint | for each column its place in the primary key, or 0: 1 byte | name, 0
//! change   18 insert, 9 delete, 23 update | 0 | delete: older values; insert: newer; update: older, then newer
//! value    0 not there | 1 integer, 8 bytes | 2 real, 8 bytes | 3 text, 4 blob: length: varint, bytes | 5 NULL
//! ```
//! Numbers are big-endian. An update has the older values of the key and of changed columns, and the newer ones of changed
//! columns.
//!
//! # As the session extension does
//! Rows are told apart by the declared primary key, so that a changed key is a deletion and an insertion. Rows with a NULL
//! in the key are left out, and generated columns, and tables without a primary key.

use crate::record::Row;
use crate::schema::Table;
use crate::value::Value;
use crate::visitor::{Change, TableChanges};
use litefoot_format::number::put_varint;
use std::collections::HashMap;

const INSERT: u8 = 18;
const DELETE: u8 = 9;
const UPDATE: u8 = 23;

/// The changes of tables whose definition has not changed, and whose older rows are all known. Others cannot be told in a changeset: their
/// changes are left out.
pub fn encode<'a>(tables: impl IntoIterator<Item = &'a TableChanges>) -> Vec<u8> {
    let mut out = Vec::new();
    for table in tables {
        if let Some(after) = told(table) {
            put_table(&mut out, after, &table.changes);
        }
    }
    out
}

/// True where a changeset has all changes of a table: the definition is as it was, older rows are known, and each row has a primary key without NULL.
pub fn tells_all(table: &TableChanges) -> bool {
    let Some(after) = told(table) else { return false };
    let key = after.primary_key();
    let has_key = |row: &Row| key.iter().all(|column| row.values[*column] != Value::Null);
    let have_keys = |change: &Change| match change {
        Change::Insert(row) | Change::Delete(row) => has_key(row),
        Change::Update { before, after } => has_key(before) && has_key(after),
    };
    !key.is_empty() && table.changes.iter().all(have_keys)
}

/// The table of which a changeset can tell changes.
fn told(table: &TableChanges) -> Option<&Table> {
    let (before, after) = table.before.as_ref().zip(table.after.as_ref())?;
    let is_same = before.is_shaped_as(after) && before.name == after.name;
    (is_same && after.root != 1 && table.forgotten.is_empty()).then_some(after)
}

/// Versions of the row with one primary key.
#[derive(Default)]
struct Versions<'a> {
    before: Option<&'a Row>,
    after: Option<&'a Row>,
}

fn put_table(out: &mut Vec<u8>, table: &Table, changes: &[Change]) {
    let key = table.primary_key();
    if key.is_empty() {
        return;
    }
    let columns: Vec<usize> = (0..table.columns.len()).filter(|at| !table.columns[*at].generated).collect();
    let start = out.len();
    out.push(b'T');
    put_varint(out, columns.len() as u64);
    out.extend(columns.iter().map(|at| table.columns[*at].primary_key as u8));
    out.extend(table.name.as_bytes());
    out.push(0);
    let header_end = out.len();
    for versions in by_primary_key(&key, changes) {
        match (versions.before, versions.after) {
            (Some(before), Some(after)) => put_update(out, table, &columns, before, after),
            (Some(row), None) => put_row(out, DELETE, &columns, row),
            (None, Some(row)) => put_row(out, INSERT, &columns, row),
            (None, None) => (),
        }
    }
    if out.len() == header_end {
        out.truncate(start);
    }
}

/// The changed rows by their primary keys, in the order of the changes.
fn by_primary_key<'a>(key: &[usize], changes: &'a [Change]) -> Vec<Versions<'a>> {
    let mut places: HashMap<Vec<&Value>, usize> = HashMap::new();
    let mut all: Vec<Versions<'a>> = Vec::new();
    let mut note = |row: &'a Row, is_after: bool| {
        let key: Vec<&Value> = key.iter().map(|column| &row.values[*column]).collect();
        if key.contains(&&Value::Null) {
            return;
        }
        let place = *places.entry(key).or_insert_with(|| {
            all.push(Versions::default());
            all.len() - 1
        });
        let versions = &mut all[place];
        *if is_after { &mut versions.after } else { &mut versions.before } = Some(row);
    };
    for change in changes {
        match change {
            Change::Insert(after) => note(after, true),
            Change::Delete(before) => note(before, false),
            Change::Update { before, after } => {
                note(before, false);
                note(after, true);
            }
        }
    }
    all
}

fn put_row(out: &mut Vec<u8>, kind: u8, columns: &[usize], row: &Row) {
    out.extend([kind, 0]);
    for column in columns {
        put_value(out, &row.values[*column]);
    }
}

fn put_update(out: &mut Vec<u8>, table: &Table, columns: &[usize], before: &Row, after: &Row) {
    let differs = |column: &usize| before.values[*column] != after.values[*column];
    if !columns.iter().any(differs) {
        return;
    }
    out.extend([UPDATE, 0]);
    for column in columns {
        match differs(column) || table.columns[*column].primary_key > 0 {
            true => put_value(out, &before.values[*column]),
            false => out.push(0),
        }
    }
    for column in columns {
        match differs(column) {
            true => put_value(out, &after.values[*column]),
            false => out.push(0),
        }
    }
}

/// Values as they stand in a changeset: equal where the values are.
pub fn values<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut out = Vec::new();
    values.for_each(|value| put_value(&mut out, value));
    out
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        if kind >= 3 {
            put_varint(out, bytes.len() as u64);
        }
        out.extend(bytes);
    };
    match value {
        Value::Null => out.push(5),
        Value::Integer(number) => put(1, &number.to_be_bytes()),
        Value::Real(number) => put(2, &number.to_be_bytes()),
        Value::Text(text) => put(3, text),
        Value::Blob(blob) => put(4, blob),
    }
}
