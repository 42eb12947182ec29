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

    /// The database in the bytes of a file; `None` where they are no database. Pages behind the number that SQLite tells are none of it.
    pub fn of_file(mut bytes: Vec<u8>, pages: Option<u32>) -> Option<Image> {
        if bytes.is_empty() {
            return Some(Image { page_bytes: 4096, bytes });
        }
        let declared = bytes.starts_with(b"SQLite format 3\0").then(|| bytes.get(16..18)).flatten()?;
        let page_bytes = match u16::from_be_bytes([declared[0], declared[1]]) {
            1 => 65_536,
            bytes => usize::from(bytes),
        };
        if page_bytes < 512 || !page_bytes.is_power_of_two() {
            return None;
        }
        let count = pages.map_or(usize::MAX, |pages| pages as usize).min(bytes.len() / page_bytes);
        bytes.truncate(count * page_bytes);
        Some(Image { page_bytes, bytes })
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
    let (truth, unread) = readable(database).unwrap();
    assert!(unread.is_empty(), "{unread:?}");
    truth
}

/// The rows of all tables that SQL can read, and the names of the others, with the reasons.
pub fn readable(database: &Connection) -> rusqlite::Result<(Truth, BTreeMap<String, String>)> {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0";
    let mut statement = database.prepare(names)?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let (mut truth, mut unread) = (Truth::new(), BTreeMap::new());
    for name in names.into_iter().chain(["sqlite_schema".to_owned()]) {
        match rows(database, &name) {
            Ok(rows) => drop(truth.insert(name, rows)),
            Err(error) => drop(unread.insert(name, error.to_string())),
        }
    }
    Ok((truth, unread))
}

fn rows(database: &Connection, table: &str) -> rusqlite::Result<Rows> {
    let mut info = database.prepare("SELECT name, pk, hidden FROM pragma_table_xinfo(?)")?;
    let info = info.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut columns = info.collect::<Result<Vec<(String, i64, i64)>, _>>()?;
    // A column may have a name of the rowid's.
    let is_free = |name: &&str| !columns.iter().any(|column| column.0.eq_ignore_ascii_case(name));
    let rowid =
        ["rowid", "_rowid_", "oid"].into_iter().find(is_free).unwrap_or("no_name_of_the_rowid_is_free");
    columns.retain(|column| column.2 != 2);
    let without_rowid = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name = ? AND wr";
    let has_rowid =
        database.query_row(without_rowid, [table], |row| row.get(0)).map(|count: i64| count == 0)?;
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let key: Vec<String> = match has_rowid {
        true => vec![rowid.to_owned()],
        false => {
            let mut key: Vec<_> = columns.iter().filter(|column| column.1 > 0).collect();
            key.sort_by_key(|column| column.1);
            key.into_iter().map(|column| quote(&column.0)).collect()
        }
    };
    let names: Vec<String> = columns.into_iter().map(|column| column.0).collect();
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let select = format!("SELECT {}, {} FROM main.{}", key.join(", "), quoted.join(", "), quote(table));
    let mut select = database.prepare(&select)?;
    let mut found = select.query([])?;
    let mut rows = BTreeMap::new();
    while let Some(row) = found.next()? {
        let value = |at| value(row.get_ref(at).unwrap());
        let key_values: Vec<Value> = (0..key.len()).map(value).collect();
        rows.insert(key_bytes(&key_values), (key.len()..key.len() + names.len()).map(value).collect());
    }
    Ok(Rows { columns: names, has_rowid, rows })
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
