//! `litefoot bench`: the experiments, with a progress bar, a table and a file for scripts.
//!
//! The laboratory measures; `table` turns its figures into rows and columns, `report` runs all experiments and writes
//! their page.

mod child;
mod report;
mod table;
mod watch;
mod whole;

use clap::builder::PossibleValuesParser;
use litefoot_bench::Error;
use litefoot_bench::experiments::sweep::{MODE_NAMES, MOST_ROWS};
use litefoot_bench::experiments::{self, Experiment};
use litefoot_bench::options::{Flag, Journals, Options};
use litefoot_terminal::Failure;
use litefoot_terminal::installed;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{aligned, left};
use report::Job;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use watch::Watcher;
use whole::WholeFile;

const JSON_ADVICE: &str = "Name a file in a directory that you may write to: --json FILE";

/// Run an experiment; without a name, list them.
///
/// The sides of an experiment take turns in one run, at least five rounds; figures are medians of the rounds.
/// Everything happens in a temporary directory that is removed at the end.
#[derive(clap::Parser)]
#[command(
    name = "litefoot-bench",
    bin_name = "litefoot bench",
    version,
    after_help = "\
Examples:
  litefoot bench                                  the experiments
  litefoot bench commit                           what a small durable transaction costs here
  litefoot bench commit --quick                   roughly, in less than 45 seconds
  litefoot bench commit --dir /media/sdcard       on another device
  litefoot bench commit --json commit.json        for scripts
  litefoot bench sweep --modes wal_normal         transactions of 1 to 100,000 rows, beside stock SQLite
  litefoot bench crash --cuts 1000000 --seed 7    power cuts, on a simulated medium
  litefoot bench scan                             aggregates over 1 GB by all cores; --quick: over 64 MB
  litefoot bench apps --install                   applications' libraries, once they are there
  litefoot bench setups --install                 applications of several processes
  litefoot bench faults --quick                   calls to the system that fail, on a real program
  litefoot bench kill --rounds 10000              processes killed at work
  litefoot bench histories --count 10000          files that others read, write, copy, restore
  litefoot bench visitors --quick                 sqlite3 and backups beside a working application
  litefoot bench visitors --seconds 3600          an hour of them; --stock: SQLite in litefoot's place
  litefoot bench visitors --owner-kill            the application is killed at any moment
  litefoot bench visitors --kill-at-calls         at every call of a change of state, one after the other
  litefoot bench member-kills --kill-at-calls     at every call of joining, committing and leaving
  litefoot bench member-kills --kill-at-stores    at every store into memory of several processes as well
  litefoot bench visitors --case select --rounds 10000   visits of that kind alone
  litefoot bench visitors --case latency          what a visit adds, and what it leaves behind
  litefoot bench ship --case latency              lag of rows in PostgreSQL, and what the application feels
  litefoot bench ship-kills --rounds 10000        device, shipper, line and PostgreSQL killed
  litefoot bench ship-fleet --seconds 3600        a hundred devices with a bad line, for an hour
  litefoot bench random --sequences 1000          random statements, compared with SQLite
  litefoot bench peers                            other stores, too, once litefoot-peers is built
  litefoot bench --all --report out               everything, and a page of it: out/report.html
  litefoot bench --all --quick --report out       roughly, in less than five minutes
  litefoot bench --report out --from out/*.json   the page alone, from what was measured before"
)]
pub struct Args {
    /// The experiment
    experiment: Option<String>,

    /// The short form, in less than 45 seconds for each
    #[arg(long)]
    quick: bool,

    /// Every experiment that measures, one after the other
    #[arg(long, group = "page", requires = "report", conflicts_with_all = ["experiment", "json", "cuts", "journal", "tier", "visitors", "case", "patterns", "commits", "install", "rounds", "count", "sequences", "rows", "modes", "seconds", "stock", "tight", "owner_kill", "kill_at_calls", "kill_at_stores"])]
    all: bool,

    /// Write a page of all figures, DIR/report.html, and the JSON of each experiment
    #[arg(long, value_name = "DIR", requires = "page")]
    report: Option<PathBuf>,

    /// Run nothing: make the page from files that --json or --report has written
    #[arg(long, value_name = "FILE", num_args = 1.., group = "page", requires = "report",
          conflicts_with_all = ["experiment", "json", "quick", "dir", "seed", "cuts", "journal", "tier", "visitors", "case", "patterns", "commits", "install", "rounds", "count", "sequences", "rows", "modes", "seconds", "stock", "tight", "owner_kill", "kill_at_calls", "kill_at_stores"])]
    from: Vec<PathBuf>,

    /// Write the report to a file, as {"experiment", "environment", "figures"}
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A directory on the device to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// The seed of everything random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// How many power cuts, where the experiment makes some
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cuts: Option<u64>,

    /// The label in front of each progress bar
    #[arg(long, hide = true)]
    place: Option<String>,

    /// Seconds between two lines of progress, where standard error is no terminal
    #[arg(long, hide = true, default_value_t = 60)]
    lines_every: u64,

    /// Which journals, where the experiment has a choice
    #[arg(long, value_name = "FAMILY")]
    journal: Option<Family>,

    /// With hot chunks on a second device, where the experiment has a choice
    #[arg(long)]
    tier: bool,

    /// With stock SQLite coming to the database while the application has it open
    #[arg(long, conflicts_with = "tier")]
    visitors: bool,

    /// How many rounds, or how many processes are killed, where the experiment has a choice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,

    /// How many histories, where the experiment lives some
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// How many sequences of statements, where the experiment runs some
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sequences: Option<u64>,

    /// How long, where the experiment has a choice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// SQLite as it is in litefoot's place, where the experiment has a choice
    #[arg(long)]
    stock: bool,

    /// An application that makes no pauses, where the experiment has a choice
    #[arg(long)]
    tight: bool,

    /// Kill the application at random moments, where the experiment has a choice
    #[arg(long)]
    owner_kill: bool,

    /// Kill the application at every call of a change of state, where the experiment has a choice
    #[arg(long, conflicts_with_all = ["stock", "tight", "owner_kill", "case", "rounds", "seconds"])]
    kill_at_calls: bool,

    /// Kill a process at every store that others can see as well, where the experiment has a choice
    #[arg(long, conflicts_with_all = ["kill_at_calls", "seconds"])]
    kill_at_stores: bool,

    /// Only these, where the experiment has patterns of several applications
    #[arg(long, value_name = "NAME,NAME")]
    patterns: Option<String>,

    /// First fetch the libraries that the experiment needs, into ~/.cache/litefoot-bench
    #[arg(long)]
    install: bool,

    /// How many commits a run makes, where the experiment has a choice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commits: Option<u64>,

    /// Rows of a transaction, with commas between, where the experiment has a choice
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MOST_ROWS))]
    rows: Vec<u64>,

    /// Journal modes with their durability, with commas between, where the experiment has a choice
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = PossibleValuesParser::new(MODE_NAMES))]
    modes: Vec<String>,

    /// Only the cases whose names begin like this, where the experiment names some
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
}

/// A journal family on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Family {
    Wal,
    Rollback,
    Both,
}

impl From<Family> for Journals {
    fn from(family: Family) -> Journals {
        match family {
            Family::Wal => Journals::Wal,
            Family::Rollback => Journals::Rollback,
            Family::Both => Journals::Both,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut output = Output::lock();
    if let Some(directory) = &args.report {
        return page(directory, &args, &mut output);
    }
    let Some(name) = &args.experiment else {
        let numbers = [args.cuts, args.rounds, args.count, args.sequences, args.commits, args.seconds]
            .iter()
            .any(Option::is_some);
        let lists = !args.rows.is_empty() || !args.modes.is_empty() || args.patterns.is_some();
        let others = args.journal.is_some()
            || args.tier
            || args.visitors
            || args.install
            || args.case.is_some()
            || lists;
        let others = others || args.stock || args.tight || args.owner_kill;
        let others = others || args.kill_at_calls || args.kill_at_stores;
        if args.json.is_some() || args.quick || numbers || others {
            return Err(Failure::new("which experiment?")
                .advice("Name one: litefoot bench NAME; litefoot bench lists them.")
                .code(2));
        }
        output.text(list())?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let experiment = experiments::find(name).ok_or_else(|| unknown(name))?;
    let options = options(experiment, &args)?;
    interrupt::listen(Idle::Ask);
    // First, so that an experiment of minutes does not end with a file that cannot be written.
    let json = args.json.as_deref().map(|path| WholeFile::create(path, JSON_ADVICE)).transpose()?;
    let mut watcher = Watcher::new(args.place.clone(), Duration::from_secs(args.lines_every));
    let report = experiment.run(&options, &mut watcher).map_err(|error| explain(&error))?;
    drop(watcher);
    output.line(format!("{}: {}", experiment.name, experiment.description))?;
    output.line(format!("{}\n", report.environment.summary()))?;
    output.text(table::of(&report.figures))?;
    if !report.figures.notes().is_empty() {
        output.line(format!("\n{}", report.figures.notes().join("\n")))?;
    }
    if report.environment.build != "release" {
        output.line("\nThis is a debug build: its times mean nothing.")?;
    }
    output.flush()?;
    if report.figures.is_partial() {
        return Err(interrupted(report.figures.alarms(), args.json.as_deref()));
    }
    if let Some(json) = json {
        json.write(&report.to_json().map_err(|error| explain(&error))?)?;
    }
    match report.figures.alarms() {
        [] => Ok(ExitCode::SUCCESS),
        alarms => Err(Failure::new(alarms.join("\n"))),
    }
}

/// All experiments, or none, and the page.
fn page(directory: &Path, args: &Args, output: &mut Output) -> Result<ExitCode, Failure> {
    if !args.all {
        return report::from(directory, &args.from, output);
    }
    interrupt::listen(Idle::Ask);
    let options = plain_options(args);
    let mut jobs: Vec<(&Experiment, &Options)> = Vec::new();
    for known in experiments::ALL.iter().filter(|known| known.measures) {
        match known.prepared() {
            Ok(()) => jobs.push((known, &options)),
            Err(why) => output.line(format!("without {}: {why}", known.name))?,
        }
    }
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    report::all(directory, &jobs, args.quick, output)
}

fn list() -> String {
    let rows: Vec<_> =
        experiments::ALL.iter().map(|known| vec![left(known.name), left(known.description)]).collect();
    format!(
        "{}\nRun one: litefoot bench NAME; all: litefoot bench --all --report DIR\n",
        aligned(&[left("experiment"), left("measures")], &rows)
    )
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = experiments::ALL.iter().map(|known| known.name).collect();
    Failure::new(format!("there is no experiment {name:?}"))
        .advice(format!("There is: {}.", known.join(", ")))
        .code(2)
}

fn options(experiment: &Experiment, args: &Args) -> Result<Options, Failure> {
    for (given, flag, name) in [
        (args.cuts.is_some(), Flag::Cuts, "--cuts"),
        (args.journal.is_some(), Flag::Journal, "--journal"),
        (args.tier, Flag::Tier, "--tier"),
        (args.visitors, Flag::Visitors, "--visitors"),
        (args.case.is_some(), Flag::Case, "--case"),
        (args.patterns.is_some(), Flag::Patterns, "--patterns"),
        (args.commits.is_some(), Flag::Commits, "--commits"),
        (args.install, Flag::Install, "--install"),
        (args.rounds.is_some(), Flag::Rounds, "--rounds"),
        (args.count.is_some(), Flag::Count, "--count"),
        (args.sequences.is_some(), Flag::Sequences, "--sequences"),
        (args.seconds.is_some(), Flag::Seconds, "--seconds"),
        (args.stock, Flag::Stock, "--stock"),
        (args.tight, Flag::Tight, "--tight"),
        (args.owner_kill, Flag::OwnerKill, "--owner-kill"),
        (args.kill_at_calls, Flag::KillAtCalls, "--kill-at-calls"),
        (args.kill_at_stores, Flag::KillAtStores, "--kill-at-stores"),
        (!args.rows.is_empty(), Flag::Rows, "--rows"),
        (!args.modes.is_empty(), Flag::Modes, "--modes"),
    ] {
        if given && !experiment.flags.contains(&flag) {
            let what = format!("{name} means nothing to the experiment {}", experiment.name);
            return Err(Failure::new(what).advice(format!("Leave {name} out.")).code(2));
        }
    }
    Ok(plain_options(args))
}

fn plain_options(args: &Args) -> Options {
    Options {
        quick: args.quick,
        seed: args.seed,
        directory: args.dir.clone(),
        cuts: args.cuts,
        journals: args.journal.map(Journals::from).unwrap_or_default(),
        tier: args.tier,
        visitors: args.visitors,
        rounds: args.rounds,
        count: args.count,
        sequences: args.sequences,
        rows: args.rows.clone(),
        modes: args.modes.clone(),
        case: args.case.clone(),
        patterns: args.patterns.clone(),
        commits: args.commits,
        install: args.install,
        seconds: args.seconds,
        stock: args.stock,
        tight: args.tight,
        owner_kill: args.owner_kill,
        kill_at_calls: args.kill_at_calls,
        kill_at_stores: args.kill_at_stores,
        library: installed::library().ok(),
    }
}

/// The end of an experiment that was stopped and has shown the figures of what it had done.
fn interrupted(alarms: &[String], json: Option<&Path>) -> Failure {
    let what = "interrupted; the figures are those of what was done until then".to_owned();
    let lines: Vec<String> = alarms.iter().cloned().chain([what]).collect();
    let failure = interrupt::check().err().unwrap_or_else(|| Failure::new("")).saying(lines.join("\n"));
    match json {
        Some(path) => failure.advice(format!("{} was not written.", path.display())),
        None => failure,
    }
}

fn explain(error: &Error) -> Failure {
    match (error, interrupt::check()) {
        (Error::Stopped, Err(interrupted)) => interrupted,
        (Error::Directory { path, source }, _) => {
            Failure::file(path, format!("cannot be worked in: {source}"))
                .advice("Name a directory that you may write to: --dir DIR")
        }
        _ => Failure::new(error.to_string()),
    }
}
