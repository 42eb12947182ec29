mod failures;
mod power;
mod threads;
mod transactions;

use super::*;
use crate::ops::graph::{Graph, Order, Search, Text, load};
use crate::ops::{Pages, PagesMut, scan};
use crate::task::{Config, Workers};
use litefoot_sim::{CountingMedium, SimMedium};
use litefoot_sim::{Faults, Random, SyncSite};
use litefoot_storage::buffer_pool;
use litefoot_storage::file::{FileKind, Medium, OpenMode, Operation};
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
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
    Options {
        pool_bytes: frames * PAGE,
        partitions: 2,
        page_cleaner: PageCleaner::Foreground,
        ..Options::default()
    }
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

/// The value of a page that is not filled with one value.
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
    assert!(matches!(refuse(options(buffer_pool::FEWEST_FRAMES - 1)), Error::PoolSize { .. }));
    assert!(matches!(refuse(Options { partitions: 0, ..options(64) }), Error::Partitions { .. }));
    assert!(matches!(refuse(Options { partitions: 65, ..options(64) }), Error::Partitions { .. }));
    for max_dirty_ratio in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(matches!(refuse(Options { max_dirty_ratio, ..options(64) }), Error::Threshold(_)));
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
    assert!(matches!(error, Error::Pool(buffer_pool::Error::AllPinned { frames: 16 })), "{error}");
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
    let database = open_with(&medium, &Options { max_dirty_ratio: 0.5, ..options(256) }).unwrap();
    (0..1000).for_each(|with| _ = alloc(&database, with));
    let statistics = database.statistics();
    assert!(statistics.checkpoints >= 7, "{statistics:?}");
    // 64 pages of 4 KiB in a write.
    assert!(statistics.writes <= statistics.cleaned / 30, "{statistics:?}");
    assert!(statistics.pool.dirty <= 129, "{statistics:?}");
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

/// The content of the pages in use.
type Content = BTreeMap<PageId, u64>;

fn content(database: &Database) -> Content {
    content_from(database, 0)
}

/// The content of the pages from `first` on.
fn content_from(database: &Database, first: PageId) -> Content {
    let pages = database.extents().ranges().to_vec().into_iter().flatten();
    pages
        .filter(|page| *page >= first)
        .map(|page| (page, value_or_torn(&database.pin(page).unwrap())))
        .collect()
}

/// A random unit, or transaction, on the database and on the model.
fn random_changes(database: &Database, model: &mut Content, random: &mut Random, next: &mut u64) {
    match random.below(2) {
        0 => random_unit(database, model, random, next),
        _ => random_transaction(database, model, random, next),
    }
}

/// A random transaction, of which half are rolled back.
fn random_transaction(database: &Database, model: &mut Content, random: &mut Random, next: &mut u64) {
    let mut transaction = database.transaction().unwrap();
    let mut after = model.clone();
    for _ in 0..1 + random.below(4) {
        *next += 1;
        let some = after.keys().nth(random.below(after.len().max(1) as u64) as usize).copied();
        match (random.below(4), some) {
            (0 | 1, Some(page)) => {
                fill(transaction.pin_mut(page).unwrap(), *next);
                after.insert(page, *next);
            }
            (2, Some(page)) => {
                transaction.release(page).unwrap();
                after.remove(&page);
            }
            _ => {
                let (page, bytes) = transaction.alloc().unwrap();
                fill(bytes, *next);
                assert_eq!(after.insert(page, *next), None, "page {page} was handed out twice");
                assert!(!model.contains_key(&page), "page {page} may yet be in use again");
            }
        }
    }
    if random.below(2) == 0 {
        transaction.commit();
        *model = after;
    } else {
        transaction.roll_back();
    }
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
            random_changes(&database, &mut model, &mut random, &mut next);
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
