use super::hits::Lru;
use super::*;
use crate::harness::Silent;

#[test]
fn lru_forgets_what_was_used_longest_ago() {
    let mut lru = Lru::new(2);
    for (page, hit) in [(1, false), (2, false), (1, true), (3, false), (1, true), (2, false), (3, false)] {
        assert_eq!(lru.request(page), hit, "{page}");
    }
}

#[test]
fn a_small_run_has_every_figure_that_is_promised() {
    let directory = tempfile::tempdir().unwrap();
    let sizes = Sizes {
        file_bytes: 1 << 20,
        scan_bytes: 1 << 20,
        cold_bytes: 8 << 20,
        pins: 1000,
        rounds: 1,
        operator_bytes: 64 << 10,
        scale: 8,
    };
    let files = Files { directory: directory.path(), seed: 3, sizes };
    let mut figures = Figures::new();
    pins::run(&files, &mut figures, &mut Silent).unwrap();
    scans::run(&files, &mut figures, &mut Silent).unwrap();
    numa::run(&files, &mut figures, &mut Silent).unwrap();
    prefetch::run(&files, &mut figures, &mut Silent).unwrap();
    hits::run(&files, &mut figures, &mut Silent).unwrap();
    graph::run(&files, &mut figures, &mut Silent).unwrap();
    operators::run(&files, &mut figures, &mut Silent).unwrap();
    store::run(&files, &mut figures, &mut Silent).unwrap();
    figures.check().unwrap();
    for name in [
        "pin_unpin_ns.hot",
        "pin_unpin_ns.random_64k",
        "pin_unpin_ns.random_4k",
        "pin_unpin_ns.hot_2t",
        "pin_unpin_ns.random_64k_2t",
        "pin_unpin_ns.random_4k_2t",
        "scan_ms.iteration.1",
        "scan_ms.warm.page_64k",
        "scan_ms.cold.threads_2_in_16",
        "ratio.scan_warm_partitions.threads_8_in_8",
        "scan_ms.warm.nodes_off_threads_1",
        "ratio.scan_warm_nodes.threads_8",
        "scan_ms.warm.page_256k",
        "ratio.scan_warm_speedup.threads_8_in_1",
        "ratio.cold_prefetch_time.threads_8",
        "operator_ms.join.litefoot_2",
        "ratio.filter_over_sqlite",
        "bfs_ms.sqlite",
        "bfs_waits.text_ahead",
        "ratio.bfs_ahead.modelled",
        "store_roll_back_us.litefoot",
        "store_recovery_ms.sqlite",
        "ratio.store_change_over_sqlite",
        "ratio.scan_warm_over_flat",
        "ratio.cold_prefetch_speedup",
        "ratio.cold_prefetch_speedup.disk",
        "ratio.cold_prefetch_speedup.disk_without_readahead",
        "ratio.random_prefetch_bytes",
        "ratio.hit_rate_over_lru",
        "bfs_ms.text",
    ] {
        assert!(figures.get(name).is_some_and(|value| value > 0.0), "{name}");
    }
    // These figures do not depend on the machine.
    assert_eq!(figures.get("reads.second_scan"), Some(0.0));
    assert!(figures.get("ratio.cold_prefetch_speedup").unwrap() > 1.4);
    assert!(figures.get("ratio.random_prefetch_bytes").unwrap() <= 1.02);
    assert!(figures.get("ratio.hit_rate_over_lru").unwrap() >= 0.95);
}

/// The table of the store takes a page of each group, which the plan knows nothing of.
#[test]
fn pages_of_the_plan_may_lie_in_several_groups_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let plan = store::Plan::new(8 * 4096 + 8, 3);
    let (_, found) = store::store(directory.path(), &plan).unwrap();
    assert_eq!(found, plan.expected());
}
