//! The tiered file against a plain one; power cuts and failures have files of their own.

mod failures;
mod power;
mod refused;

use super::devices::Barrier;
use super::format::{CHUNK_BYTES, HEADER_BYTES, Mark, device_bytes};
use super::policy::{Period, PolicyKind, Transactions};
use super::{Config, Error, TieredFile};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Operation, SECTOR_BYTES};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FLASH: &str = "/app.db";
const TIER: &str = "/nvram";
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of a database, of which only the magic matters.
fn content(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|index| (index / 7 % 251) as u8).collect();
    bytes[..16].copy_from_slice(MAGIC);
    bytes
}

fn medium(len: usize) -> (SimMedium, Arc<dyn Medium>) {
    let sim = SimMedium::with_files([(PathBuf::from(FLASH), FileKind::Database, content(len))]);
    (sim.clone(), Arc::new(sim))
}

fn flash(medium: &Arc<dyn Medium>) -> Arc<dyn File> {
    medium.open(Path::new(FLASH), FileKind::Database, OpenMode::ReadWrite).unwrap()
}

fn open_with(medium: &Arc<dyn Medium>, config: &Config) -> super::Result<Arc<TieredFile>> {
    TieredFile::open(flash(medium), medium, Path::new(TIER), config)
}

/// Few slots, and chunks that move soon.
fn config(slots: u32, kind: PolicyKind) -> Config {
    let period = Period { transactions: 1, history: 2 };
    Config { bytes: device_bytes(slots), kind, period, wear_gap: 3, ..Config::default() }
}

fn all_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn raw(sim: &SimMedium, path: &str) -> Vec<u8> {
    sim.files().into_iter().find(|(name, _, _)| name == Path::new(path)).unwrap().2
}

fn mark_in(flash: &[u8]) -> bool {
    let sector = flash.first_chunk::<HEADER_BYTES>();
    sector.is_some_and(|sector| matches!(Mark::decode(sector), super::format::Decoded::Valid(_)))
}

/// One thing done to a file.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>, bool),
    SetLen(u64),
    Allocate(u64),
    Sync,
    Stamp,
    Drain,
    Reopen,
    Lend,
    TakeBack,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Write(at, bytes, durable) => write!(f, "write {at} +{} durable: {durable}", bytes.len()),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A step by chance, on a file of `len` bytes; most writes go to few places.
fn step(random: &mut Random, len: u64) -> Step {
    match random.below(40) {
        0..=27 => {
            let far = if random.one_in(4) { len + 1500 } else { (4 * CHUNK_BYTES as u64).min(len) };
            let (at, bytes) = if random.one_in(2) {
                (random.below(far) / 512 * 512, 512 << random.below(5))
            } else {
                (random.below(far), 1 + random.below(3000))
            };
            let byte = random.below(255) as u8;
            let bytes = (0..bytes).map(|index| byte ^ (index / 100) as u8).collect();
            Step::Write(at, bytes, random.one_in(8))
        }
        28 => Step::SetLen(if random.one_in(3) { len + random.below(5000) } else { random.below(len + 1) }),
        29 => Step::Allocate(random.below(len + 3000)),
        30 if random.one_in(3) => Step::Drain,
        31 => Step::Reopen,
        32 if random.one_in(2) => Step::Lend,
        33 => Step::TakeBack,
        34 | 35 => Step::Stamp,
        _ => Step::Sync,
    }
}

fn apply(step: &Step, plain: &mut Vec<u8>) {
    match step {
        Step::Write(at, bytes, _) => {
            let end = *at as usize + bytes.len();
            if plain.len() < end {
                plain.resize(end, 0);
            }
            plain[*at as usize..end].copy_from_slice(bytes);
        }
        Step::SetLen(len) => plain.resize(*len as usize, 0),
        Step::Allocate(len) => plain.resize(plain.len().max(*len as usize), 0),
        Step::Sync | Step::Stamp | Step::Drain | Step::Reopen | Step::Lend | Step::TakeBack => {}
    }
}

/// Tells of a commit in a log, which the next checkpoint brings into the file.
fn note_commit(file: &TieredFile, at: u64, bytes: usize) {
    let pages = at / 512 + 1..=(at + bytes as u64).div_ceil(512);
    file.note_commit(pages.map(|page| page as u32), 512);
}

fn perform(
    step: &Step,
    file: &mut Option<Arc<TieredFile>>,
    medium: &Arc<dyn Medium>,
    config: &Config,
) -> super::Result<()> {
    let open = file.clone().unwrap();
    match step {
        // Another process does.
        Step::Write(at, bytes, false) if open.is_lent() && at % 2 == 0 => {
            flash(medium).write_at(bytes, *at)?
        }
        Step::Write(at, bytes, false) => {
            note_commit(&open, *at, bytes.len());
            open.write_at(bytes, *at)?;
        }
        Step::Write(at, bytes, true) => {
            note_commit(&open, *at, bytes.len());
            let (first, second) = bytes.split_at(bytes.len() / 2);
            open.write_durable_at(&[IoSlice::new(first), IoSlice::new(second)], *at)?;
        }
        Step::SetLen(len) => open.set_len(*len)?,
        Step::Allocate(len) => open.allocate(*len)?,
        Step::Sync => open.sync()?,
        Step::Stamp => _ = open.set_stamp()?,
        Step::Drain => open.drain()?,
        Step::Lend => open.lend()?,
        Step::TakeBack => open.take_back()?,
        Step::Reopen => {
            drop((open, file.take()));
            *file = Some(open_with(medium, config)?);
        }
    }
    Ok(())
}

#[test]
fn it_agrees_with_a_plain_file() {
    let mut moved = (0, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let kind = if seed % 3 == 0 { PolicyKind::Lru } else { PolicyKind::Ewma };
        let transactions = if seed % 3 == 1 { Transactions::Synced } else { Transactions::Told };
        let config = Config { transactions, ..config(4 + random.below(14) as u32, kind) };
        let mut plain = content(1 + 16 + random.below(40_000) as usize);
        let (sim, medium) = medium(plain.len());
        let mut file = Some(open_with(&medium, &config).unwrap());
        for number in 0..150 {
            let step = step(&mut random, plain.len() as u64);
            apply(&step, &mut plain);
            perform(&step, &mut file, &medium, &config).unwrap();
            let open = file.as_ref().unwrap();
            assert!(all_of(&**open) == plain, "seed {seed}, step {number}: {step:?}");
            let flash = raw(&sim, FLASH);
            assert_eq!(mark_in(&flash), open.away() > 0, "seed {seed}, step {number}: {step:?}");
            assert!(mark_in(&flash) || flash == plain);
            assert_eq!(flash.len(), plain.len());
        }
        let file = file.unwrap();
        let done = file.statistics();
        moved = (moved.0 + done.moved_in, moved.1 + done.moved_home, moved.2 + done.changed_slot);
        file.drain().unwrap();
        assert!(raw(&sim, FLASH) == plain, "seed {seed}");
    }
    assert!(moved.0 > 1000 && moved.1 > 500 && moved.2 > 500, "{moved:?}");
}

#[test]
fn parts_of_a_buffer_are_read_and_the_end_is_short() {
    let (_, medium) = medium(10_000);
    let file = open_with(&medium, &config(4, PolicyKind::Lru)).unwrap();
    file.write_at(&[7; 3000], 3000).unwrap();
    let mut bytes = [0; 5000];
    assert_eq!(file.read_at(&mut bytes, 2000).unwrap(), 5000);
    assert_eq!((bytes[999], bytes[1000], bytes[3999]), (content(10_000)[2999], 7, 7));
    assert_eq!(
        (file.read_at(&mut bytes, 9_990).unwrap(), file.read_at(&mut bytes, 10_000).unwrap()),
        (10, 0)
    );
    assert_eq!(file.read_at(&mut bytes, u64::MAX).unwrap(), 0);
}

/// The file's length, on whichever device its end lies, and a number that only a write changes; everything is durable.
#[test]
fn a_stamp_is_of_both_devices() {
    let (sim, medium) = medium(100 * CHUNK_BYTES);
    let config = config(4, PolicyKind::Lru);
    let file = open_with(&medium, &config).unwrap();
    assert_eq!(file.set_stamp().unwrap().modified, flash(&medium).stamp().unwrap().modified, "it is plain");
    let mut stamps = Vec::new();
    for round in 0..10 {
        file.write_at(&[round; 100], 5 * CHUNK_BYTES as u64).unwrap();
        file.write_at(&[round; 100], (100 * CHUNK_BYTES) as u64 + 100 * u64::from(round)).unwrap();
        assert!(!stamps.contains(&file.stamp().unwrap()));
        let stamp = file.set_stamp().unwrap();
        assert_eq!((stamp, stamp.len), (file.stamp().unwrap(), file.len().unwrap()));
        assert!(!stamps.contains(&stamp));
        stamps.push(stamp);
    }
    assert!(file.away() > 0);
    let (expected, stamp) = (all_of(&*file), file.stamp().unwrap());
    let mut lost = sim.cut(&mut Random::new(1));
    // Each opening writes both files, and brings no change.
    for _ in 0..3 {
        let file = open_with(&(Arc::new(lost.clone()) as Arc<dyn Medium>), &config).unwrap();
        assert!(all_of(&*file) == expected && file.stamp().unwrap() == stamp);
        lost = lost.cut(&mut Random::new(2));
    }
    type Change = fn(&TieredFile) -> litefoot_storage::file::Result<()>;
    let changes: [Change; 3] =
        [|file| file.write_at(&[1], 7), |file| file.set_len(3000), |file| file.allocate(1 << 20)];
    for change in changes {
        let file = open_with(&(Arc::new(lost.clone()) as Arc<dyn Medium>), &config).unwrap();
        change(&file).unwrap();
        assert_ne!(file.stamp().unwrap().modified, stamp.modified);
    }
}

/// While a pair is lent its device is anybody's, and its file as well.
#[test]
fn a_pair_that_is_lent_is_the_file_alone_until_it_is_taken_back() {
    let (sim, medium) = medium(20 * CHUNK_BYTES);
    let config = config(8, PolicyKind::Lru);
    let file = open_with(&medium, &config).unwrap();
    file.write_at(&[7; 5000], 5 * CHUNK_BYTES as u64).unwrap();
    assert!(file.away() > 0 && mark_in(&raw(&sim, FLASH)));
    file.lend().unwrap();
    file.lend().unwrap();
    assert!(file.is_lent() && file.away() == 0 && raw(&sim, FLASH) == all_of(&*file));
    // Another process: it cuts the file, writes it, and has the device for a while.
    let others = flash(&medium);
    others.set_len(3000).unwrap();
    others.write_at(&[9; 100], 4000).unwrap();
    assert_eq!((file.len().unwrap(), file.stamp().unwrap().len), (4100, 4100));
    assert!(raw(&sim, FLASH) == all_of(&*file) && !file.leave().unwrap());
    let borrower = open_with(&medium, &config).unwrap();
    borrower.write_at(&[3; 100], 2100).unwrap();
    assert!(matches!(file.take_back(), Err(Error::InUse { .. })) && file.is_lent());
    drop(borrower);
    file.take_back().unwrap();
    assert!(!file.is_lent() && file.away() > 0, "the borrower has left some away");
    assert_eq!((all_of(&*file)[2100], all_of(&*file)[4099], file.len().unwrap()), (3, 9, 4100));
    assert!(file.activity().moved_home > 0, "what was counted before is counted still");
    file.lend().unwrap();
    file.write_at(&[1; 10], 0).unwrap();
    file.set_len(2000).unwrap();
    file.allocate(2500).unwrap();
    file.sync().unwrap();
    let lost = sim.cut(&mut Random::new(1));
    assert!(raw(&lost, FLASH) == all_of(&*file) && all_of(&*file).len() == 2500);
}

/// A hot chunk of the paper's policy is written to flash until it is marked, and no more afterwards.
#[test]
fn hot_chunks_stop_writing_to_flash() {
    let (_, medium) = medium(100 * CHUNK_BYTES);
    let config = Config { bytes: device_bytes(32), ..Config::default() };
    let file = open_with(&medium, &config).unwrap();
    let mut writes = Vec::new();
    for transaction in 0..30_u64 {
        file.write_at(&[transaction as u8; 100], 5 * CHUNK_BYTES as u64).unwrap();
        file.sync().unwrap();
        writes.push(file.statistics().flash_writes);
    }
    assert_eq!(writes[4..], [5; 26]);
    // Chunk 0 is away with it.
    assert_eq!((file.away(), file.statistics().tier_writes), (2, 25 + 2));
}

/// Under a log each checkpoint writes a hot chunk once, and with the first one it is away already.
#[test]
fn chunks_that_commits_have_changed_stop_writing_to_flash_with_the_first_checkpoint() {
    let (_, medium) = medium(100 * CHUNK_BYTES);
    let open = |transactions| {
        let kind = if transactions == Transactions::Told { PolicyKind::Ewma } else { PolicyKind::None };
        let config = Config { bytes: device_bytes(32), transactions, kind, ..Config::default() };
        open_with(&medium, &config).unwrap()
    };
    for (transactions, expected) in [(Transactions::Told, (2, 0)), (Transactions::Synced, (1, 30))] {
        let file = open(transactions);
        file.leave().unwrap();
        for checkpoint in 0..30_u64 {
            // Pages of 1,024 bytes: chunk 5.
            (0..100).for_each(|_| file.note_commit([11, 12].into_iter(), 1024));
            file.write_at(&[checkpoint as u8; 100], 5 * CHUNK_BYTES as u64).unwrap();
            file.sync().unwrap();
        }
        // Chunk 0 is away with it. Where no chunk leaves by itself, it alone is.
        assert_eq!((file.away(), file.statistics().flash_writes), expected);
        file.drain().unwrap();
    }
}

/// Its other part would be written to flash all the same, and once more when the chunk comes home.
#[test]
fn a_chunk_of_which_a_part_went_to_flash_goes_there_whole() {
    let (_, medium) = medium(8 * CHUNK_BYTES);
    let file = open_with(&medium, &config(16, PolicyKind::Lru)).unwrap();
    file.leave().unwrap();
    let half = CHUNK_BYTES as u64 / 2;
    let write = |page: u64| {
        file.write_at(&[7; CHUNK_BYTES / 2], page * half).unwrap();
        let seen = file.statistics();
        (seen.moved_in, seen.flash_bytes)
    };
    // Page 16 extends the file, so it cannot leave; page 17 is in the same chunk.
    assert_eq!([write(16), write(17)], [(1, half), (1, 2 * half)]);
    file.sync().unwrap();
    assert_eq!([write(17), write(16)], [(2, 2 * half); 2]);
}

#[test]
fn a_full_tier_goes_on_and_wear_is_spread() {
    let (sim, medium) = medium(64 * CHUNK_BYTES);
    let config = Config { wear_gap: 16, ..config(16, PolicyKind::Lru) };
    let file = open_with(&medium, &config).unwrap();
    let mut random = Random::new(3);
    for number in 0..20_000_u64 {
        let chunk = if random.one_in(50) { random.below(64) } else { 1 + random.below(2) };
        file.write_at(&[number as u8; CHUNK_BYTES], chunk * CHUNK_BYTES as u64).unwrap();
        if random.one_in(3) {
            file.sync().unwrap();
        }
    }
    let done = file.statistics();
    assert_eq!((done.slots, done.away), (16, 15));
    let (least, most) = (done.slot_writes.iter().min().unwrap(), done.slot_writes.iter().max().unwrap());
    assert!(most - least < 200, "{:?}", done.slot_writes);
    // Levelling costs less than a tenth.
    assert!(done.changed_slot * 10 < done.tier_writes, "{done:?}");
    // And it is remembered.
    let expected = all_of(&*file);
    file.drain().unwrap();
    drop(file);
    assert!(raw(&sim, FLASH) == expected);
    let file = open_with(&medium, &config).unwrap();
    assert_eq!(file.statistics().slot_writes, done.slot_writes);
}

/// A chunk is always read as one write has left it, wherever it is at that moment.
#[test]
fn threads_read_while_chunks_move() {
    const CHUNKS: u64 = 24;
    let (_, medium) = medium(CHUNKS as usize * CHUNK_BYTES);
    let file = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
    for chunk in 0..CHUNKS {
        file.write_at(&[0; CHUNK_BYTES], chunk * CHUNK_BYTES as u64).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (file, done) = (&file, &done);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut bytes = [0; CHUNK_BYTES];
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let at = random.below(CHUNKS) * CHUNK_BYTES as u64;
                    assert_eq!(file.read_at(&mut bytes, at).unwrap(), CHUNK_BYTES);
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                }
            });
        }
        let mut random = Random::new(9);
        for number in 0..2000_u64 {
            let chunk = random.below(CHUNKS);
            file.write_at(&[number as u8; CHUNK_BYTES], chunk * CHUNK_BYTES as u64).unwrap();
            match number % 100 {
                99 => file.drain().unwrap(),
                _ if random.one_in(5) => file.sync().unwrap(),
                _ => {}
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(file.statistics().moved_home > 100);
}
