//! The redo log of a rollback-journal database, as one thread sees it that has the lock: the log, and the newest page 1.
//!
//! # Invariants
//! 1. `page_one` is newer than each image of page 1 in the log, and differs from the newest only in counters.
//! 2. A page is read from `page_one`, else from the pages that wait as deltas, else from the log, else from the database file.
//! 3. While deltas wait, the log has no frame, and there is no `page_one`.
//! 4. Page 1 gets into the database file only with a counter that the log tells: at its end, or where an image of page 1 follows.

use super::kept_journal::KeptJournal;
use super::rollback_deltas::RollbackDeltas;
use crate::db::Db;
use crate::stats::Stats;
use litefoot_storage::file::{self, File};
use litefoot_storage::wal_file::RedoLog;
use std::collections::BTreeMap;

/// The log, and what is known of page 1.
#[derive(Default)]
pub(crate) struct RedoLogState {
    pub redo: Option<RedoLog>,
    /// The newest page 1 of a log that holds frames; the logged image has another counter.
    pub page_one: Option<Vec<u8>>,
    /// True after a commit without a frame in the log, since page 1 was logged: one that was written in place, or changed
    /// nothing but counters.
    pub past_log: bool,
    /// The pages that commits have written in place since the last transaction in the log, with their checksums: the next one
    /// names them.
    pub in_place: BTreeMap<u32, u32>,
    /// Commits that wait as deltas.
    pub deltas: RollbackDeltas,
    /// The change counter that the log tells: that of the newest page 1 in it, and one more for each transaction since.
    pub told_counter: u32,
    /// True where the database file may have a page 1 that a checkpoint has written which failed then: the next
    /// transaction logs page 1, so that the log goes on telling what is in the file.
    pub page_one_written: bool,
    /// The journal of an opening that has no log.
    pub kept_journal: KeptJournal,
}

impl RedoLogState {
    /// Reads a part of a page; `false` where the log does not have the page.
    pub fn read_part(&self, buf: &mut [u8], number: u32, inside: usize) -> file::Result<bool> {
        let part = inside..inside + buf.len();
        match (&self.page_one, &self.redo) {
            (Some(page), _) if number == 1 && part.end <= page.len() => buf.copy_from_slice(&page[part]),
            (_, redo) => match (self.deltas.page(number), redo) {
                (Some(page), _) if part.end <= page.len() => buf.copy_from_slice(&page[part]),
                (_, Some(redo)) => return redo.read_page(number, inside, buf),
                (_, None) => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Bytes of a page that is not in the database file yet; 0 while all are.
    pub fn page_bytes(&self) -> usize {
        let logged = self.redo.as_ref().filter(|redo| !redo.is_empty()).map_or(0, RedoLog::page_bytes);
        if self.deltas.waits() { self.deltas.page_bytes() } else { logged as usize }
    }

    /// Pages of the database, as the log or the deltas say.
    fn database_pages(&self) -> u32 {
        let logged = self.redo.as_ref().map_or(0, RedoLog::database_pages);
        if self.deltas.waits() { self.deltas.database_pages() } else { logged }
    }

    /// True for a page whose newest version is not in the database file.
    pub fn contains(&self, number: u32) -> bool {
        self.deltas.page(number).is_some() || self.redo.as_ref().is_some_and(|redo| redo.contains(number))
    }

    /// The pages whose newest version is not in the database file.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        self.redo.iter().flat_map(RedoLog::page_numbers).chain(self.deltas.page_numbers())
    }

    /// Reads across pages. The file may still be shorter than the database in the log. Bytes that neither has are zeros.
    pub fn read_pages(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        let page_bytes = self.page_bytes() as u64;
        if page_bytes == 0 {
            return file.read_at(buf, offset);
        }
        let end = u64::from(self.database_pages()) * page_bytes;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let inside = (at % page_bytes) as usize;
            let bytes = (buf.len() - done).min(page_bytes as usize - inside);
            let part = &mut buf[done..done + bytes];
            if !self.read_part(part, (at / page_bytes) as u32 + 1, inside)? {
                let read = file.read_at(part, at)?;
                part[read..].fill(0);
                let there = end.saturating_sub(at).min(bytes as u64) as usize;
                if read.max(there) < bytes {
                    return Ok(done + read.max(there));
                }
            }
            done += bytes;
        }
        Ok(done)
    }

    /// True for a log of at least `limit_bytes`.
    pub fn is_large(&self, limit_bytes: usize) -> bool {
        self.redo.as_ref().is_some_and(|redo| redo.bytes() >= limit_bytes as u64)
    }

    /// True while a transaction under way has pages in the log.
    pub fn has_slots(&self) -> bool {
        self.redo.as_ref().is_some_and(RedoLog::has_slots)
    }

    /// Shows in the statistics how full the log is.
    pub fn note_fill(&self, db: &Db) {
        Stats::set(&db.counters().redo_log_bytes, self.redo.as_ref().map_or(0, RedoLog::bytes));
        Stats::set(&db.counters().commit_log_bytes, self.deltas.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, append};

    /// The first byte of each page from a page on, as far as there are bytes.
    fn first_bytes(state: &RedoLogState, db: &Db, from: u64, pages: usize) -> Vec<u8> {
        let mut buf = vec![0xee; pages * PAGE];
        let read = state.read_pages(&**db.data(), &mut buf, (from - 1) * PAGE as u64).unwrap();
        buf[..read].chunks(PAGE).map(|page| page[0]).collect()
    }

    #[test]
    fn a_page_is_read_from_page_one_then_the_log_then_the_file() {
        let db = Db::of_test(&[7; 2 * PAGE]);
        let mut state = RedoLogState::default();
        assert_eq!(first_bytes(&state, &db, 1, 3), [7, 7]);
        // The log has pages 1 and 5 of a database of 6 pages; the file has two.
        state.redo = Some(append(&db, &[(1, 1), (5, 5)], 6));
        assert_eq!(first_bytes(&state, &db, 1, 8), [1, 7, 0, 0, 5, 0]);
        state.page_one = Some(vec![9; PAGE]);
        assert_eq!(first_bytes(&state, &db, 1, 2), [9, 7]);
        let mut across = [0; 4];
        let read = state.read_pages(&**db.data(), &mut across, PAGE as u64 - 2).unwrap();
        assert_eq!((read, across), (4, [9, 9, 7, 7]));
        let mut part = [0; 2];
        assert!(state.read_part(&mut part, 5, PAGE - 2).unwrap());
        assert_eq!(part, [5, 5]);
        assert!(!state.read_part(&mut part, 2, 0).unwrap());
    }

    #[test]
    fn a_log_is_large_from_the_limit_on() {
        let db = Db::of_test(&[7; 2 * PAGE]);
        let mut state = RedoLogState::default();
        assert!(!state.is_large(0));
        state.redo = Some(append(&db, &[(1, 1), (2, 5)], 2));
        let bytes = state.redo.as_ref().unwrap().bytes() as usize;
        assert!(bytes > 2 * PAGE);
        assert_eq!([bytes, bytes + 1].map(|limit| state.is_large(limit)), [true, false]);
        state.note_fill(&db);
        assert_eq!(db.counters().redo_log_bytes.load(std::sync::atomic::Ordering::Relaxed), bytes as u64);
    }
}
