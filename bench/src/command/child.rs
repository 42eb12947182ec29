//! An experiment in a process of its own.
//!
//! Experiments that tell how much memory something needs compare it with what their process had before: they must not
//! find what another has given back. The child is this program, and is told what a person would type.
//!
//! # Invariant
//! The child sees a signal once: it is in a process group of its own, and the parent passes the first one on. A second one
//! would end it with its temporary directory left behind.

use super::report::{Job, read};
use litefoot_bench::Error;
use litefoot_bench::experiments::Experiment;
use litefoot_bench::options::Options;
use litefoot_bench::report::Report;
use litefoot_terminal::interrupt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often the parent looks.
const STEP: Duration = Duration::from_millis(50);

impl Job for (&Experiment, &Options) {
    fn name(&self) -> &str {
        self.0.name
    }

    fn run(&self, place: &str) -> litefoot_bench::Result<Report> {
        let (experiment, options) = self;
        let directory = |source| Error::Directory { path: std::env::temp_dir(), source };
        let scratch = tempfile::tempdir().map_err(directory)?;
        let json = scratch.path().join("report.json");
        let failed = |error: std::io::Error| Error::Wrong(format!("cannot be started: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args([experiment.name, "--place", place, "--seed", &options.seed.to_string()]);
        command.arg("--dir").arg(&options.directory).arg("--json").arg(&json);
        if options.quick {
            command.arg("--quick");
        }
        // The child shows its failures and its bars itself.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let status = wait(&mut command.spawn().map_err(failed)?)?;
        if interrupt::check().is_err() {
            return Err(Error::Stopped);
        }
        match read(&json) {
            Ok(mut report) => {
                if !status.success() {
                    report.figures.alarm(format!("{}: something is wrong ({status})", experiment.name));
                }
                Ok(report)
            }
            Err(_) => Err(Error::Ended(status.to_string())),
        }
    }
}

/// Waits for the child, and passes a signal on.
fn wait(child: &mut Child) -> litefoot_bench::Result<ExitStatus> {
    let mut told = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => std::thread::sleep(STEP),
            Err(error) => return Err(Error::Ended(error.to_string())),
        }
        if !told && interrupt::check().is_err() {
            told = true;
            if let Ok(id) = i32::try_from(child.id()) {
                // SAFETY: a plain system call; the child has not been waited for, so the number is still its own.
                unsafe { libc::kill(id, libc::SIGINT) };
            }
        }
    }
}
