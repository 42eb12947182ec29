//! Pages by address, and writes beneath them.

use super::*;
use crate::buffer_pool::FEWEST_FRAMES;
use crate::buffer_pool::tests::{PAGE, number, pool, touch};
use crate::sim::Random;
use crate::sync::RwLock;
use std::sync::atomic::AtomicBool;

fn word(address: std::ptr::NonNull<u8>) -> u64 {
    // SAFETY: the page is held, and nobody changes it meanwhile.
    number(unsafe { std::slice::from_raw_parts(address.as_ptr(), PAGE) })
}

fn unpin(pool: &MappedPool, page: u64) {
    // SAFETY: the test has mapped it, and looks no more.
    unsafe { pool.unpin(page) }
}

fn look(pool: &MappedPool, page: u64) -> u64 {
    let value = word(pool.map(page, &mut ()).unwrap());
    unpin(pool, page);
    value
}

fn page_of(value: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn write(pool: &MappedPool, page: u64, value: u64) {
    let bytes = page_of(value);
    let change = || pool.file().write_at(&bytes, page * PAGE as u64).map_err(|_| Error::Pinned { page });
    let fill = |_, frame: &mut [u8]| {
        frame.copy_from_slice(&bytes);
        true
    };
    pool.change(page..page + 1, change, fill).unwrap();
}

#[test]
fn a_write_beneath_reaches_those_who_hold_and_those_who_come() {
    let pool = MappedPool::new(pool(64, 32, 2, false).1);
    let pinned = pool.map(3, &mut ()).unwrap();
    write(&pool, 3, 333);
    write(&pool, 4, 444);
    assert_eq!((word(pinned), look(&pool, 3), look(&pool, 4)), (333, 333, 444));
    unpin(&pool, 3);
    assert_eq!(pool.inconsistencies(), []);
}

#[test]
fn after_a_failed_write_only_what_is_pinned_stays() {
    let pool = MappedPool::new(pool(64, 32, 2, false).1);
    let pinned = pool.map(3, &mut ()).unwrap();
    look(&pool, 4);
    let failed: Result<()> =
        pool.change(3..6, || Err(Error::Pinned { page: 3 }), |_, _| panic!("nothing to fill"));
    assert!(failed.is_err());
    assert_eq!((word(pinned), pool.try_map(4), pool.try_map(5)), (3, None, None));
    unpin(&pool, 3);
    assert_eq!(pool.inconsistencies(), []);
}

#[test]
fn behind_the_end_is_nothing_and_then_zeros() {
    let pool = MappedPool::new(pool(64, 64, 3, false).1);
    (0..64).for_each(|page| _ = look(&pool, page));
    let pinned = pool.map(40, &mut ()).unwrap();
    pool.truncate(30).unwrap();
    assert_eq!((pool.pages(), pool.try_map(29).is_some(), pool.try_map(35)), (30, true, None));
    unpin(&pool, 29);
    assert!(matches!(pool.map(35, &mut ()), Err(Error::NoSuchPage { page: 35 })));
    pool.file().set_len(30 * PAGE as u64).unwrap();
    pool.file().set_len(64 * PAGE as u64).unwrap();
    pool.set_pages(64);
    assert_eq!((word(pinned), look(&pool, 40), look(&pool, 50), look(&pool, 10)), (0, 0, 0, 10));
    unpin(&pool, 40);
    assert_eq!(pool.inconsistencies(), []);
}

#[test]
fn whatever_a_file_has_claimed_only_pages_in_memory_are_cut_off() {
    let pool = pool(64, FEWEST_FRAMES, 3, false).1;
    (25..35).chain([40]).for_each(|page| touch(&pool, page));
    let looked_at: Vec<u64> = pool.shared.perhaps_in_memory(30..1 << 40).collect();
    assert_eq!(looked_at, [30, 31, 32, 33, 34, 40]);
    let pool = MappedPool::new(pool);
    let pinned = pool.map(40, &mut ()).unwrap();
    pool.set_pages(1 << 40);
    pool.truncate(30).unwrap();
    assert_eq!((word(pinned), look(&pool, 29), pool.try_map(33), pool.is_stale()), (0, 29, None, true));
    unpin(&pool, 40);
    assert_eq!(pool.inconsistencies(), []);
}

#[test]
fn an_advisor_is_asked_at_a_miss_and_at_the_first_use() {
    struct Next(Vec<u64>);
    impl Advisor for Next {
        fn wanted(&mut self, page: u64, _: &Resident<'_>, ahead: &mut Vec<u64>) {
            self.0.push(page);
            ahead.extend([page + 1, page + 2, 1000]);
        }
    }
    let pool = MappedPool::new(pool(64, 32, 2, false).1);
    let mut asked = Next(Vec::new());
    for page in [5, 6, 6, 5, 20] {
        assert_eq!(word(pool.map(page, &mut asked).unwrap()), page);
        unpin(&pool, page);
    }
    assert_eq!(asked.0, [5, 6, 20]);
    let statistics = pool.statistics();
    assert_eq!((statistics.missed, statistics.ahead, statistics.ahead_used), (2, 5, 1));
}

/// Writers and readers of a page keep out of each other's way, as SQLite's locks have it; who reads ahead does not.
#[test]
fn threads_never_see_what_was_before_a_write() {
    const PAGES: u64 = 40;
    let pool = MappedPool::new(pool(PAGES, FEWEST_FRAMES, 3, false).1);
    // Never dropped: the sanitizer does not see that the threads have ended before.
    let pool: &MappedPool = Box::leak(Box::new(pool));
    let values: &[RwLock<u64>] = Vec::leak((0..PAGES).map(RwLock::new).collect());
    let over: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let context = (pool, values, over);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || {
                let (pool, values, over) = context;
                let mut random = Random::new(seed + 10);
                while !over.load(Ordering::Relaxed) {
                    let page = random.below(PAGES);
                    let value = values[page as usize].read();
                    if let Ok(address) = pool.map(page, &mut ()) {
                        let found = word(address);
                        unpin(pool, page);
                        assert_eq!(found, *value, "page {page}");
                    }
                }
            });
        }
        scope.spawn(move || {
            let (pool, _, over) = context;
            let mut random = Random::new(1);
            while !over.load(Ordering::Relaxed) {
                let first = random.below(PAGES);
                pool.read_ahead(&(first..first + 4).collect::<Vec<_>>());
                std::thread::yield_now();
            }
        });
        let mut random = Random::new(2);
        for value in 1000..2500 {
            let page = random.below(PAGES);
            let mut place = values[page as usize].write();
            write(pool, page, value);
            *place = value;
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(pool.inconsistencies(), []);
}
