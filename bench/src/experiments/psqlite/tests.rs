use super::apps::Values;
use super::tiering::TieringMedium;
use super::*;
use crate::harness::Silent;
use crate::nand::NandMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_tier::{Config, device_bytes};
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_small_run_has_every_figure_and_is_the_same_again() {
    let figures = measure(16 << 20, 60, 3, &mut Silent).unwrap();
    figures.check().unwrap();
    for name in [
        "period_time.k8.p5",
        "period_best.k64",
        "period_chunks",
        "predictor_error.ewma.h2",
        "write_time.browser.all_k256",
        "write_time.alarm.litefoot_pram",
        "reduction.nand_writes_k256",
        "reduction.erases_k256",
        "reduction.time_all_k256",
        "reduction.time_litefoot",
        "over_stock.time.paper.logs_wal",
        "over_stock.writes.ycsb_a.tier_rollback_k256",
        "over_logs.writes.paper.tier_wal_k256",
        "pages.ycsb_d.stock_rollback",
        "slots.contacts2.tier_rollback",
        "wear.contacts2.all_k256",
        "wear.contacts2.tier_wal_k256",
    ] {
        assert!(figures.get(name).is_some(), "{name}");
    }
    let flash = Ftl::aged(Geometry::of(16 << 20), FILLED_PERCENT, 3);
    for scheme in SCHEMES.iter().filter(|scheme| scheme.stack == Stack::Stock) {
        let run = || scheme.run(&APPS[4], &flash, 40, 3, &mut || Ok(())).unwrap();
        assert_eq!(run(), run(), "{}", scheme.name);
    }
}

#[test]
fn everything_on_pram_leaves_the_flash_alone_but_for_the_cold_chunks() {
    let flash = Ftl::aged(Geometry::of(16 << 20), FILLED_PERCENT, 3);
    let of = |name: &str| {
        let scheme = SCHEMES.iter().find(|scheme| scheme.name == name).unwrap();
        scheme.run(&APPS[5], &flash, 300, 3, &mut || Ok(())).unwrap().costs
    };
    let (nand, all) = (of("nand"), of("all_k64"));
    assert!(nand.nand.host_writes > 300 * 5);
    assert!(all.nand.host_writes < 60, "{all:?}");
    assert_eq!(nand.pram_bytes_written, 0);
}

/// Stock SQLite refuses a database whose chunks lie on a tier, and reads the drained one.
#[test]
fn stock_sqlite_refuses_a_tiered_file_until_it_is_drained() {
    let flash = Ftl::aged(Geometry::of(16 << 20), FILLED_PERCENT, 3);
    let nand = NandMedium::new(flash, FILLED_PERCENT, NOTHING);
    let config = Config { bytes: device_bytes(32), ..Config::default() };
    let tiering = || TieringMedium::new(Arc::new(nand.clone()), config);
    let vfs = |name: &str, medium: Arc<dyn Medium>| {
        litefoot::Vfs::builder(format!("psqlite-refused-{name}")).medium(medium).pass_through(true).register()
    };
    let rows = "SELECT count(*) FROM alarms";
    let count = {
        let medium = tiering();
        let vfs = vfs("tiered", Arc::new(medium.clone())).unwrap();
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch(APPS[5].schema).unwrap();
        let mut values = Values::new(1);
        (APPS[5].prepare)(&db, &mut values).unwrap();
        (0..50).for_each(|_| (APPS[5].transact)(&db, &mut values).unwrap());
        db.query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let stock = vfs("stock", Arc::new(nand.clone())).unwrap();
    let error = stock.open("/app.db").unwrap().query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::NotADatabase), "{error}");
    let medium = tiering();
    medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
    let done = medium.close().unwrap();
    assert_eq!((done[0].drains, done[0].away), (1, 0));
    let db = stock.open("/app.db").unwrap();
    assert_eq!(db.query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap(), count);
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
