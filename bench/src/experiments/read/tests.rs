//! The experiment as a whole, with small files; nothing here depends on the time it takes.

use super::queries::{Plan, Workload, together};
use super::source::{Direct, Source};
use super::*;
use crate::Error;
use crate::harness::Silent;

const SMALL: Sizes = Sizes {
    warm_bytes: 2 << 20,
    sixteen_bytes: 2 << 20,
    cold_bytes: 2 << 20,
    queries: 200,
    scans: 1,
    cold_queries: 100,
    rounds: 1,
};

#[test]
fn a_small_run_has_every_figure_that_is_promised() {
    let directory = tempfile::tempdir().unwrap();
    let files = Files { directory: directory.path(), seed: 3, sizes: SMALL };
    let figures = measure(&files, &mut Silent).unwrap();
    figures.check().unwrap();
    let mut names = Vec::new();
    for workload in ["point_auto", "point", "index", "range", "scan", "join"] {
        for suffix in ["", "_2t", "_wal", "_wal_2t"] {
            for side in ["stock", "mmap"] {
                names.push(format!("ratio.{workload}_over_{side}{suffix}"));
                names.push(format!("{workload}{suffix}_us.{side}"));
            }
        }
    }
    for case in ["scan_ordered", "scan_fragmented", "index_fragmented", "point", "range50", "range50_ordered"]
    {
        let ratios = ["over_stock", "over_stock_2t", "bytes", "sd_over_stock", "emmc_over_stock"];
        names.extend(ratios.map(|ratio| format!("ratio.cold_{case}_{ratio}")));
        names.push(format!("cold_{case}_model_us.sd_a1.litefoot"));
    }
    let others = [
        "sixteen_connections_over_stock",
        "sixteen_connections_over_stock_wal",
        "zipf_over_stock",
        "zipf_over_stock_2t",
        "zipf_reads_after_scan",
    ];
    names.extend(others.map(|name| format!("ratio.{name}")));
    names.push("zipf_reads_before_scan.litefoot".to_owned());
    for name in names {
        assert!(figures.get(&name).is_some_and(|value| value > 0.0), "{name}: {:?}", figures.get(&name));
    }
    // Other tests allocate meanwhile: only that it is told is sure.
    assert!(figures.get("ratio.sixteen_connections_memory").is_some());
    // Stock reads each page that it needs once: a scan all of the table, and not more than the file.
    let scan = figures.get("cold_scan_ordered_bytes.stock").unwrap();
    assert!((SMALL.cold_bytes as f64 * 0.7..SMALL.cold_bytes as f64 * 1.1).contains(&scan), "{scan}");
}

#[test]
fn both_orders_give_the_same_answers_and_a_wrong_one_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (data, other) = (Data::of_file(300_000, 7), Data::of_file(300_000, 8));
    for (order, name) in [(Order::Key, "ordered.db"), (Order::Random, "fragmented.db")] {
        let database = load(&data, order, directory.path().join(name), &mut Silent).unwrap();
        for source in [
            Source::stock(&database.path),
            Source::mapped(&database.path, database.bytes),
            Source::litefoot(&database.path, 1 << 20, Direct::Auto).unwrap(),
        ] {
            let mut connections = source.connect(2).unwrap();
            queries::touch_everything(&source, &connections[0], &data).unwrap();
            assert!(matches!(
                queries::touch_everything(&source, &connections[0], &other),
                Err(Error::Wrong(_))
            ));
            let mut random = fastrand::Rng::with_seed(1);
            for workload in
                [Workload::PointAuto, Workload::Index, Workload::Range, Workload::Join, Workload::Scan]
            {
                let mut plans = |data: &Data| -> [Plan; 2] {
                    std::array::from_fn(|_| Plan::random(workload, data, 20, &mut random))
                };
                together(&source, &mut connections, &plans(&data)).unwrap();
                let wrong = together(&source, &mut connections, &plans(&other));
                assert!(matches!(wrong, Err(Error::Wrong(_))), "{name}, {}", workload.name());
            }
            let parts = [0, 1].map(|part| Plan::scan(&data, part, 2, 1));
            together(&source, &mut connections, &parts).unwrap();
            together(&source, &mut connections, &[Plan::index_range(&data, 100, &mut random)]).unwrap();
            source.close(connections).unwrap();
        }
    }
}
