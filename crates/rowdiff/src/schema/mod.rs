//! The tables of a database, as its own table `sqlite_schema` describes them.

mod create_table;
mod default;

use crate::value::Value;
pub use litefoot_format::affinity::Affinity;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The page of its root.
    pub root: u32,
    /// The statement that makes it, as SQLite keeps it; empty for `sqlite_schema`.
    pub sql: String,
    /// The columns that are stored, in the order in which they were declared. Virtual generated columns are not stored.
    pub columns: Vec<Column>,
    /// How its rows are found.
    pub key: Key,
    /// The reason that its rows cannot be read; such a table has no rows here.
    pub unreadable: Option<String>,
    /// The columns in the order of the records.
    pub(crate) storage: Vec<usize>,
}

/// How the rows of a table are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By their rowids.
    Rowid {
        /// The column that is a name for the rowid: `INTEGER PRIMARY KEY`.
        alias: Option<usize>,
    },
    /// By the primary key: `WITHOUT ROWID`.
    PrimaryKey,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as it was declared; empty for none.
    pub declared: String,
    /// The type that SQLite turns its values into.
    pub affinity: Affinity,
    /// Its place in the primary key, from 1 on; 0 for columns outside of it.
    pub primary_key: usize,
    /// True where NULL is refused.
    pub not_null: bool,
    /// True where it is computed, and stored.
    pub generated: bool,
    /// The value of rows that are older than the column; `None` where it cannot be told.
    pub default: Option<Value>,
}

impl Table {
    /// The table of all tables.
    pub(crate) fn schema_table() -> Table {
        let column = |(name, affinity): &(&str, Affinity)| Column {
            name: (*name).to_owned(),
            declared: if *affinity == Affinity::Integer { "INT" } else { "TEXT" }.to_owned(),
            affinity: *affinity,
            primary_key: 0,
            not_null: false,
            generated: false,
            default: Some(Value::Null),
        };
        let names = ["type", "name", "tbl_name", "rootpage", "sql"];
        let columns =
            names.map(|name| (name, if name == "rootpage" { Affinity::Integer } else { Affinity::Text }));
        Table {
            name: "sqlite_schema".to_owned(),
            root: 1,
            sql: String::new(),
            columns: columns.iter().map(column).collect(),
            key: Key::Rowid { alias: None },
            unreadable: None,
            storage: (0..5).collect(),
        }
    }

    /// The table of a row of `sqlite_schema`; `None` for what has no rows of its own.
    pub(crate) fn from_row(row: &[Value]) -> Option<Table> {
        let [Value::Text(kind), Value::Text(name), _, Value::Integer(root), Value::Text(sql)] = row else {
            return None;
        };
        if kind != b"table" || *root == 0 {
            return None;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let sql = String::from_utf8_lossy(sql).into_owned();
        // A root that is no page is found when it is looked for.
        Some(Table::from_sql(name, u32::try_from(*root).unwrap_or(u32::MAX), sql))
    }

    /// The table that a statement makes.
    pub fn from_sql(name: String, root: u32, sql: String) -> Table {
        match create_table::parse(&sql) {
            Ok(parsed) => parsed.table(name, root, sql),
            Err(reason) => Table {
                name,
                root,
                sql,
                columns: Vec::new(),
                key: Key::Rowid { alias: None },
                unreadable: Some(reason),
                storage: Vec::new(),
            },
        }
    }

    /// The column that is a name for the rowid.
    pub fn alias(&self) -> Option<usize> {
        match self.key {
            Key::Rowid { alias } => alias,
            Key::PrimaryKey => None,
        }
    }

    /// The columns of the declared primary key that the rowid does not say.
    pub fn sent_key(&self) -> Vec<usize> {
        let alias = self.alias();
        self.primary_key().into_iter().filter(|column| alias != Some(*column)).collect()
    }

    /// The columns of the declared primary key, in its order.
    pub fn primary_key(&self) -> Vec<usize> {
        let mut key: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.columns[*at].primary_key > 0).collect();
        key.sort_by_key(|at| self.columns[*at].primary_key);
        key
    }

    /// True where rows have rowids.
    pub fn has_rowid(&self) -> bool {
        matches!(self.key, Key::Rowid { .. })
    }

    /// True where rows of the two tables mean the same without a conversion.
    pub(crate) fn is_shaped_as(&self, other: &Table) -> bool {
        self.columns == other.columns && self.key == other.key && self.storage == other.storage
    }
}
