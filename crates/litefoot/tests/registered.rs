//! VFSes that are registered for a while.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot_sim::SimMedium;
use std::sync::Arc;

#[test]
fn connections_go_on_after_their_vfs_was_dropped() {
    for mode in ["delete", "wal"] {
        let medium = SimMedium::new();
        let vfs = Vfs::builder("registered-gone").medium(Arc::new(medium.clone())).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a)")).unwrap();
        drop(vfs);
        // Memory that was freed is used again.
        let again: Vec<Vec<u8>> =
            (16..512).step_by(8).flat_map(|bytes| vec![vec![0xAA; bytes]; 20]).collect();
        db.execute_batch("INSERT INTO t VALUES (randomblob(100000)); PRAGMA temp_store=FILE").unwrap();
        db.execute_batch(
            "CREATE TEMP TABLE s AS SELECT * FROM t; DELETE FROM t; INSERT INTO t SELECT * FROM s",
        )
        .unwrap();
        // SQLite looks for what it opens anew by its name.
        for sql in ["VACUUM", "ATTACH 'file:/b.db' AS b"] {
            let gone = db.execute_batch(sql).unwrap_err();
            assert!(gone.to_string().contains("no such vfs"), "{gone}");
        }
        let found: i64 = db.query_row("SELECT length(a) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, 100_000);
        drop((again, db));
        let flags = OpenFlags::default();
        let gone = Connection::open_with_flags_and_vfs("/app.db", flags, "registered-gone").unwrap_err();
        assert!(gone.to_string().contains("no such vfs"), "{gone}");
    }
}
