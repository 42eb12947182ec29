//! Power cuts from one generation of a rollback-journal database's deltas to the next, with each sync left out once.

use super::tests::{PAGES, State, commit, created, deltas, opened, seen};
use crate::commit::of_test::{cut_everywhere, needless_syncs, read_by_stock};
use crate::options::Options;
use crate::sync::lock_table::Level;
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{FileKind, Medium};
use std::path::Path;

const GENERATIONS: u8 = 3;

/// Some generations on a medium, and after each acknowledged commit the operation and the state.
fn history(medium: &SimMedium) -> Vec<(usize, State)> {
    let database = created(medium);
    let (db, log) = (database.db(), database.rollback_log());
    let mut history = vec![(medium.operations(), seen(&database).unwrap())];
    let mut counter = 10;
    for generation in 0..GENERATIONS {
        let byte = |number: u8| 10 * (generation + 1) + number;
        let commits: [&[(u32, u8)]; 4] = [
            &[(2, byte(1)), (3, byte(1))],
            &[(2, byte(2)), (5, byte(2))],
            &[(3, byte(3))],
            // Another commit comes before the checkpoint has ended.
            &[(2, byte(4)), (4, byte(4))],
        ];
        for (number, pages) in commits.into_iter().enumerate() {
            let before = deltas(&database);
            counter += 1;
            commit(&database, counter, pages, PAGES);
            assert_eq!(deltas(&database) - before, u64::from(number < 3));
            history.push((medium.operations(), seen(&database).unwrap()));
            if number == 2 {
                log.with_state(|state| state.fold(db)).unwrap();
            }
        }
        if generation < GENERATIONS - 1 {
            log.with_state(|state| state.checkpoint(db)).unwrap();
        }
    }
    // What the process would bring home is left to the cuts.
    std::mem::forget(database);
    history
}

/// The state that opening finds; `None` where it refuses.
fn recovered(image: &SimMedium) -> Option<State> {
    let database = opened(image, Options::default());
    database.lock(&database.locks().new_reader_slot(), Level::Shared).ok()?;
    database.recovery().check_replayed().ok()?;
    let state = seen(&database);
    assert_eq!(image.info(Path::new("/app.db-commits")).unwrap(), None, "nothing waits any more");
    state
}

/// Cuts at every operation, and again during recovery; answers the first failure.
fn cut_with(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    cut_everywhere(&medium, &history, (Random::new(9), 6), |mut image, number, random| {
        if number % 2 == 1 {
            read_by_stock(&image);
        }
        if number % 3 == 2 {
            let _ = recovered(&image);
            let mut recovery = image.replay();
            recovery.advance(random.below(recovery.len() as u64 + 1) as usize);
            image = recovery.cut(random);
        }
        recovered(&image)
    })
}

#[test]
fn power_cuts_leave_what_was_acknowledged_also_behind_a_stock_reader_and_a_cut_recovery() {
    assert_eq!(cut_with(Faults::default()), None);
}

#[test]
fn each_sync_that_is_left_out_is_missed() {
    let file = SyncSite::File;
    let sites =
        [file(FileKind::CommitLog), file(FileKind::RedoLog), file(FileKind::Database), SyncSite::Directory];
    // The first one of the database file, and of the directory, is the creation. The second one of the database file is for what
    // another process may have left unsynced: here there is none. The second one of the directory is the commit log's, and makes
    // the name of the redo log durable, too.
    let relied_on = |site, count| match site {
        SyncSite::Directory => 1..2,
        SyncSite::File(FileKind::Database) => 2..count,
        _ => 0..count,
    };
    assert_eq!(needless_syncs(&sites, |medium| drop(history(medium)), relied_on, cut_with), []);
}
