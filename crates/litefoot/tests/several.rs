//! A transaction over several databases that fails in the midst of its commit.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{DeviceError, File, FileKind, Medium, OpenMode, Operation, Result};
use litefoot_storage::pass_on;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A medium that may refuse to make the journal of the second database.
struct Refusing {
    medium: SimMedium,
    refuses: Arc<AtomicBool>,
}

impl Medium for Refusing {
    pass_on!(medium: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        if path.ends_with("b.db-journal") && self.refuses.load(Ordering::Relaxed) {
            return Err(DeviceError::new(Operation::Open, path, io::Error::other("refused")));
        }
        self.medium.open(path, kind, mode)
    }
}

#[test]
fn a_commit_that_fails_in_the_second_database_leaves_connections_that_see_both_as_they_were() {
    for mode in ["delete", "truncate", "persist"] {
        let refuses = Arc::<AtomicBool>::default();
        let medium = Refusing { medium: SimMedium::new(), refuses: refuses.clone() };
        let vfs = litefoot::Vfs::builder("refusing").medium(Arc::new(medium)).register().unwrap();
        let db = vfs.open("/a.db").unwrap();
        db.execute_batch(&format!(
            "ATTACH '/b.db' AS other; PRAGMA main.journal_mode={mode}; PRAGMA other.journal_mode={mode};
             CREATE TABLE main.t(v); INSERT INTO t VALUES(1)"
        ))
        .unwrap();
        let both = "BEGIN; INSERT INTO t VALUES(2); CREATE TABLE other.u AS SELECT * FROM t; COMMIT";
        refuses.store(true, Ordering::Relaxed);
        assert!(db.execute_batch(both).is_err());
        refuses.store(false, Ordering::Relaxed);
        if !db.is_autocommit() {
            db.execute_batch("ROLLBACK").unwrap();
        }
        let check = |db: &Connection, rows: (i64, i64)| {
            for name in ["main", "other"] {
                let sql = format!("PRAGMA {name}.integrity_check");
                let found: String = db.query_row(&sql, [], |row| row.get(0)).unwrap();
                assert_eq!(found, "ok", "{mode}, {name}");
            }
            let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
            let tables = count("SELECT count(*) FROM other.sqlite_schema");
            assert_eq!((count("SELECT count(*) FROM t"), tables), rows, "{mode}");
        };
        check(&db, (1, 0));
        db.execute_batch(both).unwrap();
        check(&db, (2, 1));
    }
}
