//! Random statements on three connections, by stock SQLite and by litefoot, and a crash.
//!
//! Every step must have the same result on both: rows, code, message, and the counters of the connection. Then the power is
//! cut, or the process killed; what litefoot recovers must be what stock SQLite holds after its last commit. Some more
//! steps follow, and at the end stock SQLite reads litefoot's files. Each sequence runs with statements logged, and without.
//!
//! | end of a sequence | how |
//! |---|---|
//! | a kill | the files of the simulated medium as they are; stock's are copied |
//! | a power cut | at any operation of the last step: both its states are allowed |
//! | SIGKILL | a process of its own, on real files, for one batch in ten |

mod comparison;
mod deleted_journal;
mod raw;
mod shrink;
mod side;
mod statements;

pub(crate) use comparison::{CHILD, be_killed};

use crate::harness::{self, Progress, in_batches};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use comparison::{BATCH, Comparison, Mismatch, is_real, run_in_processes};
use statements::Sequence;
use std::path::Path;

/// Sequences of a full run and of a quick one.
const SEQUENCES: u64 = 100_000;
const QUICK_SEQUENCES: u64 = 400;
/// Differences of each kind that are described, about.
const DESCRIBED: u64 = 3;

/// The outcome of a batch.
#[derive(Default)]
struct Batch {
    sequences: u64,
    steps: u64,
    power_cuts: u64,
    killed: u64,
    /// Sequences that were not compared to their end, since only stock SQLite had locked a connection out.
    cut_short: u64,
    /// Sequences in which stock SQLite had deleted a journal that it needed at the end; the reference has it.
    stock_deleted_journal: u64,
    /// By seed.
    differences: Vec<(u64, String)>,
}

impl Batch {
    fn note(&mut self, seed: u64, parting: Mismatch) {
        match parting {
            Mismatch::Different(what) => self.differences.push((seed, what)),
            Mismatch::OnlyStockIsLocked => self.cut_short += 1,
        }
    }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let all = options.sequences.unwrap_or(if options.quick { QUICK_SEQUENCES } else { SEQUENCES });
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
    let mut figures = Figures::new();
    for name in [
        "sequences",
        "steps",
        "power_cuts",
        "killed_processes",
        "cut_short",
        "stock_deleted_journal",
        "differences_pages",
        "differences_statements",
    ] {
        figures.set(name, 0.0);
    }
    figures.set("seed", options.seed as f64);
    progress.begin("sequences", all);
    let work = |part: &harness::Batch<'_, Batch>| {
        let seed = options.seed.wrapping_add(part.first);
        part.tell(batch(scratch.path(), seed, part.many).map_err(Error::Wrong)?);
        Ok(())
    };
    let ended = in_batches(all, BATCH, work, &mut |batch| {
        note(&mut figures, &batch, scratch.path());
        progress.advance(batch.sequences)
    });
    figures.at_end(ended)
}

fn note(figures: &mut Figures, batch: &Batch, scratch: &Path) {
    let with_statements = |what: &str| what.starts_with(comparison::log(true));
    let differences = |statements: bool| {
        batch.differences.iter().filter(|(_, what)| with_statements(what) == statements).count() as u64
    };
    let name = |statements: bool| if statements { "differences_statements" } else { "differences_pages" };
    for (name, number) in [
        ("sequences", batch.sequences),
        ("steps", batch.steps),
        ("power_cuts", batch.power_cuts),
        ("killed_processes", batch.killed),
        ("cut_short", batch.cut_short),
        ("stock_deleted_journal", batch.stock_deleted_journal),
        (name(false), differences(false)),
        (name(true), differences(true)),
    ] {
        let sum = figures.get(name).unwrap_or_default() + number as f64;
        figures.set(name, sum);
    }
    for (seed, what) in &batch.differences {
        let statements = with_statements(what);
        let described = figures.get(name(statements)).unwrap_or_default() as u64 <= DESCRIBED;
        if !described {
            continue;
        }
        let text = shrink::describe(*seed, what, &scratch.join(format!("shrink-{seed}")));
        figures.alarm(format!("{text}\nreplay: --seed {seed} --sequences 1"));
    }
}

/// Runs some sequences whose seeds lie side by side.
fn batch(scratch: &Path, seed: u64, many: u64) -> std::result::Result<Batch, String> {
    let mut batch = Batch::default();
    let seeds = seed..seed.wrapping_add(many);
    let directory = scratch.join(format!("batch-{seed}"));
    std::fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let in_processes: Vec<u64> = seeds.clone().filter(|seed| is_real(*seed)).collect();
    if !in_processes.is_empty() {
        batch.killed = 2;
        let killed = run_in_processes(&directory, &in_processes)?;
        batch.stock_deleted_journal += killed.deleted_journals;
        for (seed, parting) in killed.found {
            batch.note(seed, parting);
        }
    }
    for seed in seeds {
        let sequence = Sequence::new(seed);
        batch.sequences += 1;
        batch.steps += (sequence.steps.len() + sequence.after.len()) as u64;
        batch.power_cuts += u64::from(sequence.power_cut);
        if !is_real(seed) {
            let run = Comparison { seed, sequence: &sequence, directory: &directory.join(seed.to_string()) };
            let outcome = run.outcome();
            batch.stock_deleted_journal += u64::from(outcome.deleted_journal);
            if let Some(parting) = outcome.found {
                batch.note(seed, parting);
            }
        }
    }
    std::fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(batch)
}
