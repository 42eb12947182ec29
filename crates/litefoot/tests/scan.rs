//! `litefoot_scan` answers as SQLite does: in all states of a database, for any table, and over damaged pages.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use litefoot_sim::Random;
use rusqlite::types::Value;
use rusqlite::{OpenFlags, params_from_iter};
use std::path::{Path, PathBuf};

type Rows = Vec<Vec<Value>>;

fn rows(db: &rusqlite::Connection, sql: &str, parameters: &[Value]) -> rusqlite::Result<Rows> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map(params_from_iter(parameters), |row| {
        (0..columns).map(|column| row.get::<_, Value>(column)).collect()
    })?;
    rows.collect()
}

/// The rows of a statement by the function, and the way that was taken; none without rows.
fn scan(db: &rusqlite::Connection, sql: &str, parameters: &[Value]) -> rusqlite::Result<(Rows, String)> {
    let columns = db.prepare(sql).map_or(1, |statement| statement.column_count());
    let list: Vec<String> = (1..=columns).map(|column| format!("c{column}")).collect();
    let arguments: String = (0..parameters.len()).map(|_| ", ?").collect();
    let call = format!("SELECT {}, plan FROM litefoot_scan(?{arguments})", list.join(", "));
    let mut all = vec![Value::Text(sql.to_owned())];
    all.extend_from_slice(parameters);
    let mut rows = rows(db, &call, &all)?;
    let mut way = String::new();
    for row in &mut rows {
        let Some(Value::Text(plan)) = row.pop() else { panic!("no plan") };
        way = plan;
    }
    Ok((rows, way))
}

fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Real(one), Value::Real(other)) => {
            (one - other).abs() <= one.abs().max(other.abs()) * f64::EPSILON
        }
        _ => one == other,
    }
}

/// The rows in an order that depends on them alone, of reals on the first digits: SQLite may read them by an index.
fn sorted(mut rows: Rows) -> Rows {
    let key = |value: &Value| match value {
        Value::Real(real) => format!("{real:.6e}"),
        other => format!("{other:?}"),
    };
    rows.sort_by_cached_key(|row| row.iter().map(key).collect::<Vec<_>>());
    rows
}

/// Asserts that both ways answer the same; answers the way that was taken.
fn check(db: &rusqlite::Connection, sql: &str, parameters: &[Value]) -> String {
    let (by_sqlite, by_scan) = (rows(db, sql, parameters), scan(db, sql, parameters));
    match (by_sqlite, by_scan) {
        (Ok(expected), Ok((found, way))) => {
            let (expected, found) = (sorted(expected), sorted(found));
            let equal = expected.len() == found.len()
                && expected
                    .iter()
                    .zip(&found)
                    .all(|(one, other)| one.iter().zip(other).all(|(one, other)| is_equal(one, other)));
            assert!(
                equal,
                "{sql} {parameters:?} ({way})\nSQLite: {:?}\nscan: {:?}",
                &expected[..expected.len().min(9)],
                &found[..found.len().min(9)]
            );
            way
        }
        (Err(_), Err(_)) => "error".to_owned(),
        (expected, found) => panic!("{sql}: {expected:?} {found:?}"),
    }
}

fn is_parallel(way: &str) -> bool {
    way.starts_with("parallel")
}

fn database(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    (directory, path)
}

const FILL: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, city TEXT, x INTEGER, y REAL, note TEXT);
    WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
    INSERT INTO t SELECT i, 'city ' || (i * 7919 % 50), i * 31 % 1000 - 500, i * 0.1, hex(randomblob(40)) FROM n;";

const QUERIES: [&str; 9] = [
    "SELECT count(*) FROM t",
    "SELECT count(*), sum(x), avg(x), total(y), min(city), max(y) FROM t",
    "SELECT city, count(*), sum(x), avg(y), min(id) FROM t WHERE x > 10 GROUP BY city",
    "SELECT city, x, count(y) FROM t WHERE id BETWEEN 100 AND 30000 AND NOT city = 'city 7' GROUP BY x, city",
    "SELECT id, city FROM t WHERE x IN (1, 2, NULL) OR y < 3",
    "SELECT sum(y) FROM t WHERE x = 5000",
    "SELECT city FROM t WHERE id < 0 GROUP BY city",
    "SELECT max(rowid), min(\"city\"), count(note) FROM main.t WHERE city >= 'city 3' AND note IS NOT NULL",
    "SELECT x FROM t GROUP BY x",
];

#[test]
fn aggregates_groups_and_filters_are_sqlites_in_all_states() {
    for mode in ["delete", "persist", "memory", "wal"] {
        let (_directory, path) = database("app.db");
        let db = Connection::open(&path).unwrap();
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch(FILL).unwrap();
        for round in 0..3 {
            for sql in QUERIES {
                let way = check(&db, sql, &[]);
                assert!(way.is_empty() || is_parallel(&way), "{mode} {round} {sql}: {way}");
            }
            match round {
                0 => db.execute_batch("DELETE FROM t WHERE id % 3 = 0; UPDATE t SET x = x + 1").unwrap(),
                _ => db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap(),
            }
        }
    }
}

#[test]
fn a_scan_sees_its_transaction_and_nothing_else() {
    let (_directory, path) = database("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode=WAL").unwrap_or_default();
    db.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
    db.execute_batch(FILL).unwrap();
    let other = Connection::open(&path).unwrap();
    let sql = "SELECT count(*), sum(x), total(y) FROM t";
    db.execute_batch("BEGIN").unwrap();
    let before = rows(&db, sql, &[]).unwrap();
    assert!(is_parallel(&check(&db, sql, &[])));
    for step in 0..5 {
        other.execute("UPDATE t SET x = x + 1000, y = 0 WHERE id % 5 = ?1", [step]).unwrap();
        other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        check(&db, sql, &[]);
        assert_eq!(scan(&db, sql, &[]).unwrap().0, before);
        let newest = check(&other, sql, &[]);
        assert!(is_parallel(&newest), "{newest}");
    }
    db.execute_batch("COMMIT").unwrap();
    assert!(is_parallel(&check(&db, sql, &[])));
    assert_ne!(scan(&db, sql, &[]).unwrap().0, before);
    // Its own changes, which are in SQLite's cache.
    db.execute_batch("BEGIN; DELETE FROM t WHERE id % 2").unwrap();
    assert_eq!(check(&db, sql, &[]), "by SQLite: the transaction writes");
    db.execute_batch("ROLLBACK").unwrap();
    assert!(is_parallel(&check(&db, sql, &[])));
}

#[test]
fn what_cannot_be_read_past_sqlite_is_read_by_it() {
    let (_directory, path) = database("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(FILL).unwrap();
    db.execute_batch(
        "CREATE TABLE w(a TEXT PRIMARY KEY, b) WITHOUT ROWID; INSERT INTO w SELECT id, x FROM t;
         CREATE VIEW v AS SELECT x, y FROM t WHERE x > 3;
         CREATE TABLE c(a TEXT COLLATE NOCASE, b INTEGER); INSERT INTO c VALUES('a', 1), ('A', 2), ('b', 3);
         CREATE TABLE o(a INTEGER); INSERT INTO o VALUES(9223372036854775807), (1), (-5);
         CREATE TABLE n(a); INSERT INTO n VALUES(1), (1.0), ('1'), (x'31');
         CREATE TEMP TABLE shadow(a); CREATE TABLE main.shadow(a, b); INSERT INTO temp.shadow VALUES(7);
         ALTER TABLE c ADD COLUMN d TEXT DEFAULT 'none'; INSERT INTO c VALUES('x', 4, 'some');",
    )
    .unwrap();
    for (sql, reason) in [
        ("SELECT count(*), sum(b) FROM w", "k"),
        ("SELECT count(*) FROM v", ""),
        ("SELECT a, count(*) FROM c GROUP BY a", "the collation"),
        ("SELECT min(a) FROM c", "compare equal"),
        ("SELECT count(*), max(a) FROM n", ""),
        ("SELECT sum(a) FROM n", "no number"),
        ("SELECT a, count(*) FROM n GROUP BY a", "compare equal"),
        ("SELECT a FROM shadow", ""),
        ("SELECT b FROM c WHERE d = 'none'", "a default"),
        ("SELECT count(*) FROM t WHERE x = '5'", "as a number"),
        ("SELECT count(*) FROM sqlite_schema", "main database"),
    ] {
        let way = check(&db, sql, &[]);
        assert!(!is_parallel(&way), "{sql}: {way}");
        assert!(reason.len() < 2 || way.contains(reason), "{sql}: {way}");
    }
    assert_eq!(check(&db, "SELECT sum(a) FROM o", &[]), "error", "integer overflow");
    assert!(is_parallel(&check(&db, "SELECT b FROM c WHERE a = 'A' AND b < 3", &[])));
    // Without litefoot's VFS.
    let memory = rusqlite::Connection::open_in_memory().unwrap();
    memory.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1), (2)").unwrap();
    let way = check(&memory, "SELECT sum(x) FROM t", &[]);
    assert!(way.contains("not on litefoot"), "{way}");
}

#[test]
fn parameters_are_bound_and_errors_name_what_is_wrong() {
    let (_directory, path) = database("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(FILL).unwrap();
    let sql = "SELECT city, count(*) FROM t WHERE x > ?2 AND city <> ?1 AND y < ? GROUP BY city";
    let parameters = [Value::Text("city 3".to_owned()), Value::Integer(100), Value::Real(900.5)];
    assert!(is_parallel(&check(&db, sql, &parameters)));
    assert!(scan(&db, sql, &parameters[..1]).unwrap().0.is_empty(), "a missing one is NULL");
    for (sql, named) in [
        ("SELECT x FROM t ORDER BY x", "ORDER"),
        ("SELECT x + 1 FROM t", "+"),
        ("SELECT other FROM t", "no such column: other"),
        ("SELECT x FROM nowhere", "no such table: nowhere"),
        ("SELECT city, count(*) FROM t", "city"),
    ] {
        let message = scan(&db, sql, &[]).unwrap_err().to_string();
        assert!(message.contains("litefoot_scan: ") && message.contains(named), "{sql}: {message}");
    }
    assert!(rows(&db, "SELECT * FROM litefoot_scan", &[]).is_err());
    assert!(rows(&db, "SELECT * FROM litefoot_scan(7)", &[]).is_err());
    let joined = "SELECT count(*) FROM t JOIN litefoot_scan('SELECT max(id) FROM t') AS s ON t.id < s.c1";
    assert_eq!(rows(&db, joined, &[]).unwrap(), [[Value::Integer(39_999)]]);
    db.execute_batch(
        "CREATE TABLE q(text); INSERT INTO q VALUES('SELECT count(*) FROM t'), ('SELECT max(id) FROM t')",
    )
    .unwrap();
    let of_column = "SELECT s.c1 FROM litefoot_scan(q.text) AS s, q";
    assert_eq!(rows(&db, of_column, &[]).unwrap(), [[Value::Integer(40_000)], [Value::Integer(40_000)]]);
}

/// A value of any kind, of few different ones, so that some are equal.
fn value(random: &mut Random) -> String {
    match random.below(12) {
        0 => "NULL".to_owned(),
        1..=3 => (random.below(9) as i64 - 4).to_string(),
        4 => ((random.bits() as i64) >> random.below(64)).to_string(),
        5 => format!("{}.5", random.below(20) as i64 - 10),
        6 => format!("{}.0", random.below(5)),
        7 => format!("'{}'", ["a", "A", "b  ", "b", "", "ä", "a b"][random.below(7) as usize]),
        8 => format!("'{}'", random.below(20)),
        9 => format!("x'{:02x}'", random.below(4)),
        10 => format!("'{}'", "long ".repeat(random.below(400) as usize)),
        _ => "randomblob(300)".to_owned(),
    }
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

const TYPES: [&str; 12] = [
    "INTEGER",
    "REAL",
    "TEXT",
    "BLOB",
    "",
    "NUMERIC",
    "VARCHAR(9) COLLATE NOCASE",
    "TEXT COLLATE RTRIM",
    "DOUBLE",
    "INT NOT NULL DEFAULT 7",
    "AS (c0) VIRTUAL",
    "AS (c0) STORED",
];

/// A table `t` with columns `c0` and more; answers how many.
fn random_table(db: &rusqlite::Connection, random: &mut Random) -> usize {
    let columns = 2 + random.below(6) as usize;
    let key = random.below(columns as u64 + 3) as usize;
    let types: Vec<&str> = (0..columns)
        .map(|column| match column {
            _ if column == key && column > 0 => {
                pick(random, &["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY DESC", "INT PRIMARY KEY"])
            }
            0 => TYPES[random.below(9) as usize],
            _ => pick(random, &TYPES),
        })
        .collect();
    let declared: Vec<String> =
        types.iter().enumerate().map(|(number, kind)| format!("c{number} {kind}")).collect();
    db.execute_batch(&format!("CREATE TABLE t({})", declared.join(", "))).unwrap();
    let mut own: Vec<String> = (0..columns)
        .filter(|column| !types[*column].starts_with("AS"))
        .map(|column| format!("c{column}"))
        .collect();
    let mut columns = columns;
    db.execute_batch("BEGIN").unwrap();
    for row in 0..random.below(400) {
        if row == 100 && random.one_in(2) {
            let default = pick(random, &["", " DEFAULT 5", " TEXT DEFAULT 'x'"]);
            db.execute_batch(&format!("ALTER TABLE t ADD COLUMN c{columns}{default}")).unwrap();
            own.push(format!("c{columns}"));
            columns += 1;
        }
        let values: Vec<String> = own.iter().map(|_| value(random)).collect();
        let insert = format!("INSERT OR IGNORE INTO t({}) VALUES({})", own.join(", "), values.join(", "));
        let _ = db.execute_batch(&insert);
    }
    db.execute_batch("COMMIT").unwrap();
    if random.one_in(3) {
        db.execute_batch("DELETE FROM t WHERE rowid % 3 = 1").unwrap();
    }
    if random.one_in(3) {
        db.execute_batch("CREATE INDEX i ON t(c1)").unwrap();
    }
    columns
}

fn column(random: &mut Random, columns: usize) -> String {
    match random.below(columns as u64 * 4 + 1) as usize / 4 {
        number if number < columns => format!("c{number}"),
        _ => "rowid".to_owned(),
    }
}

fn condition(random: &mut Random, columns: usize, depth: usize) -> String {
    let inner = |random: &mut Random| condition(random, columns, depth + 1);
    let constant = |random: &mut Random| loop {
        let value = value(random);
        if value != "randomblob(300)" {
            return value;
        }
    };
    let column = column(random, columns);
    match random.below(if depth > 2 { 7 } else { 10 }) {
        0 => format!("{column} IS {}NULL", pick(random, &["", "NOT "])),
        1 => format!(
            "{column} {}BETWEEN {} AND {}",
            pick(random, &["", "NOT "]),
            constant(random),
            constant(random)
        ),
        2 => format!(
            "{column} {}IN ({}, {}, {})",
            pick(random, &["", "NOT "]),
            constant(random),
            constant(random),
            constant(random)
        ),
        3 => format!("{} {} {column}", constant(random), pick(random, &["=", "<", "<="])),
        4..=6 => {
            let operator = pick(random, &["=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT"]);
            format!("{column} {operator} {}", constant(random))
        }
        7 => format!("NOT ({})", inner(random)),
        8 => format!("({} AND {})", inner(random), inner(random)),
        _ => format!("({} OR {})", inner(random), inner(random)),
    }
}

fn query(random: &mut Random, columns: usize) -> String {
    let aggregate = |random: &mut Random| match random.below(8) {
        0 => "count(*)".to_owned(),
        _ => {
            let function = pick(random, &["count", "sum", "avg", "total", "min", "max"]);
            format!("{function}({})", column(random, columns))
        }
    };
    let keys: Vec<String> = (0..random.below(3)).map(|_| column(random, columns)).collect();
    let mut items = keys.clone();
    let (mut group, plain) = (String::new(), keys.is_empty() && random.one_in(2));
    for _ in 0..=random.below(3) {
        items.push(if plain { column(random, columns) } else { aggregate(random) });
    }
    if !keys.is_empty() {
        group = format!(" GROUP BY {}", keys.join(", "));
    }
    let filter =
        if random.one_in(3) { String::new() } else { format!(" WHERE {}", condition(random, columns, 0)) };
    format!("SELECT {} FROM t{filter}{group}", items.join(", "))
}

#[test]
fn random_statements_over_random_tables_are_answered_as_sqlite_does() {
    let mut random = Random::new(21);
    let (mut parallel, mut all) = (0, 0);
    for round in 0..16 {
        let (_directory, path) = database("app.db");
        let db = Connection::open(&path).unwrap();
        let bytes = [512, 1024, 4096, 65536][random.below(4) as usize];
        db.execute_batch(&format!("PRAGMA page_size={bytes}")).unwrap();
        if round % 2 == 0 {
            db.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
        }
        let columns = random_table(&db, &mut random);
        for _ in 0..50 {
            let way = check(&db, &query(&mut random, columns), &[]);
            (parallel, all) = (parallel + usize::from(is_parallel(&way)), all + 1);
        }
    }
    assert!(parallel > all / 5, "{parallel} of {all} without SQLite");
}

fn damage(path: &Path, random: &mut Random, page_bytes: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    for _ in 0..=random.below(8) {
        let page = 1 + random.below(bytes.len() as u64 / page_bytes - 1);
        // Mostly headers, pointers and the beginnings of cells.
        let most = if random.one_in(2) { 64 } else { page_bytes };
        let inside = random.below(most);
        bytes[(page * page_bytes + inside) as usize] = random.bits() as u8;
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_pages_are_errors_and_no_panic() {
    let (_directory, path) = database("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA page_size=512").unwrap();
    db.execute_batch(&FILL.replace("40000", "3000")).unwrap();
    db.execute_batch("UPDATE t SET note = hex(randomblob(900)) WHERE id % 50 = 0").unwrap();
    drop(db);
    let original = std::fs::read(&path).unwrap();
    let mut random = Random::new(3);
    for _ in 0..30 {
        std::fs::write(&path, &original).unwrap();
        damage(&path, &mut random, 512);
        let db = Connection::open(&path).unwrap();
        for sql in [QUERIES[1], QUERIES[4], QUERIES[7]] {
            if let Err(error) = scan(&db, sql, &[]) {
                assert!(!error.to_string().contains("internal"), "{error}");
            }
        }
    }
}

#[test]
fn a_database_of_several_processes_and_a_stock_one_are_read_as_well() {
    let (_directory, path) = database("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(FILL).unwrap();
    let stock = rusqlite::Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
    stock.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let way = check(&stock, QUERIES[1], &[]);
    assert!(way.contains("not on litefoot"), "{way}");
    for sql in QUERIES {
        check(&db, sql, &[]);
    }
}
