use super::*;
use crate::file::Stamp;
use crate::sim::SimMedium;
use crate::sim::{Faults, Random, SyncSite};
use crate::wal_file::format::Origin;

const PATH: &str = "/a-commits";

fn open(medium: &SimMedium) -> CommitLog {
    CommitLog::open(Arc::new(medium.clone()), Path::new(PATH), Arc::new(SyncLatch::new())).unwrap()
}

fn record(number: u32) -> Record {
    Record { kind: number % 3, payload: vec![number as u8; (number as usize * 37) % 1500] }
}

fn base(frames: u32) -> Base {
    let writer = Writer { version: 3, hash: u64::from(frames) << 40 };
    match frames % 2 {
        0 => Base::Statements(StatementBase { salts: [frames ^ 7, 9], frames, writer }),
        _ => {
            let stamp = Stamp { len: u64::from(frames) << 33, modified: -7 - i128::from(frames) };
            let origin = Origin { content: frames ^ 5, data: 7, log: frames & 0xff_ffff };
            Base::Deltas(DeltaBase { stamp, origin })
        }
    }
}

#[test]
fn records_are_there_after_reopening_until_they_are_retired() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    assert!(log.is_empty() && medium.info(Path::new(PATH)).unwrap().is_none());
    log.reserve(10_000).unwrap();
    log.begin(base(4));
    log.append(&[record(1), record(2)], Durability::Durable).unwrap();
    log.append(&[record(3)], Durability::Buffered).unwrap();
    for _ in 0..2 {
        assert_eq!(log.base(), Some(base(4)));
        assert_eq!(log.records().unwrap(), [record(1), record(2), record(3)]);
        drop(log);
        log = open(&medium);
    }
    log.append(&[record(4)], Durability::Durable).unwrap();
    drop(log);
    let mut log = open(&medium);
    assert_eq!(log.records().unwrap().len(), 4);
    log.retire();
    assert!(log.is_empty());
    drop(log);
    let mut log = open(&medium);
    assert!(log.is_empty());
    log.begin(base(5));
    log.append(&[record(9)], Durability::Durable).unwrap();
    drop(log);
    let mut log = open(&medium);
    assert_eq!(log.records().unwrap(), [record(9)], "records of an older generation came back");
    log.delete().unwrap();
    assert!(medium.info(Path::new(PATH)).unwrap().is_none());
    // Who counts on room that has gone with the file is told.
    log.begin(base(7));
    log.append(&[], Durability::Durable).unwrap();
    log.append(&[record(1)], Durability::Durable).unwrap_err();
}

/// Found by fuzzing: what was appended behind such a record lay where no record begins.
#[test]
fn a_log_whose_last_record_lacks_its_padding_goes_on_where_a_record_begins() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    log.reserve(4096).unwrap();
    log.begin(base(4));
    let short = Record { kind: 1, payload: vec![5; 3] };
    log.append(std::slice::from_ref(&short), Durability::Durable).unwrap();
    drop(log);
    let file = medium.open(Path::new(PATH), FileKind::CommitLog, OpenMode::ReadWrite).unwrap();
    file.set_len(HEADER_BYTES + 20 + 3).unwrap();
    drop(file);
    let mut log = open(&medium);
    log.reserve(8192).unwrap();
    log.append(&[record(4)], Durability::Durable).unwrap();
    drop(log);
    assert_eq!(open(&medium).records().unwrap(), [short, record(4)]);
}

#[test]
fn a_file_belongs_to_one_log_at_a_time() {
    let medium = SimMedium::default();
    let reopen = || CommitLog::open(Arc::new(medium.clone()), Path::new(PATH), Arc::default());
    let (mut first, mut second) = (open(&medium), open(&medium));
    first.reserve(4096).unwrap();
    let error = second.reserve(4096).unwrap_err().to_string();
    assert!(error.contains(PATH) && error.contains("in use"), "{error}");
    assert!(reopen().is_err());
    drop((first, second));
    assert!(reopen().is_ok());
}

#[test]
fn what_is_no_log_is_told() {
    let medium = SimMedium::default();
    let file = medium.open(Path::new(PATH), FileKind::CommitLog, OpenMode::Create).unwrap();
    file.write_at(b"chapter one", 0).unwrap();
    drop(file);
    let log = open(&medium);
    assert!(!log.is_understood() && log.is_empty());
}

#[test]
fn a_commit_into_room_made_before_is_one_write() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    log.reserve(4096).unwrap();
    log.begin(base(0));
    log.append(&[record(1)], Durability::Durable).unwrap();
    let before = medium.operations();
    log.append(&[record(2)], Durability::Durable).unwrap();
    assert_eq!(medium.operations() - before, 1);
}

#[test]
fn staged_records_count_in_order_wherever_they_begin() {
    for own_blocks in [false, true] {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        log.reserve(64 << 10).unwrap();
        log.begin(base(1));
        assert!(log.stage(&[record(1)], own_blocks).is_none(), "the header is not there yet");
        log.append(&[record(1)], Durability::Durable).unwrap();
        let first = log.stage(&[record(2), record(3)], own_blocks).unwrap();
        let second = log.stage(&[record(4)], own_blocks).unwrap();
        assert_eq!(second.offset.is_multiple_of(BLOCK_BYTES), own_blocks);
        second.write().unwrap();
        assert_eq!(log.records().unwrap().len(), 1, "the group before it is missing");
        first.write().unwrap();
        log.append(&[record(5)], Durability::Durable).unwrap();
        drop(log);
        let expected = [1, 2, 3, 4, 5].map(record);
        let mut log = open(&medium);
        assert_eq!(log.records().unwrap(), expected);
        log.append(&[record(6)], Durability::Durable).unwrap();
        assert_eq!(log.records().unwrap().len(), 6);
    }
}

#[test]
fn groups_of_their_own_end_with_the_room() {
    let medium = SimMedium::default();
    let mut log = open(&medium);
    log.reserve(16 << 10).unwrap();
    log.begin(base(1));
    log.append(&[record(1)], Durability::Durable).unwrap();
    for number in 2..40 {
        let Some(staged) = log.stage(&[record(number % 5)], true) else { break };
        if log.bytes() > log.room() {
            break;
        }
        staged.write().unwrap();
        assert_eq!(log.records().unwrap().len() as u32, number);
    }
}

/// The acknowledged records: each with its operation, and the base that it belonged to.
type History = Vec<(usize, Option<(Base, u32)>)>;

/// Generations of a few records, cut at every operation; answers the first failure.
fn cut_everywhere(faults: Faults) -> Option<String> {
    let medium = SimMedium::default();
    medium.set_faults(faults);
    let mut history: History = vec![(0, None)];
    let mut log = open(&medium);
    for generation in 0..6 {
        log.reserve(4096).unwrap();
        log.retire();
        log.begin(base(generation));
        for count in 1..=4 {
            log.append(&[record(10 * generation + count)], Durability::Durable).unwrap();
            history.push((medium.operations(), Some((base(generation), count))));
        }
    }
    let mut random = Random::new(5);
    let mut replay = medium.replay();
    for cut in 0..=medium.operations() {
        replay.advance(cut);
        let acknowledged = history.iter().rev().find(|(at, _)| *at <= cut).and_then(|(_, state)| *state);
        let next = history.iter().find(|(at, _)| *at > cut).and_then(|(_, state)| *state);
        for _ in 0..40 {
            let log = open(&replay.cut(&mut random));
            let found = log.base().map(|base| (base, log.records().unwrap().len() as u32));
            let found = found.filter(|(_, count)| *count > 0);
            // A new generation begins when the old one is of no more use.
            let between = found.is_none() && next.map(|(base, _)| base) != acknowledged.map(|(base, _)| base);
            if found != acknowledged && found != next && !between {
                return Some(format!(
                    "cut {cut}: found {found:?}, acknowledged {acknowledged:?}, next {next:?}"
                ));
            }
        }
    }
    None
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    assert_eq!(cut_everywhere(Faults::default()), None);
}

#[test]
fn without_its_sync_records_are_lost() {
    let faults = Faults::ignoring(SyncSite::File(FileKind::CommitLog), None);
    assert!(cut_everywhere(faults).is_some());
}

#[test]
fn without_the_sync_of_the_directory_the_file_is_lost() {
    let faults = Faults::ignoring(SyncSite::Directory, None);
    assert!(cut_everywhere(faults).is_some());
}

/// Cuts between the end of a generation and the durable first records of the next one. `reopen` ends the process in between.
fn cut_between_generations(reopen: bool) {
    let medium = SimMedium::default();
    // The first record lies in one sector, and those behind it in others.
    let (first, second) = (record(1), Record { kind: 1, payload: vec![7; 2000] });
    let mut log = open(&medium);
    log.reserve(8192).unwrap();
    log.begin(base(4));
    log.append(&[first.clone(), second.clone()], Durability::Durable).unwrap();
    let begun = medium.operations();
    log.retire();
    if reopen {
        drop(log);
        log = open(&medium);
    }
    log.begin(base(6));
    log.append(std::slice::from_ref(&second), Durability::Durable).unwrap();
    let mut random = Random::new(5);
    let mut replay = medium.replay();
    for cut in begun..=medium.operations() {
        replay.advance(cut);
        for _ in 0..500 {
            let log = open(&replay.cut(&mut random));
            let (found, records) = (log.base(), log.records().unwrap());
            let is_old = found == Some(base(4)) && records == [first.clone(), second.clone()];
            let is_new = found == Some(base(6)) && records == [second.clone()];
            assert!(
                is_old || is_new || records.is_empty(),
                "cut {cut}: {found:?}, {} records",
                records.len()
            );
        }
    }
}

#[test]
fn a_generation_that_is_over_comes_back_whole_or_not_at_all() {
    cut_between_generations(false);
    cut_between_generations(true);
}
