//! Recovery of deltas, also in less memory than their pages take, and with the power cut meanwhile.

use super::*;
use crate::commit::of_test::{Logs, PAGE, cut_everywhere, first_byte, recovered_deltas, redo_log};
use crate::db::Db;
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::commit_log::{Base, Record};
use litefoot_storage::log_file::Durability;
use std::sync::Arc;

/// A database of four pages whose second page three commits have changed, and which has grown by one; they wait as
/// deltas.
fn crashed() -> Db {
    let logs = Logs::with_deltas(&[7; 4 * PAGE]);
    logs.commit_deltas(&[(2, 1)], 4);
    logs.commit_deltas(&[(2, 2), (5, 9)], 5);
    logs.commit_deltas(&[(2, 3)], 5);
    logs.db
}

fn commit_log(db: &Db) -> CommitLog {
    CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone()).unwrap()
}

fn waiting(db: &Db) -> WaitingDeltas {
    WaitingDeltas::of(&commit_log(db)).unwrap().unwrap()
}

fn facts(db: &Db) -> DeltaFacts {
    let log = commit_log(db);
    let Some(Base::Deltas(base)) = log.base() else { panic!("a generation of deltas") };
    let waiting = WaitingDeltas::of(&log).unwrap().unwrap();
    waiting.facts(&log, &base, &redo_log(db), &db.data_file()).unwrap()
}

/// Compares the data file with the state before the deltas.
fn check_before(db: &Db) -> Result<()> {
    let log = commit_log(db);
    let Some(base) = log.waiting_deltas() else { panic!("deltas that wait") };
    WaitingDeltas::of(&log).unwrap().unwrap().check_before(&log, &base, &db.data_file())
}

/// Recovers in memory for so many bytes of pages.
fn recover_in(db: &Db, redo: &mut RedoLog, bytes: usize) -> Result<()> {
    let log = commit_log(db);
    let waiting = WaitingDeltas::of(&log).unwrap().unwrap();
    waiting.recover(&log, redo, &**db.data(), (MemoryReservation::fixed(bytes), bytes))
}

/// The payload of a record that makes pages of zeros of 2^`bits` bytes of these numbers.
fn zeros(bits: u8, database_pages: u32, numbers: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let varint = |out: &mut Vec<u8>, mut value: u32| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    let sum = page_sum(&vec![0; 1 << bits]).to_le_bytes();
    let mut payload = vec![bits];
    varint(&mut payload, database_pages);
    varint(&mut payload, numbers.len() as u32);
    let mut last = 0;
    for number in numbers {
        varint(&mut payload, number - std::mem::replace(&mut last, number));
        payload.push(0);
        payload.extend(sum);
    }
    payload
}

/// A database of four pages with these records in its commit log.
fn with_records(medium: &SimMedium, payloads: impl IntoIterator<Item = Vec<u8>>) -> Db {
    let db = Db::of_test_on(medium, &[7; 4 * PAGE]);
    let mut log = commit_log(&db);
    log.reserve(1 << 20).unwrap();
    let origin = log.origin(&db.data_file()).unwrap().unwrap();
    log.begin(Base::Deltas(DeltaBase { stamp: db.data().set_stamp().unwrap(), origin }));
    let records: Vec<Record> = payloads.into_iter().map(|payload| Record { kind: DELTA, payload }).collect();
    log.append(&records, Durability::Durable).unwrap();
    drop(log);
    db
}

#[test]
fn commits_that_wait_are_recovered_into_the_redo_log_in_any_memory() {
    for bytes in [0, PAGE, 1 << 20] {
        let db = crashed();
        let found = facts(&db);
        assert_eq!((found.data_file, found.pages), (FoundDataFile::AsBegun, FoundPages::Before));
        assert_eq!(waiting(&db).transactions(), 3);
        let mut redo = redo_log(&db);
        recover_in(&db, &mut redo, bytes).unwrap();
        assert_eq!([1, 2, 5].map(|number| first_byte(&redo, number)), [None, Some(3), Some(9)]);
        assert_eq!((redo.frames(), redo.database_pages()), (2, 5));
        drop(redo);
        // A crash before the records are removed.
        assert_eq!(facts(&db).pages, FoundPages::After);
        assert_eq!(first_byte(&redo_log(&db), 2), Some(3), "another owner finds it");
    }
}

#[test]
fn a_data_file_that_was_changed_since_is_noticed() {
    let db = crashed();
    db.data().write_at(&[8], 3 * PAGE as u64).unwrap();
    assert_eq!((facts(&db).data_file, facts(&db).pages), (FoundDataFile::Changed, FoundPages::Before));
    check_before(&db).unwrap();
    db.data().write_at(&[8], PAGE as u64).unwrap();
    assert_eq!(facts(&db).pages, FoundPages::Others);
    let error = check_before(&db).unwrap_err().to_string();
    assert!(error.contains("page 2") && error.contains("/app.db-commits"), "{error}");
}

#[test]
fn a_first_sector_or_a_length_that_has_changed_is_refused_where_no_delta_tells_of_it() {
    let changes: [fn(&Db); 2] =
        [|db| db.data().write_at(&[8], 0).unwrap(), |db| db.data().write_at(&[7], 4 * PAGE as u64).unwrap()];
    for change in changes {
        let db = crashed();
        check_before(&db).unwrap();
        change(&db);
        let error = check_before(&db).unwrap_err().to_string();
        assert!(error.contains("/app.db has been written"), "{error}");
    }
}

#[test]
fn a_page_that_is_not_the_one_before_is_refused_and_nothing_counts() {
    for bytes in [0, 1 << 20] {
        let db = crashed();
        db.data().write_at(&[8], PAGE as u64).unwrap();
        let mut redo = redo_log(&db);
        let error = recover_in(&db, &mut redo, bytes).unwrap_err().to_string();
        assert!(error.contains("page 2") && error.contains("nothing was changed"), "{error}");
        assert!(redo.is_empty() && redo_log(&db).is_empty());
        assert_eq!(waiting(&db).transactions(), 3);
    }
}

#[test]
fn records_that_do_not_follow_each_other_are_no_state_before() {
    let records = {
        let db = crashed();
        commit_log(&db).records().unwrap()
    };
    for (order, broken) in [(&[0, 1, 2][..], None), (&[0, 2], Some(2)), (&[1, 0], Some(2)), (&[1, 2], None)] {
        let payloads = order.iter().map(|index| records[*index].payload.clone());
        let db = with_records(&SimMedium::new(), payloads);
        assert_eq!(waiting(&db).broken, broken, "{order:?}");
        let before = if order[0] == 0 && broken.is_none() { FoundPages::Before } else { FoundPages::Others };
        assert_eq!(facts(&db).pages, before, "{order:?}");
        assert_eq!(check_before(&db).is_ok(), before == FoundPages::Before);
    }
}

#[test]
fn a_record_that_nobody_writes_is_not_understood() {
    let last = u32::MAX - 1;
    for (payloads, understood) in [
        (vec![zeros(9, 4, [1, 4].into_iter())], true),
        (vec![zeros(9, last, [last].into_iter())], true),
        // SQLite knows no such page, and a redo log means something else by it.
        (vec![zeros(9, 4, [1, u32::MAX].into_iter())], false),
        // Zero pages are how a redo log says that a transaction goes on.
        (vec![zeros(9, 0, [1].into_iter())], false),
        (vec![zeros(9, 4, [1].into_iter()), zeros(10, 4, [1].into_iter())], false),
        (vec![zeros(9, 4, [1].into_iter()), vec![9]], false),
        (vec![vec![9], zeros(9, 4, [1].into_iter())], false),
    ] {
        let db = with_records(&SimMedium::new(), payloads.clone());
        assert_eq!(WaitingDeltas::of(&commit_log(&db)).unwrap().is_some(), understood, "{payloads:?}");
    }
}

#[test]
fn pages_in_memory_have_a_limit_and_all_of_them_are_recovered() {
    const LIMIT: usize = 16 * PAGE;
    let medium = SimMedium::new();
    let db = with_records(&medium, [zeros(9, 2_000, 1..2_001), zeros(9, 2_000, 500..1_500)]);
    let mut redo = redo_log(&db);
    let mut pages =
        RecoveredPages::new(&**db.data(), &mut redo, PAGE, (MemoryReservation::fixed(1 << 20), LIMIT));
    for number in (1..2_001).chain((500..1_500).rev()) {
        pages.put(number, &[number as u8; PAGE]).unwrap();
        assert!(pages.bytes_in_memory() <= LIMIT);
        let mut page = [0; PAGE];
        pages.read(number, &mut page).unwrap();
        assert_eq!(page, [number as u8; PAGE]);
    }
    pages.discard();
    assert!(redo.is_empty() && medium.info(redo.path()).unwrap().is_none());
    recover_in(&db, &mut redo, LIMIT).unwrap();
    let found = redo_log_of(&medium);
    assert_eq!((found.frames(), found.database_pages()), (2_000, 2_000));
    assert!((1..2_001).all(|number| first_byte(&found, number) == Some(0)));
}

/// The redo log as another process finds it.
fn redo_log_of(medium: &SimMedium) -> RedoLog {
    RedoLog::look(Arc::new(medium.clone()), Path::new("/app.db-wal"), None).unwrap()
}

#[test]
fn a_small_log_of_very_many_large_pages_takes_no_more_than_the_limit_and_is_kept() {
    const LIMIT: usize = 4 << 16;
    let payload = zeros(16, 10_000, 1..10_001);
    assert!(payload.len() < 64 << 10);
    let medium = SimMedium::new();
    let db = with_records(&medium, [payload]);
    // 655 MB do not fit.
    medium.set_faults(Faults::full_at(medium.used_bytes() + (4 << 20)));
    let mut redo = redo_log(&db);
    let error = recover_in(&db, &mut redo, LIMIT).unwrap_err();
    assert!(matches!(error, Error::Device(_)), "{error}");
    assert!(redo.is_empty() && redo_log_of(&medium).is_empty());
    drop(redo);
    assert_eq!(waiting(&db).transactions(), 1);
    assert_eq!(facts(&db).pages, FoundPages::Before, "the next opening tries again");
}

const PAGES: usize = 12;

/// Commits that change twelve pages several times, all of them durable, as a crash leaves them; and the first byte of each page
/// afterwards.
fn history(medium: &SimMedium) -> Vec<u8> {
    let logs = Logs::of_test_on(medium, &[7; PAGES * PAGE], 1 << 20);
    logs.db.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    let mut state = vec![7; PAGES];
    for round in 0..6_u8 {
        let first = 1 + u32::from(round) * 2;
        let pages: Vec<(u32, u8)> =
            (first..first + 3).map(|number| (1 + number % PAGES as u32, 10 + round)).collect();
        logs.commit_deltas(&pages, PAGES as u32);
        pages.iter().for_each(|(number, byte)| state[*number as usize - 1] = *byte);
    }
    state
}

/// What recovery finds that has memory for two pages.
fn recovered(medium: &SimMedium) -> Option<Vec<u8>> {
    recovered_deltas(medium, PAGES, 2 * PAGE)
}

/// Recovers with these faults, and cuts at each operation of it; answers the first cut behind which recovery does not find
/// everything.
fn cut_recovery(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    let state = history(&medium);
    let begun = medium.operations();
    medium.set_faults(faults);
    assert_eq!(recovered(&medium).as_ref(), Some(&state));
    cut_everywhere(&medium, &[(begun, state)], (Random::new(5), 12), |image, _, random| {
        // Once more, in the middle of the next recovery.
        let second = image.clone();
        let begun = second.operations();
        recovered(&second)?;
        let mut replay = second.replay();
        replay.advance(begun + random.below((second.operations() - begun) as u64 + 1) as usize);
        recovered(&replay.cut(random))
    })
}

#[test]
fn the_power_may_be_cut_anywhere_in_a_recovery_that_does_not_fit_into_memory() {
    assert_eq!(cut_recovery(Faults::default()), None);
}

#[test]
fn a_sync_of_the_redo_log_that_recovery_leaves_out_is_missed() {
    let faults = Faults::ignoring(SyncSite::File(FileKind::RedoLog), None);
    assert!(cut_recovery(faults).is_some());
}
