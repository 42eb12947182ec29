//! The rows of a transaction, the same for both sides, and the database that both begin with.

use super::point::{Keys, Point, Shape};
use crate::harness::open_stock;
use crate::{Error, Result};
use rusqlite::{Connection, Statement};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "CREATE TABLE item(id INTEGER PRIMARY KEY, key INTEGER NOT NULL, body TEXT NOT NULL); \
     CREATE INDEX item_key ON item(key);";
const INSERT: &str = "INSERT INTO item(key, body) VALUES (?1, ?2)";

/// Rows of the database that both sides begin with.
const PREPARED_ROWS: u64 = 10_000;
/// The text from which bodies are cut: so long that hardly two bodies of a page share anything.
const TEXT_BYTES: usize = 1 << 20;
/// Keys are below, so that their sum fits into an integer of SQLite.
const KEYS: i64 = 1 << 36;

/// The text from which bodies are cut.
pub struct Text(String);

impl Text {
    pub fn new(seed: u64) -> Text {
        let mut random = fastrand::Rng::with_seed(seed);
        Text((0..TEXT_BYTES).map(|_| random.alphanumeric()).collect())
    }
}

/// The rows of a shape, one behind the other.
pub struct Values<'a> {
    text: &'a str,
    shape: Shape,
    random: fastrand::Rng,
    ordered: i64,
}

impl<'a> Values<'a> {
    pub fn new(text: &'a Text, shape: Shape, seed: u64) -> Values<'a> {
        Values { text: &text.0, shape, random: fastrand::Rng::with_seed(seed), ordered: 0 }
    }

    /// Key and body of the next row.
    pub fn row(&mut self) -> (i64, &'a str) {
        self.ordered += 1;
        let key = if self.shape.keys == Keys::Ordered { self.ordered } else { self.random.i64(0..KEYS) };
        let begin = self.random.usize(..TEXT_BYTES - self.shape.bytes);
        (key, &self.text[begin..begin + self.shape.bytes])
    }
}

/// A database of [`PREPARED_ROWS`], closed and synced, and its copies.
pub struct Prepared<'a> {
    path: PathBuf,
    point: Point,
    text: &'a Text,
    seed: u64,
}

impl<'a> Prepared<'a> {
    /// Makes it by stock SQLite, in the journal mode and with the rows of a point.
    pub fn new(directory: &Path, point: Point, text: &'a Text, seed: u64) -> Result<Prepared<'a>> {
        let path = directory.join("prepared.db");
        super::super::commit::remove_database(&path)?;
        let [stock, _] = point.mode.sides();
        let connection = stock.open_timed(&path)?;
        let fill = || -> rusqlite::Result<()> {
            connection.execute_batch(SCHEMA)?;
            let mut values = Values::new(text, point.shape, seed);
            Transactions::prepare(&connection)?.run(PREPARED_ROWS, &mut values)
        };
        fill().map_err(|error| stock.explain(error))?;
        connection.close().map_err(|(_, error)| stock.explain(error))?;
        Ok(Prepared { path, point, text, seed })
    }

    /// Copies it, and has the copy on the device: no side's sync waits for it.
    pub fn copy(&self, path: &Path) -> Result<()> {
        let copy = || {
            std::fs::copy(&self.path, path)?;
            std::fs::File::open(path)?.sync_all()
        };
        copy().map_err(|source| Error::Directory { path: path.to_owned(), source })
    }

    /// The rows behind its own.
    pub fn values(&self) -> Values<'a> {
        let mut values = Values::new(self.text, self.point.shape, self.seed);
        for _ in 0..PREPARED_ROWS {
            let _ = values.row();
        }
        values
    }

    /// Checks, by stock SQLite, that a copy holds so many more rows: their number and the sum of their keys, or all of
    /// every row.
    pub fn verify(&self, path: &Path, side: &str, rows: u64, all: bool) -> Result<()> {
        let mut values = Values::new(self.text, self.point.shape, self.seed);
        let expected = (0..PREPARED_ROWS + rows).map(|_| values.row());
        let found = || -> rusqlite::Result<bool> {
            let stock = open_stock(path)?;
            if all {
                return found_all(&stock, expected);
            }
            let sql = "SELECT count(*), sum(key) FROM item INDEXED BY item_key";
            let found: (i64, i64) = stock.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(found == ((PREPARED_ROWS + rows) as i64, expected.map(|(key, _)| key).sum()))
        };
        let name = self.point.name();
        match found() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Error::Wrong(format!("{name}: side {side}: the database does not hold what was stored")))
            }
            Err(source) => Err(Error::Sqlite { what: format!("{name}: side {side}"), source }),
        }
    }
}

/// True if a database is sound and holds these rows, and no other.
fn found_all<'a>(
    stock: &Connection,
    mut expected: impl Iterator<Item = (i64, &'a str)>,
) -> rusqlite::Result<bool> {
    let check: String = stock.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    let mut statement = stock.prepare("SELECT key, body FROM item ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (key, body) = (row.get(0)?, row.get_ref(1)?.as_str()?);
        if expected.next() != Some((key, body)) {
            return Ok(false);
        }
    }
    Ok(check == "ok" && expected.next().is_none())
}

/// The prepared statements of a connection's transactions.
pub struct Transactions<'a> {
    begin: Statement<'a>,
    insert: Statement<'a>,
    commit: Statement<'a>,
}

impl<'a> Transactions<'a> {
    pub fn prepare(connection: &'a Connection) -> rusqlite::Result<Transactions<'a>> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Transactions { begin: prepare("BEGIN")?, insert: prepare(INSERT)?, commit: prepare("COMMIT")? })
    }

    /// Runs one transaction of so many rows; a single one by itself.
    pub fn run(&mut self, rows: u64, values: &mut Values<'_>) -> rusqlite::Result<()> {
        if rows > 1 {
            self.begin.execute([])?;
        }
        for _ in 0..rows {
            self.insert.execute(values.row())?;
        }
        if rows > 1 {
            self.commit.execute([])?;
        }
        Ok(())
    }
}
