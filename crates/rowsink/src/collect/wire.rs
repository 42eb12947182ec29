//! Frames between a device and a collector.
//!
//! ```text
//! 0  1  kind
//! 1  4  bytes of the payload, little-endian
//! 5     payload
//!    4  CRC-32C of all before, little-endian
//! ```
//!
//! | kind | from | payload |
//! |---|---|---|
//! | [`HELLO`] | device | `"LFRC"`, version, token |
//! | [`ASK`] | device | source: 16 bytes |
//! | [`PART`] | device | a part of a batch (`part.rs`) |
//! | [`WELCOME`] | collector | nothing |
//! | [`AT`] | collector | position |
//! | [`TAKEN`] | collector | bytes that were sent on, number of parked tables, each: name, reason |
//! | [`NOT_NEXT`] | collector | position |
//! | [`FAILED`] | collector | 0 where waiting may help, else 1, and the reason |
//! | [`WORKING`] | collector | nothing: the answer takes longer |
//!
//! A position is 0 where nothing is known; else 1, epoch, number and token of the batch. Numbers are varints, and texts have their length before them.
//!
//! A device sends one frame that asks for an answer, and waits for it. A collector closes the connection behind [`FAILED`].

use crate::{Applied, Parked, Position};
use litefoot_format::number::{put_varint, varint};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(super) const HELLO: u8 = 1;
pub(super) const ASK: u8 = 2;
pub(super) const PART: u8 = 3;
pub(super) const WELCOME: u8 = 16;
pub(super) const AT: u8 = 17;
pub(super) const TAKEN: u8 = 18;
pub(super) const NOT_NEXT: u8 = 19;
pub(super) const FAILED: u8 = 20;
pub(super) const WORKING: u8 = 21;

const MAGIC: &[u8; 4] = b"LFRC";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 5;
const CRC_BYTES: usize = 4;

/// Most bytes of a payload: those of a batch's body, and of what stands before it.
pub(super) const MOST_BYTES: usize = litefoot_rowdiff::encode::batch::MOST_BODY + (1 << 20);
/// Most bytes of a greeting, which comes from anybody.
pub(super) const MOST_HELLO: usize = 1 << 10;

/// A frame was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The other side has closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Lost(std::io::Error),
    #[error("nothing came for too long")]
    Stalled,
    #[error("a frame of {0} bytes came, and {1} are taken")]
    TooLarge(usize, usize),
    #[error("a frame has a wrong checksum: the other side is no litefoot, or the line is damaged")]
    Damaged,
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken::Lost(error)
    }
}

/// A frame.
pub(super) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len() + CRC_BYTES);
    bytes.push(kind);
    bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Sends a frame.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    payload: &[u8],
) -> std::io::Result<()> {
    stream.write_all(&frame(kind, payload)).await?;
    stream.flush().await
}

/// The head of a frame: its kind, and the bytes of its payload.
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES],
    pub kind: u8,
    pub length: usize,
}

/// Waits for a frame, and reads its head.
pub(super) async fn head(stream: &mut (impl AsyncRead + Unpin), most: usize) -> Result<Head, Broken> {
    let mut bytes = [0; HEAD_BYTES];
    match stream.read(&mut bytes[..1]).await {
        Ok(0) => return Err(Broken::Closed),
        // A program that ends says no farewell to TLS, and what it has not read resets the line.
        Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) => {
            return Err(Broken::Closed);
        }
        read => read?,
    };
    stream.read_exact(&mut bytes[1..]).await?;
    let [kind, length @ ..] = bytes;
    let length = u32::from_le_bytes(length) as usize;
    if length > most { Err(Broken::TooLarge(length, most)) } else { Ok(Head { bytes, kind, length }) }
}

/// Reads the payload behind a head. Memory grows with what arrives, not with what was said; something has to arrive within `stall`.
pub(super) async fn payload(
    stream: &mut (impl AsyncRead + Unpin),
    head: &Head,
    stall: Duration,
) -> Result<Vec<u8>, Broken> {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let whole = head.length + CRC_BYTES;
    while count < whole {
        if count == bytes.len() {
            bytes.resize(whole.min(count + (64 << 10)), 0);
        }
        match tokio::time::timeout(stall, stream.read(&mut bytes[count..])).await {
            Err(_) => return Err(Broken::Stalled),
            Ok(read) => match read? {
                0 => return Err(Broken::Lost(ErrorKind::UnexpectedEof.into())),
                read => count += read,
            },
        }
    }
    let crc = bytes.split_off(head.length);
    match crc32c::crc32c_append(crc32c::crc32c(&head.bytes), &bytes).to_le_bytes()[..] == crc[..] {
        true => Ok(bytes),
        false => Err(Broken::Damaged),
    }
}

/// A greeting.
pub(super) fn hello(token: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    bytes.extend(token.as_bytes());
    bytes
}

/// The token of a greeting.
pub(super) fn token_of(hello: &[u8]) -> Result<&[u8], String> {
    match hello.strip_prefix(MAGIC) {
        Some([VERSION, token @ ..]) => Ok(token),
        Some([version, ..]) => Err(format!(
            "the device speaks version {version}, and this collector version {VERSION}: update the older one"
        )),
        _ => Err("a greeting is expected first: the other side is no litefoot".to_owned()),
    }
}

/// An answer of a collector.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Welcome,
    At(Option<Position>),
    Applied(Applied),
    Failed { is_transient: bool, why: String },
    Working,
}

impl Answer {
    /// The kind and the payload of its frame.
    pub fn to_frame(&self) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        let kind = match self {
            Answer::Welcome => WELCOME,
            Answer::Working => WORKING,
            Answer::At(position) => {
                put_position(&mut bytes, position.as_ref());
                AT
            }
            Answer::Applied(Applied::NotNext(position)) => {
                put_position(&mut bytes, position.as_ref());
                NOT_NEXT
            }
            Answer::Applied(Applied::Done { bytes: sent, parked }) => {
                put_varint(&mut bytes, *sent);
                put_varint(&mut bytes, parked.len() as u64);
                for parked in parked {
                    put_text(&mut bytes, &parked.table);
                    put_text(&mut bytes, &parked.why);
                }
                TAKEN
            }
            Answer::Failed { is_transient, why } => {
                bytes.push(u8::from(!is_transient));
                put_text(&mut bytes, why);
                FAILED
            }
        };
        (kind, bytes)
    }

    /// The answer of a frame; `None` for bytes that are none.
    pub fn of_frame(kind: u8, payload: &[u8]) -> Option<Answer> {
        let mut reader = Reader(payload);
        let answer = match kind {
            WELCOME => Answer::Welcome,
            WORKING => Answer::Working,
            AT => Answer::At(reader.position()?),
            NOT_NEXT => Answer::Applied(Applied::NotNext(reader.position()?)),
            TAKEN => {
                let (bytes, count) = (reader.varint()?, reader.varint()?);
                let mut parked = Vec::new();
                for _ in 0..count {
                    parked.push(Parked { table: reader.text()?, why: reader.text()? });
                }
                Answer::Applied(Applied::Done { bytes, parked })
            }
            FAILED => Answer::Failed { is_transient: *reader.bytes(1)?.first()? == 0, why: reader.text()? },
            _ => return None,
        };
        reader.0.is_empty().then_some(answer)
    }
}

fn put_position(out: &mut Vec<u8>, position: Option<&Position>) {
    out.push(u8::from(position.is_some()));
    if let Some(at) = position {
        [at.epoch, at.sequence, at.token].into_iter().for_each(|number| put_varint(out, number));
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Bytes that were not read yet.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn varint(&mut self) -> Option<u64> {
        let (number, rest) = varint(self.0)?;
        self.0 = rest;
        Some(number)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.varint()?).ok()?;
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    fn position(&mut self) -> Option<Option<Position>> {
        match self.bytes(1)? {
            [0] => Some(None),
            _ => {
                let (epoch, sequence, token) = (self.varint()?, self.varint()?, self.varint()?);
                Some(Some(Position { epoch, sequence, token }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Vec<Answer> {
        let at = Position { epoch: 1, sequence: 300, token: u64::MAX };
        let parked = vec![Parked { table: "t".into(), why: "größer".into() }];
        vec![
            Answer::Welcome,
            Answer::Working,
            Answer::At(None),
            Answer::At(Some(at)),
            Answer::Applied(Applied::NotNext(Some(at))),
            Answer::Applied(Applied::Done { bytes: 5, parked }),
            Answer::Failed { is_transient: true, why: "away".into() },
            Answer::Failed { is_transient: false, why: "no".into() },
        ]
    }

    #[test]
    fn answers_come_back_and_parts_of_them_do_not() {
        for answer in answers() {
            let (kind, payload) = answer.to_frame();
            for cut in 0..payload.len() {
                assert_eq!(Answer::of_frame(kind, &payload[..cut]), None, "{answer:?} {cut}");
            }
            assert_eq!(Answer::of_frame(kind, &payload), Some(answer));
        }
        assert_eq!(Answer::of_frame(99, &[]), None);
        assert_eq!(token_of(&hello("secret")).unwrap(), b"secret");
        assert!(token_of(b"GET / HTTP/1.1").unwrap_err().contains("no litefoot"));
        assert!(token_of(b"LFRC\x09x").unwrap_err().contains("version 9"));
    }

    /// Reads all frames of the bytes.
    fn read(mut bytes: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, Broken> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut frames = Vec::new();
            loop {
                let head = match head(&mut bytes, 100).await {
                    Err(Broken::Closed) => return Ok(frames),
                    head => head?,
                };
                frames.push((head.kind, payload(&mut bytes, &head, Duration::from_secs(9)).await?));
            }
        })
    }

    #[test]
    fn wrong_bytes_are_no_frames() {
        let bytes = [frame(ASK, &[7; 16]), frame(WORKING, &[])].concat();
        assert_eq!(read(&bytes).unwrap(), [(ASK, vec![7; 16]), (WORKING, vec![])]);
        let whole = frame(ASK, &[7; 16]).len();
        for cut in (1..bytes.len()).filter(|cut| *cut != whole) {
            assert!(matches!(read(&bytes[..cut]), Err(Broken::Lost(_))), "{cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed).is_err(), "{bit}");
        }
        assert!(matches!(read(&frame(PART, &[0; 101])), Err(Broken::TooLarge(101, 100))));
    }
}
