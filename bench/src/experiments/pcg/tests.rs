//! The experiment as a whole, with small transactions; nothing here depends on the time it takes.

use super::*;
use crate::harness::Silent;

const SMALL: Sizes = Sizes {
    plans: [
        plan("10k", 5_000, 1, false),
        plan("1m", 20_000, 1, true),
        plan("10m", 300_000, 1, true),
        plan("100m", 600_000, 1, false),
        Plan { by_select: true, ..plan("select100m", 100_000, 1, false) },
    ],
    pool_bytes: 1 << 20,
    rounds: 1,
    reads: 20,
};

#[test]
fn a_small_run_has_every_figure_that_is_promised() {
    let directory = tempfile::tempdir().unwrap();
    let task = Task { directory: directory.path(), sizes: SMALL };
    let figures = measure(&task, &mut Silent).unwrap();
    figures.check().unwrap();
    let mut names = vec!["peak_bytes.inf".to_owned()];
    for mode in side::MODES {
        for size in ["10k", "1m", "10m", "100m", "select100m"] {
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
        names.extend(["", "_100m", "_scattered"].map(|work| format!("write_amplification{work}.{mode}")));
    }
    names.extend(["20", "40", "60", "80", "100"].map(|percent| format!("threshold_p999_us.{percent}")));
    names.extend(["delete", "wal"].map(|mode| format!("ratio.read_p99.{mode}")));
    for name in names {
        assert!(figures.get(&name).is_some_and(|value| value > 0.0), "{name}: {:?}", figures.get(&name));
    }
    assert!(figures.get("peak_bytes.litefoot").is_some());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}
