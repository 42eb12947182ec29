//! The bytes of a commit log. All fields are little-endian.
//!
//! ```text
//! header, the first sector
//!  0            8         12      16           24     60        64
//! | "litefoot" | version | state | generation | base | CRC-32C | zeros … 512
//!                         0 retired, 2 in use by deltas, 3 in use by statements
//!
//! base of statements: the redo log must be this one; `version` and `hash` name the build that understands the records
//! 24       28       32       36        40     48          60
//! | salt 1 | salt 2 | frames | version | hash | zeros …   |
//!
//! base of deltas: the data file must be this one, and no frame may wait in the redo log
//! 24       32         40        44          46          48     60
//! | length | modified | content | data file | this file | zeros … |
//!            nanoseconds since the epoch, signed
//!                       these three as in the header of the redo log
//!
//! record, from offset 512, one behind the other at multiples of 8, or at a multiple of 4,096
//!  0        4      8          16          16 + length
//! | length | kind | sequence | payload … | CRC-32C | zeros to a multiple of 8 |
//! ```
//!
//! The CRC of a record covers the generation, the 16 bytes of its header and the payload. A record counts if
//! its CRC fits, its sequence follows that of the record before it (the first is 0), and all before it count. Where the
//! next record is not at the next multiple of 8, it is at the next multiple of 4,096: a group of commits that
//! begins while another one is synced has blocks of its own.

use crate::file::Stamp;
use crate::wal_file::format::Origin;

/// Bytes of the header: the sector that nothing else shares.
pub const HEADER_BYTES: u64 = 512;
/// Bytes of a record in front of its payload.
pub(super) const RECORD_HEADER_BYTES: usize = 16;
/// Bytes of a record besides its payload, without padding.
const FRAME_BYTES: usize = RECORD_HEADER_BYTES + 4;
/// The same with the most padding.
pub const RECORD_BYTES: u64 = (FRAME_BYTES + ALIGNMENT) as u64;
/// The alignment of records.
pub const ALIGNMENT: usize = 8;
/// The alignment of a group of records that has blocks of its own.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes of the header that mean something.
const USED_BYTES: usize = 64;
const CRC_AT: usize = 60;

const MAGIC: &[u8; 8] = b"litefoot";
const VERSION: u32 = 2;

/// The states of a header. State 1 was that of statements without the checksums of their pages: nobody vouches for a replay
/// of such a log, and it is not understood.
const RETIRED: u32 = 0;
const DELTAS: u32 = 2;
const STATEMENTS: u32 = 3;

/// The state that the records of a generation build upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Of records that are statements.
    Statements(StatementBase),
    /// Of records that are page deltas.
    Deltas(DeltaBase),
}

/// The state of a redo log, and the build of SQLite that replays statements upon it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementBase {
    /// The salts of the redo log's header.
    pub salts: [u32; 2],
    /// Its frames.
    pub frames: u32,
    /// The writer of the records.
    pub writer: Writer,
}

/// The state of a data file that has every page of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaBase {
    /// Its length, and when it was changed last.
    pub stamp: Stamp,
    /// Its first sector, which file it is, and which file the log is.
    pub origin: Origin,
}

/// The program that writes records, and may replay them: another one could make something else of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// Its version, for people.
    pub version: u32,
    /// The mark of this generation.
    pub hash: u64,
}

/// The header of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts up.
    pub generation: u64,
    /// The state that the records build upon; `None` once they are retired.
    pub base: Option<Base>,
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 16, &self.generation.to_le_bytes());
        let state = match self.base {
            None => RETIRED,
            Some(Base::Statements(base)) => {
                put(&mut bytes, 24, &base.salts[0].to_le_bytes());
                put(&mut bytes, 28, &base.salts[1].to_le_bytes());
                put(&mut bytes, 32, &base.frames.to_le_bytes());
                put(&mut bytes, 36, &base.writer.version.to_le_bytes());
                put(&mut bytes, 40, &base.writer.hash.to_le_bytes());
                STATEMENTS
            }
            Some(Base::Deltas(base)) => {
                put(&mut bytes, 24, &base.stamp.len.to_le_bytes());
                put(&mut bytes, 32, &(base.stamp.modified as i64).to_le_bytes());
                put(&mut bytes, 40, &base.origin.content.to_le_bytes());
                put(&mut bytes, 44, &base.origin.data.to_le_bytes());
                put(&mut bytes, 46, &base.origin.log.to_le_bytes());
                DELTAS
            }
        };
        put(&mut bytes, 12, &state.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    /// The header in `bytes`, if it is valid.
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..USED_BYTES)?;
        let valid = &bytes[..8] == MAGIC
            && le32(bytes, 8)? == VERSION
            && le32(bytes, CRC_AT)? == crc32c::crc32c(&bytes[..CRC_AT]);
        let base = match valid.then(|| le32(bytes, 12)).flatten()? {
            RETIRED => None,
            STATEMENTS => Some(Base::Statements(StatementBase {
                salts: [le32(bytes, 24)?, le32(bytes, 28)?],
                frames: le32(bytes, 32)?,
                writer: Writer { version: le32(bytes, 36)?, hash: le64(bytes, 40)? },
            })),
            DELTAS => Some(Base::Deltas(DeltaBase {
                stamp: Stamp { len: le64(bytes, 24)?, modified: i128::from(le64(bytes, 32)? as i64) },
                origin: Origin { content: le32(bytes, 40)?, data: le16(bytes, 44)?, log: le32(bytes, 46)? },
            })),
            _ => return None,
        };
        Some(Header { generation: le64(bytes, 16)?, base })
    }
}

/// Bytes that a record takes.
pub fn record_bytes(payload: usize) -> usize {
    (payload + FRAME_BYTES).next_multiple_of(ALIGNMENT)
}

/// Appends a record to `out`.
pub fn encode_record(out: &mut Vec<u8>, generation: u64, kind: u32, sequence: u64, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(payload);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&generation.to_le_bytes()), &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    out.resize(start + record_bytes(payload.len()), 0);
}

/// Bytes of a record without a payload.
pub const LEAST_BYTES: usize = FRAME_BYTES;

/// The length of the record at the beginning of `bytes`, as it says, up to its checksum.
pub fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
    (le32(bytes, 0)? as usize).checked_add(FRAME_BYTES)
}

/// The record at the beginning of `bytes`: its kind, its payload, and the bytes it takes.
pub fn decode_record(bytes: &[u8], generation: u64, sequence: u64) -> Option<(u32, &[u8], usize)> {
    let len = le32(bytes, 0)? as usize;
    let end = len.checked_add(16)?;
    let covered = bytes.get(..end)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&generation.to_le_bytes()), covered);
    let valid = le32(bytes, end)? == crc && le64(bytes, 8)? == sequence;
    valid.then_some((le32(bytes, 4)?, &covered[16..], record_bytes(len)))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}
