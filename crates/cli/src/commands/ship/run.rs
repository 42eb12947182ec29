//! `litefoot ship run`: the service.

use super::door::Beside;
use super::explain;
use litefoot_ship::jobs::{Job, Jobs};
use litefoot_ship::service::{self, Host};
use litefoot_ship::sink::Sink;
use litefoot_ship::source::Door;
use litefoot_ship::{Result as ShipResult, destination};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use std::path::PathBuf;
use std::process::ExitCode;

/// Send what changes, until somebody asks for the end.
///
/// SIGTERM and Ctrl-C end it in good order, with a last look at each database. A kill at any point loses nothing and doubles nothing. What goes
/// wrong is a line on standard error; `litefoot ship status` has it as well.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot ship run
  litefoot ship run --once                        one look at each database, for cron

Exit codes: 0 it was asked to end, or everything is sent; 1 a job has stopped, and said why.")]
pub struct Args {
    /// Look at each database once, send what changed, and end
    #[arg(long)]
    once: bool,
}

pub(super) struct Service {
    scratch: PathBuf,
}

impl Service {
    pub(super) fn of(jobs: &Jobs) -> Service {
        Service { scratch: jobs.directory().to_owned() }
    }
}

impl Host for Service {
    fn door(&self, job: &Job) -> Box<dyn Door> {
        Box::new(Beside(job.database.clone()))
    }

    fn sink(&self, job: &Job) -> ShipResult<Box<dyn Sink>> {
        destination::sink(job, &self.scratch)
    }

    fn say(&self, job: &Job, what: &str) {
        Failure::new(format!("{}: {what}", job.name)).print();
    }

    fn minute_of_day(&self) -> u16 {
        // SAFETY: a time of all zeros is one; both calls write within their arguments.
        let now = unsafe {
            let mut now: libc::tm = std::mem::zeroed();
            let seconds = libc::time(std::ptr::null_mut());
            libc::localtime_r(&raw const seconds, &raw mut now);
            now
        };
        u16::try_from(now.tm_hour * 60 + now.tm_min).unwrap_or(0)
    }

    fn is_over(&self) -> bool {
        interrupt::check().is_err()
    }
}

/// Runs the service.
pub fn run(args: &Args, jobs: &Jobs) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    match service::run(jobs, &Service::of(jobs), args.once) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(explain(error)),
    }
}
