//! The experiment as a whole, with small transactions; nothing here depends on the time it takes.

use super::*;
use crate::harness::Silent;

/// The least that litefoot takes.
const MEMORY: u64 = (1 << 20) + APPLICATION_CACHE_BYTES;
const SMALL: Sizes = Sizes {
    plans: [
        plan("10k", 5_000, 1, MEMORY),
        plan("1m", 20_000, 1, MEMORY),
        Plan { with_cleaners: true, ..plan("5m", 1_480_000, 1, MEMORY) },
        plan("10m", 300_000, 1, MEMORY),
        plan("100m", 600_000, 1, MEMORY),
        Plan { by_select: true, ..plan("select100m", 100_000, 1, MEMORY) },
    ],
    rounds: 1,
    reads: 20,
    threshold_transactions: 1,
    file_bytes: 1 << 20,
};

#[test]
fn a_small_run_has_every_figure_that_is_promised() {
    let directory = tempfile::tempdir().unwrap();
    let task = Task { directory: directory.path(), sizes: SMALL };
    let figures = measure(&task, &mut Silent).unwrap();
    figures.check().unwrap();
    assert_eq!(figures.alarms(), [""; 0]);
    let mut names = vec!["peak_bytes.5m.inf".to_owned(), "write_s_per_gib.cached.4k".to_owned()];
    for mode in side::MODES {
        for size in ["10k", "1m", "5m", "10m", "100m", "select100m"] {
            for order in ["", "_ordered"] {
                let case = format!("{mode}_{size}{order}");
                names.push(format!("ratio.{case}_over_inf"));
                names.push(format!("ratio.{case}_over_stock"));
                names.push(format!("ratio.commit_over_stock.{case}"));
                if size != "select100m" {
                    names.push(format!("ratio.insert_p999_over_inf.{case}"));
                }
            }
        }
        for order in ["", "_ordered"] {
            // Pages are cleaned, by either cleaner, where a transaction exceeds the memory that all sides have.
            let cleaned = ["stock", "litefoot", "litefoot_caller", "litefoot_background"];
            names.extend(cleaned.map(|side| format!("cleanings.{mode}_5m{order}.{side}")));
        }
        for work in ["", "_100m", "_scattered"] {
            names.extend(["", "_stock"].map(|side| format!("write_amplification{work}{side}.{mode}")));
        }
    }
    for side in ["stock", "20", "40", "60", "80", "100"] {
        names.extend(["p10", "p50", "p100"].map(|share| format!("threshold_txn_ms.{share}.{side}")));
    }
    names.extend(["delete", "wal"].map(|mode| format!("ratio.read_p99.{mode}")));
    for name in names {
        assert!(figures.get(&name).is_some_and(|value| value > 0.0), "{name}: {:?}", figures.get(&name));
    }
    assert!(figures.get("peak_bytes.5m.litefoot").is_some());
    // An unbounded cache spills nothing, and so does a transaction that fits.
    assert_eq!(figures.get("cleanings.wal_5m.inf"), Some(0.0));
    assert_eq!(figures.get("cleanings.wal_1m.stock"), Some(0.0));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}
