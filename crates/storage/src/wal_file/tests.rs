use super::append::PAGES_PER_WRITE;
use super::origin::DataFile;
use super::*;
use crate::file::FileKind;
use crate::file::Operation;
use crate::sim::SimMedium;
use crate::sim::{Faults, Random, SyncSite};
use proptest::prelude::*;

pub(super) const PAGE: usize = 512;

pub(super) fn open(medium: &SimMedium) -> RedoLog {
    RedoLog::open(Arc::new(medium.clone()), Path::new("/a-wal"), Arc::new(SyncLatch::new())).unwrap()
}

/// The log as somebody else finds it while it is in use.
pub(super) fn look(medium: &SimMedium) -> RedoLog {
    RedoLog::look(Arc::new(medium.clone()), Path::new("/a-wal"), None).unwrap()
}

/// One page whose content tells its number and version.
pub(super) fn page(number: u32, version: u32) -> Vec<u8> {
    let mut page = vec![number as u8; PAGE];
    page[..4].copy_from_slice(&version.to_be_bytes());
    page
}

pub(crate) fn append(log: &mut RedoLog, numbers: &[u32], version: u32, durability: Durability) -> Result<()> {
    with_pages(numbers, version, |transaction, copy| log.append(transaction, copy, durability))
}

/// Has `append` append these pages in that version.
pub(super) fn with_pages(
    numbers: &[u32],
    version: u32,
    append: impl FnOnce(&Transaction<'_>, &mut dyn FnMut(usize, &mut [u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let transaction = Transaction {
        slots: &[],
        early: &[],
        page_numbers: numbers,
        page_bytes: PAGE as u32,
        database_pages: 100 + version,
    };
    let mut copy = |index: usize, out: &mut [u8]| {
        out.copy_from_slice(&page(numbers[index], version));
        Ok(())
    };
    append(&transaction, &mut copy)
}

pub(crate) fn version_of(log: &RedoLog, number: u32) -> Option<u32> {
    let mut bytes = vec![0; PAGE];
    log.read_page(number, 0, &mut bytes).unwrap().then(|| {
        let version = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(bytes, page(number, version));
        version
    })
}

#[test]
fn an_append_can_be_foretold() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[3], 1, Durability::Durable).unwrap();
    let numbers: Vec<u32> = (1..=600).collect();
    let transaction = Transaction {
        slots: &[],
        early: &[],
        page_numbers: &numbers,
        page_bytes: PAGE as u32,
        database_pages: 102,
    };
    let mut copy = |index: usize, out: &mut [u8]| {
        out.copy_from_slice(&page(numbers[index], 2));
        Ok(())
    };
    let (frames, checksum) = log.predict(&transaction, &mut copy).unwrap();
    assert_eq!((log.frames(), log.checksum_after(frames).unwrap()), (1, None));
    append(&mut log, &numbers, 2, Durability::Durable).unwrap();
    for log in [&log, &look(&medium)] {
        assert_eq!((log.frames(), log.checksum_after(frames).unwrap()), (frames, Some(checksum)));
    }
}

#[test]
fn what_was_appended_is_there_after_reopening() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    assert!(medium.info(Path::new("/a-wal")).unwrap().is_none());
    append(&mut log, &[3, 5], 1, Durability::Durable).unwrap();
    append(&mut log, &[5, 9], 2, Durability::Buffered).unwrap();
    for log in [&log, &look(&medium)] {
        assert_eq!((log.frames(), log.database_pages(), log.page_bytes()), (4, 102, PAGE as u32));
        assert_eq!([3, 5, 9, 4].map(|number| version_of(log, number)), [Some(1), Some(2), Some(2), None]);
    }
}

#[test]
fn a_new_generation_forgets_the_old_one() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[1, 2, 3, 4], 1, Durability::Durable).unwrap();
    let old = log.salts();
    log.reset();
    assert!(log.is_empty() && !log.contains(1));
    append(&mut log, &[2], 2, Durability::Durable).unwrap();
    assert_ne!(log.salts(), old);
    let log = look(&medium);
    assert_eq!((log.frames(), version_of(&log, 2), version_of(&log, 3)), (1, Some(2), None));
}

#[test]
fn the_first_transaction_of_a_new_log_writes_no_more_than_itself_and_syncs_the_file_once() {
    let counting = crate::sim::CountingMedium::new(Arc::new(SimMedium::default()));
    let mut log = RedoLog::open(Arc::new(counting.clone()), Path::new("/a-wal"), Arc::default()).unwrap();
    append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
    let spent = counting.snapshot();
    assert_eq!(spent.total().bytes_written, HEADER_BYTES as u64 + 2 * (24 + PAGE as u64));
    // The other one is that of its name.
    assert_eq!((spent.total().syncs, spent.all_syncs()), (1, 2));
}

#[test]
fn a_commit_into_written_space_is_one_durable_write() {
    let counting = crate::sim::CountingMedium::new(Arc::new(SimMedium::default()));
    let mut log = RedoLog::open(Arc::new(counting.clone()), Path::new("/a-wal"), Arc::default()).unwrap();
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    append(&mut log, &[2], 1, Durability::Durable).unwrap();
    let before = counting.snapshot();
    append(&mut log, &[1, 2, 3], 2, Durability::Durable).unwrap();
    let spent = (counting.snapshot() - before).total();
    assert_eq!((spent.writes, spent.syncs), (1, 1));
    assert_eq!(spent.bytes_written, 3 * (24 + PAGE as u64));
}

#[test]
fn deleting_leaves_nothing_and_the_log_can_begin_again() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    log.delete().unwrap();
    assert!(medium.info(Path::new("/a-wal")).unwrap().is_none());
    append(&mut log, &[2], 2, Durability::Durable).unwrap();
    assert_eq!(look(&medium).frames(), 1);
}

/// Deletes a log beside its data file, cuts the power afterwards, and tells if a cut brings back a frame that counts.
fn frames_come_back(faults: Faults) -> bool {
    let medium = SimMedium::default();
    let mut log = open_of(&medium, &data_file(&medium, 1)).unwrap();
    append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
    append(&mut log, &[2], 2, Durability::Durable).unwrap();
    medium.set_faults(faults);
    log.delete().unwrap();
    assert!(medium.info(Path::new("/a-wal")).unwrap().is_none());
    (0..200).any(|seed| {
        let after = look(&medium.cut(&mut Random::new(seed)));
        assert!(after.is_understood());
        !after.is_empty()
    })
}

#[test]
fn a_log_that_comes_back_after_a_power_cut_is_void() {
    assert!(!frames_come_back(Faults::default()));
    assert!(frames_come_back(Faults::ignoring(SyncSite::File(FileKind::RedoLog), None)));
}

#[test]
fn a_log_beside_its_data_file_is_deleted_without_a_sync_of_the_directory() {
    let medium = SimMedium::default();
    let counting = crate::sim::CountingMedium::new(Arc::new(medium.clone()));
    let data = data_file(&medium, 1);
    for (path, directory_syncs) in [("/a-wal", 0), ("/device-redo", 1)] {
        let medium = Arc::new(counting.clone());
        let mut log = RedoLog::open_of(medium, Path::new(path), Arc::default(), data.clone()).unwrap();
        append(&mut log, &[1], 1, Durability::Durable).unwrap();
        let before = counting.snapshot();
        log.delete().unwrap();
        let spent = counting.snapshot() - before;
        assert_eq!(spent.all_syncs() - spent.total().syncs, directory_syncs, "{path}");
        assert_eq!(spent.all_syncs(), 1, "{path}");
    }
}

/// Runs transactions on the simulated medium and cuts the power everywhere. Returns a description of the
/// first cut after which a durable transaction was missing or one was there in part.
fn cut_everywhere(seed: u64, faults: Faults) -> Option<String> {
    let medium = SimMedium::default();
    medium.set_faults(faults);
    let mut random = Random::new(seed);
    let mut log = open(&medium);
    // Transactions of this generation so far, and how many of them are durable, by recorded event.
    let mut acknowledged = vec![(0, Vec::new(), 0)];
    let mut versions: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut durable = 0;
    for version in 1..30 {
        if random.below(8) == 0 {
            log.reset();
            versions.clear();
            durable = 0;
            acknowledged.push((medium.operations(), versions.clone(), durable));
        }
        let numbers: Vec<u32> = (1..20).filter(|_| random.below(4) == 0).collect();
        let wait = random.below(3) > 0 || versions.is_empty();
        append(&mut log, &numbers, version, if wait { Durability::Durable } else { Durability::Buffered })
            .unwrap();
        if numbers.is_empty() && !wait {
            continue;
        }
        if !numbers.is_empty() {
            versions.push((version, numbers));
        }
        if wait {
            durable = versions.len();
        }
        acknowledged.push((medium.operations(), versions.clone(), durable));
    }
    let mut replay = medium.replay();
    for cut in 0..=medium.operations() {
        replay.advance(cut);
        let before = acknowledged.iter().rev().find(|(at, ..)| *at <= cut);
        let after = acknowledged.iter().find(|(at, ..)| *at > cut);
        let recovered = open(&replay.cut(&mut random));
        let fits = [before, after].into_iter().flatten().any(|(_, versions, durable)| {
            (*durable..=versions.len()).any(|count| is_state(&recovered, &versions[..count]))
        });
        // A log that was voided holds nothing that is needed.
        let voided = after.is_some_and(|(_, versions, _)| versions.is_empty())
            || before.is_some_and(|(_, versions, _)| versions.is_empty());
        if !fits && !voided {
            return Some(format!("seed {seed}, cut {cut}: {} frames", recovered.frames()));
        }
    }
    None
}

pub(super) fn is_state(log: &RedoLog, transactions: &[(u32, Vec<u32>)]) -> bool {
    let mut newest = BTreeMap::new();
    for (version, numbers) in transactions {
        newest.extend(numbers.iter().map(|number| (*number, *version)));
    }
    log.page_numbers().eq(newest.keys().copied())
        && newest.iter().all(|(number, version)| version_of(log, *number) == Some(*version))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn power_cuts_leave_whole_transactions(seed: u64) {
        let failure = cut_everywhere(seed, Faults::default());
        prop_assert!(failure.is_none(), "{:?}", failure);
    }
}

#[test]
fn each_sync_left_out_is_noticed() {
    for site in [SyncSite::File(FileKind::RedoLog), SyncSite::Directory] {
        let caught = (0..200).any(|seed| cut_everywhere(seed, Faults::ignoring(site, None)).is_some());
        assert!(caught, "{site:?}");
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_append_and_nothing_else() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    medium.set_faults(Faults::full_at(100 * 1024));
    let many: Vec<u32> = (1..400).collect();
    let error = append(&mut log, &many, 2, Durability::Durable).unwrap_err();
    assert_eq!(error.kind(), crate::file::ErrorKind::Full);
    append(&mut log, &[2], 3, Durability::Durable).unwrap();
    assert_eq!((log.frames(), version_of(&look(&medium), 2)), (2, Some(3)));
}

#[test]
fn a_failed_sync_is_final() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    let mut fault = Faults::failing(Operation::Sync, FileKind::RedoLog, 0);
    fault.fail_again = false;
    medium.set_faults(fault);
    assert!(append(&mut log, &[2], 2, Durability::Durable).is_err());
    let again = append(&mut log, &[2], 3, Durability::Durable).unwrap_err();
    assert_eq!(again.kind(), crate::file::ErrorKind::Latched);
}

#[test]
fn a_transaction_whose_sync_failed_is_gone_when_the_log_is_opened_again() {
    for frames in [1, 2 * PAGES_PER_WRITE as u32] {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        append(&mut log, &[1], 1, Durability::Durable).unwrap();
        let many: Vec<u32> = (1..=frames).collect();
        let mut fault = Faults::failing(Operation::Sync, FileKind::RedoLog, 0);
        fault.fail_again = false;
        medium.set_faults(fault);
        assert!(append(&mut log, &many, 2, Durability::Durable).is_err());
        drop(log);
        let mut log = open(&medium);
        assert_eq!((log.frames(), version_of(&log, 1)), (1, Some(1)), "{frames}");
        append(&mut log, &[1], 3, Durability::Durable).unwrap();
        assert_eq!(version_of(&look(&medium), 1), Some(3), "{frames}");
    }
}

#[test]
fn pages_written_early_are_joined_to_the_chain() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
    let mut sums = Vec::new();
    for (index, number) in [7, 8, 9].into_iter().enumerate() {
        let slot = log.reserve_slots(PAGE as u32, index as u32, 1).unwrap();
        // Written twice: only the second version counts.
        for version in [2, 3] {
            slot.file.write_at(&page(number, version), slot.offset).unwrap();
        }
        sums.push((number, slot.header.page_sum(&page(number, 3))));
    }
    assert!(log.has_slots());
    assert_eq!(look(&medium).frames(), 2);
    let transaction = Transaction {
        slots: &sums,
        early: &[],
        page_numbers: &[2],
        page_bytes: PAGE as u32,
        database_pages: 50,
    };
    let mut copy = |_: usize, out: &mut [u8]| {
        out.copy_from_slice(&page(2, 3));
        Ok(())
    };
    log.append(&transaction, &mut copy, Durability::Durable).unwrap();
    for log in [&log, &look(&medium)] {
        assert_eq!((log.frames(), log.database_pages(), log.has_slots()), (6, 50, false));
        let found = [1, 2, 7, 8, 9].map(|number| version_of(log, number));
        assert_eq!(found, [Some(1), Some(3), Some(3), Some(3), Some(3)]);
    }
    // A transaction may consist of nothing else, and one that is given up leaves nothing.
    let slot = log.reserve_slots(PAGE as u32, 0, 1).unwrap();
    slot.file.write_at(&page(4, 4), slot.offset).unwrap();
    log.discard_slots();
    let slot = log.reserve_slots(PAGE as u32, 0, 1).unwrap();
    slot.file.write_at(&page(5, 5), slot.offset).unwrap();
    let sums = [(5, slot.header.page_sum(&page(5, 5)))];
    let transaction = Transaction {
        slots: &sums,
        early: &[],
        page_numbers: &[],
        page_bytes: PAGE as u32,
        database_pages: 51,
    };
    log.append(&transaction, &mut |_, _| Ok(()), Durability::Durable).unwrap();
    let log = look(&medium);
    assert_eq!((log.frames(), version_of(&log, 4), version_of(&log, 5)), (7, None, Some(5)));
}

fn data_file(medium: &SimMedium, content: u8) -> DataFile {
    let path = std::path::PathBuf::from("/a");
    let file = medium.open(&path, FileKind::Database, OpenMode::Create).unwrap();
    file.write_at(&[content; 4096], 0).unwrap();
    DataFile { path, content: file.clone(), file }
}

fn open_of(medium: &SimMedium, data: &DataFile) -> Result<RedoLog> {
    RedoLog::open_of(Arc::new(medium.clone()), Path::new("/a-wal"), Arc::default(), data.clone())
}

#[test]
fn a_log_in_use_is_nobody_elses_until_it_is_closed() {
    let medium = SimMedium::default();
    let data = data_file(&medium, 1);
    let mut log = open_of(&medium, &data).unwrap();
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    let error = open_of(&medium, &data).err().unwrap();
    assert_eq!(error.operation, Operation::Lock);
    drop(log);
    assert_eq!(open_of(&medium, &data).unwrap().frames(), 1);
}

#[test]
fn a_generation_says_what_the_data_file_was_when_it_began() {
    let medium = SimMedium::default();
    let data = data_file(&medium, 1);
    let mut log = open_of(&medium, &data).unwrap();
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    let first = log.origin().unwrap();
    assert_eq!(first, data.origin(&**log.file.opened().unwrap()).unwrap());
    assert!(!log.names_another_file().unwrap());
    log.reset();
    log.restart().unwrap();
    // Begun, and then the file was changed past the log.
    data.file.write_at(&[2; 512], 0).unwrap();
    append(&mut log, &[1], 2, Durability::Durable).unwrap();
    let second = log.origin().unwrap();
    assert!(second.content != first.content && (second.data, second.log) == (first.data, first.log));
    drop(log);
    // Another file has the name.
    medium.delete(Path::new("/a")).unwrap();
    let other = data_file(&medium, 2);
    assert!(open_of(&medium, &other).unwrap().names_another_file().unwrap());
    // One that cannot be looked at is not another one.
    for kind in [FileKind::Database, FileKind::RedoLog] {
        medium.set_faults(Faults::failing(Operation::Info, kind, 0));
        assert!(open_of(&medium, &other).unwrap().names_another_file().is_err(), "{kind:?}");
    }
    medium.set_faults(Faults::default());
    // Both were copied: nothing tells.
    let copies = SimMedium::with_files(medium.files());
    assert!(!open_of(&copies, &data_file(&copies, 2)).unwrap().names_another_file().unwrap());
}

/// A log that was copied with its database is another file. Two files in 65,536 have the same 16 bits.
#[test]
fn a_copy_of_a_log_is_hardly_ever_taken_for_the_log_itself() {
    let medium = SimMedium::default();
    let mut log = open_of(&medium, &data_file(&medium, 1)).unwrap();
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    let origin = log.origin().unwrap();
    drop(log);
    let (_, _, bytes) = medium.files().into_iter().find(|(path, ..)| path.ends_with("a-wal")).unwrap();
    let data = data_file(&SimMedium::with_files(medium.files()), 1);
    let mut alike = 0;
    while alike < 4 {
        medium.delete(Path::new("/a-wal")).unwrap();
        let copy = medium.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::CreateNew).unwrap();
        if super::origin::which(&*copy).unwrap() as u16 == origin.log as u16 {
            alike += 1;
            copy.write_at(&bytes, 0).unwrap();
            drop(copy);
            assert!(!open_of(&medium, &data).unwrap().names_another_file().unwrap(), "{alike}");
        }
    }
}

/// SQLite counts generations where an origin has the identities of files, and one of its counts is the log's identity.
#[test]
fn a_log_of_sqlites_own_names_no_file_whatever_its_counters_are() {
    let medium = SimMedium::default();
    let data = data_file(&medium, 1);
    let file = medium.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::CreateNew).unwrap();
    let generation = super::origin::which(&*file).unwrap() & 0xffff;
    for salt in 0..20 {
        let header = Header { page_bytes: PAGE as u32, generation, salts: [salt, 8], big_endian: false };
        let (bytes, checksum) = header.encode();
        let page = [1; PAGE];
        let (head, _) = header.encode_frame(checksum, 1, 1, &page);
        file.write_at(&[&bytes[..], &head, &page].concat(), 0).unwrap();
        let log = open_of(&medium, &data).unwrap();
        assert_eq!((log.frames(), log.names_another_file().unwrap()), (1, false), "{salt}");
    }
}

#[test]
fn nothing_that_has_the_name_of_a_log_is_removed_or_replaced_in_its_place() {
    let medium = SimMedium::default();
    let data = data_file(&medium, 1);
    let mut log = open_of(&medium, &data).unwrap();
    append(&mut log, &[1], 1, Durability::Durable).unwrap();
    medium.rename(Path::new("/a-wal"), Path::new("/b-wal")).unwrap();
    assert_eq!(log.whereabouts().unwrap(), Whereabouts::Elsewhere);
    let other = medium.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::Create).unwrap();
    other.write_at(b"other", 0).unwrap();
    log.delete().unwrap();
    assert_eq!(medium.info(Path::new("/a-wal")).unwrap().unwrap().len, 5);
    // A log that has lost its name counts for nothing any more.
    let moved = RedoLog::look(Arc::new(medium.clone()), Path::new("/b-wal"), None).unwrap();
    assert!(moved.is_empty() && moved.salts().is_none());
    assert_eq!(append(&mut log, &[1], 2, Durability::Durable).unwrap_err().operation, Operation::Open);
    // A file that has lost its name gets no log beside another.
    medium.delete(Path::new("/a-wal")).unwrap();
    medium.rename(Path::new("/a"), Path::new("/b")).unwrap();
    assert!(append(&mut log, &[1], 2, Durability::Durable).is_err());
    assert!(medium.info(Path::new("/a-wal")).unwrap().is_none());
}

#[test]
fn what_is_set_aside_replaces_nothing() {
    let medium = SimMedium::default();
    let latch = SyncLatch::new();
    for number in 1..4 {
        medium.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::CreateNew).unwrap();
        let aside = crate::log_file::set_aside(&medium, Path::new("/a-wal"), &latch).unwrap();
        assert_eq!(aside, std::path::PathBuf::from(format!("/a-wal.set-aside-{number}")));
    }
    assert_eq!(medium.files().len(), 3);
}

#[test]
fn early_pages_are_awaited_in_the_data_file_by_whoever_finds_the_log() {
    let medium = SimMedium::default();
    let data = || {
        let file = medium.open(Path::new("/a"), FileKind::Database, OpenMode::Create).unwrap();
        DataFile { path: "/a".into(), content: file.clone(), file }
    };
    let open = || {
        let latch = Arc::new(SyncLatch::new());
        RedoLog::open_of(Arc::new(medium.clone()), Path::new("/a-wal"), latch, data()).unwrap()
    };
    let file = data().file;
    let numbers: Vec<u32> = (11..=150).collect();
    for number in &numbers {
        file.write_at(&page(*number, 5), u64::from(number - 1) * PAGE as u64).unwrap();
    }
    let early = early_pages(&*file, &numbers, PAGE as u32).unwrap();
    let transaction = Transaction {
        slots: &[],
        early: &early,
        page_numbers: &[2],
        page_bytes: PAGE as u32,
        database_pages: 150,
    };
    let mut copy = |_: usize, out: &mut [u8]| {
        out.copy_from_slice(&page(2, 5));
        Ok(())
    };
    let mut log = open();
    append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
    let foretold = log.predict(&transaction, &mut copy).unwrap();
    log.append(&transaction, &mut copy, Durability::Durable).unwrap();
    assert_eq!(Some(foretold.1), log.checksum_after(foretold.0).unwrap());
    append(&mut log, &[60], 60, Durability::Durable).unwrap();
    let last = early.len() as u32 + 10;
    for compacted in [false, true] {
        if compacted {
            (0..200).for_each(|_| append(&mut log, &[2], 50, Durability::Buffered).unwrap());
            assert!(log.compact(&mut |_, _| {}, Durability::Durable).unwrap());
        }
        drop(log);
        log = open();
        assert_eq!(log.page_numbers().collect::<Vec<u32>>(), [1, 2, 60]);
        assert_eq!([10, 11, 60, last].map(|number| log.awaits(number)), [false, true, false, true]);
        let tries = [(59, true), (10, false), (149, false)];
        for (at, has) in tries {
            let offset = at * PAGE as u64 + 7;
            let mut byte = [0];
            file.read_at(&mut byte, offset).unwrap();
            file.write_at(&[byte[0] ^ 1], offset).unwrap();
            assert_eq!(log.has_its_early_pages().unwrap(), has, "{at}");
            file.write_at(&byte, offset).unwrap();
        }
        assert!(log.has_its_early_pages().unwrap());
    }
    // The database shrinks, and grows again.
    append(&mut log, &[1], 0, Durability::Durable).unwrap();
    append(&mut log, &[1], 70, Durability::Durable).unwrap();
    assert_eq!([100, 101, last].map(|number| log.awaits(number)), [true, false, false]);
    log.reset();
    assert!(!log.awaits(100) && log.has_its_early_pages().unwrap());
}
