use super::*;
use crate::db::companions::has_real_journal;
use litefoot_sim::{Random, SimMedium};
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;

const JOURNAL: &str = "/app.db-journal";

fn database() -> (SimMedium, Db) {
    let medium = SimMedium::new();
    let db = Db::of_test_on(&medium, &[0; 512]);
    medium.sync_directory(Path::new("/")).unwrap();
    db.shared().set_multi_process(true);
    (medium, db)
}

/// A journal with a transaction, whose name is durable.
fn journal_of(db: &Db) -> Arc<dyn File> {
    let file = db.medium().open(Path::new(JOURNAL), FileKind::Journal, OpenMode::Create).unwrap();
    file.write_at(&transaction(1, 512), 0).unwrap();
    file.sync().unwrap();
    if !db.durable_names().has(Companion::Journal, &*file) {
        db.medium().sync_directory(Path::new("/")).unwrap();
        db.durable_names().note(Companion::Journal, &file);
    }
    file
}

/// The journals that may be there after a power cut.
fn after_cuts(medium: &SimMedium) -> Vec<Option<Vec<u8>>> {
    let mut random = Random::new(4);
    let content = |image: SimMedium| {
        let mut files = image.files().into_iter();
        files.find(|(path, ..)| path == Path::new(JOURNAL)).map(|(.., bytes)| bytes)
    };
    let mut found: Vec<_> = (0..40).map(|_| content(medium.cut(&mut random))).collect();
    found.sort();
    found.dedup();
    found
}

/// A journal's first bytes where its header is, and everything behind it.
fn transaction(header: u8, bytes: usize) -> Vec<u8> {
    [vec![header; HEADER_BYTES], vec![7; bytes - HEADER_BYTES]].concat()
}

#[test]
fn a_journal_that_has_ended_is_void_for_good_and_its_name_stays() {
    let (medium, db) = database();
    for _ in 0..3 {
        let journal = journal_of(&db);
        assert_eq!(after_cuts(&medium), [Some(transaction(1, 512))]);
        assert!(has_real_journal(&db).unwrap() && !db.durable_names().is_void_journal(journal.id()).unwrap());
        assert_eq!(end_journal(&db).unwrap(), JournalEnd::Ended);
        assert_eq!(after_cuts(&medium), [Some(transaction(0, 512))]);
        assert!(!has_real_journal(&db).unwrap() && db.durable_names().is_void_journal(journal.id()).unwrap());
        assert!(!db.durable_names().is_void_journal(db.file().id()).unwrap(), "another file");
    }
    // Without the sync the transaction could come back.
    let journal = journal_of(&db);
    journal.write_at(&[0; HEADER_BYTES], 0).unwrap();
    assert!(after_cuts(&medium).contains(&Some(transaction(1, 512))));
}

#[test]
fn a_journal_is_emptied_that_is_large_or_names_a_super_journal() {
    let (medium, db) = database();
    let journal = journal_of(&db);
    let most = MOST_BYTES as u64;
    let ends = [
        (most, None, most),
        (most + 1, None, 0),
        (512, Some(MAGIC), 0),
        (HEADER_BYTES as u64 - 1, None, 0),
        (0, None, 0),
    ];
    for (len, name, expected) in ends {
        journal.set_len(len).unwrap();
        if let Some(name) = name {
            journal.write_at(&name, len - name.len() as u64).unwrap();
        }
        journal.sync().unwrap();
        assert_eq!(end_journal(&db).unwrap(), JournalEnd::Ended);
        assert_eq!(journal.len().unwrap(), expected, "{len} bytes");
        let lens = after_cuts(&medium).into_iter().map(|found| found.unwrap().len() as u64);
        assert_eq!(lens.collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_journal_of_another_process_is_deleted() {
    let (medium, db) = database();
    assert_eq!(end_journal(&db).unwrap(), JournalEnd::Delete, "nothing is known");
    let ours = journal_of(&db);
    // Another process has ended its transaction, and has begun the next one.
    medium.delete(Path::new(JOURNAL)).unwrap();
    let theirs = medium.open(Path::new(JOURNAL), FileKind::Journal, OpenMode::Create).unwrap();
    theirs.write_at(b"theirs", 0).unwrap();
    assert!(theirs.id() != ours.id() && !db.durable_names().has(Companion::Journal, &*theirs));
    assert_eq!(end_journal(&db).unwrap(), JournalEnd::Delete);
    assert_eq!(theirs.len().unwrap(), 6);
    db.durable_names().forget();
    assert!(!db.durable_names().has(Companion::Journal, &*ours));
}

#[test]
fn a_journal_that_nobody_has_synced_needs_no_sync_of_its_end() {
    let (medium, db) = database();
    let file = medium.open(Path::new(JOURNAL), FileKind::Journal, OpenMode::Create).unwrap();
    let names = db.durable_names();
    for (unsynced, expected) in [
        (Some(file.id()), JournalEnd::DeleteUnsynced),
        (None, JournalEnd::Delete),
        (Some(db.file().id()), JournalEnd::Delete),
    ] {
        names.note_unsynced_journal(unsynced);
        assert_eq!(end_journal(&db).unwrap(), expected);
        assert_eq!(end_journal(&db).unwrap(), JournalEnd::Delete, "it is known of one deletion");
    }
}

#[test]
fn only_a_void_journal_is_removed() {
    let (medium, db) = database();
    let is_there = || medium.info(Path::new(JOURNAL)).unwrap().is_some();
    remove_void_journal(&db).unwrap();
    for end in [|journal: &dyn File| journal.set_len(0), |journal: &dyn File| journal.write_at(&[0; 8], 0)] {
        let journal = journal_of(&db);
        remove_void_journal(&db).unwrap();
        assert!(is_there());
        end(&*journal).unwrap();
        remove_void_journal(&db).unwrap();
        assert!(!is_there());
        db.durable_names().forget();
    }
}

#[test]
fn nothing_is_written_behind_a_closed_latch() {
    let (_medium, db) = database();
    let journal = journal_of(&db);
    db.latch().close("on purpose");
    assert!(end_journal(&db).is_err() && !is_void(&*journal).unwrap());
}
