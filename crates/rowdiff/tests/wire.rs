//! Batches are as small as they are meant to be.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/wire.rs"]
mod wire;

use wire::{HOME_ASSISTANT, SENSOR, run};

#[test]
fn a_commit_takes_few_bytes_on_the_wire() {
    // The goals for batches of ten commits.
    for (name, workload, goal) in [("sensor", SENSOR, 30.0), ("Home Assistant", HOME_ASSISTANT, 250.0)] {
        let bytes = run(name, workload, 10).unwrap();
        assert!(bytes <= goal, "{name}: {bytes} bytes a commit");
    }
}
