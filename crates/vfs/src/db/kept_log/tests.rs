//! Short openings in a row, with power cuts and other users between them.

use super::*;
use crate::commit::of_test::{PAGE, cut_everywhere, needless_syncs, newest_page, redo_log};
use crate::commit::rollback_checkpoint::copy_in_place;
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{LeaseAnswer, RangeLock};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::Transaction;

/// The first byte of each page.
type State = Vec<u8>;

const PAGES: usize = 5;
/// Cuts at each operation.
const CUTS: usize = 60;
const LOG: &str = "/app.db-wal";

fn kept_logs(medium: &SimMedium) -> Arc<KeptLogs> {
    KeptLogs::new(Arc::new(medium.clone()))
}

/// A database on a medium, durably.
fn database(medium: &SimMedium) {
    let db = Db::of_test_on(medium, &[7; PAGES * PAGE]);
    db.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
}

fn append(redo: &mut RedoLog, pages: &[(u32, u8)]) {
    let page_numbers: Vec<u32> = pages.iter().map(|(number, _)| *number).collect();
    let transaction = Transaction {
        slots: &[],
        early: &[],
        page_numbers: &page_numbers,
        page_bytes: PAGE as u32,
        database_pages: PAGES as u32,
    };
    let mut copy = |index: usize, out: &mut [u8]| {
        out.fill(pages[index].1);
        Ok(())
    };
    redo.append(&transaction, &mut copy, Durability::Durable).unwrap();
}

fn checkpoint(db: &Db, redo: &RedoLog) {
    copy_in_place(db, redo, None, &redo.page_numbers().collect::<Vec<_>>()).unwrap();
    db.sync().unwrap();
}

/// An opening with these commits; `committed` hears of each.
fn live(
    medium: &SimMedium,
    kept: &Arc<KeptLogs>,
    commits: &[&[(u32, u8)]],
    mut committed: impl FnMut(&[(u32, u8)]),
) {
    let db = Db::opened_with(medium, Some(kept.clone()));
    let mut redo = db.open_redo_log(Path::new(LOG)).unwrap();
    for commit in commits {
        append(&mut redo, commit);
        committed(commit);
    }
    if !redo.is_empty() {
        checkpoint(&db, &redo);
    }
    db.leave_redo_log(&mut redo).unwrap();
}

fn has_log(medium: &SimMedium) -> bool {
    medium.info(Path::new(LOG)).unwrap().is_some()
}

/// Openings, some of them another program's, and after each acknowledged commit the operation and the state.
fn history(medium: &SimMedium) -> Vec<(usize, State)> {
    database(medium);
    let kept = kept_logs(medium);
    let mut state = vec![7; PAGES];
    let mut history = vec![(medium.operations(), state.clone())];
    let mut note = |pages: &[(u32, u8)]| {
        pages.iter().for_each(|(number, byte)| state[*number as usize - 1] = *byte);
        history.push((medium.operations(), state.clone()));
    };
    // An opening of three frames overwrites the second transaction of one of two, and leaves the first, an old state.
    live(medium, &kept, &two(10), &mut note);
    write_without_log(medium, 15, &mut note);
    live(medium, &kept, &two(20), &mut note);
    assert!(has_log(medium));
    live(medium, &kept, &[&three(30)], &mut note);
    write_without_log(medium, 35, &mut note);
    live(medium, &kept, &two(40), &mut note);
    live(medium, &kept, &[], &mut note);
    live(medium, &kept, &[&three(50)], &mut note);
    write_without_log(medium, 55, &mut note);
    kept.remove_these(&[]);
    die_voiding(medium, &two(70), &mut note);
    live(medium, &kept, &[&three(80)], &mut note);
    write_without_log(medium, 85, &mut note);
    live(medium, &kept, &two(90), &mut note);
    live(medium, &kept, &[&three(100)], &mut note);
    assert!(has_log(medium));
    write_without_log(medium, 105, &mut note);
    history
}

/// Two transactions, in three frames.
fn two(byte: u8) -> [&'static [(u32, u8)]; 2] {
    [vec![(2, byte + 1)], vec![(2, byte + 2), (3, byte + 2)]].map(|commit| &*commit.leak())
}

/// A transaction of three frames.
fn three(byte: u8) -> [(u32, u8); 3] {
    [(3, byte + 1), (4, byte + 1), (5, byte + 1)]
}

/// A program without a log writes page 3, which is one sector.
fn write_without_log(medium: &SimMedium, byte: u8, mut note: impl FnMut(&[(u32, u8)])) {
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    file.write_durable_at(&[std::io::IoSlice::new(&[byte; PAGE])], 2 * PAGE as u64).unwrap();
    note(&[(3, byte)]);
}

/// Another program uses the log, and dies before its void header is durable.
fn die_voiding(medium: &SimMedium, commits: &[&[(u32, u8)]], mut note: impl FnMut(&[(u32, u8)])) {
    let db = Db::opened_on(medium);
    let mut redo = redo_log(&db);
    for commit in commits {
        append(&mut redo, commit);
        note(commit);
    }
    checkpoint(&db, &redo);
    drop(redo);
    let log = medium.open(Path::new(LOG), FileKind::RedoLog, OpenMode::ReadWrite).unwrap();
    log.write_at(&[0; 32], 0).unwrap();
}

/// The state that any SQLite finds.
fn found(image: &SimMedium) -> Option<State> {
    image.info(Path::new("/app.db")).unwrap()?;
    let db = Db::opened_on(image);
    let redo = redo_log(&db);
    let mut state = vec![0; PAGES];
    for (number, byte) in (1..).zip(&mut state) {
        let page = newest_page(&redo, &db, number);
        *byte = page.iter().all(|byte| *byte == page[0]).then_some(page[0])?;
    }
    Some(state)
}

/// Cuts at every operation; answers the first failure.
fn cut_with(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    cut_everywhere(&medium, &history, (Random::new(3), CUTS), |image, _, _| found(&image))
}

#[test]
fn power_cuts_in_short_openings_leave_what_was_acknowledged() {
    assert_eq!(cut_with(Faults::default()), None);
}

#[test]
fn each_sync_of_short_openings_that_is_left_out_is_missed() {
    let sites = [SyncSite::File(FileKind::RedoLog), SyncSite::File(FileKind::Database), SyncSite::Directory];
    // The database, and three logs that are created. Behind a program that has died their names are synced once more.
    let relied_on = |site, count| if site == SyncSite::Directory { 0..4 } else { 0..count };
    assert_eq!(needless_syncs(&sites, |medium| drop(history(medium)), relied_on, cut_with), []);
}

#[test]
fn a_log_is_kept_where_the_last_close_was_a_moment_ago() {
    for (seconds, expected) in [(None, false), (Some(0), true), (Some(10), true), (Some(11), false)] {
        assert_eq!(keeps(seconds.map(Duration::from_secs)), expected, "{seconds:?}");
    }
}

#[test]
fn the_second_close_keeps_the_log_and_the_exit_removes_it() {
    let medium = SimMedium::new();
    database(&medium);
    let kept = kept_logs(&medium);
    let commit: &[&[(u32, u8)]] = &[&[(2, 1)]];
    live(&medium, &kept, commit, |_| ());
    assert!(!has_log(&medium), "one opening may be the only one");
    live(&medium, &kept, commit, |_| ());
    assert!(has_log(&medium));
    let (operations, syncs) = (medium.operations(), medium.syncs(SyncSite::File(FileKind::RedoLog)));
    live(&medium, &kept, &[], |_| ());
    assert_eq!(medium.operations(), operations, "an opening that only reads writes nothing");
    live(&medium, &kept, commit, |_| ());
    assert_eq!(
        medium.syncs(SyncSite::File(FileKind::RedoLog)),
        syncs + 2,
        "the commit's, and the void header's"
    );
    kept.remove_these(&[]);
    assert!(!has_log(&medium));
    assert_eq!(found(&medium).unwrap()[1], 1);
}

#[test]
fn the_exit_leaves_what_somebody_uses_or_has_used() {
    let kept_log = || {
        let medium = SimMedium::new();
        database(&medium);
        let kept = kept_logs(&medium);
        (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]], |_| ()));
        assert!(has_log(&medium));
        (medium, kept)
    };
    let (medium, kept) = kept_log();
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert!(file.lock_range(owner_lock::LOCK_OFFSET + 2, 1, RangeLock::Shared).unwrap());
    kept.remove_these(&[]);
    assert!(has_log(&medium), "a connection in WAL mode has a shared lock");

    let (medium, kept) = kept_log();
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    let on_break = || panic!("this process has the database, and opens it once more");
    assert_eq!(file.take_lease(Arc::new(on_break)), LeaseAnswer::Granted);
    kept.remove_these(&[file.id()]);
    assert!(has_log(&medium), "a connection of this process needs it");

    let (medium, kept) = kept_log();
    append(&mut redo_log(&Db::opened_on(&medium)), &[(2, 9)]);
    kept.remove_these(&[]);
    assert!(has_log(&medium), "a process that was killed has committed");
    assert_eq!(found(&medium).unwrap()[1], 9);

    let (medium, kept) = kept_log();
    medium.delete(Path::new("/app.db")).unwrap();
    medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    kept.remove_these(&[]);
    assert!(has_log(&medium), "another database has the name");

    let (medium, kept) = kept_log();
    medium.delete(Path::new("/app.db")).unwrap();
    kept.remove_these(&[]);
    assert!(!has_log(&medium), "the database is gone");
}

#[test]
fn a_database_that_has_moved_leaves_no_log_behind() {
    let medium = SimMedium::new();
    database(&medium);
    let kept = kept_logs(&medium);
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]], |_| ()));
    medium.rename(Path::new("/app.db"), Path::new("/moved.db")).unwrap();
    let file = medium.open(Path::new("/moved.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert!(kept.take(file.id(), Path::new("/moved.db")).is_none());
    assert!(!has_log(&medium));
}

#[test]
fn so_many_databases_are_remembered_and_none_in_a_forked_child() {
    let kept = kept_logs(&SimMedium::new());
    let database =
        |log| ClosedDatabase { path: PathBuf::new(), at: Instant::now(), log, journal: false, short: false };
    for inode in 0..2 * MOST_DATABASES as u64 {
        kept.note(FileId { device: 1, inode }, database(None));
    }
    assert_eq!(kept.closed.lock().0.len(), MOST_DATABASES);
    let parents = std::mem::take(&mut *kept.closed.lock());
    assert!(Closed::inherit(parents).0.is_empty());
}

#[test]
fn a_full_medium_takes_the_commits_of_a_kept_log() {
    let medium = SimMedium::new();
    database(&medium);
    let kept = kept_logs(&medium);
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]], |_| ()));
    medium.set_faults(Faults::full_at(medium.used_bytes()));
    live(&medium, &kept, &[&[(2, 3)]], |_| ());
    assert_eq!(found(&medium).unwrap()[1], 3);
}
