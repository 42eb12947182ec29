//! The rollback-mode redo log, without SQLite.

use super::*;
use crate::commit::log_identity::{Verdict, judge};
use crate::commit::of_test::{PAGE, page_one};
use crate::commit::page_one::{COUNTER_JUMP, counter_of};
use crate::commit::rollback_checkpoint::copy_in_place;
use crate::txn::of_test::PlainTarget;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, Operation};
use std::path::Path;
use std::time::{Duration, Instant};

/// A database of four pages, and its log.
fn database(medium: &SimMedium) -> (Arc<PlainTarget>, Arc<RollbackRedoLog>) {
    let bytes = [page_one(10, 0), vec![7; 3 * PAGE]].concat();
    (Arc::new(PlainTarget::of(Db::of_test_on(medium, &bytes))), Arc::default())
}

fn commit(target: &Arc<PlainTarget>, log: &RollbackRedoLog, counter: u32, pages: &[(u32, u8)]) {
    commit_with(target, log, counter, pages, Durability::Durable);
}

fn commit_with(
    target: &Arc<PlainTarget>,
    log: &RollbackRedoLog,
    counter: u32,
    pages: &[(u32, u8)],
    durability: Durability,
) {
    let mut dirty = DirtyPages::new(target.db(), PAGE, target.db().file_len().unwrap());
    dirty.write(target, &page_one(counter, 0), 0).unwrap();
    for (number, filler) in pages {
        dirty.write(target, &[*filler; PAGE], u64::from(number - 1) * PAGE as u64).unwrap();
    }
    log.commit(target, &mut dirty, durability).unwrap();
}

/// A commit that is to share a sync.
fn append(target: &Arc<PlainTarget>, log: &RollbackRedoLog, counter: u32) {
    let mut dirty = DirtyPages::new(target.db(), PAGE, target.db().file_len().unwrap());
    dirty.shares_sync = true;
    dirty.write(target, &page_one(counter, 0), 0).unwrap();
    dirty.write(target, &[counter as u8; PAGE], PAGE as u64).unwrap();
    log.commit(target, &mut dirty, Durability::Durable).unwrap();
}

#[test]
fn a_sync_that_had_nothing_to_do_tells_nothing_of_the_next_one() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let (db, syncs) = (target.db(), log.syncs());
    commit(&target, &log, 11, &[(2, 2)]);
    append(&target, &log, 12);
    append(&target, &log, 13);
    syncs.await_durable(&log, db, syncs.unsettled().unwrap()).unwrap();
    assert_eq!(syncs.expected(), 2);
    append(&target, &log, 14);
    commit(&target, &log, 15, &[(3, 3)]);
    syncs.await_durable(&log, db, syncs.unsettled().unwrap()).unwrap();
    assert_eq!((syncs.unsettled(), syncs.expected()), (None, 2), "the commit behind it has synced the log");
}

#[test]
fn a_leader_waits_for_nobody_where_a_long_sync_keeps_others_back() {
    for (long, at_once, waits) in [(true, true, false), (true, false, true), (false, true, true)] {
        let medium = SimMedium::new();
        let (target, log) = database(&medium);
        let (db, syncs) = (target.db(), log.syncs());
        commit(&target, &log, 11, &[(2, 2)]);
        append(&target, &log, 12);
        if long {
            syncs.seem_long();
        }
        append(&target, &log, 13);
        syncs.await_durable(&log, db, 2).unwrap();
        append(&target, &log, 14);
        if at_once { syncs.await_durable_at_once(&log, db, 3) } else { syncs.await_durable(&log, db, 3) }
            .unwrap();
        assert_eq!(syncs.has_missed(), waits, "long: {long}, at once: {at_once}");
    }
}

#[test]
fn one_that_stands_aside_is_called_back_behind_a_long_shared_sync() {
    for long in [true, false] {
        let medium = SimMedium::new();
        let (target, log) = database(&medium);
        let (db, syncs) = (target.db(), log.syncs());
        commit(&target, &log, 11, &[(2, 2)]);
        if long {
            syncs.seem_long();
        }
        let _aside = db.writer_queue().stand_aside(9, Instant::now());
        append(&target, &log, 12);
        syncs.call_back(db, (1, Duration::ZERO));
        assert!(!db.writer_queue().has_turn(9), "not everything is durable");
        syncs.await_durable(&log, db, syncs.unsettled().unwrap()).unwrap();
        assert_eq!(db.writer_queue().has_turn(9), long);
        assert_eq!(syncs.expected(), if long { 2 } else { 1 });
    }
}

/// The first byte of each page, as a reader sees it.
fn seen(db: &Db, log: &RollbackRedoLog) -> Vec<u8> {
    let mut buf = vec![0; 8 * PAGE];
    let read = log.read(&**db.data(), &mut buf, 0).unwrap();
    buf[..read].chunks(PAGE).skip(1).map(|page| page[0]).collect()
}

fn in_file(db: &Db) -> Vec<u8> {
    seen(db, &RollbackRedoLog::default())
}

/// Copies what recovery finds to the database file.
fn recover(db: &Db) {
    let redo = RollbackRedoLog::default().find(db).unwrap().unwrap();
    if !redo.is_empty() {
        copy_in_place(db, &redo, None, &redo.page_numbers().collect::<Vec<u32>>()).unwrap();
    }
}

#[test]
fn a_commit_is_read_from_the_log_until_it_is_cleared() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    assert_eq!((log.is_live(), log.page_bytes()), (false, 0));
    commit(&target, &log, 11, &[(2, 2), (3, 3)]);
    commit(&target, &log, 12, &[(3, 4)]);
    assert_eq!((seen(db, &log), in_file(db)), (vec![2, 4, 7], vec![7, 7, 7]));
    assert_eq!((log.page_bytes(), log.contains(3), log.contains(4)), (PAGE, true, false));
    let mut part = [0; 3];
    assert_eq!(log.read(&**db.data(), &mut part, 2 * PAGE as u64 + 5).unwrap(), 3);
    assert_eq!(part, [4; 3]);
    log.clear(db).unwrap();
    assert_eq!((in_file(db), log.is_live(), log.page_bytes()), (vec![2, 4, 7], true, 0));
    commit(&target, &log, 13, &[(4, 5)]);
    log.retire(db).unwrap();
    assert_eq!((in_file(db), log.is_live()), (vec![2, 4, 5], false));
    assert_eq!(medium.files().len(), 1);
}

#[test]
fn what_a_crash_leaves_is_copied_to_the_database_file() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    commit(&target, &log, 11, &[(2, 2), (3, 3)]);
    drop(log);
    recover(target.db());
    assert_eq!(in_file(target.db()), [2, 3, 7]);
}

#[test]
fn a_power_cut_keeps_each_commit() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    target.db().sync().unwrap();
    commit(&target, &log, 11, &[(2, 2)]);
    commit(&target, &log, 12, &[(3, 3)]);
    for seed in 0..20 {
        let after = medium.cut(&mut litefoot_sim::Random::new(seed));
        let db = Db::opened_on(&after);
        recover(&db);
        assert_eq!(in_file(&db), [2, 3, 7], "seed {seed}");
    }
}

#[test]
fn the_background_reset_empties_a_large_log() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    commit(&target, &log, 11, &[(2, 2), (3, 3)]);
    log.reset_in_background(&target);
    log.wait_until_idle();
    assert_eq!(log.page_bytes(), PAGE, "the log is small yet");
    log.reset(target.db());
    assert_eq!((log.page_bytes(), in_file(target.db())), (0, vec![2, 3, 7]));
}

#[test]
fn slots_keep_the_log_from_being_reset() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    commit(&target, &log, 11, &[(2, 2)]);
    log.reserve_slots(db, PAGE, 0, 3).unwrap();
    log.reset(db);
    log.leave_place(db).unwrap();
    assert!(log.contains(2) && log.is_live());
    db.file_end().write_behind(&[std::io::IoSlice::new(&[1; PAGE])], 4 * PAGE as u64, false).unwrap();
    log.discard_early_writes(db, &DirtyPages::new(db, PAGE, 4 * PAGE as u64));
    assert_eq!(db.data().len().unwrap(), 4 * PAGE as u64);
    log.reset(db);
    assert!(!log.contains(2));
    assert_eq!(in_file(db), [2, 7, 7]);
}

#[test]
fn the_next_log_begins_upon_a_counter_that_is_durable() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    db.sync().unwrap();
    commit(&target, &log, 11, &[(2, 2)]);
    // Nothing but the counters changes, by more than the log can tell.
    commit(&target, &log, 20, &[]);
    log.reserve_slots(db, PAGE, 0, 3).unwrap();
    log.with_state(|state| state.checkpoint(db)).unwrap();
    log.discard_early_writes(db, &DirtyPages::new(db, PAGE, 4 * PAGE as u64));
    let mut dirty = DirtyPages::new(db, PAGE, 4 * PAGE as u64);
    dirty.write(&target, &page_one(21, 5), 0).unwrap();
    dirty.write(&target, &[3; PAGE], 2 * PAGE as u64).unwrap();
    log.commit(&target, &mut dirty, Durability::Durable).unwrap();
    for seed in 0..40 {
        let after = medium.cut(&mut litefoot_sim::Random::new(seed));
        let db = Db::opened_on(&after);
        recover(&db);
        assert_eq!(in_file(&db), [2, 3, 7], "seed {seed}");
    }
}

#[test]
fn a_checkpoint_beside_slots_writes_a_counter_that_the_log_tells() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    db.sync().unwrap();
    commit(&target, &log, 11, &[(2, 2)]);
    // No frame in the log tells of this commit.
    commit(&target, &log, 12, &[]);
    log.reserve_slots(db, PAGE, 0, 3).unwrap();
    let before = medium.operations();
    log.with_state(|state| state.checkpoint(db)).unwrap();
    let mut replay = medium.replay();
    for point in before..=medium.operations() {
        replay.advance(point);
        for seed in 0..20 {
            let db = Db::opened_on(&replay.cut(&mut litefoot_sim::Random::new(seed)));
            recover(&db);
            assert_eq!(in_file(&db), [2, 7, 7], "operation {point}, seed {seed}");
        }
    }
}

#[test]
fn a_log_begins_upon_a_file_that_is_durable() {
    for first in [Durability::Durable, Durability::Buffered] {
        let medium = SimMedium::new();
        let (target, log) = database(&medium);
        let db = target.db();
        db.sync().unwrap();
        // As a transaction by a real journal at synchronous=OFF.
        db.write_unseen(&page_one(11, 0), 0).unwrap();
        db.write_unseen(&[4; PAGE], 3 * PAGE as u64).unwrap();
        commit_with(&target, &log, 12, &[(2, 2)], first);
        commit(&target, &log, 13, &[(3, 3)]);
        for seed in 0..40 {
            let db = Db::opened_on(&medium.cut(&mut litefoot_sim::Random::new(seed)));
            recover(&db);
            assert_eq!(in_file(&db), [2, 3, 4], "{first:?}, seed {seed}");
        }
    }
}

#[test]
fn a_vacuum_to_another_page_size_that_fails_keeps_no_slots() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    commit(&target, &log, 11, &[(2, 2)]);
    log.reserve_slots(db, PAGE, 0, 3).unwrap();
    let mut dirty = DirtyPages::new(db, PAGE, 4 * PAGE as u64);
    let mut first = page_one(12, 0);
    first[16..18].copy_from_slice(&(2 * PAGE as u16).to_be_bytes());
    dirty.write(&target, &first, 0).unwrap();
    medium.set_faults(litefoot_sim::Faults::failing(Operation::Write, FileKind::RedoLog, 0));
    assert!(log.commit(&target, &mut dirty, Durability::Durable).is_err());
    log.discard_early_writes(db, &dirty);
    assert!(!log.with_state(|state| state.has_slots()));
}

#[test]
fn a_reset_of_commits_that_nobody_synced_makes_the_log_small_and_leaves_the_file_for_later() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    let db = target.db();
    for version in 0..60 {
        commit_with(
            &target,
            &log,
            11 + u32::from(version),
            &[(2, version), (3, 100 + version)],
            Durability::Buffered,
        );
    }
    let frames = || log.state.read().redo.as_ref().unwrap().frames();
    assert_eq!(frames(), 121);
    log.reset(db);
    assert_eq!((frames(), seen(db, &log), in_file(db)), (3, vec![59, 159, 7], vec![7, 7, 7]));
    // The newest counter is in the log now, ahead as ever, and the log is the database's.
    let redo = RedoLog::look(db.medium().clone(), Path::new("/app.db-wal"), Some(db.data_file())).unwrap();
    let mut image = [0; PAGE];
    assert!(redo.read_page(1, 0, &mut image).unwrap());
    assert_eq!(counter_of(&image), 70 + COUNTER_JUMP);
    assert_eq!(judge(&redo, &db.data_file().first_sector().unwrap(), false).unwrap(), Verdict::Ours);
    commit(&target, &log, 71, &[(4, 5)]);
    assert_eq!(frames(), 4);
    log.retire(db).unwrap();
    assert_eq!((in_file(db), medium.files().len()), (vec![59, 159, 5], 1));
    let mut sector = [0; PAGE];
    db.data().read_at(&mut sector, 0).unwrap();
    assert_eq!(counter_of(&sector), 71);
}

#[test]
fn a_power_cut_after_a_compaction_finds_a_log_of_this_database() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    target.db().sync().unwrap();
    commit(&target, &log, 11, &[(2, 200)]);
    for version in 0..60 {
        commit_with(&target, &log, 12 + u32::from(version), &[(3, version)], Durability::Buffered);
    }
    let before = medium.operations();
    log.retire(target.db()).unwrap();
    let mut replay = medium.replay();
    for cut in before..=medium.operations() {
        replay.advance(cut);
        for seed in 0..10 {
            let after = replay.cut(&mut litefoot_sim::Random::new(seed));
            let log_there = after.info(Path::new("/app.db-wal")).unwrap().is_some();
            let db = Db::opened_on(&after);
            if log_there {
                recover(&db);
            }
            let pages = in_file(&db);
            assert_eq!(pages[0], 200, "cut {cut}, seed {seed}");
            assert!(pages[1] < 60, "cut {cut}, seed {seed}: {pages:?}");
        }
    }
}

/// Pages of a database after a transaction that is written early for its most part.
const LARGE: u32 = 4 + (256 * 1024 / PAGE) as u32 + 8;

/// Commits pages 2, and 5 to [`LARGE`], which go into the database file early.
fn commit_early(target: &Arc<PlainTarget>, log: &RollbackRedoLog) {
    let new = (5..=LARGE).map(|number| (number, number as u8));
    let pages: Vec<(u32, u8)> = std::iter::once((2, 2)).chain(new).collect();
    commit(target, log, 11, &pages);
    assert!(!log.contains(LARGE) && log.contains(2), "no page was written early");
}

/// The database that is on a medium after recovery, without page 1; `None` where the log is not the database's.
fn recovered(medium: &SimMedium) -> Option<Vec<u8>> {
    let db = Db::opened_on(medium);
    let redo = RollbackRedoLog::default().find(&db).unwrap()?;
    if !redo.is_empty() {
        copy_in_place(&db, &redo, None, &redo.page_numbers().collect::<Vec<u32>>()).unwrap();
    }
    let mut bytes = vec![0; (LARGE as usize + 1) * PAGE];
    let read = db.data().read_at(&mut bytes, 0).unwrap();
    Some(bytes[..read].chunks(PAGE).skip(1).map(|page| page[0]).collect())
}

fn names(medium: &SimMedium) -> Vec<String> {
    medium.files().iter().map(|(path, ..)| path.display().to_string()).collect()
}

#[test]
fn a_log_that_began_upon_an_old_copy_is_set_aside_where_the_copy_lacks_early_pages() {
    let before = [page_one(10, 0), vec![7; 3 * PAGE]].concat();
    let foreign_pages = vec![9; (LARGE as usize - 4) * PAGE];
    let early: Vec<u8> = (5..=LARGE).flat_map(|number| [number as u8; PAGE]).collect();
    let almost = [&early[..early.len() - 1], &[0x55]].concat();
    // What lies behind the old end of the file, and if that is the database's.
    for (behind, expected) in [(&[][..], false), (&foreign_pages, false), (&almost, false), (&early, true)] {
        let medium = SimMedium::new();
        let (target, log) = database(&medium);
        commit_early(&target, &log);
        drop(log);
        let file = target.db().data();
        file.set_len(0).unwrap();
        file.write_at(&[&before, behind].concat(), 0).unwrap();
        let found = recovered(&medium);
        assert_eq!(found.is_some(), expected, "{} bytes behind", behind.len());
        assert_eq!(names(&medium).iter().any(|name| name.contains("set-aside")), !expected);
        if let Some(pages) = found {
            assert_eq!((pages[0], pages.len() as u32), (2, LARGE - 1));
        }
    }
}

#[test]
fn a_log_with_newer_commits_is_set_aside_beside_a_copy_that_lacks_one_that_was_written_in_place() {
    // Whether the copy is older than the page that was written in place, and whether a newer commit is in the log.
    for (is_older, is_newer_logged) in [(true, true), (false, true), (true, false)] {
        let medium = SimMedium::new();
        medium.set_atomic_write_bytes(PAGE as u32);
        let (target, log) = database(&medium);
        let copy = || {
            let mut bytes = vec![0; 4 * PAGE];
            target.db().data().read_at(&mut bytes, 0).unwrap();
            bytes
        };
        commit(&target, &log, 11, &[(2, 2)]);
        let before = copy();
        commit(&target, &log, 12, &[(3, 3)]);
        assert!(!log.contains(3) && in_file(target.db())[1] == 3, "it was not written in place");
        let older = if is_older { before } else { copy() };
        if is_newer_logged {
            commit(&target, &log, 13, &[(2, 4)]);
            assert!(log.contains(2));
        }
        drop(log);
        target.db().data().write_at(&older, 0).unwrap();
        let expected = match (is_older, is_newer_logged) {
            // Without the commit in the middle, the newer one is another database.
            (true, true) => None,
            (false, _) => Some(vec![4, 3, 7]),
            (true, false) => Some(vec![2, 7, 7]),
        };
        assert_eq!(recovered(&medium), expected, "{is_older} {is_newer_logged}");
        assert_eq!(names(&medium).iter().any(|name| name.contains("set-aside")), expected.is_none());
    }
}

#[test]
fn an_early_page_that_a_later_commit_changes_goes_to_the_log() {
    let medium = SimMedium::new();
    // Such a device gets single pages in place, without a frame.
    medium.set_atomic_write_bytes(PAGE as u32);
    let (target, log) = database(&medium);
    commit_early(&target, &log);
    commit(&target, &log, 12, &[(300, 99)]);
    assert!(log.contains(300));
    drop(log);
    assert_eq!(recovered(&medium).map(|pages| (pages[298], pages[299])), Some((99, 45)));
}

/// Runs a large transaction, changes of its pages, a reset and another large one, and cuts the power everywhere.
/// Describes the first cut after which an acknowledged commit is not there.
fn cut_large_transactions(faults: litefoot_sim::Faults, seeds: u64) -> Option<String> {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    target.db().sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    medium.set_faults(faults);
    let mut acknowledged = vec![(medium.operations(), 0)];
    let step = |done: &mut Vec<(usize, u8)>| done.push((medium.operations(), done.len() as u8));
    commit_early(&target, &log);
    step(&mut acknowledged);
    // The third page tells the commit, page 300 is one of the early ones.
    for version in 2..5 {
        commit(&target, &log, 10 + u32::from(version), &[(3, version), (300, version)]);
        step(&mut acknowledged);
    }
    log.reset(target.db());
    log.retire(target.db()).unwrap();
    let mut replay = medium.replay();
    for cut in acknowledged[0].0..=medium.operations() {
        replay.advance(cut);
        let least = acknowledged.iter().rev().find(|(at, _)| *at <= cut).map_or(0, |(_, least)| *least);
        for seed in 0..seeds {
            let after = replay.cut(&mut litefoot_sim::Random::new(seed));
            let is_there = names(&after).iter().any(|name| name == "/app.db-wal");
            let pages = if is_there {
                recovered(&after)
            } else {
                let db = Db::opened_on(&after);
                let mut bytes = vec![0; LARGE as usize * PAGE];
                let read = db.data().read_at(&mut bytes, 0).unwrap();
                Some(bytes[..read].chunks(PAGE).skip(1).map(|page| page[0]).collect())
            };
            let Some(pages) = pages else { return Some(format!("cut {cut}, seed {seed}: set aside")) };
            let version = match (pages[0], pages[1]) {
                (7, _) => 0,
                (_, 7) => 1,
                (_, version) => version,
            };
            let whole = version == 0
                || (5..=LARGE).all(|number| {
                    let expected = if number == 300 && version > 1 { version } else { number as u8 };
                    pages.get(number as usize - 2) == Some(&expected)
                });
            if version < least || !whole {
                return Some(format!("cut {cut}, seed {seed}: version {version}, {least} acknowledged"));
            }
        }
    }
    None
}

#[test]
fn a_power_cut_leaves_each_log_its_early_pages_and_their_sync_left_out_is_noticed() {
    use litefoot_sim::{Faults, SyncSite};
    assert_eq!(cut_large_transactions(Faults::default(), 3), None);
    let without = Faults::ignoring(SyncSite::File(FileKind::Database), Some(0));
    assert!(cut_large_transactions(without, 3).is_some());
}

/// Commits of a connection in exclusive locking mode, which counts the first one only: without page 1.
fn commit_uncounted(target: &Arc<PlainTarget>, log: &RollbackRedoLog, version: u8) {
    let mut dirty = DirtyPages::new(target.db(), PAGE, target.db().file_len().unwrap());
    dirty.write(target, &[version; PAGE], 2 * PAGE as u64).unwrap();
    log.commit(target, &mut dirty, Durability::Durable).unwrap();
}

#[test]
fn a_checkpoint_of_commits_that_are_not_counted_can_be_cut_anywhere() {
    let medium = SimMedium::new();
    let (target, log) = database(&medium);
    target.db().sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    commit(&target, &log, 11, &[(2, 2)]);
    (3..6).for_each(|version| commit_uncounted(&target, &log, version));
    let before = medium.operations();
    log.clear(target.db()).unwrap();
    let mut replay = medium.replay();
    for cut in before..=medium.operations() {
        replay.advance(cut);
        for seed in 0..8 {
            let pages = recovered(&replay.cut(&mut litefoot_sim::Random::new(seed)));
            assert_eq!(pages, Some(vec![2, 5, 7]), "cut {cut}, seed {seed}");
        }
    }
}

#[test]
fn a_log_that_goes_on_behind_a_checkpoint_that_failed_is_the_databases() {
    for counted in [false, true] {
        let medium = SimMedium::new();
        let (target, log) = database(&medium);
        commit(&target, &log, 11, &[(2, 2)]);
        // The file cannot grow, and page 1 is in it already.
        let state = &log.state;
        let size = target.db().file_len().unwrap();
        commit(&target, &log, 12, &[(5, 5)]);
        target.db().data().set_len(size).unwrap();
        medium.set_faults(litefoot_sim::Faults::full_at(medium.used_bytes()));
        let failed = state.write().checkpoint(target.db());
        medium.set_faults(litefoot_sim::Faults::default());
        assert!(failed.is_err(), "the checkpoint has found room");
        let mut sector = [0; PAGE];
        target.db().data().read_at(&mut sector, 0).unwrap();
        assert_eq!(counter_of(&sector), 12, "page 1 is not in the file");
        for version in 13..16 {
            if counted {
                commit(&target, &log, u32::from(version), &[(3, version)]);
            } else {
                commit_uncounted(&target, &log, version);
            }
        }
        drop(log);
        assert_eq!(recovered(&medium), Some(vec![2, 15, 7, 5]), "{counted}");
    }
}
