//! Cuts at places that random ones rarely hit.
//!
//! **A journal that is about to become real.** A transaction over two databases writes its journal to a file, the header last. Between the header and the sync
//! after it the records must be safe already. SQLite's checksum of a record samples one byte in 200, so a torn one is
//! rolled back unnoticed.
//!
//! **The first write of a generation of statements.** It lies over the records of the generation before. The header of that one
//! must not come back beside a part of its records: the one that announces the materialization may be missing.

use super::readers::Readers;
use super::verify::{self, Reader, Verdict};
use super::workload::{Journal, Recording, RunSetup};
use litefoot_sim::{Faults, Random, SyncSite};
use litefoot_storage::file::FileKind;

/// Cuts made at each such place.
const CUTS: usize = 60;

/// Cuts behind every header of a journal, and behind so many operations in all; returns what came of it, and how many cuts were made.
fn cut_behind_headers(seed: u64, tier: bool, operations: usize, faults: Faults) -> (Option<String>, u64) {
    let setup = RunSetup {
        seed,
        journal: Journal::Rollback,
        pass_through: false,
        faults,
        atomic_write_bytes: 0,
        tier,
        visitors: false,
    };
    let recording = Recording::make(&setup).unwrap();
    assert!(recording.has_several_files());
    let readers = Readers::new().unwrap();
    let mut replay = recording.medium().replay();
    let mut random = Random::new(seed);
    let (mut cuts, mut left) = (0, 0);
    for point in 0..replay.len() {
        left =
            if is_header(&replay.describe(point..point + 1)) { operations } else { left.saturating_sub(1) };
        if left == 0 {
            continue;
        }
        replay.advance(point + 1);
        let expected = recording.expected(point + 1);
        for _ in 0..CUTS.div_ceil(operations) {
            cuts += 1;
            let image = replay.cut(&mut random);
            let verdict = verify::check(&readers, &image, Reader::Litefoot, &expected).unwrap();
            if let Verdict::Lost(what) | Verdict::Corrupt(what) = verdict {
                return (Some(format!("seed {seed}, behind operation {point}: {what}")), cuts);
            }
        }
    }
    (None, cuts)
}

/// True if the operation writes a journal's first sector.
fn is_header(operation: &str) -> bool {
    operation.contains("write journal") && operation.contains(" 0 +512")
}

#[test]
fn a_journal_that_becomes_real_is_whole_before_its_header() {
    let mut cuts = 0;
    for seed in (0..5).map(|number| 8 * number) {
        let (failure, made) = cut_behind_headers(seed, false, 1, Faults::default());
        assert_eq!(failure, None);
        cuts += made;
    }
    assert!(cuts > 500, "only {cuts} cuts: the workload has no such transactions any more");
    let unsynced = Faults::ignoring(SyncSite::File(FileKind::Journal), None);
    let noticed =
        (0..40).any(|number| cut_behind_headers(8 * number, false, 1, unsynced.clone()).0.is_some());
    assert!(noticed, "without the sync before the header nothing went wrong");
}

/// A connection in exclusive mode keeps the journal of a transaction over two databases, and begins later ones in it. Here the file has
/// given chunks to its tier meanwhile.
#[test]
fn a_journal_that_was_kept_is_hot_only_beside_a_file_that_has_all_its_chunks() {
    // In the last one the journal was hot before, and rolled back.
    for seed in [97, 337, 51_001_056] {
        let (failure, made) = cut_behind_headers(seed, true, 20, Faults::default());
        assert_eq!(failure, None);
        assert!(made > 0, "{seed}");
    }
}

/// Cuts in the first write of each generation in the commit log; returns what came of it, and how many cuts were made.
fn cut_in_first_writes(seed: u64, tier: bool) -> (Option<String>, u64) {
    let setup = RunSetup {
        seed,
        journal: Journal::Wal,
        pass_through: false,
        faults: Faults::default(),
        atomic_write_bytes: 0,
        tier,
        visitors: false,
    };
    let recording = Recording::make(&setup).unwrap();
    let readers = Readers::new().unwrap();
    let mut replay = recording.medium().replay();
    let mut random = Random::new(seed);
    let mut cuts = 0;
    for point in 0..replay.len() {
        if !is_first_write(&replay.describe(point..point + 1)) {
            continue;
        }
        for number in 0..CUTS {
            cuts += 1;
            // Before it, a durable write is on its way.
            let point = point + usize::from(number >= CUTS / 2);
            replay.advance(point);
            let expected = recording.expected(point);
            let image = replay.cut(&mut random);
            let verdict = verify::check(&readers, &image, Reader::Litefoot, &expected).unwrap();
            if let Verdict::Lost(what) | Verdict::Corrupt(what) = verdict {
                return (Some(format!("seed {seed}, behind operation {point}: {what}")), cuts);
            }
        }
    }
    (None, cuts)
}

/// True if the operation writes a commit log's header, and records behind it.
fn is_first_write(operation: &str) -> bool {
    let Some((write, len)) = operation.trim_end().rsplit_once(" 0 +") else { return false };
    write.contains("commit_log") && len.parse().is_ok_and(|len: usize| len > 512)
}

/// In the last two, such a cut left a part of the records without the one that announces the materialization. Opening refused
/// the log, as one of another time.
#[test]
fn a_generation_of_statements_begins_where_the_one_before_is_over_durably() {
    let mut cuts = 0;
    for (seed, tier) in [(2, false), (2, true), (39, true), (50_002_014, true)] {
        let (failure, made) = cut_in_first_writes(seed, tier);
        assert_eq!(failure, None);
        cuts += made;
    }
    assert!(cuts > 1000, "only {cuts} cuts: the workload has no such generations any more");
}
