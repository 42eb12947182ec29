//! Power cuts on litefoot and on stock SQLite, and proof that the simulator sees what goes wrong.

#![allow(clippy::unwrap_used)]

use litefoot_bench::crash::{CrashOptions, CrashReport, Journal, simulate};
use litefoot_sim::{Faults, SyncSite};
use litefoot_storage::file::FileKind;

const SEED: u64 = 20_261_120;

fn run(change: impl FnOnce(&mut CrashOptions)) -> CrashReport {
    let mut options = CrashOptions::new(2_000, SEED);
    change(&mut options);
    simulate(&options, &mut |_| true).unwrap()
}

/// What a run has beside the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Tier,
    Visitors,
    TierAndVisitors,
}

fn set(options: &mut CrashOptions, journal: Journal, beside: Beside) {
    options.journals = vec![journal];
    options.tier = matches!(beside, Beside::Tier | Beside::TierAndVisitors);
    options.visitors = matches!(beside, Beside::Visitors | Beside::TierAndVisitors);
}

/// Cuts in each journal family.
fn lose_nothing(beside: Beside) {
    for journal in [Journal::Wal, Journal::Rollback] {
        let report = run(|options| {
            set(options, journal, beside);
            options.cuts = match beside {
                // The checks have a step of their own for many.
                Beside::Nothing => 1_000,
                Beside::Tier | Beside::Visitors => 1_200,
                // The slowest: each visit drains the tier.
                Beside::TierAndVisitors => 600,
            };
        });
        assert!(report.cuts >= 600 && report.transactions > 0);
        assert_eq!((report.lost, report.corrupt), (0, 0), "{journal:?}: {:#?}", report.failures);
    }
}

/// Leaves out the syncs of a place: the simulator must notice.
fn notice(cases: &[(Journal, SyncSite)], beside: Beside) {
    for (journal, site) in cases.iter().copied() {
        let report = run(|options| {
            options.cuts = 20_000;
            set(options, journal, beside);
            options.faults = Faults::ignoring(site, None);
            options.stop_at_first = true;
        });
        assert!(report.lost + report.corrupt > 0, "{journal:?} without the sync of {site:?} went unnoticed");
    }
}

#[test]
fn nothing_acknowledged_is_lost_in_either_journal_family() {
    lose_nothing(Beside::Nothing);
}

/// Each sync that the protocols rely on.
#[test]
fn every_sync_left_out_is_noticed() {
    let cases = [
        (Journal::Wal, SyncSite::File(FileKind::CommitLog)),
        (Journal::Wal, SyncSite::File(FileKind::RedoLog)),
        (Journal::Wal, SyncSite::File(FileKind::Database)),
        (Journal::Wal, SyncSite::Directory),
        (Journal::Rollback, SyncSite::File(FileKind::RedoLog)),
        (Journal::Rollback, SyncSite::File(FileKind::Journal)),
        (Journal::Rollback, SyncSite::File(FileKind::Database)),
        (Journal::Rollback, SyncSite::Directory),
    ];
    notice(&cases, Beside::Nothing);
}

/// A device that never tears a page gets transactions of one page in place. One that says so and tears is
/// noticed.
#[test]
fn pages_are_written_in_place_where_the_device_never_tears_them() {
    let sound = run(|options| {
        options.cuts = 1_000;
        options.journals = vec![Journal::Rollback];
        options.atomic_write_bytes = 4096;
    });
    assert_eq!((sound.lost, sound.corrupt), (0, 0), "{:#?}", sound.failures);
    let torn = run(|options| {
        options.cuts = 40_000;
        options.journals = vec![Journal::Rollback];
        options.atomic_write_bytes = 4096;
        options.faults.torn_atomic_writes = true;
        options.stop_at_first = true;
    });
    assert!(torn.lost + torn.corrupt > 0, "torn pages went unnoticed");
}

/// Hot chunks, and the logs, on a second device: what is added to the database for that, and taken from it.
#[test]
fn nothing_is_lost_with_a_tier_in_either_journal_family() {
    lose_nothing(Beside::Tier);
}

#[test]
fn every_sync_left_out_is_noticed_with_a_tier() {
    let cases = [
        (Journal::Wal, SyncSite::File(FileKind::CommitLog)),
        (Journal::Wal, SyncSite::File(FileKind::RedoLog)),
        (Journal::Wal, SyncSite::File(FileKind::Database)),
        (Journal::Wal, SyncSite::File(FileKind::Tier)),
        (Journal::Wal, SyncSite::Directory),
        (Journal::Rollback, SyncSite::File(FileKind::RedoLog)),
        (Journal::Rollback, SyncSite::File(FileKind::Journal)),
        (Journal::Rollback, SyncSite::File(FileKind::Database)),
        (Journal::Rollback, SyncSite::File(FileKind::Tier)),
        (Journal::Rollback, SyncSite::Directory),
    ];
    notice(&cases, Beside::Tier);
}

/// Stock SQLite comes while the application works: the way out, the time beside it, and the way back.
#[test]
fn nothing_is_lost_beside_visitors_in_either_journal_family() {
    lose_nothing(Beside::Visitors);
}

#[test]
fn every_sync_left_out_is_noticed_beside_visitors() {
    let cases = [
        (Journal::Wal, SyncSite::File(FileKind::CommitLog)),
        (Journal::Wal, SyncSite::File(FileKind::RedoLog)),
        (Journal::Wal, SyncSite::File(FileKind::Database)),
        (Journal::Wal, SyncSite::Directory),
        (Journal::Rollback, SyncSite::File(FileKind::RedoLog)),
        (Journal::Rollback, SyncSite::File(FileKind::Journal)),
        (Journal::Rollback, SyncSite::File(FileKind::Database)),
        (Journal::Rollback, SyncSite::Directory),
    ];
    notice(&cases, Beside::Visitors);
}

/// The same with a tier, which is brought home for each visitor.
#[test]
fn nothing_is_lost_with_a_tier_beside_visitors_in_either_journal_family() {
    lose_nothing(Beside::TierAndVisitors);
}

#[test]
fn every_sync_left_out_is_noticed_with_a_tier_beside_visitors() {
    let cases = [
        (Journal::Wal, SyncSite::File(FileKind::RedoLog)),
        (Journal::Wal, SyncSite::File(FileKind::Database)),
        (Journal::Wal, SyncSite::File(FileKind::Tier)),
        (Journal::Rollback, SyncSite::File(FileKind::Database)),
        (Journal::Rollback, SyncSite::File(FileKind::Tier)),
        (Journal::Rollback, SyncSite::Directory),
    ];
    notice(&cases, Beside::TierAndVisitors);
}

/// SQLite promises less than litefoot: at FULL the name of a deleted journal may come back, and roll back what
/// was acknowledged; after a switch of modes even what it does not belong to.
#[test]
fn stock_sqlite_keeps_its_promise_in_wal_mode_and_loses_transactions_with_a_journal() {
    let wal = run(|options| {
        options.pass_through = true;
        options.cuts = 800;
        options.journals = vec![Journal::Wal];
    });
    assert_eq!((wal.lost, wal.corrupt), (0, 0), "{:#?}", wal.failures);
    let rollback = run(|options| {
        options.pass_through = true;
        options.cuts = 800;
        options.journals = vec![Journal::Rollback];
    });
    assert!(rollback.lost > 0, "the simulator should see SQLite's documented gap");
}
