//! `litefoot bench --all --report DIR`: every experiment, and the page of all; `--from`: the page alone.
//!
//! # What is in the directory
//! `NAME.json` of each experiment that is done, and `report.html`. Both are written whenever an experiment is done, and
//! each is replaced as a whole. An interrupt, a crash or a full disk costs the experiment that runs, no more.
//!
//! Each experiment runs in a process of its own (`child`): what one leaves in memory would be missing from what another
//! says it needs. An experiment that fails does not keep the others from running; the page says which and why, and the exit code is 1.

use super::watch::Schedule;
use super::whole::WholeFile;
use litefoot_bench::Error;
use litefoot_bench::page::{Contents, GENERATOR};
use litefoot_bench::report::Report;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::output::Output;
use litefoot_terminal::text::duration;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const PAGE: &str = "report.html";
const ADVICE: &str = "Make room, or name another directory: --report DIR";
/// No report of an experiment is longer; of a file that is, no more is read.
const LONGEST_JSON: u64 = 16 << 20;

/// The directory of a page.
struct Directory(PathBuf);

impl Directory {
    /// Makes sure, before minutes go by, that the page can be written and that nothing of others is in its place.
    fn open(path: &Path) -> Result<Directory, Failure> {
        std::fs::create_dir_all(path).map_err(|error| {
            Failure::file(path, format!("cannot be made: {error}"))
                .advice("Name a directory that you may write to: --report DIR")
        })?;
        let directory = Directory(path.to_owned());
        let page = directory.page();
        if let Ok(file) = std::fs::File::open(&page) {
            let mut begin = Vec::new();
            // A file that cannot be read has no mark in it, either.
            let _ = file.take(4096).read_to_end(&mut begin);
            if !String::from_utf8_lossy(&begin).contains(GENERATOR) {
                return Err(Failure::file(&page, "is there and was not written by litefoot bench")
                    .advice("Move it away, or name another directory: --report DIR"));
            }
        }
        WholeFile::create(&page, ADVICE)?;
        Ok(directory)
    }

    fn page(&self) -> PathBuf {
        self.0.join(PAGE)
    }

    fn write_page(&self, contents: &Contents<'_>) -> Result<(), Failure> {
        WholeFile::create(&self.page(), ADVICE)?.write(&contents.to_html())
    }

    fn write_json(&self, report: &Report) -> Result<(), Failure> {
        let path = self.0.join(format!("{}.json", report.experiment));
        let text = report.to_json().map_err(|error| Failure::new(error.to_string()))?;
        WholeFile::create(&path, ADVICE)?.write(&text)
    }
}

/// An experiment that is to run; a trait, so that a test has some of its own.
pub trait Job {
    fn name(&self) -> &str;
    /// Runs it, as so many of so many.
    fn run(&self, place: &str) -> litefoot_bench::Result<Report>;
}

/// Runs the jobs one after the other and writes their page.
pub fn all(path: &Path, jobs: &[&dyn Job], quick: bool, output: &mut Output) -> Result<ExitCode, Failure> {
    let directory = Directory::open(path)?;
    let mut schedule = Schedule::new(quick);
    let mut done: Vec<Report> = Vec::new();
    let mut failed: Vec<(String, String)> = Vec::new();
    let expected = schedule.left(jobs.iter().map(|job| job.name()));
    output.line(format!("{} experiments, about {}", jobs.len(), duration(expected.as_secs())))?;
    output.flush()?;
    for (index, job) in jobs.iter().enumerate() {
        let begun = Instant::now();
        let result = job.run(&format!("{}/{} {}", index + 1, jobs.len(), job.name()));
        schedule.took(job.name(), begun.elapsed());
        match result {
            Ok(report) => done.push(report),
            Err(Error::Stopped) => return Err(interrupted(&directory, &done, jobs.len())),
            Err(error) => failed.push((job.name().to_owned(), error.to_string())),
        }
        let mut missing = failed.clone();
        missing
            .extend(jobs[index + 1..].iter().map(|job| (job.name().to_owned(), "it was not run".to_owned())));
        let end = match done.last().filter(|report| report.experiment == job.name()) {
            Some(report) => {
                directory.write_json(report).map_err(|failure| failure.within(job.name()))?;
                directory.write_page(&Contents { reports: &done, missing: &missing })?;
                "done"
            }
            None => "failed",
        };
        let rest = &jobs[index + 1..];
        let left = duration(schedule.left(rest.iter().map(|job| job.name())).as_secs().max(1));
        let then = match rest.len() {
            0 => String::new(),
            many => format!("; about {left} for the other {many}"),
        };
        output.line(format!("{:8}  {end} in {}{then}", job.name(), duration(begun.elapsed().as_secs())))?;
        output.flush()?;
    }
    if done.is_empty() {
        return Err(failures(&failed, &done));
    }
    // Without those that were still to run.
    directory.write_page(&Contents { reports: &done, missing: &failed })?;
    output.line(format!("{}", directory.page().display()))?;
    output.flush()?;
    if failed.is_empty() && done.iter().all(|report| report.figures.alarms().is_empty()) {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(failures(&failed, &done))
    }
}

/// All failures and alarms, one a line.
fn failures(failed: &[(String, String)], done: &[Report]) -> Failure {
    let alarms = done.iter().flat_map(|report| report.figures.alarms()).cloned();
    let lines: Vec<String> =
        failed.iter().map(|(name, why)| format!("{name}: {why}")).chain(alarms).collect();
    Failure::new(lines.join("\n"))
}

fn interrupted(directory: &Directory, done: &[Report], all: usize) -> Failure {
    let path = directory.0.display();
    let failure = interrupt::check().err().unwrap_or_else(|| Failure::new(""));
    if done.is_empty() {
        return failure.saying(format!("interrupted before the first of {all} experiments was done"));
    }
    let names: Vec<&str> = done.iter().map(|report| report.experiment.as_str()).collect();
    failure
        .saying(format!(
            "interrupted; {} has what is done, {} of {all}: {}",
            directory.page().display(),
            done.len(),
            names.join(", ")
        ))
        .advice(format!(
            "Add others by litefoot bench NAME --json {path}/NAME.json, \
             then litefoot bench --report {path} --from {path}/*.json"
        ))
}

/// The page of reports that were written before.
pub fn from(path: &Path, files: &[PathBuf], output: &mut Output) -> Result<ExitCode, Failure> {
    let mut reports: Vec<Report> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let report = read(file)?;
        if let Some(other) = reports.iter().position(|known| known.experiment == report.experiment) {
            let what = format!("is about {}, as {} is", report.experiment, files[other].display());
            return Err(Failure::file(&files[index], what).advice("Give one file for each experiment."));
        }
        reports.push(report);
    }
    let directory = Directory::open(path)?;
    directory.write_page(&Contents { reports: &reports, missing: &[] })?;
    output.line(format!("{}", directory.page().display()))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The report in a file.
pub fn read(path: &Path) -> Result<Report, Failure> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST_JSON).read_to_string(&mut text))
        .map_err(|error| Failure::file(path, format!("cannot be read: {error}")))?;
    Report::from_json(&text).map_err(|error| {
        Failure::file(path, format!("is no report of an experiment: {error}"))
            .advice("Name files that litefoot bench has written: --from FILE…")
    })
}

#[cfg(test)]
mod tests;
