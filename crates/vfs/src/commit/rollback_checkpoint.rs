//! Checkpoint of a rollback-journal database: copies the pages of the redo log to the database file.
//!
//! # Promises
//! 1. A page is copied only after its frame was synced: after a power cut the log alone counts.
//! 2. Page 1 is copied by [`RedoLogState::checkpoint`] alone, after all commits that it shows were synced in the log. So the
//!    log explains each first sector that a crash can leave ([`log_identity`](crate::commit::log_identity)).
//! 3. The log is reset after the database file was synced.
//! 4. A transaction under way keeps its slots of the log. Where page 1 has a counter that the log does not explain, and slots are
//!    where its frame would be, that counter is written last: into a file that is complete, beside a log that is void.

use super::page_one::{advance_counters, counter_of, with_counter};
use super::redo_log_state::RedoLogState;
use crate::db::Db;
use crate::error::Result;
use crate::sync::unwritten_pages::UnwrittenPages;
use litefoot_storage::file::{self, DeviceError, Operation, SECTOR_BYTES, runs};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::{RedoLog, Transaction};
use std::io;

impl RedoLogState {
    /// Replaces a log that was not synced by a smaller one, where that pays; answers true where it did. Commits that nobody
    /// synced are not synced now.
    pub fn compact(&mut self, db: &Db) -> Result<bool> {
        let Some(redo) = &mut self.redo else { return Ok(false) };
        let compacted = compact(redo, self.page_one.as_deref(), Durability::Buffered)?;
        if compacted {
            self.note_page_one_logged();
        }
        self.note_fill(db);
        Ok(compacted)
    }

    /// Copies all pages to the database file, durably, and resets the log. Deltas are materialized first.
    pub fn checkpoint(&mut self, db: &Db) -> Result<()> {
        self.fold(db)?;
        let Some(redo) = &mut self.redo else { return Ok(()) };
        if redo.is_empty() {
            // What had no place in the log was written home.
            db.shared().unwritten().into_iter().for_each(UnwrittenPages::clear);
            return Ok(());
        }
        let is_told = |page: &&[u8]| !self.past_log && counter_of(page) == self.told_counter;
        let untold = self.page_one.as_deref().is_some_and(|page| !is_told(&page));
        let mut last = None;
        if compact(redo, self.page_one.as_deref(), Durability::Durable)? {
            self.note_page_one_logged();
        } else if untold && redo.has_slots() {
            // A frame would take the place of a slot.
            last = self.page_one.as_deref().map(|page| with_counter(page, self.told_counter));
        } else if untold {
            self.log_page_one()?;
        }
        let Some(redo) = &mut self.redo else { return Ok(()) };
        redo.sync()?;
        self.page_one_written = true;
        let numbers = numbers_to_copy(redo.page_numbers_to_copy(), redo.contains(1));
        let page_one = self.page_one.as_deref();
        let copied = copy_in_place(db, redo, last.as_deref().or(page_one), &numbers).and_then(|()| db.sync());
        if copied.is_err() {
            // Else the next transaction does.
            if !redo.has_slots() {
                let _ = self.log_page_one();
            }
            return copied;
        }
        redo.reset();
        self.in_place.clear();
        if let Some(page) = page_one.filter(|_| last.is_some()) {
            // The file is complete, and a crash must not find a log that cannot explain this counter.
            redo.restart()?;
            db.write_unseen(&page[..SECTOR_BYTES.min(page.len())], 0)?;
            // The next log begins upon this sector.
            db.sync()?;
            redo.reset();
            redo.restart()?;
        }
        (self.page_one, self.page_one_written) = (None, false);
        db.shared().unwritten().into_iter().for_each(UnwrittenPages::clear);
        self.deltas.note_checkpoint();
        self.note_fill(db);
        Ok(())
    }

    /// Logs page 1 once more, as it is now. It is about to be written in place with a counter that the transactions in the log do
    /// not account for, or was.
    pub fn log_page_one(&mut self) -> Result<()> {
        if let (Some(redo), Some(page_one)) = (&mut self.redo, self.page_one.as_deref()) {
            log_page_one(redo, page_one)?;
            self.note_page_one_logged();
        }
        Ok(())
    }

    /// The log has page 1 as it is, but for its counters, in its last transaction.
    fn note_page_one_logged(&mut self) {
        self.told_counter = self.page_one.as_deref().map_or(0, counter_of);
        (self.past_log, self.page_one_written) = (false, false);
    }
}

/// Replaces a log that was not synced by a smaller one, page 1 with its newest counter; answers true where it did.
fn compact(redo: &mut RedoLog, page_one: Option<&[u8]>, durability: Durability) -> Result<bool> {
    let mut change = |number: u32, page: &mut [u8]| {
        if let Some(page_one) = page_one.filter(|_| number == 1) {
            page.copy_from_slice(page_one);
            advance_counters(page);
        }
    };
    Ok(redo.compact(&mut change, durability)?)
}

/// The pages that a checkpoint copies: page 1 changes without a frame of its own, so it is never left out.
fn numbers_to_copy(uncopied: impl Iterator<Item = u32>, has_page_one: bool) -> Vec<u32> {
    let mut numbers: Vec<u32> = uncopied.collect();
    if has_page_one && numbers.first() != Some(&1) {
        numbers.insert(0, 1);
    }
    numbers
}

/// Appends an image of page 1.
fn log_page_one(redo: &mut RedoLog, page_one: &[u8]) -> Result<()> {
    let transaction = Transaction {
        slots: &[],
        early: &[],
        page_numbers: &[1],
        page_bytes: redo.page_bytes(),
        database_pages: redo.database_pages(),
    };
    let mut copy = |_: usize, out: &mut [u8]| {
        out.copy_from_slice(page_one);
        advance_counters(out);
        Ok(())
    };
    Ok(redo.append(&transaction, &mut copy, Durability::Durable)?)
}

/// Writes pages of the log to the database file, and cuts the file where the database has shrunk.
pub(crate) fn copy_in_place(db: &Db, redo: &RedoLog, page_one: Option<&[u8]>, numbers: &[u32]) -> Result<()> {
    write_newest(db, redo, page_one, numbers)?;
    let size = u64::from(redo.database_pages()) * u64::from(redo.page_bytes());
    if db.file_end().is_written_behind() || db.data().len()? == size {
        Ok(())
    } else {
        db.set_len_unseen(size)
    }
}

/// Writes the newest version of pages, sorted by number, to the database file.
pub(crate) fn write_newest(db: &Db, redo: &RedoLog, page_one: Option<&[u8]>, numbers: &[u32]) -> Result<()> {
    let behind = numbers.partition_point(|number| *number <= redo.database_pages());
    let mut copy = |number: u32, page: &mut [u8]| match page_one {
        Some(one) if number == 1 => {
            page.copy_from_slice(one);
            Ok(())
        }
        _ if redo.read_page(number, 0, page)? => Ok(()),
        _ => {
            let what = io::Error::other(format!("page {number} of the log is lost"));
            Err(DeviceError::new(Operation::Read, redo.path(), what))
        }
    };
    write_in_place(db, &numbers[..behind], redo.page_bytes() as usize, &mut copy)
}

/// Writes pages, sorted by number, adjacent ones together.
pub(super) fn write_in_place(
    db: &Db,
    numbers: &[u32],
    page_bytes: usize,
    copy: &mut dyn FnMut(u32, &mut [u8]) -> file::Result<()>,
) -> Result<()> {
    let mut buffer = Vec::new();
    for run in runs(numbers, page_bytes, |number| u64::from(*number)) {
        buffer.resize(run.len() * page_bytes, 0);
        for (number, page) in run.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
            copy(*number, page)?;
        }
        db.write_unseen(&buffer, u64::from(run[0] - 1) * page_bytes as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, append, first_byte};
    use crate::db::MAGIC;

    #[test]
    fn page_1_is_always_copied() {
        for (uncopied, has_page_one, expected) in [
            (vec![], false, vec![]),
            (vec![], true, vec![1]),
            (vec![3, 5], true, vec![1, 3, 5]),
            (vec![1, 3], true, vec![1, 3]),
            (vec![3], false, vec![3]),
        ] {
            assert_eq!(numbers_to_copy(uncopied.into_iter(), has_page_one), expected);
        }
    }

    #[test]
    fn a_checkpoint_copies_everything_and_resets_the_log() {
        // The database grows, or shrinks, to four pages.
        for bytes in [2, 6] {
            let db = Db::of_test(&vec![7; bytes * PAGE]);
            let redo = append(&db, &[(1, 1), (2, 2), (4, 4), (5, 5)], 4);
            let page_one = Some(vec![9; PAGE]);
            let mut state = RedoLogState { redo: Some(redo), page_one, ..RedoLogState::default() };
            state.checkpoint(&db).unwrap();
            let mut file = vec![0; 8 * PAGE];
            let read = db.data().read_at(&mut file, 0).unwrap();
            let first: Vec<u8> = file[..read].chunks(PAGE).map(|page| page[0]).collect();
            assert_eq!((first[0], first[1], first[3], first.len()), (9, 2, 4, 4), "{bytes}");
            assert!(state.redo.as_ref().unwrap().is_empty());
            assert_eq!(state.page_one, None);
            // There is nothing to be done any more.
            state.checkpoint(&db).unwrap();
        }
    }

    #[test]
    fn a_page_1_with_counters_is_logged_ahead_and_a_sealed_one_as_it_is() {
        let mut plain = vec![0; PAGE];
        plain[..MAGIC.len()].copy_from_slice(MAGIC);
        for (page, same) in [(plain, false), (vec![9; PAGE], true)] {
            let db = Db::of_test(&[7; 2 * PAGE]);
            let mut redo = append(&db, &[(1, 1), (2, 2)], 2);
            log_page_one(&mut redo, &page).unwrap();
            let mut image = vec![0; PAGE];
            assert!(redo.read_page(1, 0, &mut image).unwrap());
            assert_eq!(image == page, same);
            assert_eq!((first_byte(&redo, 2), redo.database_pages()), (Some(2), 2));
        }
    }
}
