//! What a closed database leaves behind: the file alone, for good.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot_engine::device::SimMedium;
use litefoot_engine::device::sim::Random;
use std::sync::Arc;

/// Litefoot closes the database; then SQLite changes it without a journal file, so that nothing else syncs the
/// directory. A log that came back after a power cut would be taken for newer than that.
#[test]
fn a_log_that_was_removed_does_not_come_back() {
    for mode in ["delete", "wal"] {
        let medium = SimMedium::new();
        let name = format!("leaving-{mode}");
        let vfs = |pass_through: bool, medium: &SimMedium| {
            let builder = Vfs::builder(name.as_str()).medium(Arc::new(medium.clone()));
            builder.pass_through(pass_through).register().unwrap()
        };
        let litefoot = vfs(false, &medium);
        let db = litefoot.open("/app.db").unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(v); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);
             UPDATE t SET v = v + 10; PRAGMA journal_mode=delete;"
        ))
        .unwrap();
        drop((db, litefoot));
        assert_eq!(medium.files().len(), 1, "only the database is left");
        let stock = vfs(true, &medium);
        let db = stock.open("/app.db").unwrap();
        db.execute_batch("PRAGMA journal_mode=memory; UPDATE t SET v = v + 100").unwrap();
        drop((db, stock));
        let mut random = Random::new(7);
        for _ in 0..60 {
            let image = medium.cut(&mut random);
            let litefoot = vfs(false, &image);
            let db = litefoot.open("/app.db").unwrap();
            let sum: i64 = db.query_row("SELECT sum(v) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, 1 + 2 + 2 * 110, "{mode}");
        }
    }
}
