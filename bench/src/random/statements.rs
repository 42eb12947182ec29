//! Statements by chance: everything that changes a database in a way of its own.
//!
//! A text stands for many: `?` is bound to a value of the kind that stands beside it, `{conflict}`, `{dir}` and the like are
//! replaced. None may have a result that another run would not have: no clock, no random(), no largest rowid (the next one is
//! drawn by chance).

use super::raw::Value;

/// Connections of a sequence.
pub const CONNECTIONS: usize = 3;

/// One step.
#[derive(Clone, Debug)]
pub struct SequenceStep {
    /// On which connection.
    pub connection: usize,
    pub action: Action,
}

/// An action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// A statement to its end. `{dir}` in it is the directory of the side.
    Run(String, Vec<Value>),
    /// A statement of which one row is taken, and that stays under way.
    Begin(&'static str),
    /// Interrupts the statement under way.
    End,
    /// The beginning of a value of `item` is written over in place.
    WriteBlob(i64, Vec<u8>),
    /// The connection is closed and opened again.
    Reopen,
}

/// The tables and all that hangs on them; a sequence has some of the second part.
const TABLES: [&str; 6] = [
    "CREATE TABLE item(id INTEGER PRIMARY KEY, a, b, c TEXT)",
    "CREATE TABLE account(id INTEGER PRIMARY KEY AUTOINCREMENT, cents INT UNIQUE CHECK(cents < 10000), owner TEXT \
     COLLATE NOCASE, twice GENERATED ALWAYS AS (cents * 2) STORED, loud AS (upper(owner)))",
    "CREATE TABLE pair(a TEXT, b INT, c REAL, PRIMARY KEY(a, b)) WITHOUT ROWID",
    "CREATE TABLE child(id INTEGER PRIMARY KEY, item INT REFERENCES item(id) ON DELETE CASCADE ON UPDATE CASCADE, \
     account INT REFERENCES account(cents) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE exact(a INT, b ANY, c BLOB) STRICT",
    "CREATE TABLE audit(m, n)",
];
const EXTRAS: [&str; 14] = [
    "CREATE INDEX item_ab ON item(a, b)",
    "CREATE INDEX item_lower ON item(lower(c)) WHERE a > 3",
    "CREATE INDEX child_item ON child(item)",
    "CREATE INDEX exact_b ON exact(b DESC)",
    "CREATE UNIQUE INDEX audit_one ON audit(m) WHERE m = 1",
    "CREATE TRIGGER item_update AFTER UPDATE ON item WHEN new.a <> old.a BEGIN INSERT INTO audit VALUES(new.id, old.a); \
     DELETE FROM audit WHERE rowid <= (SELECT max(rowid) - 40 FROM audit); END",
    "CREATE TRIGGER exact_insert BEFORE INSERT ON exact WHEN new.a = 13 BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER pair_delete BEFORE DELETE ON pair WHEN old.b = 7 BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    "CREATE TRIGGER audit_again AFTER INSERT ON audit WHEN new.m > 900 BEGIN INSERT INTO audit VALUES(new.m - 1, new.n); END",
    "CREATE VIEW seen AS SELECT item.id, item.a, audit.n FROM item LEFT JOIN audit ON audit.m = item.id",
    "CREATE TRIGGER seen_insert INSTEAD OF INSERT ON seen BEGIN INSERT INTO item(a, c) VALUES(new.a, 'by the view'); END",
    "CREATE VIRTUAL TABLE words USING fts5(body, prefix='2')",
    "CREATE VIRTUAL TABLE box USING rtree(id, x0, x1, y0, y1)",
    "CREATE TABLE big(id INTEGER PRIMARY KEY, v)",
];

/// A kind of bound value.
#[derive(Clone, Copy)]
enum ValueKind {
    /// 0 to 25: such rows meet.
    Small,
    /// A small number as a text.
    SmallText,
    /// Anything.
    Any,
    /// A text of words.
    Words,
    /// Bytes, some of them many.
    Bytes,
}
use ValueKind::{Any, Bytes, Small, SmallText, Words};

/// Statements that change or read rows.
const ROWS: &[(&str, &[ValueKind])] = &[
    ("INSERT INTO item(a, b, c) VALUES(?, ?, ?)", &[Small, Any, SmallText]),
    ("INSERT INTO item(a, b, c) VALUES(?, ?, ?)", &[Small, Any, SmallText]),
    ("INSERT INTO item(a, b, c) VALUES(?, ?, ?)", &[Small, Bytes, Words]),
    ("INSERT OR {conflict} INTO item VALUES(?, ?, ?, 'c')", &[Small, Small, Any]),
    ("INSERT INTO item(a, c) VALUES(?, ?) RETURNING id, a", &[Small, Words]),
    ("INSERT INTO item(id, a, c) VALUES((SELECT coalesce(max(id), 0) + 2 FROM item), ?, 'next')", &[Small]),
    (
        "INSERT INTO item(a, b, c) SELECT a, group_concat(b), count(*) FROM item GROUP BY a HAVING count(*) > 2 LIMIT 2",
        &[],
    ),
    (
        "INSERT OR {conflict} INTO account(cents, owner) VALUES(?, 'B'), (?, 'c'), (?, 'd')",
        &[Small, Small, Small],
    ),
    (
        "INSERT INTO account(cents, owner) VALUES(?, ?) ON CONFLICT(cents) DO UPDATE SET owner = excluded.owner || owner, \
      cents = cents + 100 WHERE length(owner) < 80",
        &[Small, Words],
    ),
    ("INSERT INTO account(cents, owner) VALUES(?, ?) RETURNING id, twice, loud", &[Small, Words]),
    ("INSERT INTO account(cents, owner) SELECT a + 1000, c FROM item WHERE a < ? GROUP BY a", &[Small]),
    ("INSERT INTO account(cents, owner) VALUES(? + 9990, 'rich')", &[Small]),
    ("INSERT INTO pair VALUES(?, ?, ?) ON CONFLICT DO NOTHING", &[SmallText, Small, Any]),
    ("REPLACE INTO pair SELECT c, a, b FROM item WHERE a BETWEEN ? AND ?", &[Small, Small]),
    (
        "INSERT INTO pair VALUES(?, abs(?), round(?, 2)) ON CONFLICT DO UPDATE SET c = excluded.c + 1",
        &[SmallText, Small, Any],
    ),
    ("INSERT INTO child(item, account) VALUES(?, ?)", &[Small, Small]),
    ("INSERT INTO child(item, account) VALUES(?, NULL)", &[Small]),
    ("INSERT INTO child(item, account) SELECT id, NULL FROM item WHERE a = ?", &[Small]),
    ("INSERT INTO exact VALUES(?, ?, ?)", &[Small, Any, Bytes]),
    ("INSERT INTO exact VALUES(?, ?, ?)", &[Small, Any, SmallText]),
    ("INSERT INTO exact SELECT a, b, NULL FROM item ORDER BY b, id LIMIT 3", &[]),
    ("INSERT INTO seen(id, a) VALUES(1, ?)", &[Small]),
    ("INSERT INTO audit VALUES(last_insert_rowid(), total_changes() % 7)", &[]),
    ("INSERT INTO audit VALUES(changes(), ?)", &[Small]),
    ("INSERT INTO audit VALUES(903, ?)", &[Small]),
    (
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < ? * 2) INSERT INTO audit SELECT i, i * i FROM r",
        &[Small],
    ),
    ("INSERT INTO words VALUES(?)", &[Words]),
    ("INSERT INTO words(rowid, body) VALUES(?, ?)", &[Small, Words]),
    ("INSERT INTO words(words) VALUES('{fts}')", &[]),
    ("INSERT OR {conflict} INTO box VALUES(?, ?, 30, 1, 2)", &[Small, Small]),
    ("INSERT INTO big(v) VALUES(?)", &[Bytes]),
    (
        "INSERT INTO big(v) SELECT zeroblob(3000) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3), item LIMIT ? * 4",
        &[Small],
    ),
    ("UPDATE item SET a = a + 1, b = ? WHERE a = ?", &[Any, Small]),
    ("UPDATE item SET id = id + 50 WHERE id = ?", &[Small]),
    ("UPDATE item SET c = c || printf('%d-%.15g', a, b) WHERE length(c) < 60 AND id < ?", &[Small]),
    ("UPDATE item SET b = abs(b), c = substr(c, 1, 10) WHERE typeof(b) = 'integer' AND a = ?", &[Small]),
    (
        "UPDATE item SET c = CASE WHEN c LIKE ? || '%' THEN 'like' WHEN c GLOB '[a-f]*' THEN 'glob' ELSE c END",
        &[SmallText],
    ),
    ("UPDATE item SET a = (SELECT count(*) FROM item o WHERE o.a < item.a) WHERE id % 4 = 0", &[]),
    (
        "UPDATE item SET b = x.n, c = json_object('a', x.n) FROM (SELECT m, max(n) n FROM audit GROUP BY m) x WHERE x.m = item.id",
        &[],
    ),
    ("UPDATE item SET b = zeroblob(? * 300) WHERE a = ?", &[Small, Small]),
    ("UPDATE item SET a = ? WHERE id = ? RETURNING id, a, typeof(b)", &[Small, Small]),
    ("UPDATE OR {conflict} account SET cents = cents + ? WHERE id % 3 = 1", &[Small]),
    (
        "UPDATE account SET owner = (SELECT c FROM item WHERE item.id = account.id) WHERE EXISTS (SELECT 1 FROM child WHERE account = cents)",
        &[],
    ),
    ("UPDATE sqlite_sequence SET seq = seq + 10", &[]),
    ("UPDATE child SET account = ? WHERE item = ?", &[Small, Small]),
    ("UPDATE pair SET c = c * 1.1 + b WHERE b = ?", &[Small]),
    ("UPDATE pair SET b = b + 1 WHERE a < ?", &[SmallText]),
    (
        "UPDATE exact SET b = (SELECT b FROM item WHERE a >= exact.a ORDER BY id), a = a + 1 WHERE a < ?",
        &[Small],
    ),
    ("UPDATE exact SET c = zeroblob(? * 200) WHERE a = ?", &[Small, Small]),
    ("UPDATE words SET body = ? WHERE rowid = ?", &[Words, Small]),
    ("UPDATE box SET x0 = x0 - 1 WHERE id = ?", &[Small]),
    ("UPDATE big SET v = ? WHERE id = ?", &[Bytes, Small]),
    ("DELETE FROM item WHERE id = ?", &[Small]),
    ("DELETE FROM item WHERE id IN (SELECT id FROM item ORDER BY a, id LIMIT 3)", &[]),
    ("DELETE FROM account WHERE cents = ?", &[Small]),
    ("DELETE FROM pair WHERE a = ?", &[SmallText]),
    ("DELETE FROM exact WHERE b IN (SELECT b FROM item WHERE a = ?)", &[Small]),
    ("DELETE FROM audit WHERE m = ? RETURNING n", &[Small]),
    ("DELETE FROM words WHERE rowid = ?", &[Small]),
    ("DELETE FROM box WHERE x1 > ?", &[Small]),
    ("DELETE FROM big WHERE id % 3 = 0", &[]),
    ("DELETE FROM audit", &[]),
    ("SELECT count(*), sum(a), max(id), typeof(max(b)) FROM item", &[]),
    ("SELECT * FROM seen ORDER BY 1, 2, 3 LIMIT 5", &[]),
    ("SELECT rowid, body FROM words WHERE words MATCH 'apple OR pe*' ORDER BY rank, rowid", &[]),
    (
        "SELECT a.id, group_concat(i.c) FROM account a LEFT JOIN item i ON i.a = a.cents GROUP BY a.id ORDER BY 1",
        &[],
    ),
    ("SELECT id FROM box WHERE x0 <= ? AND x1 >= 3 ORDER BY id", &[Small]),
    ("SELECT changes(), total_changes(), last_insert_rowid()", &[]),
    ("SELECT no_such_column FROM item", &[]),
    ("INSERT INTO no_such_table VALUES(?)", &[Small]),
    ("INSERT INTO scratch SELECT id FROM item WHERE a = ?", &[Small]),
    ("INSERT INTO item(a, c) SELECT x, 'from scratch' FROM scratch LIMIT 2", &[]),
    ("UPDATE item SET c = (SELECT count(*) FROM scratch) WHERE id = ?", &[Small]),
    ("INSERT INTO other.o VALUES(?)", &[Any]),
    ("DELETE FROM other.o WHERE rowid = ?", &[Small]),
    ("INSERT INTO item(a, b) SELECT rowid, x FROM other.o LIMIT 2", &[]),
];

/// Statements about tables, and what else changes more than rows.
const SCHEMA: &[&str] = &[
    "CREATE INDEX IF NOT EXISTS late ON exact(a)",
    "DROP INDEX IF EXISTS late",
    "CREATE TABLE IF NOT EXISTS late_table(q)",
    "INSERT INTO late_table VALUES(1)",
    "DROP TABLE IF EXISTS late_table",
    "CREATE TABLE IF NOT EXISTS copy AS SELECT * FROM item",
    "DROP TABLE IF EXISTS copy",
    "ALTER TABLE audit ADD COLUMN z{digit}",
    "ALTER TABLE audit DROP COLUMN z{digit}",
    "ALTER TABLE exact RENAME COLUMN c TO c2",
    "ALTER TABLE exact RENAME COLUMN c2 TO c",
    "ALTER TABLE big RENAME TO large",
    "ALTER TABLE large RENAME TO big",
    "DROP TRIGGER IF EXISTS audit_again",
    "DROP TABLE IF EXISTS words",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(body)",
    "REINDEX",
    "ANALYZE",
    "VACUUM",
    "CREATE TEMP TABLE IF NOT EXISTS scratch(x)",
    "DROP TABLE IF EXISTS temp.scratch",
    "CREATE TEMP TABLE IF NOT EXISTS audit(m, n)",
    "DROP TABLE IF EXISTS temp.audit",
    "CREATE TEMP TRIGGER IF NOT EXISTS shadow AFTER INSERT ON main.item BEGIN INSERT INTO audit VALUES(new.a, 'temp'); END",
    "DROP TRIGGER IF EXISTS temp.shadow",
    "CREATE TEMP VIEW IF NOT EXISTS few AS SELECT * FROM main.item WHERE a < 5",
    "ATTACH '{dir}/other.db' AS other",
    "DETACH other",
    "CREATE TABLE IF NOT EXISTS other.o(x)",
];

/// Settings, and what they bring about.
const PRAGMAS: &[&str] = &[
    "PRAGMA foreign_keys={switch}",
    "PRAGMA recursive_triggers={switch}",
    "PRAGMA defer_foreign_keys=ON",
    "PRAGMA case_sensitive_like={switch}",
    "PRAGMA ignore_check_constraints={switch}",
    "PRAGMA reverse_unordered_selects={switch}",
    "PRAGMA cache_size={digit}",
    "PRAGMA cache_spill={switch}",
    "PRAGMA temp_store={digit}",
    "PRAGMA secure_delete={switch}",
    "PRAGMA user_version={digit}",
    "PRAGMA application_id={digit}",
    "PRAGMA query_only={switch}",
    "PRAGMA query_only=OFF",
    "PRAGMA wal_checkpoint",
    "PRAGMA wal_checkpoint({checkpoint})",
    "PRAGMA wal_autocheckpoint={digit}",
    "PRAGMA incremental_vacuum({digit})",
    "PRAGMA integrity_check",
    "PRAGMA foreign_key_check",
    "PRAGMA optimize",
    "PRAGMA journal_mode",
    "PRAGMA page_count",
    "PRAGMA freelist_count",
    "PRAGMA locking_mode=NORMAL",
];

/// Statements that stay under way.
const CURSORS: [&str; 4] = [
    "SELECT * FROM item",
    "SELECT * FROM audit ORDER BY m",
    "INSERT INTO item(a, c) VALUES(1, 'o'), (2, 'o') RETURNING id",
    "DELETE FROM audit WHERE m < 5 RETURNING m",
];

/// A sequence without the power to decide what it runs on: see [`Sequence::new`].
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The first statements, on a new database.
    pub beginning: Vec<String>,
    pub steps: Vec<SequenceStep>,
    /// The steps after the crash.
    pub after: Vec<SequenceStep>,
    /// True if the end is a power cut, else a kill: everything is durable then.
    pub power_cut: bool,
}

/// Makes steps.
struct Maker {
    random: fastrand::Rng,
    steps: Vec<SequenceStep>,
    durable: bool,
    wal: bool,
}

impl Sequence {
    /// True if a connection has a cache of a few pages by that step.
    pub fn has_small_caches(&self, step: usize) -> bool {
        let sets = |step: &SequenceStep| matches!(&step.action, Action::Run(sql, _) if sql.starts_with("PRAGMA cache_size="));
        self.steps[..step].iter().any(sets)
    }

    /// The sequence of a seed.
    pub fn new(seed: u64) -> Sequence {
        let mut random = fastrand::Rng::with_seed(seed);
        let power_cut = random.u8(..3) == 0;
        let wal = random.u8(..3) > 0;
        let mode = if wal { "WAL" } else { ["DELETE", "TRUNCATE", "PERSIST"][random.usize(..3)] };
        let bytes = [512, 1024, 4096, 4096, 8192][random.usize(..5)];
        let vacuum = [0, 0, 0, 1, 2][random.usize(..5)];
        let mut beginning = vec![format!("PRAGMA page_size={bytes}"), format!("PRAGMA auto_vacuum={vacuum}")];
        if random.u8(..20) == 0 {
            beginning.push("PRAGMA encoding='UTF-16le'".to_owned());
        }
        beginning.push(format!("PRAGMA journal_mode={mode}"));
        beginning.push("BEGIN".to_owned());
        beginning.extend(TABLES.map(str::to_owned));
        beginning.extend(EXTRAS.iter().filter(|_| random.u8(..4) > 0).map(|sql| (*sql).to_owned()));
        beginning.push("COMMIT".to_owned());
        let many = random.usize(10..50);
        let mut maker = Maker { random, steps: Vec::new(), durable: power_cut, wal };
        maker.fill(many);
        let steps = std::mem::take(&mut maker.steps);
        let many = maker.random.usize(..12);
        maker.fill(many);
        Sequence { beginning, steps, after: maker.steps, power_cut }
    }
}

impl Maker {
    fn fill(&mut self, many: usize) {
        while self.steps.len() < many {
            let connection = [0, 0, 0, 0, 0, 1, 1, 2][self.random.usize(..8)];
            match self.random.u8(..100) {
                0..=64 => self.rows(connection),
                65..=76 => self.transaction(connection),
                77..=83 => {
                    let place = self.random.usize(..SCHEMA.len());
                    self.sql(connection, SCHEMA[place]);
                }
                84..=91 => self.pragma(connection),
                92 => {
                    let sql = CURSORS[self.random.usize(..CURSORS.len())];
                    self.push(connection, Action::Begin(sql));
                }
                93 | 94 => self.push(connection, Action::End),
                95 | 96 => self.push(connection, Action::Reopen),
                97 | 98 => {
                    let id = self.random.i64(1..20);
                    let bytes = vec![self.random.u8(..); self.random.usize(1..40)];
                    self.push(connection, Action::WriteBlob(id, bytes));
                }
                _ => {
                    let begin = ["BEGIN", "COMMIT", "ROLLBACK"][self.random.usize(..3)];
                    self.sql(connection, begin);
                }
            }
        }
    }

    fn push(&mut self, connection: usize, action: Action) {
        self.steps.push(SequenceStep { connection, action });
    }

    fn sql(&mut self, connection: usize, text: &str) {
        let text = self.filled(text);
        self.push(connection, Action::Run(text, Vec::new()));
    }

    /// A text with a word for each place.
    fn filled(&mut self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let random = &mut self.random;
        let mut pick = |words: &[&'static str]| words[random.usize(..words.len())];
        let conflict = pick(&["REPLACE", "IGNORE", "FAIL", "ABORT", "ROLLBACK"]);
        let switch = pick(&["ON", "OFF"]);
        let digit = pick(&["0", "1", "2", "3", "10"]);
        let checkpoint = pick(&["PASSIVE", "FULL", "RESTART", "TRUNCATE"]);
        let fts = pick(&["optimize", "rebuild", "integrity-check"]);
        text.replace("{conflict}", conflict)
            .replace("{switch}", switch)
            .replace("{digit}", digit)
            .replace("{checkpoint}", checkpoint)
            .replace("{fts}", fts)
    }

    fn rows(&mut self, connection: usize) {
        let (text, kinds) = ROWS[self.random.usize(..ROWS.len())];
        let text = self.filled(text);
        let values = kinds.iter().map(|kind| self.value(*kind)).collect();
        self.push(connection, Action::Run(text, values));
    }

    fn transaction(&mut self, connection: usize) {
        let begin = ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT s"][self.random.usize(..4)];
        self.sql(connection, begin);
        for _ in 0..self.random.usize(1..8) {
            match self.random.u8(..20) {
                0..=2 => {
                    let savepoint = ["SAVEPOINT t", "ROLLBACK TO t", "RELEASE t", "ROLLBACK TO s"];
                    let place = self.random.usize(..savepoint.len());
                    self.sql(connection, savepoint[place]);
                }
                3 | 4 => {
                    let other = self.random.usize(..CONNECTIONS);
                    self.rows(other);
                }
                _ => self.rows(connection),
            }
        }
        let end = ["COMMIT", "COMMIT", "COMMIT", "RELEASE s", "ROLLBACK"][self.random.usize(..5)];
        self.sql(connection, end);
        if self.random.u8(..10) < 7 {
            let end = ["COMMIT", "ROLLBACK"][self.random.usize(..2)];
            self.sql(connection, end);
        }
    }

    fn pragma(&mut self, connection: usize) {
        let place = self.random.usize(..PRAGMAS.len() + 3);
        if let Some(pragma) = PRAGMAS.get(place) {
            return self.sql(connection, pragma);
        }
        if place == PRAGMAS.len() {
            let synchronous =
                if self.durable { "FULL" } else { ["OFF", "NORMAL", "FULL"][self.random.usize(..3)] };
            return self.sql(connection, &format!("PRAGMA synchronous={synchronous}"));
        }
        // Mostly within its family.
        let mode = match (self.wal, self.random.u8(..3)) {
            (true, 1..) | (false, 0) => "WAL",
            _ => ["DELETE", "TRUNCATE", "PERSIST"][self.random.usize(..3)],
        };
        self.sql(connection, &format!("PRAGMA journal_mode={mode}"));
    }

    fn value(&mut self, kind: ValueKind) -> Value {
        let random = &mut self.random;
        match kind {
            Small => Value::Int(random.i64(0..26)),
            SmallText => Value::Text(random.u8(..26).to_string()),
            Words => {
                let words = ["apple", "pear", "PEACH", "plum", "äöÜ", "a'b", "quince"];
                let many = random.usize(..6);
                let words: Vec<_> = (0..many).map(|_| words[random.usize(..words.len())]).collect();
                Value::Text(words.join(" "))
            }
            Bytes => match random.u8(..6) {
                0 => Value::ZeroBlob(random.u32(..40_000)),
                1 => Value::Blob(vec![random.u8(..); random.usize(..9000)]),
                2 => Value::Text("y".repeat(random.usize(500..6000))),
                _ => Value::Blob(vec![random.u8(..); random.usize(..40)]),
            },
            Any => match random.u8(..20) {
                0..=8 => Value::Int(random.i64(0..26)),
                9 => Value::Int([-1, 1 << 31, i64::MIN, 1 << 62][random.usize(..4)]),
                10 | 11 => Value::Real(
                    [0.1, 1e300, -0.0, 1.0 / 3.0, 9_007_199_254_740_993.0, 3.0][random.usize(..6)],
                ),
                12 => Value::Null,
                13 | 14 => Value::Blob((0..random.usize(..30)).map(|_| random.u8(..)).collect()),
                15 => Value::Text("z".repeat(random.usize(..3000))),
                _ => {
                    Value::Text(["x", "Abc", "äöÜ", "", "12", "1e3", "nul\0in"][random.usize(..7)].to_owned())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_stands_for_one_sequence() {
        for seed in 0..20 {
            assert_eq!(format!("{:?}", Sequence::new(seed)), format!("{:?}", Sequence::new(seed)));
        }
        assert_ne!(format!("{:?}", Sequence::new(1)), format!("{:?}", Sequence::new(2)));
    }

    #[test]
    fn every_statement_is_drawn_and_has_no_open_place_but_the_directory() {
        let all: String = (0..600).map(|seed| format!("{:?}", Sequence::new(seed))).collect();
        for (text, kinds) in ROWS {
            assert_eq!(text.matches('?').count(), kinds.len(), "{text}");
        }
        for text in SCHEMA.iter().chain(PRAGMAS) {
            let start = text.split('{').next().unwrap_or_default();
            assert!(all.contains(start), "{text}");
        }
        assert!(!all.replace("{dir}", "").contains("{c"), "a place is open");
    }
}
