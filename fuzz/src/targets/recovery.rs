//! Recovery: what opening does with both logs beside a data file, without SQLite.

use super::logs::{seal_commit_log, seal_redo};
use super::page_delta::varint;
use super::{file, join, put, split};
use crate::{Target, outcome_of};
use litefoot_sim::{Faults, SimMedium};
use litefoot_storage::commit_log::{Base, CommitLog, DeltaBase, Record, StatementBase, Writer};
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::log_file::Durability;
use litefoot_storage::page_delta::{ChangedPage, Encoder, decode, page_sum};
use litefoot_storage::wal_file::origin::{DataFile, content_of};
use litefoot_storage::wal_file::{EarlyPage, RedoLog, Transaction, early_pages};
use litefoot_vfs::fuzzing::{Recovered, recovery};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATABASE: &str = "/a.db";
const WAL: &str = "/a.db-wal";
const COMMITS: &str = "/a.db-commits";
const PAGE: usize = 512;
/// The kind of a record of page deltas.
const DELTA: u32 = 4;
/// Memory for the buffer of a scan, 4 MiB, and the files: no more, however many pages a log names.
const MOST_BYTES: usize = 8 << 20;
/// Most bytes of the pages of a transaction whose checksums are made to fit.
const MOST_SEALED: usize = 1 << 20;
/// Bytes by which the files may grow: a log may claim a database of any size, and the simulated medium has no holes.
const MOST_GROWTH: u64 = 1 << 20;

pub const RECOVERY: Target = Target {
    name: "recovery",
    does: "a database, its -wal and its -commits, as a crash has left them: their recovery, twice",
    parse: recover,
    seal: |bytes| seal(bytes),
    seeds,
    most_bytes: MOST_BYTES,
};

/// The files in one input: the commit log, the redo log, the data file. A log without bytes is none.
fn files(bytes: &[u8]) -> [&[u8]; 3] {
    let (commits, rest) = split(bytes);
    let (redo, data) = split(rest);
    [commits, redo, data]
}

fn medium_of([commits, redo, data]: [&[u8]; 3]) -> SimMedium {
    let all = [
        (COMMITS, FileKind::CommitLog, commits),
        (WAL, FileKind::RedoLog, redo),
        (DATABASE, FileKind::Database, data),
    ];
    let there = all.into_iter().filter(|(path, _, bytes)| *path == DATABASE || !bytes.is_empty());
    SimMedium::with_files(there.map(|(path, kind, bytes)| (PathBuf::from(path), kind, bytes.to_vec())))
}

fn recover(bytes: &[u8]) -> u64 {
    let before = files(bytes);
    let medium = medium_of(before);
    // The memory of an input is what recovery takes, and the files.
    medium.stop_recording();
    medium.set_faults(Faults::full_at(bytes.len() as u64 + MOST_GROWTH));
    let shared: Arc<dyn Medium> = Arc::new(medium.clone());
    let run = || recovery(&shared, Path::new(DATABASE));
    let first = run();
    let is_there = |path: &str| medium.files().iter().any(|(name, ..)| name == Path::new(path));
    match first {
        Ok(Recovered::Applied) => {
            assert_eq!(file(&medium, DATABASE), before[2], "deltas have changed the data file");
            assert!(!is_there(COMMITS) && is_there(WAL), "the pages have not taken the place of the deltas");
        }
        Ok(Recovered::Kept) => {
            assert_eq!(file(&medium, COMMITS), before[0], "a log that is kept was changed")
        }
        _ => {}
    }
    let second = run();
    // What was recovered stays so, and what could not be recovered cannot be the next time.
    match (&first, &second) {
        (Ok(Recovered::Applied | Recovered::Nothing), Ok(found)) => {
            assert!(matches!(found, Recovered::Nothing), "{found:?} after {first:?}");
        }
        (Ok(Recovered::Kept | Recovered::Replayed), Ok(found)) => {
            assert_eq!(Some(found), first.as_ref().ok(), "another decision");
        }
        (Ok(_), Err(error)) => panic!("recovered, and then {error}"),
        _ => {}
    }
    outcome_of(&(format!("{first:?}").len(), format!("{second:?}").len(), medium.files().len()))
}

fn seal(bytes: &mut Vec<u8>) {
    let [mut commits, mut redo, data] = files(bytes).map(<[u8]>::to_vec);
    seal_redo(&mut redo);
    let stamp = {
        let medium = medium_of([&commits, &redo, &data]);
        let file = medium.open(Path::new(DATABASE), FileKind::Database, OpenMode::ReadOnly);
        file.and_then(|file| file.stamp()).expect("a file has a stamp")
    };
    put(&mut commits, 24, &stamp.len.to_le_bytes());
    put(&mut commits, 32, &(stamp.modified as i64).to_le_bytes());
    put(&mut commits, 40, &content_of(&data[..data.len().min(PAGE)]).to_le_bytes());
    let mut pages = BTreeMap::new();
    seal_commit_log(&mut commits, |kind, payload| {
        if kind == DELTA {
            seal_deltas(payload, &data, &mut pages);
        }
    });
    *bytes = join(&commits, &join(&redo, &data));
}

/// Makes the checksums of a record's pages fit, as far as they are in ranges; `pages` are those that records have changed.
fn seal_deltas(payload: &mut [u8], data: &[u8], pages: &mut BTreeMap<u32, Vec<u8>>) {
    let page_bytes = match payload.first() {
        Some(bits @ 9..=16) => 1usize << bits,
        _ => return,
    };
    let old = |pages: &BTreeMap<u32, Vec<u8>>, number: u32| {
        let mut page = pages.get(&number).cloned().unwrap_or_else(|| {
            let from = (number as usize).saturating_sub(1).saturating_mul(page_bytes).min(data.len());
            data[from..data.len().min(from + page_bytes)].to_vec()
        });
        page.resize(page_bytes, 0);
        page
    };
    let (mut at, mut number) = (1, 0u32);
    varint(payload, &mut at);
    let count = varint(payload, &mut at);
    // Of large transactions the sums are left as they are: the memory of an input is for its recovery.
    if page_bytes.saturating_mul(count as usize) > MOST_SEALED {
        return;
    }
    for _ in 0..count.min(64) {
        number = number.wrapping_add(varint(payload, &mut at));
        let kind = varint(payload, &mut at);
        let mut page = old(pages, number);
        if kind & 1 == 1 {
            put(payload, at, &page_sum(&page).to_le_bytes());
            at += 4;
        }
        let (sum_at, body_at) = (at, at + 4);
        at = body_at.saturating_add((kind >> 2) as usize);
        if kind & 3 == 0 {
            page.fill(0);
        }
        if kind & 3 < 2
            && let Some(body) = payload.get(body_at..at)
            && ranges(body, &mut page).is_some()
        {
            put(payload, sum_at, &page_sum(&page).to_le_bytes());
        }
    }
    let Some(delta) = decode(payload) else { return };
    let mut changed = Vec::new();
    let applied = delta.apply(
        |number, page| {
            page.copy_from_slice(&old(pages, number));
            Ok::<(), ()>(())
        },
        |number, page| {
            changed.push((number, page.to_vec()));
            Ok(())
        },
    );
    if applied.is_ok() {
        pages.extend(changed);
    }
}

/// Writes the ranges of a body into a page.
fn ranges(body: &[u8], page: &mut [u8]) -> Option<()> {
    let (mut at, mut end) = (0, 0usize);
    while at < body.len() {
        let start = end + varint(body, &mut at) as usize;
        let length = varint(body, &mut at) as usize;
        end = start + length;
        page.get_mut(start..end)?.copy_from_slice(body.get(at..at + length)?);
        at += length;
    }
    Some(())
}

/// A page of the database: page 1 with the head of a database in WAL mode, or with a rollback journal.
fn page(number: u32, version: u8, wal_mode: bool) -> Vec<u8> {
    let mut page: Vec<u8> = (0..PAGE).map(|at| (at as u8).wrapping_mul(31) ^ number as u8).collect();
    page[200..220].fill(version);
    if number == 1 {
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
        page[18..24].copy_from_slice(&[1 + u8::from(wal_mode), 1 + u8::from(wal_mode), 0, 64, 32, 32]);
    }
    page
}

/// A medium with a database of four pages.
fn database(wal_mode: bool) -> (SimMedium, DataFile) {
    let medium = SimMedium::new();
    let file = medium.open(Path::new(DATABASE), FileKind::Database, OpenMode::Create).expect("it opens");
    let pages: Vec<u8> = (1..=4).flat_map(|number| page(number, 0, wal_mode)).collect();
    file.write_at(&pages, 0).expect("it can be written");
    let data = DataFile { path: DATABASE.into(), content: file.clone(), file };
    (medium, data)
}

/// Appends a transaction to the redo log: pages and their versions, behind pages that are in the data file already.
fn append(redo: &mut RedoLog, pages: &[(u32, u8)], early: &[EarlyPage], size: u32, wal_mode: bool) {
    let page_numbers: Vec<u32> = pages.iter().map(|(number, _)| *number).collect();
    let transaction = Transaction {
        slots: &[],
        early,
        page_numbers: &page_numbers,
        page_bytes: PAGE as u32,
        database_pages: size,
    };
    let mut copy = |index: usize, out: &mut [u8]| {
        out.copy_from_slice(&page(pages[index].0, pages[index].1, wal_mode));
        Ok(())
    };
    redo.append(&transaction, &mut copy, Durability::Durable).expect("it can be written");
}

/// Three transactions as deltas: pages that change, one that moves into another, and one more at the end.
fn deltas() -> Vec<Record> {
    let pages: Vec<[Vec<u8>; 3]> =
        (1..=5).map(|number| [0, 1, 2].map(|version| page(number, version, true))).collect();
    let change = |number: u32, before: usize, after: usize| {
        let [old, new] = [before, after].map(|version| pages[number as usize - 1][version].as_slice());
        ChangedPage { number, before: Some(old), before_sum: None, after: new }
    };
    let moved = [&pages[1][1][..256], &pages[2][0][..256]].concat();
    let transactions = [
        (4, vec![change(1, 0, 1), change(2, 0, 1)]),
        (
            4,
            vec![
                change(1, 1, 2),
                ChangedPage { number: 2, before: Some(&pages[1][1]), before_sum: None, after: &moved },
            ],
        ),
        (
            5,
            vec![
                change(3, 0, 1),
                ChangedPage { number: 5, before: None, before_sum: None, after: &pages[4][1] },
            ],
        ),
    ];
    let encode = |(size, pages): &(u32, Vec<ChangedPage<'_>>)| {
        let mut payload = Vec::new();
        let encoded = Encoder::default().encode(PAGE, *size, pages, usize::MAX, &mut payload);
        assert!(encoded.is_some(), "it can be encoded");
        Record { kind: DELTA, payload }
    };
    transactions.iter().map(encode).collect()
}

/// A transaction that makes pages of 64 KiB, all of them zeros.
fn zeros(numbers: std::ops::RangeInclusive<u32>) -> Vec<u8> {
    let page = vec![0; 1 << 16];
    let pages: Vec<ChangedPage<'_>> =
        numbers.map(|number| ChangedPage { number, before: None, before_sum: None, after: &page }).collect();
    let mut payload = Vec::new();
    let encoded = Encoder::default().encode(1 << 16, pages.len() as u32, &pages, usize::MAX, &mut payload);
    assert!(encoded.is_some(), "it can be encoded");
    payload
}

/// A commit log with records upon `base`, the last of them in a block of its own.
fn commit_log(medium: &SimMedium, base: impl Fn(&CommitLog) -> Base, records: &[Record]) {
    let shared: Arc<dyn Medium> = Arc::new(medium.clone());
    let mut log = CommitLog::open(shared, Path::new(COMMITS), Arc::default()).expect("it can be made");
    let bytes = CommitLog::bytes_of(records.iter().map(|record| record.payload.len()));
    log.reserve(8192 + bytes.next_multiple_of(4096)).expect("there is room");
    log.begin(base(&log));
    let (first, last) = records.split_at(records.len() - 1);
    log.append(first, Durability::Durable).expect("it can be written");
    log.stage(last, true).expect("it can be gone on with").write().expect("it can be written");
}

fn seeds() -> Vec<Vec<u8>> {
    fastrand::seed(1);
    // Without the space that is reserved: an input has a limit.
    let used = |medium: &SimMedium, path| {
        let mut bytes = file(medium, path);
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(PAGE));
        bytes
    };
    let joined =
        |medium: &SimMedium| join(&used(medium, COMMITS), &join(&used(medium, WAL), &file(medium, DATABASE)));
    let input = |medium: &SimMedium| {
        let mut bytes = joined(medium);
        seal(&mut bytes);
        bytes
    };
    let open = |medium: &SimMedium, data: &DataFile| {
        let medium = Arc::new(medium.clone());
        RedoLog::open_of(medium, Path::new(WAL), Arc::default(), data.clone()).expect("it opens")
    };
    let delta_base = |data: &DataFile, log: &CommitLog| {
        let stamp = data.file.set_stamp().expect("it has a stamp");
        let origin = log.origin(data).expect("it has an origin").expect("there is a log");
        Base::Deltas(DeltaBase { stamp, origin })
    };
    let mut seeds = vec![Vec::new()];
    // Deltas wait, alone or behind their pages.
    for materialized in [false, true] {
        let (medium, data) = database(true);
        let mut records = deltas();
        if materialized {
            drop(records.remove(1));
        }
        commit_log(&medium, |log| delta_base(&data, log), &records);
        if materialized {
            append(&mut open(&medium, &data), &[(1, 1), (2, 1), (3, 1), (5, 1)], &[], 5, true);
        }
        seeds.push(input(&medium));
    }
    // Six bytes of the log are a page of 64 KiB, and again.
    let (medium, data) = database(true);
    let record = Record { kind: DELTA, payload: zeros(1..=400) };
    commit_log(&medium, |log| delta_base(&data, log), &[record.clone(), record]);
    seeds.push(input(&medium));
    // Pages wait, in either journal mode; some of them were written early.
    for wal_mode in [true, false] {
        let (medium, data) = database(wal_mode);
        let mut redo = open(&medium, &data);
        append(&mut redo, &[(1, 1), (2, 1)], &[], 4, wal_mode);
        let new: Vec<u8> = (5..=7).flat_map(|number| page(number, 3, wal_mode)).collect();
        data.file.write_at(&new, 4 * PAGE as u64).expect("it can be written");
        let early = early_pages(&*data.file, &[5, 6, 7], PAGE as u32).expect("it can be read");
        append(&mut redo, &[(1, 2)], &early, 7, wal_mode);
        append(&mut redo, &[(6, 4)], &[], 7, wal_mode);
        seeds.push(input(&medium));
    }
    // Statements wait upon a redo log.
    let (medium, data) = database(true);
    let mut redo = open(&medium, &data);
    append(&mut redo, &[(1, 1)], &[], 4, true);
    let (salts, frames) = (redo.salts().expect("it has a header"), redo.frames());
    drop(redo);
    let statement = Record { kind: 1, payload: b"\x07\x03INSERT INTO t VALUES(?1, ?2)".to_vec() };
    let base = Base::Statements(StatementBase { salts, frames, writer: Writer::default() });
    commit_log(&medium, |_| base, &[statement.clone(), statement]);
    seeds.push(joined(&medium));
    seeds
}
