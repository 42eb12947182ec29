use super::*;
use crate::device::sim::{Faults, Random, SyncSite};
use crate::device::{FileKind, Medium, OpenMode, Operation, OsMedium, SimMedium};
use crate::ops::graph::{Graph, Order, Search, Text, load};
use crate::ops::{Pages, PagesMut, scan};
use crate::pool;
use crate::task::io::{IoConfig, IoQueue};
use crate::task::{Config, Workers};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PATH: &str = "/d/store";
const PAGE: usize = 4096;

fn queue() -> Arc<IoQueue> {
    Arc::new(IoQueue::start(&IoConfig::default()).unwrap())
}

fn options(frames: usize) -> Options {
    Options { pool_bytes: frames * PAGE, partitions: 2, cleaner: Cleaner::Caller, ..Options::default() }
}

fn medium() -> (SimMedium, Arc<dyn Medium>) {
    let sim = SimMedium::new();
    let medium: Arc<dyn Medium> = Arc::new(sim.clone());
    Database::create(&medium, Path::new(PATH), PAGE).unwrap();
    (sim, medium)
}

fn open_with(medium: &Arc<dyn Medium>, options: &Options) -> Result<Database> {
    Database::open(medium, Path::new(PATH), queue(), options)
}

fn open(medium: &Arc<dyn Medium>) -> Database {
    open_with(medium, &options(64)).unwrap()
}

fn fill(page: &mut [u8], value: u64) {
    page.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&value.to_le_bytes()));
}

/// What a page that is not filled with one value counts as.
const TORN: u64 = u64::MAX;

/// The value that a page is filled with.
fn value_or_torn(page: &[u8]) -> u64 {
    let value = u64::from_le_bytes(page[..8].try_into().unwrap());
    if page.chunks(8).all(|chunk| chunk == value.to_le_bytes()) { value } else { TORN }
}

fn value(page: &[u8]) -> u64 {
    let value = value_or_torn(page);
    assert_ne!(value, TORN, "a page is torn");
    value
}

fn alloc(database: &Database, with: u64) -> PageId {
    let unit = database.unit().unwrap();
    let (page, mut bytes) = unit.alloc().unwrap();
    assert_eq!(value(&bytes), 0, "a new page shows old bytes");
    fill(&mut bytes, with);
    page
}

#[test]
fn a_database_is_created_once_and_opened_as_what_it_is() {
    let sim = SimMedium::new();
    let medium: Arc<dyn Medium> = Arc::new(sim);
    let path = Path::new(PATH);
    for page_bytes in [0, 512, 5000, 131_072] {
        assert!(matches!(Database::create(&medium, path, page_bytes), Err(Error::PageSize(_))));
    }
    assert!(matches!(open_with(&medium, &options(64)), Err(Error::NotFound { .. })));
    for page_bytes in PAGE_SIZES {
        let path = Path::new("/d").join(page_bytes.to_string());
        Database::create(&medium, &path, page_bytes).unwrap();
        assert!(matches!(Database::create(&medium, &path, page_bytes), Err(Error::AlreadyExists { .. })));
        let options = Options { pool_bytes: 32 * page_bytes, ..Options::default() };
        let database = Database::open(&medium, &path, queue(), &options).unwrap();
        assert_eq!(database.page_bytes(), page_bytes);
        assert_eq!((database.statistics().pages, database.statistics().in_use), (1, 1));
        let again = Database::open(&medium, &path, queue(), &options);
        assert!(matches!(again, Err(Error::InUse { .. })));
        database.close().unwrap();
        assert_eq!(Database::open(&medium, &path, queue(), &options).unwrap().page_bytes(), page_bytes);
    }
    let directory = tempfile::tempdir().unwrap();
    let os: Arc<dyn Medium> = Arc::new(OsMedium);
    let nowhere = Database::create(&os, &directory.path().join("missing/store"), PAGE);
    assert!(matches!(nowhere, Err(Error::InvalidPath { .. })), "{nowhere:?}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let (_, medium) = medium();
    let refuse = |options: Options| open_with(&medium, &options).err().unwrap();
    assert!(matches!(refuse(Options { pool_bytes: 64 * PAGE + 1, ..options(64) }), Error::PoolSize { .. }));
    assert!(matches!(refuse(options(pool::FEWEST_FRAMES - 1)), Error::PoolSize { .. }));
    assert!(matches!(refuse(Options { partitions: 0, ..options(64) }), Error::Partitions { .. }));
    assert!(matches!(refuse(Options { partitions: 65, ..options(64) }), Error::Partitions { .. }));
    for clean_threshold in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(matches!(refuse(Options { clean_threshold, ..options(64) }), Error::Threshold(_)));
    }
    open(&medium);
}

#[test]
fn damaged_foreign_and_truncated_files_are_refused_and_left_alone() {
    let (_, medium) = medium();
    let database = open(&medium);
    (0..10).for_each(|with| _ = alloc(&database, with));
    database.close().unwrap();
    let file = |suffix: &str, kind| {
        medium.open(Path::new(&format!("{PATH}{suffix}")), kind, OpenMode::ReadWrite).unwrap()
    };
    let refuse = || open_with(&medium, &options(64)).err().unwrap();
    let meta = file("-meta", FileKind::Metadata);
    let mut good = vec![0; 24];
    meta.read_at(&mut good, 0).unwrap();
    meta.write_at(b"something else, not ours", 0).unwrap();
    assert!(matches!(refuse(), Error::Damaged { .. }));
    meta.set_len(3).unwrap();
    assert!(matches!(refuse(), Error::Damaged { .. }));
    meta.write_at(&good, 0).unwrap();
    let data = file("", FileKind::Database);
    let len = data.len().unwrap();
    data.set_len(len - 1).unwrap();
    assert!(matches!(refuse(), Error::Truncated { .. }));
    data.set_len(100).unwrap();
    assert!(matches!(refuse(), Error::Truncated { .. }));
    data.set_len(len).unwrap();
    data.write_at(&[0; PAGE], 0).unwrap();
    assert!(matches!(refuse(), Error::Damaged { .. }));
}

#[test]
fn pages_survive_a_reopen_and_free_ones_are_given_again() {
    let (_, medium) = medium();
    let database = open(&medium);
    let pages: Vec<PageId> = (0..63).map(|with| alloc(&database, 100 + with)).collect();
    assert_eq!(pages, (1..64).collect::<Vec<_>>());
    database.close().unwrap();
    let database = open(&medium);
    for page in &pages {
        assert_eq!(value(&database.pin(*page).unwrap()), 99 + page);
    }
    for page in [5, 9, 63] {
        database.unit().unwrap().release(page).unwrap();
    }
    database.close().unwrap();
    // Reopening with free pages crashed the original.
    let database = open(&medium);
    assert_eq!(database.statistics().in_use, 61);
    assert_eq!(database.dump(), [(0..5, true), (5..6, false), (6..9, true), (9..10, false), (10..63, true)]);
    let again: Vec<PageId> = (0..4).map(|with| alloc(&database, with)).collect();
    assert_eq!(again, [5, 9, 63, 64]);
    database.check().unwrap();
}

#[test]
fn reserved_pages_are_consecutive_and_zeros() {
    let (_, medium) = medium();
    let database = open(&medium);
    let old: Vec<PageId> = (0..20).map(|_| alloc(&database, 7)).collect();
    database.checkpoint().unwrap();
    for page in old {
        database.unit().unwrap().release(page).unwrap();
    }
    database.close().unwrap();
    let database = open(&medium);
    let first = database.unit().unwrap().reserve(30).unwrap();
    for page in first..first + 30 {
        assert_eq!(value(&database.pin(page).unwrap()), 0);
    }
    assert!(matches!(database.unit().unwrap().reserve(8 * PAGE as u64), Err(Error::TooLarge { .. })));
    database.close().unwrap();
    assert_eq!(open(&medium).statistics().in_use, 31);
}

#[test]
fn many_pages_in_little_memory_and_the_next_number_after_a_reopen() {
    let directory = tempfile::tempdir().unwrap();
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    let path = directory.path().join("store");
    Database::create(&medium, &path, PAGE).unwrap();
    let options = Options { pool_bytes: 8 << 20, ..Options::default() };
    let database = Database::open(&medium, &path, queue(), &options).unwrap();
    // Page 32,768 belongs to the table.
    for number in 0..49_152 {
        let page = alloc(&database, number);
        assert_eq!(page, number + 1 + u64::from(number + 1 >= 32_768));
    }
    let statistics = database.statistics();
    assert!(statistics.pool.evicted > 40_000 && statistics.checkpoints > 10, "{statistics:?}");
    database.close().unwrap();
    let database = Database::open(&medium, &path, queue(), &options).unwrap();
    assert_eq!(value(&database.pin(40_000).unwrap()), 39_998);
    assert!(matches!(database.pin(32_768), Err(Error::Protected { .. })));
    assert_eq!(alloc(&database, 1), 49_154);
    database.check().unwrap();
}

#[test]
fn a_page_is_released_once_by_its_owner() {
    let (_, medium) = medium();
    let database = open(&medium);
    let page = alloc(&database, 1);
    let pinned = database.pin(page).unwrap();
    let unit = database.unit().unwrap();
    assert!(matches!(unit.release(page), Err(Error::Pinned { .. })));
    assert_eq!(value(&pinned), 1);
    drop(pinned);
    let written = unit.pin_mut(page).unwrap();
    assert!(matches!(unit.release(page), Err(Error::Pinned { .. })));
    drop(written);
    unit.release(page).unwrap();
    assert!(matches!(unit.release(page), Err(Error::NotAllocated { .. })));
    assert!(matches!(unit.pin(page), Err(Error::NotAllocated { .. })));
    assert!(matches!(unit.pin_mut(page), Err(Error::NotAllocated { .. })));
    for page in [0, 32_768] {
        let expected = if page == 0 { "allocation table" } else { "no page" };
        for error in [unit.pin(page).err(), unit.pin_mut(page).err(), unit.release(page).err()] {
            assert!(error.unwrap().to_string().contains(expected));
        }
    }
    assert!(matches!(unit.pin(u64::MAX), Err(Error::NoSuchPage { .. })));
    let [first, second] = [0, 1].map(|_| unit.alloc().unwrap().0);
    assert_eq!([first, second], [page, page + 1]);
    drop(unit);
    database.check().unwrap();
}

#[test]
fn a_pool_that_is_all_pinned_or_all_changed_says_so() {
    let (_, medium) = medium();
    let database = open_with(&medium, &options(16)).unwrap();
    let pages: Vec<PageId> = (0..40).map(|with| alloc(&database, with)).collect();
    database.checkpoint().unwrap();
    let pinned: Vec<Pinned<'_>> = pages[..16].iter().map(|page| database.pin(*page).unwrap()).collect();
    let error = database.pin(pages[20]).err().unwrap();
    assert!(matches!(error, Error::Pool(pool::Error::AllHeld { frames: 16 })), "{error}");
    let before = database.statistics().in_use;
    assert!(database.unit().unwrap().alloc().is_err());
    assert_eq!(database.statistics().in_use, before, "a failed alloc leaks a page");
    drop(pinned);
    let unit = database.unit().unwrap();
    for page in &pages[..16] {
        fill(&mut unit.pin_mut(*page).unwrap(), 1000 + page);
    }
    for error in [unit.pin(pages[30]).err(), unit.pin_mut(pages[30]).err(), unit.alloc().err()] {
        assert!(matches!(error, Some(Error::UnitTooLarge { frames: 16 })));
    }
    drop(unit);
    assert_eq!(value(&database.pin(pages[30]).unwrap()), 30);
    assert_eq!(value(&database.pin(pages[3]).unwrap()), 1000 + pages[3]);
    database.check().unwrap();
}

#[test]
fn enough_dirty_pages_are_cleaned_in_few_writes() {
    let (_, medium) = medium();
    let database = open_with(&medium, &Options { clean_threshold: 0.5, ..options(256) }).unwrap();
    (0..1000).for_each(|with| _ = alloc(&database, with));
    let statistics = database.statistics();
    assert!(statistics.checkpoints >= 7, "{statistics:?}");
    // 64 pages of 4 KiB in a write.
    assert!(statistics.writes <= statistics.cleaned / 30, "{statistics:?}");
    assert!(statistics.pool.dirty <= 129, "{statistics:?}");
}

#[test]
fn a_medium_that_fails_loses_nothing_that_was_in_memory() {
    for (operation, kind) in
        [(Operation::SetLength, FileKind::RedoLog), (Operation::Write, FileKind::Database)]
    {
        let (sim, medium) = medium();
        let database = open_with(&medium, &options(512)).unwrap();
        let pages: Vec<PageId> = (0..20).map(|with| alloc(&database, with)).collect();
        database.checkpoint().unwrap();
        for page in &pages {
            fill(&mut database.unit().unwrap().pin_mut(*page).unwrap(), 500 + page);
        }
        (0..300).for_each(|with| _ = alloc(&database, with));
        sim.set_faults(Faults::failing(operation, kind, 0));
        let failed = database.checkpoint();
        sim.set_faults(Faults::default());
        assert!(failed.is_err(), "{operation:?} {kind:?}");
        database.check().unwrap();
        database.checkpoint().unwrap();
        database.close().unwrap();
        let database = open(&medium);
        for page in &pages {
            assert_eq!(value(&database.pin(*page).unwrap()), 500 + page);
        }
    }
}

#[test]
fn an_allocation_that_finds_no_room_leaks_nothing() {
    let (sim, medium) = medium();
    let database = open(&medium);
    sim.set_faults(Faults::failing(Operation::SetLength, FileKind::Database, 0));
    let before = database.statistics().in_use;
    assert!(database.unit().unwrap().alloc().is_err());
    assert!(database.unit().unwrap().reserve(10).is_err());
    sim.set_faults(Faults::default());
    assert_eq!(database.statistics().in_use, before);
    database.check().unwrap();
}

#[test]
fn each_inconsistency_is_found_by_its_name() {
    let found = |spoil: &dyn Fn(&Database)| {
        let (_, medium) = medium();
        let database = open(&medium);
        (0..5).for_each(|with| _ = alloc(&database, with));
        database.unit().unwrap().release(3).unwrap();
        assert_eq!(database.inconsistencies().unwrap(), []);
        spoil(&database);
        assert!(matches!(database.check(), Err(Error::Inconsistent { .. })));
        let found = database.inconsistencies().unwrap();
        // Nothing of it may reach the medium.
        std::mem::forget(database);
        found
    };
    let table = |database: &Database, page, add| {
        database.inner().allocation.lock().corrupt_free_list(page, add);
    };
    assert_eq!(found(&|db| table(db, 2, true)), [Inconsistency::AllocatedPageInFreeList { page: 2 }]);
    assert_eq!(found(&|db| table(db, 0, true)), [Inconsistency::ProtectedPageInFreeList { page: 0 }]);
    assert_eq!(found(&|db| table(db, 3, false)), [Inconsistency::FreePageNotInFreeList { page: 3 }]);
    let mapped = found(&|db| {
        let mut table = db.inner().allocation.lock();
        table.take_back(2);
        table.give_back(2);
    });
    assert_eq!(mapped, [Inconsistency::FreePageInMemory { page: 2 }]);
    let descriptor = found(&|db| db.inner().pool.corrupt(4, 60));
    assert!(matches!(descriptor[0], Inconsistency::Descriptor { page: 4, .. }), "{descriptor:?}");
    let cut = found(&|db| db.inner().pool.file().set_len(4096).unwrap());
    assert!(matches!(cut[..], [Inconsistency::FileLength { bytes: 4096, .. }]), "{cut:?}");
}

#[test]
fn a_checkpoint_does_not_take_a_unit_apart() {
    let (_, medium) = medium();
    let database = open(&medium);
    let page = alloc(&database, 1);
    let unit = database.unit().unwrap();
    fill(&mut unit.pin_mut(page).unwrap(), 2);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| database.checkpoint());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!checkpoint.is_finished());
        drop(unit);
        checkpoint.join().unwrap().unwrap();
    });
    assert_eq!(database.statistics().checkpoints, 1);
}

/// Threads that pin, write, allocate, release and checkpoint; each page always holds one value throughout.
#[test]
fn threads_share_pages_and_none_is_torn_or_handed_out_twice() {
    let (_, medium) = medium();
    let options =
        Options { cleaner: Cleaner::Background, clean_threshold: 0.3, partitions: 3, ..options(96) };
    let database = open_with(&medium, &options).unwrap();
    let shared: Vec<PageId> = (0..60).map(|_| alloc(&database, 1)).collect();
    let rounds = if cfg!(debug_assertions) { 1500 } else { 6000 };
    std::thread::scope(|scope| {
        for thread in 1..=4u64 {
            let (database, shared) = (&database, &shared);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut own: Vec<(PageId, u64)> = Vec::new();
                for round in 0..rounds {
                    let page = shared[random.below(60) as usize];
                    match random.below(10) {
                        0..=3 => drop(value(&database.pin(page).unwrap())),
                        4..=5 => {
                            let unit = database.unit().unwrap();
                            let mut bytes = unit.pin_mut(page).unwrap();
                            let next = value(&bytes) + 1;
                            fill(&mut bytes, next);
                        }
                        6 if own.len() < 30 => {
                            let with = thread << 32 | round;
                            own.push((alloc(database, with), with));
                        }
                        7 if !own.is_empty() => {
                            let (page, with) = own.swap_remove(random.below(own.len() as u64) as usize);
                            assert_eq!(value(&database.pin(page).unwrap()), with, "a page has two owners");
                            database.unit().unwrap().release(page).unwrap();
                        }
                        8 if thread == 1 && round % 50 == 0 => database.checkpoint().unwrap(),
                        _ => {
                            for (page, with) in &own {
                                assert_eq!(value(&database.pin(*page).unwrap()), *with);
                            }
                        }
                    }
                }
            });
        }
    });
    database.check().unwrap();
    let values: Vec<u64> = shared.iter().map(|page| value(&database.pin(*page).unwrap())).collect();
    database.close().unwrap();
    let database = open(&medium);
    let again: Vec<u64> = shared.iter().map(|page| value(&database.pin(*page).unwrap())).collect();
    assert_eq!(values, again);
    database.check().unwrap();
}

/// What the pages in use hold.
type Content = BTreeMap<PageId, u64>;

fn content(database: &Database) -> Content {
    content_from(database, 0)
}

/// What the pages from `first` on hold.
fn content_from(database: &Database, first: PageId) -> Content {
    let pages = database.extents().ranges().to_vec().into_iter().flatten();
    pages
        .filter(|page| *page >= first)
        .map(|page| (page, value_or_torn(&database.pin(page).unwrap())))
        .collect()
}

/// A random unit on the database and on the model.
fn random_unit(database: &Database, model: &mut Content, random: &mut Random, next: &mut u64) {
    let unit = database.unit().unwrap();
    for _ in 0..1 + random.below(4) {
        *next += 1;
        let pages: Vec<PageId> = model.keys().copied().collect();
        let some = |random: &mut Random| pages[random.below(pages.len() as u64) as usize];
        match random.below(8) {
            0..=3 if !pages.is_empty() => {
                let page = some(random);
                fill(&mut unit.pin_mut(page).unwrap(), *next);
                model.insert(page, *next);
            }
            4 | 5 if !pages.is_empty() => {
                let page = some(random);
                if model.remove(&page).is_some() {
                    unit.release(page).unwrap();
                }
                return;
            }
            6 => {
                let count = 1 + random.below(5);
                let first = unit.reserve(count).unwrap();
                model.extend((first..first + count).map(|page| (page, 0)));
                return;
            }
            _ => {
                let (page, mut bytes) = unit.alloc().unwrap();
                fill(&mut bytes, *next);
                assert_eq!(model.insert(page, *next), None, "page {page} was handed out twice");
            }
        }
    }
}

#[test]
fn it_agrees_with_a_model_over_reopens() {
    for seed in 0..20 {
        let (_, medium) = medium();
        let mut random = Random::new(seed);
        let (mut model, mut next) = (Content::new(), 0);
        let mut database = open_with(&medium, &options(24)).unwrap();
        for step in 0..300 {
            random_unit(&database, &mut model, &mut random, &mut next);
            if step % 40 == 39 {
                assert_eq!(content(&database), model, "seed {seed}, step {step}");
                database.check().unwrap();
            }
            if random.below(60) == 0 {
                database.close().unwrap();
                database = open_with(&medium, &options(24)).unwrap();
            }
        }
    }
}

/// A run of units and checkpoints, cut at random moments; answers how many cuts, and the first failure.
fn power_cuts(seed: u64, faults: Faults, cuts: usize) -> (usize, Option<String>) {
    let begin = || {
        let sim = SimMedium::new();
        sim.set_faults(faults.clone());
        Database::create(&(Arc::new(sim.clone()) as Arc<dyn Medium>), Path::new(PATH), PAGE).unwrap();
        sim
    };
    power_cuts_from(begin, 0, seed, 80, cuts)
}

/// The same where the run begins with a database that is there, of whose pages those from `first` on count.
fn power_cuts_from(
    begin: impl Fn() -> SimMedium,
    first: PageId,
    seed: u64,
    cuts_each: usize,
    cuts: usize,
) -> (usize, Option<String>) {
    let mut done = 0;
    let mut random = Random::new(seed);
    while done < cuts {
        let sim = begin();
        let medium: Arc<dyn Medium> = Arc::new(sim.clone());
        // The states between units, and which of them was the last that a checkpoint had made durable when.
        let mut states = vec![Content::new()];
        let mut durable = vec![(sim.operations(), 0)];
        let mut begun = vec![(0, 0)];
        let mut next = 0;
        let mut database = open_with(&medium, &Options { prefetch: false, ..options(24) }).unwrap();
        for _ in 0..40 {
            let mut model = states.last().unwrap().clone();
            random_unit(&database, &mut model, &mut random, &mut next);
            states.push(model);
            begun.push((sim.operations(), states.len() - 1));
            match random.below(12) {
                0..=2 => database.checkpoint().unwrap(),
                3 => {
                    database.close().unwrap();
                    database = open_with(&medium, &Options { prefetch: false, ..options(24) }).unwrap();
                }
                _ => continue,
            }
            durable.push((sim.operations(), states.len() - 1));
        }
        let end = sim.operations();
        std::mem::forget(database);
        let mut replay = sim.replay();
        let created = durable[0].0;
        let mut moments: Vec<usize> =
            (0..cuts_each).map(|_| created + random.below((end - created + 1) as u64) as usize).collect();
        moments.sort_unstable();
        for cut in moments {
            replay.advance(cut);
            let image = replay.cut(&mut random);
            done += 1;
            let least = durable.iter().rev().find(|(at, _)| *at <= cut).unwrap().1;
            let most = begun.iter().rev().find(|(at, _)| *at <= cut).map_or(0, |(_, state)| state + 1);
            let medium: Arc<dyn Medium> = Arc::new(image);
            let verdict = match open_with(&medium, &Options { prefetch: false, ..options(64) }) {
                Err(error) => Some(format!("cannot be opened: {error}")),
                Ok(database) => {
                    let found = content_from(&database, first);
                    let most = most.min(states.len() - 1);
                    let known = states[least..=most].contains(&found);
                    let checked = database.check().err().map(|error| error.to_string());
                    checked
                        .or_else(|| (!known).then(|| format!("no state of {least} to {most} is {found:?}")))
                }
            };
            if let Some(what) = verdict {
                return (done, Some(format!("seed {seed}, cut at {cut} of {end}: {what}")));
            }
        }
    }
    (done, None)
}

/// `LITEFOOT_CUTS` asks for more.
#[test]
fn power_cuts_leave_what_a_checkpoint_has_left() {
    let cuts = std::env::var("LITEFOOT_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(3000);
    let (done, failure) = power_cuts(11, Faults::default(), cuts);
    assert_eq!(failure, None);
    eprintln!("{done} power cuts");
}

/// The page of the table that the second group begins with comes into use amid the run.
#[test]
fn power_cuts_spare_what_crosses_into_another_group() {
    let (sim, medium) = medium();
    let database = open(&medium);
    let first = 8 * PAGE as u64 - 12;
    database.unit().unwrap().reserve(first - 1).unwrap();
    database.close().unwrap();
    let files = sim.files();
    let run = |faults: Faults, seed, cuts| {
        let begin = || {
            let sim = SimMedium::with_files(files.clone());
            sim.set_faults(faults.clone());
            sim
        };
        power_cuts_from(begin, first, seed, 20, cuts)
    };
    let cuts = std::env::var("LITEFOOT_GROUP_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(20);
    assert_eq!(run(Faults::default(), 1, cuts).1, None);
    let (_, failure) = run(Faults::ignoring(SyncSite::File(FileKind::Metadata), None), 3, 100);
    assert!(failure.is_some(), "nothing is lost without the sync of the metadata");
}

/// The process that cuts the file, or counts the groups, ends before that is durable; the next one goes on.
#[test]
fn what_another_process_has_not_synced_is_synced_before_it_is_built_upon() {
    for seed in 0..20 {
        let (sim, medium) = medium();
        let database = open(&medium);
        (0..4).for_each(|with| _ = alloc(&database, 7 + with));
        database.checkpoint().unwrap();
        (1..5).for_each(|page| database.unit().unwrap().release(page).unwrap());
        database.checkpoint().unwrap();
        std::mem::forget(database);
        let sim = sim.cut(&mut Random::new(seed));
        let medium: Arc<dyn Medium> = Arc::new(sim.clone());
        // The recovery's sync succeeds, that of the cut does not.
        sim.set_faults(Faults::failing(Operation::Sync, FileKind::Database, 1));
        assert!(open_with(&medium, &options(64)).is_err());
        sim.set_faults(Faults::default());
        let database = open(&medium);
        sim.set_faults(Faults::failing(Operation::Sync, FileKind::Database, 0));
        assert_eq!(database.unit().unwrap().reserve(4).unwrap(), 1);
        assert!(database.checkpoint().is_err());
        std::mem::forget(database);
        for cut in 0..10 {
            let medium: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(cut)));
            let found = content(&open(&medium));
            assert!(found.values().all(|value| *value == 0), "seed {seed}, cut {cut}: {found:?}");
        }
    }
    let (sim, medium) = medium();
    let database = open(&medium);
    database.unit().unwrap().reserve(8 * PAGE as u64 - 1).unwrap();
    database.checkpoint().unwrap();
    let page = alloc(&database, 5);
    sim.set_faults(Faults::failing(Operation::Sync, FileKind::Metadata, 0));
    assert!(database.checkpoint().is_err());
    drop(database);
    sim.set_faults(Faults::default());
    let database = open(&medium);
    assert_eq!(value(&database.pin(page).unwrap()), 5);
    std::mem::forget(database);
    for cut in 0..10 {
        let medium: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(cut)));
        assert_eq!(value(&open(&medium).pin(page).unwrap()), 5, "cut {cut}");
    }
}

#[test]
fn each_sync_is_needed() {
    for site in [
        SyncSite::File(FileKind::RedoLog),
        SyncSite::File(FileKind::Database),
        SyncSite::File(FileKind::Metadata),
        SyncSite::Directory,
    ] {
        let (_, failure) = power_cuts(5, Faults::ignoring(site, None), 6000);
        assert!(failure.is_some(), "nothing is lost without {site:?}");
    }
}

/// Where a page was before does not matter to the next one: ids are handed out once each.
#[test]
fn thousands_of_concurrent_allocations_are_all_different() {
    let (_, medium) = medium();
    let database = open_with(&medium, &Options { cleaner: Cleaner::Background, ..options(512) }).unwrap();
    let pages: Vec<PageId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let database = &database;
                scope.spawn(move || {
                    (0..800).map(|with| alloc(database, thread << 32 | with)).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut seen = HashMap::new();
    for (index, page) in pages.iter().enumerate() {
        assert_eq!(seen.insert(*page, index), None);
        let with = ((index / 800) as u64) << 32 | (index % 800) as u64;
        assert_eq!(value(&database.pin(*page).unwrap()), with);
    }
    database.check().unwrap();
}

/// Lets two threads do something at the same moment, as far as that can be had.
fn at_once<A: Send, B: Send>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B + Send) -> (A, B) {
    let ready = AtomicUsize::new(0);
    let start = || {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            start();
            second()
        });
        start();
        (first(), other.join().unwrap())
    })
}

#[test]
fn of_two_who_create_a_database_one_has_it() {
    for _ in 0..300 {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let create = || Database::create(&medium, Path::new(PATH), PAGE);
        let results: [Result<()>; 2] = at_once(create, create).into();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        drop(open(&medium));
    }
}

#[test]
fn a_power_cut_leaves_a_database_that_is_created_or_not() {
    let (sim, _) = medium();
    let mut random = Random::new(3);
    let mut replay = sim.replay();
    for cut in 0..=replay.len() {
        replay.advance(cut);
        for _ in 0..50 {
            let medium: Arc<dyn Medium> = Arc::new(replay.cut(&mut random));
            match open_with(&medium, &options(64)) {
                Ok(database) => assert_eq!(content(&database), Content::new()),
                Err(Error::NotFound { .. }) if cut < replay.len() => {
                    let data = medium.info(Path::new(PATH)).unwrap().is_some();
                    let meta = medium.info(Path::new(&format!("{PATH}-meta"))).unwrap().is_some();
                    assert!(data || !meta, "cut at {cut}");
                }
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn a_page_is_released_or_pinned_for_writing_and_keeps_what_it_holds() {
    let (_, medium) = medium();
    let database = open(&medium);
    for round in 0..1000 {
        let page = alloc(&database, 7 + round);
        let pin = || database.unit().unwrap().pin_mut(page).map(|bytes| value(&bytes));
        let release = || database.unit().unwrap().release(page);
        let (pinned, released) = at_once(pin, release);
        match (&pinned, &released) {
            (Ok(found), _) => assert_eq!(*found, 7 + round),
            (Err(Error::NotAllocated { .. }), Ok(())) => {}
            _ => panic!("round {round}: {pinned:?}, {released:?}"),
        }
        if released.is_err() {
            assert_eq!(value(&database.pin(page).unwrap()), 7 + round);
            database.unit().unwrap().release(page).unwrap();
        }
    }
    database.check().unwrap();
}

#[test]
fn a_group_that_finds_no_room_is_not_begun() {
    let (sim, medium) = medium();
    let database = open(&medium);
    let group = 8 * PAGE as u64;
    database.unit().unwrap().reserve(group - 3).unwrap();
    let page = alloc(&database, 1);
    alloc(&database, 2);
    database.checkpoint().unwrap();
    fill(&mut database.unit().unwrap().pin_mut(page).unwrap(), 3);
    let before = database.statistics();
    // All that a checkpoint needs is there, and not a byte more.
    let used = sim.files().iter().map(|(_, _, bytes)| bytes.len() as u64).sum();
    sim.set_faults(Faults::full_at(used));
    assert!(database.unit().unwrap().alloc().is_err());
    assert!(database.unit().unwrap().reserve(10).is_err());
    let after = database.statistics();
    assert_eq!((after.pages, after.in_use), (before.pages, before.in_use));
    database.check().unwrap();
    database.checkpoint().unwrap();
    sim.set_faults(Faults::default());
    assert_eq!(alloc(&database, 4), group + 1);
    database.check().unwrap();
    database.close().unwrap();
    let database = open(&medium);
    assert_eq!(value(&database.pin(page).unwrap()), 3);
    assert_eq!(value(&database.pin(group + 1).unwrap()), 4);
}

#[test]
fn many_pages_at_once_are_allocated_all_or_none() {
    let (sim, medium) = medium();
    let database = open(&medium);
    // Room for the first run, and not for the second.
    sim.set_faults(Faults::full_at(200 << 20));
    let before = database.statistics().in_use;
    assert!(database.allocate(100_000).is_err());
    let protected = database.statistics().pages.div_ceil(8 * PAGE as u64) - 1;
    assert_eq!(database.statistics().in_use, before + protected);
    database.check().unwrap();
    for count in [MOST_PAGES, 1 << 60, u64::MAX] {
        let error = database.allocate(count).err().unwrap();
        assert!(error.to_string().contains("cannot be numbered"), "{error}");
    }
    sim.set_faults(Faults::default());
    assert_eq!(database.allocate(40_000).unwrap().len(), 40_000);
}

#[test]
fn a_checkpoint_takes_a_page_however_many_hold_it() {
    let (sim, medium) = medium();
    let database = open(&medium);
    let page = alloc(&database, 5);
    let pins: Vec<Pinned<'_>> = (0..0xffff).map(|_| database.pin(page).unwrap()).collect();
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().pool.dirty, 0);
    let medium: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(1)));
    assert_eq!(value(&open(&medium).pin(page).unwrap()), 5);
    drop(pins);
}

#[test]
fn a_check_bears_with_readers() {
    let (_, medium) = medium();
    let database = open_with(&medium, &Options { partitions: 4, ..options(16) }).unwrap();
    let pages: Vec<PageId> = (0..200).map(|with| alloc(&database, with)).collect();
    database.checkpoint().unwrap();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (database, pages, done) = (&database, &pages, &done);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                while done.load(Ordering::Relaxed) == 0 {
                    let at = random.below(200);
                    assert_eq!(value(&database.pin(pages[at as usize]).unwrap()), at);
                }
            });
        }
        let wrong = (0..20_000).find_map(|_| database.check().err());
        done.store(1, Ordering::Relaxed);
        assert!(wrong.is_none(), "{wrong:?}");
    });
}

/// One of the things that can go wrong with a checkpoint, or with the recovery after it.
fn random_faults(random: &mut Random, used: u64) -> Faults {
    let operations = [Operation::Write, Operation::Sync, Operation::SetLength, Operation::Read];
    let kinds = [FileKind::RedoLog, FileKind::Database, FileKind::Metadata];
    match random.below(6) {
        0 => Faults::full_at(used + random.below(64 * 1024)),
        1 => Faults::failing_directory_sync(random.below(2)),
        _ => {
            let operation = operations[random.below(4) as usize];
            let kind = kinds[random.below(3) as usize];
            let mut faults = Faults::failing(operation, kind, random.below(3));
            faults.fail_again = random.one_in(2);
            faults
        }
    }
}

#[test]
fn whatever_fails_leaves_what_a_checkpoint_has_left() {
    let used = |sim: &SimMedium| sim.files().iter().map(|(_, _, bytes)| bytes.len() as u64).sum::<u64>();
    let (mut failures, mut cuts) = (0, 0);
    let runs = std::env::var("LITEFOOT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    for seed in 0..runs {
        let mut random = Random::new(seed);
        let (mut sim, mut medium) = medium();
        let (mut states, mut next, mut least) = (vec![Content::new()], 0, 0);
        let options = Options { prefetch: random.one_in(2), clean_threshold: 1.0, ..options(64) };
        let mut database = open_with(&medium, &options).unwrap();
        for step in 0..60 {
            sim.set_faults(Faults::default());
            let mut model = states.last().unwrap().clone();
            if database.unit().is_err() || database.statistics().pool.dirty > 40 {
                // Latched: nothing can be cleaned any more.
            } else {
                random_unit(&database, &mut model, &mut random, &mut next);
                states.push(model);
            }
            if !random.one_in(3) {
                continue;
            }
            if random.one_in(2) {
                sim.set_faults(random_faults(&mut random, used(&sim)));
            }
            let done = database.checkpoint();
            if done.is_ok() {
                least = states.len() - 1;
            } else {
                failures += 1;
                database.check().unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            }
            if random.one_in(2) {
                sim.set_faults(Faults::default());
            }
            match random.below(4) {
                0 => continue,
                1 => drop(database.close()),
                2 => drop(database),
                _ => {
                    cuts += 1;
                    let image = sim.cut(&mut random);
                    // What it still does happens to a medium that is gone.
                    drop(database);
                    (sim, medium) = (image.clone(), Arc::new(image));
                }
            }
            sim.set_faults(Faults::default());
            for _ in 0..random.below(3) {
                sim.set_faults(random_faults(&mut random, used(&sim)));
                drop(open_with(&medium, &options));
                sim.set_faults(Faults::default());
                if random.one_in(2) {
                    cuts += 1;
                    let image = sim.cut(&mut random);
                    (sim, medium) = (image.clone(), Arc::new(image));
                }
            }
            database = open_with(&medium, &options)
                .unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            database.check().unwrap();
            let found = content(&database);
            let known = states[least..].iter().rposition(|state| *state == found);
            let Some(known) = known else { panic!("seed {seed}, step {step}: no state is {found:?}") };
            states.truncate(least + known + 1);
            least = states.len() - 1;
        }
    }
    eprintln!("{failures} failures, {cuts} power cuts");
}

#[test]
fn a_pin_that_meets_a_cleaning_has_its_page() {
    let (_, medium) = medium();
    let database = open_with(&medium, &Options { clean_threshold: 1.0, ..options(16) }).unwrap();
    let pages: Vec<PageId> = (0..40).map(|with| alloc(&database, with)).collect();
    let rounds = std::env::var("LITEFOOT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(500);
    for round in 0..rounds {
        database.checkpoint().unwrap();
        let unit = database.unit().unwrap();
        for (at, page) in pages[..16].iter().enumerate() {
            fill(&mut unit.pin_mut(*page).unwrap(), at as u64);
        }
        drop(unit);
        let pin = |at: usize| {
            value(&database.pin(pages[at]).unwrap_or_else(|error| panic!("round {round}: {error}")))
        };
        let found = at_once(|| pin(20), || pin(30));
        assert_eq!(found, (20, 30));
    }
}

/// Many fibers on few threads: one that waits for a page, a frame or the gate leaves its thread to others.
#[test]
fn fibers_share_a_database() {
    let (_, medium) = medium();
    for cleaner in [Cleaner::Caller, Cleaner::Background] {
        let database = open_with(&medium, &Options { cleaner, ..options(48) }).unwrap();
        let pages: Vec<PageId> = (0..40).map(|_| alloc(&database, 1)).collect();
        let workers = Workers::start(Config::with_threads(2)).unwrap();
        let rounds = 200u64;
        let added: u64 = workers
            .each(24, |part| {
                let mut random = Random::new(part as u64);
                for round in 0..rounds {
                    let page = pages[random.below(40) as usize];
                    value(&database.pin(page).unwrap());
                    let unit = database.unit().unwrap();
                    let mut bytes = unit.pin_mut(page).unwrap();
                    let next = value(&bytes) + 1;
                    crate::task::yield_now();
                    fill(&mut bytes, next);
                    drop(bytes);
                    drop(unit);
                    if round % 50 == 0 {
                        database.checkpoint().unwrap();
                    }
                }
                rounds
            })
            .unwrap()
            .into_iter()
            .sum();
        let total: u64 = pages.iter().map(|page| value(&database.pin(*page).unwrap())).sum();
        assert_eq!(total, added + 40, "an update was lost");
        database.check().unwrap();
        for page in pages {
            database.unit().unwrap().release(page).unwrap();
        }
    }
}

#[test]
fn operators_run_on_a_database_and_find_a_graph_again() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graph/karate.txt");
    let content = std::fs::read(&path).unwrap();
    let (_, medium) = medium();
    let database = open_with(&medium, &options(16)).unwrap();
    let mut text = Text::new(&content[..], &path).unwrap();
    let metadata_page = load(&database, &mut text, Order::Text, &mut |_| Ok(())).unwrap().metadata_page;
    database.close().unwrap();

    let database = open_with(&medium, &options(16)).unwrap();
    let workers = Workers::start(Config::with_threads(2)).unwrap();
    let graph = Graph::open(&database, metadata_page).unwrap();
    graph.verify(&mut |_| Ok(())).unwrap();
    let mut levels = Vec::new();
    let mut search = Search::from(&graph, 0).unwrap();
    while let Some(level) = search.next_level(&workers, &graph).unwrap() {
        levels.push(level.nodes.len());
    }
    // Zachary's karate club, from its instructor.
    assert_eq!(levels, [1, 16, 9, 8]);
    let extents = database.extents();
    let count = scan(&workers, &database, &extents, 0).unwrap();
    let expected: u64 = (0..extents.len())
        .map(|place| {
            database
                .page(extents.get(place).unwrap())
                .unwrap()
                .chunks(4)
                .filter(|word| **word != [0; 4])
                .count()
        })
        .sum::<usize>() as u64;
    assert_eq!(count, expected);
}
