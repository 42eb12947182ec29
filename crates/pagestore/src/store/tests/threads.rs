//! Threads and fibers.

use super::*;

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
        Options { page_cleaner: PageCleaner::Background, max_dirty_ratio: 0.3, partitions: 3, ..options(96) };
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

/// Where a page was before does not matter to the next one: ids are handed out once each.
#[test]
fn thousands_of_concurrent_allocations_are_all_different() {
    let (_, medium) = medium();
    let database =
        open_with(&medium, &Options { page_cleaner: PageCleaner::Background, ..options(512) }).unwrap();
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
fn a_checkpoint_takes_a_page_however_many_pins_it_has() {
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

#[test]
fn a_pin_that_meets_a_cleaning_has_its_page() {
    let (_, medium) = medium();
    let database = open_with(&medium, &Options { max_dirty_ratio: 1.0, ..options(16) }).unwrap();
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
    for page_cleaner in [PageCleaner::Foreground, PageCleaner::Background] {
        let database = open_with(&medium, &Options { page_cleaner, ..options(48) }).unwrap();
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
