//! New pages of a large transaction, written into the database file before the commit that makes them count.
//!
//! A page behind the end of the database file is nobody's: whoever reads one that was committed finds it in the log. So a
//! transaction that adds many need not write them to the redo log first and to the file later: they go into the file,
//! which is synced, and then the rest of the transaction goes to the redo log, with the new size of the database.
//! A cut before that leaves a file that is longer than its header says, which SQLite bears with. When
//! SQLite checkpoints them, it finds them there ([`Database::write_unseen`](crate::vfs::database::Database::write_unseen)).
//!
//! They go while the transaction is under way, in batches ([`Policy`]), or when it commits; from then on
//! SQLite's log reads them there. What it takes back is cut off when it is over, or written over.
//!
//! # Why nothing undoes it
//! 1. SQLite's log has no version of such a page from a transaction before this one: a checkpoint that knows of that one
//!    only could still write it to the file, over ours. What was cut off the database, and then belongs to it again, may
//!    have one.
//! 2. So the redo log has none either, which would hide it from whoever recovers.
//! 3. A checkpoint that does not know of this transaction yet cannot cut the file
//!    ([`Database::note_needed`](crate::vfs::database::Database::note_needed)).
//!
//! While a transaction is under way nobody else commits, so what is [`New`] once stays so until it ends.

use super::frames::Frames;
use crate::cleaning::{Job, Running};
use std::collections::BTreeSet;
use std::sync::Arc;

pub use crate::cleaning::policy::{Policy, Step};

/// The pages that are behind the end of the database, and that nothing in a log would hide there.
pub struct New {
    first: u32,
    taken: BTreeSet<u32>,
}

impl New {
    /// What is new to a transaction whose first frame is `first`, in a file of `file_bytes`. `None` where nothing may be
    /// written ahead.
    pub fn find(frames: &Frames, first: usize, file_bytes: u64) -> Option<New> {
        let page_bytes = frames.page_bytes() as u64;
        if file_bytes == 0 || page_bytes == 0 {
            return None;
        }
        let first_page = file_bytes.div_ceil(page_bytes) as u32 + 1;
        let mut taken = frames.page_numbers(0..first);
        Some(New { first: first_page, taken: taken.split_off(&first_page) })
    }

    /// Whether a page is one of them.
    pub fn contains(&self, number: u32) -> bool {
        number >= self.first && !self.taken.contains(&number)
    }
}

/// The transaction that is under way, as far as it is large.
pub struct Large {
    pub policy: Policy,
    /// What may be written ahead, once that was asked for.
    pub new: Option<New>,
    pub cleaning: Option<Cleaning>,
    /// Writes before which there is no use in looking for pages that could leave.
    pub not_before: u64,
}

impl Large {
    /// Nothing yet.
    pub fn new(policy: Policy) -> Large {
        Large { policy, new: None, cleaning: None, not_before: 0 }
    }
}

/// A cleaning that is under way.
pub struct Cleaning {
    pub running: Arc<Running>,
    /// The frames and their pages.
    pub frames: Vec<(usize, u32)>,
    /// The last write before it began.
    pub until: u64,
}

/// What a cleaning is to write.
pub struct Batch {
    pub job: Job,
    pub frames: Vec<(usize, u32)>,
    pub until: u64,
}
