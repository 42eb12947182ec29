//! Power cuts.

use super::*;

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
            random_changes(&database, &mut model, &mut random, &mut next);
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
    let cuts = std::env::var("LITEFOOT_GROUP_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(8);
    assert_eq!(run(Faults::default(), 1, cuts).1, None);
    let (_, failure) = run(Faults::ignoring(SyncSite::File(FileKind::Metadata), None), 3, 100);
    assert!(failure.is_some(), "nothing is lost without the sync of the metadata");
}

/// The log that was recovered stays until the next generation, which begins in it.
#[test]
fn power_cuts_after_a_recovery_leave_what_a_checkpoint_has_left() {
    let (sim, medium) = medium();
    let database = open(&medium);
    let first = database.unit().unwrap().reserve(10).unwrap() + 10;
    database.checkpoint().unwrap();
    (1..first).for_each(|page| fill(&mut database.unit().unwrap().pin_mut(page).unwrap(), page));
    sim.set_faults(Faults::failing(Operation::Write, FileKind::Database, 0));
    assert!(database.checkpoint().is_err());
    std::mem::forget(database);
    let files = sim.cut(&mut Random::new(1)).files();
    let begin = || SimMedium::with_files(files.clone());
    assert_eq!(power_cuts_from(begin, first, 9, 80, 800).1, None);
}

/// The process that cuts the file, or counts the groups, ends before that is durable; the next one goes on.
#[test]
fn what_another_process_has_not_synced_is_synced_before_it_is_built_upon() {
    for seed in 0..6 {
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
