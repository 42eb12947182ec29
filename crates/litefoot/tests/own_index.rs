//! Connections that have SQLite's wal-index for themselves: no checkpoint of litefoot's runs behind their backs.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::{CommitLogForm, Options, Vfs};
use litefoot_sim::SimMedium;
use std::sync::Arc;

fn count(db: &Connection) -> (i64, String) {
    let rows = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    (rows, db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap())
}

/// In exclusive locking mode SQLite has its index in memory of its own, or takes no lock in the one that is shared. What keeps
/// litefoot's checkpoints away is SQLite's lock on the file: an internal connection is refused beside it
/// (`there_is_none_beside_others_or_without_a_way_into_sqlite` in the VFS). This shows the rest: the log grows on, and
/// nothing is lost.
#[test]
fn commits_in_exclusive_locking_mode_stay_whatever_the_log_holds() {
    let modes = [
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL",
        "PRAGMA journal_mode=WAL; PRAGMA locking_mode=EXCLUSIVE",
    ];
    for (number, mode) in modes.into_iter().enumerate() {
        for form in [CommitLogForm::Auto, CommitLogForm::Deltas, CommitLogForm::Pages] {
            let medium = SimMedium::new();
            let options =
                Options { commit_log: form, write_buffer_size: Some(256 << 10), ..Options::default() };
            let vfs = Vfs::builder(format!("own-index-{number}-{form:?}"));
            let vfs = vfs.medium(Arc::new(medium.clone())).options(options).register().unwrap();
            let db = vfs.open("/app.db").unwrap();
            db.execute_batch(&format!("{mode}; CREATE TABLE t(v)")).unwrap();
            for rows in 1..=600 {
                db.execute("INSERT INTO t VALUES(randomblob(100))", []).unwrap();
                if rows % 50 == 0 {
                    assert_eq!(count(&db), (rows, "ok".to_owned()), "{mode} {form:?}");
                }
            }
            let killed = medium.copy();
            drop((db, vfs));
            for image in [killed, medium] {
                let vfs = Vfs::builder("own-index-after").medium(Arc::new(image)).register().unwrap();
                assert_eq!(count(&vfs.open("/app.db").unwrap()), (600, "ok".to_owned()), "{mode} {form:?}");
            }
        }
    }
}
