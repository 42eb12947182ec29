//! The status of the jobs: told by a running service over a socket in its directory, so that no tick writes a file.

use super::{Next, Worker};
use crate::jobs::{Job, Jobs};
use crate::sink::Delivered;
use crate::time::now_ms;
use crate::{Error, Result};
use litefoot_rowsink::Parked;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a job does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No service runs.
    Down,
    /// It has not looked yet.
    Starting,
    /// The destination has everything.
    Current,
    /// It waits for its window.
    Waiting,
    /// The destination, or the database, is away: it tries again.
    Retrying,
    /// Somebody has to do something.
    Parked,
    /// It has ended.
    Stopped,
}

/// The status of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The job.
    pub job: String,
    /// Its database.
    pub database: PathBuf,
    /// Its destination.
    pub url: String,
    /// What it does.
    pub state: State,
    /// The number of the last delivery.
    pub sequence: u64,
    /// Deliveries since the service began.
    pub deliveries: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// Requests that they took.
    pub requests: u64,
    /// Failures since the service began.
    pub failures: u64,
    /// The time of the last look that found the destination current, in milliseconds since 1970.
    pub current_at_ms: Option<u64>,
    /// Milliseconds since then, where something waits.
    pub lag_ms: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
    /// What went wrong at last.
    pub error: Option<String>,
    /// Tables that the destination does not take.
    #[serde(default)]
    pub parked: Vec<Parked>,
}

impl Status {
    /// That of a job that has not begun.
    pub fn new(job: &Job) -> Status {
        Status {
            job: job.name.clone(),
            database: job.database.clone(),
            url: job.url.clone(),
            state: State::Starting,
            sequence: 0,
            deliveries: 0,
            delivered_bytes: 0,
            requests: 0,
            failures: 0,
            current_at_ms: None,
            lag_ms: 0,
            database_bytes: 0,
            error: None,
            parked: Vec::new(),
        }
    }

    /// Notes a look.
    pub fn note(&mut self, worker: &Worker, outcome: &Result<Option<Delivered>>, next: Next) {
        self.sequence = worker.sequence();
        self.database_bytes = worker.database_bytes();
        self.parked = worker.parked().to_vec();
        match outcome {
            Ok(delivered) => {
                if let Some(delivered) = delivered {
                    self.deliveries += 1;
                    self.delivered_bytes += delivered.bytes;
                    self.requests += delivered.requests;
                }
                self.error = None;
                self.current_at_ms = Some(now_ms());
            }
            Err(error) => {
                self.failures += 1;
                self.error = Some(error.to_string());
            }
        }
        self.state = match (next, outcome) {
            (Next::Stop, _) => State::Stopped,
            (_, Ok(_)) if !self.parked.is_empty() => State::Parked,
            (_, Ok(_)) => State::Current,
            (_, Err(Error::Refused { .. } | Error::Damaged { .. })) => State::Parked,
            (_, Err(_)) => State::Retrying,
        };
    }

    /// True if the destination has everything, as of the last look. A job that waits for its window looks at nothing.
    pub fn is_current(&self) -> bool {
        match self.state {
            State::Current => true,
            State::Waiting => self.error.is_none() && self.parked.is_empty(),
            _ => false,
        }
    }

    /// Notes that it waits for its window. What went wrong before stays.
    pub fn wait_for_window(&mut self) {
        self.state = State::Waiting;
    }

    /// Notes that it cannot begin.
    pub fn stop(&mut self, error: &Error) {
        self.failures += 1;
        self.error = Some(error.to_string());
        self.state = State::Stopped;
    }

    /// The same, as it is told now.
    fn told(&self) -> Status {
        let waits = self.error.is_some();
        let since = self.current_at_ms.filter(|_| waits);
        Status { lag_ms: since.map_or(0, |since| now_ms().saturating_sub(since)), ..self.clone() }
    }
}

/// A service that answers, until this is dropped.
pub struct Answering {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Begins to answer. The caller is the one service of the directory, so a socket that is there is a dead one's.
    pub fn start(jobs: &Jobs, statuses: &[Arc<Mutex<Status>>]) -> Result<Answering> {
        let path = socket(jobs);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(|error| Error::local(&path, error))?;
        let over = Arc::new(AtomicBool::new(false));
        let (ends, statuses) = (over.clone(), statuses.to_vec());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let all: Vec<Status> = statuses
                    .iter()
                    .map(|status| status.lock().unwrap_or_else(PoisonError::into_inner).told())
                    .collect();
                // Somebody who asks and does not listen is not worth a message.
                let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                let _ = serde_json::to_vec(&all).map(|bytes| stream.write_all(&bytes));
            }
        });
        Ok(Answering { path, over, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // A last caller, so that it looks at the flag.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn socket(jobs: &Jobs) -> PathBuf {
    jobs.directory().join("ship.sock")
}

/// Asks a running service, and says `Down` of all jobs where none runs.
pub fn ask(jobs: &Jobs) -> Result<Vec<Status>> {
    let Ok(mut stream) = UnixStream::connect(socket(jobs)) else {
        let down = |job: &Job| {
            let known = crate::source::state::load(&jobs.state(job)).ok().flatten();
            Status {
                state: State::Down,
                sequence: known.map_or(0, |known| known.sequence),
                ..Status::new(job)
            }
        };
        return Ok(jobs.load()?.iter().map(down).collect());
    };
    let mut answer = Vec::new();
    let asked = stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .and_then(|()| stream.read_to_end(&mut answer))
        .map_err(|error| Error::local(&socket(jobs), error));
    asked?;
    serde_json::from_slice(&answer).map_err(|error| Error::local(&socket(jobs), error))
}
