use super::*;
use crate::sync::unwritten_pages::UnwrittenPages;
use litefoot_sim::{Random, SimMedium};
use std::collections::BTreeSet;
use std::path::Path;

const MOST: usize = 1 << 20;
const PATH: &str = "/a.db";

#[test]
fn what_is_written_is_known_up_to_a_limit() {
    let mut written = Written::default();
    written.note(FileOf::Main, &[1; 512], 512, MOST);
    written.note(FileOf::Main, &[2; 512], 512, MOST);
    written.note(FileOf::Main, &[3; 512], 1024, MOST);
    written.note_len(FileOf::Main, 1024);
    assert_eq!(written.database.iter().map(|(at, page)| (*at, page[0])).collect::<Vec<_>>(), [(512, 2)]);
    written.journal = Some(HeldJournal::new(0, MOST));
    written.note(FileOf::Journal, b"header", 0, MOST);
    written.note(FileOf::Journal, b"H", 0, MOST);
    written.note_len(FileOf::Journal, 4);
    assert_eq!(written.journal.as_ref().unwrap().bytes, b"Head");
    written.end();
    let journal = written.journal.as_ref().unwrap();
    assert!(
        written.database.is_empty() && journal.bytes.is_empty(),
        "it may stay open, and be another one's"
    );
    for (what, note) in [
        ("a journal that was there", (FileOf::Journal, 512, 0)),
        ("another length at the same place", (FileOf::Wal, 24, 32)),
        ("too much", (FileOf::Wal, MOST + 1, 0)),
    ] {
        let mut written = Written::default();
        written.note(FileOf::Wal, &[1; 512], 32, MOST);
        written.note(note.0, &vec![1; note.1], note.2, MOST);
        assert!(written.is_too_large && written.log.is_empty(), "{what}");
        written.note(FileOf::Wal, &[1; 512], 32, MOST);
        assert!(written.is_too_large && written.log.is_empty(), "{what}");
        written.end();
        assert!(!written.is_too_large, "{what}");
    }
}

/// Own files on a medium, with a lock on the database.
fn own_files(medium: &SimMedium, level: Level, has_log: bool) -> OwnFiles {
    let open = |path: &str, kind| medium.open(Path::new(path), kind, OpenMode::Create).unwrap();
    let database = open(PATH, FileKind::Database);
    let mut locked = Level::None;
    for to in [Level::Shared, Level::Reserved, Level::Exclusive] {
        let before = locked;
        raise(&mut locked, &*database, before, to.min(level)).unwrap();
    }
    let owner = UnwrittenPages::new().unwrap();
    OwnFiles {
        medium: Arc::new(medium.clone()),
        path: PATH.into(),
        database,
        level,
        log: has_log.then(|| open("/a.db-wal", FileKind::RedoLog)),
        journal: None,
        is_journal_replayed: false,
        are_names_durable: false,
        former: FormerOwner::of_test(&owner),
    }
}

/// What a file may be behind a power cut.
fn behind_cuts(medium: &SimMedium, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    let found = |seed| {
        let medium = medium.cut(&mut Random::new(seed));
        let path = Path::new(path);
        medium.identity(path).unwrap()?;
        let file = medium.open(path, FileKind::Database, OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        Some(bytes)
    };
    (0..64).map(found).collect()
}

fn only(bytes: &[u8]) -> BTreeSet<Option<Vec<u8>>> {
    BTreeSet::from([Some(bytes.to_vec())])
}

#[test]
fn power_cuts_a_commit_is_durable_with_the_sync_of_its_log() {
    let medium = SimMedium::new();
    let mut own = own_files(&medium, Level::Shared, true);
    own.write(FileOf::Wal, b"frames", 0).unwrap();
    assert!(behind_cuts(&medium, "/a.db-wal").contains(&None), "SQLite has not synced it");
    own.sync(FileOf::Wal).unwrap();
    assert_eq!(behind_cuts(&medium, "/a.db-wal"), only(b"frames"));
}

#[test]
fn power_cuts_a_log_that_was_deleted_does_not_come_back_behind_a_checkpoint() {
    let medium = SimMedium::new();
    let log = Path::new("/a.db-wal");
    let old = medium.open(log, FileKind::RedoLog, OpenMode::Create).unwrap();
    old.write_at(b"old frames", 0).unwrap();
    old.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    // As the close of a last connection leaves it (`open/ownership`).
    medium.delete(log).unwrap();
    let mut own = own_files(&medium, Level::Shared, true);
    let comes_back = || behind_cuts(&medium, "/a.db-wal").contains(&Some(b"old frames".to_vec()));
    assert!(comes_back());
    own.write(FileOf::Main, b"newer page", 0).unwrap();
    assert!(!comes_back());
}

#[test]
fn power_cuts_a_journal_is_durable_before_its_pages() {
    let medium = SimMedium::new();
    let mut own = own_files(&medium, Level::Exclusive, false);
    own.open_journal(SQLITE_OPEN_CREATE).unwrap();
    own.write(FileOf::Journal, b"pages before", 0).unwrap();
    own.sync(FileOf::Journal).unwrap();
    assert_eq!(behind_cuts(&medium, "/a.db-journal"), only(b"pages before"));
    own.write(FileOf::Main, b"pages", 0).unwrap();
    own.sync(FileOf::Main).unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    assert_eq!(behind_cuts(&medium, PATH), only(b"pages"));
    for _ in 0..2 {
        // The dead owner may have deleted it.
        own.delete(FileOf::Journal, true).unwrap();
        assert_eq!(behind_cuts(&medium, "/a.db-journal"), BTreeSet::from([None]));
    }
    assert!(!own.is_there(FileOf::Journal).unwrap() && own.delete(FileOf::Main, false).is_err());
    own.unlock(Level::None).unwrap();
}

/// The dead owner had synced it, and has perhaps not: another one's may have been there since.
#[test]
fn power_cuts_a_journal_that_is_written_once_more_is_durable_before_the_next_page() {
    let medium = SimMedium::new();
    let mut own = own_files(&medium, Level::Exclusive, false);
    own.open_journal(SQLITE_OPEN_CREATE).unwrap();
    own.write(FileOf::Journal, b"pages before", 0).unwrap();
    own.is_journal_replayed = true;
    assert!(behind_cuts(&medium, "/a.db-journal").contains(&None));
    own.write(FileOf::Main, b"pages", 0).unwrap();
    assert_eq!(behind_cuts(&medium, "/a.db-journal"), only(b"pages before"));
}

#[test]
fn a_lock_waits_for_what_the_dead_owner_has_left() {
    let medium = SimMedium::new();
    let mut own = own_files(&medium, Level::Shared, false);
    let left = medium.open(Path::new(PATH), FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert!(raise(&mut Level::None, &*left, Level::None, Level::Reserved).is_ok());
    std::thread::scope(|scope| {
        let locked = scope.spawn(|| own.lock(Level::Reserved));
        std::thread::sleep(Duration::from_millis(20));
        drop(left);
        let locked = locked.join().unwrap();
        assert!(locked.is_ok(), "{locked:?}");
    });
    own.unlock(Level::Shared).unwrap();
    let other = medium.open(Path::new(PATH), FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert!(raise(&mut Level::None, &*other, Level::None, Level::Reserved).is_ok());
    assert!(matches!(own.lock(Level::Reserved), Err(Error::Busy)), "a stranger has it");
}
