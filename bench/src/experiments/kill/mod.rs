//! `kill`: SIGKILL, thousands of times.
//!
//! A process with several threads writes transactions small and large, in either journal family. It is killed at a
//! random moment: at work, or while it opens what its predecessor left. The next process opens that first and looks for
//! everything that was acknowledged; now and then stock SQLite does so between the two. A directory serves [`LIFE`]
//! rounds.
//!
//! | figure | meaning |
//! |---|---|
//! | `rounds` | processes killed |
//! | `at_opening` | of these, before they had found everything in order |
//! | `by_stock` | looks by stock SQLite between two processes |
//! | `acknowledged` | transactions acknowledged |
//! | `wrong` | rounds after which something was missing or damaged, or in which a program said that it saw such a thing |
//! | `hangs`, `aborts` | processes that did not get ready, or ended by themselves |

mod child;

use crate::harness::{self, Batch, Progress, in_batches, open_stock};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use child::{DATABASE, Plan, SAID, SOUND, verify};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds of a full run and of a quick one.
const ROUNDS: u64 = 10_000;
const QUICK_ROUNDS: u64 = 300;
/// Rounds with one directory.
const LIFE: u64 = 25;
/// After this a process counts as hung: far beyond what any needs.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// How long a process works, or opens, before it is killed: at most, in microseconds.
const WORKS_US: u64 = 25_000;
const OPENS_US: u64 = 12_000;
/// Failures that are described.
const DESCRIBED: usize = 10;

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "kill";

/// The process that is killed.
pub(crate) fn be_killed(arguments: &[String]) -> std::result::Result<(), String> {
    let [directory, seed, directory_seed] = arguments else { return Err("three arguments".to_owned()) };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    child::run(Path::new(directory), number(seed)?, number(directory_seed)?)
}

/// The outcome of a round.
#[derive(Debug, Default)]
struct Round {
    at_opening: bool,
    by_stock: bool,
    /// Transactions acknowledged in the directory, where its last round is over.
    acknowledged: u64,
    wrong: Option<String>,
    hang: Option<String>,
    abort: Option<String>,
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let rounds = options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS });
    let failed = |source| Error::Directory { path: options.directory.clone(), source };
    let scratch = tempfile::tempdir_in(&options.directory).map_err(failed)?;
    let mut figures = Figures::new();
    for name in ["rounds", "at_opening", "by_stock", "acknowledged", "wrong", "hangs", "aborts"] {
        figures.set(name, 0.0);
    }
    figures.set("seed", options.seed as f64);
    progress.begin("rounds", rounds);
    let live = |batch: &Batch<'_, (u64, Round)>| {
        // Seeds of lives lie apart, so that another life of the same run is another seed's first.
        live(scratch.path(), options.seed.wrapping_add(batch.first), batch)
    };
    in_batches(rounds, LIFE, live, &mut |(seed, round)| {
        note(&mut figures, seed, &round);
        progress.advance(1)
    })?;
    Ok(figures)
}

fn note(figures: &mut Figures, seed: u64, round: &Round) {
    let mut add = |name: &str, number: u64| {
        let sum = figures.get(name).unwrap_or_default() + number as f64;
        figures.set(name, sum);
    };
    add("rounds", 1);
    add("at_opening", round.at_opening.into());
    add("by_stock", round.by_stock.into());
    add("acknowledged", round.acknowledged);
    for (name, what) in [("wrong", &round.wrong), ("hangs", &round.hang), ("aborts", &round.abort)] {
        add(name, what.is_some().into());
    }
    for what in [&round.wrong, &round.hang, &round.abort].into_iter().flatten() {
        if figures.alarms().len() < DESCRIBED {
            figures.alarm(format!("{what}; the same directory again: --seed {seed} --rounds {LIFE}"));
        }
    }
}

/// The rounds of one directory; after a wrong one it is over.
fn live(scratch: &Path, seed: u64, batch: &Batch<'_, (u64, Round)>) -> Result<()> {
    let directory = scratch.join(format!("life-{seed}"));
    let failed = |source| Error::Directory { path: directory.clone(), source };
    std::fs::create_dir(&directory).map_err(failed)?;
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..batch.many {
        let is_last = number + 1 == batch.many;
        let round = round(&directory, seed.wrapping_add(number), seed, is_last, &mut random)?;
        let over = round.wrong.is_some() || round.hang.is_some() || round.abort.is_some();
        if !batch.tell((seed, round)) || over {
            break;
        }
    }
    std::fs::remove_dir_all(&directory).map_err(failed)
}

fn round(
    directory: &Path,
    seed: u64,
    directory_seed: u64,
    is_last: bool,
    random: &mut fastrand::Rng,
) -> Result<Round> {
    let mut round = Round::default();
    let plan = Plan::new(seed, directory_seed).map_err(Error::Wrong)?;
    let said = directory.join(SAID);
    let failed = |path: PathBuf| move |source| Error::Directory { path, source };
    std::fs::write(&said, "").map_err(failed(said.clone()))?;
    let program = PathBuf::from("the running program");
    let complaints = directory.join("complaints");
    let errors = std::fs::File::create(&complaints).map_err(failed(complaints.clone()))?;
    let mut command = harness::child::command(CHILD).map_err(failed(program.clone()))?;
    command.arg(directory).args([seed.to_string(), directory_seed.to_string()]).stderr(errors);
    let mut process = command.spawn().map_err(failed(program.clone()))?;
    let ready = || std::fs::read_to_string(&said).unwrap_or_default().contains(SOUND);
    if is_last || random.u8(..3) > 0 {
        let begun = Instant::now();
        while !ready() && begun.elapsed() < PATIENCE {
            if process.try_wait().map_err(failed(program.clone()))?.is_some() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if begun.elapsed() >= PATIENCE {
            round.hang = Some("a process does not get ready".to_owned());
        }
        std::thread::sleep(Duration::from_micros(random.u64(..WORKS_US)));
    } else {
        std::thread::sleep(Duration::from_micros(random.u64(..OPENS_US)));
    }
    let ended = process.try_wait().map_err(failed(program.clone()))?;
    process.kill().map_err(failed(program.clone()))?;
    process.wait().map_err(failed(program))?;
    round.at_opening = !ready();
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let complaints = std::fs::read_to_string(&complaints).unwrap_or_default();
    let wrong = text.lines().find(|line| line.starts_with("wrong"));
    round.wrong = wrong.map(|line| format!("{line} {}", complaints.trim()));
    if let Some(status) = ended.filter(|status| !status.success() && round.wrong.is_none()) {
        round.abort = Some(format!("{status}: {}", complaints.trim()));
    }
    // Statements are not to be replayed once stock SQLite has checkpointed; deltas wait for litefoot meanwhile.
    let stock = plan.form != "statements";
    if round.wrong.is_none() && directory.join(DATABASE).exists() && stock && (is_last || random.u8(..5) == 0)
    {
        round.by_stock = true;
        round.wrong = look(directory).err().map(|what| format!("stock SQLite: {what}"));
    }
    if is_last {
        let bytes = std::fs::read(directory.join(child::ACKNOWLEDGED)).unwrap_or_default();
        round.acknowledged = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).sum();
    }
    Ok(round)
}

/// Stock SQLite opens it, recovers, and looks.
fn look(directory: &Path) -> std::result::Result<i64, String> {
    // While a commit log waits, stock SQLite reads the last checkpoint.
    let newest = !directory.join(format!("{DATABASE}-commits")).exists();
    let db = open_stock(&directory.join(DATABASE)).map_err(|error| error.to_string())?;
    verify(&db, directory, newest)
}
