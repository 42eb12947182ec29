//! One device's connection: a greeting, and then frames that ask for an answer.

use super::Stream;
use super::part::{Label, Receiver, label};
use super::server::Shared;
use super::spool::Spool;
use super::wire::{self, ASK, Answer, Broken, HELLO, MOST_BYTES, MOST_HELLO, PART};
use super::writer::{Job, Work};
use crate::{Batch, Origin};
use futures_util::future::{Either, select};
use litefoot_rowdiff::{Change, Value};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

/// Time for a greeting.
const GREETING: Duration = Duration::from_secs(10);
/// A connection on which nothing is asked for so long ends. Devices know half of it.
const IDLE: Duration = Duration::from_secs(120);
/// Time without any progress in a frame.
const STALL: Duration = Duration::from_secs(30);
/// How often a device that waits hears that it is not forgotten.
const WORKING_EVERY: Duration = Duration::from_secs(1);
/// Payloads above this are read a few at a time.
const SMALL: usize = 64 << 10;
/// Time, and bytes, for a device to hear of the end before the line is cut.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: usize = 64 << 20;

/// The end of a connection.
enum End {
    /// In good order: nothing is said.
    Quiet,
    /// The device hears of it, and people do.
    Refused { is_transient: bool, why: String },
    /// The device hears of it: it is told by others as well, or it helps itself.
    Told(Answer),
    /// There is nobody to tell, but people.
    Lost(String),
}

impl From<Broken> for End {
    fn from(broken: Broken) -> End {
        match broken {
            Broken::Closed => End::Quiet,
            Broken::Lost(error) => End::Lost(format!("the line is lost: {error}")),
            other => End::Refused { is_transient: false, why: other.to_string() },
        }
    }
}

fn refused(why: impl Into<String>) -> End {
    End::Refused { is_transient: false, why: why.into() }
}

/// Serves a connection to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    mut stream: Box<dyn Stream>,
    peer: String,
    subject: Option<Vec<u8>>,
) {
    let mut connection = Connection {
        number: shared.next_number(),
        shared: shared.clone(),
        source: None,
        subject,
        replaced: Arc::default(),
        receiver: Receiver::default(),
        spool: None,
    };
    let end = connection.run(&mut stream).await;
    drop(connection);
    let answer = match end {
        End::Quiet => return,
        End::Lost(why) => return (shared.say)(&format!("{peer}: {why}")),
        End::Told(answer) => answer,
        End::Refused { is_transient, why } => {
            (shared.say)(&format!("{peer}: refused: {why}"));
            Answer::Failed { is_transient, why }
        }
    };
    let (kind, payload) = answer.to_frame();
    // Where nobody listens any more, nobody has to hear of it.
    if let Ok(Ok(())) = timeout(FAREWELL, wire::send(&mut stream, kind, &payload)).await {
        farewell(&mut stream).await;
    }
}

/// Ends a line on which something was said last. One that is cut while bytes are on their way loses that.
pub(super) async fn farewell(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let _ = timeout(FAREWELL, async {
        stream.shutdown().await?;
        let (mut buf, mut count) = (vec![0; 16 << 10], 0);
        while count < FAREWELL_BYTES {
            match stream.read(&mut buf).await? {
                0 => break,
                read => count += read,
            }
        }
        std::io::Result::Ok(())
    })
    .await;
}

struct Connection {
    number: u64,
    shared: Arc<Shared>,
    source: Option<[u8; 16]>,
    /// The subject of the device's certificate.
    subject: Option<Vec<u8>>,
    /// A newer connection of the source is there.
    replaced: Arc<Notify>,
    receiver: Receiver,
    spool: Option<(Spool, OwnedSemaphorePermit)>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(source) = self.source {
            self.shared.release(&source, self.number);
        }
    }
}

impl Connection {
    async fn run(&mut self, stream: &mut Box<dyn Stream>) -> End {
        if let Err(end) = self.greet(stream).await {
            return end;
        }
        loop {
            if let Err(end) = self.next(stream).await {
                return end;
            }
        }
    }

    async fn greet(&mut self, stream: &mut Box<dyn Stream>) -> Result<(), End> {
        let greeting = timeout(GREETING, async {
            let head = wire::head(stream, MOST_HELLO).await?;
            if head.kind != HELLO {
                return Err(refused("a greeting is expected first: the other side is no litefoot"));
            }
            Ok(wire::payload(stream, &head, GREETING).await?)
        });
        let greeting = self.unless_over(greeting).await?;
        let greeting = greeting.map_err(|_| End::Lost("no greeting came".to_owned()))??;
        let token = wire::token_of(&greeting).map_err(refused)?;
        // Without a token of its own the collector has seen a certificate.
        if let Some(own) = &self.shared.token {
            if token.is_empty() {
                return Err(refused("the collector wants a token (LITEFOOT_COLLECT_TOKEN) as well"));
            }
            if !bool::from(token.ct_eq(own.as_bytes())) {
                return Err(refused("the token is another one than the collector's"));
            }
        }
        answer(stream, &Answer::Welcome).await
    }

    /// Works, unless the collector ends, or a newer connection of the source comes.
    async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let over = async {
            let replaced = pin!(self.replaced.notified());
            matches!(select(replaced, pin!(self.shared.closed())).await, Either::Left(_))
        };
        match select(pin!(work), pin!(over)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((is_replaced, _)) => Err(End::Told(ending(is_replaced))),
        }
    }

    /// Takes a frame, and answers it.
    async fn next(&mut self, stream: &mut Box<dyn Stream>) -> Result<(), End> {
        let frame = self.unless_over(read(&self.shared, stream)).await?;
        let Some(Frame { kind, payload, large }) = frame? else { return Err(End::Quiet) };
        match kind {
            ASK => {
                let source = payload.as_slice().try_into().map_err(|_| refused("a source has 16 bytes"))?;
                self.claim(stream, source).await?;
                let work = Work::Ask(Origin { source, epoch: 0 });
                self.work(stream, work, 0, None).await
            }
            PART => self.part(stream, payload, large).await,
            kind => Err(refused(format!("a frame of kind {kind} is unknown: update the collector"))),
        }
    }

    async fn part(
        &mut self,
        stream: &mut Box<dyn Stream>,
        part: Vec<u8>,
        large: Option<OwnedSemaphorePermit>,
    ) -> Result<(), End> {
        let label = label(&part).map_err(refused)?;
        self.claim(stream, label.envelope.source).await?;
        if label.is_first() && label.is_last() {
            let decoding = self.shared.decoding.clone().acquire_owned().await.ok();
            let batch = label.batch(self.receiver.tables(&part).map_err(refused)?);
            let bytes = memory(&batch);
            let budget = self.shared.budget(bytes).await;
            drop((part, large, decoding));
            return self.work(stream, Work::Batch(batch), bytes, budget).await;
        }
        let (mut spool, permit) = match self.spool.take() {
            Some(spool) if !label.is_first() && spool.0.label().is_of_batch(&label) => spool,
            None if label.is_first() => self.spool(label)?,
            _ => return Err(refused("the parts of a batch come in another order")),
        };
        spool.push(&part).map_err(refused)?;
        drop((part, large));
        if label.is_last() {
            return self.work(stream, Work::Large(spool), 0, Some(permit)).await;
        }
        self.spool = Some((spool, permit));
        Ok(())
    }

    /// A place for a batch of several parts. Nobody waits for one: they hold what others need.
    fn spool(&self, label: Label) -> Result<(Spool, OwnedSemaphorePermit), End> {
        let busy = "the collector has many large batches in hand";
        let permit = self.shared.spools.clone().try_acquire_owned();
        let permit = permit.map_err(|_| End::Refused { is_transient: true, why: busy.to_owned() })?;
        let spool = Spool::new(label);
        Ok((spool.map_err(|error| refused(format!("the collector has no place: {error}")))?, permit))
    }

    /// This connection is the source's from now on. An older one ends, unless the source is another certificate's.
    async fn claim(&mut self, stream: &mut Box<dyn Stream>, source: [u8; 16]) -> Result<(), End> {
        match self.source {
            Some(own) if own == source => Ok(()),
            Some(_) => Err(refused("a connection is for one source")),
            None => {
                if let Some(subject) = self.subject.take() {
                    let place = self.place().await?;
                    let (job, receiver) = job(Work::Bind(Origin { source, epoch: 0 }, subject), 0, None);
                    place.send(job);
                    outcome(stream, receiver).await?;
                }
                self.source = Some(source);
                self.shared.claim(source, self.number, self.replaced.clone());
                Ok(())
            }
        }
    }

    /// Queues work, and waits for its answer.
    async fn work(
        &mut self,
        stream: &mut Box<dyn Stream>,
        work: Work,
        bytes: usize,
        budget: Option<OwnedSemaphorePermit>,
    ) -> Result<(), End> {
        let (job, receiver) = job(work, bytes, budget);
        let place = self.place().await?;
        let source = self.source.unwrap_or_default();
        if !self.shared.queue_if_newest(&source, self.number, place, job) {
            return Err(End::Told(ending(true)));
        }
        let found = outcome(stream, receiver).await?;
        answer(stream, &found).await
    }

    /// A place in the queue.
    async fn place(&self) -> Result<mpsc::Permit<'_, Job>, End> {
        self.shared.queue.reserve().await.map_err(|_| End::Told(ending(false)))
    }
}

fn job(work: Work, bytes: usize, budget: Option<OwnedSemaphorePermit>) -> (Job, oneshot::Receiver<Answer>) {
    let (answer, receiver) = oneshot::channel();
    (Job { work, bytes, budget, answer }, receiver)
}

/// Waits for what became of a job. Meanwhile the device hears that it is not forgotten.
async fn outcome(
    stream: &mut Box<dyn Stream>,
    mut receiver: oneshot::Receiver<Answer>,
) -> Result<Answer, End> {
    let found = loop {
        match timeout(WORKING_EVERY, &mut receiver).await {
            Ok(found) => break found.map_err(|_| End::Told(ending(false)))?,
            Err(_) => answer(stream, &Answer::Working).await?,
        }
    };
    if matches!(found, Answer::Failed { .. }) { Err(End::Told(found)) } else { Ok(found) }
}

/// A frame, and the right to have a large one.
struct Frame {
    kind: u8,
    payload: Vec<u8>,
    large: Option<OwnedSemaphorePermit>,
}

/// Waits for a frame; `None` where the connection has ended, or is not used.
async fn read(shared: &Shared, stream: &mut Box<dyn Stream>) -> Result<Option<Frame>, End> {
    let head = match timeout(IDLE, wire::head(stream, MOST_BYTES)).await {
        Err(_) | Ok(Err(Broken::Closed)) => return Ok(None),
        Ok(head) => head?,
    };
    let large = match head.length > SMALL {
        true => shared.large_frames.clone().acquire_owned().await.ok(),
        false => None,
    };
    let payload = wire::payload(stream, &head, STALL).await?;
    Ok(Some(Frame { kind: head.kind, payload, large }))
}

async fn answer(stream: &mut Box<dyn Stream>, answer: &Answer) -> Result<(), End> {
    let (kind, payload) = answer.to_frame();
    match timeout(STALL, wire::send(stream, kind, &payload)).await {
        Ok(sent) => sent.map_err(|error| Broken::Lost(error).into()),
        Err(_) => Err(End::Lost("nobody takes the answer".to_owned())),
    }
}

fn ending(is_replaced: bool) -> Answer {
    let why = match is_replaced {
        true => "another connection of the same source is open",
        false => "the collector ends",
    };
    Answer::Failed { is_transient: true, why: why.to_owned() }
}

/// Bytes of memory that a batch takes, about.
fn memory(batch: &Batch) -> usize {
    let value = |value: &Value| match value {
        Value::Text(bytes) | Value::Blob(bytes) => size_of::<Value>() + bytes.len() + 16,
        _ => size_of::<Value>(),
    };
    let change = |change: &Change| size_of::<Change>() + change.row().values.iter().map(value).sum::<usize>();
    batch.tables.iter().flat_map(|table| &table.changes).map(change).sum::<usize>() + (1 << 10)
}
