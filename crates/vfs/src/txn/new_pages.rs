//! New pages of a large transaction, written into the database file before the commit that makes them count.
//!
//! A page behind the end of the database file is nobody's: whoever reads one that was committed finds it in the log. So a
//! transaction that adds many need not write them to the redo log first and to the file later: they go into the file,
//! which is synced, and then the rest of the transaction goes to the redo log, with the new size of the database.
//! A cut before that leaves a file that is longer than its header says, which SQLite bears with. When
//! SQLite checkpoints them, it finds them there ([`Db::write_unseen`](crate::db::Db::write_unseen)).
//!
//! They go while the transaction is under way, as soon as it is large (see `large`), or when it commits. What it takes
//! back is cut off when it is over, or written over.
//!
//! # Why nothing undoes it
//! 1. SQLite's log has no version of such a page from a transaction before this one: a checkpoint that knows of that one
//!    only could still write it to the file, over ours. What was cut off the database, and then belongs to it again, may
//!    have one.
//! 2. So the redo log has none either, which would hide it from whoever recovers. Of pages that a transaction had there in
//!    slots and has given up it may have one nevertheless: they are not new.
//! 3. A checkpoint that does not know of this transaction yet cannot cut the file
//!    ([`Db::note_needed`](crate::db::Db::note_needed)).
//!
//! While a transaction is under way nobody else commits, so what is [`New`] once stays so until it ends.

use std::collections::BTreeSet;

/// The pages that are behind the end of the database, and that nothing in a log would hide there.
pub struct New {
    first: u32,
    taken: BTreeSet<u32>,
}

impl New {
    /// Pages from number `first` on, but for those that are `taken`.
    pub fn from_page(first: u32, taken: BTreeSet<u32>) -> New {
        New { first, taken }
    }

    /// No page is.
    pub fn none() -> New {
        New { first: u32::MAX, taken: BTreeSet::new() }
    }

    /// Whether a page is one of them.
    pub fn contains(&self, number: u32) -> bool {
        number >= self.first && !self.taken.contains(&number)
    }
}
