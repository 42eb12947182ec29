//! A stream of NATS JetStream: a message for each batch, on a subject for each source.
//!
//! ```text
//! subject   STREAM.<source>            such as litefoot.0f000000-0000-0000-0000-0000000000a1
//! payload   lines of JSON              as crate::lines has them; cut between lines where a message is too large for the server
//! headers   Litefoot-Batch: 1.7.00000000000000a1      epoch, number, token
//!           Litefoot-Part: 1/3
//!           Litefoot-Before: 1.6.00000000000000c4     the batch before, or "none"
//! ```
//! A reader has a batch when it has parts 1 to n of it, one behind the other. Part 1 begins anew, and parts without a last one are void: their shipper
//! died. `Litefoot-Before` is the batch that was whole before them.
//!
//! # Exactly once
//! Each message names the last one of its subject (`Nats-Expected-Last-Subject-Sequence`), and the server refuses it where another one came
//! since: one of another shipper, or an earlier attempt that came late. The last message says which batch has arrived.
//!
//! JetStream answers before a message is synced. A server that loses power may go back by some messages; the shipper hears of it at the next
//! batch, stops, and sends all rows at its next start. `sync_interval: always` or three replicas keep that from happening.
//!
//! | file | decides |
//! |---|---|
//! | `parts` | how a batch is cut into messages, and where its delivery goes on |
//! | `server` | the conversation, and what its failures mean |

mod parts;
mod server;

use crate::lines::{self, Format};
use crate::{Applied, Batch, Destination, Error, Origin, Position, Result};
use parts::{Last, Step, step};
use server::{Connection, Published};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The stream, where the URL names none.
const STREAM: &str = "litefoot";
/// The longest that the server may take for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Times that a delivery begins anew behind somebody else's message.
const ATTEMPTS: u32 = 3;

/// Who the shipper is, for the server.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The password of the user in the URL.
    pub password: Option<String>,
    /// A token.
    pub token: Option<String>,
    /// The text of a `.creds` file: a JWT and a key.
    pub creds: Option<String>,
}

/// A stream.
pub struct Nats {
    address: server::Address,
    stream: String,
    place: String,
    credentials: Credentials,
    format: Format,
    answer: Duration,
    runtime: Runtime,
    connection: Option<Connection>,
}

impl Nats {
    /// A destination by its URL, `nats://user@host:port/stream`, or `tls://…`. Nothing is connected yet.
    ///
    /// # Errors
    /// The URL is none of NATS's.
    pub fn new(url: &str, credentials: Credentials) -> Result<Nats> {
        let refused = |why: &str| Error::Refused { place: "nats://…".to_owned(), why: why.to_owned() };
        let unread = "the URL cannot be read: write nats://USER@HOST:PORT/STREAM, or tls://…";
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refused(unread))?;
        let (authority, stream) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let stream = if stream.is_empty() { STREAM } else { stream };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if host.is_empty() || !stream.chars().all(is_name) {
            return Err(refused(unread));
        }
        let place = format!("{scheme}://{host}/{stream}");
        // A thread of its own answers the server between deliveries.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::Refused { place: place.clone(), why: error.to_string() })?;
        let address = server::Address { url: format!("{scheme}://{host}"), user: user.map(str::to_owned) };
        Ok(Nats {
            address,
            stream: stream.to_owned(),
            place,
            credentials,
            format: Format::default(),
            answer: ANSWER,
            runtime,
            connection: None,
        })
    }

    /// Sends lines of this format.
    #[must_use]
    pub fn with_format(mut self, format: Format) -> Nats {
        self.format = format;
        self
    }

    /// Waits at most so long for an answer.
    #[must_use]
    pub fn with_answer_within(mut self, answer: Duration) -> Nats {
        self.answer = answer;
        self
    }

    fn subject(&self, origin: &Origin) -> String {
        format!("{}.{}", self.stream, origin.source_text())
    }

    /// A conversation. Where it fails its connection is given up: what is under way on it may still arrive, and is told by its number.
    fn converse<T>(&mut self, talk: impl AsyncFnOnce(&mut Connection) -> server::Result<T>) -> Result<T> {
        let known = self.connection.take();
        let outcome = self.runtime.block_on(async {
            let mut connection = match known.filter(Connection::is_open) {
                Some(connection) => connection,
                None => Connection::open(&self.address, &self.credentials, &self.stream, self.answer).await?,
            };
            let found = talk(&mut connection).await?;
            Ok((connection, found))
        });
        match outcome {
            Ok((connection, found)) => {
                self.connection = Some(connection);
                Ok(found)
            }
            Err(server::Failure { why, is_transient: true }) => {
                Err(Error::Unreachable { place: self.place.clone(), why })
            }
            Err(server::Failure { why, .. }) => Err(Error::Refused { place: self.place.clone(), why }),
        }
    }
}

impl Destination for Nats {
    fn place(&self) -> &str {
        &self.place
    }

    fn takes_ranges(&self) -> bool {
        self.format.takes_ranges()
    }

    fn position(&mut self, origin: &Origin) -> Result<Option<Position>> {
        let subject = self.subject(origin);
        self.converse(async |connection| Ok(connection.last(&subject).await?.position()))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        let subject = self.subject(&batch.origin);
        let bytes = lines::encode(batch, &self.format);
        self.converse(async |connection| apply(connection, &subject, batch, &bytes).await)
    }
}

async fn apply(
    connection: &mut Connection,
    subject: &str,
    batch: &Batch,
    bytes: &[u8],
) -> server::Result<Applied> {
    let parts = parts::cut(bytes, connection.message_bytes()).map_err(server::Failure::refused)?;
    let mut last = connection.last(subject).await?;
    'anew: for _ in 0..ATTEMPTS {
        let (from, before) = match step(&last, batch, parts.len()) {
            Step::From(from, before) => (from, before),
            Step::NotNext(at) => return Ok(Applied::NotNext(at)),
        };
        let mut sent = 0;
        for (number, part) in parts.iter().enumerate().skip(from) {
            let label =
                parts::Label { batch: batch.position(), before, number: number + 1, count: parts.len() };
            let payload = bytes[part.clone()].to_vec();
            sent += payload.len() as u64;
            match connection.publish(subject, last.sequence, &label, payload).await? {
                Published::At(sequence) => last = Last { sequence, label: Some(label) },
                Published::NotNext => {
                    last = connection.last(subject).await?;
                    continue 'anew;
                }
            }
        }
        return Ok(Applied::Done { bytes: sent, parked: Vec::new() });
    }
    Ok(Applied::NotNext(last.position()))
}

/// Reads a `.creds` file.
///
/// # Errors
/// It cannot be read.
pub fn read_creds(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::local(path, error))
}
