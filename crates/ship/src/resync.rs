//! All rows of a database once more, whatever its destination has.
//!
//! # Why
//! A destination takes a source's batches in order, and refuses those that somebody else may have made: by a copy of the device, or behind a restored
//! database. Which of them is right only people know. The right one begins a new epoch.
//!
//! # Invariants
//! 1. The epoch is on disk before anything is sent. A kill at any point leaves the new epoch to the service, whose first batch has all rows too.
//! 2. It is larger than the one of the destination: whoever has delivered until now is refused from then on.

use crate::jobs::{Job, Jobs};
use crate::service::{Host, Lock, Worker};
use crate::sink::Delivered;
use crate::{Error, Result, destination};
use litefoot_rowsink::Parked;
use litefoot_rowsink::lines::Format;

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resynced {
    /// The new epoch.
    pub epoch: u64,
    /// The batch of all rows.
    pub delivered: Delivered,
    /// Tables that the destination does not take, and why.
    pub parked: Vec<Parked>,
}

/// Sends all rows of a job anew. No service may run meanwhile.
///
/// # Errors
/// There is no such job, it is one of a backup, a service runs, or the destination does not answer. Where nothing was sent, the service does it.
pub fn resync(jobs: &Jobs, name: &str, host: &dyn Host) -> Result<Resynced> {
    let job = jobs.of_name(name)?;
    let Some(mut place) = destination::rows(&job.url, job.credentials.as_deref(), Format::default())? else {
        return Err(Error::Refused {
            place: job.url,
            why: "a backup has no rows that could be sent anew; to begin another one, remove the job, and add it with another URL".into(),
        });
    };
    let _lock = Lock::take(jobs)?;
    let of_place = place.position(&job.origin())?.map_or(0, |at| at.epoch);
    drop(place);
    let job = Job { epoch: job.epoch.max(of_place) + 1, ..job };
    jobs.replace(job.clone())?;
    let mut worker = Worker::new(jobs, &job, host.door(&job), host.sink(&job)?);
    let delivered = worker.tick(false)?.unwrap_or_default();
    worker.save()?;
    Ok(Resynced { epoch: job.epoch, delivered, parked: worker.parked().to_vec() })
}
