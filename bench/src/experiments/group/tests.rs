//! Loads with few, short rounds; nothing here depends on the time they take.

use super::load::{Plan, Writer};
use super::round::{Outcome, Row};
use super::threads::Extent;
use super::*;
use crate::harness::Silent;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn every_load_has_its_figures() {
    let directory = tempfile::tempdir().unwrap();
    let sides = [Loaded::Floor, Loaded::Sqlite(&SIDES[0]), Loaded::Sqlite(&SIDES[1])];
    let extent = Extent { threads: &[1, 4, 7], rounds: 1, time_ms: 10, seed: 3 };
    let mut figures = Figures::new();
    threads::run(&sides, extent, directory.path(), &mut figures, &mut Silent).unwrap();
    figures.check().unwrap();
    let get = |name: &str| figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    let rates = ["half_of_own", "most_of_own", "half_of_sqlite"].map(|rate| format!("arrivals_{rate}"));
    let loads = extent.threads.iter().map(|threads| format!("threads_{threads}"));
    for load in loads.chain(rates) {
        for figure in ["txn_per_s", "p50_us", "p99_us", "p999_us"] {
            for side in &sides {
                assert!(get(&format!("{figure}.{load}.{}", side.name())) > 0.0, "{figure} {load}");
            }
        }
    }
    for threads in extent.threads {
        assert!(get(&format!("ratio.litefoot_over_wal_full.threads_{threads}")) > 0.0);
        assert!(get(&format!("ratio.p50_over_floor.threads_{threads}")) > 0.0);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

/// A store that stalls once.
struct Stalling<'a> {
    commits: &'a AtomicU64,
    stall: Duration,
}

impl Writer for Stalling<'_> {
    fn commit(&mut self, _: &Row) -> Outcome<()> {
        if self.commits.fetch_add(1, Ordering::Relaxed) == 0 {
            std::thread::sleep(self.stall);
        }
        Ok(())
    }
}

#[test]
fn a_stall_is_charged_to_every_commit_that_was_due_meanwhile() {
    let (commits, stall) = (AtomicU64::new(0), Duration::from_millis(100));
    let plan = Plan { threads: 1, time_ms: 100, arrivals_per_s: Some(100.0), seed: 1 };
    let load = load::run(&plan, vec![Box::new(Stalling { commits: &commits, stall })]).unwrap();
    assert_eq!(load.latencies_ns.len(), 10, "as many as were due");
    // Those due in the first half of the stall wait for more than half of it.
    let late = load.latencies_ns.iter().filter(|ns| **ns >= 50_000_000).count();
    assert!(late >= 5, "{:?}", load.latencies_ns);
}

#[test]
fn a_writer_that_fails_ends_the_load() {
    struct Failing;
    impl Writer for Failing {
        fn commit(&mut self, _: &Row) -> Outcome<()> {
            Err("no room".into())
        }
    }
    let plan = Plan { threads: 2, time_ms: 1000, arrivals_per_s: None, seed: 1 };
    let failure = load::run(&plan, vec![Box::new(Failing), Box::new(Failing)]).unwrap_err();
    assert_eq!(failure.to_string(), "no room");
}
