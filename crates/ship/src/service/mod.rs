//! The service: looks at each database at its interval, and delivers what changed.
//!
//! A thread for each job, so that one destination that is away keeps no other waiting. What went wrong is told once, and again when it changes; the
//! status has it all the time.

mod pause;
pub mod status;
mod window;
mod worker;

pub use pause::{Next, next};
pub use status::Status;
pub use window::Window;
pub use worker::Worker;

use crate::jobs::{Job, Jobs};
use crate::sink::Sink;
use crate::source::Door;
use crate::{Error, Result};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How soon a request to stop is heard.
const HEARING: Duration = Duration::from_millis(100);
/// The time between two looks at the clock, outside of a job's window.
const CLOCK: Duration = Duration::from_secs(5);
/// The time between two questions for the transactions of a history.
const LISTENING: Duration = Duration::from_secs(1);

/// What the service needs of the program around it.
pub trait Host: Sync {
    /// The way into a database.
    fn door(&self, job: &Job) -> Box<dyn Door>;
    /// The destination of a job.
    fn sink(&self, job: &Job) -> Result<Box<dyn Sink>>;
    /// A line for people: what a job has to say.
    fn say(&self, job: &Job, what: &str);
    /// Minutes since midnight, by the clock of this machine.
    fn minute_of_day(&self) -> u16;
    /// True once somebody asked for the end.
    fn is_over(&self) -> bool;
}

/// The right to be the one service of a directory, until it is dropped.
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes it.
    pub fn take(jobs: &Jobs) -> Result<Lock> {
        jobs.make_directory()?;
        let path = jobs.directory().join("ship.lock");
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|error| Error::local(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(std::fs::TryLockError::WouldBlock) => Err(Error::local(
                jobs.directory(),
                "a service runs for this directory already; `litefoot ship status` asks it",
            )),
            Err(std::fs::TryLockError::Error(error)) => Err(Error::local(&path, error)),
        }
    }
}

/// Runs all jobs until somebody asks for the end, or, with `once`, until each has delivered what there is.
///
/// Answers the first failure that ended a job.
pub fn run(jobs: &Jobs, host: &dyn Host, once: bool) -> Result<()> {
    let _lock = Lock::take(jobs)?;
    let all = jobs.load()?;
    if all.is_empty() {
        return Err(Error::local(
            jobs.directory(),
            "there is no job; `litefoot ship add app.db URL` makes one",
        ));
    }
    let statuses: Vec<Arc<Mutex<Status>>> =
        all.iter().map(|job| Arc::new(Mutex::new(Status::new(job)))).collect();
    let answering = status::Answering::start(jobs, &statuses)?;
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter()
            .zip(&statuses)
            .map(|(job, status)| scope.spawn(move || run_job(jobs, job, host, status, once)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::local(jobs.directory(), "a job has panicked")))
        });
        ended.fold(Ok(()), Result::and)
    });
    drop(answering);
    outcome
}

/// Runs one job.
fn run_job(jobs: &Jobs, job: &Job, host: &dyn Host, status: &Mutex<Status>, once: bool) -> Result<()> {
    let sink = host.sink(job).inspect_err(|error| {
        host.say(job, &error.to_string());
        locked(status).stop(error);
    })?;
    let mut worker = Worker::new(jobs, job, host.door(job), sink);
    let (mut failures, mut said, mut current) = (0, String::new(), Instant::now());
    let ended = loop {
        if !once && !job.is_due(host.minute_of_day(), current.elapsed()) {
            locked(status).wait_for_window();
            if wait(host, &mut worker, CLOCK) {
                continue;
            }
            break Ok(());
        }
        let outcome = worker.tick(!once);
        let failed = outcome.as_ref().err();
        failures = if failed.is_some() { failures + 1 } else { 0 };
        if failed.is_none() && !worker.has_next() {
            current = Instant::now();
        }
        let next = match next(job.interval(), failed, failures) {
            Next::After(_) if failed.is_none() && worker.has_next() => Next::After(Duration::ZERO),
            next => next,
        };
        locked(status).note(&worker, &outcome, next);
        let parked = worker.parked().iter().map(ToString::to_string);
        let now = failed.map_or_else(|| parked.collect::<Vec<_>>().join("; "), ToString::to_string);
        if now != said {
            host.say(job, if now.is_empty() { "goes on" } else { &now });
            said = now;
        }
        match (next, outcome) {
            (Next::Stop, Err(error)) => break Err(error),
            (_, outcome) if once => break outcome.map(|_| ()),
            (Next::After(pause), _) if wait(host, &mut worker, pause) => {}
            _ => break Ok(()),
        }
    };
    let is_due = job.is_due(host.minute_of_day(), current.elapsed());
    if ended.is_ok() && failures == 0 && !once && is_due {
        // The last changes of an application that ends at the same time.
        loop {
            let outcome = worker.tick(false);
            locked(status).note(&worker, &outcome, Next::Stop);
            if outcome.is_err() || !worker.has_next() {
                break;
            }
        }
    }
    worker.save()?;
    ended
}

/// Waits; `false` once somebody asked for the end. An owner keeps little of a history, so it is heard meanwhile.
fn wait(host: &dyn Host, worker: &mut Worker, pause: Duration) -> bool {
    let began = Instant::now();
    let mut heard = began;
    loop {
        let left = pause.saturating_sub(began.elapsed());
        if host.is_over() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        if heard.elapsed() >= LISTENING {
            worker.listen();
            heard = Instant::now();
        }
        std::thread::sleep(left.min(HEARING));
    }
}

fn locked(status: &Mutex<Status>) -> std::sync::MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
