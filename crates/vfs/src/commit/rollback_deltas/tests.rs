//! Which transactions are deltas, and what becomes of them when files lose their names, disks are full or writes fail.

use super::*;
use crate::commit::of_test::{PAGE, page_one};
use crate::commit::page_one::{COUNTER_JUMP, counter_of};
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::options::{CommitLogForm, Options};
use crate::sync::lock_table::Level;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The counter of page 1, and the first byte of each other page.
pub(super) type State = (u32, Vec<u8>);

pub(super) const PAGES: usize = 6;

/// The database on a medium.
pub(super) fn opened(medium: &SimMedium, options: Options) -> Arc<OpenDatabase> {
    let mut setup = DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/app.db"));
    setup.options = options;
    let database = Arc::new(OpenDatabase::new(setup));
    database.set_shared();
    database
}

/// The same, new, whose commits may be deltas.
pub(super) fn created(medium: &SimMedium) -> Arc<OpenDatabase> {
    created_with(medium, Options::default())
}

fn created_with(medium: &SimMedium, options: Options) -> Arc<OpenDatabase> {
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    file.write_at(&[page_one(10, 0), vec![7; (PAGES - 1) * PAGE]].concat(), 0).unwrap();
    file.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    let database = opened(medium, Options { commit_log: CommitLogForm::Deltas, ..options });
    database.lock(&database.locks().new_reader_slot(), Level::Shared).unwrap();
    database
}

/// Commits page 1 with a counter, and other pages with a first byte, in a database of so many pages.
pub(super) fn commit(database: &Arc<OpenDatabase>, counter: u32, pages: &[(u32, u8)], database_pages: usize) {
    let db = database.db();
    let mut dirty = DirtyPages::new(db, PAGE, db.file_len().unwrap());
    dirty.has_journal = true;
    dirty.write(database, &page_one(counter, 0), 0).unwrap();
    for (number, first) in pages {
        let mut page = [7; PAGE];
        page[0] = *first;
        dirty.write(database, &page, u64::from(number - 1) * PAGE as u64).unwrap();
    }
    dirty.set_len(database, (database_pages * PAGE) as u64).unwrap();
    database.rollback_log().commit(database, &mut dirty, Durability::Durable).unwrap();
}

/// The state that a reader sees; `None` where a page is there in part.
pub(super) fn seen(database: &OpenDatabase) -> Option<State> {
    let pages = database.db().file_len().unwrap() / PAGE as u64;
    let mut first = vec![0; PAGE];
    database.read(&mut first, 0, &mut ()).unwrap();
    let mut bytes = Vec::new();
    for number in 1..pages {
        let mut page = [0; PAGE];
        database.read(&mut page, number * PAGE as u64, &mut ()).unwrap();
        page[1..].iter().all(|rest| *rest == 7).then(|| bytes.push(page[0]))?;
    }
    let counter = counter_of(&first);
    // A page 1 that was logged as a page is ahead.
    Some((if counter > COUNTER_JUMP { counter - COUNTER_JUMP } else { counter }, bytes))
}

/// Commits that were logged as deltas.
pub(super) fn deltas(database: &OpenDatabase) -> u64 {
    database.db().counters().commits_deltas.load(Ordering::Relaxed)
}

/// What the next owner finds, after a process that was killed.
fn after_a_kill(medium: &SimMedium, database: Arc<OpenDatabase>) -> Option<State> {
    database.db().latch().close("killed");
    std::mem::forget(database);
    // The same files: copies are believed less.
    let database = opened(&medium.copy(), Options::default());
    database.lock(&database.locks().new_reader_slot(), Level::Shared).unwrap();
    database.recovery().check_replayed().unwrap();
    seen(&database)
}

fn names(medium: &SimMedium) -> Vec<String> {
    let mut names: Vec<String> = medium.files().iter().map(|(path, ..)| path.display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_transaction_is_deltas_where_that_is_chosen_and_pages_are_all_that_it_has() {
    let small =
        Candidate { chosen: true, durable: true, has_early_pages: false, keeps_pages: true, pages: 2 };
    for (candidate, expected, what) in [
        (small, true, "a small one"),
        (Candidate { chosen: false, ..small }, false, "another option, or no journal"),
        (Candidate { durable: false, ..small }, false, "nobody syncs it"),
        (Candidate { has_early_pages: true, ..small }, false, "pages were spilled"),
        (Candidate { keeps_pages: false, ..small }, false, "a new database, or pages of another size"),
        (Candidate { pages: MOST_PAGES, ..small }, true, "the largest"),
        (Candidate { pages: MOST_PAGES + 1, ..small }, false, "a large one"),
        (Candidate { pages: 0, ..small }, false, "only the length has changed"),
    ] {
        assert_eq!(candidate.can_be_deltas(), expected, "{what}");
    }
}

#[test]
fn deltas_are_read_from_memory_and_the_file_stays_until_they_are_brought_home() {
    let medium = SimMedium::new();
    let database = created(&medium);
    let (db, log) = (database.db(), database.rollback_log());
    let in_file = || {
        let mut byte = [0];
        db.data().read_at(&mut byte, PAGE as u64).unwrap();
        byte[0]
    };
    commit(&database, 11, &[(2, 1)], PAGES);
    commit(&database, 12, &[(2, 2), (7, 9)], PAGES + 1);
    assert_eq!((deltas(&database), in_file(), log.has_deltas()), (2, 7, true));
    assert_eq!((log.page_bytes(), log.contains(2), log.contains(3)), (PAGE, true, false));
    assert_eq!(seen(&database).unwrap(), (12, vec![2, 7, 7, 7, 7, 9]));
    let mut across = [0; 4];
    database.read(&mut across, 2 * PAGE as u64 - 2, &mut ()).unwrap();
    assert_eq!(across, [7; 4]);
    log.retire(db).unwrap();
    assert_eq!((in_file(), names(&medium)), (2, vec!["/app.db".to_owned()]));
    assert_eq!(seen(&database).unwrap(), (12, vec![2, 7, 7, 7, 7, 9]));
}

#[test]
fn pages_that_were_cut_off_do_not_come_back() {
    let medium = SimMedium::new();
    let database = created(&medium);
    commit(&database, 11, &[(6, 1)], PAGES);
    commit(&database, 12, &[(2, 1)], PAGES - 2);
    commit(&database, 13, &[(5, 3), (6, 4)], PAGES);
    assert_eq!((deltas(&database), seen(&database).unwrap()), (3, (13, vec![1, 7, 7, 3, 4])));
    assert_eq!(after_a_kill(&medium, database).unwrap(), (13, vec![1, 7, 7, 3, 4]));
    let medium = SimMedium::new();
    let database = created(&medium);
    commit(&database, 11, &[(2, 1)], PAGES - 2);
    assert_eq!(after_a_kill(&medium, database).unwrap(), (11, vec![1, 7, 7]));
}

#[test]
fn other_commits_materialize_the_deltas_first() {
    for (durability, has_journal) in [(Durability::Buffered, true), (Durability::Durable, false)] {
        let medium = SimMedium::new();
        let database = created(&medium);
        let db = database.db();
        commit(&database, 11, &[(2, 1), (3, 1)], PAGES);
        let mut dirty = DirtyPages::new(db, PAGE, db.file_len().unwrap());
        dirty.has_journal = has_journal;
        dirty.write(&database, &page_one(12, 0), 0).unwrap();
        dirty.write(&database, &[[2].as_slice(), &[7; PAGE - 1]].concat(), PAGE as u64).unwrap();
        database.rollback_log().commit(&database, &mut dirty, durability).unwrap();
        assert_eq!((deltas(&database), database.rollback_log().has_deltas()), (1, false));
        assert_eq!(seen(&database).unwrap(), (12, vec![2, 1, 7, 7, 7]));
        assert_eq!(after_a_kill(&medium, database).unwrap(), (12, vec![2, 1, 7, 7, 7]));
    }
}

#[test]
fn a_full_log_is_emptied_in_the_background_and_one_without_room_by_the_commit() {
    let medium = SimMedium::new();
    let database = created_with(&medium, Options { commit_log_size: 32 << 10, ..Options::default() });
    let log = database.rollback_log();
    let is_full = || log.with_state(|state| state.deltas.is_full(database.db()));
    let mut counter = 10;
    let mut next = || {
        counter += 1;
        assert!(counter < 2_000, "no end");
        commit(&database, counter, &[(2, counter as u8)], PAGES);
    };
    while !is_full() {
        next();
    }
    assert!(deltas(&database) > 10 && log.has_deltas());
    // Nobody resets it.
    while log.has_deltas() {
        next();
    }
    next();
    log.complete_in_background(&database);
    log.wait_until_idle();
    let before = deltas(&database);
    next();
    assert_eq!((deltas(&database), log.has_deltas()), (before + 1, true));
    log.complete_in_background(&database);
    log.wait_until_idle();
    assert!(!log.has_deltas() && log.page_bytes() == 0, "everything is in the file");
    assert_eq!(after_a_kill(&medium, database.clone()).unwrap().0, counter);
}

#[test]
fn small_commits_that_had_to_be_pages_have_the_file_completed() {
    let medium = SimMedium::new();
    let database = created(&medium);
    let log = database.rollback_log();
    commit(&database, 11, &[(2, 1)], PAGES);
    log.fold_at_exit(database.db());
    let mut counter = 11;
    while deltas(&database) == 1 && counter < 30 {
        counter += 1;
        commit(&database, counter, &[(2, 1)], PAGES);
        log.reset_in_background(&database);
        log.wait_until_idle();
    }
    assert_eq!((deltas(&database), seen(&database).unwrap().0), (2, counter));
}

#[test]
fn commits_beyond_the_memory_are_pages() {
    let medium = SimMedium::new();
    let options = Options { write_buffer_size: Some(3 * PAGE), ..Options::default() };
    let database = created_with(&medium, options);
    for (counter, number, expected) in [(11, 2, 1), (12, 3, 2), (13, 4, 2)] {
        commit(&database, counter, &[(number, 1)], PAGES);
        assert_eq!(deltas(&database), expected, "{number}");
    }
    assert_eq!(seen(&database).unwrap(), (13, vec![1, 1, 1, 7, 7]));
}

#[test]
fn writes_that_are_not_logged_find_everything_in_the_file() {
    let medium = SimMedium::new();
    let database = created(&medium);
    let (db, log) = (database.db(), database.rollback_log());
    commit(&database, 11, &[(2, 1)], PAGES);
    log.before_behind_end(db, (PAGES * PAGE) as u64).unwrap();
    assert!(!log.has_deltas() && log.contains(2), "before early writes");
    log.clear(db).unwrap();
    commit(&database, 12, &[(3, 1)], PAGES);
    log.reserve_slots(db, PAGE, 0, 2).unwrap();
    assert!(!log.has_deltas() && log.contains(3), "before slots");
    commit(&database, 13, &[(4, 1)], PAGES);
    assert_eq!(deltas(&database), 2, "while there are slots");
    log.with_state(|state| state.redo.as_mut().unwrap().discard_slots());
    log.clear(db).unwrap();
    commit(&database, 14, &[(5, 1)], PAGES);
    assert_eq!(deltas(&database), 3);
    log.clear(db).unwrap();
    assert_eq!((log.page_bytes(), seen(&database).unwrap()), (0, (14, vec![1, 1, 1, 1, 7])));
    assert_eq!(after_a_kill(&medium, database).unwrap(), (14, vec![1, 1, 1, 1, 7]));
}

#[test]
fn a_log_that_has_lost_its_name_is_replaced() {
    for lost in ["/app.db-commits", "/app.db-wal"] {
        for is_removed in [false, true] {
            let medium = SimMedium::new();
            let database = created(&medium);
            commit(&database, 11, &[(2, 1)], PAGES);
            match is_removed {
                true => medium.delete(Path::new(lost)).unwrap(),
                false => medium.rename(Path::new(lost), Path::new("/else")).unwrap(),
            }
            commit(&database, 12, &[(3, 2)], PAGES);
            assert_eq!(seen(&database).unwrap(), (12, vec![1, 2, 7, 7, 7]), "{lost}");
            database.rollback_log().complete_in_background(&database);
            database.rollback_log().wait_until_idle();
            let before = deltas(&database);
            commit(&database, 13, &[(4, 3)], PAGES);
            assert_eq!(deltas(&database), before + 1, "{lost}");
            assert_eq!(after_a_kill(&medium, database).unwrap(), (13, vec![1, 2, 3, 7, 7]), "{lost}");
        }
    }
}

#[test]
fn a_database_that_has_lost_its_name_gets_everything_by_its_descriptor() {
    let medium = SimMedium::new();
    let database = created(&medium);
    commit(&database, 11, &[(2, 1)], PAGES);
    medium.rename(Path::new("/app.db"), Path::new("/else.db")).unwrap();
    // SQLite asks when a transaction begins.
    assert!(!database.db().has_its_name());
    database.rollback_log().leave_place(database.db()).unwrap();
    assert_eq!(names(&medium), ["/else.db"]);
    commit(&database, 12, &[(3, 1)], PAGES);
    assert_eq!((deltas(&database), names(&medium)), (1, vec!["/else.db".to_owned()]));
    assert_eq!(seen(&database).unwrap(), (12, vec![1, 1, 7, 7, 7]));
}

#[test]
fn a_commit_log_in_use_by_another_owner_leaves_commits_as_pages() {
    let medium = SimMedium::new();
    let other = created(&medium);
    commit(&other, 11, &[(2, 1)], PAGES);
    // Another file takes the name.
    medium.rename(Path::new("/app.db"), Path::new("/else.db")).unwrap();
    let bytes = [page_one(30, 0), vec![7; (PAGES - 1) * PAGE]].concat();
    medium
        .open(Path::new("/app.db"), FileKind::Database, OpenMode::Create)
        .unwrap()
        .write_at(&bytes, 0)
        .unwrap();
    let options = Options { commit_log: CommitLogForm::Deltas, ..Options::default() };
    let database = opened(&medium, options);
    database.lock(&database.locks().new_reader_slot(), Level::Shared).unwrap();
    assert_eq!(seen(&database).unwrap(), (30, vec![7; PAGES - 1]));
    other.rollback_log().leave_place(other.db()).unwrap();
    commit(&database, 31, &[(3, 3)], PAGES);
    assert_eq!(seen(&database).unwrap(), (31, vec![7, 3, 7, 7, 7]));
    assert_eq!(seen(&other).unwrap(), (11, vec![1, 7, 7, 7, 7]));
}
