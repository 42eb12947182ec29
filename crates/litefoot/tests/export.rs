//! The remains of a crash, as SQL: another SQLite that runs it must hold the same, to the bit.

#![allow(clippy::unwrap_used)]

use litefoot::log_inspect::{Transaction, waiting};
use litefoot::rusqlite::types::Value;
use litefoot::rusqlite::{Connection, params_from_iter};
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use litefoot_testkit::files::copy_as_a_crash_leaves;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v ANY);
     CREATE TABLE parent(id INTEGER PRIMARY KEY);
     CREATE TABLE child(id INTEGER REFERENCES parent ON DELETE CASCADE);
     INSERT INTO parent VALUES(1), (2); INSERT INTO child VALUES(1), (1), (2);";

/// Rows, with doubles as their bits.
fn rows(db: &Connection) -> Vec<(i64, Value)> {
    let mut select = db.prepare("SELECT id, v FROM t UNION ALL SELECT 0, id FROM child ORDER BY 1").unwrap();
    let row = |row: &litefoot::rusqlite::Row<'_>| {
        let value = match row.get(1)? {
            Value::Real(real) => Value::Text(format!("{:016x}", real.to_bits())),
            other => other,
        };
        Ok((row.get(0)?, value))
    };
    select.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// The transactions that wait beside a database, of which a copy is taken while it is open.
fn left(path: &Path) -> Vec<Transaction> {
    let copy = path.with_extension("copy");
    copy_as_a_crash_leaves(path, &copy);
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    waiting(&medium, &copy, None).unwrap().unwrap().transactions
}

fn values() -> Vec<Value> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from_bits(state ^ state >> 29)
    };
    let mut reals = vec![0.1 + 0.2, 1.0 / 3.0, 1e15, f64::MAX, f64::MIN_POSITIVE, 5e-324];
    reals.extend([f64::INFINITY, f64::NEG_INFINITY]);
    reals.extend(std::iter::repeat_with(&mut next).filter(|real| !real.is_nan()).take(300));
    let mut values: Vec<Value> = reals.into_iter().map(Value::Real).collect();
    values.extend([i64::MIN, i64::MAX, -1].map(Value::Integer));
    values.extend(["it's", "a\0b", "-- ä; ?1", ""].map(|text| Value::Text(text.to_owned())));
    values.extend([Value::Null, Value::Blob(vec![]), Value::Blob(vec![0, 255])]);
    values
}

#[test]
fn an_export_gives_every_value_back_to_the_bit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = litefoot::Connection::open(format!("file:{}?commit_log=statements", path.display())).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA foreign_keys=OFF").unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let values = values();
    for value in &values {
        db.execute("INSERT INTO t(v) VALUES(?) -- a comment at the end", [value]).unwrap();
    }
    // A minus before a negative value, a keyword before a value, and a setting that is told.
    let moved =
        db.execute("UPDATE t SET v=id-?1 WHERE id<10 AND v IS NOT?2", params_from_iter([-100_000, 3]));
    assert_eq!(moved.unwrap(), 9);
    db.execute_batch("PRAGMA foreign_keys=ON").unwrap();
    db.execute("INSERT INTO child VALUES($a)", [2]).unwrap();

    let left = left(&path);
    let stats: String = db.query_row("PRAGMA litefoot_stats", [], |row| row.get(0)).unwrap();
    assert_eq!(left.len(), values.len() + 2, "all of them were logged as statements: {stats}");
    assert_eq!([&left[0], &left[left.len() - 1]].map(|transaction| transaction.foreign_keys), [false, true]);
    let stock = Connection::open_in_memory().unwrap();
    stock.execute_batch(SCHEMA).unwrap();
    for transaction in left {
        stock.pragma_update(None, "foreign_keys", transaction.foreign_keys).unwrap();
        stock.execute_batch(&format!("BEGIN; {}; COMMIT;", transaction.statements.join("; "))).unwrap();
    }
    let (found, expected) = (rows(&stock), rows(&db));
    assert_eq!(found.len(), values.len() + 4);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}
