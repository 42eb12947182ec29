//! A random history of a database: statements of all kinds, from a seed.

use fastrand::Rng;
use rusqlite::{Connection, params};

pub struct History {
    pub database: Connection,
    pub random: Rng,
    pub settings: String,
    keys: i64,
    largest: usize,
    /// True where tables are made, altered and dropped.
    changes_schema: bool,
    names: u32,
}

impl History {
    pub fn new(seed: u64, changes_schema: bool) -> History {
        let mut random = Rng::with_seed(seed);
        let page_bytes = [512, 512, 1024, 1024, 2048, 4096, 8192, 65536][random.usize(..8)];
        let (auto_vacuum, reserved) =
            (random.u8(..3), if random.u8(..8) == 0 { random.u8(1..32) } else { 0 });
        let encoding = ["UTF-8", "UTF-8", "UTF-8", "UTF-16le", "UTF-16be"][random.usize(..5)];
        let keys = [8, 40, 200][random.usize(..3)];
        let largest = [50, 600, 3000, 12_000][random.usize(..4)];
        let settings = format!(
            "seed {seed}: pages of {page_bytes}, {reserved} reserved, auto_vacuum {auto_vacuum}, {encoding}, {keys} keys, \
             values up to {largest}"
        );
        let database = Connection::open_in_memory().unwrap();
        database
            .execute_batch(&format!(
                "PRAGMA page_size = {page_bytes}; PRAGMA encoding = '{encoding}'; PRAGMA auto_vacuum = {auto_vacuum}"
            ))
            .unwrap();
        if reserved > 0 {
            reserve(&database, reserved);
        }
        let mut history = History { database, random, settings, keys, largest, changes_schema, names: 0 };
        history.tables();
        history
    }

    fn tables(&mut self) {
        self.database
            .execute_batch(
                "CREATE TABLE a(id INTEGER PRIMARY KEY, x, y REAL, z BLOB); CREATE INDEX ax ON a(x);
                 CREATE TABLE b(k TEXT PRIMARY KEY, v, n INT);
                 CREATE TABLE n(x, y);
                 CREATE TABLE w(k TEXT, n INT, v BLOB, PRIMARY KEY(n, k)) WITHOUT ROWID; CREATE INDEX wv ON w(v);
                 CREATE TABLE c(k TEXT COLLATE NOCASE PRIMARY KEY DESC, v) WITHOUT ROWID;
                 CREATE TABLE g(a INT, v AS (a * 2), s TEXT AS (a || 'x') STORED, r FLOAT, PRIMARY KEY(a));
                 CREATE TABLE s(i INTEGER PRIMARY KEY AUTOINCREMENT, t ANY, f REAL) STRICT;",
            )
            .unwrap();
        if self.random.u8(..4) == 0 {
            self.database.execute_batch("CREATE VIRTUAL TABLE f USING fts5(t)").unwrap();
        }
    }

    /// What an application does between two looks.
    pub fn advance(&mut self) {
        for _ in 0..self.random.u8(1..4) {
            self.database.execute_batch("BEGIN").unwrap();
            for _ in 0..self.random.u8(1..16) {
                let _ = self.statement();
                if self.changes_schema && self.random.u8(..40) == 0 {
                    let _ = self.schema_statement();
                }
            }
            let is_kept = self.random.u8(..10) > 0;
            self.database.execute_batch(if is_kept { "COMMIT" } else { "ROLLBACK" }).unwrap();
        }
        match self.random.u8(..40) {
            0 => self.database.execute_batch("VACUUM").unwrap(),
            1 => self.database.execute_batch("PRAGMA incremental_vacuum(7)").unwrap(),
            2 if self.changes_schema => self.database.execute_batch("ANALYZE").unwrap(),
            _ => (),
        }
    }

    fn blob(&mut self) -> Vec<u8> {
        let sizes = [0, 3, 30, 30, self.largest / 5, self.largest];
        let size = sizes[self.random.usize(..sizes.len())];
        let size = self.random.usize(..=size);
        let byte = self.random.u8(..);
        (0..size).map(|at| byte.wrapping_add(at as u8)).collect()
    }

    fn any(&mut self) -> rusqlite::types::Value {
        use rusqlite::types::Value::*;
        match self.random.u8(..8) {
            0 => Null,
            1 => Integer(self.random.i64(..)),
            2 => Integer(self.random.i64(-3..3)),
            3 => Integer(1 << self.random.u8(..63)),
            4 => Real(self.random.i32(-500..500) as f64 / 8.0),
            5 => Real(f64::from_bits(self.random.u64(..))),
            6 => Text(self.text()),
            _ => Blob(self.blob()),
        }
    }

    fn text(&mut self) -> String {
        let words = ["", "a", "größe", "日本語", "😀", "0", "3.5", "Z"];
        let word = words[self.random.usize(..words.len())];
        word.repeat(self.random.usize(..=self.largest / 40 + 2))
    }

    fn statement(&mut self) -> rusqlite::Result<usize> {
        let (key, any, blob) = (self.random.i64(0..self.keys), self.any(), self.blob());
        let span = [0, 0, 0, self.keys / 8, self.keys][self.random.usize(..5)];
        let text = format!("{}{}", if self.random.bool() { "key" } else { "KEY" }, key % 60);
        let is_big = self.random.u8(..30) == 0;
        let database = &self.database;
        match self.random.u8(..26) {
            0..4 => database.execute("INSERT OR REPLACE INTO a VALUES (?, ?, ?, ?)", params![key, any, key, blob]),
            4 => database.execute("UPDATE a SET z = ? WHERE id = ?", params![blob, key]),
            // In place.
            5 => database.execute("UPDATE a SET z = CAST(substr(z, 2) || substr(z, 1, 1) AS BLOB) WHERE id = ?", [key]),
            6 => database.execute("UPDATE a SET x = ?, y = y + 1 WHERE id % 5 = ?", params![any, key % 5]),
            7 => database.execute("DELETE FROM a WHERE id BETWEEN ? AND ?", [key, key + span]),
            8 => database.execute("UPDATE OR REPLACE a SET id = ? WHERE id = ?", [key, key / 2]),
            9 => self.write_in_blob(key),
            10..12 => database.execute("INSERT OR REPLACE INTO b VALUES (?, ?, ?)", params![text, any, key]),
            12 => database.execute("UPDATE b SET n = n + 1, v = ? WHERE k > ?", params![any, text]),
            13 => database.execute("DELETE FROM b WHERE k = ?", [text]),
            14 => database.execute("INSERT INTO n VALUES (?, ?)", params![any, blob]),
            15 => database.execute("DELETE FROM n WHERE rowid % 7 = ?", [key % 7]),
            16..18 => database.execute("INSERT OR REPLACE INTO w VALUES (?, ?, ?)", params![text, key % 7, blob]),
            18 => database.execute("UPDATE w SET v = CAST(substr(v, 2) || substr(v, 1, 1) AS BLOB) WHERE k = ?", [text]),
            19 => database.execute("DELETE FROM w WHERE k < ? AND n < ?", params![text, key % 3]),
            20 => database.execute("UPDATE OR REPLACE w SET n = n + 1 WHERE k = ?", [text]),
            21 => database.execute("INSERT OR REPLACE INTO c VALUES (?, ?)", params![text, any]),
            22 => database.execute("INSERT OR REPLACE INTO g(a, r) VALUES (?, ?)", params![key, key]),
            23 => database.execute("INSERT INTO s(t, f) VALUES (?, ?)", params![any, key]),
            24 if is_big => database.execute(
                "INSERT INTO n WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 400) SELECT i, i || 'x' FROM r",
                [],
            ),
            24 => database.execute("DELETE FROM s WHERE i < (SELECT max(i) FROM s) - 20", []),
            _ => database.execute("INSERT INTO f VALUES (?)", [format!("{text} {key} word{}", key % 9)]),
        }
    }

    /// Writes bytes in the middle of a value, past the pages that need not change.
    fn write_in_blob(&self, key: i64) -> rusqlite::Result<usize> {
        use std::io::{Seek, SeekFrom, Write};
        let mut blob = self.database.blob_open("main", "a", "z", key, false)?;
        if blob.len() > 8 {
            let at = blob.len() as u64 * (key as u64 % 7) / 7;
            let _ = blob.seek(SeekFrom::Start(at));
            let _ = blob.write(&key.to_le_bytes());
        }
        Ok(1)
    }

    /// A table is made, altered or dropped.
    fn schema_statement(&mut self) -> rusqlite::Result<()> {
        let older = self.random.u32(..self.names.max(1));
        let (kind, any) = (self.random.u8(..12), self.random.u8(..5));
        let statement = match kind {
            0..4 => {
                self.names += 1;
                let name = self.names - 1;
                let columns = [
                    "(p, q, r REAL)",
                    "(p INTEGER PRIMARY KEY, q TEXT NOT NULL DEFAULT 'x', r)",
                    "(q TEXT, p INT, r REAL, PRIMARY KEY(p, q)) WITHOUT ROWID",
                    "(p, q, r, UNIQUE(p, q))",
                ][self.random.usize(..4)];
                format!(
                    "CREATE TABLE t{name}{columns}; INSERT INTO t{name}(p, q, r) SELECT id, coalesce(x, id), y FROM a LIMIT 60"
                )
            }
            4 => format!("DROP TABLE t{older}"),
            5 => {
                let defaults = ["", " DEFAULT 5", " TEXT DEFAULT 7", " REAL DEFAULT 3", " INT DEFAULT '12'"];
                let more = [
                    " DEFAULT x'00ff'",
                    " DEFAULT -1.5",
                    " NOT NULL DEFAULT 'it''s'",
                    " DEFAULT NULL",
                    " BLOB DEFAULT (5)",
                ];
                let all: Vec<_> = defaults.into_iter().chain(more).collect();
                let default = all[self.random.usize(..all.len())];
                self.names += 1;
                format!("ALTER TABLE t{older} ADD COLUMN n{}{default}", self.names)
            }
            6 => format!("ALTER TABLE t{older} RENAME COLUMN r TO rr{any}"),
            7 => format!("ALTER TABLE t{older} DROP COLUMN r"),
            8 => {
                self.names += 1;
                format!("ALTER TABLE t{older} RENAME TO t{}", self.names - 1)
            }
            9 => format!("CREATE INDEX i{older}{any} ON t{older}(q)"),
            10 => format!(
                "UPDATE t{older} SET q = CASE typeof(q) WHEN 'blob' THEN q ELSE q || 'y' END WHERE p % 3 = {any}"
            ),
            _ => format!("DELETE FROM t{older} WHERE p % 3 = {any}"),
        };
        self.database.execute_batch(&statement)
    }
}

/// Has SQLite keep bytes free at the end of each page.
fn reserve(database: &Connection, bytes: u8) {
    let mut bytes = i32::from(bytes);
    // SAFETY: the call takes a pointer to an int, which lives for its time.
    let code = unsafe {
        rusqlite::ffi::sqlite3_file_control(
            database.handle(),
            c"main".as_ptr(),
            rusqlite::ffi::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut bytes).cast(),
        )
    };
    assert_eq!(code, rusqlite::ffi::SQLITE_OK);
}
