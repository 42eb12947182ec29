//! Page vouching: the pages that a transaction of statements has changed, and whether its replay has given the same.
//!
//! # What it promises
//! 1. A replayed transaction passes only if every page that the application's had written is as it was then, and every other
//!    page that the replay has written is as before. One that has changed page 1 names no pages, and passes.
//! 2. The time that it takes ends: a log is given [`MOST_PAGES`] pages in all.
//!
//! # Why pages may be written and not be different
//! SQLite writes a page again that a statement has changed and taken back, by a constraint or `ROLLBACK TO`. A statement that
//! changed nothing is not logged. So the pages that are written may be more, or fewer, in a replay. The pages that differ are the
//! same.

use crate::capture::changed_pages::{ChangedPages, sum_of};
use crate::txn::wal_frames::{Transaction, WalFrames};
use litefoot_storage::file::{self, File};

/// Most pages of all transactions of a log: SQLite does not write one in the half microsecond that each then has of
/// [`crate::capture::encoding::MOST_TIME`].
pub(crate) const MOST_PAGES: u64 = 1 << 20;

/// The pages that a finished transaction has written, as they are after it; none where it is open what a replay gives.
pub(crate) fn changed_pages(
    frames: &WalFrames,
    data: &dyn File,
    transaction: Transaction,
) -> file::Result<ChangedPages> {
    let database_pages = frames.database_pages_at(transaction.end);
    let mut newest = Vec::new();
    frames.newest_into(transaction, &mut newest);
    let mut pages = ChangedPages::default();
    if !is_definite(newest.iter().map(|(number, _)| *number)) {
        return Ok(pages);
    }
    let mut copy = Vec::new();
    // SQLite may have spilled pages that the database has no more.
    for (number, frame) in newest.into_iter().filter(|(number, _)| *number <= database_pages) {
        match frames.page_in_memory(frame) {
            Some(page) => pages.add(number, page),
            None => {
                copy.resize(frames.page_bytes(), 0);
                frames.copy_page(frame, &mut copy, data)?;
                pages.add(number, &copy);
            }
        }
    }
    Ok(pages)
}

/// True for a transaction on these pages, in order, of which a replay gives the same bytes. One that has changed page 1 may have
/// taken pages into use, or given some up: SQLite leaves in their unused parts what its cache has there.
fn is_definite(mut numbers: impl Iterator<Item = u32>) -> bool {
    numbers.next() != Some(1)
}

/// The first difference between a replayed transaction and the one that was logged, in words; `None` where there is none.
pub(crate) fn difference(
    frames: &WalFrames,
    data: &dyn File,
    transaction: Transaction,
    logged: &ChangedPages,
) -> file::Result<Option<String>> {
    let mut page = vec![0; frames.page_bytes()];
    let mut read = |number: u32, before: usize| -> file::Result<u32> {
        match frames.newest_before(number, before) {
            Some(frame) => frames.copy_page(frame, &mut page, data)?,
            None => {
                let read = data.read_at(&mut page, u64::from(number - 1) * frames.page_bytes() as u64)?;
                page[read..].fill(0);
            }
        }
        Ok(sum_of(number, &page))
    };
    let database_pages = frames.database_pages_at(transaction.end);
    let mut newest = Vec::new();
    frames.newest_into(transaction, &mut newest);
    for (number, _) in newest.into_iter().filter(|(number, _)| *number <= database_pages) {
        if !logged.contains(number) && read(number, transaction.first)? != read(number, transaction.end)? {
            return Ok(Some(format!("it changed page {number}, which it had not")));
        }
    }
    let mut found = ChangedPages::default();
    for number in logged.numbers() {
        found.add_sum(number, read(number, transaction.end)?);
    }
    Ok((found != *logged).then(|| "the pages that it changed are not as they were".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_taken_or_given_up_leave_it_open_what_is_in_them() {
        for (numbers, expected) in
            [(vec![2, 3], true), (vec![1], false), (vec![1, 7], false), (vec![7], true)]
        {
            assert_eq!(is_definite(numbers.iter().copied()), expected, "{numbers:?}");
        }
    }
}
