//! Batches: the changes of some transactions in few bytes.
//!
//! # What is in it
//! What a receiver needs to follow: newer rows, changed columns, and the keys of rows that were there before. Rows of one
//! table lie column by column, numbers as differences, and all of it is compressed.
//!
//! ```text
//! 0   4  "LFRB"
//! 4   1  version, 1
//! 5   1  body: 0 as it is, 1 compressed with zstd
//! 6  16  source: the device
//! 22     epoch, first and last sequence, time in milliseconds since 1970, bytes of the body as it is: varints
//!        body
//!     4  CRC-32C of all before, little-endian
//! ```
//! The body, of varints (SQLite's) and of bytes with their length:
//!
//! ```text
//! definitions   number | each: table, name, CREATE TABLE; an empty text for a dropped table
//! tables        number | each: table, ranges, changes
//!   ranges      of rowids, whose rows are forgotten: 1 where there is a lower bound, and 2 where there is an upper one | the bounds
//!   kinds       0 insert, 1 update, 2 delete, in runs: kind, length
//!   rowids      of a table that has them: differences
//!   masks       of each update: a bit for each changed column
//!   columns     older values of the primary key, for updates and deletions; then newer values, for insertions and updates
//! ```
//!
//! # Invariants
//! 1. A table has the same number in all batches of a source and an epoch. Its definition comes before its rows, once, and
//!    again when it has changed.
//! 2. A decoder returns at most [`MOST_VALUES`] values, and takes at most [`MOST_BODY`] bytes for a body.

mod column;
mod decode;
mod encode;

pub use decode::{Batch, DecodeError, Decoder, RowChange, TableRows, envelope};
pub use encode::{Encoder, TooLarge};

/// Most values of a batch.
pub const MOST_VALUES: usize = 1 << 20;
/// Most bytes of a body before it is compressed.
pub const MOST_BODY: usize = 16 << 20;

const MAGIC: &[u8; 4] = b"LFRB";
const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const SOURCE: std::ops::Range<usize> = 6..22;
const CRC_BYTES: usize = 4;

const INSERT: u64 = 0;
const UPDATE: u64 = 1;
const DELETE: u64 = 2;

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The device.
    pub source: [u8; 16],
    /// Raised when a device is restored or copied.
    pub epoch: u64,
    /// The number of the first step in it.
    pub first: u64,
    /// The number of the last step in it.
    pub last: u64,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A difference as a number without a sign, small where the difference is.
fn zigzag(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

#[cfg(test)]
mod tests;
