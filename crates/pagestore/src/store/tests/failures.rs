//! Media that fail, and disks that are full.

use super::*;

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

/// Pages one behind the other leave together, the room behind them is cut off once, and one sync makes both durable.
#[test]
fn recovery_asks_the_medium_for_no_more_than_it_needs() {
    let (sim, medium) = medium();
    let database = open_with(&medium, &options(512)).unwrap();
    (0..300).for_each(|with| _ = alloc(&database, with));
    database.checkpoint().unwrap();
    for page in 1..=200 {
        fill(&mut database.unit().unwrap().pin_mut(page).unwrap(), 500 + page);
    }
    sim.set_faults(Faults::failing(Operation::Write, FileKind::Database, 0));
    assert!(database.checkpoint().is_err());
    std::mem::forget(database);
    let counting = CountingMedium::new(Arc::new(sim.cut(&mut Random::new(7))));
    let medium: Arc<dyn Medium> = Arc::new(counting.clone());
    let database = open_with(&medium, &options(512)).unwrap();
    let counts = counting.snapshot().of(FileKind::Database);
    assert_eq!((counts.writes, counts.length_changes, counts.syncs), (4, 1, 1));
    for page in 1..=300 {
        let expected = if page <= 200 { 500 + page } else { page - 1 };
        assert_eq!(value(&database.pin(page).unwrap()), expected, "page {page}");
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
    sim.set_faults(Faults::full_at(sim.used_bytes()));
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
    let (mut failures, mut cuts) = (0, 0);
    let runs = std::env::var("LITEFOOT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    for seed in 0..runs {
        let mut random = Random::new(seed);
        let (mut sim, mut medium) = medium();
        let (mut states, mut next, mut least) = (vec![Content::new()], 0, 0);
        let options = Options { prefetch: random.one_in(2), max_dirty_ratio: 1.0, ..options(64) };
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
                sim.set_faults(random_faults(&mut random, sim.used_bytes()));
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
                    // The rest of its work happens to a medium that is gone.
                    drop(database);
                    (sim, medium) = (image.clone(), Arc::new(image));
                }
            }
            sim.set_faults(Faults::default());
            for _ in 0..random.below(3) {
                sim.set_faults(random_faults(&mut random, sim.used_bytes()));
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
