//! `members`: several processes that write one database, as a group, beside one another, and on stock SQLite; `member-kills`: the same, killed.
//!
//! Processes commit for a while (`--seconds`), each as fast as it can, with a connection of its own and the busy timeout of common drivers
//! (5 s). All begin at once, when the last of them has opened the database. The sides take turns. After each round stock SQLite
//! looks for every acknowledged commit; the files of a round that goes wrong are kept. Commits are synced, but for those of `normal`: WAL mode with `synchronous=NORMAL`.
//!
//! `member-kills` ends a random process by SIGKILL at random moments, the owner among them, and begins another one in its place. In half of
//! the lives stock SQLite comes and looks meanwhile (`--case wal`, `wal_stranger`, `delete`, `delete_stranger`, `normal`, `normal_stranger`). The files of a life that goes
//! wrong are kept. With `--kill-at-calls` a process is killed before each of its calls (`calls`).
//!
//! | figure | meaning |
//! |---|---|
//! | `txn_per_s.MODE_N.SIDE` | commits a second of N processes together; median of the rounds |
//! | `least_over_most.MODE_N.SIDE` | commits of the process that made fewest over those of the one that made most |
//! | `p999_ms.MODE_N.SIDE`, `longest_ms.MODE_N.SIDE` | of the process served worst |
//! | `calls_per_commit.MODE_N` | calls of members that the owner has answered, over the commits of all |
//! | `failed.MODE_N.SIDE` | transactions that have failed, of all rounds |
//! | `ratio.MODE_N.SIDE` | `txn_per_s` of the side over that of stock SQLite; median of the rounds |
//! | `scan_ms.MODE.SIDE`, `point_us.MODE.SIDE`, `again_us.MODE.SIDE`, `changed_us.MODE.SIDE` | of a process beside one that has opened the database first: all of a table of 100 MB; a row of it, at random; one row again and again; a row, at random, of those that the other process has just changed (`--case reads`) |
//! | `come_read_us.MODE.SIDE`, `come_store_us.MODE.SIDE` | of a new process beside one that has opened the database first: open it, read a row or store one, and close it (`--case joins`) |
//! | `memory_mb.MODE_N.SIDE` | memory of N processes together that have read all of a table of 100 MB and changed 4 MB of it; what several have counts once (`--case memory`) |
//! | `scan_ms_ratio.MODE.SIDE` and others | the same over the time of stock SQLite; median of the rounds |
//! | `kills`, `acknowledged`, `visits`, `wrong` | of `member-kills`: processes killed, commits acknowledged, visits of stock SQLite, lives after which something was missing or damaged |
//! | `failed`, `failed_beside_stranger` | of `member-kills`: transactions that have failed with an input/output error, without visits and with them |
//! | `longest_ms`, `longest_beside_stranger_ms` | of `member-kills`: the longest transaction of all that have ended, without visits and with them |
//! | `longest_seed`, `longest_beside_stranger_seed` | of `member-kills`: the life in which that was |

mod calls;
mod joins;
mod kills;
mod process;
mod reads;

use crate::harness::told::{Heard, Told};
use crate::harness::{self, Progress, interleave, median, median_ratio, open_stock};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
pub(crate) use calls::{CHILD as CALLS_CHILD, be_killed};
pub(crate) use joins::{CHILD as JOINS_CHILD, come};
pub(super) use kills::run as run_kills;
use process::{BEGIN, DATABASE, Plan, READY, SCHEMA, SIDES, Side, TORN};
pub(crate) use reads::{CHILD as READS_CHILD, be_asked};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUND: Duration = Duration::from_secs(4);
const QUICK_ROUND: Duration = Duration::from_millis(700);
const COUNTS: [i64; 4] = [1, 2, 4, 8];
const MODES: [&str; 2] = ["wal", "delete"];
/// WAL mode once more, where commits are not synced (`synchronous=NORMAL`).
const NORMAL: &str = "normal";
const ALL_MODES: [&str; 3] = [MODES[0], MODES[1], NORMAL];
/// So long may processes take until all have opened the database.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The longest time that a process takes for what it is asked.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "member";

/// The process that commits.
pub(crate) fn commit(arguments: &[String]) -> std::result::Result<(), String> {
    process::run(&Plan::of(arguments)?)
}

/// What the processes of a round have made.
struct Round {
    commits: Vec<f64>,
    p999_ms: f64,
    longest_ms: f64,
    failed: f64,
    calls: f64,
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let told = options.seconds.map(Duration::from_secs);
    let time = told.unwrap_or(if options.quick { QUICK_ROUND } else { ROUND });
    let mut figures = Figures::new();
    let cases =
        ALL_MODES.iter().flat_map(|mode| COUNTS.map(|count| (*mode, count, format!("{mode}_{count}"))));
    let is_wanted = |name: &str| options.case.as_deref().is_none_or(|case| name.starts_with(case));
    let cases: Vec<_> = cases.filter(|(_, _, name)| is_wanted(name)).collect();
    let reads: Vec<_> = MODES.into_iter().filter(|mode| is_wanted(&format!("reads_{mode}"))).collect();
    let joins: Vec<_> = MODES.into_iter().filter(|mode| is_wanted(&format!("joins_{mode}"))).collect();
    let memory: Vec<_> = MODES.into_iter().filter(|mode| is_wanted(&format!("memory_{mode}"))).collect();
    let all = cases.len() + reads.len() + joins.len() + memory.len() * COUNTS.len();
    progress.begin("rounds", (all * SIDES.len() * harness::MIN_ROUNDS) as u64);
    for (mode, count, name) in cases {
        let rounds = take_turns(progress, |side| round(&options.directory, mode, count, side, time))?;
        note(&mut figures, &name, &rounds, time);
    }
    for mode in reads {
        reads::run(options, mode, &mut figures, progress)?;
    }
    for mode in joins {
        joins::run(options, mode, &mut figures, progress)?;
    }
    for mode in memory {
        reads::run_memory(options, mode, &mut figures, progress)?;
    }
    Ok(figures)
}

fn note(figures: &mut Figures, name: &str, sides: &[Vec<Round>], time: Duration) {
    let rates: Vec<Vec<f64>> = sides
        .iter()
        .map(|rounds| {
            rounds.iter().map(|round| round.commits.iter().sum::<f64>() / time.as_secs_f64()).collect()
        })
        .collect();
    for ((side, rounds), rates) in SIDES.iter().map(|side| side.name()).zip(sides).zip(&rates) {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value));
        let least = |round: &Round| {
            let least = round.commits.iter().copied().fold(f64::INFINITY, f64::min);
            least / round.commits.iter().copied().fold(1.0, f64::max)
        };
        figures.set(format!("txn_per_s.{name}.{side}"), median(rates.iter().copied()));
        figures.set(format!("least_over_most.{name}.{side}"), of(&least));
        figures.set(format!("p999_ms.{name}.{side}"), of(&|round| round.p999_ms));
        figures.set(format!("longest_ms.{name}.{side}"), of(&|round| round.longest_ms));
        figures.set(format!("failed.{name}.{side}"), rounds.iter().map(|round| round.failed).sum());
    }
    let calls = |round: &Round| round.calls / round.commits.iter().sum::<f64>().max(1.0);
    if let Some(group) = sides.first() {
        figures.set(format!("calls_per_commit.{name}"), median(group.iter().map(calls)));
    }
    set_ratios(figures, "ratio", name, &rates);
}

fn round(parent: &Path, mode: &'static str, count: i64, side: Side, time: Duration) -> Result<Round> {
    let failed = |source| Error::Directory { path: parent.to_owned(), source };
    let scratch = tempfile::tempdir_in(parent).map_err(failed)?;
    let directory = scratch.path();
    create(directory, mode)?;
    let start = |writer| {
        let plan = Plan { directory: directory.to_owned(), writer, side, mode, time: Some(time) };
        Told::start(command(&plan)?).map_err(failed)
    };
    let mut processes: Vec<Told> = (0..count).map(start).collect::<Result<_>>()?;
    for (writer, process) in (0..).zip(&processes) {
        await_ready(process, directory, writer)?;
    }
    for process in &mut processes {
        process.tell(BEGIN).map_err(failed)?;
    }
    for mut process in processes {
        let status = process.child.wait().map_err(failed)?;
        if !status.success() {
            return Err(Error::Wrong(format!("a process of {mode} has ended with {status}")));
        }
    }
    let wrong = look(directory, 0..count, Side::Stock)?;
    if let Some(wrong) = wrong {
        let (side, kept) = (side.name(), scratch.keep());
        return Err(Error::Wrong(format!(
            "{mode}, {count} processes, {side}: {wrong}; the files are in {}",
            kept.display()
        )));
    }
    let mut round = Round { commits: Vec::new(), p999_ms: 0.0, longest_ms: 0.0, failed: 0.0, calls: 0.0 };
    for writer in 0..count {
        let text = std::fs::read_to_string(process::result(directory, writer)).map_err(failed)?;
        let numbers: Vec<f64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [commits, longest_us, p999_us, failed, calls] = numbers[..] else {
            return Err(Error::Wrong(format!("a process says {text:?}")));
        };
        round.commits.push(commits);
        round.p999_ms = round.p999_ms.max(p999_us / 1000.0);
        round.longest_ms = round.longest_ms.max(longest_us / 1000.0);
        round.failed += failed;
        round.calls = round.calls.max(calls);
    }
    Ok(round)
}

/// The rounds of each side, which take turns.
fn take_turns<T>(progress: &mut dyn Progress, round: impl Fn(Side) -> Result<T>) -> Result<Vec<Vec<T>>> {
    interleave(&SIDES, 0, |_, side| {
        let round = round(*side)?;
        progress.advance(1)?;
        Ok(round)
    })
}

/// Sets a figure of each side: the median of its rounds.
fn set_medians(figures: &mut Figures, figure: &str, sides: &[Vec<f64>]) {
    for (side, rounds) in SIDES.iter().zip(sides) {
        figures.set(format!("{figure}.{}", side.name()), median(rounds.iter().copied()));
    }
}

/// Makes the database of a round.
fn create(directory: &Path, mode: &str) -> Result<()> {
    let mode = if mode == NORMAL { "wal" } else { mode };
    let make = || {
        let db = open_stock(&directory.join(DATABASE))?;
        let set: String = db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))?;
        db.execute_batch(SCHEMA)?;
        Ok(set)
    };
    let set = make().map_err(|source| Error::Sqlite { what: "a new database".to_owned(), source })?;
    if set == mode { Ok(()) } else { Err(Error::Wrong(format!("the journal mode is {set}"))) }
}

/// The file with what a process says on its standard error.
fn complaints(directory: &Path, writer: i64) -> PathBuf {
    directory.join(format!("complaints-{writer}"))
}

fn said(directory: &Path, writer: i64) -> String {
    std::fs::read_to_string(complaints(directory, writer)).unwrap_or_default()
}

/// Waits until a process has opened the database.
fn await_ready(process: &Told, directory: &Path, writer: i64) -> Result<()> {
    if process.hear(READY_WITHIN) == Heard::Line(READY.to_owned()) {
        return Ok(());
    }
    Err(Error::Wrong(format!("process {writer} does not begin: {}", said(directory, writer))))
}

fn command(plan: &Plan) -> Result<Command> {
    let mut command = complaining(CHILD, &plan.directory, plan.writer)?;
    command.args(plan.arguments());
    Ok(command)
}

/// A process of that name, whose standard error becomes a file.
fn complaining(name: &str, directory: &Path, writer: i64) -> Result<Command> {
    let failed = |source| Error::Directory { path: "the running program".into(), source };
    let errors = std::fs::File::create(complaints(directory, writer)).map_err(failed)?;
    let mut command = harness::child::command(name).map_err(failed)?;
    command.stderr(errors);
    Ok(command)
}

/// Makes the database of a round, as `fill` says.
fn make(directory: &Path, mode: &str, fill: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<()> {
    let make = || {
        let db = open_stock(&directory.join(DATABASE))?;
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))?;
        fill(&db)
    };
    make().map_err(|source| Error::Sqlite { what: "a database of processes".to_owned(), source })
}

/// The microseconds that a process says next.
fn hear_micros(process: &Told, directory: &Path, number: i64) -> Result<f64> {
    let heard = process.hear(ANSWERED_WITHIN);
    let Heard::Line(line) = &heard else {
        return Err(Error::Wrong(format!("process {number}: {heard:?}: {}", said(directory, number))));
    };
    line.parse().map_err(|_| Error::Wrong(format!("process {number} says {line:?}")))
}

/// Sets how a figure of litefoot's sides compares with that of stock SQLite.
fn set_ratios(figures: &mut Figures, ratio: &str, mode: &str, sides: &[Vec<f64>]) {
    if let [group, auto, stock] = sides {
        figures.set(format!("{ratio}.{mode}.group"), median_ratio(group, stock));
        figures.set(format!("{ratio}.{mode}.auto"), median_ratio(auto, stock));
    }
}

/// What is wrong with a database behind its processes, by a process of the side.
fn look(directory: &Path, writers: impl Iterator<Item = i64>, side: Side) -> Result<Option<String>> {
    let (_vfs, db) = process::open(&directory.join(DATABASE), side).map_err(Error::Wrong)?;
    let ask = || {
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((integrity, db.query_row(TORN, [], |row| row.get::<_, i64>(0))?))
    };
    let (integrity, torn) =
        ask().map_err(|source| Error::Sqlite { what: "the last look".to_owned(), source })?;
    if integrity != "ok" {
        return Ok(Some(integrity));
    }
    if torn > 0 {
        return Ok(Some(format!("{torn} transactions are there in part")));
    }
    for writer in writers {
        if let Some(n) = process::missing(&db, directory, writer).map_err(Error::Wrong)? {
            return Ok(Some(format!("commit {n} of process {writer} was acknowledged, and is lost")));
        }
    }
    Ok(None)
}
