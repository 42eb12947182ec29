//! The memory that litefoot costs a small program.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;
use support::{litefoot, output_of, stdout_of};

/// Most kilobytes that a program may have more, with the smallest pool: 3 MB, of which the code of the library takes up to 2.
const MOST_KB: u64 = (1 << 10) + DEBUG_KB;
/// Kilobytes by which the constants and the relocations of a debug library are larger.
const DEBUG_KB: u64 = if cfg!(debug_assertions) { 512 } else { 0 };

/// Resident kilobytes of the program, but for litefoot's code; the least of a few runs, since the system counts roughly.
fn resident_kb(directory: &Path, mode: &str, preload: &[&str], who: &str) -> u64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/footprint.py");
    let run = |round: u32| {
        let name = format!("{who}-{mode}-{round}.db");
        let program = ["python3", script, &name, mode];
        let mut command = match preload {
            [] => Command::new("python3"),
            _ => litefoot(directory, preload),
        };
        command.current_dir(directory).args(if preload.is_empty() { &program[1..] } else { &program });
        let said = stdout_of(output_of(command), "footprint.py");
        let (beneath, kb) = said.trim().split_once(' ').unwrap();
        assert_eq!(beneath, who);
        kb.parse::<u64>().unwrap()
    };
    (0..5).map(run).min().unwrap()
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_small_program_has_hardly_more_memory_on_litefoot() {
    let directory = tempfile::tempdir().unwrap();
    for mode in ["delete", "wal"] {
        let stock = resident_kb(directory.path(), mode, &[], "stock");
        let ours =
            resident_kb(directory.path(), mode, &["run", "--set", "buffer_pool_size=1M", "--"], "litefoot");
        println!("{mode}: {stock} KB without litefoot, {ours} KB with it");
        assert!(ours < stock + MOST_KB, "{mode}: {stock} KB without litefoot, {ours} KB with it");
    }
}
