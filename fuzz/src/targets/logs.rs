//! The redo log, the commit log, and the records of the latter.

use super::{file, medium, put, put_crc};
use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_sim::SimMedium;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::{Base, DeltaBase, Record, StatementBase, Writer};
use litefoot_storage::file::{FileKind, Medium, Stamp};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::Transaction;
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, Origin};
use std::path::Path;
use std::sync::Arc;

const WAL: &str = "/a.db-wal";
const COMMITS: &str = "/a.db-commits";

pub const REDO: Target = Target {
    name: "redo",
    does: "a -wal beside a database: what counts of it, and whether it can be gone on with",
    parse: redo,
    seal: |bytes| seal_redo(bytes),
    seeds: redo_seeds,
    most_bytes: MOST_BYTES,
};

fn redo(bytes: &[u8]) -> u64 {
    let medium = medium(&[(WAL, FileKind::RedoLog, bytes)]);
    let Ok(mut log) = RedoLog::open(medium.clone(), Path::new(WAL), Arc::default()) else { return 0 };
    let numbers: Vec<u32> = log.page_numbers().collect();
    let mut page = vec![0; log.page_bytes() as usize];
    for number in &numbers {
        assert!(log.read_page(*number, 0, &mut page).expect("it can be read"), "page {number} is lost");
    }
    let all = log.read_all().expect("it can be read");
    assert!(all.len() <= bytes.len(), "more of it counts than there is");
    let outcome = outcome_of(&(log.frames(), numbers.len(), log.page_bytes(), log.database_pages() > 0));
    // An opened log goes on where it ends.
    let page_bytes = if log.is_empty() { 512 } else { log.page_bytes() };
    let transaction =
        Transaction { slots: &[], early: &[], page_numbers: &[7], page_bytes, database_pages: 9 };
    let mut copy = |_: usize, page: &mut [u8]| {
        page.fill(0xab);
        Ok(())
    };
    log.append(&transaction, &mut copy, Durability::Durable).expect("it can be appended to");
    let frames = log.frames();
    drop(log);
    let log = RedoLog::open(medium, Path::new(WAL), Arc::default()).expect("it can be opened again");
    assert_eq!((log.frames(), log.database_pages()), (frames, 9), "what was appended does not count");
    outcome
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

pub fn seal_redo(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let page_bytes = match word(bytes, 8) {
        page_bytes if page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes) => page_bytes,
        _ => 512,
    };
    let header = Header {
        page_bytes,
        generation: word(bytes, 12),
        salts: [word(bytes, 16), word(bytes, 20)],
        big_endian: bytes[3] & 1 == 1,
    };
    let (head, mut checksum) = header.encode();
    bytes[..HEADER_BYTES].copy_from_slice(&head);
    for frame in bytes[HEADER_BYTES..].chunks_exact_mut(header.frame_bytes()) {
        let (head, page) = frame.split_at_mut(FRAME_HEADER_BYTES);
        let (sealed, next) = header.encode_frame(checksum, word(head, 0), word(head, 4), page);
        head.copy_from_slice(&sealed);
        checksum = next;
    }
}

fn redo_seeds() -> Vec<Vec<u8>> {
    fastrand::seed(1);
    let mut seeds = vec![Vec::new(), vec![0; HEADER_BYTES]];
    for page_bytes in [512, 4096] {
        let medium = SimMedium::new();
        let mut log =
            RedoLog::open(Arc::new(medium.clone()), Path::new(WAL), Arc::default()).expect("it can be made");
        for pages in [&[1, 2, 5][..], &[2], &[9, 1]] {
            let transaction =
                Transaction { slots: &[], early: &[], page_numbers: pages, page_bytes, database_pages: 9 };
            let mut copy = |index: usize, page: &mut [u8]| {
                page.fill(index as u8 + 1);
                Ok(())
            };
            log.append(&transaction, &mut copy, Durability::Durable).expect("it can be written");
        }
        let mut bytes = log.read_all().expect("it can be read");
        seeds.push(bytes.clone());
        // A database of almost as many pages as can be numbered, from a few bytes.
        put(&mut bytes, HEADER_BYTES + 4, &0xffff_fffeu32.to_be_bytes());
        seal_redo(&mut bytes);
        seeds.push(bytes);
    }
    seeds
}

pub const COMMIT_LOG: Target = Target {
    name: "commit_log",
    does: "a -commits beside a database: its header, which records count, and whether it can be gone on with",
    parse: commit_log,
    seal: |bytes| seal_commit_log(bytes, |_, _| ()),
    seeds: commit_log_seeds,
    most_bytes: MOST_BYTES,
};

fn commit_log(bytes: &[u8]) -> u64 {
    let medium = medium(&[(COMMITS, FileKind::CommitLog, bytes)]);
    let open = || CommitLog::open(medium.clone(), Path::new(COMMITS), Arc::default());
    let mut log = open().expect("it can be opened");
    let records = log.records().expect("it can be read");
    let taken: usize = records.iter().map(|record| record.payload.len()).sum();
    assert!(taken <= bytes.len(), "records are longer than the log");
    assert!(!log.is_empty() || records.is_empty() || log.base().is_none(), "an empty log has records");
    let outcome = outcome_of(&(
        log.is_understood(),
        log.statement_base().is_some(),
        records.len(),
        records.first().map(|first| first.kind),
    ));
    let Some(base) = log.base() else { return outcome };
    // Once its records are retired the file is gone on with, and none of them comes back.
    log.retire();
    log.begin(base);
    // The first record covers what is there: that may be of any generation.
    let [first, second] = [bytes.len(), 100].map(|length| Record { kind: 2, payload: vec![0xab; length] });
    log.reserve(log.bytes() + bytes.len() as u64 + 3 * 4096).expect("there is room");
    log.append(std::slice::from_ref(&first), Durability::Durable).expect("it can be appended to");
    let staged = log.stage(&[second.clone(), second.clone()], true).expect("it can be gone on with");
    staged.write().expect("it can be written");
    drop(log);
    let found = open().expect("it opens").records().expect("it is read");
    assert!(found == [first, second.clone(), second], "other records than were written");
    outcome
}

/// Where the commit log's header has its checksum, and where its first record is.
const HEADER_CRC_AT: usize = 60;
const RECORDS_AT: usize = 512;
/// Groups of records begin at multiples of this, where they do not follow the last one.
const BLOCK: usize = 4096;

/// Makes the checksums of a commit log fit, after `change` has seen each record: its kind, and its payload.
pub fn seal_commit_log(bytes: &mut [u8], mut change: impl FnMut(u32, &mut [u8])) {
    put_crc(bytes, 0, HEADER_CRC_AT);
    let generation = bytes.get(16..24).map_or([0; 8], |eight| eight.try_into().expect("eight bytes"));
    let (mut at, mut sequence) = (RECORDS_AT, 0u64);
    while let Some(head) = bytes.get(at..at + 8) {
        if head == [0; 8] {
            if at % BLOCK == 0 {
                return;
            }
            at = at.next_multiple_of(BLOCK);
            continue;
        }
        let [len, kind] = [0, 4].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().expect("four")));
        // A record that leads outside ends there.
        let len = (len as usize).min(bytes.len().saturating_sub(at + 20));
        put(bytes, at, &(len as u32).to_le_bytes());
        put(bytes, at + 8, &sequence.to_le_bytes());
        let end = at + 16 + len;
        if let Some(payload) = bytes.get_mut(at + 16..end) {
            change(kind, payload);
        }
        let Some(covered) = bytes.get(at..end) else { return };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&generation), covered);
        put(bytes, end, &crc.to_le_bytes());
        at += (len + 20).next_multiple_of(8);
        sequence += 1;
    }
}

fn commit_log_seeds() -> Vec<Vec<u8>> {
    let writer = Writer { version: 3_040_001, hash: 4 };
    let statements = Base::Statements(StatementBase { salts: [1, 2], frames: 3, writer });
    let origin = Origin { content: 5, data: 6, log: 7 };
    let deltas = Base::Deltas(DeltaBase { stamp: Stamp { len: 4096, modified: 8 }, origin });
    let records: Vec<Record> = record_seeds()
        .into_iter()
        .map(|bytes| Record { kind: u32::from(bytes[0]), payload: bytes[1..].to_vec() })
        .collect();
    let mut seeds = vec![Vec::new(), vec![0; RECORDS_AT]];
    for base in [statements, deltas] {
        let medium = SimMedium::new();
        let shared: Arc<dyn Medium> = Arc::new(medium.clone());
        let mut log = CommitLog::open(shared, Path::new(COMMITS), Arc::default()).expect("it can be made");
        log.begin(base);
        log.reserve(16_384).expect("there is room");
        log.append(&records, Durability::Durable).expect("it can be written");
        for own_blocks in [false, true, false] {
            let staged = log.stage(&records, own_blocks).expect("it can be gone on with");
            staged.write().expect("it can be written");
        }
        let end = log.bytes() as usize + 64;
        let bytes = file(&medium, COMMITS);
        seeds.extend([bytes[..RECORDS_AT].to_vec(), bytes[..2048].to_vec(), bytes[..end].to_vec()]);
        log.retire();
        log.sync().expect("it can be synced");
        seeds.push(file(&medium, COMMITS)[..2048].to_vec());
    }
    seeds
}

pub const RECORD: Target = Target {
    name: "record",
    does: "the payload of a record of the commit log; the first byte is its kind",
    parse: litefoot_vfs::fuzzing::record,
    seal: |_| (),
    seeds: record_seeds,
    most_bytes: MOST_BYTES,
};

fn record_seeds() -> Vec<Vec<u8>> {
    let text = [&[1, 7, 3][..], b"INSERT INTO t VALUES(?1, ?2)"].concat();
    let values: &[u8] = &[5, 0, 1, 0x80, 1, 2, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 3, 2, b'a', b'b', 4, 1, 0];
    let transaction = [&[2, 9, 7, 2, 4, 8, 2, 1, 7][..], values].concat();
    let fold = [&[3][..], &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]].concat();
    vec![text, transaction, fold]
}
