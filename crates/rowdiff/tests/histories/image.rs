//! A database as it is at a moment: its pages, and its rows as SQL tells them.

use litefoot_rowdiff::{Failure, Pages, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::BTreeMap;

/// The bytes of a database.
pub struct Image {
    page_bytes: usize,
    bytes: Vec<u8>,
}

impl Image {
    pub fn of(database: &mut Connection) -> Image {
        let page_bytes: i64 = database.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        let bytes = database.serialize("main").unwrap().to_vec();
        Image { page_bytes: page_bytes as usize, bytes }
    }

    /// The pages in which another image differs.
    pub fn changed(&self, newer: &Image) -> Vec<u32> {
        let (old, new) = (self.bytes.chunks(self.page_bytes), newer.bytes.chunks(newer.page_bytes));
        let mut old = old.map(Some).chain(std::iter::repeat(None));
        (1..)
            .zip(new)
            .filter(|(_, new)| old.next().flatten() != Some(*new))
            .map(|(number, _)| number)
            .collect()
    }

    pub fn page(&mut self, number: u32) -> &mut [u8] {
        &mut self.bytes[(number as usize - 1) * self.page_bytes..][..self.page_bytes]
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Clone for Image {
    fn clone(&self) -> Image {
        Image { page_bytes: self.page_bytes, bytes: self.bytes.clone() }
    }
}

impl Pages for Image {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn count(&self) -> u32 {
        (self.bytes.len() / self.page_bytes) as u32
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), Failure> {
        page.copy_from_slice(&self.bytes[(number as usize - 1) * self.page_bytes..][..self.page_bytes]);
        Ok(())
    }
}

/// The rows of a table: by rowid, or by primary key.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub columns: Vec<String>,
    pub has_rowid: bool,
    pub rows: BTreeMap<Vec<u8>, Vec<Value>>,
}

/// The rows of all tables.
pub type Truth = BTreeMap<String, Rows>;

pub fn truth(database: &Connection) -> Truth {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0";
    let mut statement = database.prepare(names).unwrap();
    let names: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let names = names.into_iter().chain(["sqlite_schema".to_owned()]);
    names.map(|name| (name.clone(), rows(database, &name))).collect()
}

fn rows(database: &Connection, table: &str) -> Rows {
    let info = format!("SELECT name, pk, hidden FROM pragma_table_xinfo('{table}')");
    let mut info = database.prepare(&info).unwrap();
    let info = info.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let columns: Vec<(String, i64, i64)> = info.map(Result::unwrap).filter(|column| column.2 != 2).collect();
    let without_rowid = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name = ? AND wr";
    let has_rowid =
        database.query_row(without_rowid, [table], |row| row.get(0)).map(|count: i64| count == 0).unwrap();
    let key: Vec<String> = match has_rowid {
        true => vec!["rowid".to_owned()],
        false => {
            let mut key: Vec<_> = columns.iter().filter(|column| column.1 > 0).collect();
            key.sort_by_key(|column| column.1);
            key.into_iter().map(|column| format!("\"{}\"", column.0)).collect()
        }
    };
    let names: Vec<String> = columns.into_iter().map(|column| column.0).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let select = format!("SELECT {}, {} FROM \"{table}\"", key.join(", "), quoted.join(", "));
    let mut select = database.prepare(&select).unwrap();
    let mut found = select.query([]).unwrap();
    let mut rows = BTreeMap::new();
    while let Some(row) = found.next().unwrap() {
        let value = |at| value(row.get_ref(at).unwrap());
        let key_values: Vec<Value> = (0..key.len()).map(value).collect();
        rows.insert(key_bytes(&key_values), (key.len()..key.len() + names.len()).map(value).collect());
    }
    Rows { columns: names, has_rowid, rows }
}

pub fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
    }
}

/// A key that is equal where the values are.
pub fn key_bytes(values: &[Value]) -> Vec<u8> {
    format!("{values:?}").into_bytes()
}
