mod nodes;

use super::*;
use crate::ops::Extents;
use crate::ops::{self, Pages, PagesMut};
use crate::task::{Config, Workers};
use litefoot_sim::CountingMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use std::path::Path;
use std::sync::Arc;

/// Makes a file of that many pages behind page 0, each filled with its number.
fn build(medium: &Arc<dyn Medium>, path: &Path, page_bytes: usize, pages: u64) {
    let builder = Builder::create(medium.clone(), path, page_bytes).unwrap();
    assert_eq!(builder.allocate(pages).unwrap(), Extents::from(1..pages + 1));
    for number in 1..=pages {
        builder
            .update(number, &mut |bytes| {
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&number.to_le_bytes());
                }
            })
            .unwrap();
    }
    builder.finish().unwrap();
}

fn number_of(page: &[u8]) -> u64 {
    let number = u64::from_le_bytes(page[..8].try_into().unwrap());
    assert!(page.chunks(8).all(|chunk| chunk == number.to_le_bytes()));
    number
}

fn os() -> Arc<dyn Medium> {
    Arc::new(OsMedium)
}

fn queue() -> Arc<IoQueue> {
    Arc::new(IoQueue::start(&IoConfig::default()).unwrap())
}

fn open(medium: &Arc<dyn Medium>, path: &Path, cache_pages: usize, prefetch: bool) -> PageFile {
    let options = Options { cache_bytes: cache_pages * 4096, prefetch, partitions: 2, ..Options::default() };
    PageFile::open(&**medium, path, queue(), &options).unwrap()
}

#[test]
fn what_was_built_is_read_by_many_fibers_with_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    for page_bytes in PAGE_SIZES {
        let path = directory.path().join(format!("{page_bytes}.pages"));
        build(&os(), &path, page_bytes, 300);
        for prefetch in [false, true] {
            let file = open(&os(), &path, 1, prefetch);
            assert_eq!(file.page_bytes(), page_bytes);
            assert_eq!(file.extents(), Extents::from(1..301));
            let workers = Workers::start(Config::with_threads(3)).unwrap();
            let wrong = workers
                .each(24, |part| {
                    (0..300u64)
                        .map(|step| 1 + (step * (1 + part as u64 % 5) * 7 + part as u64 * 31) % 300)
                        .filter(|page| number_of(&file.pin(*page).unwrap()) != *page)
                        .count()
                })
                .unwrap();
            assert_eq!(wrong, vec![0; 24]);
        }
    }
}

#[test]
fn a_page_that_many_want_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    let counting = CountingMedium::new(os());
    let medium: Arc<dyn Medium> = Arc::new(counting.clone());
    build(&medium, &path, 4096, 100);
    let file = open(&medium, &path, 200, false);
    let before = counting.snapshot();
    let workers = Workers::start(Config::with_threads(2)).unwrap();
    let read = workers.each(64, |_| (1..=100).map(|page| number_of(&file.pin(page).unwrap())).sum::<u64>());
    assert_eq!(read.unwrap(), vec![5050; 64]);
    let counts = (counting.snapshot() - before).of(FileKind::Database);
    assert_eq!(counts.bytes_read, 100 * 4096);
    // A second, equal scan reads nothing.
    let before = counting.snapshot();
    (1..=100).for_each(|page| assert_eq!(number_of(&file.pin(page).unwrap()), page));
    assert_eq!((counting.snapshot() - before).of(FileKind::Database).reads, 0);
}

#[test]
fn a_scan_is_read_ahead_in_few_operations_and_random_access_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    let counting = CountingMedium::new(os());
    let medium: Arc<dyn Medium> = Arc::new(counting.clone());
    build(&medium, &path, 4096, 4000);
    let reads = |prefetch: bool, order: &[u64]| {
        let file = open(&medium, &path, 400, prefetch);
        let before = counting.snapshot();
        order.iter().for_each(|page| assert_eq!(number_of(&file.pin(*page).unwrap()), *page));
        let statistics = file.statistics();
        drop(file);
        let counts = (counting.snapshot() - before).of(FileKind::Database);
        (counts, statistics)
    };
    let scan: Vec<u64> = (1..=4000).collect();
    let (with, statistics) = reads(true, &scan);
    let (without, _) = reads(false, &scan);
    assert_eq!(without.reads, 4000);
    assert_eq!(with.bytes_read, without.bytes_read);
    assert!(with.reads < 300, "{} operations", with.reads);
    assert!(statistics.missed <= 4, "{statistics:?}");

    let mut state = 9u64;
    let random: Vec<u64> = (0..3000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1 + (state >> 33) % 4000
        })
        .collect();
    let (with, without) = (reads(true, &random).0.bytes_read, reads(false, &random).0.bytes_read);
    assert!(with * 100 <= without * 102, "{with} bytes, without {without}");
}

#[test]
fn an_unfinished_file_leaves_nothing_and_has_no_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    let builder = Builder::create(os(), &path, 4096).unwrap();
    builder.allocate(1).unwrap();
    assert!(!path.exists());
    drop(builder);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // The remains of a power cut are in nobody's way.
    std::fs::write(directory.path().join("a.pages-unfinished"), [7; 10_000]).unwrap();
    build(&os(), &path, 4096, 2);
    assert_eq!(number_of(&open(&os(), &path, 1, true).pin(2).unwrap()), 2);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(matches!(Builder::create(os(), &path, 4096).err(), Some(Error::Exists { .. })));
}

#[test]
fn a_new_page_holds_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Builder::create(os(), &directory.path().join("a.pages"), 4096).unwrap();
    assert_eq!(builder.allocate(1).unwrap(), Extents::from(1..2));
    assert!(builder.page(1).unwrap().iter().all(|byte| *byte == 0));
    for page in [0, 2] {
        assert!(matches!(builder.page(page).err(), Some(ops::Error::Pages(_))));
    }
    // Larger than any file, and larger than any number.
    for count in [1 << 60, u64::MAX] {
        assert!(matches!(builder.allocate(count).err(), Some(ops::Error::Pages(_))));
    }
}

#[test]
fn foreign_damaged_and_cut_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    build(&os(), &path, 4096, 3);
    let whole = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = PageFile::open(&OsMedium, &path, queue(), &Options::default()).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    };
    refused(b"", "is not a page file");
    refused(b"SQLite format 3\0 and more", "is not a page file");
    refused(&whole[..whole.len() - 1], "cut short");
    refused(&whole[..4096], "cut short");
    refused(&[&whole[..], &[0; 4096]].concat(), "cut short");
    for byte in 8..28 {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x40;
        refused(&damaged, if byte < 12 { "version" } else { "damaged" });
    }
    for size in [0, 512, 4095, 4097, 524_288] {
        let error = Builder::create(os(), &directory.path().join("b"), size).err();
        assert!(matches!(error, Some(Error::PageSize(found)) if found == size));
    }
}

#[test]
fn pages_that_are_not_there_and_reads_that_fail_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    build(&os(), &path, 4096, 3);
    let file = open(&os(), &path, 1, true);
    for page in [0, 4, u64::MAX] {
        assert!(matches!(file.pin(page).err(), Some(Error::NoSuchPage { pages: 4, .. })));
    }
    // Somebody cuts the file: what is in memory stays, the rest fails, and heals with the file.
    assert_eq!(number_of(&file.pin(1).unwrap()), 1);
    let writer = OsMedium.open(&path, FileKind::Database, OpenMode::ReadWrite).unwrap();
    writer.set_len(2 * 4096 + 100).unwrap();
    assert!(matches!(file.pin(2).err(), Some(Error::Read { page: 2, .. })));
    assert_eq!(number_of(&file.pin(1).unwrap()), 1);
    writer.set_len(4 * 4096).unwrap();
    writer.write_at(&2u64.to_le_bytes().repeat(512), 2 * 4096).unwrap();
    assert_eq!(number_of(&file.pin(2).unwrap()), 2);
}

#[test]
fn when_all_pages_are_pinned_that_is_an_error_and_no_hang() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    build(&os(), &path, 4096, 100);
    for prefetch in [false, true] {
        let file = open(&os(), &path, 1, prefetch);
        let mut held: Vec<_> = (1..=FEWEST_PAGES as u64).map(|page| file.pin(page).unwrap()).collect();
        for page in [40, 41, 42, 43] {
            assert!(matches!(file.pin(page).err(), Some(Error::AllPinned { .. })));
        }
        // A pinned page stays as it was, and may be pinned again.
        for (number, page) in (1..).zip(&held) {
            assert_eq!(number_of(page), number);
            assert_eq!(number_of(&file.pin(number).unwrap()), number);
        }
        held.pop();
        assert_eq!(number_of(&file.pin(40).unwrap()), 40);
        assert_eq!(number_of(&file.pin(41).unwrap()), 41);
    }
}

#[test]
fn many_threads_see_the_right_pages_while_few_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    build(&os(), &path, 4096, 500);
    // All open until the end: the sanitizer does not see that a scope ends its threads before memory is used anew.
    let files = [(1, false), (1, true), (100, true)]
        .map(|(cache_pages, prefetch)| open(&os(), &path, cache_pages, prefetch));
    for file in &files {
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                scope.spawn(move || {
                    let mut state = thread + 1;
                    for step in 0..3000u64 {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        // Runs and leaps, so that pages are read ahead as well.
                        let leap = 1 + (state >> 33) % 500;
                        let page = if step % 64 < 32 { 1 + (step + thread * 61) % 500 } else { leap };
                        let held = file.pin(page).unwrap();
                        assert_eq!(number_of(&held), page, "thread {thread}, step {step}");
                    }
                });
            }
        });
    }
}
