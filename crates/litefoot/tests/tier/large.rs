//! Transactions larger than the memory for them, which write ahead: into the log, and behind the end of the file.

use crate::{MODES, TIERED, count, is_marked, stock, vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;

const CREATE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";
const MANY: &str = "WITH n(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM n LIMIT 250) INSERT INTO t(v) SELECT zeroblob(2000) FROM n";

/// Moments of a run at which the power is cut.
const POINTS: usize = 60;

/// The SQL of each transaction, and the number of rows after it.
fn steps() -> Vec<(String, i64)> {
    vec![
        (format!("BEGIN; {CREATE}; {MANY}; COMMIT"), 250),
        ("INSERT INTO t(v) VALUES(1)".to_owned(), 251),
        (format!("BEGIN; {MANY}; UPDATE t SET v=randomblob(1500); ROLLBACK"), 251),
        (format!("BEGIN; UPDATE t SET v=randomblob(1500); {MANY}; COMMIT"), 501),
        ("DELETE FROM t; VACUUM".to_owned(), 0),
        (MANY.to_owned(), 250),
    ]
}

/// From a database that is not there yet on.
#[test]
fn a_power_cut_in_large_transactions_is_recovered_from() {
    for (mode, page_bytes) in MODES.iter().flat_map(|mode| [(mode, 512), (mode, 4096)]) {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let db = vfs.open(format!("{TIERED}&write_buffer_size=64k&max_wal_size=64k")).unwrap();
        db.execute_batch(&format!("PRAGMA page_size={page_bytes}; PRAGMA journal_mode={mode}")).unwrap();
        db.execute_batch("PRAGMA cache_size=5; PRAGMA cache_spill=5").unwrap();
        // The names are durable with the first commit.
        let mut history = vec![(0, None)];
        for (sql, rows) in steps() {
            db.execute_batch(&sql).unwrap();
            history.push((medium.operations(), Some(rows)));
        }
        assert!(is_marked(&medium), "{mode}");
        drop(db);
        let mut random = Random::new(page_bytes);
        let mut replay = medium.replay();
        for point in (0..=replay.len()).step_by(replay.len() / POINTS + 1) {
            replay.advance(point);
            let image = replay.cut(&mut random);
            let done = history.partition_point(|(operations, _)| *operations <= point);
            let allowed: Vec<Option<i64>> =
                history[done - 1..].iter().take(2).map(|(_, rows)| *rows).collect();
            let vfs = crate::vfs(&image);
            let what = format!("{mode}, {page_bytes}, {point}, {allowed:?}");
            let db = vfs.open(TIERED).unwrap_or_else(|error| panic!("{what}: {error}"));
            let there = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
            let there = there.unwrap_or_else(|error| panic!("{what}: {error}, {:?}", litefoot::last_error()));
            let found = (there > 0).then(|| count(&db));
            // Between the statements of a step that is not one transaction.
            let between = found == Some(0) || allowed.contains(&Some(0)) && found == Some(501);
            assert!(allowed.contains(&found) || between, "{what}: {found:?}");
            db.execute_batch("CREATE TABLE IF NOT EXISTS other(v); INSERT INTO other VALUES(zeroblob(3000))")
                .unwrap();
            drop(db);
            if found.is_some() {
                assert_eq!(stock(&image).ok(), found, "{what}");
            }
        }
    }
}

/// Pages that a large transaction has written behind the end stay there when the file comes home for a journal. The
/// file is shorter than a chunk.
#[test]
fn a_large_transaction_over_two_databases_of_a_tiny_file() {
    for mode in ["delete", "persist"] {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let db = vfs.open(format!("{TIERED}&write_buffer_size=64k")).unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size=512; PRAGMA journal_mode={mode}; PRAGMA cache_size=5; {CREATE}"
        ))
        .unwrap();
        db.execute_batch("INSERT INTO t VALUES(1, randomblob(5000)); DELETE FROM t; VACUUM").unwrap();
        assert!(is_marked(&medium));
        db.execute_batch("ATTACH 'file:/db/two.db' AS two; CREATE TABLE two.u(a)").unwrap();
        db.execute_batch("BEGIN; INSERT INTO two.u VALUES(1)").unwrap();
        for id in 0..400 {
            db.execute("INSERT INTO t VALUES(?1, zeroblob(3000))", [id]).unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(count(&db), 400, "{mode}");
        drop(db);
        assert_eq!(stock(&medium).unwrap(), 400, "{mode}");
    }
}
