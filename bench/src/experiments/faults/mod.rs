//! `faults`: every call to the system that may fail, failed once, at every place of a run.
//!
//! An ordinary program on the distribution's SQLite runs with liblitefoot.so. A shim between that and the C library
//! lets the n-th call of one kind fail. The program writes down the acknowledged transactions, goes on after errors,
//! and closes its database or is killed. Then litefoot and stock SQLite open the database in turns. Every acknowledged
//! transaction must be there, whole. No failed one may be, once another was acknowledged after it. The number n grows
//! until the program makes no such call any more. The same follows with faults during recovery from a killed process.
//!
//! | figure, one for each kind of fault and family of journals | meaning |
//! |---|---|
//! | `tried` | runs in which a call failed |
//! | `errors` | errors that SQLite returned to the program |
//! | `lost` | runs after which something acknowledged was missing, or the database did not open |
//! | `torn` | runs after which a transaction was there in part, or one that had failed |
//! | `hangs`, `aborts` | programs that did not end, or ended by a signal |
//!
//! Two failures may end the process by design. They are counted, and raise no alarm: a failed allocation in
//! `memory_at_start`, and one of the C library's own in `memory_of_sqlite`.

mod case;
mod kinds;
mod programs;

use crate::harness::Progress;
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};
use case::{Case, End, Outcome, RunStage, Violation, Workplace};
use kinds::{FaultKind, KINDS, SETTINGS, Setting};
use programs::Programs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Calls of each kind and setting that a quick run fails.
const QUICK_CALLS: u64 = 2;
/// The columns of the table.
const COLUMNS: [&str; 6] = ["tried", "errors", "lost", "torn", "hangs", "aborts"];

/// A worker's task.
enum Job {
    /// How many calls there are.
    Count(Case),
    /// One fault.
    Fault(Case),
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(directory)?;
    let programs = Programs::build(scratch.path(), options.library.as_deref())?;
    let wanted = options.case.as_deref().unwrap_or_default();
    let columns: Vec<_> = kinds_and_settings(options).filter(|pair| may_match(wanted, *pair)).collect();
    let mut figures = Figures::new();
    for (kind, family) in KINDS.iter().flat_map(|kind| ["rollback", "wal"].map(|family| (kind, family))) {
        if columns.iter().any(|(other, setting)| (other.name, setting.family) == (kind.name, family)) {
            COLUMNS.iter().for_each(|column| figures.set(format!("{}_{family}.{column}", kind.name), 0.0));
        }
    }
    let mut counts = Vec::new();
    for (kind, setting) in &columns {
        for stage in [RunStage::Run, RunStage::Recovery] {
            let plain = Case { kind, setting, stage, times: kind.times[0], end: End::Close, first: 0 };
            counts.push(Job::Count(plain));
        }
    }
    progress.begin("calls that can fail", counts.len() as u64);
    let mut faults = Vec::new();
    work(&programs, scratch.path(), counts, progress, &mut |case, outcome| {
        if let Some((_, what)) = outcome.wrong.first() {
            return Err(Error::Wrong(format!("{case}, where nothing fails: {what}")));
        }
        let all = outcome.calls;
        let most = if options.quick { Some(QUICK_CALLS) } else { case.kind.most };
        let step = most.map_or(1, |most| all.div_ceil(most).max(1)) as usize;
        let begin = if options.quick { 1 + options.seed as usize % step } else { 1 };
        for first in (begin as u64..=all).step_by(step) {
            let turns = case.kind.times.iter().enumerate();
            // The ends take turns from one call to the next.
            let cases = turns.map(|(turn, times)| {
                let end =
                    if (first as usize / step + turn).is_multiple_of(2) { End::Kill } else { End::Close };
                Case { times: *times, end, first, ..case }
            });
            let turn = first as usize / step % case.kind.times.len();
            let cases: Vec<Case> =
                if options.quick { cases.skip(turn).take(1).collect() } else { cases.collect() };
            faults.extend(
                cases.into_iter().filter(|case| case.to_string().starts_with(wanted)).map(Job::Fault),
            );
        }
        Ok(())
    })?;
    progress.begin("faults", faults.len() as u64);
    work(&programs, scratch.path(), faults, progress, &mut |case, outcome| {
        note(&mut figures, &case, &outcome, case.to_string() == wanted);
        Ok(())
    })?;
    Ok(figures)
}

fn kinds_and_settings(options: &Options) -> impl Iterator<Item = (&'static FaultKind, &'static Setting)> {
    let family = match options.journals {
        Journals::Wal => Some("wal"),
        Journals::Rollback => Some("rollback"),
        Journals::Both => None,
    };
    KINDS.iter().flat_map(move |kind| {
        let settings =
            SETTINGS.iter().filter(move |setting| family.is_none_or(|family| setting.family == family));
        settings.map(move |setting| (kind, setting))
    })
}

/// True if a case that is wanted can be of this kind and setting.
fn may_match(wanted: &str, (kind, setting): (&FaultKind, &Setting)) -> bool {
    let name = format!("{}.{}.", kind.name, setting.name);
    wanted.starts_with(&name) || name.starts_with(wanted)
}

/// Does the jobs on as many threads as there are processors; `take` gets the results in no order.
fn work(
    programs: &Programs,
    directory: &Path,
    jobs: Vec<Job>,
    progress: &mut dyn Progress,
    take: &mut dyn FnMut(Case, Outcome) -> Result<()>,
) -> Result<()> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = |number: usize, results: Sender<Result<(Case, Outcome)>>| {
        let place = match Workplace::new(programs, &directory.join(format!("place-{number}"))) {
            Ok(place) => place,
            Err(error) => return drop(results.send(Err(error))),
        };
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
            && !stop.load(Ordering::Relaxed)
        {
            let (Job::Count(case) | Job::Fault(case)) = job;
            if results.send(place.run(case).map(|outcome| (*case, outcome))).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let (sender, results): (_, Receiver<Result<(Case, Outcome)>>) = channel();
        let sender = Mutex::new(sender);
        for number in 0..threads {
            let results = sender.lock().map_err(|_| Error::Stopped)?.clone();
            let worker = &worker;
            scope.spawn(move || worker(number, results));
        }
        drop(sender);
        for result in results {
            let done =
                result.and_then(|(case, outcome)| take(case, outcome)).and_then(|()| progress.advance(1));
            if done.is_err() {
                stop.store(true, Ordering::Relaxed);
                return done;
            }
        }
        Ok(())
    })
}

/// Adds a case to the table.
fn note(figures: &mut Figures, case: &Case, outcome: &Outcome, tell: bool) {
    let mut alarms = Vec::new();
    let mut add = |column: &str, number: u64| {
        let name = format!("{}_{}.{column}", case.kind.name, case.setting.family);
        let sum = figures.get(&name).unwrap_or_default() + number as f64;
        figures.set(name, sum);
        sum
    };
    add("tried", u64::from(outcome.failed > 0));
    add("errors", outcome.errors);
    for (wrong, column) in [
        (Violation::Lost, "lost"),
        (Violation::Torn, "torn"),
        (Violation::Hang, "hangs"),
        (Violation::Abort, "aborts"),
    ] {
        let Some((_, what)) = outcome.wrong.iter().find(|(other, _)| *other == wrong) else { continue };
        let number = add(column, 1);
        let by_design = case.kind.may_abort && wrong == Violation::Abort;
        // The first of its row and column stands for the others.
        if number == 1.0 && !by_design {
            alarms.push(format!("{column}: {what}; replay: --case {case}"));
        }
    }
    alarms.into_iter().for_each(|alarm| figures.alarm(alarm));
    if tell {
        figures
            .note(format!("{case}: {} of {} calls failed; {}", outcome.failed, outcome.calls, outcome.said));
    }
}
