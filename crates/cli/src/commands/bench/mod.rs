//! `litefoot bench`: the experiments, with a progress bar, a table and a file for scripts.
//!
//! What is measured, and how, is the lab's; `table` turns its figures into rows and columns.

mod table;

use crate::failure::Failure;
use crate::interrupt::{self, Idle};
use crate::output::{Output, left, table as aligned};
use crate::progress::Bar;
use litefoot_lab::Error;
use litefoot_lab::experiments::{self, Experiment, Flag, Journals, Options};
use litefoot_lab::harness::Progress;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

/// Run an experiment; without a name, list them.
///
/// The sides of an experiment take turns in one run, at least five rounds; figures are medians of the rounds.
/// Everything happens in a temporary directory that is removed at the end.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot bench                                  the experiments
  litefoot bench commit                           what a small durable transaction costs here
  litefoot bench commit --quick                   roughly, in less than 45 seconds
  litefoot bench commit --dir /media/sdcard       on another device
  litefoot bench commit --json commit.json        for scripts
  litefoot bench crash --cuts 1000000 --seed 7    power cuts, on a simulated medium")]
pub struct Args {
    /// The experiment
    experiment: Option<String>,

    /// The short form, in less than 45 seconds
    #[arg(long)]
    quick: bool,

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

    /// Which journals, where the experiment has a choice
    #[arg(long, value_name = "FAMILY")]
    journal: Option<Family>,

    /// With hot chunks on a second device, where the experiment has a choice
    #[arg(long)]
    tier: bool,
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
    let mut output = Output::new();
    let Some(name) = &args.experiment else {
        output.text(list())?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let experiment = experiments::find(name).ok_or_else(|| unknown(name))?;
    let options = options(experiment, &args)?;
    interrupt::listen(Idle::Ask);
    // First, so that an experiment of minutes does not end with a file that cannot be written.
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let report = experiment.run(&options, &mut Watcher::default()).map_err(|error| explain(&error))?;
    output.line(format!("{}: {}", experiment.name, experiment.description))?;
    output.line(format!("{}\n", report.environment.summary()))?;
    output.text(table::of(&report.figures))?;
    if report.environment.build != "release" {
        output.line("\nThis is a debug build: its times mean nothing.")?;
    }
    output.flush()?;
    if let Some(json) = json {
        json.write(&report.to_json().map_err(|error| explain(&error))?)?;
    }
    match report.figures.alarms() {
        [] => Ok(ExitCode::SUCCESS),
        alarms => Err(Failure::new(alarms.join("\n"))),
    }
}

fn list() -> String {
    let rows: Vec<_> =
        experiments::ALL.iter().map(|known| vec![left(known.name), left(known.description)]).collect();
    format!("{}\nRun one: litefoot bench NAME\n", aligned(&[left("experiment"), left("measures")], &rows))
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
    ] {
        if given && !experiment.flags.contains(&flag) {
            let what = format!("{name} means nothing to the experiment {}", experiment.name);
            return Err(Failure::new(what).advice(format!("Leave {name} out.")).code(2));
        }
    }
    Ok(Options {
        quick: args.quick,
        seed: args.seed,
        directory: args.dir.clone(),
        cuts: args.cuts,
        journals: args.journal.map(Journals::from).unwrap_or_default(),
        tier: args.tier,
    })
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

/// A bar for each stage; stops the experiment on Ctrl-C.
#[derive(Default)]
struct Watcher {
    bar: Option<Bar>,
    done: u64,
}

impl Progress for Watcher {
    fn begin(&mut self, stage: &str, total: u64) {
        // The last bar goes before the next one comes.
        self.bar = None;
        self.bar = Some(Bar::new(stage, total));
        self.done = 0;
    }

    fn advance(&mut self, steps: u64) -> litefoot_lab::Result<()> {
        self.done += steps;
        if let Some(bar) = &self.bar {
            bar.at(self.done);
        }
        interrupt::check().map_err(|_| Error::Stopped)
    }
}

/// A file that is either whole or not there: it gets its name when everything is in it.
struct JsonFile<'a> {
    path: &'a Path,
    file: NamedTempFile,
}

impl JsonFile<'_> {
    fn create(path: &Path) -> Result<JsonFile<'_>, Failure> {
        use std::os::unix::fs::PermissionsExt;
        let directory = litefoot_engine::device::parent_directory(path);
        if path.is_dir() {
            return Err(Failure::file(path, "is a directory").advice("Name a file: --json FILE"));
        }
        tempfile::Builder::new()
            .prefix(".litefoot-")
            .permissions(std::fs::Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map(|file| JsonFile { path, file })
            .map_err(|error| JsonFile::failure(path, &error))
    }

    fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.as_file().sync_all());
        let path = self.path;
        written
            .and_then(|()| self.file.persist(path).map(drop).map_err(|error| error.error))
            .map_err(|error| JsonFile::failure(path, &error))
    }

    fn failure(path: &Path, error: &std::io::Error) -> Failure {
        Failure::file(path, format!("cannot be written: {error}"))
            .advice("Name a file in a directory that you may write to: --json FILE")
    }
}
