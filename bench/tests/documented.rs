//! The documents and the experiments agree.

#![allow(clippy::unwrap_used)]

/// The list of experiments has all of them.
#[test]
fn every_experiment_is_told() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
    let text = std::fs::read_to_string(path).unwrap();
    for experiment in litefoot_bench::experiments::ALL {
        assert!(text.contains(&format!("| `litefoot bench {}", experiment.name)), "{}", experiment.name);
    }
}
