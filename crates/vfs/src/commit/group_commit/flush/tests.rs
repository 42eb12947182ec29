//! Flushes beside commits, and power cuts, with each sync left out once.

use super::*;
use crate::commit::of_test::{Logs, PAGE, recovered_deltas};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::{FileKind, Medium, Operation};
use std::path::Path;

/// The first byte of each page.
type State = Vec<u8>;

const PAGES: usize = 6;

fn logs_on(medium: &SimMedium) -> Logs {
    Logs::of_test_on(medium, &[7; PAGES * PAGE], 1 << 20)
}

fn durable_lsn(logs: &Logs) -> u64 {
    logs.group.durable_lsn.load(Ordering::Acquire)
}

#[test]
fn a_flush_covers_what_was_written_before_it_and_keeps_no_unsynced_commit_waiting() {
    let logs = logs_on(&SimMedium::new());
    let first = logs.commit_unsynced(&[(2, 1)], PAGES as u32);
    assert_eq!(durable_lsn(&logs), 0);
    let flush = logs.group.begin_flush().unwrap();
    // As deltas, and as pages once these have none before them.
    let second = logs.commit_unsynced(&[(3, 1)], PAGES as u32);
    flush.land().unwrap();
    assert_eq!(durable_lsn(&logs), first);
    logs.group.flush().unwrap();
    assert_eq!(durable_lsn(&logs), second);
    logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, false, (None, None)).unwrap();
    let write_pages = || {
        let pages = Some(logs.write_first_bytes(&[(4, 1)], PAGES as u32));
        logs.group.materialize(&logs.frames, &logs.db, Durability::Buffered, true, (None, pages)).unwrap();
    };
    write_pages();
    let flush = logs.group.begin_flush().unwrap();
    write_pages();
    flush.land().unwrap();
    assert_eq!(durable_lsn(&logs), second + 1);
    logs.group.flush().unwrap();
    assert_eq!(durable_lsn(&logs), second + 2);
    assert!(logs.group.with_writer(|writer| writer.redo.is_synced()));
}

#[test]
fn a_commit_that_syncs_waits_for_a_flush() {
    let logs = logs_on(&SimMedium::new());
    logs.commit_unsynced(&[(2, 1)], PAGES as u32);
    let flush = logs.group.begin_flush().unwrap();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| {
            logs.commit_deltas(&[(3, 1)], PAGES as u32);
            durable_lsn(&logs)
        });
        while logs.group.queue.lock().last_lsn < 2 {
            std::thread::yield_now();
        }
        assert_eq!(durable_lsn(&logs), 0);
        flush.land().unwrap();
        assert_eq!(commit.join().unwrap(), 2);
    });
}

#[test]
fn a_flush_that_fails_latches_and_fails_the_commits_behind_it() {
    let medium = SimMedium::new();
    let logs = logs_on(&medium);
    logs.commit_unsynced(&[(2, 1)], PAGES as u32);
    medium.set_faults(Faults::failing(Operation::Sync, FileKind::CommitLog, 0));
    assert!(logs.group.flush().is_err());
    assert!(logs.db.latch().reason().is_some());
    assert!(logs.group.wait_durable(logs.pages(), 1).is_err());
    assert_eq!(durable_lsn(&logs), 0);
}

/// What a run has done: after each operation the state that is durable at least, and all states so far.
struct History {
    begun: usize,
    states: Vec<State>,
    /// The operation from which on a state is durable.
    durable: Vec<(usize, usize)>,
}

/// Unsynced commits, flushes, and a durable commit behind unsynced ones.
fn history(medium: &SimMedium) -> History {
    let logs = logs_on(medium);
    logs.db.sync().unwrap();
    medium.sync_directory(Path::new("/")).unwrap();
    let mut state = vec![7; PAGES];
    let mut history =
        History { begun: medium.operations(), states: vec![state.clone()], durable: vec![(0, 0)] };
    let mut byte = 0;
    let mut commit = |durability: Durability, history: &mut History| {
        byte += 1;
        let pages = [(2 + u32::from(byte % 3), byte), (5, byte)];
        for (number, byte) in pages {
            state[number as usize - 1] = byte;
        }
        history.states.push(state.clone());
        match durability {
            Durability::Durable => logs.commit_deltas(&pages, PAGES as u32),
            Durability::Buffered => drop(logs.commit_unsynced(&pages, PAGES as u32)),
        }
    };
    let note = |history: &mut History| history.durable.push((medium.operations(), history.states.len() - 1));
    for _ in 0..2 {
        commit(Durability::Buffered, &mut history);
        logs.group.flush().unwrap();
        note(&mut history);
        commit(Durability::Buffered, &mut history);
        commit(Durability::Buffered, &mut history);
        let flush = logs.group.begin_flush().unwrap();
        let covered = history.states.len() - 1;
        commit(Durability::Buffered, &mut history);
        flush.land().unwrap();
        history.durable.push((medium.operations(), covered));
        commit(Durability::Durable, &mut history);
        note(&mut history);
        commit(Durability::Durable, &mut history);
        note(&mut history);
    }
    history
}

/// Cuts at every operation; answers the first failure.
fn cut_with(faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    medium.set_faults(faults);
    let history = history(&medium);
    let (mut replay, mut random) = (medium.replay(), Random::new(9));
    for point in history.begun..=medium.operations() {
        replay.advance(point);
        let least = history.durable.iter().rfind(|(at, _)| *at <= point).map_or(0, |(_, state)| *state);
        for _ in 0..6 {
            let found = recovered_deltas(&replay.cut(&mut random), PAGES, 1 << 20);
            if !history.states[least..].iter().any(|state| Some(state) == found.as_ref()) {
                return Some(format!("cut {point}: found {found:?}, allowed {:?}", &history.states[least..]));
            }
        }
    }
    None
}

#[test]
fn power_cuts_leave_what_a_flush_or_a_durable_commit_has_covered() {
    assert_eq!(cut_with(Faults::default()), None);
}

#[test]
fn each_sync_of_a_flush_that_is_left_out_is_missed() {
    let medium = SimMedium::new();
    history(&medium);
    let site = SyncSite::File(FileKind::CommitLog);
    let needless: Vec<u64> = (0..medium.syncs(site))
        .filter(|number| cut_with(Faults::ignoring(site, Some(*number))).is_none())
        .collect();
    assert_eq!(needless, []);
}
