//! One sequence on both sides, in this process or in one that is killed.

use super::deleted_journal;
use super::side::{Content, Side, copy, difference, export};
use super::statements::{Sequence, SequenceStep};
use crate::harness::child;
use litefoot::Options;
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "random";

/// Where the databases lie on a simulated medium.
const SIMULATED: &str = "/db";

/// The prefix of differences that do not count.
pub const STOCK_FAILS: &str = "stock SQLite fails";

/// Answers of stock SQLite if another connection has spilled its cache, and so locked the database. They are the code,
/// and the message where the code is a general one.
const LOCKED: [&str; 2] = ["; 5 ", "; 1 database is locked;"];

/// Why a sequence was not compared to its end.
pub enum Mismatch {
    Different(String),
    /// A connection with a cache of some pages has spilled them and locked others out, on stock SQLite only. Litefoot
    /// lends it the pages that it reads, and these take no place in its cache. From then on the sides hold different
    /// rows.
    OnlyStockIsLocked,
}

impl From<String> for Mismatch {
    fn from(what: String) -> Mismatch {
        Mismatch::Different(what)
    }
}

impl Mismatch {
    fn after(self, name: &str) -> Mismatch {
        match self {
            Mismatch::Different(what) => Mismatch::Different(format!("{name}: {what}")),
            Mismatch::OnlyStockIsLocked => Mismatch::OnlyStockIsLocked,
        }
    }
}

/// The form of the log, as the prefix of a difference.
pub fn log(statements: bool) -> &'static str {
    if statements { "statements logged" } else { "pages logged" }
}

/// Sequences that one process runs before it is killed; they have their seeds side by side.
pub const BATCH: u64 = 10;
/// One batch in so many runs in such processes.
const REAL_IN: u64 = 10;

/// The separator of two results in a file.
const END: &str = "\n--\n";

/// True if the sequence of a seed runs in a process that is killed.
pub fn is_real(seed: u64) -> bool {
    (seed / BATCH) % REAL_IN == REAL_IN / 2
}

/// litefoot's options for a seed.
fn options(seed: u64, statements: bool) -> Result<Options, String> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x6f70_7469_6f6e);
    let mut options = Options::default();
    let mut set = |name: &str, value: &str| options.set(name, value);
    set("writer_timeout_ms", "0")?;
    set("commit_log", if statements { "statements" } else { ["auto", "deltas"][random.usize(..2)] })?;
    set("buffer_pool_size", ["auto", "auto", "0"][random.usize(..3)])?;
    set("write_buffer_size", ["auto", "auto", "0", "64K"][random.usize(..4)])?;
    set("max_wal_size", ["4M", "32K"][random.usize(..2)])?;
    set("commit_log_size", ["4M", "64K", "16K"][random.usize(..3)])?;
    Ok(options)
}

/// Results and contents of stock SQLite.
struct Reference {
    results: Vec<String>,
    /// Before the last step, where the end is a power cut.
    before: Option<[Content; 2]>,
    crashed: [Content; 2],
    /// After the crash and the steps that follow.
    results_after: Vec<String>,
    ended: [Content; 2],
    /// True if SQLite had deleted a journal that it needed ([`deleted_journal`]).
    deleted_journal: bool,
}

/// The outcome of one sequence.
pub struct Outcome {
    pub found: Option<Mismatch>,
    /// As in the reference.
    pub deleted_journal: bool,
}

/// The outcome of sequences in processes of their own.
#[derive(Default)]
pub struct Killed {
    /// By seed.
    pub found: Vec<(u64, Mismatch)>,
    pub deleted_journals: u64,
}

fn steps(side: &mut Side, steps: &[SequenceStep]) -> Vec<String> {
    steps.iter().map(|step| side.step(step)).collect()
}

/// Kills stock SQLite: what it leaves in a directory, as a copy. Answers true where a deleted journal is in it.
fn kill_stock(live: &Path, to: &Path) -> Result<bool, String> {
    copy(live, to)?;
    deleted_journal::restore(live, to)
}

impl Reference {
    fn new(sequence: &Sequence, directory: &Path) -> Result<Reference, String> {
        std::fs::create_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let live = directory.join("live");
        std::fs::create_dir(&live).map_err(|error| format!("{}: {error}", live.display()))?;
        let mut stock = Side::stock(&live)?;
        stock.begin(&sequence.beginning);
        let last = sequence.steps.len().saturating_sub(1);
        let mut results = steps(&mut stock, &sequence.steps[..last]);
        let (mut before, mut deleted_journal) = (None, false);
        if sequence.power_cut {
            let copied = directory.join("before");
            deleted_journal |= kill_stock(&live, &copied)?;
            before = Some(Side::stock(&copied)?.contents()?);
        }
        results.extend(steps(&mut stock, &sequence.steps[last..]));
        let crashed = directory.join("crashed");
        deleted_journal |= kill_stock(&live, &crashed)?;
        drop(stock);
        let mut stock = Side::stock(&crashed)?;
        let contents = stock.contents()?;
        let results_after = steps(&mut stock, &sequence.after);
        drop(stock);
        let ended = Side::stock(&crashed)?.contents()?;
        Ok(Reference { results, before, crashed: contents, results_after, ended, deleted_journal })
    }

    /// Compares the results of the steps.
    fn compare(&self, sequence: &Sequence, results: &[String]) -> Result<(), Mismatch> {
        if results.len() != self.results.len() {
            return Err(format!("{} results of {}", results.len(), self.results.len()).into());
        }
        let place = results.iter().zip(&self.results).position(|(ours, stock)| ours != stock);
        let Some(place) = place else { return Ok(()) };
        let (ours, stock) = (&results[place], &self.results[place]);
        if LOCKED.iter().any(|locked| stock.contains(locked)) && sequence.has_small_caches(place) {
            return Err(Mismatch::OnlyStockIsLocked);
        }
        let step = &sequence.steps[place];
        Err(format!("step {place}, {step:?}:\n  stock {stock}\n  litefoot {ours}").into())
    }

    /// Compares what there is after the crash; whether it is the newest state.
    fn recovered(&self, found: &[Content; 2]) -> Result<bool, String> {
        let mut newest = true;
        for (index, found) in found.iter().enumerate() {
            let Some(what) = difference(&self.crashed[index], found) else { continue };
            newest = false;
            // A log of its own for each: a transaction over both may be in one of them.
            if self.before.as_ref().is_none_or(|before| before[index] != *found) {
                return Err(format!("after the crash: {what}"));
            }
        }
        Ok(newest)
    }
}

/// A sequence, and an own directory that does not exist yet.
pub struct Comparison<'a> {
    pub seed: u64,
    pub sequence: &'a Sequence,
    pub directory: &'a Path,
}

impl Comparison<'_> {
    /// The first difference, in this process, with and without statements in the log.
    pub fn outcome(&self) -> Outcome {
        let outcome = match Reference::new(self.sequence, self.directory) {
            Ok(reference) => Outcome {
                found: [false, true].into_iter().find_map(|statements| {
                    self.litefoot(&reference, statements).map_err(|why| why.after(log(statements))).err()
                }),
                deleted_journal: reference.deleted_journal,
            },
            Err(error) => Outcome {
                found: Some(Mismatch::Different(format!("{STOCK_FAILS}: {error}"))),
                deleted_journal: false,
            },
        };
        // Files that cannot be removed are removed with the directory above.
        let _ = std::fs::remove_dir_all(self.directory);
        outcome
    }

    fn litefoot(&self, reference: &Reference, statements: bool) -> Result<(), Mismatch> {
        let options = options(self.seed, statements)?;
        let directory = Path::new(SIMULATED);
        let medium = if self.sequence.power_cut { SimMedium::new() } else { SimMedium::unrecorded() };
        let mut side = Side::litefoot(directory, Some(&medium), &options)?;
        side.begin(&self.sequence.beginning);
        let last = self.sequence.steps.len().saturating_sub(1);
        let mut results = steps(&mut side, &self.sequence.steps[..last]);
        let before = medium.operations();
        results.extend(steps(&mut side, &self.sequence.steps[last..]));
        reference.compare(self.sequence, &results)?;
        let image = if self.sequence.power_cut {
            let mut random = Random::new(self.seed);
            let mut replay = medium.replay();
            replay.advance(before + random.below((replay.len() - before) as u64 + 1) as usize);
            replay.cut(&mut random)
        } else {
            medium.copy()
        };
        drop(side);
        let mut side = Side::litefoot(directory, Some(&image), &options)?;
        if !reference.recovered(&side.contents()?)? {
            return Ok(());
        }
        let results = steps(&mut side, &self.sequence.after);
        if let Some(place) =
            results.iter().zip(&reference.results_after).position(|(ours, stock)| ours != stock)
        {
            let (ours, stock) = (&results[place], &reference.results_after[place]);
            let step = &self.sequence.after[place];
            let what = format!("step {place} after the crash, {step:?}:\n  stock {stock}\n  litefoot {ours}");
            return Err(what.into());
        }
        drop(side);
        let files = self.directory.join(if statements { "on" } else { "off" });
        export(&image, &files)?;
        let found = Side::stock(&files)?.contents()?;
        for (found, expected) in found.iter().zip(&reference.ended) {
            if let Some(what) = difference(expected, found) {
                return Err(format!("closed, and read by stock SQLite: {what}").into());
            }
        }
        Ok(())
    }
}

/// Runs sequences in two processes that are killed, one with statements logged; what is different, by seed.
pub fn run_in_processes(directory: &Path, seeds: &[u64]) -> Result<Killed, String> {
    let mut killed = Killed::default();
    let mut references = Vec::new();
    for seed in seeds {
        let sequence = Sequence::new(*seed);
        let reference = Reference::new(&sequence, &directory.join(seed.to_string()))?;
        killed.deleted_journals += u64::from(reference.deleted_journal);
        references.push((*seed, sequence, reference));
    }
    for statements in [false, true] {
        let name = log(statements);
        let files = directory.join(if statements { "on" } else { "off" });
        std::fs::create_dir(&files).map_err(|error| format!("{}: {error}", files.display()))?;
        let mut command = child::command(CHILD).map_err(|error| error.to_string())?;
        command.arg(&files);
        command.arg(if statements { "1" } else { "0" }).args(seeds.iter().map(u64::to_string));
        let output = command.output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.signal() != Some(libc::SIGKILL) {
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("{name}: a process ended by itself: {} {}", output.status, said.trim());
            killed.found.push((seeds[0], what.into()));
            continue;
        }
        for (seed, sequence, reference) in &references {
            let files = files.join(seed.to_string());
            if let Err(why) = compare_killed(*seed, sequence, reference, &files, statements) {
                killed.found.push((*seed, why.after(&format!("{name}, a process killed"))));
            }
        }
    }
    Ok(killed)
}

/// Looks at what a killed process left.
fn compare_killed(
    seed: u64,
    sequence: &Sequence,
    reference: &Reference,
    files: &Path,
    statements: bool,
) -> Result<(), Mismatch> {
    let said = std::fs::read_to_string(files.with_extension("said"))
        .map_err(|error| format!("its results: {error}"))?;
    let results: Vec<String> = said.split_terminator(END).map(str::to_owned).collect();
    reference.compare(sequence, &results)?;
    let side = Side::litefoot(files, None, &options(seed, statements)?)?;
    Ok(reference.recovered(&side.contents()?).map(drop)?)
}

/// The process that is killed: it ends itself when all its databases are full.
pub(crate) fn be_killed(arguments: &[String]) -> Result<(), String> {
    let [directory, statements, seeds @ ..] = arguments else { return Err("too few arguments".to_owned()) };
    let directory = Path::new(directory);
    for seed in seeds {
        let number: u64 = seed.parse().map_err(|error| format!("{seed}: {error}"))?;
        let files = directory.join(seed);
        std::fs::create_dir(&files).map_err(|error| format!("{}: {error}", files.display()))?;
        let sequence = Sequence::new(number);
        let mut side = Side::litefoot(&files, None, &options(number, statements == "1")?)?;
        side.begin(&sequence.beginning);
        let said: String = steps(&mut side, &sequence.steps)
            .into_iter()
            .flat_map(|result| [result, END.to_owned()])
            .collect();
        std::fs::write(files.with_extension("said"), said).map_err(|error| error.to_string())?;
        side.abandon();
    }
    // SAFETY: plain system calls.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    Err("still alive".to_owned())
}
