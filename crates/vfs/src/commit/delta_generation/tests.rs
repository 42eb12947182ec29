//! Power cuts from one generation of deltas to the next, with each sync left out once.

use super::*;
use crate::commit::of_test::{Logs, PAGE, cut_everywhere, needless_syncs, read_by_stock, recovered_deltas};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{FileKind, Medium};
use std::path::Path;

/// The first byte of each page.
type State = Vec<u8>;

const PAGES: usize = 6;
const GENERATIONS: u8 = 3;

/// Some generations on a medium, and after each acknowledged commit the operation and the state.
fn history(medium: &SimMedium) -> Vec<(usize, State)> {
    let logs = Logs::of_test_on(medium, &[7; PAGES * PAGE], 1 << 20);
    logs.db.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    let mut state = vec![7; PAGES];
    let mut history = vec![(medium.operations(), state.clone())];
    let mut note = |pages: &[(u32, u8)]| {
        pages.iter().for_each(|(number, byte)| state[*number as usize - 1] = *byte);
        history.push((medium.operations(), state.clone()));
    };
    for generation in 0..GENERATIONS {
        let byte = |number: u8| 10 * (generation + 1) + number;
        logs.commit_deltas(&[(2, byte(1)), (3, byte(1))], PAGES as u32);
        note(&[(2, byte(1)), (3, byte(1))]);
        logs.commit_deltas(&[(2, byte(2)), (5, byte(2))], PAGES as u32);
        note(&[(2, byte(2)), (5, byte(2))]);
        logs.commit_deltas(&[(3, byte(3))], PAGES as u32);
        note(&[(3, byte(3))]);
        logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, false, (None, None)).unwrap();
        // Another commit comes before the checkpoint has ended.
        let pages = Some(logs.write_first_bytes(&[(2, byte(4)), (4, byte(4))], PAGES as u32));
        logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, true, (pages, pages)).unwrap();
        note(&[(2, byte(4)), (4, byte(4))]);
        if generation == GENERATIONS - 1 {
            break;
        }
        logs.checkpoint();
    }
    history
}

/// Cuts at every operation; answers the first failure.
fn cut_with(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    cut_everywhere(&medium, &history, (Random::new(9), 6), |image, number, _| {
        if number % 2 == 1 {
            read_by_stock(&image);
        }
        recovered_deltas(&image, PAGES, 1 << 20)
    })
}

#[test]
fn power_cuts_leave_what_was_acknowledged_also_behind_a_stock_reader() {
    assert_eq!(cut_with(Faults::default()), None);
}

#[test]
fn each_sync_that_is_left_out_is_missed() {
    let sites = [FileKind::CommitLog, FileKind::RedoLog, FileKind::Database].map(SyncSite::File);
    let run = |medium: &SimMedium| drop(history(medium));
    assert_eq!(needless_syncs(&sites, run, |_, count| 0..count, cut_with), []);
}

#[test]
fn a_generation_that_has_begun_in_memory_only_ends_before_the_data_file_is_written() {
    let logs = Logs::of_test(&[7; PAGES * PAGE], 1 << 20);
    let base = || logs.group.with_writer(|writer| writer.commit_log.base());
    logs.group.with_writer(|writer| assert!(writer.prepare_deltas(&logs.db, 4_096).unwrap()));
    let first = base().unwrap();
    logs.group.before_early_write(logs.pages()).unwrap();
    assert_eq!(base(), None);
    logs.db.data().write_at(&[8], 0).unwrap();
    logs.group.with_writer(|writer| assert!(writer.prepare_deltas(&logs.db, 4_096).unwrap()));
    assert_ne!(base().unwrap(), first);
}
