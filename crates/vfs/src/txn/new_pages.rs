//! Early writes: new pages of a large transaction go into the database file before the commit that makes them count.
//!
//! No reader looks at a page behind the end of the database file: a committed one is read from the log. So a transaction
//! that adds many pages writes them into the file, and the commit syncs the file. Then the rest of the transaction goes to
//! the redo log, with the new size of the database. A power cut before that leaves a file that is longer than its header
//! says, which SQLite accepts. SQLite's checkpoint finds the pages there
//! ([`Db::write_unseen`](crate::db::Db::write_unseen)).
//!
//! Early writes happen while a large transaction is under way (see `wal_spill`), or when it commits. When the transaction
//! rolls back, its early writes are cut off, or written over.
//!
//! # Why nothing undoes an early write
//! 1. SQLite's log has no version of the page from an earlier transaction. A checkpoint that knows only that transaction
//!    could still write it over ours. A page that was cut off the database, and belongs to it again, may have one.
//! 2. The redo log has none either, which would hide the page from recovery. It may have one of a page that a transaction
//!    had in a slot and gave up: such a page is not new.
//! 3. A checkpoint that does not know this transaction yet cannot cut the file
//!    ([`Db::note_needed`](crate::db::Db::note_needed)).
//!
//! A transaction under way has the write lock, so a page that is new stays new until it ends.

use std::collections::BTreeSet;

/// The number of the first page behind the end of a database of `len` bytes. An empty database has none: its first
/// transaction makes the file, and no page of it is early.
pub fn first_behind(len: u64, page_bytes: usize) -> u32 {
    if len == 0 || page_bytes == 0 { u32::MAX } else { len.div_ceil(page_bytes as u64) as u32 + 1 }
}

/// The pages that are behind the end of the database, and that nothing in a log would hide there.
pub struct NewPages {
    first: u32,
    taken: BTreeSet<u32>,
}

impl NewPages {
    /// Pages from number `first` on, except those that are `taken`: a log has them.
    pub fn from_page(first: u32, taken: BTreeSet<u32>) -> NewPages {
        NewPages { first, taken }
    }

    /// True for a new page.
    pub fn contains(&self, number: u32) -> bool {
        number >= self.first && !self.taken.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_behind_the_end_where_no_log_has_it() {
        // (bytes of the file, bytes of a page, numbers in a log, numbers that are new of 1 to 8)
        for (len, page_bytes, taken, new) in [
            (0, 512, &[][..], &[][..]),
            (2048, 0, &[], &[]),
            (2048, 512, &[], &[5, 6, 7, 8]),
            (2047, 512, &[], &[5, 6, 7, 8]),
            (2049, 512, &[], &[6, 7, 8]),
            (2048, 1024, &[], &[3, 4, 5, 6, 7, 8]),
            (2048, 512, &[2, 5, 7], &[6, 8]),
        ] {
            let pages = NewPages::from_page(first_behind(len, page_bytes), taken.iter().copied().collect());
            let found: Vec<u32> = (1..=8).filter(|number| pages.contains(*number)).collect();
            assert_eq!(found, new, "{len} bytes, pages of {page_bytes}, {taken:?} in a log");
        }
    }
}
