//! What goes into one transaction: all that waits.
//!
//! While a transaction commits, the next batches arrive, and they are the next transaction. The more devices there are, the more share one sync.

use super::spool::Spool;
use super::wire::Answer;
use crate::postgres::Session;
use crate::postgres::apply::{self, apply};
use crate::postgres::group::{self, Outcome};
use crate::{Applied, Batch, Origin, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_postgres::Client;

/// Most batches, and bytes of them, in a transaction.
const MOST_BATCHES: usize = 512;
const MOST_BYTES: usize = 16 << 20;
/// Time for each part of a large batch.
const PART_TIME: Duration = Duration::from_secs(60);

/// What a connection wants.
pub(super) enum Work {
    Ask(Origin),
    /// A source, and the subject of the certificate of the device that delivers as it.
    Bind(Origin, Vec<u8>),
    Batch(Batch),
    Large(Spool),
}

/// Work that waits, what it takes of the budget, and where its answer goes.
pub(super) struct Job {
    pub work: Work,
    pub bytes: usize,
    pub budget: Option<OwnedSemaphorePermit>,
    pub answer: oneshot::Sender<Answer>,
}

/// A line for people.
pub(super) type Say = Arc<dyn Fn(&str) + Send + Sync>;

pub(super) struct Writer {
    pub session: Session,
    pub schema: String,
    pub queue: mpsc::Receiver<Job>,
    pub say: Say,
}

/// A batch of a group.
struct Member {
    batch: Batch,
    answer: oneshot::Sender<Answer>,
    _budget: Option<OwnedSemaphorePermit>,
}

impl Writer {
    /// Works until nobody can queue any more, and nothing waits.
    pub async fn run(mut self) {
        let mut held = None;
        loop {
            let job = match held.take() {
                Some(job) => job,
                None => match self.queue.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            match job.work {
                Work::Ask(origin) => {
                    let ask = async |client: &mut Client| Ok(apply::position(client, &origin).await?);
                    let found = self.session.converse(ask).await.map(Answer::At);
                    // A device that is gone asks again.
                    let _ = job.answer.send(found.unwrap_or_else(|error| failed(&error)));
                }
                Work::Bind(origin, subject) => {
                    let answer = self.bind(&origin, &subject).await;
                    let _ = job.answer.send(answer);
                }
                Work::Large(spool) => {
                    let answer = self.large(spool).await;
                    let _ = job.answer.send(answer);
                }
                Work::Batch(batch) => {
                    let first = Member { batch, answer: job.answer, _budget: job.budget };
                    let (group, next) = self.group(first, job.bytes);
                    held = next;
                    self.take(group).await;
                }
            }
        }
    }

    /// All batches that wait, up to one that cannot be in this transaction.
    fn group(&mut self, first: Member, mut bytes: usize) -> (Vec<Member>, Option<Job>) {
        let mut sources = HashSet::from([first.batch.origin.source]);
        let mut group = vec![first];
        while group.len() < MOST_BATCHES && bytes < MOST_BYTES {
            match self.queue.try_recv() {
                Ok(Job { work: Work::Batch(batch), bytes: of, budget, answer })
                    if sources.insert(batch.origin.source) =>
                {
                    bytes += of;
                    group.push(Member { batch, answer, _budget: budget });
                }
                Ok(job) => return (group, Some(job)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    /// Takes a group in one transaction, and alone what cannot be in it.
    async fn take(&mut self, group: Vec<Member>) {
        let batches: Vec<&Batch> = group.iter().map(|member| &member.batch).collect();
        let schema = &self.schema;
        let talk = async |client: &mut Client| Ok(group::take(client, schema, &batches).await?);
        let outcome = self.session.converse(talk).await;
        let taken = match outcome {
            Ok(Outcome::Done(taken)) => taken,
            Ok(Outcome::Refused) => vec![None; group.len()],
            Err(error) => {
                for member in group {
                    let _ = member.answer.send(failed(&error));
                }
                return;
            }
        };
        for (member, taken) in group.into_iter().zip(taken) {
            let answer = match taken {
                Some(bytes) => Answer::Applied(Applied::Done { bytes, parked: Vec::new() }),
                None => {
                    let (schema, batch) = (&self.schema, &member.batch);
                    let talk =
                        async |client: &mut Client| apply(client, schema, batch, &mut || Ok(None)).await;
                    let outcome = self.session.converse(talk).await;
                    self.told(&member.batch, outcome)
                }
            };
            let _ = member.answer.send(answer);
        }
    }

    /// Lets a certificate deliver as a source that has none yet, and refuses another one's.
    async fn bind(&mut self, origin: &Origin, subject: &[u8]) -> Answer {
        let talk = async |client: &mut Client| Ok(apply::bind(client, origin, subject).await?);
        match self.session.converse(talk).await {
            Ok(true) => Answer::Welcome,
            Ok(false) => {
                let why = format!(
                    "source {} is that of a device with another certificate; its row of litefoot.source_certificate says so",
                    origin.source_text()
                );
                (self.say)(&format!("refused: {why}"));
                Answer::Failed { is_transient: false, why }
            }
            Err(error) => failed(&error),
        }
    }

    /// Takes a batch of several parts.
    async fn large(&mut self, mut spool: Spool) -> Answer {
        let time = PART_TIME * spool.parts().max(1);
        let (batch, mut pieces) = match spool.open() {
            Ok(opened) => opened,
            Err(why) => return Answer::Failed { is_transient: false, why },
        };
        let schema = &self.schema;
        let talk = async |client: &mut Client| apply(client, schema, &batch, &mut || pieces.next()).await;
        let outcome = self.session.converse_within(time, talk).await;
        self.told(&batch, outcome)
    }

    /// The answer for a batch; what somebody has to look at is said here as well.
    fn told(&self, batch: &Batch, outcome: Result<Applied>) -> Answer {
        let source = batch.origin.source_text();
        match outcome {
            Ok(applied) => {
                match &applied {
                    Applied::NotNext(Some(at)) if *at != batch.position() => (self.say)(&format!(
                        "source {source}: refused batch {} of epoch {}, and batch {} of epoch {} was taken last: a copy of the device \
                         delivers as the same source, or one of the two was restored",
                        batch.sequence, batch.origin.epoch, at.sequence, at.epoch
                    )),
                    Applied::Done { parked, .. } => {
                        for parked in parked {
                            (self.say)(&format!("source {source}: {parked}"));
                        }
                    }
                    Applied::NotNext(_) => {}
                }
                Answer::Applied(applied)
            }
            Err(error) => {
                if !error.is_transient() {
                    (self.say)(&format!("source {source}: batch {} is refused: {error}", batch.sequence));
                }
                failed(&error)
            }
        }
    }
}

fn failed(error: &crate::Error) -> Answer {
    Answer::Failed { is_transient: error.is_transient(), why: error.to_string() }
}
