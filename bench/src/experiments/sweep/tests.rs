//! The experiment with few, short points; nothing here depends on the time it takes.

use super::*;
use crate::harness::{Silent, open_stock};
use std::path::Path;

fn few(rows: &[u64], modes: &[&str]) -> Options {
    let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
    Options { quick: true, rows: rows.to_vec(), modes, ..Options::default() }
}

#[test]
fn every_point_has_its_figures_and_the_worst_are_among_them() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        Options { directory: directory.path().to_owned(), ..few(&[1, 50], &["wal_normal", "delete_full"]) };
    let points = point::points(options.quick, &options.rows, &options.modes);
    assert_eq!(points.len(), 8);
    let plan = Plan { rounds: 3, round_time: Duration::from_millis(1) };
    let text = Text::new(options.seed);
    let measured: Vec<Measured> = points
        .iter()
        .map(|point| {
            let prepared = Prepared::new(directory.path(), *point, &text, options.seed).unwrap();
            let place = Place { directory: directory.path(), prepared: &prepared, point: *point };
            measure(&place, &plan, &mut Silent).unwrap()
        })
        .collect();
    let figures = figures(&measured);
    figures.check().unwrap();
    let get = |name: &str| figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    for point in &points {
        for ratio in ["rate", "commits", "processor", "bytes", "syncs"] {
            let value = get(&format!("ratio.{}.{ratio}", point.name()));
            assert!(value > 0.0, "{} {ratio}", point.name());
            let worst = get(&format!("worst.{}.{ratio}", point.mode.name));
            assert!(if is_speed(ratio) { worst <= value } else { worst >= value }, "{ratio}");
        }
        for side in [STOCK, LITEFOOT] {
            for figure in ["txn_per_s", "processor_us_per_txn", "bytes_per_txn", "syncs_per_txn"] {
                assert!(get(&format!("{figure}.{}.{side}", point.name())) > 0.0, "{figure} {side}");
            }
        }
    }
    // A rollback journal has at least three syncs.
    assert!(get("syncs_per_txn.delete_full.ordered_30.1.stock") >= 3.0);
    assert!(get("worst.rate") <= get("worst.wal_normal.rate"));
    assert_eq!(figures.notes().len(), 5);
}

#[test]
fn a_row_that_is_missing_or_changed_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let point = point::points(true, &[10], &["wal_full".to_owned()])[1];
    let text = Text::new(7);
    let prepared = Prepared::new(directory.path(), point, &text, 7).unwrap();
    let path = directory.path().join("copy.db");
    let verdict = |path: &Path, rows, all| prepared.verify(path, STOCK, rows, all).is_ok();
    for (harm, as_counted, as_compared) in [
        ("", true, true),
        ("UPDATE item SET body = 'x' WHERE id = 3", true, false),
        ("UPDATE item SET key = key + 1 WHERE id = 3", false, false),
        ("DELETE FROM item WHERE id = 3", false, false),
        ("INSERT INTO item VALUES (999999, 0, '')", false, false),
    ] {
        prepared.copy(&path).unwrap();
        open_stock(&path).unwrap().execute_batch(harm).unwrap();
        assert_eq!((verdict(&path, 0, false), verdict(&path, 0, true)), (as_counted, as_compared), "{harm}");
        crate::experiments::commit::remove_database(&path).unwrap();
    }
}

#[test]
fn transactions_are_as_many_as_there_is_time_for() {
    let ms = Duration::from_millis;
    for (round_time, pace, expected) in
        [(ms(60), ms(1), 60), (ms(60), ms(61), 1), (ms(60), Duration::ZERO, 60_000_000)]
    {
        assert_eq!(affordable(round_time, pace), expected, "{pace:?}");
    }
    let plan = |quick, rounds| Plan::new(&Options { quick, rounds, ..Options::default() });
    assert_eq!(plan(true, Some(1)).rounds, FEWEST_ROUNDS);
    assert_eq!(plan(false, Some(9)).rounds, 9);
    assert_eq!(plan(false, None).time(), ROUND_TIME * 20);
}
