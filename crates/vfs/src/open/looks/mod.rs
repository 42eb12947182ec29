//! Looks: what has changed in a database, told to a process that ships it, without a visit.
//!
//! # Why
//! A shipper that opens the file is a visitor: the owner brings everything home, and goes on in SQLite's own protocol for a while. With a
//! look each second that would be for ever. So a shipper listens at a name, and knocks: it opens the file in a way that the owner's lease refuses
//! at once. The owner is told, finds the shipper at the name, and connects. It stays the owner.
//!
//! ```text
//! shipper                                   owner
//! Asker, listens at litefoot-look-<file>
//! open, O_NONBLOCK: refused        ------>  lease: somebody is at the door
//!                                  <------  connects; a thread answers
//! "what has changed?"              ------>  while nobody writes: copies the pages that commits have noted
//!                                  <------  the pages
//! ```
//!
//! A shipper that wants a history asks for each transaction. Commits keep copies of their pages from then on, and an answer is a transaction. Where one is
//! not known, the answer is what has changed, as to the other question.
//!
//! # Promises
//! 1. Without a shipper an application pays an attempt to connect for each visitor, and for each commit a look at a flag.
//! 2. The parts that were told up to a last one are the database at the moment of that: a page that changes in between is told again.
//! 3. Transactions wait for a look while it copies 1 MiB at most, or compares 4 MiB. None fails because of it.
//! 4. Nothing is told that a power cut could take back where a reader would wait for it.
//! 5. Transactions that are told one by one lead from what was told before to what is committed: their last pages were compared with those.
//! 6. The owner answers its own user and root. The shipper believes its own user, root, and the one whom the file belongs to.
//!
//! # Bytes
//! Numbers are those of the machine: both ends are on it.
//!
//! ```text
//! owner, once: "LFLOOK02"
//! request      kind u32 (1 what has changed, 2 a page that has not, 3 the next transaction), number u32 (of the page)
//! reply        status u32 (1 as asked for, 2 others have the database open, 3 a transaction is in the way, 4 the page has changed, 5 a transaction)
//!              page_bytes u32, pages u32, count u32, last u32 (1: nothing is left, or nothing of the transaction)
//!              time u64 (of the commit of a transaction, in milliseconds since 1970)
//!              count numbers u32, ascending, then as many pages
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `moment` | the pages of the owner, while nobody writes |
//! | `answering` | the owner's end of the stream |
//! | `asking` | the shipper's end |

mod answering;
mod asking;
mod moment;

pub(super) use answering::meet_askers;
pub use asking::{Answer, Asker};

use litefoot_storage::file::FileId;
use std::sync::atomic::AtomicU8;

/// What has changed, or the first part of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Bytes of a page; 0 where there is none.
    pub page_bytes: u32,
    /// Pages of the database.
    pub pages: u32,
    /// The pages that are new or may have changed, ascending.
    pub numbers: Vec<u32>,
    /// Their bytes, one behind the other.
    pub data: Vec<u8>,
    /// True if nothing is left: with the parts before it is the database of this moment.
    pub is_last: bool,
    /// Of a part of one transaction: when that was committed, in milliseconds since 1970. The last part of it leads to its moment.
    pub committed_ms: Option<u64>,
}

/// The shippers of one database that its owner has connected to.
#[derive(Default)]
pub(crate) struct Looks {
    /// One bit for each place.
    met: AtomicU8,
}

/// Shippers that can look at one database at a time.
const PLACES: u32 = 4;

/// Most bytes of pages that one look copies.
const MOST_BYTES: usize = 1 << 20;

const GREETING: [u8; 8] = *b"LFLOOK02";
const REQUEST_BYTES: usize = 8;
const REPLY_BYTES: usize = 28;

/// Kinds of requests.
const CHANGES: u32 = 1;
const PAGE: u32 = 2;
const NEXT: u32 = 3;

/// How a request was answered.
const DONE: u32 = 1;
const COMPANY: u32 = 2;
const BUSY: u32 = 3;
const CHANGED: u32 = 4;
const TRANSACTION: u32 = 5;

/// The name at which a shipper of a file listens.
fn name_of(id: FileId, place: u32) -> String {
    format!("litefoot-look-{:x}-{:x}-{place}", id.device, id.inode)
}

/// Numbers as bytes.
fn bytes_of(numbers: &[u32]) -> impl Iterator<Item = u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes())
}

/// Bytes as numbers.
fn numbers_of(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}
