//! The experiment as a whole, with few transactions; nothing here depends on the time it takes.

use super::*;
use crate::harness::Silent;
use std::path::PathBuf;

fn few() -> (u64, Vec<Vec<Timing>>, Vec<Cost>) {
    let directory = tempfile::tempdir().unwrap();
    let task = Task { directory: directory.path(), seed: 3, sides: &SIDES };
    let timings = timed::run(&task, "timing", 20, &mut Silent).unwrap();
    let costs = counted::run(&task, 20, &mut Silent).unwrap();
    let left: Vec<PathBuf> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    (20, timings, costs)
}

#[test]
fn the_figures_that_scripts_rely_on_are_there_and_right() {
    let (transactions, timings, costs) = few();
    let figures = figures(&SIDES, transactions, &timings, &costs);
    let mut measured = Measured { figures, timings };
    measured.ratios(&SIDES);
    let figures = measured.figures;
    figures.check().unwrap();
    let get = |name: &str| figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    for side in &SIDES {
        for figure in ["txn_per_s", "p50_us", "p99_us", "p999_us", "bytes_per_txn", "syncs_per_txn"] {
            assert!(get(&format!("{figure}.{}", side.name)) > 0.0, "{figure}.{}", side.name);
        }
        for device in Device::ALL {
            assert!(get(&format!("model_us.{device}.{}", side.name)) > 0.0, "{device} {}", side.name);
        }
    }
    for ratio in ["litefoot_over_wal_full", "litefoot_over_delete_full", "p50_over_floor"] {
        assert!(get(&format!("ratio.{ratio}")) > 0.0, "{ratio}");
    }
    // The floor is what it says: one block, once in 20 transactions two, and one sync; a page (120 us) and a flush (2000 us), and once in 20
    // transactions a record that reaches into a second page (32.768 us).
    let floor_bytes = 4096.0 * (1.0 + 1.0 / 20.0);
    assert!((get("bytes_per_txn.floor") - floor_bytes).abs() < 1e-6, "{}", get("bytes_per_txn.floor"));
    assert!((get("syncs_per_txn.floor") - 1.0).abs() < f64::EPSILON);
    let floor_us = get("model_us.emmc_5_1.floor");
    assert!((floor_us - (2076.9 + 32.768 / 20.0)).abs() < 1e-6, "{floor_us}");
    // In WAL mode a durable commit is one sync, and a few at the end for all of them.
    let wal = get("syncs_per_txn.insert.wal_full");
    assert!((1.0..1.5).contains(&wal), "{wal}");
    let normal = get("syncs_per_txn.insert.wal_normal");
    assert!(normal < 0.5, "{normal}");
    // A rollback journal: the journal, its header, the database.
    let delete = get("syncs_per_txn.insert.delete_full");
    assert!((3.0..5.0).contains(&delete), "{delete}");
    // One row writes at least a page of the table and one of the index.
    assert!(get("bytes_per_txn.insert.wal_full") >= 2.0 * 4096.0);
}

#[test]
fn counts_and_modelled_time_are_the_same_in_every_run() {
    let directory = tempfile::tempdir().unwrap();
    let task = Task { directory: directory.path(), seed: 9, sides: &SIDES };
    let figures_of = |costs: Vec<Cost>| {
        let mut figures = Figures::new();
        SIDES.iter().zip(&costs).for_each(|(side, cost)| cost_figures(&mut figures, side, cost));
        figures
    };
    // With the ninth commit a thread begins a checkpoint, at its own time.
    let few = 6;
    let first = figures_of(counted::run(&task, few, &mut Silent).unwrap());
    let second = figures_of(counted::run(&task, few, &mut Silent).unwrap());
    assert_eq!(first, second);
}

#[test]
fn it_stops_when_asked() {
    struct Impatient(u32);
    impl Progress for Impatient {
        fn begin(&mut self, _stage: &str, _total: u64) {}

        fn advance(&mut self, _steps: u64) -> Result<()> {
            self.0 -= 1;
            if self.0 == 0 { Err(Error::Stopped) } else { Ok(()) }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let options = Options { quick: true, directory: directory.path().to_owned(), ..Options::default() };
    assert!(matches!(run(&options, &mut Impatient(3)), Err(Error::Stopped)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let options = Options { directory: PathBuf::from("/no/such/directory"), ..Options::default() };
    let error = run(&options, &mut crate::harness::Silent).unwrap_err().to_string();
    assert!(error.contains("/no/such/directory"), "{error}");
}
