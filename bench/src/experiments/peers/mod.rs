//! Litefoot beside other embedded stores: redb, LMDB, fjall, RocksDB and libSQL.
//!
//! They are not the same kind of thing: SQLite and libSQL are asked in SQL, the others are trees of keys and values.
//! The comparison is of the time that an application waits which keeps one row and one index entry and must not lose
//! them.
//!
//! # Rounds
//! All stores take turns, at least five rounds, each with an empty directory. A round commits one row at a time, then
//! reads rows that were stored in one transaction. [`round`] describes both, and the checks. Settings are in
//! [`stores`]: each store's ordinary way to have a commit survive a power cut, everything else at its defaults. The
//! other stores run in a process of their own, by `litefoot-peers` (`bench/peers`); those that it was built without
//! have no figures.
//!
//! # What is counted, and how
//! Bytes are those of the blocks of 4 KiB handed to the device, each once between two syncs of a file, closing
//! included, as in `commit`. Syncs are those of files and directories. For SQLite and litefoot the counting medium
//! counts, in a run of its own. For the others the program's own functions count, in place of the C library's
//! (`bench/peers/src/counted.rs`). A write through a descriptor that is opened with `O_DSYNC` is a sync.
//!
//! # Figures
//! | name | meaning |
//! |---|---|
//! | `commits`, `rows`, `reads` | commits of a round, rows that its reads find, and single reads |
//! | `txn_per_s.STORE` | commits a second, closing included; median of the rounds |
//! | `p50_us.STORE`, `p99_us.STORE` | latency of a commit; median of the rounds |
//! | `bytes_per_txn.STORE`, `syncs_per_txn.STORE` | of the device, closing included |
//! | `point_us.STORE` | a row by its id, in a transaction of its own, warm; median of the rounds |
//! | `scan_ns_per_row.STORE` | all rows in the order of their ids, warm; median of the rounds |
//! | `ratio.litefoot_over_STORE` | `txn_per_s` of litefoot over that of a store; median of the rounds |
//! | `ratio.p50_over_STORE` | `p50_us` of litefoot over that of a store; median of the rounds |
//! | `p50_us.floor`, `ratio.p50_over_floor` | the same of the floor of `commit`, a bare write and sync, in the same rounds |

pub(super) mod program;
pub(super) mod round;
mod sqlite;
pub mod stores;
#[cfg(test)]
mod tests;

use super::commit::floor::Floor;
use super::commit::side::{FLOOR, SIDES, Side as Settings};
use super::commit::{remove_database, values, work_directory};
use crate::harness::{Latencies, MIN_ROUNDS, Progress, interleave, median, median_ratio};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_sim::CountingMedium;
use litefoot_storage::os::OsMedium;
use program::Program;
use round::{Failure, Outcome, Plan, Round, Spent, Store};
use sqlite::Sqlite;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stores::{Known, OURS};

const LITEFOOT: &str = "litefoot";
const COMMITS: u64 = 2000;
const ROWS: u64 = 100_000;
const READS: u64 = 50_000;
/// The same for the short form, with fewer commits where the device is too slow for them.
const QUICK_COMMITS: u64 = 300;
const QUICK_ROWS: u64 = 10_000;
const QUICK_READS: u64 = 10_000;
const FEWEST_COMMITS: u64 = 10;
/// The time limit of the short form's commits.
const QUICK_TIME: Duration = Duration::from_secs(15);

/// Checks that the program with the other stores is there.
pub(super) fn prepared() -> Result<()> {
    Program::find().map(drop)
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let program = Program::find()?;
    let directory = work_directory(&options.directory)?;
    let mut sides: Vec<Side<'_>> = OURS.iter().map(Side::ours).collect();
    sides.extend(
        program.stores.iter().map(|(known, _)| Side { known, place: StoreProcess::Program(&program) }),
    );
    sides.push(Side { known: &BARE, place: StoreProcess::Floor });
    let plan = plan(&sides, options, directory.path(), progress)?;
    let mut figures = measure(&sides, &plan, directory.path(), progress)?;
    for known in OURS {
        figures.note(format!("{}: {}", known.name, known.settings));
    }
    for (known, version) in &program.stores {
        figures.note(format!("{} {version}: {}", known.name, known.settings));
    }
    Ok(figures)
}

/// A store, and where it runs.
struct Side<'a> {
    known: &'a Known,
    place: StoreProcess<'a>,
}

enum StoreProcess<'a> {
    /// In this process, as a side of `commit`; of none if the name is none of theirs.
    Here(Option<&'static Settings>),
    /// In the program.
    Program(&'a Program),
    /// In this process, without a store: bare writes and syncs.
    Floor,
}

/// The floor among the stores.
const BARE: Known = Known { name: FLOOR, label: "a bare write and sync", settings: "" };

impl<'a> Side<'a> {
    fn ours(known: &'a Known) -> Side<'a> {
        Side { known, place: StoreProcess::Here(SIDES.iter().find(|side| side.name == known.name)) }
    }

    /// Runs a round in a directory that is empty before and afterwards.
    fn round(&self, plan: &Plan, directory: &Path) -> Result<Round> {
        match &self.place {
            StoreProcess::Program(program) => program.round(self.known.name, directory, plan),
            StoreProcess::Floor => bare_round(plan, directory),
            StoreProcess::Here(settings) => {
                let settings =
                    settings.ok_or_else(|| Error::Wrong(format!("{}: no such side", self.known.name)))?;
                let open = |directory: &Path| boxed(settings.open_timed(&directory.join("data.db"))?);
                round::run(plan, directory, &open, &Spent::default).map_err(|error| self.explain(error))
            }
        }
    }

    /// The commits on a counting medium; nothing where the rounds have counted.
    fn count(&self, plan: &Plan, directory: &Path) -> Result<Option<Round>> {
        let StoreProcess::Here(Some(settings)) = self.place else { return Ok(None) };
        let medium = CountingMedium::new(Arc::new(OsMedium::new()));
        let vfs = litefoot::Vfs::builder(format!("peers-{}", self.known.name))
            .medium(Arc::new(medium.clone()))
            .pass_through(!settings.is_litefoot())
            .register()?;
        let open = |directory: &Path| boxed(settings.open_through(&vfs, &directory.join("data.db"))?);
        let spent = || {
            let counts = medium.snapshot();
            Spent { syncs: counts.all_syncs(), bytes: counts.total().block_bytes_written }
        };
        let counted = round::write(plan, &directory.join("counted"), &open, &spent);
        counted.map(Some).map_err(|error| self.explain(error))
    }

    fn explain(&self, failure: Failure) -> Error {
        let what = format!("side {}", self.known.name);
        match failure.downcast::<Error>().map_err(|failure| failure.downcast::<rusqlite::Error>()) {
            Ok(error) => *error,
            Err(Ok(source)) => Error::Sqlite { what, source: *source },
            Err(Err(failure)) => Error::Wrong(format!("{what}: {failure}")),
        }
    }
}

fn boxed(connection: rusqlite::Connection) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(Sqlite::new(connection)?))
}

/// How much of everything; for the short form, as many commits as there is time for on this device.
fn plan(
    sides: &[Side<'_>],
    options: &Options,
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<Plan> {
    let seed = options.seed;
    if !options.quick {
        return Ok(Plan { commits: COMMITS, rows: ROWS, reads: READS, seed });
    }
    progress.begin("looking how fast the device is", sides.len() as u64);
    let probe = Plan { commits: FEWEST_COMMITS, rows: FEWEST_COMMITS, reads: FEWEST_COMMITS, seed };
    let mut all = Duration::ZERO;
    for side in sides {
        all += elapsed(&side.round(&probe, directory)?);
        progress.advance(1)?;
    }
    let each_s = all.as_secs_f64() / FEWEST_COMMITS as f64 * (MIN_ROUNDS + 1) as f64;
    let affordable = (QUICK_TIME.as_secs_f64() / each_s.max(1e-9)) as u64;
    let commits = affordable.clamp(FEWEST_COMMITS, QUICK_COMMITS);
    Ok(Plan { commits, rows: QUICK_ROWS, reads: QUICK_READS, seed })
}

/// Lets the stores take turns.
fn measure(
    sides: &[Side<'_>],
    plan: &Plan,
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<Figures> {
    progress.begin("stores taking turns", ((MIN_ROUNDS + 1) * sides.len()) as u64);
    let rounds = interleave(sides, MIN_ROUNDS, |_, side| {
        let round = side.round(plan, directory)?;
        progress.advance(1)?;
        Ok(round)
    })?;
    let mut figures = Figures::new();
    for (name, value) in [("commits", plan.commits), ("rows", plan.rows), ("reads", plan.reads)] {
        figures.set(name, value as f64);
    }
    for (side, rounds) in sides.iter().zip(&rounds) {
        if side.known.name == FLOOR {
            figures.set(format!("p50_us.{FLOOR}"), median(p50s(rounds)?));
            progress.advance(1)?;
            continue;
        }
        let counted = side.count(plan, directory)?;
        progress.advance(1)?;
        side_figures(&mut figures, side.known.name, plan, rounds, counted.as_ref())?;
    }
    let ours = sides.iter().zip(&rounds).find(|(side, _)| side.known.name == LITEFOOT);
    let Some((_, ours)) = ours else { return Ok(figures) };
    let speeds = |rounds: &[Round]| rounds.iter().map(speed).collect::<Vec<f64>>();
    let others = || sides.iter().zip(&rounds).filter(|(side, _)| side.known.name != LITEFOOT);
    for (side, rounds) in others().filter(|(side, _)| side.known.name != FLOOR) {
        let ratio = median_ratio(&speeds(ours), &speeds(rounds));
        figures.set(format!("ratio.litefoot_over_{}", side.known.name), ratio);
    }
    for (side, rounds) in others() {
        let ratio = median_ratio(&p50s(ours)?, &p50s(rounds)?);
        figures.set(format!("ratio.p50_over_{}", side.known.name), ratio);
    }
    Ok(figures)
}

/// The median commit of each round.
fn p50s(rounds: &[Round]) -> Result<Vec<f64>> {
    rounds.iter().map(|round| Ok(latencies(round)?.percentile_us(0.5))).collect()
}

/// As many bare writes and syncs as there are commits.
fn bare_round(plan: &Plan, directory: &Path) -> Result<Round> {
    let path = directory.join("floor");
    let floor = Floor::open(&OsMedium::new(), &path)?;
    let write = |number| {
        let begun = Instant::now();
        floor.write(number)?;
        Ok(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    };
    let commit_ns = (0..plan.commits).map(write).collect::<Result<Vec<u64>>>()?;
    drop(floor);
    remove_database(&path)?;
    Ok(Round { commit_ns, close_ns: 0, syncs: plan.commits, bytes: 0, reads_ns: 0, scan_ns: 0 })
}

fn side_figures(
    figures: &mut Figures,
    name: &str,
    plan: &Plan,
    rounds: &[Round],
    counted: Option<&Round>,
) -> Result<()> {
    let over_rounds = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of));
    let latencies = rounds.iter().map(latencies).collect::<Result<Vec<_>>>()?;
    let percentile = |share| median(latencies.iter().map(|of_round| of_round.percentile_us(share)));
    let commits = plan.commits as f64;
    let spent = |of: &dyn Fn(&Round) -> f64| counted.map_or_else(|| over_rounds(of), of) / commits;
    for (figure, value) in [
        ("txn_per_s", over_rounds(&speed)),
        ("p50_us", percentile(0.5)),
        ("p99_us", percentile(0.99)),
        ("bytes_per_txn", spent(&|round| round.bytes as f64)),
        ("syncs_per_txn", spent(&|round| round.syncs as f64)),
        ("point_us", over_rounds(&|round| round.reads_ns as f64 / 1e3) / plan.reads as f64),
        ("scan_ns_per_row", over_rounds(&|round| round.scan_ns as f64) / plan.rows as f64),
    ] {
        figures.set(format!("{figure}.{name}"), value);
    }
    Ok(())
}

fn latencies(round: &Round) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    round.commit_ns.iter().for_each(|ns| latencies.record(Duration::from_nanos(*ns)));
    Ok(latencies)
}

/// Commits and closing.
fn elapsed(round: &Round) -> Duration {
    Duration::from_nanos(round.commit_ns.iter().sum::<u64>() + round.close_ns)
}

/// Commits a second.
fn speed(round: &Round) -> f64 {
    round.commit_ns.len() as f64 / elapsed(round).as_secs_f64().max(1e-9)
}
