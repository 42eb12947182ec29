use super::*;
use crate::file::{FileKind, Medium, OpenMode, Operation};
use crate::io::IoConfig;
use crate::sim::SimMedium;
use crate::sim::{Faults, Random};
use std::path::Path;

mod budget;

pub(crate) const PAGE: usize = 4096;

/// A file of so many pages, each beginning with its number, and a pool over it.
pub(crate) fn pool(pages: u64, frames: usize, partitions: usize, prefetch: bool) -> (SimMedium, Pool) {
    let medium = SimMedium::new();
    let file = medium.open(Path::new("/pages"), FileKind::Database, OpenMode::Create).unwrap();
    for page in 0..pages {
        let mut bytes = vec![0; PAGE];
        bytes[..8].copy_from_slice(&page.to_le_bytes());
        file.write_at(&bytes, page * PAGE as u64).unwrap();
    }
    let config = Config {
        page_bytes: PAGE,
        frames,
        partitions,
        most_pages: pages,
        prefetch,
        run_pages: 1,
        budget: None,
        topology: crate::numa::Topology::single(),
    };
    let io = Arc::new(IoQueue::start(&IoConfig::default()).unwrap());
    let pool = Pool::new(file, io, &config, Box::new(|_| true)).unwrap();
    pool.set_pages(pages);
    (medium, pool)
}

pub(crate) fn number(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

pub(crate) fn touch(pool: &Pool, page: u64) {
    assert_eq!(number(&pool.pin(page).unwrap()), page);
}

/// The frames in order, and the page in each.
fn frames(pool: &Pool) -> Vec<u64> {
    let mut owned: Vec<(u32, u64)> =
        pool.shared.partitions.iter().flat_map(|part| part.lock().owned().collect::<Vec<_>>()).collect();
    owned.sort_unstable();
    owned.into_iter().map(|(_, page)| page).collect()
}

#[test]
fn the_clock_replaces_in_exactly_this_order() {
    let (_, pool) = pool(100, FEWEST_FRAMES, 1, false);
    (0..16).for_each(|page| touch(&pool, page));
    assert_eq!(frames(&pool), (0..16).collect::<Vec<_>>());
    // Once read, all are equal: the hand begins at the first frame.
    touch(&pool, 16);
    assert_eq!(frames(&pool)[..3], [16, 1, 2]);
    // Used again, a page is spared as often as it was used.
    touch(&pool, 1);
    (0..2).for_each(|_| touch(&pool, 2));
    touch(&pool, 17);
    assert_eq!(frames(&pool)[..5], [16, 1, 2, 17, 4]);
    // The next round comes by 16, which was read once, and then takes 1 and spares 2 a second time.
    (18..=30).for_each(|page| touch(&pool, page));
    assert_eq!(frames(&pool)[..4], [30, 1, 2, 17]);
    (31..=32).for_each(|page| touch(&pool, page));
    assert_eq!(frames(&pool)[..4], [30, 31, 2, 32]);
    assert_eq!(pool.statistics().evicted, 17);
}

#[test]
fn a_partition_without_frames_borrows_those_of_others() {
    let (_, pool) = pool(200, FEWEST_FRAMES, 4, false);
    // All of partition 0: it has four frames of its own.
    let pinned: Vec<Pinned<'_>> = (0..16).map(|index| pool.pin(4 * index).unwrap()).collect();
    assert!(pinned.iter().enumerate().all(|(index, page)| number(page) == 4 * index as u64));
    assert!(matches!(pool.pin(1), Err(Error::AllPinned { frames: 16 })));
    assert!(matches!(pool.pin_new(1), Err(Error::AllPinned { frames: 16 })));
    drop(pinned);
    (0..200).for_each(|page| touch(&pool, page));
    assert_eq!(pool.inconsistencies(), []);
    for page in 0..200 {
        pool.forget(page).unwrap();
    }
    assert_eq!((pool.statistics().free, pool.inconsistencies()), (16, vec![]));
}

#[test]
fn a_pinned_page_keeps_its_writer_waiting_and_is_not_evicted() {
    let (_, pool) = pool(40, FEWEST_FRAMES, 2, false);
    let pinned = pool.pin(3).unwrap();
    assert!(matches!(pool.forget(3), Err(Error::Pinned { page: 3 })));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| pool.pin_mut(3).map(|mut page| page[0] = 9).unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((number(&pinned), writer.is_finished()), (3, false));
        drop(pinned);
        writer.join().unwrap();
    });
    assert_eq!((pool.pin(3).unwrap()[0], pool.dirty()), (9, 1));
    // A dirty page stays, however many others come.
    (4..40).for_each(|page| touch(&pool, page));
    assert_eq!(pool.pin(3).unwrap()[0], 9);
    let dropped = pool.clean();
    assert_eq!(dropped.iter().map(Cleaning::page).collect::<Vec<_>>(), [3]);
    drop(dropped);
    assert_eq!(pool.dirty(), 1);
    pool.clean().into_iter().for_each(Cleaning::done);
    assert_eq!(pool.dirty(), 0);
    pool.forget(3).unwrap();
    assert_eq!(number(&pool.pin(3).unwrap()), 3);
}

#[test]
fn there_are_readable_bytes_behind_the_last_frame() {
    let (_, pool) = pool(16, FEWEST_FRAMES, 1, false);
    let pages: Vec<Pinned<'_>> = (0..16).map(|page| pool.pin(page).unwrap()).collect();
    let last = pages.iter().map(|page| page.as_ptr()).max().unwrap();
    // SAFETY: that this may be read is the promise.
    let behind = unsafe { std::slice::from_raw_parts(last.add(PAGE), crate::frames::TAIL_BYTES) };
    assert!(behind.iter().all(|byte| *byte == 0));
}

#[test]
fn a_failed_read_is_told_and_leaves_its_frame_free() {
    let (medium, pool) = pool(50, FEWEST_FRAMES, 2, false);
    medium.set_faults(Faults::failing(Operation::Read, FileKind::Database, 0));
    for page in 0..50 {
        assert!(matches!(pool.pin(page), Err(Error::Read { .. })));
        assert!(matches!(pool.pin_mut(page), Err(Error::Read { .. })));
    }
    medium.set_faults(Faults::default());
    assert_eq!((pool.statistics().free, pool.inconsistencies()), (16, vec![]));
    touch(&pool, 7);
}

#[test]
fn a_scan_is_read_ahead_and_not_past_the_end() {
    let (_, pool) = pool(300, 64, 3, true);
    (0..300).for_each(|page| touch(&pool, page));
    let statistics = pool.statistics();
    assert_eq!(statistics.missed + statistics.ahead, 300);
    assert!(statistics.ahead > 250 && statistics.ahead_used >= statistics.ahead - 64, "{statistics:?}");
    assert!(matches!(pool.pin(300), Err(Error::NoSuchPage { page: 300 })));
}

#[test]
fn pages_to_read_ahead_are_read_where_the_page_that_led_to_them_is_taken_by_another() {
    let (_, pool) = pool(100, 64, 1, true);
    let until = |what: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !what() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        what()
    };
    let on_their_way = || pool.shared.ahead_on_their_way.load(Ordering::Relaxed);
    (0..4).for_each(|page| touch(&pool, page));
    assert!(until(&|| on_their_way() == 0));
    // Its first use asks for the next window, and then it cannot be held: all holds are taken.
    let ahead = pool.statistics().ahead;
    let state = pool.shared.table.of(4).unwrap();
    let pins = std::iter::from_fn(|| state.pin_ready()).count();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| touch(&pool, 4));
        assert!(until(&|| pool.statistics().ahead > ahead));
        (0..pins).for_each(|_| state.unpin());
        first.join().unwrap();
    });
    assert!(until(&|| on_their_way() == 0), "{} pages are being read for ever", on_their_way());
    (0..100).for_each(|page| touch(&pool, page));
}

/// Threads that hold, write, make new, forget and clean pages while some reads fail.
#[test]
fn whatever_threads_do_a_page_has_one_frame_and_holds_its_own_bytes() {
    for (seed, partitions, prefetch) in [(1, 1, true), (2, 3, true), (3, 8, false), (4, 5, true)] {
        let (medium, pool) = pool(200, 40, partitions, prefetch);
        let writing = crate::sync::RwLock::new(());
        let is_of = |bytes: &[u8], page: u64| {
            bytes.iter().skip(8).all(|byte| *byte == bytes[8]) && number(bytes) == page
        };
        let rounds = if cfg!(debug_assertions) { 4000 } else { 16_000 };
        let stress = |thread: u64| {
            let mut random = Random::new(seed * 100 + thread);
            let mut done = 0;
            for round in 0..rounds {
                let page = if random.one_in(2) { (round + thread * 50) % 200 } else { random.below(200) };
                match random.below(16) {
                    0..=6 => {
                        if let Ok(pinned) = pool.pin(page) {
                            assert!(is_of(&pinned, page), "page {page}");
                            done += 1;
                        }
                    }
                    7..=8 => {
                        let _writes = writing.read();
                        if let Ok(mut pinned) = pool.pin_mut(page) {
                            assert!(is_of(&pinned, page), "page {page}");
                            pinned[8..].fill(random.bits() as u8);
                        }
                    }
                    9 => {
                        let _writes = writing.read();
                        if let Ok(mut pinned) = pool.pin_new(page) {
                            pinned[..8].copy_from_slice(&page.to_le_bytes());
                        }
                    }
                    10..=11 => drop(pool.forget(page)),
                    12 => pool.forget_clean(page),
                    13 => {
                        let _writes = writing.read();
                        if let Ok(mut pinned) = pool.pin_mut(page) {
                            pinned[8..].fill(1);
                            pool.discard(pinned);
                        }
                    }
                    _ if thread == 0 || pool.dirty() > 20 => {
                        let nobody_writes = writing.write();
                        let pages = pool.clean();
                        drop(nobody_writes);
                        for cleaning in pages {
                            assert!(is_of(&cleaning, cleaning.page()));
                            if !random.one_in(4) {
                                pool.file().write_at(&cleaning, cleaning.page() * PAGE as u64).unwrap();
                                cleaning.done();
                            }
                        }
                    }
                    _ => medium.set_faults(match random.below(3) {
                        0 => Faults::failing(Operation::Read, FileKind::Database, random.below(20)),
                        _ => Faults::default(),
                    }),
                }
            }
            done
        };
        let done: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let stress = &stress;
                    scope.spawn(move || stress(thread))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(done > rounds / 2);
        medium.set_faults(Faults::default());
        while pool.shared.ahead_on_their_way.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let dirty = (0..200).filter(|page| pool.shared.table.of(*page).unwrap().is_dirty()).count();
        assert_eq!((pool.dirty(), pool.inconsistencies()), (dirty, vec![]));
        assert_eq!(pool.shared.cleaning.load(Ordering::Relaxed), 0);
        (0..200).for_each(|page| pool.forget(page).unwrap());
        assert_eq!((pool.statistics().free, pool.dirty(), pool.inconsistencies()), (40, 0, vec![]));
        eprintln!("{partitions} partitions: {done} of {rounds} x 4 held");
    }
}
