//! Recovery of a commit log of page deltas: copying bytes, without SQLite.
//!
//! # Why
//! A crash leaves commits in the log whose pages no other file has. Each record says how its pages differ from their
//! versions before, and has the checksums of both. So any build recovers them, and each step is verified.
//!
//! # What it promises
//! 1. A delta is applied only to exactly the page that it was made from, and gives exactly the page that was committed.
//! 2. Nothing that counts is written before all pages are verified. Then one transaction of the redo log takes over
//!    everything, durably, and the records are removed. A crash meanwhile leaves things as they were, or that transaction.
//! 3. Whatever a log says, it takes memory for one record, 32 bytes or so for each page that a record names, and for
//!    pages what the database may have.
//! 4. Opening applies deltas only to the data file that they were made from, which its length and time of change tell. No page
//!    need show that another program has written it: SQLite may change pages that no delta changes, and leave page 1 as it is.
//!
//! # Order
//! The log is read twice. First the checksums are compared: those of each page with each other, from record to record, and with
//! the page that the files have. Where they fit, the deltas are applied, and each is verified. Pages that do not fit into memory
//! wait in slots of the redo log (`recovered_pages`), which count with the transaction only.
//!
//! ```text
//! app.db-wal:      the newest version of each page that a record changes, one transaction    synced
//! app.db-commits:  removed                                                                   directory synced
//! ```

mod recovered_pages;
#[cfg(test)]
mod tests;

use crate::commit::delta_generation::DELTA;
use crate::db::tier::refused as refused_by_tier;
use crate::error::{Error, Result};
use crate::memory::reservation::MemoryReservation;
use crate::open::recovery::{DeltaFacts, FoundDataFile, FoundPages};
use litefoot_storage::commit_log::{CommitLog, DeltaBase};
use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
use litefoot_storage::page_delta::{ApplyError, Delta, decode, page_sum};
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::origin::{DataFile, content_of};
use litefoot_tier::view;
use recovered_pages::RecoveredPages;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// The last page that a database can have.
const LAST_PAGE: u32 = u32::MAX - 1;

/// The deltas that wait in a log: what its records say of each page.
#[derive(Debug, Default)]
pub(crate) struct WaitingDeltas {
    transactions: usize,
    page_bytes: usize,
    /// Pages of the database after the last record.
    database_pages: u32,
    pages: BTreeMap<u32, PageSums>,
    /// The first page of which a record's version before is not the one that the last record before it left.
    broken: Option<u32>,
}

/// The checksums of a page before the first record that changes it, where that is known, and after the last one.
#[derive(Clone, Copy, Debug)]
struct PageSums {
    first: Option<u32>,
    last: u32,
}

impl WaitingDeltas {
    /// The deltas of a log; `None` if one of its records is not understood.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn of(log: &CommitLog) -> Result<Option<WaitingDeltas>> {
        let (mut waiting, mut understood) = (WaitingDeltas::default(), true);
        log.for_each_record(|kind, payload| {
            let delta = decode(payload).filter(|_| kind == DELTA && understood);
            understood = delta.is_some_and(|delta| waiting.add(&delta));
        })?;
        Ok(understood.then_some(waiting))
    }

    /// Takes up a record; `false` for one of which litefoot writes none.
    fn add(&mut self, delta: &Delta<'_>) -> bool {
        if self.transactions > 0 && self.page_bytes != delta.page_bytes() || delta.database_pages() == 0 {
            return false;
        }
        self.transactions += 1;
        (self.page_bytes, self.database_pages) = (delta.page_bytes(), delta.database_pages());
        for page in delta.pages() {
            if page.number > LAST_PAGE {
                return false;
            }
            match self.pages.entry(page.number) {
                Entry::Vacant(entry) => {
                    entry.insert(PageSums { first: page.before_sum, last: page.after_sum });
                }
                Entry::Occupied(mut entry) => {
                    let last = std::mem::replace(&mut entry.get_mut().last, page.after_sum);
                    if page.before_sum.is_some_and(|before| before != last) {
                        self.broken.get_or_insert(page.number);
                    }
                }
            }
        }
        true
    }

    /// Transactions that wait.
    pub fn transactions(&self) -> usize {
        self.transactions
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

    /// Refuses a data file that shows a change since the log began: in its length, its first sector, or a page that is not as
    /// before the first record.
    ///
    /// A file that shows none may have been written all the same: the caller vouches for it.
    ///
    /// # Errors
    /// [`Error::Refused`], which names what has changed; errors of reading.
    pub fn check_before(&self, log: &CommitLog, base: &DeltaBase, data: &DataFile) -> Result<()> {
        let is_begun =
            data.content.len()? == base.stamp.len && content_of(&data.first_sector()?) == base.origin.content;
        if !is_begun {
            let what = format!("{} has been written since the log began", data.path.display());
            return Err(refused(log, &what));
        }
        let mut page = vec![0; self.page_bytes];
        let firsts = self.pages.iter().filter_map(|(number, sums)| Some((*number, sums.first?)));
        for (number, first) in firsts {
            read_file_page(&*data.content, number, &mut page)?;
            if page_sum(&page) != first {
                return Err(refused(log, &ApplyError::<Error>::Before(number)));
            }
        }
        self.broken.map_or(Ok(()), |number| Err(refused(log, &ApplyError::<Error>::Before(number))))
    }

    /// Compares the pages in the redo log and the data file with those before the first record, and after the last.
    fn found_pages(&self, redo: &RedoLog, data: &dyn File) -> Result<FoundPages> {
        let (mut before, mut after) = (self.broken.is_none(), true);
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

    /// Applies all records of the log to the data file's pages, which are [as before](FoundPages::Before) them, and appends the
    /// pages to the redo log, which has none, durably. Pages take memory of the reservation, and at most so many bytes.
    ///
    /// # Errors
    /// Those of the files, and that a page is not the one that a delta was made from, or would not become the one that was
    /// committed: then nothing of it counts.
    pub fn recover(
        &self,
        log: &CommitLog,
        redo: &mut RedoLog,
        data: &dyn File,
        memory: (MemoryReservation, usize),
    ) -> Result<()> {
        let mut pages = RecoveredPages::new(data, redo, self.page_bytes, memory);
        let recovered = self.apply(log, &mut pages).and_then(|()| pages.commit(self.database_pages));
        recovered.inspect_err(|_| pages.discard())
    }

    /// Applies all records.
    fn apply(&self, log: &CommitLog, pages: &mut RecoveredPages<'_>) -> Result<()> {
        let pages = RefCell::new(pages);
        let (mut outcome, mut applied) = (Ok(()), 0);
        log.for_each_record(|_, payload| {
            if let (Ok(()), Some(delta)) = (&outcome, decode(payload)) {
                // A page before its record is read before the record changes it: a record has each page once.
                let before = |number, page: &mut [u8]| pages.borrow().read(number, page);
                let after = |number, page: &[u8]| pages.borrow_mut().put(number, page);
                outcome = delta.apply(before, after);
                applied += 1;
            }
        })?;
        match outcome {
            Ok(()) if applied == self.transactions => Ok(()),
            Ok(()) => Err(refused(log, &"it has changed while it was read")),
            Err(ApplyError::Io(error)) => Err(error),
            Err(other) => Err(refused(log, &other)),
        }
    }
}

/// The refusal to apply the records of a log.
fn refused(log: &CommitLog, what: &dyn Display) -> Error {
    Error::Refused(format!("{}: {what}; nothing was changed", log.path().display()))
}

/// Compares the data file with the one that a log began upon. Its stamp alone tells that nobody has written it since.
fn found_data_file(log: &CommitLog, base: &DeltaBase, data: &DataFile) -> Result<FoundDataFile> {
    if data.content.stamp()? == base.stamp {
        return Ok(FoundDataFile::AsBegun);
    }
    let is_another = !base.origin.is_of(&*data.file)? && log.is_of(&base.origin)?;
    Ok(if is_another { FoundDataFile::Another } else { FoundDataFile::Changed })
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
pub(super) fn data_file_at(medium: &Arc<dyn Medium>, path: &Path, mode: OpenMode) -> Result<DataFile> {
    let file = medium.open(path, FileKind::Database, mode)?;
    let content = view(file.clone(), medium).map_err(refused_by_tier)?;
    Ok(DataFile { path: path.to_owned(), content, file })
}
