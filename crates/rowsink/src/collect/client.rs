//! The side of a device: a destination.

use super::part::Sender;
use super::wire::{self, ASK, Answer, Broken, HELLO, MOST_BYTES, PART};
use super::{Stream, check_token};
use crate::line::Line;
use crate::{Applied, Batch, Destination, Error, Origin, Position, Result};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

const PORT: u16 = 8443;
const CONNECT: Duration = Duration::from_secs(10);
/// The longest silence of a collector, which says every second that it works.
const SILENCE: Duration = Duration::from_secs(30);
/// A connection that was not used for so long is given up: the collector, or something between, may have done so.
const KEPT: Duration = Duration::from_secs(60);

/// A collector.
pub struct Collector {
    place: String,
    host: String,
    port: u16,
    token: Option<String>,
    silence: Duration,
    runtime: Runtime,
    security: Security,
    open: Option<Open>,
}

enum Security {
    Plain,
    #[cfg(feature = "tls")]
    Tls(tokio_rustls::TlsConnector, rustls::pki_types::ServerName<'static>),
}

/// A connection, and what was sent over it.
struct Open {
    stream: Box<dyn Stream>,
    sender: Sender,
    used: Instant,
}

/// The reason that a conversation came to nothing.
enum Lost {
    /// The line: another attempt may help.
    Line(String),
    /// The collector, or its certificate, which stays so.
    Refused(String),
    Error(Error),
}

impl Collector {
    /// A destination by its address, `host:port`. Nothing is connected yet. Without a token the line is to have a certificate.
    ///
    /// # Errors
    /// The address, the token or a file of the line cannot be used.
    pub fn new(address: &str, token: Option<&str>, line: &Line) -> Result<Collector> {
        let scheme = if *line == Line::Plain { "collect+tcp" } else { "collect" };
        let place = format!("{scheme}://{address}");
        let refused = |why: &str| Error::Refused { place: place.clone(), why: why.to_owned() };
        let (host, port) = split(address).ok_or_else(|| refused("write collect://HOST:PORT"))?;
        token.map_or(Ok(()), check_token).map_err(|why| refused(&why))?;
        let security = Security::new(line, &host, &place)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refused(&error.to_string()))?;
        let token = token.map(str::to_owned);
        Ok(Collector { place, host, port, token, silence: SILENCE, runtime, security, open: None })
    }

    /// Waits at most so long without hearing of the collector.
    #[must_use]
    pub fn with_silence_of(mut self, silence: Duration) -> Collector {
        self.silence = silence;
        self
    }

    /// Asks, and answers what the collector says. A line that was kept may have ended meanwhile: then it is asked once more over a new one.
    fn converse(&mut self, request: &Request<'_>) -> Result<Answer> {
        let Collector { place, host, port, token, silence, runtime, security, open } = self;
        let mut kept = open.take().filter(|open| open.used.elapsed() < KEPT);
        loop {
            let was_kept = kept.is_some();
            let outcome = runtime.block_on(async {
                let mut line = match kept.take() {
                    Some(line) => line,
                    None => {
                        let connecting =
                            timeout(CONNECT, connect((host.as_str(), *port), security, token.as_deref()));
                        connecting.await.unwrap_or_else(|_| {
                            Err(Lost::Line(format!("no answer for {} seconds", CONNECT.as_secs())))
                        })?
                    }
                };
                let answer = line.talk(place, request, *silence).await?;
                Ok((line, answer))
            });
            match outcome {
                Ok((_, Answer::Failed { is_transient: true, why })) => {
                    return Err(Error::Unreachable { place: place.clone(), why });
                }
                Ok((_, Answer::Failed { why, .. })) => {
                    return Err(Error::Refused { place: place.clone(), why });
                }
                Ok((mut line, answer)) => {
                    line.used = Instant::now();
                    *open = Some(line);
                    return Ok(answer);
                }
                Err(Lost::Error(error)) => return Err(error),
                Err(Lost::Refused(why)) => return Err(Error::Refused { place: place.clone(), why }),
                // What has arrived, and was not heard of, is known by its number and token.
                Err(Lost::Line(_)) if was_kept => {}
                Err(Lost::Line(why)) => return Err(Error::Unreachable { place: place.clone(), why }),
            }
        }
    }

    fn odd(&self) -> Error {
        let why = "the answer is not understood: update the older of the two".to_owned();
        Error::Refused { place: self.place.clone(), why }
    }
}

/// What a device asks for.
enum Request<'a> {
    Position(&'a Origin),
    Apply(&'a Batch),
}

/// The host and the port of an address.
fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (address, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = host.parse::<IpAddr>().is_ok()
        || (!host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)));
    is_name.then(|| (host.to_owned(), port))
}

impl Security {
    #[cfg(feature = "tls")]
    fn new(line: &Line, host: &str, place: &str) -> Result<Security> {
        let Line::Tls { authorities, certificate } = line else { return Ok(Security::Plain) };
        let name = rustls::pki_types::ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|error| Error::Refused { place: place.to_owned(), why: error.to_string() })?;
        let config = crate::tls::client(authorities.as_deref(), certificate.as_ref())?;
        Ok(Security::Tls(std::sync::Arc::new(config).into(), name))
    }

    #[cfg(not(feature = "tls"))]
    fn new(line: &Line, _: &str, place: &str) -> Result<Security> {
        match line {
            Line::Plain => Ok(Security::Plain),
            Line::Tls { .. } => Err(crate::line::without_tls(place)),
        }
    }
}

async fn connect(
    address: (&str, u16),
    security: &Security,
    token: Option<&str>,
) -> std::result::Result<Open, Lost> {
    let stream = TcpStream::connect(address).await.map_err(|error| Lost::Line(error.to_string()))?;
    stream.set_nodelay(true).map_err(|error| Lost::Line(error.to_string()))?;
    let stream: Box<dyn Stream> = match security {
        Security::Plain => Box::new(stream),
        #[cfg(feature = "tls")]
        Security::Tls(connector, name) => {
            let shaken = connector.connect(name.clone(), stream).await;
            Box::new(shaken.map_err(|error| lost(&error))?)
        }
    };
    let mut open = Open { stream, sender: Sender::default(), used: Instant::now() };
    open.send(HELLO, &wire::hello(token.unwrap_or_default()), CONNECT).await?;
    match open.answer(CONNECT).await? {
        Answer::Welcome => Ok(open),
        Answer::Failed { is_transient: true, why } => Err(Lost::Line(why)),
        Answer::Failed { why, .. } => Err(Lost::Refused(why)),
        _ => Err(Lost::Line("the greeting is not answered".to_owned())),
    }
}

/// A certificate that is not trusted stays so; a line that breaks does not. Of its own one the device hears behind the handshake.
fn lost(error: &std::io::Error) -> Lost {
    #[cfg(feature = "tls")]
    if let Some(why) = crate::tls::refusal(error) {
        return Lost::Refused(why);
    }
    Lost::Line(error.to_string())
}

impl Open {
    async fn talk(
        &mut self,
        place: &str,
        request: &Request<'_>,
        silence: Duration,
    ) -> std::result::Result<Answer, Lost> {
        match request {
            Request::Position(origin) => self.send(ASK, &origin.source, silence).await?,
            Request::Apply(batch) => {
                let mut sender = std::mem::take(&mut self.sender);
                for part in sender.parts(place, batch) {
                    let part = part.map_err(Lost::Error)?;
                    if let Err(lost) = self.send(PART, &part, silence).await {
                        // The collector may have said why, before it has closed.
                        let said = self.answer(Duration::from_secs(1)).await;
                        return said.ok().filter(|said| matches!(said, Answer::Failed { .. })).ok_or(lost);
                    }
                }
                self.sender = sender;
            }
        }
        self.answer(silence).await
    }

    async fn send(&mut self, kind: u8, payload: &[u8], silence: Duration) -> std::result::Result<(), Lost> {
        // A large frame takes its time over a thin line; TCP gives up a line on which nothing moves.
        let time = silence + Duration::from_millis(payload.len() as u64 / 4);
        match timeout(time, wire::send(&mut self.stream, kind, payload)).await {
            Ok(sent) => sent.map_err(|error| Lost::Line(error.to_string())),
            Err(_) => Err(Lost::Line(format!("nothing is taken for {} seconds", time.as_secs()))),
        }
    }

    /// The answer; meanwhile the collector says that it works.
    async fn answer(&mut self, silence: Duration) -> std::result::Result<Answer, Lost> {
        loop {
            let frame = timeout(silence, async {
                let head = wire::head(&mut self.stream, MOST_BYTES).await?;
                let payload = wire::payload(&mut self.stream, &head, silence).await?;
                Ok::<_, Broken>((head.kind, payload))
            });
            let frame = frame.await;
            let quiet = || Lost::Line(format!("no answer for {} seconds", silence.as_secs()));
            let (kind, payload) = frame.map_err(|_| quiet())?.map_err(|broken| match broken {
                Broken::Lost(error) => lost(&error),
                other => Lost::Line(other.to_string()),
            })?;
            match Answer::of_frame(kind, &payload) {
                Some(Answer::Working) => {}
                Some(answer) => return Ok(answer),
                None => return Err(Lost::Line("the answer is not understood".to_owned())),
            }
        }
    }
}

impl Destination for Collector {
    fn place(&self) -> &str {
        &self.place
    }

    fn position(&mut self, origin: &Origin) -> Result<Option<Position>> {
        match self.converse(&Request::Position(origin))? {
            Answer::At(position) => Ok(position),
            _ => Err(self.odd()),
        }
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        match self.converse(&Request::Apply(batch))? {
            Answer::Applied(applied) => Ok(applied),
            _ => Err(self.odd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (address, expected) in [
            ("host:5", Some(("host", 5))),
            ("host", Some(("host", PORT))),
            ("[::1]:9", Some(("::1", 9))),
            ("10.0.0.1:1", Some(("10.0.0.1", 1))),
            ("", None),
            (":5", None),
            ("host:x", None),
            ("ho st:1", None),
            ("user@host:1", None),
            ("host:1/path", None),
        ] {
            let found = split(address);
            assert_eq!(found.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{address}");
        }
    }

    #[test]
    fn tokens_are_long_and_never_shown() {
        let refused =
            |token: &str| Collector::new("127.0.0.1:1", Some(token), &Line::Plain).err().unwrap().to_string();
        for token in ["", "hush", "hush-hush-hush-hush-\n", &"hush".repeat(200)] {
            assert!(!refused(token).contains("hush"), "{token}");
        }
        assert!(Collector::new("127.0.0.1:1", Some("hush-hush-hush-hush"), &Line::Plain).is_ok());
    }
}
