use super::*;
use litefoot_storage::file::{ErrorKind, LeaseAnswer, OnBreak, RangeLock};
use proptest::prelude::*;
use std::io::IoSlice;

const SECTOR: usize = litefoot_storage::file::SECTOR_BYTES;

fn open(medium: &SimMedium, path: &str) -> Arc<dyn File> {
    medium.open(Path::new(path), FileKind::Database, OpenMode::Create).unwrap()
}

fn content(medium: &SimMedium, path: &str) -> Option<Vec<u8>> {
    medium.files().into_iter().find(|(name, _, _)| name == Path::new(path)).map(|(_, _, bytes)| bytes)
}

/// Enough to see every outcome; an interpreter takes a second for each.
const CUTS: u64 = if cfg!(miri) { 40 } else { 400 };

/// The outcomes of many cuts of the medium as it is.
fn outcomes(medium: &SimMedium, path: &str) -> std::collections::BTreeSet<Option<Vec<u8>>> {
    (0..CUTS).map(|seed| content(&medium.cut(&mut Random::new(seed)), path)).collect()
}

#[test]
fn what_was_synced_survives_and_what_was_not_may() {
    let medium = SimMedium::new();
    let file = open(&medium, "/a");
    file.write_at(b"one", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&medium, "/a"), [None, Some(b"one".to_vec())].into());
    medium.sync_directory(Path::new("/")).unwrap();
    assert_eq!(outcomes(&medium, "/a"), [Some(b"one".to_vec())].into());
    file.write_at(b"two", 0).unwrap();
    assert_eq!(outcomes(&medium, "/a"), [Some(b"one".to_vec()), Some(b"two".to_vec())].into());
}

#[test]
fn sectors_are_torn_apart_and_keep_any_version() {
    let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![0; 2 * SECTOR])]);
    let file = open(&medium, "/a");
    for version in 1..=2u8 {
        file.write_at(&[version; 2 * SECTOR], 0).unwrap();
    }
    let seen: std::collections::BTreeSet<(u8, u8)> = outcomes(&medium, "/a")
        .into_iter()
        .flatten()
        .inspect(|bytes| assert!(bytes.chunks(SECTOR).all(|sector| sector.iter().all(|b| *b == sector[0]))))
        .map(|bytes| (bytes[0], bytes[SECTOR]))
        .collect();
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn a_durable_write_covers_its_own_sectors_only() {
    let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![0; 3 * SECTOR])]);
    let file = open(&medium, "/a");
    file.write_at(&[1; 3 * SECTOR], 0).unwrap();
    file.write_durable_at(&[IoSlice::new(&[2; 10])], SECTOR as u64).unwrap();
    let seen: std::collections::BTreeSet<(u8, u8, u8, u8)> = outcomes(&medium, "/a")
        .into_iter()
        .flatten()
        .map(|bytes| (bytes[0], bytes[SECTOR], bytes[SECTOR + 10], bytes[2 * SECTOR]))
        .collect();
    assert_eq!(seen, [(0, 2, 1, 0), (0, 2, 1, 1), (1, 2, 1, 0), (1, 2, 1, 1)].into());
}

#[test]
fn deleted_files_come_back_and_renames_may_not_have_happened() {
    let files = ["/a", "/b"].map(|path| (PathBuf::from(path), FileKind::Database, path.as_bytes().to_vec()));
    let medium = SimMedium::with_files(files);
    medium.delete(Path::new("/a")).unwrap();
    assert_eq!(outcomes(&medium, "/a"), [None, Some(b"/a".to_vec())].into());
    medium.sync_directory(Path::new("/")).unwrap();
    assert_eq!(outcomes(&medium, "/a"), [None].into());
    medium.rename(Path::new("/b"), Path::new("/a")).unwrap();
    for seed in 0..100 {
        let cut = medium.cut(&mut Random::new(seed));
        let both = (content(&cut, "/a"), content(&cut, "/b"));
        assert!(both == (None, Some(b"/b".to_vec())) || both == (Some(b"/b".to_vec()), None), "{both:?}");
    }
}

#[test]
fn lengths_are_lost_with_or_without_the_data() {
    let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![7; 2 * SECTOR])]);
    let file = open(&medium, "/a");
    file.set_len(0).unwrap();
    file.write_at(&[8; SECTOR], 0).unwrap();
    let lengths: std::collections::BTreeSet<usize> =
        outcomes(&medium, "/a").into_iter().flatten().map(|bytes| bytes.len()).collect();
    assert_eq!(lengths, [0, SECTOR, 2 * SECTOR].into());
}

/// A file that was cut and extended again, and kept its old length, keeps its old bytes.
#[test]
fn a_cut_that_did_not_happen_leaves_no_zeros() {
    let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![7; 8 * SECTOR])]);
    let file = open(&medium, "/a");
    file.set_len(100).unwrap();
    file.set_len(SECTOR as u64 + 1).unwrap();
    for bytes in outcomes(&medium, "/a").into_iter().flatten().filter(|bytes| bytes.len() == 8 * SECTOR) {
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_stamp_is_unlike_those_of_all_changes() {
    let medium = SimMedium::new();
    let (file, other) = (open(&medium, "/a"), open(&medium, "/b"));
    let mut seen = std::collections::HashSet::new();
    for round in 0..40u64 {
        let set = file.set_stamp().unwrap();
        assert!(seen.insert(set.modified));
        assert_eq!(file.stamp().unwrap(), set);
        match round % 4 {
            0 => file.write_at(b"x", 0).unwrap(),
            1 => file.write_durable_at(&[IoSlice::new(b"y")], 0).unwrap(),
            2 => file.set_len(set.len).unwrap(),
            _ => file.allocate(round).unwrap(),
        }
        let changed = file.stamp().unwrap();
        assert!(changed.modified != set.modified, "{round}");
        assert!(!seen.contains(&changed.modified) || changed.modified % 2 == 0);
        other.write_at(b"z", 0).unwrap();
        assert_eq!(file.stamp().unwrap(), changed);
    }
    // Changes within one tick leave the same time.
    let ticks: std::collections::HashSet<i128> = (0..16)
        .map(|byte| {
            file.write_at(&[byte], 0).unwrap();
            file.stamp().unwrap().modified
        })
        .collect();
    assert!((2..=3).contains(&ticks.len()), "{ticks:?}");
}

#[test]
fn only_a_set_stamp_makes_the_time_durable() {
    let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![0; 3])]);
    let file = open(&medium, "/a");
    let times = |medium: &SimMedium| -> std::collections::BTreeSet<i128> {
        (0..CUTS)
            .map(|seed| open(&medium.cut(&mut Random::new(seed)), "/a").stamp().unwrap().modified)
            .collect()
    };
    let first = file.set_stamp().unwrap().modified;
    assert_eq!(times(&medium), [first].into());
    file.write_at(b"one", 0).unwrap();
    let written = file.stamp().unwrap().modified;
    file.sync().unwrap();
    file.write_durable_at(&[IoSlice::new(b"two")], 0).unwrap();
    assert_eq!(times(&medium), [first, written].into());
    // Data written before the stamp is durable with it.
    file.write_at(b"six", 0).unwrap();
    let second = file.set_stamp().unwrap().modified;
    assert_eq!(times(&medium), [second].into());
    assert_eq!(outcomes(&medium, "/a"), [Some(b"six".to_vec())].into());
    // Without its sync, the stamp is one of the times and the data may be lost.
    medium.set_faults(Faults::ignoring(SyncSite::File(FileKind::Database), None));
    file.write_at(b"ten", 0).unwrap();
    let between = file.stamp().unwrap().modified;
    let third = file.set_stamp().unwrap().modified;
    assert_eq!(times(&medium), [second, between, third].into());
    assert_eq!(outcomes(&medium, "/a"), [Some(b"six".to_vec()), Some(b"ten".to_vec())].into());
    // The clock of the medium after a cut goes on.
    let cut = medium.cut(&mut Random::new(1));
    assert!(open(&cut, "/a").set_stamp().unwrap().modified > third);
}

#[test]
fn a_failed_sync_is_a_failed_stamp() {
    let medium = SimMedium::new();
    let file = open(&medium, "/a");
    medium.set_faults(Faults::failing(Operation::Sync, FileKind::Database, 0));
    assert!(file.set_stamp().is_err());
}

#[test]
fn planted_faults_strike() {
    let medium = SimMedium::new();
    let file = open(&medium, "/a");
    medium.set_faults(Faults::full_at(100));
    file.write_at(&[1; 100], 0).unwrap();
    assert_eq!(file.write_at(&[1; 1], 100).unwrap_err().kind(), ErrorKind::Full);
    medium.set_faults(Faults::failing(Operation::Sync, FileKind::Database, 1));
    assert!(file.sync().is_ok() && file.sync().is_err() && file.sync().is_err());
    medium.set_faults(Faults::ignoring(SyncSite::File(FileKind::Database), Some(1)));
    let before = medium.operations();
    (0..3).for_each(|_| file.sync().unwrap());
    assert_eq!(medium.operations(), before + 2);
}

#[test]
fn locks_are_between_handles() {
    let medium = SimMedium::new();
    let (first, second) = (open(&medium, "/a"), open(&medium, "/a"));
    assert!(first.lock_range(0, 10, RangeLock::Exclusive).unwrap());
    assert!(!second.lock_range(9, 1, RangeLock::Shared).unwrap());
    drop(first);
    assert!(second.lock_range(9, 1, RangeLock::Shared).unwrap());
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8, bool),
    SetLen(usize),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3000usize, 1..1500usize, 1..255u8, any::<bool>())
            .prop_map(|(o, l, b, d)| Step::Write(o, l, b, d)),
        (0..4000usize).prop_map(Step::SetLen),
        Just(Step::Sync),
    ]
}

proptest! {
    /// Against a plain model: without a cut the bytes are those of a plain vector; after a cut every sector
    /// is one of its versions since it was last made durable.
    #[test]
    fn every_sector_is_one_of_its_versions(steps in prop::collection::vec(step(), 1..25), seed: u64) {
        let medium = SimMedium::with_files([("/a".into(), FileKind::Database, vec![0; 1024])]);
        let file = open(&medium, "/a");
        let mut plain = vec![0u8; 1024];
        let mut versions = vec![plain.clone()];
        for step in &steps {
            match step {
                Step::Write(offset, len, byte, durable) => {
                    let bytes = vec![*byte; *len];
                    if plain.len() < offset + len { plain.resize(offset + len, 0) }
                    plain[*offset..offset + len].copy_from_slice(&bytes);
                    if *durable {
                        file.write_durable_at(&[IoSlice::new(&bytes)], *offset as u64).unwrap();
                    } else {
                        file.write_at(&bytes, *offset as u64).unwrap();
                    }
                }
                Step::SetLen(len) => { plain.resize(*len, 0); file.set_len(*len as u64).unwrap(); }
                Step::Sync => { file.sync().unwrap(); versions.clear(); }
            }
            versions.push(plain.clone());
        }
        prop_assert_eq!(content(&medium, "/a").unwrap(), plain);
        let cut = content(&medium.cut(&mut Random::new(seed)), "/a").unwrap();
        for (number, sector) in cut.chunks(SECTOR).enumerate() {
            // Where a version ends inside the sector, the rest of it reads as zeros.
            let found = versions.iter().any(|version| sector.iter().enumerate().all(|(i, byte)| {
                *byte == version.get(number * SECTOR + i).copied().unwrap_or(0)
            }));
            prop_assert!(found, "sector {} is none of its versions", number);
        }
    }
}

#[test]
fn a_lease_breaks_before_another_handle_is_there() {
    let medium = SimMedium::new();
    let file = open(&medium, "/a");
    let (breaks, medium_at_break) = (Arc::new(Mutex::new(0)), medium.clone());
    let on_break: OnBreak = {
        let (breaks, weak) = (breaks.clone(), Arc::downgrade(&file));
        Arc::new(move || {
            *breaks.lock() += 1;
            // The other one counts already, and the medium is not locked.
            let again = weak.upgrade().map(|file| file.take_lease(Arc::new(|| ())));
            assert_eq!(again, Some(LeaseAnswer::Company));
            medium_at_break.operations();
        })
    };
    assert_eq!(file.take_lease(on_break.clone()), LeaseAnswer::Granted);
    // Neither its own length nor a look at the name is an open.
    file.set_len(10).unwrap();
    medium.info(Path::new("/a")).unwrap();
    assert!(medium.open(Path::new("/a"), FileKind::Database, OpenMode::CreateNew).is_err());
    assert_eq!(*breaks.lock(), 0);
    let other = open(&medium, "/a");
    assert_eq!(*breaks.lock(), 1);
    assert_eq!(file.take_lease(on_break.clone()), LeaseAnswer::Company);
    drop(other);
    // Given back, or closed, it says nothing.
    for close in [false, true] {
        let file = open(&medium, "/b");
        assert_eq!(file.take_lease(on_break.clone()), LeaseAnswer::Granted);
        if close {
            drop(file);
        } else {
            file.release_lease();
        }
        open(&medium, "/b");
    }
    assert_eq!((*breaks.lock(), Arc::strong_count(&on_break)), (1, 1));
}
