//! The conversation with a server, and what its failures mean.

use super::Credentials;
use super::parts::{Label, Last, parse_part, parse_position, position_text};
use async_nats::connection::State;
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, HeaderMap, header};
use std::time::Duration;

const BATCH: &str = "Litefoot-Batch";
const PART: &str = "Litefoot-Part";
const BEFORE: &str = "Litefoot-Before";
/// Bytes of a message beside its payload.
const HEADERS_BYTES: usize = 1024;
const CONNECT: Duration = Duration::from_secs(10);
/// The server's code for a wrong last sequence whose value it does not tell.
const WRONG_LAST_SEQUENCE: u64 = 10164;

/// A failure, and whether waiting may help.
#[derive(Debug)]
pub struct Failure {
    pub why: String,
    pub is_transient: bool,
}

impl Failure {
    pub fn refused(why: String) -> Failure {
        Failure { why, is_transient: false }
    }

    fn transient(why: impl ToString) -> Failure {
        Failure { why: why.to_string(), is_transient: true }
    }
}

pub type Result<T> = std::result::Result<T, Failure>;

/// A server, and the user there.
pub struct Address {
    pub url: String,
    pub user: Option<String>,
}

/// The outcome of a message.
pub enum Published {
    /// It is in the stream, with this number.
    At(u64),
    /// It was refused: another one came since.
    NotNext,
}

/// A connection, and the stream.
pub struct Connection {
    client: Client,
    context: Context,
    stream: Stream,
}

impl Connection {
    /// Connects, and makes the stream where it is missing.
    pub async fn open(
        address: &Address,
        credentials: &Credentials,
        stream: &str,
        answer: Duration,
    ) -> Result<Connection> {
        let mut options = ConnectOptions::new().name("litefoot ship").connection_timeout(CONNECT.min(answer));
        // What was under way is not sent again behind the shipper's back: a lost connection is given up.
        options = options.max_reconnects(1).request_timeout(Some(answer));
        if let Some(creds) = &credentials.creds {
            let read = options.credentials(creds);
            options = read.map_err(|_| Failure::refused("the .creds file cannot be read as one".into()))?;
        } else if let (Some(user), Some(password)) = (&address.user, &credentials.password) {
            options = options.user_and_password(user.clone(), password.clone());
        } else if let Some(token) = &credentials.token {
            options = options.token(token.clone());
        }
        let client = options.connect(&address.url).await.map_err(|error| of_connect(&error))?;
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(answer);
        let config = Config {
            name: stream.to_owned(),
            subjects: vec![format!("{stream}.*")],
            description: Some("batches of rows, of litefoot ship".to_owned()),
            ..Config::default()
        };
        let stream = context.get_or_create_stream(config).await.map_err(|error| of_stream(&error))?;
        Ok(Connection { client, context, stream })
    }

    /// False once the server is known to be away.
    pub fn is_open(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// The most bytes of a payload.
    pub fn message_bytes(&self) -> usize {
        let of_stream = self.stream.cached_info().config.max_message_size;
        let most = usize::try_from(of_stream).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
        most.min(self.client.max_payload()).saturating_sub(HEADERS_BYTES).max(1)
    }

    /// The last message of a subject.
    pub async fn last(&self, subject: &str) -> Result<Last> {
        let message = match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => message,
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                return Ok(Last::default());
            }
            Err(error) => return Err(Failure::transient(error)),
        };
        let header = |name: &str| message.headers.get(name).map(|value| value.as_str());
        let label = || {
            let (number, count) = parse_part(header(PART)?)?;
            let before = header(BEFORE)?;
            Some(Label {
                batch: parse_position(header(BATCH)?)?,
                before: parse_position(before),
                number,
                count,
            })
        };
        match label() {
            Some(label) => Ok(Last { sequence: message.sequence, label: Some(label) }),
            None => Err(Failure::refused(format!("{subject} has messages that are none of litefoot's"))),
        }
    }

    /// Publishes a message behind the last one.
    pub async fn publish(
        &self,
        subject: &str,
        last: u64,
        label: &Label,
        payload: Vec<u8>,
    ) -> Result<Published> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string().as_str());
        headers.insert(BATCH, position_text(Some(label.batch)).as_str());
        headers.insert(PART, format!("{}/{}", label.number, label.count).as_str());
        headers.insert(BEFORE, position_text(label.before).as_str());
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload.into()).await;
        let answered = match sent {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(answer) => Ok(Published::At(answer.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(Published::NotNext),
            Err(error) if code(&error) == Some(ErrorCode(WRONG_LAST_SEQUENCE)) => Ok(Published::NotNext),
            Err(error) if code(&error) == Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM) => {
                Err(Failure::refused(error.to_string()))
            }
            Err(error) => Err(Failure::transient(error)),
        }
    }
}

/// The code of JetStream behind an error.
fn code(error: &dyn std::error::Error) -> Option<ErrorCode> {
    error
        .source()?
        .downcast_ref::<async_nats::jetstream::Error>()
        .map(async_nats::jetstream::Error::error_code)
}

fn of_connect(error: &async_nats::ConnectError) -> Failure {
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => Failure::refused(
            "the user is refused; set NATS_PASSWORD with a user in the URL, NATS_TOKEN, or NATS_CREDS, the name of a \
             .creds file, or pass --credentials FILE"
                .into(),
        ),
        ConnectErrorKind::ServerParse => Failure::refused(format!("the address cannot be read: {error}")),
        ConnectErrorKind::Tls => Failure::refused(format!("TLS: {error}")),
        _ => Failure::transient(error),
    }
}

fn of_stream(error: &async_nats::jetstream::context::CreateStreamError) -> Failure {
    let refused = [
        ErrorCode::JETSTREAM_NOT_ENABLED,
        ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
        ErrorCode::STREAM_SUBJECT_OVERLAP,
        ErrorCode::STREAM_INVALID_CONFIG,
        ErrorCode::MAXIMUM_STREAMS_LIMIT,
    ];
    match error.kind() {
        CreateStreamErrorKind::JetStream(of) if refused.contains(&of.error_code()) => {
            Failure::refused(format!("the stream cannot be made: {of}"))
        }
        CreateStreamErrorKind::JetStreamUnavailable => {
            Failure::transient("the server has no JetStream, or has not begun with it (nats-server -js)")
        }
        _ => Failure::transient(error),
    }
}
