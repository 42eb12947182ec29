//! A simulation of a million cuts runs on a small machine: what a cut leaves in memory does not add up.

#![allow(clippy::unwrap_used)]

use litefoot_bench::crash::{CrashOptions, Journal, simulate};
use litefoot_testkit::memory::{CountingAllocator, live_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Each run registers some VFSes, of which something stays for as long as the process lives.
const MOST_BYTES_A_CUT: i64 = 100;

#[test]
fn what_a_simulation_keeps_in_memory_does_not_grow_with_its_cuts() {
    for (journal, tier, visitors) in [
        (Journal::Wal, false, false),
        (Journal::Rollback, false, false),
        (Journal::Rollback, true, false),
        (Journal::Wal, false, true),
    ] {
        let kept = |cuts: u64| {
            let mut options = CrashOptions::new(cuts, 3);
            (options.journals, options.tier, options.visitors) = (vec![journal], tier, visitors);
            let before = live_bytes();
            let report = simulate(&options, &mut |_| true).unwrap();
            assert_eq!((report.cuts >= cuts, report.failures), (true, Vec::new()));
            live_bytes() - before
        };
        // What is made once.
        kept(10);
        let (few, many) = (kept(50), kept(250));
        let each = (many - few) / 200;
        assert!(
            each < MOST_BYTES_A_CUT,
            "{journal:?} {tier} {visitors}: {each} bytes a cut, {few} and {many}"
        );
    }
}
