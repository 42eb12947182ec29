//! Short openings of a database with a rollback journal, without SQLite.

use super::*;
use crate::commit::of_test::{PAGE, page_one};
use crate::commit::rollback_log::RollbackRedoLog;
use crate::db::KeptLogs;
use crate::txn::SpillTarget;
use crate::txn::of_test::PlainTarget;
use litefoot_sim::{Faults, SimMedium, SyncSite};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Operation};
use std::path::Path;
use std::sync::Arc;

const PAGES: usize = 5;
const DATABASE: &str = "/app.db";
const JOURNAL: &str = "/app.db-journal";
const SITES: [SyncSite; 4] = [
    SyncSite::File(FileKind::Journal),
    SyncSite::File(FileKind::Database),
    SyncSite::File(FileKind::RedoLog),
    SyncSite::Directory,
];

fn open(medium: &SimMedium, path: &str) -> Arc<dyn File> {
    medium.open(Path::new(path), FileKind::Database, OpenMode::ReadWrite).unwrap()
}

/// A medium with a database, and the memory of a process that uses it.
fn process() -> (SimMedium, Arc<KeptLogs>) {
    let medium = SimMedium::new();
    let db = Db::of_test_on(&medium, &[page_one(10, 0), vec![7; (PAGES - 1) * PAGE]].concat());
    db.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    let kept = KeptLogs::new(Arc::new(medium.clone()));
    (medium, kept)
}

/// One opening.
struct Opening {
    target: Arc<PlainTarget>,
    log: Arc<RollbackRedoLog>,
}

impl Opening {
    fn of(medium: &SimMedium, kept: &Arc<KeptLogs>) -> Opening {
        let db = Db::opened_with(medium, Some(kept.clone()));
        let log = Arc::<RollbackRedoLog>::default();
        log.find_kept_journal(&db);
        Opening { target: Arc::new(PlainTarget::of(db)), log }
    }

    fn try_commit(&self, change: impl FnOnce(&mut DirtyPages), pages: &[(u32, u8)]) -> Result<()> {
        let db = self.target.db();
        let mut dirty = DirtyPages::new(db, PAGE, db.file_len().unwrap());
        dirty.has_journal = true;
        for (number, filler) in pages {
            dirty.write(&self.target, &[*filler; PAGE], u64::from(number - 1) * PAGE as u64).unwrap();
        }
        change(&mut dirty);
        self.log.commit(&self.target, &mut dirty, Durability::Durable)
    }

    fn commit(&self, pages: &[(u32, u8)]) {
        self.try_commit(|_| (), pages).unwrap();
    }

    fn close(self) {
        let db = self.target.db();
        self.log.retire(db).unwrap();
        self.log.leave_kept_journal(db);
    }
}

/// An opening with these commits.
fn live(medium: &SimMedium, kept: &Arc<KeptLogs>, commits: &[&[(u32, u8)]]) {
    let opening = Opening::of(medium, kept);
    commits.iter().for_each(|pages| opening.commit(pages));
    opening.close();
}

fn names(medium: &SimMedium) -> Vec<String> {
    medium.files().iter().map(|(path, ..)| path.display().to_string()).collect()
}

fn has_journal(medium: &SimMedium) -> bool {
    names(medium).contains(&JOURNAL.to_owned())
}

/// The first byte of each page but the first.
fn in_file(medium: &SimMedium) -> Vec<u8> {
    let mut bytes = vec![0; 2 * PAGES * PAGE];
    let read = open(medium, DATABASE).read_at(&mut bytes, 0).unwrap();
    bytes[..read].chunks(PAGE).skip(1).map(|page| page[0]).collect()
}

#[test]
fn the_table() {
    for (expected, commit, short) in
        [(true, 1, true), (true, MOST_COMMITS, true), (true, MOST_COMMITS + 1, false), (false, 1, false)]
    {
        assert_eq!(is_short(expected, commit), short, "{expected} {commit}");
    }
    let facts = CommitFacts { logged: false, journaled: true, plain: true, fits: true };
    for (facts, expected, what) in [
        (facts, true, "an ordinary commit"),
        (CommitFacts { logged: true, ..facts }, false, "pages wait in a log, or its name is not free"),
        (CommitFacts { journaled: false, ..facts }, false, "nobody syncs, or SQLite has no journal"),
        (CommitFacts { plain: false, ..facts }, false, "pages are elsewhere, or are cut off"),
        (CommitFacts { fits: false, ..facts }, false, "the file would be large"),
    ] {
        assert_eq!(goes_by_journal(facts), expected, "{what}");
    }
}

#[test]
fn the_second_opening_commits_by_a_journal_that_stays_until_the_exit() {
    let (medium, kept) = process();
    let syncs = || SITES.map(|site| medium.syncs(site));
    live(&medium, &kept, &[&[(2, 1)]]);
    assert_eq!(names(&medium), [DATABASE], "one opening may be the only one");
    live(&medium, &kept, &[&[(2, 2), (3, 2)]]);
    assert_eq!(names(&medium), [DATABASE, JOURNAL]);
    let (before, used) = (syncs(), medium.used_bytes());
    for filler in 3..13 {
        live(&medium, &kept, &[&[(2, filler), (4, filler)]]);
    }
    let after = syncs();
    assert_eq!([0, 1, 2, 3].map(|at| after[at] - before[at]), [30, 10, 0, 0], "as many as SQLite makes");
    assert_eq!((medium.used_bytes(), in_file(&medium)), (used, vec![12, 2, 12, 7]));
    let operations = medium.operations();
    live(&medium, &kept, &[]);
    assert_eq!(medium.operations(), operations, "an opening that only reads writes nothing");
    kept.remove_these(&[]);
    assert_eq!(names(&medium), [DATABASE]);
}

#[test]
fn an_opening_that_is_not_short_goes_on_with_the_redo_log() {
    let (medium, kept) = process();
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]]));
    let opening = Opening::of(&medium, &kept);
    opening.commit(&[(2, 2)]);
    opening.commit(&[(3, 2)]);
    assert_eq!(names(&medium), [DATABASE, JOURNAL]);
    opening.commit(&[(4, 2)]);
    assert_eq!(names(&medium), [DATABASE, "/app.db-wal"]);
    opening.close();
    assert_eq!((in_file(&medium), names(&medium)), (vec![2, 2, 2, 7], vec![DATABASE.to_owned()]));
    // Nor is the next one expected to be short, but the one behind it.
    live(&medium, &kept, &[&[(2, 3)]]);
    assert!(!has_journal(&medium));
    live(&medium, &kept, &[&[(2, 4)]]);
    assert!(has_journal(&medium));
}

#[test]
fn a_transaction_grows_the_database_or_goes_another_way() {
    let (medium, kept) = process();
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]]));
    let journal_syncs = || medium.syncs(SyncSite::File(FileKind::Journal));
    let before = journal_syncs();
    live(&medium, &kept, &[&[(5, 8), (6, 8), (7, 8)]]);
    assert_eq!((in_file(&medium), journal_syncs()), (vec![1, 7, 7, 8, 8, 8], before + 3));
    for shrinks in [true, false] {
        live(&medium, &kept, &[&[(2, 1)]]);
        let before = journal_syncs();
        let opening = Opening::of(&medium, &kept);
        let change = |dirty: &mut DirtyPages| match shrinks {
            true => dirty.set_len(&opening.target, 6 * PAGE as u64).unwrap(),
            false => dirty.has_journal = false,
        };
        opening.try_commit(change, &[(2, 9)]).unwrap();
        opening.close();
        assert_eq!((in_file(&medium)[0], journal_syncs(), has_journal(&medium)), (9, before, false));
    }
}

#[test]
fn a_name_that_is_lost_or_taken_is_noticed_by_each_commit() {
    let (medium, kept) = process();
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]]));
    let opening = Opening::of(&medium, &kept);
    medium.rename(Path::new(JOURNAL), Path::new("/else")).unwrap();
    opening.commit(&[(2, 2)]);
    assert!(has_journal(&medium), "another one");
    medium.delete(Path::new(JOURNAL)).unwrap();
    let theirs = medium.open(Path::new(JOURNAL), FileKind::Journal, OpenMode::CreateNew).unwrap();
    theirs.write_at(b"theirs", 0).unwrap();
    opening.commit(&[(2, 3)]);
    opening.close();
    assert_eq!((in_file(&medium)[0], theirs.len().unwrap(), has_journal(&medium)), (3, 6, true));
}

#[test]
fn two_processes_keep_one_journal() {
    let (medium, first) = process();
    let second = KeptLogs::new(Arc::new(medium.clone()));
    for kept in [&first, &second] {
        (0..2).for_each(|_| live(&medium, kept, &[&[(2, 1)]]));
    }
    let directory = medium.syncs(SyncSite::Directory);
    for filler in 2..6 {
        live(&medium, &first, &[&[(2, filler)]]);
        live(&medium, &second, &[&[(3, filler)]]);
    }
    assert_eq!((in_file(&medium), medium.syncs(SyncSite::Directory)), (vec![5, 5, 7, 7], directory));
}

#[test]
fn a_failure_leaves_what_was_committed() {
    for (operation, kind, number, expected) in [
        (Operation::Sync, FileKind::Journal, 0, 1),
        (Operation::Sync, FileKind::Journal, 1, 1),
        (Operation::Write, FileKind::Database, 0, 1),
        (Operation::Sync, FileKind::Database, 0, 1),
        // The journal is hot again for the next open, and until then readers see what is in the file.
        (Operation::Sync, FileKind::Journal, 2, 2),
    ] {
        let (medium, kept) = process();
        (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1), (3, 1)]]));
        let opening = Opening::of(&medium, &kept);
        medium.set_faults(Faults::failing(operation, kind, number));
        assert!(opening.try_commit(|_| (), &[(2, 2), (3, 2)]).is_err(), "{operation} {kind:?} {number}");
        medium.set_faults(Faults::default());
        assert_eq!(in_file(&medium)[..2], [expected; 2], "{operation} {kind:?} {number}");
        assert!(opening.try_commit(|_| (), &[(2, 3)]).is_err(), "the latch is closed");
    }
}

#[test]
fn a_database_that_has_moved_leaves_no_journal_behind() {
    let (medium, kept) = process();
    (0..2).for_each(|_| live(&medium, &kept, &[&[(2, 1)]]));
    medium.rename(Path::new(DATABASE), Path::new("/moved.db")).unwrap();
    kept.remove_these(&[]);
    assert_eq!(names(&medium), ["/moved.db"]);
}
