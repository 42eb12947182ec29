use super::*;
use crate::options::PageCleaner;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 512;

pub(super) fn data() -> Arc<dyn File> {
    SimMedium::new().open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap()
}

/// A log, with what there is already.
fn frames_of(bytes: &[u8]) -> WalFrames {
    let store = crate::txn::wal_bytes::tests::store(1 << 20);
    let policy = SpillPolicy::new(PageCleaner::Auto, 800);
    WalFrames::load(store, SqliteCacheReservation::uncounted(), policy, bytes, &*data()).unwrap()
}

pub(super) fn frames() -> WalFrames {
    frames_of(&[])
}

pub(in crate::txn) fn header() -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    header
}

pub(in crate::txn) fn offset(number: usize) -> usize {
    HEADER_BYTES + number * (FRAME_HEADER_BYTES + PAGE)
}

pub(in crate::txn) fn write_frame(frames: &mut WalFrames, number: usize, page: u32, size: u32) -> WalWritten {
    write_filled(frames, number, page, size, page as u8)
}

/// Writes a frame whose page is full of `byte`.
pub(super) fn write_filled(
    frames: &mut WalFrames,
    number: usize,
    page: u32,
    size: u32,
    byte: u8,
) -> WalWritten {
    let mut header = vec![0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&page.to_be_bytes());
    header[4..8].copy_from_slice(&size.to_be_bytes());
    assert_eq!(frames.write(&header, offset(number), &*data()).unwrap(), WalWritten::Part);
    frames.write(&[byte; PAGE], offset(number) + FRAME_HEADER_BYTES, &*data()).unwrap()
}

/// A VFS above that simulates a power cut writes such bytes; a page of that size takes gigabytes.
#[test]
fn a_header_with_an_impossible_page_size_takes_no_frames() {
    for bytes in [0x7000_0000_u32, 513, 256, 0] {
        let mut frames = frames();
        let mut sector = vec![7; 4096];
        sector[8..12].copy_from_slice(&bytes.to_be_bytes());
        assert!(frames.write(&sector, 0, &*data()).is_err(), "{bytes}");
        assert_eq!((frames.page_bytes(), frames.memory_bytes()), (0, 0), "{bytes}");
    }
}

/// A checkpoint that knows of the second transaction only would write the page of the first.
#[test]
fn a_page_that_was_cut_off_and_belongs_to_the_database_again_is_not_new() {
    let mut frames = frames();
    frames.write(&header(), 0, &*data()).unwrap();
    write_frame(&mut frames, 0, 9, 0);
    write_frame(&mut frames, 1, 1, 5);
    write_frame(&mut frames, 2, 1, 20);
    frames.find_new(5 * PAGE as u64);
    assert_eq!([5, 6, 9, 10].map(|number| frames.spill.is_new(number)), [false, true, false, true]);
}

/// Statements written in between would build upon slots that are not there yet.
#[test]
fn a_transaction_has_spilled_pages_as_long_as_its_slots_are_not_logged() {
    let mut frames = frames();
    frames.write(&header(), 0, &*data()).unwrap();
    write_frame(&mut frames, 0, 2, 0);
    write_frame(&mut frames, 1, 3, 0);
    let header = Header::first(PAGE as u32, None);
    let slots = litefoot_storage::wal_file::ReservedSlots { file: data(), offset: 56, header };
    frames.give_slots(&[2, 3], slots);
    // One comes back, and the other is given up.
    let last = write_frame(&mut frames, 1, 2, 5);
    let WalWritten::Commit(transaction) = last else { panic!("no commit") };
    assert!(frames.has_spilled_pages(transaction) && !frames.spill.has_idle_slots());
    assert_eq!(frames.frames_needed(transaction), 2 + 2 + 1);
    frames.slots_logged();
    assert!(!frames.has_spilled_pages(transaction));
    assert_eq!(frames.given_up, [3].into());
    frames.reset();
    assert!(frames.given_up.is_empty());
}

fn page(frames: &WalFrames, number: usize) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    frames.copy_page(number, &mut page, &*data()).unwrap();
    page
}

#[test]
fn transactions_end_where_the_size_is_given() {
    let mut frames = frames();
    assert_eq!(frames.write(&header(), 0, &*data()).unwrap(), WalWritten::Restart);
    assert_eq!(write_frame(&mut frames, 0, 3, 0), WalWritten::Part);
    assert_eq!(write_frame(&mut frames, 1, 4, 9), WalWritten::Commit(Transaction { first: 0, end: 2 }));
    assert_eq!((frames.newest(0), frames.database_pages()), ([(3, 0), (4, 1)].into(), 9));
    // Rolled back: two frames that the next transaction overwrites.
    assert_eq!(write_frame(&mut frames, 2, 5, 0), WalWritten::Part);
    assert_eq!(write_frame(&mut frames, 3, 6, 0), WalWritten::Part);
    assert_eq!(write_frame(&mut frames, 2, 7, 10), WalWritten::Commit(Transaction { first: 2, end: 3 }));
    assert_eq!((frames.newest(2), frames.database_pages()), ([(7, 2)].into(), 10));
    assert_eq!(page(&frames, 2), [7; PAGE]);
    let mut bytes = vec![0; offset(3)];
    frames.read(&mut bytes, 0, &*data()).unwrap();
    let loaded = frames_of(&bytes);
    assert_eq!((loaded.committed(), loaded.newest(0)), (3, [(3, 0), (4, 1), (7, 2)].into()));
}

#[test]
fn a_page_rewritten_within_its_transaction_counts_once() {
    let mut frames = frames();
    frames.write(&header(), 0, &*data()).unwrap();
    write_frame(&mut frames, 0, 3, 0);
    // SQLite overwrites the page of a frame that it has spilled, without its header ...
    frames.write(&[42; PAGE], HEADER_BYTES + FRAME_HEADER_BYTES, &*data()).unwrap();
    assert_eq!(write_frame(&mut frames, 1, 4, 5), WalWritten::Commit(Transaction { first: 0, end: 2 }));
    // ... and repairs the checksums in the headers afterwards.
    for number in 0..2 {
        assert_eq!(
            frames.write(&[0; FRAME_HEADER_BYTES], offset(number), &*data()).unwrap(),
            WalWritten::Part
        );
    }
    assert_eq!(frames.newest(0), [(3, 0), (4, 1)].into());
    assert_eq!(page(&frames, 0), [42; PAGE]);
}

#[test]
fn checksums_that_sqlite_got_wrong_are_rebuilt() {
    let mut frames = frames();
    let first = Header::first(PAGE as u32, None);
    let (head, checksum) = first.encode();
    frames.write(&head, 0, &*data()).unwrap();
    write_frame(&mut frames, 0, 3, 0);
    write_frame(&mut frames, 1, 4, 9);
    frames.rebuild_checksums(&*data()).unwrap();
    let mut checksum = checksum;
    for (number, expected) in [(3, 0), (4, 9)].into_iter().enumerate() {
        let mut bytes = vec![0; FRAME_HEADER_BYTES + PAGE];
        frames.read(&mut bytes, offset(number), &*data()).unwrap();
        let (page, size, next) = first.decode_frame(checksum, &bytes).unwrap();
        assert_eq!((page, size), expected);
        checksum = next;
    }
}

#[test]
fn a_revoked_commit_gives_its_frames_back_and_one_that_was_not_is_noticed() {
    let mut frames = frames();
    frames.write(&header(), 0, &*data()).unwrap();
    let WalWritten::Commit(first) = write_frame(&mut frames, 0, 3, 5) else { panic!("no commit") };
    frames.revoke(first);
    assert_eq!(write_frame(&mut frames, 0, 8, 6), WalWritten::Commit(first));
    assert_eq!(frames.newest(0), [(8, 0)].into());
    assert_eq!(write_frame(&mut frames, 0, 9, 6), WalWritten::TakenBack);
}

#[derive(Clone, Debug)]
enum LogStep {
    /// A transaction of these pages.
    Commit(Vec<u32>),
    /// One that is rolled back.
    RollBack(Vec<u32>),
    /// The last transaction could not be made durable.
    Revoke,
    Restart,
    /// The log is opened again.
    Load,
}

fn log_steps() -> impl Strategy<Value = Vec<LogStep>> {
    let pages = || prop::collection::vec(1..9_u32, 1..6);
    let step = prop_oneof![
        6 => pages().prop_map(LogStep::Commit),
        2 => pages().prop_map(LogStep::RollBack),
        2 => Just(LogStep::Revoke),
        1 => Just(LogStep::Restart),
        1 => Just(LogStep::Load),
    ];
    prop::collection::vec(step, 1..30)
}

proptest! {
    #[test]
    fn each_version_of_a_page_is_found(steps in log_steps()) {
        let mut frames = frames();
        frames.write(&header(), 0, &*data()).unwrap();
        let (mut plain, mut last): (Vec<u32>, Option<Transaction>) = (Vec::new(), None);
        for step in steps {
            match step {
                LogStep::Commit(pages) => {
                    let (first, end) = (plain.len(), plain.len() + pages.len());
                    for (index, page) in pages.iter().enumerate() {
                        write_frame(&mut frames, first + index, *page, if first + index + 1 == end { 9 } else { 0 });
                    }
                    plain.extend(pages);
                    last = Some(Transaction { first, end });
                }
                LogStep::RollBack(pages) => {
                    for (index, page) in pages.iter().enumerate() {
                        write_frame(&mut frames, plain.len() + index, *page, 0);
                    }
                }
                LogStep::Revoke => {
                    if let Some(transaction) = last.take() {
                        frames.revoke(transaction);
                        plain.truncate(transaction.first);
                    }
                }
                LogStep::Restart => {
                    frames.write(&header(), 0, &*data()).unwrap();
                    (plain, last) = (Vec::new(), None);
                }
                LogStep::Load => {
                    let mut bytes = vec![0; offset(plain.len())];
                    frames.read(&mut bytes, 0, &*data()).unwrap();
                    frames = frames_of(&bytes);
                    last = None;
                }
            }
            prop_assert_eq!(frames.committed(), plain.len());
            for first in 0..=plain.len() {
                let newest = plain.iter().enumerate().skip(first).map(|(frame, page)| (*page, frame)).collect();
                prop_assert_eq!(frames.newest(first), newest);
                let end = (first + 5).min(plain.len());
                let newest = (first..end).map(|frame| (plain[frame], frame)).collect();
                prop_assert_eq!(frames.newest_until(first, end), newest);
                for page in 0..10 {
                    let before = plain[..first].iter().rposition(|other| *other == page);
                    prop_assert_eq!(frames.newest_before(page, first), before);
                    if let Some(frame) = before {
                        prop_assert_eq!(frames.page_in_memory(frame), Some(&[page as u8; PAGE][..]));
                    }
                }
            }
        }
    }
}
