//! The write-ahead log, without SQLite.

use super::*;
use crate::commit::of_test::{PAGE, first_byte, frame_header, frame_offset, redo_log, wal_header};
use crate::memory::spill_file::tests::make_spill;
use litefoot_sim::SimMedium;

/// A database in WAL mode, which is its own spill target.
pub(super) fn open() -> (Arc<Db>, Arc<Wal>) {
    let db = Arc::new(Db::of_test_on(&SimMedium::new(), &[7; 4 * PAGE]));
    let wal = Arc::new(Wal::open(&db, make_spill()).unwrap());
    write(&db, &wal, 0, &wal_header());
    (db, wal)
}

fn write(db: &Arc<Db>, wal: &Wal, offset: usize, bytes: &[u8]) -> Option<Transaction> {
    wal.write(db, &SqliteCacheSize::default(), bytes, offset as u64).unwrap()
}

/// SQLite writes a transaction of one page.
pub(super) fn commit(db: &Arc<Db>, wal: &Wal, frame: usize, number: u32, filler: u8) -> Transaction {
    let offset = frame_offset(frame);
    let header = frame_header(number, 4);
    assert_eq!(write(db, wal, offset, &header), None);
    write(db, wal, offset + header.len(), &[filler; PAGE]).unwrap()
}

#[test]
fn a_logged_commit_is_found_by_the_next_owner() {
    let (db, wal) = open();
    let transaction = commit(&db, &wal, 0, 2, 1);
    assert_eq!((transaction.first, transaction.end), (0, 1));
    wal.log_commit(&db, transaction).unwrap();
    wal.log_commit(&db, commit(&db, &wal, 1, 3, 2)).unwrap();
    assert_eq!(wal.not_durable(), None);
    let bytes = wal.bytes();
    drop(wal);
    let wal = Wal::open(&db, make_spill()).unwrap();
    assert_eq!(wal.bytes(), bytes);
    let mut page = [0; PAGE];
    let offset = frame_offset(1) + frame_header(0, 0).len();
    assert_eq!(wal.read(&db, &mut page, offset as u64).unwrap(), PAGE);
    assert_eq!(page, [2; PAGE]);
}

#[test]
fn a_commit_that_cannot_be_logged_has_not_happened() {
    let (db, wal) = open();
    wal.log_commit(&db, commit(&db, &wal, 0, 2, 1)).unwrap();
    let transaction = commit(&db, &wal, 1, 3, 2);
    db.latch().close("on purpose");
    assert!(wal.log_commit(&db, transaction).is_err());
    assert_eq!(wal.frames.read().committed(), 1);
}

#[test]
fn an_unsynced_commit_is_durable_after_a_flush() {
    let (db, wal) = open();
    wal.log_completed(&db, commit(&db, &wal, 0, 2, 1)).unwrap();
    let unsynced = wal.commits.is_synced();
    wal.flush_logged(&db, true).unwrap();
    wal.finish();
    assert!(!unsynced);
    drop(wal);
    assert_eq!(first_byte(&redo_log(&db), 2), Some(1));
}

#[test]
fn the_log_is_logged_before_the_file_is_written_in_place() {
    let (db, wal) = open();
    commit(&db, &wal, 0, 2, 1);
    assert_eq!(wal.commits.logged(), 0);
    wal.before_in_place(&db).unwrap();
    assert_eq!((wal.commits.logged(), wal.commits.is_synced()), (1, true));
}

#[test]
fn a_replay_reaches_the_redo_log_at_its_end() {
    let (db, wal) = open();
    wal.set_replaying(&db, true).unwrap();
    wal.log_commit(&db, commit(&db, &wal, 0, 2, 1)).unwrap();
    assert_eq!(wal.commits.logged(), 0);
    wal.set_replaying(&db, false).unwrap();
    assert_eq!(wal.commits.logged(), 1);
}

#[test]
fn the_last_connection_leaves_a_complete_file_and_no_log() {
    let (db, wal) = open();
    wal.log_commit(&db, commit(&db, &wal, 0, 2, 1)).unwrap();
    assert!(db.medium().info(wal.path()).unwrap().is_some());
    wal.checkpoint_and_delete(&db).unwrap();
    assert!(db.medium().info(wal.path()).unwrap().is_none());
    let mut byte = [0];
    db.data().read_at(&mut byte, PAGE as u64).unwrap();
    assert_eq!(byte, [1]);
}

#[test]
fn a_transaction_that_sqlite_takes_back_latches_the_database() {
    let (db, wal) = open();
    wal.log_commit(&db, commit(&db, &wal, 0, 2, 1)).unwrap();
    let offset = frame_offset(0);
    write(&db, &wal, offset, &frame_header(2, 4));
    let page = [9; PAGE];
    let at = (offset + frame_header(0, 0).len()) as u64;
    assert!(wal.write(&db, &SqliteCacheSize::default(), &page, at).is_err());
    assert!(db.latch().reason().is_some());
}
