//! A tier for a database that stock SQLite has just left: what that removed without a sync must not come back.

use crate::{PLAIN, TIERED, count, insert, stock, vfs};
use litefoot::Vfs;
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random, SyncSite};
use std::sync::Arc;

/// Cuts the power while a database that stock SQLite has just left gets a tier, from a connection with its own mode;
/// answers what went wrong.
fn cut_behind_stock(setup: &str, mode: &str, faults: Faults) -> Option<String> {
    let medium = SimMedium::new();
    let passing = Vfs::builder(format!("{}-stock", vfs(&medium).name()))
        .medium(Arc::new(medium.clone()))
        .pass_through(true)
        .register()
        .unwrap();
    let db = passing.open(PLAIN).unwrap();
    db.execute_batch(setup).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 5);
    drop(db);
    medium.set_faults(faults);
    let vfs = vfs(&medium);
    let db = vfs.open(TIERED).unwrap();
    db.execute_batch(mode).unwrap();
    insert(&db, 1);
    let marked = medium.operations();
    insert(&db, 5);
    for (_, image) in medium.cuts(marked..=medium.operations(), 4, &mut Random::new(3)) {
        let stock = stock(&image);
        if stock.as_ref().err().is_none_or(|error| !error.to_string().contains("not a database")) {
            return Some(format!("stock SQLite: {stock:?}"));
        }
        match crate::vfs(&image).open(TIERED) {
            Ok(db) if count(&db) >= 6 => {}
            Ok(db) => return Some(format!("{} rows", count(&db))),
            Err(error) => return Some(error.to_string()),
        }
    }
    None
}

/// Stock SQLite makes neither the removal of a file durable, nor at NORMAL the end of its journal. Neither must come back beside a
/// marked file. An empty journal is removed before that.
#[test]
fn what_is_gone_beside_the_database_is_gone_for_good_before_the_file_is_marked() {
    let truncate = "PRAGMA journal_mode=truncate; PRAGMA synchronous=NORMAL;";
    let cases = [
        ("PRAGMA journal_mode=wal", "", SyncSite::Directory),
        (truncate, "PRAGMA journal_mode=truncate", SyncSite::Directory),
    ];
    for (setup, mode, site) in cases {
        assert_eq!(cut_behind_stock(setup, mode, Faults::default()), None, "{setup}");
        let noticed = cut_behind_stock(setup, mode, Faults::ignoring(site, Some(0)));
        assert!(noticed.is_some(), "{setup}: nothing went wrong without the sync of {site:?}");
    }
    for mode in ["delete", "persist"] {
        assert_eq!(
            cut_behind_stock(truncate, &format!("PRAGMA journal_mode={mode}"), Faults::default()),
            None
        );
    }
}
