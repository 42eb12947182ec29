//! Tests under Miri, which finds undefined behaviour that a run on the machine does not show.
//!
//! Miri interprets: it has no io_uring, no fibers, no SQLite, and is slower by three orders of magnitude. So it gets
//! the tests of what works in memory and ends within seconds there; the words of the pool and of a group are
//! checked by loom, too.
//!
//! Miri is a component of a nightly compiler. Where it is not installed the step says that it checked nothing.

use crate::process::{self, Result, Tally};
use std::process::{Command, Stdio};

/// For each crate, the tests whose names contain one of these.
const TESTS: [(&str, &[&str]); 4] = [
    (
        "litefoot-storage",
        &[
            "os::resolve::",
            "wal_file::tests::a_commit_into",
            "mapped_pool::shown::",
            "page_state::table::tests::a_word",
            "page_state::table::tests::chunks",
        ],
    ),
    ("litefoot-sim", &["simulated::"]),
    ("litefoot-pagestore", &["store::metadata::"]),
    (
        "litefoot-vfs",
        &[
            "memory::spill_file::",
            "stats::published::tests::what_cannot",
            "sync::file_seats::",
            "sync::group_board::tests::threads_share_a_board_in_plain",
            "sync::reader_gate::",
            "sync::slot_gates::",
            "sync::writer_queue::",
        ],
    ),
];

/// Runs the step.
pub fn check() -> Result<Tally> {
    if !is_installed() {
        println!("miri: NOT CHECKED, it takes a component of a nightly compiler");
        println!("      (rustup toolchain install nightly --component miri,rust-src)");
        return Ok(Tally { passed: 1, failed: 0 });
    }
    let directory = process::target_directory().join("miri");
    let mut total = Tally::default();
    for (package, filters) in TESTS {
        let mut command = nightly();
        command.args(["miri", "test", "--locked", "-p", package, "--lib", "--target-dir"]).arg(&directory);
        command.arg("--").args(filters);
        // Times, random numbers and temporary directories are the machine's.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
        let tally = process::tally(&mut command)?;
        if tally.passed + tally.failed < filters.len() as u64 {
            return Err(format!(
                "{package}: fewer tests than filters in xtask/src/miri.rs: was one renamed?"
            ));
        }
        total.add(tally);
    }
    Ok(total)
}

fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    for inherited in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(inherited);
    }
    command
}

fn is_installed() -> bool {
    let asked = nightly().args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}
