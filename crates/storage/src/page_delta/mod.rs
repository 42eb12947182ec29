//! Page deltas: how each changed page of a transaction differs from its version before.
//!
//! A commit of one row changes some hundred bytes of a few pages. Their deltas fit into one block of the device, where
//! the pages themselves would take several.
//!
//! # Promises
//! 1. What [`decode`] and [`Delta::apply`] give back is what was encoded, byte for byte.
//! 2. A delta is applied only to the page that it was made from, and gives the page that was committed. Both are
//!    verified by checksums; anything else is an error that names the page.
//! 3. Foreign bytes do no harm: [`decode`] validates the whole payload and allocates nothing.
//! 4. [`Encoder::encode`] gives up early where deltas do not pay, and leaves its output as it was.
//!
//! # Invariants
//! 1. A payload has each page at most once. Their numbers ascend.
//! 2. Versions before are those before the transaction, for all pages of it.
//!
//! # Bytes
//! All fixed fields are little-endian. A varint is the number's bits, seven a byte, the lowest first; the top bit of a
//! byte says that another one follows.
//!
//! ```text
//! payload
//!  0            1
//! | page size  | database pages | pages  | page … | page … |
//! | 2^n: its n | varint         | varint |
//!
//! page
//! | number less that of      | length of the ranges × 2,   | CRC-32C of the | CRC-32C of the | ranges … |
//! | the page before, or less | + 1 if they change the old  | old version,   | new version    |
//! | 0 for the first: varint  | version, not zeros: varint  | only with + 1  |                |
//!
//! range, to the end of the ranges
//! | bytes that stay, since   | bytes that change, | the new |
//! | the last range: varint   | at least 1: varint | bytes   |
//! ```

mod decode;
mod encode;
mod ranges;
#[cfg(test)]
mod tests;
mod varint;

pub use decode::{ApplyError, Delta, Form, PageDelta, decode};
pub use encode::{ChangedPage, Encoder};

/// The smallest and the largest page, as powers of two: those of SQLite.
const PAGE_BITS: std::ops::RangeInclusive<u32> = 9..=16;

/// The checksum of a page: CRC-32C, by the processor where it has the instruction.
pub fn page_sum(page: &[u8]) -> u32 {
    crc32c::crc32c(page)
}
