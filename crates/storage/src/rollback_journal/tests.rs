//! Transactions by a journal that stays, with power cuts, and what SQLite would make of the files.

use super::*;
use crate::file::Operation;
use crate::sim::{Faults, Random, SimMedium, SyncSite};

const PAGE: usize = 1024;
const PAGES: usize = 6;
const DATABASE: &str = "/app.db";
const JOURNAL: &str = "/app.db-journal";
/// Cuts at each operation.
const CUTS: usize = 30;

/// The byte that fills each page.
type State = Vec<u8>;

fn open(medium: &SimMedium, path: &str, mode: OpenMode) -> Arc<dyn File> {
    let kind = if path == DATABASE { FileKind::Database } else { FileKind::Journal };
    medium.open(Path::new(path), kind, mode).unwrap()
}

fn find(medium: &SimMedium) -> Option<RollbackJournal> {
    RollbackJournal::find(medium, Path::new(JOURNAL), Arc::default()).unwrap()
}

fn create(medium: &SimMedium) -> RollbackJournal {
    RollbackJournal::create(medium, Path::new(JOURNAL), Arc::default()).unwrap()
}

fn database(medium: &SimMedium) -> Arc<dyn File> {
    let file = open(medium, DATABASE, OpenMode::Create);
    file.write_at(&[7; PAGES * PAGE], 0).unwrap();
    file.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    file
}

/// The pages as they are.
fn before(file: &dyn File, pages: &[(u32, u8)]) -> Vec<(u32, Vec<u8>)> {
    let page = |number: u32| {
        let mut page = vec![0; PAGE];
        file.read_at(&mut page, u64::from(number - 1) * PAGE as u64).unwrap();
        page
    };
    pages.iter().map(|(number, _)| (*number, page(*number))).collect()
}

/// A transaction, by the order that a commit has.
fn commit(medium: &SimMedium, journal: &mut RollbackJournal, pages: &[(u32, u8)]) {
    let file = open(medium, DATABASE, OpenMode::ReadWrite);
    let old = before(&*file, pages);
    let before = Before { page_bytes: PAGE, database_pages: PAGES as u32, pages: &old };
    journal.begin(medium, &before).unwrap();
    for (number, byte) in pages {
        file.write_at(&[*byte; PAGE], u64::from(number - 1) * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    journal.end().unwrap();
}

/// Rolls a hot journal back as SQLite does (`pager_playback`), and answers how many records counted.
fn roll_back(medium: &SimMedium) -> usize {
    let Ok(journal) = medium.open(Path::new(JOURNAL), FileKind::Journal, OpenMode::ReadOnly) else {
        return 0;
    };
    let mut bytes = vec![0; journal.len().unwrap() as usize];
    journal.read_at(&mut bytes, 0).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let file = open(medium, DATABASE, OpenMode::ReadWrite);
    let (mut at, mut counted) = (0, 0);
    while bytes.len() >= at + SECTOR_BYTES && bytes[at..].starts_with(&MAGIC) {
        let (records, nonce) = (number(at + 8), number(at + 12));
        assert_eq!((number(at + 20), number(at + 24)), (SECTOR_BYTES as u32, PAGE as u32));
        file.set_len(u64::from(number(at + 16)) * PAGE as u64).unwrap();
        at += SECTOR_BYTES;
        for _ in 0..records {
            if at + PAGE + RECORD_BYTES > bytes.len() {
                return counted;
            }
            let page = &bytes[at + 4..at + 4 + PAGE];
            let mut sum = nonce;
            let mut sampled = PAGE as i64 - 200;
            while sampled > 0 {
                sum = sum.wrapping_add(u32::from(page[sampled as usize]));
                sampled -= 200;
            }
            if sum != number(at + 4 + PAGE) {
                return counted;
            }
            file.write_at(page, u64::from(number(at) - 1) * PAGE as u64).unwrap();
            counted += 1;
            at += PAGE + RECORD_BYTES;
        }
        at = at.next_multiple_of(SECTOR_BYTES);
    }
    counted
}

/// The state that any SQLite finds; `None` where a page is torn.
fn found(medium: &SimMedium) -> Option<State> {
    roll_back(medium);
    let file = medium.open(Path::new(DATABASE), FileKind::Database, OpenMode::ReadWrite).ok()?;
    let mut bytes = vec![0; PAGES * PAGE];
    (file.read_at(&mut bytes, 0).unwrap() == bytes.len()).then_some(())?;
    bytes.chunks(PAGE).map(|page| page.iter().all(|byte| *byte == page[0]).then_some(page[0])).collect()
}

/// Transactions of several lengths, in openings of several processes; after each the operation and the state.
fn history(medium: &SimMedium) -> Vec<(usize, State)> {
    database(medium);
    let mut state = vec![7; PAGES];
    let mut history = vec![(medium.operations(), state.clone())];
    let all: Vec<(u32, u8)> = (1..=PAGES as u32).map(|number| (number, 10)).collect();
    let transactions: [&[(u32, u8)]; 7] = [
        &[(2, 1), (3, 1)],
        &all,
        &[(2, 2)],
        // The same pages, at the same place of the journal: a torn record is one of before.
        &[(2, 3)],
        &[(1, 4), (2, 4), (5, 4)],
        &[(1, 5), (2, 5), (5, 5)],
        &[(6, 6)],
    ];
    for pages in transactions {
        let mut journal = find(medium).unwrap_or_else(|| create(medium));
        commit(medium, &mut journal, pages);
        pages.iter().for_each(|(number, byte)| state[*number as usize - 1] = *byte);
        history.push((medium.operations(), state.clone()));
    }
    history
}

/// Cuts at every operation; answers the first failure.
fn cut_with(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    for (point, image) in medium.cuts(history[0].0..=medium.operations(), CUTS, &mut Random::new(5)) {
        let acknowledged = history.iter().rposition(|(at, _)| *at <= point).unwrap();
        let allowed = &history[acknowledged..(acknowledged + 2).min(history.len())];
        let found = found(&image);
        if !allowed.iter().any(|(_, state)| Some(state) == found.as_ref()) {
            return Some(format!("cut {point}: found {found:?}, allowed {allowed:?}"));
        }
    }
    None
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    assert_eq!(cut_with(Faults::default()), None);
}

#[test]
fn each_sync_that_is_left_out_is_missed() {
    let medium = SimMedium::new();
    history(&medium);
    let sites = [SyncSite::File(FileKind::Journal), SyncSite::File(FileKind::Database)];
    let mut needless = Vec::new();
    for site in sites {
        for number in 0..medium.syncs(site) {
            if cut_with(Faults::ignoring(site, Some(number))).is_none() {
                needless.push((site, number));
            }
        }
    }
    // The first is that of the database's own name.
    if cut_with(Faults::ignoring(SyncSite::Directory, Some(1))).is_none() {
        needless.push((SyncSite::Directory, 1));
    }
    assert_eq!(needless, []);
    assert_eq!(medium.syncs(SyncSite::Directory), 2);
}

#[test]
fn a_transaction_is_four_syncs_and_begins_in_space_that_was_written_before() {
    let medium = SimMedium::new();
    database(&medium);
    let mut journal = create(&medium);
    commit(&medium, &mut journal, &[(2, 1), (3, 1)]);
    let sites = [SyncSite::File(FileKind::Journal), SyncSite::File(FileKind::Database), SyncSite::Directory];
    let syncs = || sites.map(|site| medium.syncs(site));
    let (before, used) = (syncs(), medium.used_bytes());
    let mut journal = find(&medium).unwrap();
    commit(&medium, &mut journal, &[(4, 2), (5, 2)]);
    assert_eq!([0, 1, 2].map(|at| syncs()[at] - before[at]), [3, 1, 0]);
    assert_eq!(medium.used_bytes(), used);
    // A full medium takes what needs no more space than before.
    medium.set_faults(Faults::full_at(used));
    commit(&medium, &mut journal, &[(4, 3)]);
    let old = before_all(&medium);
    let all = Before { page_bytes: PAGE, database_pages: PAGES as u32, pages: &old };
    assert!(journal.begin(&medium, &all).is_err(), "more pages than ever");
    medium.set_faults(Faults::default());
    journal.begin(&medium, &all).unwrap();
}

fn before_all(medium: &SimMedium) -> Vec<(u32, Vec<u8>)> {
    let numbers: Vec<(u32, u8)> = (1..=PAGES as u32).map(|number| (number, 0)).collect();
    before(&*open(medium, DATABASE, OpenMode::ReadWrite), &numbers)
}

#[test]
fn only_a_journal_that_is_marked_and_void_is_found() {
    let medium = SimMedium::new();
    database(&medium);
    let file_is_found = |change: &dyn Fn(&dyn File)| {
        if medium.info(Path::new(JOURNAL)).unwrap().is_some() {
            medium.delete(Path::new(JOURNAL)).unwrap();
        }
        commit(&medium, &mut create(&medium), &[(2, 1)]);
        change(&*open(&medium, JOURNAL, OpenMode::ReadWrite));
        find(&medium).is_some()
    };
    assert!(file_is_found(&|_| ()));
    assert!(file_is_found(&|file| file.write_at(&[1], 600).unwrap()), "records do not count");
    for (what, expected) in [
        ("a header", MAGIC.to_vec()),
        ("zeros, as SQLite voids it", vec![0; SECTOR_BYTES]),
        ("the header that SQLite writes", [&MAGIC[..], &[0; 100]].concat()),
    ] {
        assert!(!file_is_found(&|file| file.write_at(&expected, 0).unwrap()), "{what}");
    }
    assert!(!file_is_found(&|file| file.set_len(100).unwrap()));
    assert!(!file_is_found(&|_| {
        let (journal, copy) = (Path::new(JOURNAL), Path::new("/copy"));
        let mut bytes = vec![0; SECTOR_BYTES];
        open(&medium, JOURNAL, OpenMode::ReadWrite).read_at(&mut bytes, 0).unwrap();
        let file = medium.open(copy, FileKind::Journal, OpenMode::CreateNew).unwrap();
        file.write_at(&bytes, 0).unwrap();
        medium.rename(copy, journal).unwrap();
    }));
    medium.rename(Path::new(JOURNAL), Path::new("/moved-journal")).unwrap();
    let moved = RollbackJournal::find(&medium, Path::new("/moved-journal"), Arc::default());
    assert!(moved.unwrap().is_none(), "its new name may not be durable");
}

#[test]
fn nothing_counts_behind_the_last_record() {
    let medium = SimMedium::new();
    let file = database(&medium);
    let mut journal = create(&medium);
    // Pages that look like journals with a record of their own.
    let mut trap = [0; PAGE];
    trap[..MAGIC.len()].copy_from_slice(&MAGIC);
    for number in 1..=PAGES as u64 {
        file.write_at(&trap, (number - 1) * PAGE as u64).unwrap();
    }
    let old = before_all(&medium);
    for count in (1..=PAGES).rev() {
        let before = Before { page_bytes: PAGE, database_pages: PAGES as u32, pages: &old[..count] };
        journal.begin(&medium, &before).unwrap();
        assert_eq!(roll_back(&medium), count);
        let bytes = medium.files().into_iter().find(|(path, ..)| path == Path::new(JOURNAL)).unwrap().2;
        assert_eq!(bytes[bytes.len() - SECTOR_BYTES..], [0; SECTOR_BYTES]);
        journal.end().unwrap();
        assert_eq!(roll_back(&medium), 0);
    }
}

#[test]
fn a_transaction_whose_end_fails_is_rolled_back_by_the_next_open() {
    let medium = SimMedium::new();
    let file = database(&medium);
    let mut journal = create(&medium);
    commit(&medium, &mut journal, &[(2, 1)]);
    let old = before(&*file, &[(2, 0)]);
    journal.begin(&medium, &Before { page_bytes: PAGE, database_pages: PAGES as u32, pages: &old }).unwrap();
    file.write_at(&[9; PAGE], PAGE as u64).unwrap();
    file.sync().unwrap();
    medium.set_faults(Faults::failing(Operation::Sync, FileKind::Journal, 0));
    assert!(journal.end().is_err());
    medium.set_faults(Faults::default());
    assert!(journal.begin(&medium, &Before { page_bytes: PAGE, database_pages: 1, pages: &[] }).is_err());
    assert_eq!(found(&medium).unwrap()[1], 1);
}

#[test]
fn the_checksum_is_that_of_sqlite() {
    // pager_cksum: bytes 312 and 112 of 512, never byte 0.
    let mut page = vec![0; 600];
    (page[0], page[112], page[200], page[312], page[400]) = (100, 1, 2, 4, 8);
    assert_eq!(checksum(5, &page[..512]), 5 + 1 + 4);
    assert_eq!(checksum(u32::MAX, &page), 8 + 2 - 1);
}

#[test]
fn a_journal_that_stays_is_small() {
    assert!(may_stay(0, 512) && may_stay(15, 4096) && may_stay(3, 65536));
    assert!(!may_stay(64, 4096) && !may_stay(4, 65536));
}
