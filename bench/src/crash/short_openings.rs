//! Short openings of a database with a rollback journal, cut at every operation, with each sync left out once.
//!
//! The random workload has such openings, too. Here each one has a commit of a few pages by the journal that stays, so that every
//! sync of that order can be told to be needed.

use super::model::DATABASE;
use super::workload::{builder_over, register, vfs_over};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::FileKind;
use rusqlite::Connection;

/// Openings, and the one of them that is stock SQLite's.
const OPENINGS: i64 = 4;
const STOCK: i64 = 2;
/// Cuts at each operation.
const CUTS: usize = 6;

/// Rows that overflow their page, and move entries of an index: four pages or so.
fn insert(db: &Connection, number: i64) {
    let key = number * 7919 % 100;
    db.execute("INSERT INTO t VALUES(?1, ?2, zeroblob(900))", (number, format!("{key:050}"))).unwrap();
    db.execute("UPDATE t SET v=?1 WHERE id%3=0", (vec![number as u8; 900],)).unwrap();
}

const SITES: [SyncSite; 3] =
    [SyncSite::File(FileKind::Journal), SyncSite::File(FileKind::Database), SyncSite::Directory];

/// The openings: the operation before the first and after each, and the syncs of those that are litefoot's, by their place
/// and their number there since the first began.
struct History {
    operations: Vec<usize>,
    syncs: Vec<(SyncSite, u64)>,
}

/// Openings with a commit each, without one of their syncs.
fn history(medium: &SimMedium, without: Option<(SyncSite, u64)>) -> History {
    let vfs = register(builder_over(medium, false, litefoot::Options::default()).keeps_logs(true)).unwrap();
    let db = vfs.open(DATABASE).unwrap();
    let schema =
        "PRAGMA page_size=1024; CREATE TABLE t(id INTEGER PRIMARY KEY, k, v); CREATE INDEX i ON t(k)";
    db.execute_batch(schema).unwrap();
    (100..110).for_each(|number| insert(&db, number));
    db.execute_batch("BEGIN; DELETE FROM t WHERE id=100; COMMIT").unwrap();
    drop(db);
    // The opening before had many commits. The next ones are short.
    vfs.open(DATABASE).unwrap().execute_batch("PRAGMA user_version=1").unwrap();
    // Counts the syncs anew: how many were before depends on how soon the background threads ran.
    medium.set_faults(
        without.map_or_else(Faults::default, |(site, number)| Faults::ignoring(site, Some(number))),
    );
    let mut history = History { operations: vec![medium.operations()], syncs: Vec::new() };
    for number in 1..=OPENINGS {
        let stock = (number == STOCK).then(|| vfs_over(medium, true, litefoot::Options::default()).unwrap());
        let before = SITES.map(|site| medium.syncs(site));
        let db = stock.as_ref().unwrap_or(&vfs).open(DATABASE).unwrap();
        // Without that, the name of the journal that stock SQLite has removed may come back.
        db.execute_batch("PRAGMA synchronous=EXTRA; BEGIN").unwrap();
        insert(&db, number);
        db.execute_batch("COMMIT").unwrap();
        drop(db);
        history.operations.push(medium.operations());
        if stock.is_none() {
            for (site, before) in SITES.into_iter().zip(before) {
                history.syncs.extend((before..medium.syncs(site)).map(|number| (site, number)));
            }
        }
    }
    history
}

/// The number of the last commit, as SQLite finds it, if the database is sound.
fn found(image: &SimMedium, pass_through: bool) -> Option<i64> {
    let vfs = vfs_over(image, pass_through, litefoot::Options::default()).unwrap();
    let db = vfs.open(DATABASE).ok()?;
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).ok()?;
    let newest = "SELECT coalesce(max(id), 0) FROM t WHERE id<100";
    let newest: i64 = (sound == "ok").then(|| db.query_row(newest, [], |row| row.get(0)).ok())??;
    if newest == 0 {
        return Some(0);
    }
    let others = "SELECT count(*) FROM t WHERE id%3=0 AND v!=?1";
    let others: i64 = db.query_row(others, [vec![newest as u8; 900]], |row| row.get(0)).ok()?;
    (others == 0).then_some(newest)
}

/// Cuts at every operation; answers the first failure.
fn cut_without(sync: Option<(SyncSite, u64)>) -> Option<String> {
    let medium = SimMedium::new();
    let History { operations, .. } = history(&medium, sync);
    for (point, image) in medium.cuts(operations[0]..=medium.operations(), CUTS, &mut Random::new(11)) {
        let acknowledged = operations.iter().rposition(|at| *at <= point).unwrap() as i64;
        for pass_through in [true, false] {
            let found = found(&image.copy(), pass_through);
            if !found.is_some_and(|found| (acknowledged..=acknowledged + 1).contains(&found)) {
                return Some(format!(
                    "cut {point}, pass_through {pass_through}: {found:?} behind {acknowledged}"
                ));
            }
        }
    }
    None
}

#[test]
fn power_cuts_in_short_openings_leave_what_was_acknowledged() {
    assert_eq!(cut_without(None), None);
}

#[test]
fn each_sync_of_short_openings_that_is_left_out_is_missed() {
    let syncs = history(&SimMedium::new(), None).syncs;
    let journals = syncs.iter().filter(|(site, _)| *site == SITES[0]).count();
    // Two of the journals are new: the first, and the one behind stock SQLite's opening.
    assert_eq!((journals, syncs.len()), (3 * 3, 3 * 4 + 2), "{syncs:?}");
    let needless: Vec<_> = syncs.into_iter().filter(|sync| cut_without(Some(*sync)).is_none()).collect();
    assert_eq!(needless, []);
}
