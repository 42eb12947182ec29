//! LTX, version 3: the format in which Litestream 0.5 keeps the history of a SQLite database.
//!
//! # Why
//! A backup is worth what restores it. Files of this format are read by Litestream, by its read replicas, and by litefoot, so
//! nobody needs litefoot to get a database back.
//!
//! # What it promises
//! Bytes in, bytes out: no SQLite, no network, no file. What [`Encoder`] writes, [`Decoder`] reads, and `superfly/ltx` as well.
//! Hostile bytes give an error. They never give a page that the checksums do not vouch for, and take no more memory than
//! twice a page, besides the index.
//!
//! # A file
//! One file holds the pages that the transactions `min` to `max` left behind, each page once. All numbers are big-endian.
//!
//! ```text
//!   0 ┌──────────────────────────┐
//!     │ header, 100 bytes        │  header.rs
//! 100 ├──────────────────────────┤
//!     │ page number          u32 │  frame.rs
//!     │ flags: 1 = sized     u16 │
//!     │ bytes that follow    u32 │
//!     │ the page, an LZ4 block   │
//!     │ …                        │  pages in ascending order
//!     ├──────────────────────────┤
//!     │ 6 bytes of zeros         │  the end of the pages
//!     ├──────────────────────────┤
//!     │ page, offset, bytes: LEB │  index.rs: a varint triple for each page
//!     │ …                        │
//!     │ 0                     u8 │
//!     │ bytes of the index   u64 │
//!     ├──────────────────────────┤
//!     │ 0                    u64 │  the checksum of the database is in the header
//!     │ checksum of the file u64 │
//!     └──────────────────────────┘
//! ```
//!
//! Files of the first versions of 0.5 have no sizes: flags are 0, and a page is an LZ4 frame. [`Decoder`] reads both.
//!
//! # A directory, or a bucket
//! `ltx/<level>/<min>-<max>.ltx`, transactions as 16 hexadecimal digits ([`name`]). Level 0 has a file for each shipment, levels 1 to 8 what compaction
//! made of those below, level 9 whole databases.
//!
//! # Checksums
//! CRC-64/GO-ISO throughout, with the highest bit set, so that 0 says: none. That of the file covers all bytes before it, but
//! the pages as they were before compression. That of the database is the exclusive or of one for each page: a shipment
//! takes the old ones out and the new ones in, and the result of any restore can be compared.

mod checksum;
mod compact;
mod decode;
mod encode;
mod frame;
mod header;
mod index;
pub mod name;

pub use checksum::{Checksum, Digest};
pub use compact::compact;
pub use decode::Decoder;
pub use encode::Encoder;
pub use frame::{FRAME_HEADER_BYTES, decode_frame, frame_bytes_max};
pub use header::{HEADER_BYTES, Header, TRAILER_BYTES, Trailer, is_page_size, lock_page};
pub use index::{Entry, index_bytes, parse_index};
pub use name::{Level, TxId};

/// A failure to read or write a file of this format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The bytes are not a file of this format, or not a whole one.
    #[error("is no whole LTX file: {0}")]
    Malformed(&'static str),
    /// The bytes were changed after they had been written.
    #[error("is damaged: {0} does not match")]
    Checksum(&'static str),
    /// The caller gave pages or numbers that no file may hold.
    #[error("cannot be written as LTX: {0}")]
    Refused(&'static str),
}

/// The result of reading or writing.
pub type Result<T> = std::result::Result<T, Error>;
