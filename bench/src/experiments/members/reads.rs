//! What a process reads of a database that another process has open: all of a table, rows here and there, one row again and again, and rows that the other
//! process has just changed.
//!
//! The other process has opened the database first, and does nothing else meanwhile: in a group it is the owner, and the one that reads is a member.
//! The database lies in the system's cache. SQLite's own cache has its default size.
//!
//! `--case memory` has several processes read and change it, and asks the system for the memory of all.

use super::process::{self, DATABASE, READY, Side};
use super::{COUNTS, await_ready, complaining, hear_micros, set_medians, set_ratios, take_turns};
use crate::harness::Progress;
use crate::harness::told::Told;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "member-reads";

/// Rows of some 900 bytes.
const ROWS: i64 = 100_000;
const QUICK_ROWS: i64 = 4_000;
/// Rows that the other process has changed: some megabytes of the log.
const CHANGED: i64 = 3_900;
/// Rows that are looked up.
const LOOKUPS: i64 = 4_000;

const MAKE: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) INSERT INTO t SELECT i, hex(zeroblob(450)) FROM n";
const SCAN: &str = "SELECT sum(length(b)) FROM t";
const CHANGE: &str = "UPDATE t SET b = lower(b) WHERE a <= ?1";
const LOOKUP: &str = "SELECT length(b) FROM t WHERE a = ?1";

/// What is asked, the name of its figure, and how many microseconds that has.
const QUESTIONS: [(&str, &str, f64); 4] = [
    ("scan", "scan_ms", 1000.0),
    ("points", "point_us", LOOKUPS as f64),
    ("again", "again_us", LOOKUPS as f64),
    ("changed", "changed_us", LOOKUPS as f64),
];

/// The process: it answers each line with the microseconds that it has taken.
pub(crate) fn be_asked(arguments: &[String]) -> std::result::Result<(), String> {
    let [directory, side] = arguments else { return Err("two arguments".to_owned()) };
    let (_vfs, db) = process::open(&Path::new(directory).join(DATABASE), Side::of(side)?)?;
    let text = |error: rusqlite::Error| error.to_string();
    let rows: i64 = db.query_row("SELECT max(a) FROM t", [], |row| row.get(0)).map_err(text)?;
    println!("{READY}");
    let mut random = fastrand::Rng::with_seed(7);
    for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
        let begun = Instant::now();
        if line == "scan" {
            db.query_row(SCAN, [], |row| row.get::<_, i64>(0)).map_err(text)?;
        } else if line == "change" {
            db.execute(CHANGE, [CHANGED]).map_err(text)?;
        } else {
            let mut lookup = db.prepare_cached(LOOKUP).map_err(text)?;
            for _ in 0..LOOKUPS {
                let row = match line.as_str() {
                    "again" => 5,
                    "changed" => random.i64(1..=CHANGED),
                    _ => random.i64(1..=rows),
                };
                lookup.query_row([row], |row| row.get::<_, i64>(0)).map_err(text)?;
            }
        }
        println!("{}", begun.elapsed().as_micros());
    }
    Ok(())
}

/// Measures one journal mode.
pub(super) fn run(
    options: &Options,
    mode: &str,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let scratch = filled(options, mode)?;
    let sides = take_turns(progress, |side| round(scratch.path(), side))?;
    for (number, (_, figure, unit)) in QUESTIONS.iter().enumerate() {
        let times: Vec<Vec<f64>> =
            sides.iter().map(|rounds| rounds.iter().map(|times| times[number] / unit).collect()).collect();
        set_medians(figures, &format!("{figure}.{mode}"), &times);
        set_ratios(figures, &format!("{figure}_ratio"), mode, &times);
    }
    Ok(())
}

/// A directory with the database.
fn filled(options: &Options, mode: &str) -> Result<TempDir> {
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
    let rows = if options.quick { QUICK_ROWS } else { ROWS };
    super::make(scratch.path(), mode, |db| {
        let (table, fill) = MAKE.split_once(';').unwrap_or_default();
        db.execute_batch(table)?;
        db.execute(fill, [rows]).map(drop)
    })?;
    Ok(scratch)
}

/// A process that has opened the database, and waits for questions.
fn start(directory: &Path, side: Side, number: i64) -> Result<Told> {
    let mut command = complaining(CHILD, directory, number)?;
    command.arg(directory).arg(side.name());
    let started = Told::start(command);
    let process = started.map_err(|source| Error::Directory { path: directory.to_owned(), source })?;
    await_ready(&process, directory, number).map(|()| process)
}

/// The microseconds of a question.
fn ask(process: &mut Told, directory: &Path, number: i64, question: &str) -> Result<f64> {
    let told = process.tell(question);
    told.map_err(|source| Error::Directory { path: directory.to_owned(), source })?;
    hear_micros(process, directory, number)
}

/// The microseconds of each question.
fn round(directory: &Path, side: Side) -> Result<[f64; QUESTIONS.len()]> {
    let (mut first, mut reader) = (start(directory, side, 0)?, start(directory, side, 1)?);
    let mut times = [0.0; QUESTIONS.len()];
    for (time, (question, _, _)) in times.iter_mut().zip(QUESTIONS) {
        if question == "changed" {
            ask(&mut first, directory, 0, "change")?;
        }
        *time = ask(&mut reader, directory, 1, question)?;
    }
    Ok(times)
}

/// Measures the memory of several processes that have read all of it.
pub(super) fn run_memory(
    options: &Options,
    mode: &str,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let scratch = filled(options, mode)?;
    for count in COUNTS {
        let sides = take_turns(progress, |side| memory(scratch.path(), side, count))?;
        set_medians(figures, &format!("memory_mb.{mode}_{count}"), &sides);
    }
    Ok(())
}

/// The megabytes of so many processes, each of which has read all of the table, and changed rows of it.
fn memory(directory: &Path, side: Side, count: i64) -> Result<f64> {
    let mut processes = Vec::new();
    for number in 0..count {
        processes.push(start(directory, side, number)?);
    }
    for question in ["change", "scan", "points"] {
        for (number, process) in (0..).zip(&mut processes) {
            ask(process, directory, number, question)?;
        }
    }
    let used: Option<f64> = processes.iter().map(|process| megabytes(process.child.id())).sum();
    used.ok_or_else(|| Error::Wrong("the system does not say how much memory a process has".to_owned()))
}

/// The memory of a process. What several have is shared out among them.
fn megabytes(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}
