use super::*;
use crate::device::sim::Faults;
use crate::device::{FileKind, Medium, OpenMode, Operation, SimMedium};
use crate::task::io::IoConfig;
use std::path::Path;

const PAGE: usize = 4096;

/// A file of so many pages, each beginning with its number, and a pool over it.
fn pool(pages: u64, frames: usize, partitions: usize, prefetch: bool) -> (SimMedium, Pool) {
    let medium = SimMedium::new();
    let file = medium.open(Path::new("/pages"), FileKind::Database, OpenMode::Create).unwrap();
    for page in 0..pages {
        let mut bytes = vec![0; PAGE];
        bytes[..8].copy_from_slice(&page.to_le_bytes());
        file.write_at(&bytes, page * PAGE as u64).unwrap();
    }
    let config = Config { page_bytes: PAGE, frames, partitions, most_pages: pages, prefetch };
    let io = Arc::new(IoQueue::start(&IoConfig::default()).unwrap());
    let pool = Pool::new(file, io, &config, Box::new(|_| true)).unwrap();
    pool.set_pages(pages);
    (medium, pool)
}

fn number(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

fn touch(pool: &Pool, page: u64) {
    assert_eq!(number(&pool.hold(page).unwrap()), page);
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
    let held: Vec<Held<'_>> = (0..16).map(|index| pool.hold(4 * index).unwrap()).collect();
    assert!(held.iter().enumerate().all(|(index, page)| number(page) == 4 * index as u64));
    assert!(matches!(pool.hold(1), Err(Error::AllHeld { frames: 16 })));
    assert!(matches!(pool.hold_new(1), Err(Error::AllHeld { frames: 16 })));
    drop(held);
    (0..200).for_each(|page| touch(&pool, page));
    assert_eq!(pool.inconsistencies(), []);
    for page in 0..200 {
        pool.forget(page).unwrap();
    }
    assert_eq!((pool.statistics().free, pool.inconsistencies()), (16, vec![]));
}

#[test]
fn a_page_that_somebody_holds_keeps_its_writer_waiting_and_is_not_forgotten() {
    let (_, pool) = pool(40, FEWEST_FRAMES, 2, false);
    let held = pool.hold(3).unwrap();
    assert!(matches!(pool.forget(3), Err(Error::Held { page: 3 })));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| pool.hold_mut(3).map(|mut page| page[0] = 9).unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((number(&held), writer.is_finished()), (3, false));
        drop(held);
        writer.join().unwrap();
    });
    assert_eq!((pool.hold(3).unwrap()[0], pool.dirty()), (9, 1));
    // A dirty page stays, however many others come.
    (4..40).for_each(|page| touch(&pool, page));
    assert_eq!(pool.hold(3).unwrap()[0], 9);
    let dropped = pool.clean();
    assert_eq!(dropped.iter().map(Cleaning::page).collect::<Vec<_>>(), [3]);
    drop(dropped);
    assert_eq!(pool.dirty(), 1);
    pool.clean().into_iter().for_each(Cleaning::done);
    assert_eq!(pool.dirty(), 0);
    pool.forget(3).unwrap();
    assert_eq!(number(&pool.hold(3).unwrap()), 3);
}

#[test]
fn there_are_readable_bytes_behind_the_last_frame() {
    let (_, pool) = pool(16, FEWEST_FRAMES, 1, false);
    let pages: Vec<Held<'_>> = (0..16).map(|page| pool.hold(page).unwrap()).collect();
    let last = pages.iter().map(|page| page.as_ptr()).max().unwrap();
    // SAFETY: that this may be read is the promise.
    let behind = unsafe { std::slice::from_raw_parts(last.add(PAGE), frames::TAIL_BYTES) };
    assert!(behind.iter().all(|byte| *byte == 0));
}

#[test]
fn a_failed_read_is_told_and_leaves_its_frame_free() {
    let (medium, pool) = pool(50, FEWEST_FRAMES, 2, false);
    medium.set_faults(Faults::failing(Operation::Read, FileKind::Database, 0));
    for page in 0..50 {
        assert!(matches!(pool.hold(page), Err(Error::Read { .. })));
        assert!(matches!(pool.hold_mut(page), Err(Error::Read { .. })));
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
    assert!(matches!(pool.hold(300), Err(Error::NoSuchPage { page: 300 })));
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
    let holds = std::iter::from_fn(|| state.hold_ready()).count();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| touch(&pool, 4));
        assert!(until(&|| pool.statistics().ahead > ahead));
        (0..holds).for_each(|_| state.let_go());
        first.join().unwrap();
    });
    assert!(until(&|| on_their_way() == 0), "{} pages are being read for ever", on_their_way());
    (0..100).for_each(|page| touch(&pool, page));
}
