//! Beside stock SQLite, in a process of its own.

use super::*;

fn stock_database() -> (tempfile::TempDir, PathBuf, PathBuf, StockProcess) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let mut stock = StockProcess::start(&path);
    assert_eq!(stock.ask("a", "PRAGMA journal_mode=WAL"), "('wal',)");
    for sql in ["CREATE TABLE t(x)", "INSERT INTO t VALUES (1), (2), (3)"] {
        assert_eq!(stock.ask("a", sql), "None");
    }
    let shm = directory.path().join("a.db-shm");
    (directory, path, shm, stock)
}

#[test]
fn stock_sqlite_and_this_process_exclude_each_other() {
    let (_directory, _path, shm, mut stock) = stock_database();
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    let mut ours = Process::joining(&medium, &shm);
    ours.region(0, false).unwrap();
    let published = ours.index.published();
    assert!(published > 0, "the file was not emptied");
    let insert = "INSERT INTO t VALUES (4)";
    assert!(stock.may("b", insert) && ours.index.published() > published);
    assert!(ours.lock(0, WRITE_SLOT, true) && !stock.may("a", insert));
    ours.unlock(0, WRITE_SLOT);
    assert!(stock.may("a", "BEGIN IMMEDIATE") && !ours.lock(0, WRITE_SLOT, true));
    assert!(stock.may("a", "COMMIT") && ours.lock(1, CHECKPOINT_SLOT, true));
    assert!(stock.ask("a", "PRAGMA wal_checkpoint").starts_with("(1,"), "busy");
    ours.unlock(1, CHECKPOINT_SLOT);
    assert!(ours.lock(0, READ_SLOTS + 1, false));
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(1,"), "a reader is in the way");
    assert!(ours.lock(1, READ_SLOTS + 1, false));
    ours.unlock(0, READ_SLOTS + 1);
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(1,"), "and another handle's");
    ours.unlock(1, READ_SLOTS + 1);
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
    assert_eq!(ours.index.published(), 0);
}

#[test]
fn stock_sqlite_makes_the_index_of_a_log_or_finds_that_of_an_empty_one() {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    for log_is_empty in [false, true] {
        let (_directory, path, shm, mut stock) = stock_database();
        if log_is_empty {
            assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
        }
        drop(stock);
        let ours = Process::owner();
        ours.index.share(&medium, &shm, log_is_empty).unwrap();
        let before = ours.index.change_counter();
        assert_eq!(before > 0, log_is_empty);
        let mut stock = StockProcess::start(&path);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(3,)");
        assert_eq!(ours.index.published() == 0, log_is_empty);
        assert_eq!(ours.index.change_counter(), before, "an index that is there is not made again");
        assert_eq!(stock.ask("b", "INSERT INTO t VALUES (4)"), "None");
        assert_eq!(ours.index.change_counter(), before + 1);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(4,)");
        assert_eq!(stock.ask("a", "PRAGMA integrity_check"), "('ok',)");
        assert!(stock.ask("b", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
        drop(stock);
        ours.index.unshare(true).unwrap();
        let mut stock = StockProcess::start(&path);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(4,)");
    }
}
