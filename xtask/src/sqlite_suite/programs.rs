//! SQLite's own tests of many threads (`threadtest3`) and of many processes (`mptest`), on both sides.
//!
//! The processes of `mptest` share their database by litefoot's default, or as `--sharing` says. `--times` runs each script and
//! mode so often.

use super::build::Cache;
use super::result::{End, Outcome, Side};
use super::room::Room;
use crate::process::{Result, Tally};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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

/// The longest time of a run. `crash01` takes minutes on stock as well: its processes sleep while they wait for each other.
const LIMIT: Duration = Duration::from_secs(900);

/// How processes share a database where nothing else is asked for, how often each script runs in each mode, and how
/// many runs there are at once.
pub const SHARING: &str = "auto";
pub const TIMES: usize = 1;
pub const JOBS: usize = 6;

/// A test whose every error says so: it looks for the -journal or the -wal file of a transaction, which is in memory.
const DIFFERS: (&str, &str) = ("walthread2", "File system looks incorrect (0, 0)");

/// What is asked for.
pub struct Request<'a> {
    /// The test program.
    pub program: &'a str,
    /// How the processes of `mptest` share their database on litefoot.
    pub sharing: &'a str,
    /// How often each of its scripts runs in each mode on litefoot.
    pub times: usize,
    /// How many runs there are at once.
    pub jobs: usize,
}

/// What a run has shown.
struct Ended {
    test: usize,
    side: Side,
    verdict: String,
    outcome: Outcome,
}

/// Runs a program's tests on stock, and on litefoot as often as is asked for. The runs of `mptest` sleep for most of their time.
pub fn check(cache: &Cache, source: &Path, library: &Path, request: &Request<'_>) -> Result<Tally> {
    let program = request.program;
    cache.build_program(source, program)?;
    let room = Room::new(cache, source, Some(library))?;
    let (tests, times): (Vec<Vec<String>>, usize) = match program {
        "threadtest3" => (THREADS.iter().map(|name| vec![(*name).to_owned()]).collect(), 1),
        _ => {
            let test = |(script, mode): &(&str, &str)| processes(&room, script, mode);
            (PROCESSES.iter().map(test).collect(), request.times)
        }
    };
    let runs = tests.len() * (1 + times);
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..request.jobs.min(runs) {
            scope.spawn(|| {
                while let Some(number) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|next| *next < runs)
                {
                    let run = run(&room, request, &tests, number);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push(run);
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ended = ended.into_iter().collect::<Result<Vec<Ended>>>()?;
    let mut tally = Tally::default();
    for (number, test) in tests.iter().enumerate() {
        judge(test, ended.iter().filter(|run| run.test == number), &mut tally);
    }
    Ok(tally)
}

/// One of the runs, those on stock first.
fn run(room: &Room, request: &Request<'_>, tests: &[Vec<String>], number: usize) -> Result<Ended> {
    let (test, side) =
        (number % tests.len(), if number < tests.len() { Side::Stock } else { Side::Litefoot });
    let arguments: Vec<&str> = tests[test].iter().map(String::as_str).collect();
    let options = (request.program == "mptester").then(|| format!("sharing={}", request.sharing));
    let name = format!("{}-{number}", request.program);
    let outcome = room.run_with(side, &name, request.program, &arguments, LIMIT, options.as_deref())?;
    let verdict = verdict(outcome.end, &outcome.output);
    println!("{}, {}: {verdict}, {:.1} s", title(&tests[test]), side.name(), outcome.seconds);
    Ok(Ended { test, side, verdict, outcome })
}

/// Counts what a test has shown on both sides, and prints it.
fn judge<'a>(test: &[String], ended: impl Iterator<Item = &'a Ended>, tally: &mut Tally) {
    let (stock, litefoot): (Vec<&Ended>, Vec<&Ended>) = ended.partition(|run| run.side == Side::Stock);
    let stock = stock.first().map_or(("", 0.0), |run| (run.verdict.as_str(), run.outcome.seconds));
    let mut passed = 0;
    for run in &litefoot {
        if run.verdict == "ok" || run.verdict == stock.0 {
            passed += 1;
        } else if run.outcome.end == End::Done && differs_as_known(&test[0], &run.outcome.output) {
            passed += 1;
            println!("{}: differs as it must", DIFFERS.0);
        } else {
            tally.failed += 1;
            println!("{}", run.outcome.output);
        }
    }
    tally.passed += passed;
    let mut seconds: Vec<f64> = litefoot.iter().map(|run| run.outcome.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let [least, median, most] = [0, seconds.len() / 2, seconds.len().saturating_sub(1)]
        .map(|at| seconds.get(at).copied().unwrap_or_default());
    println!(
        "{}: stock {} in {:.1} s, litefoot passed {passed} of {} in {median:.1} s ({least:.1} to {most:.1})",
        title(test),
        stock.0,
        stock.1,
        litefoot.len()
    );
}

/// The name of a test of threads; the script and the mode of one of processes.
fn title(test: &[String]) -> String {
    let script = test.get(1).and_then(|path| Path::new(path).file_stem()).map(|name| name.to_string_lossy());
    match (script, test.last()) {
        (Some(script), Some(mode)) => format!("{script} {mode}"),
        _ => test.concat(),
    }
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
