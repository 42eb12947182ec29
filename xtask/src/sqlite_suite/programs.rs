//! SQLite's own tests of many threads (`threadtest3`) and of many processes (`mptest`), on both sides.
//!
//! The processes of `mptest` share their database by litefoot's default, or as `--sharing` says. `--times` runs each script and
//! mode so often.

use super::build::Cache;
use super::result::End;
use super::result::Side;
use super::room::Room;
use crate::process::{Result, Tally};
use std::path::Path;
use std::time::Duration;

/// The tests of threads that take less than a minute each.
const THREADS: [&str; 15] = [
    "walthread1",
    "walthread2",
    "walthread3",
    "walthread4",
    "walthread5",
    "cgt_pager_1",
    "dynamic_triggers",
    "checkpoint_starvation_1",
    "checkpoint_starvation_2",
    "create_drop_index_1",
    "lookaside1",
    "vacuum1",
    "stress1",
    "stress2",
    "shared1",
];

/// The scripts of processes, with the journal modes that SQLite runs them in.
const PROCESSES: [(&str, &str); 6] = [
    ("crash01", "DELETE"),
    ("multiwrite01", "WAL"),
    ("crash01", "WAL"),
    ("multiwrite01", "PERSIST"),
    ("crash01", "PERSIST"),
    ("multiwrite01", "TRUNCATE"),
];

/// How processes share a database where nothing else is asked for, and how often each script runs in each mode.
pub const SHARING: &str = "auto";
pub const TIMES: usize = 1;

/// A test whose every error says so: it looks for the -journal or the -wal file of a transaction, which is in memory.
const DIFFERS: (&str, &str) = ("walthread2", "File system looks incorrect (0, 0)");

/// Runs one of them on both sides, the processes with this option of litefoot's, and so many times on litefoot.
pub fn check(
    cache: &Cache,
    source: &Path,
    library: &Path,
    program: &str,
    (sharing, times): (&str, usize),
) -> Result<Tally> {
    cache.build_program(source, program)?;
    let room = Room::new(cache, source, library)?;
    let mut tally = Tally::default();
    let runs: Vec<Vec<String>> = match program {
        "threadtest3" => THREADS.iter().map(|name| vec![(*name).to_owned()]).collect(),
        _ => PROCESSES.iter().map(|(script, mode)| processes(&room, script, mode)).collect(),
    };
    for arguments in runs {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let options = (program == "mptester").then(|| format!("sharing={sharing}"));
        let run = |side| {
            let limit = Duration::from_secs(300);
            let outcome = room.run_with(side, program, program, &arguments, limit, options.as_deref())?;
            Ok::<_, String>((verdict(outcome.end, &outcome.output), outcome))
        };
        let (stock, _) = run(Side::Stock)?;
        for _ in 0..if program == "mptester" { times } else { 1 } {
            let (litefoot, outcome) = run(Side::Litefoot)?;
            println!(
                "{program} {}: stock {stock}, litefoot {litefoot}, {:.1} s",
                arguments.last().unwrap_or(&""),
                outcome.seconds
            );
            if litefoot == "ok" || litefoot == stock {
                tally.passed += 1;
            } else if outcome.end == End::Done && differs_as_known(arguments[0], &outcome.output) {
                tally.passed += 1;
                println!("{program} {}: differs as it must", DIFFERS.0);
            } else {
                tally.failed += 1;
                println!("{}", outcome.output);
            }
        }
    }
    Ok(tally)
}

fn differs_as_known(test: &str, output: &str) -> bool {
    let mut errors = output.lines().filter(|line| line.starts_with("Error: "));
    test == DIFFERS.0 && errors.all(|line| line.contains(DIFFERS.1))
}

fn processes(room: &Room, script: &str, mode: &str) -> Vec<String> {
    let script = room.source(&format!("mptest/{script}.test")).to_string_lossy().into_owned();
    ["mptest.db", &script, "--repeat", "5", "--journalmode", mode].map(str::to_owned).to_vec()
}

/// `threadtest3` counts its errors; `mptest` ends with a summary of its own.
fn verdict(end: End, output: &str) -> String {
    if end != End::Done {
        return format!("{end:?}");
    }
    let total = output.lines().rev().find_map(|line| {
        let (errors, _) = line.trim_start_matches("Summary: ").split_once(" errors out of ")?;
        errors.parse::<u64>().ok()
    });
    match total {
        Some(0) => "ok".to_owned(),
        Some(errors) => format!("{errors} errors"),
        None => "no summary".to_owned(),
    }
}
