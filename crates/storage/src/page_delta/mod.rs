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
//! | number less that of      | bytes of the body × 4, | CRC-32C of the  | CRC-32C of the | body … |
//! | the page before, or less | + its form: varint     | old version, in | new version    |
//! | 0 for the first: varint  |                        | forms 1 and 3   |
//!
//! form  body
//! 0     ranges that change a page of zeros
//! 1     ranges that change the old version
//! 2     copies; there is no old version, or it is not needed
//! 3     copies; the old version is in the dictionary
//!
//! range, to the end of the body
//! | bytes that stay, since   | bytes that change, | the new |
//! | the last range: varint   | at least 1: varint | bytes   |
//!
//! copy, until the page is full
//! | new bytes: | the new | bytes to copy,     | their address less the one where the |
//! | varint     | bytes   | at least 1: varint | last copy would go on: varint        |
//! ```
//!
//! The last copy of a page is left out where new bytes fill it. A distance d is 2d if it is not negative, and -2d - 1 if
//! it is. Pages are in batches of 16. The old versions of all pages of form 3 in a batch are its dictionary, in their
//! order. Addresses count the page's own bytes first, and then the dictionary. The first copy of a page is expected from
//! the dictionary's page that its own form 3 adds, or would add.

mod copies;
mod decode;
mod encode;
mod page_sum;
mod ranges;
mod search;
mod shifts;
#[cfg(test)]
mod tests;
mod varint;

pub use decode::{ApplyError, Delta, PageDelta, decode};
pub use encode::{ChangedPage, Encoder};
pub use page_sum::page_sum;

/// The smallest and the largest page, as powers of two: those of SQLite.
const PAGE_BITS: std::ops::RangeInclusive<u32> = 9..=16;

/// Pages that are encoded together: those of them in [`Form::Copies`] are a dictionary.
const BATCH_PAGES: usize = 16;
/// The lowest bits of a page's length, which say its form.
const FORM_BITS: u32 = 2;

/// How a page is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As ranges that change a page of zeros: at worst one range, the whole page.
    New = 0,
    /// As ranges that change its version before.
    Ranges = 1,
    /// As copies from the dictionary of its batch, without a version before.
    NewCopies = 2,
    /// As copies from the dictionary of its batch. Its own version before is in it.
    Copies = 3,
}

impl Form {
    /// The form that the lowest bits of `kind` say.
    fn of(kind: u32) -> Form {
        match kind % (1 << FORM_BITS) {
            0 => Form::New,
            1 => Form::Ranges,
            2 => Form::NewCopies,
            _ => Form::Copies,
        }
    }

    /// True if the version before is needed.
    fn has_before(self) -> bool {
        matches!(self, Form::Ranges | Form::Copies)
    }
}

/// The checksum of bytes whose first part has the checksum `sum`, and whose rest is `bytes`.
pub fn extend_sum(sum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(sum, bytes)
}
