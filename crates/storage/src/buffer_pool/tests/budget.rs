//! Pools that share their memory.

use super::*;
use crate::budget::{Member, Reservation};

fn with_budget(budget: &Arc<Budget>, pages: u64) -> Pool {
    let (_, plain) = pool(pages, 16, 1, false);
    let config = Config {
        page_bytes: PAGE,
        frames: 1000,
        partitions: 3,
        most_pages: pages,
        prefetch: false,
        run_pages: 8,
        budget: Some(budget.clone()),
        topology: crate::numa::Topology::single(),
    };
    let io = Arc::new(IoQueue::idle(&IoConfig::default()));
    let pool = Pool::new(plain.file().clone(), io, &config, Box::new(|_| true)).unwrap();
    pool.set_pages(pages);
    pool
}

fn bytes(pool: &Pool) -> usize {
    pool.shared.bytes()
}

#[test]
fn memory_comes_as_it_is_needed_and_ends_at_the_limit() {
    let budget = Arc::new(Budget::new(200 * PAGE));
    let pool = with_budget(&budget, 500);
    assert_eq!((bytes(&pool), budget.used()), (0, 0));
    (0..30).for_each(|page| touch(&pool, page));
    assert!((30 * PAGE..60 * PAGE).contains(&bytes(&pool)), "{}", bytes(&pool));
    (0..500).for_each(|page| touch(&pool, page));
    assert_eq!(budget.used(), bytes(&pool));
    assert!((150 * PAGE..=200 * PAGE).contains(&budget.used()), "{}", budget.used());
    assert_eq!(pool.inconsistencies(), []);
    drop(pool);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_cannot_be_given_up_comes_first() {
    let budget = Arc::new(Budget::new(200 * PAGE));
    let pool = with_budget(&budget, 500);
    (0..500).for_each(|page| touch(&pool, page));
    let mut taken = Reservation::nothing(budget.clone());
    taken.set(150 * PAGE);
    assert!(budget.used() <= 200 * PAGE && bytes(&pool) <= 50 * PAGE);
    assert_eq!(pool.inconsistencies(), []);
    // However little there is, some pages can be had.
    taken.set(1000 * PAGE);
    assert_eq!(bytes(&pool), FEWEST_FRAMES * PAGE);
    (0..500).for_each(|page| touch(&pool, page));
    assert_eq!(pool.inconsistencies(), []);
    taken.set(10 * PAGE);
    (0..500).for_each(|page| touch(&pool, page));
    assert!(bytes(&pool) > 150 * PAGE);
    budget.set_limit(50 * PAGE);
    assert!(budget.used() <= 50 * PAGE);
    drop(taken);
    drop(pool);
    assert_eq!(budget.used(), 0);
}

#[test]
fn pools_that_need_it_have_equal_shares() {
    let budget = Arc::new(Budget::new(240 * PAGE));
    let (first, second) = (with_budget(&budget, 500), with_budget(&budget, 500));
    (0..500).for_each(|page| touch(&first, page));
    assert!(bytes(&first) > 200 * PAGE);
    (0..500).for_each(|page| touch(&second, page));
    assert!(bytes(&second) > 90 * PAGE, "{}", bytes(&second));
    (0..500).for_each(|page| touch(&first, page));
    assert!(bytes(&first) > 90 * PAGE, "{}", bytes(&first));
    assert_eq!(budget.used(), bytes(&first) + bytes(&second));
    // One that needs less leaves the rest to the other.
    drop(first);
    let first = with_budget(&budget, 20);
    (0..20).for_each(|page| touch(&first, page));
    (0..500).for_each(|page| touch(&second, page));
    assert!(bytes(&second) > 180 * PAGE, "{}", bytes(&second));
    assert_eq!((first.inconsistencies(), second.inconsistencies()), (vec![], vec![]));
}

/// Two pools that take from each other, and somebody who takes from both.
#[test]
fn threads_share_a_budget() {
    let budget = Arc::new(Budget::new(120 * PAGE));
    // Never dropped: the sanitizer does not see that the threads have ended before.
    let pools: &[Pool] = Vec::leak(vec![with_budget(&budget, 300), with_budget(&budget, 300)]);
    std::thread::scope(|scope| {
        for (seed, pool) in pools.iter().chain(pools).enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(seed as u64);
                (0..3000).for_each(|_| touch(pool, random.below(300)));
            });
        }
        let mut taken = Reservation::nothing(budget.clone());
        let mut random = Random::new(9);
        for _ in 0..300 {
            taken.set(random.below(60) as usize * PAGE);
            std::thread::yield_now();
        }
    });
    assert!(pools.iter().all(|pool| pool.inconsistencies().is_empty()));
    assert_eq!(budget.used(), pools.iter().map(bytes).sum());
}
