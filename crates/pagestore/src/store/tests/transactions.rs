//! Transactions, and checkpoints by an interval.

use super::*;
use std::time::Duration;

/// Pages 1 to 3, of which the last is dirty.
fn three_pages(medium: &Arc<dyn Medium>) -> Database {
    let database = open(medium);
    (1..=3).for_each(|with| _ = alloc(&database, with));
    database.checkpoint().unwrap();
    fill(&mut database.unit().unwrap().pin_mut(3).unwrap(), 30);
    database
}

fn change_all(transaction: &mut Transaction<'_>) {
    for page in [1, 3] {
        fill(transaction.pin_mut(page).unwrap(), 77);
    }
    transaction.release(2).unwrap();
    let (page, bytes) = transaction.alloc().unwrap();
    assert_eq!((page, value(bytes)), (4, 0));
    fill(bytes, 77);
}

#[test]
fn a_transaction_is_there_whole_or_not_at_all() {
    for keep in [true, false] {
        let (sim, medium) = medium();
        let database = three_pages(&medium);
        let mut transaction = database.transaction().unwrap();
        change_all(&mut transaction);
        assert_eq!(value(&transaction.pin(1).unwrap()), 77);
        assert!(matches!(transaction.pin(2), Err(Error::NotAllocated { page: 2 })));
        assert!(matches!(transaction.release(2), Err(Error::NotAllocated { page: 2 })));
        let expected = if keep {
            transaction.commit();
            Content::from([(1, 77), (3, 77), (4, 77)])
        } else {
            transaction.roll_back();
            Content::from([(1, 1), (2, 2), (3, 30)])
        };
        assert_eq!(content(&database), expected);
        database.check().unwrap();
        database.checkpoint().unwrap();
        std::mem::forget(database);
        let medium: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(1)));
        assert_eq!(content(&open(&medium)), expected);
    }
}

#[test]
fn a_rolled_back_transaction_leaves_no_page_dirty_that_was_clean() {
    let (_, medium) = medium();
    let database = three_pages(&medium);
    assert_eq!(database.statistics().pool.dirty, 1);
    let mut transaction = database.transaction().unwrap();
    change_all(&mut transaction);
    drop(transaction);
    assert_eq!(database.statistics().pool.dirty, 1);
}

#[test]
fn a_page_that_a_transaction_allocates_and_releases_is_free_at_once() {
    let (_, medium) = medium();
    let database = three_pages(&medium);
    let mut transaction = database.transaction().unwrap();
    for _ in 0..3 {
        let (page, _) = transaction.alloc().unwrap();
        assert_eq!(page, 4);
        transaction.release(page).unwrap();
    }
    transaction.commit();
    database.check().unwrap();
}

/// Pages of a transaction are pinned for writing. Where the gate is left out, a checkpoint finds the table changed.
#[test]
fn a_checkpoint_waits_for_a_transaction_or_tears_it() {
    for waits in [true, false] {
        let (sim, medium) = medium();
        let database = three_pages(&medium);
        database.checkpoint().unwrap();
        let before = content(&database);
        let mut transaction = database.transaction().unwrap();
        change_all(&mut transaction);
        let gate = &database.inner().gate;
        if waits {
            std::thread::scope(|scope| {
                scope.spawn(|| database.checkpoint().unwrap());
                transaction.roll_back();
            });
        } else {
            gate.leave();
            database.checkpoint().unwrap();
            gate.enter();
            std::mem::forget(transaction);
        }
        std::mem::forget(database);
        let medium: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(1)));
        assert_eq!(content(&open(&medium)) == before, waits);
    }
}

/// A value is odd until its transaction ends.
#[test]
fn threads_see_no_change_of_a_transaction_that_has_not_ended() {
    let (_, medium) = medium();
    let database = open(&medium);
    let pages = [alloc(&database, 0), alloc(&database, 0)];
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, ended) = (&database, &ended);
            scope.spawn(move || {
                for round in 0..200u64 {
                    let mut transaction = database.transaction().unwrap();
                    for page in pages {
                        fill(transaction.pin_mut(page).unwrap(), 4 * round + 1);
                        std::thread::yield_now();
                    }
                    if (round + thread).is_multiple_of(2) {
                        pages
                            .iter()
                            .for_each(|page| fill(transaction.pin_mut(*page).unwrap(), 4 * round + 2));
                        transaction.commit();
                    }
                }
                ended.fetch_add(1, Ordering::Release);
            });
        }
        scope.spawn(|| {
            while ended.load(Ordering::Acquire) < 2 {
                for page in pages {
                    assert!(value(&database.pin(page).unwrap()).is_multiple_of(2));
                }
            }
        });
    });
    assert_eq!(value(&database.pin(pages[0]).unwrap()), value(&database.pin(pages[1]).unwrap()));
    database.check().unwrap();
}

fn by_interval(frames: usize) -> Options {
    Options { prefetch: false, checkpoint_interval: Some(Duration::from_millis(1)), ..options(frames) }
}

/// Waits until the cleaner has made everything durable; a minute at most.
fn wait_until_clean(database: &Database) {
    for _ in 0..60_000 {
        std::thread::sleep(Duration::from_millis(1));
        // In this order: a page that is clean, or being cleaned, is durable once no checkpoint is at work.
        if database.statistics().pool.dirty == 0 && database.inner().busy.look(|busy| !*busy) {
            return;
        }
    }
    panic!("no checkpoint was made");
}

#[test]
fn no_interval_is_zero() {
    let (_, medium) = medium();
    let options = Options { checkpoint_interval: Some(Duration::ZERO), ..options(64) };
    assert!(matches!(open_with(&medium, &options), Err(Error::Interval)));
}

/// Units and transactions while the cleaner makes checkpoints; answers the first failure of a cut.
fn cuts_by_interval(seed: u64, faults: Faults) -> Option<String> {
    let (sim, medium) = medium();
    sim.set_faults(faults);
    let mut random = Random::new(seed);
    let database = open_with(&medium, &by_interval(24)).unwrap();
    let mut states = vec![Content::new()];
    let (mut begun, mut durable) = (vec![(0, 0)], vec![(sim.operations(), 0)]);
    let mut next = 0;
    for step in 0..60 {
        let mut model = states.last().unwrap().clone();
        begun.push((sim.operations(), states.len()));
        random_changes(&database, &mut model, &mut random, &mut next);
        states.push(model);
        if step % 10 == 9 {
            let mut model = states.last().unwrap().clone();
            begun.push((sim.operations(), states.len()));
            // It makes a page dirty, whatever the changes before it were.
            next += 1;
            model.insert(alloc(&database, next), next);
            states.push(model);
            wait_until_clean(&database);
            durable.push((sim.operations(), states.len() - 1));
        }
    }
    let end = sim.operations();
    drop(database);
    let mut replay = sim.replay();
    let mut moments: Vec<usize> =
        (0..300).map(|_| durable[0].0 + random.below((end - durable[0].0 + 1) as u64) as usize).collect();
    moments.sort_unstable();
    for cut in moments {
        replay.advance(cut);
        let medium: Arc<dyn Medium> = Arc::new(replay.cut(&mut random));
        let state_at = |list: &[(usize, usize)]| list.iter().rev().find(|(at, _)| *at <= cut).unwrap().1;
        let (least, most) = (state_at(&durable), state_at(&begun));
        match open_with(&medium, &Options { prefetch: false, ..options(64) }) {
            Err(error) => return Some(format!("cut at {cut}: {error}")),
            Ok(database) if !states[least..=most].contains(&content(&database)) => {
                return Some(format!("cut at {cut}: no state of {least} to {most}"));
            }
            Ok(_) => {}
        }
    }
    None
}

#[test]
fn power_cuts_leave_what_a_checkpoint_by_an_interval_has_left() {
    for seed in 0..4 {
        assert_eq!(cuts_by_interval(seed, Faults::default()), None, "seed {seed}");
    }
    for site in [SyncSite::File(FileKind::RedoLog), SyncSite::File(FileKind::Database)] {
        let lost = (0..20).any(|seed| cuts_by_interval(seed, Faults::ignoring(site, None)).is_some());
        assert!(lost, "nothing is lost without {site:?}");
    }
}
