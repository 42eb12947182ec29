//! `atomic`: what litefoot makes of a rollback-journal transaction, beside SQLite built for atomic writes.
//!
//! # Three parts
//! 1. The sides and workloads of the experiment `commit` with a rollback journal.
//! 2. One insert into a table without an index, PERSIST, as the paper has it (tables 1 and 2, figure 4). A C program makes the
//!    inserts of all sides, each in processes of its own; it is compiled where the experiment runs.
//! 3. The latency of each insert over time, in which checkpoints show (figure 1).
//!
//! | side of the second part | what, all with PERSIST at `synchronous=FULL` |
//! |---|---|
//! | `persist` | SQLite |
//! | `atomic_write` | SQLite with `SQLITE_ENABLE_ATOMIC_WRITE`, on files that claim to write pages whole or not at all |
//! | `batch_atomic_write` | SQLite with `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`, where the directory is on F2FS |
//! | `litefoot` | litefoot |
//! | `litefoot_assume4k` | litefoot with `atomic=assume4k`, which takes for granted what `atomic_write` claims |
//!
//! Without a C compiler, SQLite's source or liblitefoot.so a note says what is left out.
//!
//! # Figures
//! Those of `commit` for the sides here, and
//!
//! | name | meaning |
//! |---|---|
//! | `insert_bytes.SIDE`, `insert_syncs.SIDE` | bytes of the blocks of 4 KiB handed to the device, and syncs, for an insert, closing included |
//! | `insert_log_bytes.SIDE`, `insert_in_place.SIDE` | of these bytes, those of journals and logs; the share of the inserts that litefoot wrote in place, without a log |
//! | `update_…` | the same for an update of a row anywhere in a table of 20,000 |
//! | `calls.ROW.SIDE`, `calls.all.SIDE` | system calls of an insert, of all threads, closing included (table 1) |
//! | `inserts_per_s.SIDE`, `ratio.SIDE_over_persist` | inserts a second, and over those of `persist`; medians of the rounds (figure 4) |
//! | `process_bytes.SIDE` | the most memory that the process had: program, heap, pool, caches, logs (`VmHWM`; table 2) |
//! | `process_more_bytes.SIDE` | that, over what it had before it opened anything |
//! | `heap_bytes.SIDE`, `largest_allocation_bytes.SIDE`, `lookaside_hits.SIDE`, `pager_bytes.SIDE`, `schema_bytes.SIDE` | SQLite's own account of its heap: the rows of table 2 |
//! | `worst_insert_ms.P.SIDE` | the worst insert of part P of 24 of a run (figure 1); median of the rounds |
//! | `insert_ms.worst.SIDE`, `insert_ms.middle.SIDE`, `ratio.worst_over_middle_insert.SIDE` | of a whole run; medians of the rounds |

mod calls;
mod counted;
mod program;
mod spikes;

use super::commit::side::{DELETE_FULL, FLOOR, Kind, LITEFOOT, Side, settings};
use super::commit::{Task, measure, remove_database, work_directory};
use crate::harness::{Environment, Progress, interleave, median, median_ratio};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use program::{ATOMIC_WRITE, BATCH, Inserts, LITEFOOT_IN_PLACE, PERSIST, Way};
use std::path::Path;

const PERSIST_FULL: &str = "persist_full";
const LITEFOOT_DELETE: &str = "litefoot_delete";

const SIDES: [Side; 5] = [
    Side { name: DELETE_FULL, kind: Kind::Stock(settings("delete", "full")) },
    Side { name: PERSIST_FULL, kind: Kind::Stock(settings("persist", "full")) },
    Side { name: LITEFOOT, kind: Kind::Litefoot(settings("persist", "full")) },
    Side { name: LITEFOOT_DELETE, kind: Kind::Litefoot(settings("delete", "full")) },
    Side { name: FLOOR, kind: Kind::Floor },
];

const PERSIST_MODE: &str = "PRAGMA journal_mode=persist; PRAGMA synchronous=full";

/// How much is done.
struct Sizes {
    /// Transactions that are counted; in a full run the log restarts several times.
    counted: u64,
    /// Inserts of a process, timed and traced.
    inserts: u64,
    /// Inserts over time, and how often.
    over_time: usize,
    rounds_over_time: usize,
}

const FULL: Sizes = Sizes { counted: 5000, inserts: 2000, over_time: 6000, rounds_over_time: 5 };
const QUICK: Sizes = Sizes { counted: 300, inserts: 200, over_time: 1200, rounds_over_time: 1 };

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let sizes = if options.quick { QUICK } else { FULL };
    let work = work_directory(&options.directory)?;
    let directory = work.path();
    let task = Task { directory, seed: options.seed, sides: &SIDES };
    let measured = measure(&task, options.quick, progress)?;
    let speed = |side: &str, over: &str| measured.speed_ratio(&SIDES, side, over);
    let ratios = [
        ("ratio.litefoot_over_persist_full", speed(LITEFOOT, PERSIST_FULL)),
        ("ratio.litefoot_over_delete_full", speed(LITEFOOT_DELETE, DELETE_FULL)),
        ("ratio.p50_over_floor", measured.p50_ratio(&SIDES, LITEFOOT, FLOOR)),
    ];
    let mut figures = measured.figures;
    ratios.into_iter().for_each(|(name, ratio)| figures.set(name, ratio));
    counted::run(directory, sizes.counted, options.seed, &mut figures)?;
    spikes::run(directory, sizes.over_time, sizes.rounds_over_time, options.seed, &mut figures, progress)?;
    match Inserts::build(directory, options.library.as_deref(), options.quick) {
        Ok(inserts) => {
            let ways = ways(&inserts, &Environment::of(directory, options).file_system, &mut figures);
            processes(&inserts, &ways, directory, sizes.inserts, &mut figures, progress)?;
        }
        Err(Error::Missing(what)) => figures.note(format!("Tables 1 and 2 were left out: they need {what}")),
        Err(error) => return Err(error),
    }
    Ok(figures)
}

/// The ways of inserting that this machine has; a note for each that it has not.
fn ways(inserts: &Inserts, file_system: &str, figures: &mut Figures) -> Vec<Way> {
    let mut ways = vec![PERSIST, ATOMIC_WRITE];
    if file_system == "f2fs" {
        ways.push(BATCH);
    } else {
        let kernel = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let what = if kernel.lines().any(|line| line.trim() == "f2fs") {
            "name a directory on F2FS: --dir DIR"
        } else {
            "this kernel has no F2FS"
        };
        figures.note(format!("The side batch_atomic_write was left out: {what}."));
    }
    if inserts.has(&program::LITEFOOT) {
        ways.extend([program::LITEFOOT, LITEFOOT_IN_PLACE]);
    } else {
        figures.note("Litefoot was left out of tables 1 and 2: liblitefoot.so is not beside this program.");
    }
    ways
}

/// Inserts by processes: timed in turns, with the memory that they needed, and traced.
fn processes(
    inserts: &Inserts,
    ways: &[Way],
    directory: &Path,
    count: u64,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    progress.begin("inserts by processes", ways.len() as u64);
    let path = directory.join("inserts.db");
    let outcomes = interleave(ways, 0, |_, way| {
        let outcome = inserts.run(way, &path, count, progress)?;
        check(way, &path, count)?;
        remove_database(&path)?;
        Ok(outcome)
    })?;
    let rates: Vec<Vec<f64>> = outcomes
        .iter()
        .map(|rounds| rounds.iter().map(|outcome| count as f64 / outcome.seconds.max(1e-9)).collect())
        .collect();
    for ((way, rates), rounds) in ways.iter().zip(&rates).zip(&outcomes) {
        figures.set(format!("inserts_per_s.{}", way.name), median(rates.iter().copied()));
        // The most memory of any round.
        for (name, value) in rounds.iter().flat_map(|outcome| &outcome.figures) {
            let name = format!("{name}.{}", way.name);
            figures.set(name.clone(), figures.get(&name).unwrap_or_default().max(*value));
        }
    }
    for (way, side) in ways.iter().zip(&rates).skip(1) {
        figures.set(format!("ratio.{}_over_{}", way.name, PERSIST.name), median_ratio(side, &rates[0]));
    }
    for way in ways {
        match calls::run(inserts, way, &path, count) {
            Ok(calls) => {
                figures.set(format!("calls.all.{}", way.name), calls.values().sum());
                let set =
                    |(row, count): (&&str, &f64)| figures.set(format!("calls.{row}.{}", way.name), *count);
                calls.iter().for_each(set);
                check(way, &path, count)?;
            }
            Err(Error::Missing(what)) => {
                figures.note(format!("Table 1 was left out: it needs {what}"));
                break;
            }
            Err(error) => return Err(error),
        }
        remove_database(&path)?;
        progress.advance(1)?;
    }
    Ok(())
}

/// Stock SQLite must find every insert.
fn check(way: &Way, path: &Path, inserts: u64) -> Result<()> {
    let explain = |source| Error::Sqlite { what: format!("inserts, {}", way.name), source };
    let db = crate::harness::open_stock(path).map_err(explain)?;
    let integrity: String =
        db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(explain)?;
    let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).map_err(explain)?;
    if integrity == "ok" && rows.cast_unsigned() == inserts + program::WARMUP {
        return Ok(());
    }
    Err(Error::Wrong(format!("inserts, {}: {rows} rows of {inserts}, {integrity}", way.name)))
}

#[cfg(test)]
mod tests;
