//! Recovery of a commit log of page deltas: copying bytes, without SQLite.
//!
//! # Why
//! A crash leaves commits in the log whose pages no other file has. Each record says how its pages differ from their
//! versions before, and has the checksums of both. So any build recovers them, and each step is verified.
//!
//! # What it promises
//! 1. A delta is applied only to exactly the page that it was made from, and gives exactly the page that was committed.
//! 2. Nothing is written before all pages are verified. Then one transaction of the redo log takes over everything,
//!    durably, and the records are removed. A crash meanwhile leaves things as they were, or that transaction.
//!
//! # Order
//! ```text
//! app.db-wal:      the newest version of each page that a record changes, one transaction    synced
//! app.db-commits:  removed                                                                   directory synced
//! ```

use crate::commit::delta_generation::DELTA;
use crate::error::{Error, Result};
use crate::open::recovery::{DeltaFacts, FoundDataFile, FoundPages};
use litefoot_storage::commit_log::{CommitLog, DeltaBase, Record};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
use litefoot_storage::log_file::Durability;
use litefoot_storage::page_delta::{ApplyError, Delta, decode, page_sum};
use litefoot_storage::wal_file::origin::{DataFile, content_of, which};
use litefoot_storage::wal_file::{RedoLog, Transaction};
use std::collections::BTreeMap;
use std::path::Path;

/// The records of a log of deltas, and what they say of each page.
pub(crate) struct WaitingDeltas {
    records: Vec<Record>,
    page_bytes: usize,
    /// Pages of the database after the last record.
    database_pages: u32,
    pages: BTreeMap<u32, PageSums>,
}

/// The checksums of a page before the first record that changes it, where that is known, and after the last one.
#[derive(Clone, Copy)]
struct PageSums {
    first: Option<u32>,
    last: u32,
}

impl WaitingDeltas {
    /// The records of a log; `None` if one of them is not understood.
    pub fn of(records: Vec<Record>) -> Option<WaitingDeltas> {
        let mut pages = BTreeMap::new();
        let (mut page_bytes, mut database_pages) = (0, 0);
        for record in &records {
            let delta = decode(&record.payload).filter(|_| record.kind == DELTA)?;
            if page_bytes != 0 && page_bytes != delta.page_bytes() {
                return None;
            }
            (page_bytes, database_pages) = (delta.page_bytes(), delta.database_pages());
            for page in delta.pages() {
                let sums = pages
                    .entry(page.number)
                    .or_insert(PageSums { first: page.before_sum, last: page.after_sum });
                sums.last = page.after_sum;
            }
        }
        Some(WaitingDeltas { records, page_bytes, database_pages, pages })
    }

    /// Transactions that wait.
    pub fn transactions(&self) -> usize {
        self.records.len()
    }

    /// The facts about the log, the redo log `redo` and the data file.
    pub fn facts(
        &self,
        log: &CommitLog,
        base: &DeltaBase,
        redo: &RedoLog,
        data: &DataFile,
    ) -> Result<DeltaFacts> {
        let strangers = log.is_strangers(&data.path)?;
        let data_file = found_data_file(log, base, data)?;
        let pages = self.found_pages(redo, &*data.content)?;
        Ok(DeltaFacts { data_file, pages, redo_log: !redo.is_empty(), strangers })
    }

    /// Compares the pages in the redo log and the data file with those before the first record, and after the last.
    fn found_pages(&self, redo: &RedoLog, data: &dyn File) -> Result<FoundPages> {
        let (mut before, mut after) = (true, true);
        let mut page = vec![0; self.page_bytes];
        if !redo.is_empty() && redo.page_bytes() as usize != self.page_bytes {
            return Ok(FoundPages::Others);
        }
        for (number, sums) in &self.pages {
            read_page(redo, data, *number, &mut page)?;
            let sum = page_sum(&page);
            before &= sums.first.is_none_or(|first| first == sum);
            after &= *number > self.database_pages || sums.last == sum;
        }
        Ok(match (after, before) {
            (true, _) => FoundPages::After,
            (false, true) => FoundPages::Before,
            (false, false) => FoundPages::Others,
        })
    }

    /// Applies all records to the data file's pages, in memory; answers each page after the last.
    fn apply(&self, data: &dyn File) -> std::result::Result<BTreeMap<u32, Vec<u8>>, ApplyError<Error>> {
        let mut pages: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for record in &self.records {
            let Some(delta) = decode(&record.payload) else { continue };
            apply_one(&delta, &mut pages, data)?;
        }
        Ok(pages)
    }

    /// Applies all records, and appends the pages to the redo log, durably.
    pub fn recover(&self, redo: &mut RedoLog, data: &dyn File) -> Result<()> {
        let pages = self.apply(data).map_err(|error| match error {
            ApplyError::Io(error) => error,
            other => Error::Refused(other.to_string()),
        })?;
        let (page_numbers, pages): (Vec<u32>, Vec<Vec<u8>>) = pages.into_iter().unzip();
        let transaction = Transaction {
            slots: &[],
            early: &[],
            page_numbers: &page_numbers,
            page_bytes: self.page_bytes as u32,
            database_pages: self.database_pages,
        };
        let mut copy = |index: usize, page: &mut [u8]| {
            page.copy_from_slice(&pages[index]);
            Ok(())
        };
        redo.append(&transaction, &mut copy, Durability::Durable)?;
        Ok(())
    }
}

/// Compares the data file with the one that a log began upon.
fn found_data_file(log: &CommitLog, base: &DeltaBase, data: &DataFile) -> Result<FoundDataFile> {
    let stamp = data.content.stamp()?;
    if stamp == base.stamp {
        return Ok(FoundDataFile::AsBegun);
    }
    let is_other = which(&*data.file)? != base.origin.data;
    let log_is_other = log.which()?.is_some_and(|log| log != base.origin.log);
    let is_same_sector = content_of(&data.first_sector()?) == base.origin.content;
    let is_older = log.stamp()?.is_some_and(|log| stamp.modified <= log.modified);
    Ok(match (is_other, log_is_other) {
        (true, false) => FoundDataFile::Another,
        (true, true) if stamp.len == base.stamp.len && is_older && is_same_sector => FoundDataFile::Copied,
        _ => FoundDataFile::Changed,
    })
}

/// Applies one record to pages, which are read from the data file where no record before has changed them.
fn apply_one(
    delta: &Delta<'_>,
    pages: &mut BTreeMap<u32, Vec<u8>>,
    data: &dyn File,
) -> std::result::Result<(), ApplyError<Error>> {
    let mut changed = Vec::new();
    let before = |number: u32, page: &mut [u8]| match pages.get(&number) {
        Some(newest) => {
            page.copy_from_slice(newest);
            Ok(())
        }
        None => read_file_page(data, number, page),
    };
    delta.apply(before, |number, page| {
        changed.push((number, page.to_vec()));
        Ok(())
    })?;
    pages.extend(changed);
    Ok(())
}

/// Reads the newest version of a page: from the redo log, or else from the data file.
fn read_page(redo: &RedoLog, data: &dyn File, number: u32, page: &mut [u8]) -> Result<()> {
    if redo.read_page(number, 0, page)? { Ok(()) } else { read_file_page(data, number, page) }
}

/// Reads a page of the data file; behind its end there are zeros.
fn read_file_page(data: &dyn File, number: u32, page: &mut [u8]) -> Result<()> {
    let read = data.read_at(page, u64::from(number.saturating_sub(1)) * page.len() as u64)?;
    page[read..].fill(0);
    Ok(())
}

/// The data file at `path`, for those who do not open the database.
pub(super) fn data_file_at(medium: &dyn Medium, path: &Path, mode: OpenMode) -> Result<DataFile> {
    let file = medium.open(path, FileKind::Database, mode)?;
    Ok(DataFile { path: path.to_owned(), content: file.clone(), file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{Logs, PAGE, first_byte, redo_log};
    use crate::db::Db;
    use litefoot_storage::commit_log::{Base, CommitLog};

    /// A database of four pages whose second page three commits have changed, and which has grown by one; they wait as
    /// deltas.
    fn crashed() -> Logs {
        let logs = Logs::with_deltas(&[7; 4 * PAGE]);
        logs.commit_deltas(&[(2, 1)], 4);
        logs.commit_deltas(&[(2, 2), (5, 9)], 5);
        logs.commit_deltas(&[(2, 3)], 5);
        logs
    }

    fn commit_log(db: &Db) -> CommitLog {
        CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone()).unwrap()
    }

    fn facts(db: &Db) -> DeltaFacts {
        let log = commit_log(db);
        let waiting = WaitingDeltas::of(log.records().unwrap()).unwrap();
        assert_eq!(waiting.transactions(), 3);
        let Some(Base::Deltas(base)) = log.base() else { panic!("a generation of deltas") };
        waiting.facts(&log, &base, &redo_log(db), &db.data_file()).unwrap()
    }

    #[test]
    fn commits_that_wait_are_recovered_into_the_redo_log() {
        let Logs { db, group, .. } = crashed();
        drop(group);
        let found = facts(&db);
        assert_eq!((found.data_file, found.pages), (FoundDataFile::AsBegun, FoundPages::Before));
        let waiting = WaitingDeltas::of(commit_log(&db).records().unwrap()).unwrap();
        let mut redo = redo_log(&db);
        waiting.recover(&mut redo, &**db.data()).unwrap();
        assert_eq!([1, 2, 5].map(|number| first_byte(&redo, number)), [None, Some(3), Some(9)]);
        assert_eq!((redo.frames(), redo.database_pages()), (2, 5));
        drop(redo);
        // A crash before the records are removed.
        assert_eq!(facts(&db).pages, FoundPages::After);
    }

    #[test]
    fn a_data_file_that_was_changed_since_is_noticed() {
        let Logs { db, group, .. } = crashed();
        drop(group);
        db.data().write_at(&[8], 3 * PAGE as u64).unwrap();
        assert_eq!((facts(&db).data_file, facts(&db).pages), (FoundDataFile::Changed, FoundPages::Before));
        db.data().write_at(&[8], PAGE as u64).unwrap();
        assert_eq!(facts(&db).pages, FoundPages::Others);
    }

    #[test]
    fn a_page_that_is_not_the_one_before_is_refused_and_nothing_is_written() {
        let Logs { db, group, .. } = crashed();
        drop(group);
        db.data().write_at(&[8], PAGE as u64).unwrap();
        let waiting = WaitingDeltas::of(commit_log(&db).records().unwrap()).unwrap();
        let mut redo = redo_log(&db);
        let error = waiting.recover(&mut redo, &**db.data()).unwrap_err().to_string();
        assert!(error.contains("page 2"), "{error}");
        assert!(redo.is_empty());
    }
}
