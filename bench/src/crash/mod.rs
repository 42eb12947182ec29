//! The crash simulator: real SQLite on a simulated medium, the power cut at any operation.
//!
//! A run ([`Recording::make`]) drives a seeded workload through the VFS on a [`SimMedium`](litefoot_sim::SimMedium). For every transaction the
//! recording has the operation at which its commit returned, and the rows of the database then. The rows are those of a
//! model (`model.rs`) that knows nothing of files. A power cut takes any point of the run, makes the files as the cut
//! could leave them, opens them again, and compares:
//!
//! - **lost**: the database is not at the state after the last acknowledged transaction, nor at that of
//!   the one in flight (whole);
//! - **corrupt**: it does not open, or fails its integrity check.
//!
//! Both litefoot and stock SQLite are the readers, stock SQLite on the exported files. One cut in eight is followed by
//! a second one during recovery.
//!
//! With a tier ([`CrashOptions::tier`]) the database has a second device, which every cut hits as well. It is added and
//! left away between the runs of the application, with a cut or a clean close between them. Plain SQLite must then
//! refuse the file, or find a state that is allowed.
//!
//! Everything follows from the seed: run number and cut number are derived from it, and a failure prints
//! what replays it.

#[cfg(test)]
mod directed;
mod large;
mod model;
mod readers;
#[cfg(test)]
mod short_openings;
mod unusual;
mod verify;
mod visitors;
mod workload;

pub use verify::{Reader, Verdict};
pub use workload::{Journal, Recording, RunSetup};

use litefoot_sim::{Faults, Random};
use readers::Readers;

/// How many cuts one recorded run is used for.
const CUTS_PER_RUN: u64 = 200;

/// One of so many images is read, and closed, by SQLite's own protocol before litefoot opens it.
const STOCK_FIRST_IN: u64 = 3;
/// One cut in so many is followed by another one during recovery.
const SECOND_CUT_IN: u64 = 8;

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct CrashOptions {
    /// Power cuts in all.
    pub cuts: u64,
    /// The seed that everything follows from.
    pub seed: u64,
    /// The journal families, by turns.
    pub journals: Vec<Journal>,
    /// Planted faults.
    pub faults: Faults,
    /// Bytes of a write that the medium promises never to tear.
    pub atomic_write_bytes: u32,
    /// Simulate SQLite's own protocol instead of litefoot's.
    pub pass_through: bool,
    /// Let hot chunks, and the logs, live on a tier device.
    pub tier: bool,
    /// Let stock SQLite come while the application has the database open.
    pub visitors: bool,
    /// Stop at the first failure.
    pub stop_at_first: bool,
}

impl CrashOptions {
    /// So many cuts over both journal families.
    pub fn new(cuts: u64, seed: u64) -> CrashOptions {
        CrashOptions {
            cuts,
            seed,
            journals: vec![Journal::Wal, Journal::Rollback],
            faults: Faults::default(),
            atomic_write_bytes: 0,
            pass_through: false,
            tier: false,
            visitors: false,
            stop_at_first: false,
        }
    }
}

/// The outcome of a simulation.
#[derive(Clone, Debug, Default)]
pub struct CrashReport {
    /// Power cuts made, second ones included.
    pub cuts: u64,
    /// After how many an acknowledged transaction was missing, or one was there in part.
    pub lost: u64,
    /// After how many the database did not open or failed its integrity check.
    pub corrupt: u64,
    /// Transactions acknowledged in the recorded runs.
    pub transactions: u64,
    /// Descriptions of the first few failures, each with the options that replay it.
    pub failures: Vec<String>,
}

/// Most failures that are described.
const DESCRIBED_FAILURES: usize = 10;

/// Simulates power cuts; `progress` is told the number made so far and answers whether to go on.
///
/// # Errors
/// When the workload itself fails, which without planted faults is a bug.
pub fn simulate(
    options: &CrashOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<CrashReport, String> {
    let mut report = CrashReport::default();
    let mut run = 0;
    while report.cuts < options.cuts {
        let journal = options.journals[run as usize % options.journals.len()];
        let seed = options.seed.wrapping_add(run);
        let setup = RunSetup {
            seed,
            journal,
            pass_through: options.pass_through,
            faults: options.faults.clone(),
            atomic_write_bytes: options.atomic_write_bytes,
            tier: options.tier,
            visitors: options.visitors,
        };
        let recording = Recording::make(&setup)?;
        report.transactions += recording.transactions() as u64;
        let cuts = CUTS_PER_RUN.min(options.cuts - report.cuts);
        if !cut_run(&recording, cuts, options, &mut report, progress)? {
            break;
        }
        run += 1;
    }
    Ok(report)
}

/// Cuts one run; whether to go on with the next one.
fn cut_run(
    recording: &Recording,
    cuts: u64,
    options: &CrashOptions,
    report: &mut CrashReport,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, String> {
    let readers = Readers::new()?;
    let mut random = Random::new(recording.seed() ^ 0x5eed_c075);
    let mut replay = recording.medium().replay();
    let mut points: Vec<usize> = (0..cuts).map(|_| random.below(replay.len() as u64 + 1) as usize).collect();
    points.sort_unstable();
    for point in points {
        replay.advance(point);
        let image = replay.cut(&mut random);
        let expected = recording.expected(point);
        report.cuts += 1;
        if !recording.has_several_files() {
            let stock = verify::check(&readers, &image, Reader::Stock, &expected)?;
            note(report, recording, point, Reader::Stock, &stock);
        }
        if recording.has_tier() {
            let copy = image.copy();
            let without = verify::check(&readers, &copy, Reader::WithoutTier, &expected)?;
            note(report, recording, point, Reader::WithoutTier, &without);
        }
        if !recording.has_several_files() && !recording.has_tier() && random.one_in(STOCK_FIRST_IN) {
            verify::read_as_stock(&readers, &image);
        }
        let second = random.one_in(SECOND_CUT_IN);
        let litefoot = verify::check(&readers, &image, Reader::Litefoot, &expected)?;
        note(report, recording, point, Reader::Litefoot, &litefoot);
        if second {
            let mut recovery = image.replay();
            recovery.advance(random.below(recovery.len() as u64 + 1) as usize);
            let image = recovery.cut(&mut random);
            report.cuts += 1;
            let verdict = verify::check(&readers, &image, Reader::Litefoot, &expected)?;
            note(report, recording, point, Reader::Litefoot, &verdict);
        }
        let go_on = progress(report.cuts.min(options.cuts));
        if !go_on || (options.stop_at_first && !report.failures.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn note(report: &mut CrashReport, recording: &Recording, point: usize, reader: Reader, verdict: &Verdict) {
    let what = match verdict {
        Verdict::Sound => return,
        Verdict::Lost(what) => {
            report.lost += 1;
            what
        }
        Verdict::Corrupt(what) => {
            report.corrupt += 1;
            what
        }
    };
    if report.failures.len() < DESCRIBED_FAILURES {
        report.failures.push(format!(
            "{reader:?} after a cut at operation {point} of {}: {what}; replay: --seed {} --journal {}{}{}",
            recording.medium().operations(),
            recording.seed(),
            recording.journal().name(),
            if recording.has_tier() { " --tier" } else { "" },
            if recording.has_visitors() { " --visitors" } else { "" },
        ));
    }
}
