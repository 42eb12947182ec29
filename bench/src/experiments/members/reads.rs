//! What a process reads of a database that another process has open: all of a table, rows here and there, one row again and again, and rows that the other
//! process has just changed.
//!
//! The other process has opened the database first, and does nothing else meanwhile: in a group it is the owner, and the one that reads is a member.
//! The database lies in the system's cache. SQLite's own cache has its default size.

use super::process::{self, DATABASE, READY, SIDES, Side};
use super::{await_ready, complaining, hear_micros, set_ratios};
use crate::harness::told::Told;
use crate::harness::{Progress, interleave, median};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

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
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
    let rows = if options.quick { QUICK_ROWS } else { ROWS };
    super::make(scratch.path(), mode, |db| {
        let (table, fill) = MAKE.split_once(';').unwrap_or_default();
        db.execute_batch(table)?;
        db.execute(fill, [rows]).map(drop)
    })?;
    let rounds = interleave(&SIDES, 0, |_, side| {
        let round = round(scratch.path(), *side)?;
        progress.advance(1)?;
        Ok(round)
    })?;
    for (number, (_, figure, unit)) in QUESTIONS.iter().enumerate() {
        let times: Vec<Vec<f64>> =
            rounds.iter().map(|rounds| rounds.iter().map(|times| times[number] / unit).collect()).collect();
        for (side, times) in SIDES.iter().zip(&times) {
            figures.set(format!("{figure}.{mode}.{}", side.name()), median(times.iter().copied()));
        }
        set_ratios(figures, &format!("{figure}_ratio"), mode, &times);
    }
    Ok(())
}

/// The microseconds of each question.
fn round(directory: &Path, side: Side) -> Result<[f64; QUESTIONS.len()]> {
    let failed = |source| Error::Directory { path: directory.to_owned(), source };
    let start = |number| {
        let mut command = complaining(CHILD, directory, number)?;
        command.arg(directory).arg(side.name());
        let process = Told::start(command).map_err(failed)?;
        await_ready(&process, directory, number).map(|()| process)
    };
    let ask = |process: &mut Told, number, question| {
        process.tell(question).map_err(failed)?;
        hear_micros(process, directory, number)
    };
    let (mut first, mut reader) = (start(0)?, start(1)?);
    let mut times = [0.0; QUESTIONS.len()];
    for (time, (question, _, _)) in times.iter_mut().zip(QUESTIONS) {
        if question == "changed" {
            ask(&mut first, 0, "change")?;
        }
        *time = ask(&mut reader, 1, question)?;
    }
    Ok(times)
}
