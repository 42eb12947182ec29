//! Appending a rollback-journal transaction to the redo log, or writing one page in place instead.
//!
//! # Why
//! A commit is one sequential write and one sync. Page 1 is left out where the log has an image of it that differs only in
//! counters ([`page_one`](super::page_one)). A transaction of one other page needs no log on a device that never tears it.
//!
//! # Invariants
//! 1. A page is written in place only if the log has no frame of it, which would hide the page.
//! 2. A page is written in place only on a synced log that has page 1, whose logged counter is ahead of this transaction's.
//! 3. The next transaction in the log names the pages that were written in place before it, as early pages. So the log is worth
//!    nothing beside an older copy of the data file, which would get the newer transactions without the older ones.

use super::page_one::{advance_counters, counter_of, is_same_but_counters};
use super::redo_log_state::RedoLogState;
use crate::db::{Db, atomic_write_bytes, write_atomic};
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::txn::TxnTarget;
use crate::txn::dirty_pages::{DirtyPages, write_in_place};
use litefoot_storage::file::{DeviceError, Operation};
use litefoot_storage::log_file::Durability;
use litefoot_storage::page_delta::page_sum;
use litefoot_storage::wal_file::{EarlyPage, RedoLog, Transaction, early_pages};
use std::collections::BTreeMap;
use std::io;

/// Most pages that are written in place while a log holds frames. Recovery reads all of them.
const MOST_IN_PLACE: usize = 4096;

impl RedoLogState {
    /// Appends the dirty pages to the log, page 1 only where it must be.
    pub fn append(&mut self, db: &Db, dirty: &DirtyPages, durability: Durability) -> Result<()> {
        self.append_for(db, dirty, Some(durability))
    }

    /// The same for a transaction that a flush makes durable soon.
    pub fn append_to_be_flushed(&mut self, db: &Db, dirty: &DirtyPages) -> Result<()> {
        self.append_for(db, dirty, None)
    }

    /// The same. Without a durability the transaction is to be flushed.
    fn append_for(&mut self, db: &Db, dirty: &DirtyPages, durability: Option<Durability>) -> Result<()> {
        let Some(redo) = &mut self.redo else { return Ok(()) };
        let mut numbers: Vec<u32> = dirty.in_memory().collect();
        if self.page_one_written && numbers.first() != Some(&1) && !redo.has_slots() {
            self.log_page_one()?;
        }
        let Some(redo) = &mut self.redo else { return Ok(()) };
        let database_pages = dirty.len().div_ceil(dirty.page_bytes() as u64) as u32;
        let mut page_one = None;
        if numbers.first() == Some(&1) {
            let mut page = vec![0; dirty.page_bytes()];
            dirty.copy(1, &mut page);
            // The size of the database is told by the last frame.
            let is_size_told = numbers.len() > 1 || database_pages == redo.database_pages();
            let logged = self.page_one.as_deref();
            if is_size_told
                && !self.page_one_written
                && redo.contains(1)
                && logged.is_some_and(|logged| is_same_but_counters(logged, &page))
            {
                let has_frames = numbers.len() > 1 || !dirty.in_slots().is_empty();
                if has_frames {
                    numbers.remove(0);
                } else if !redo.has_slots() && !dirty.has_pages_in_file() && claim_page_one(redo, dirty) {
                    numbers.remove(0);
                    self.past_log = true;
                }
            }
            page_one = Some(page);
        }
        let durable = durability == Some(Durability::Durable) && redo.is_synced();
        if durable && commit_page_in_place(db, redo, dirty, &numbers, &mut self.in_place)? {
            self.past_log = true;
            self.page_one = page_one.or(self.page_one.take());
            return Ok(());
        }
        let in_place = self.in_place.iter().map(|(number, sum)| EarlyPage { number: *number, sum: *sum });
        let mut early: Vec<EarlyPage> = in_place.collect();
        early.extend(early_pages(&**db.data(), &dirty.in_file(), dirty.page_bytes() as u32)?);
        let transaction = Transaction {
            slots: &dirty.in_slots(),
            early: &early,
            page_numbers: &numbers,
            page_bytes: dirty.page_bytes() as u32,
            database_pages,
        };
        let mut copy = |index: usize, out: &mut [u8]| {
            dirty.copy(numbers[index], out);
            if numbers[index] == 1 {
                advance_counters(out);
            }
            Ok(())
        };
        let frames = redo.frames();
        match durability {
            Some(durability) => redo.append(&transaction, &mut copy, durability)?,
            None => redo.append_to_be_flushed(&transaction, &mut copy)?,
        }
        self.in_place.clear();
        match (numbers.first(), &page_one) {
            (Some(1), Some(page)) => {
                self.told_counter = counter_of(page);
                self.page_one_written = false;
            }
            // A commit of counters alone has no frame: the log does not tell of it.
            _ if redo.frames() == frames => {}
            _ => self.told_counter = self.told_counter.wrapping_add(1),
        }
        self.page_one = page_one.or(self.page_one.take());
        Ok(())
    }

    /// A VACUUM to another page size: appends the whole database in pages of the new size.
    pub fn append_whole(&mut self, db: &Db, dirty: &DirtyPages, page_bytes: usize) -> Result<()> {
        self.checkpoint(db)?;
        let Some(redo) = &mut self.redo else { return Ok(()) };
        let database_pages = (dirty.len() / page_bytes as u64) as u32;
        let numbers: Vec<u32> = (1..=database_pages).collect();
        let base = |buf: &mut [u8], offset: u64| {
            let read = db.data().read_at(buf, offset)?;
            buf[read..].fill(0);
            Ok(())
        };
        let mut copy = |index: usize, page: &mut [u8]| {
            dirty.read(page, (index * page_bytes) as u64, &base).map_err(|error| match error {
                Error::Device(error) => error,
                other => DeviceError::new(Operation::Read, db.path(), io::Error::other(other.to_string())),
            })?;
            if index == 0 {
                advance_counters(page);
            }
            Ok(())
        };
        let transaction = Transaction {
            slots: &[],
            early: &[],
            page_numbers: &numbers,
            page_bytes: page_bytes as u32,
            database_pages,
        };
        Ok(redo.append(&transaction, &mut copy, Durability::Durable)?)
    }

    /// The first commit of a new database. SQLite takes an empty file with a log for a new database, and removes the log. So
    /// the file is written now. If that fails, the commit has not happened.
    pub fn complete_new(&mut self, db: &Db) -> Result<()> {
        let Err(error) = self.checkpoint(db) else { return Ok(()) };
        if let Err(second) = self.take_back_new(db) {
            let name = db.path().display();
            db.latch().close(&format!("{name}: a commit failed and could not be taken back: {second}"));
        }
        Err(error)
    }

    fn take_back_new(&mut self, db: &Db) -> Result<()> {
        db.set_len_unseen(0)?;
        self.page_one = None;
        match &mut self.redo {
            Some(redo) => {
                redo.reset();
                Ok(redo.restart()?)
            }
            None => Ok(()),
        }
    }
}

/// The only page of a transaction that needs a frame, and what speaks against writing it in place.
#[derive(Clone, Copy, Debug)]
struct LonePage {
    number: u32,
    /// True while a transaction has slots in the log, or pages in the file already.
    has_early_pages: bool,
    /// True for a log with an image of page 1.
    page_one_logged: bool,
    /// True for a log with a frame of this page, or with its checksum: it awaits the page as it is.
    is_logged: bool,
    /// True for a transaction that leaves the size of the database as it is.
    keeps_size: bool,
    /// True where recovery has pages enough to look for in the data file.
    is_one_too_many: bool,
}

impl LonePage {
    fn needs_no_log(self) -> bool {
        self.number != 1
            && !self.has_early_pages
            && self.page_one_logged
            && !self.is_logged
            && self.keeps_size
            && !self.is_one_too_many
    }
}

/// Commits a transaction of one page by writing the page in place, where the device never tears it. `false` where the
/// page must be logged. `in_place` are the pages that commits have written so since the last transaction in the log.
fn commit_page_in_place(
    db: &Db,
    redo: &mut RedoLog,
    dirty: &DirtyPages,
    numbers: &[u32],
    in_place: &mut BTreeMap<u32, u32>,
) -> Result<bool> {
    let page_bytes = dirty.page_bytes();
    let [number] = *numbers else { return Ok(false) };
    let offset = u64::from(number - 1) * page_bytes as u64;
    let page = LonePage {
        number,
        has_early_pages: redo.has_slots() || dirty.has_pages_in_file(),
        page_one_logged: redo.contains(1),
        is_logged: redo.contains(number) || redo.awaits(number),
        keeps_size: redo.database_pages() == dirty.len().div_ceil(page_bytes as u64) as u32,
        is_one_too_many: !in_place.contains_key(&number)
            && in_place.len() + redo.awaited_pages() >= MOST_IN_PLACE,
    };
    if !page.needs_no_log()
        || page_bytes > atomic_write_bytes(db)
        || offset + page_bytes as u64 > db.data().len()?
    {
        return Ok(false);
    }
    if !claim_page_one(redo, dirty) {
        return Ok(false);
    }
    let mut page = vec![0; page_bytes];
    dirty.copy(number, &mut page);
    let written = write_atomic(db, &page, offset)?;
    if written {
        in_place.insert(number, page_sum(&page));
    }
    Stats::add(&db.counters().commits_in_place, u64::from(written));
    Ok(written)
}

/// Claims space for page 1: the next checkpoint logs it once more because of a commit without a frame, which must not fail
/// for want of space.
fn claim_page_one(redo: &mut RedoLog, dirty: &DirtyPages) -> bool {
    redo.claim(dirty.page_bytes() as u32, 1).is_ok()
}

/// Commits without a log: a crash in the middle of this commit can damage the database.
pub(crate) fn commit_without_log<T: TxnTarget>(
    target: &T,
    dirty: &DirtyPages,
    durability: Durability,
) -> Result<()> {
    let db = target.db();
    if dirty.len() > dirty.base_len() {
        db.reserve(dirty.len())?;
    }
    let written = write_in_place(target, dirty).and_then(|()| match durability {
        Durability::Durable => db.sync(),
        Durability::Buffered => Ok(()),
    });
    // Nobody knows what is in the file now.
    written.inspect_err(|error| db.latch().close(&error.to_string()))?;
    Stats::add(&db.counters().commits_pages, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, append, first_byte, page_one};
    use crate::txn::SpillTarget;
    use crate::txn::of_test::PlainTarget;
    use litefoot_sim::SimMedium;
    use std::sync::Arc;

    #[test]
    fn a_page_needs_no_log_where_nothing_else_is_to_be_told() {
        let page = LonePage {
            number: 2,
            has_early_pages: false,
            page_one_logged: true,
            is_logged: false,
            keeps_size: true,
            is_one_too_many: false,
        };
        for (page, expected, what) in [
            (page, true, "alone"),
            (LonePage { number: 1, ..page }, false, "page 1"),
            (LonePage { has_early_pages: true, ..page }, false, "slots, or pages in the file"),
            (LonePage { page_one_logged: false, ..page }, false, "no counter ahead in the log"),
            (LonePage { is_logged: true, ..page }, false, "a frame would hide the page"),
            (LonePage { keeps_size: false, ..page }, false, "the last frame tells the size"),
            (LonePage { is_one_too_many: true, ..page }, false, "recovery has a limit"),
        ] {
            assert_eq!(page.needs_no_log(), expected, "{what}");
        }
    }

    /// The dirty pages of a transaction on a database of two pages.
    fn dirty(target: &Arc<PlainTarget>, pages: &[(u32, Vec<u8>)]) -> DirtyPages {
        let mut dirty = DirtyPages::new(target.db(), PAGE, 4 * PAGE as u64);
        for (number, page) in pages {
            dirty.write(target, page, u64::from(number - 1) * PAGE as u64).unwrap();
        }
        dirty
    }

    #[test]
    fn a_commit_is_logged_or_written_in_place() {
        let medium = SimMedium::new();
        medium.set_atomic_write_bytes(PAGE as u32);
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&medium, &[7; 4 * PAGE])));
        let db = target.db();
        let redo = append(db, &[], 4);
        let mut state = RedoLogState { redo: Some(redo), ..RedoLogState::default() };
        let mut commit = |pages: &[(u32, Vec<u8>)]| {
            state.append(db, &dirty(&target, pages), Durability::Durable).unwrap();
            let redo = state.redo.as_ref().unwrap();
            let counter = state.page_one.as_ref().map(|page| crate::commit::page_one::counter_of(page));
            (redo.frames(), counter, state.past_log)
        };
        let page = |filler: u8| vec![filler; PAGE];
        // The first transaction has page 1 in the log, later ones only what else they change.
        assert_eq!(commit(&[(1, page_one(11, 0)), (2, page(2))]), (2, Some(11), false));
        assert_eq!(commit(&[(1, page_one(12, 0)), (2, page(3))]), (3, Some(12), false));
        // A page without a frame is written in place, and nothing is logged.
        assert_eq!(commit(&[(1, page_one(13, 0)), (3, page(4))]), (3, Some(13), true));
        // More than the counters of page 1 has changed.
        assert_eq!(commit(&[(1, page_one(14, 5)), (2, page(5))]), (6, Some(14), true));
        // The log awaits page 3 as it is, and so gets its next version.
        assert_eq!(commit(&[(1, page_one(15, 5)), (3, page(6))]), (7, Some(15), true));
        let mut byte = [0];
        db.data().read_at(&mut byte, 2 * PAGE as u64).unwrap();
        let redo = state.redo.as_ref().unwrap();
        assert_eq!((byte, first_byte(redo, 2), first_byte(redo, 3)), ([4], Some(5), Some(6)));
    }

    #[test]
    fn a_commit_of_counters_alone_is_made_up_for_by_the_next_checkpoint() {
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&SimMedium::new(), &[7; 4 * PAGE])));
        let redo = append(target.db(), &[], 4);
        let mut state = RedoLogState { redo: Some(redo), ..RedoLogState::default() };
        for (counter, expected) in [(11, (1, false)), (12, (1, true))] {
            let pages = dirty(&target, &[(1, page_one(counter, 0))]);
            state.append(target.db(), &pages, Durability::Durable).unwrap();
            assert_eq!((state.redo.as_ref().unwrap().frames(), state.past_log), expected);
        }
    }

    #[test]
    fn a_device_that_tears_pages_gets_all_of_them_through_the_log() {
        let medium = SimMedium::new();
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&medium, &[7; 4 * PAGE])));
        let redo = append(target.db(), &[(1, 1)], 4);
        let mut state = RedoLogState { redo: Some(redo), ..RedoLogState::default() };
        let pages = dirty(&target, &[(3, vec![4; PAGE])]);
        state.append(target.db(), &pages, Durability::Durable).unwrap();
        assert_eq!(first_byte(state.redo.as_ref().unwrap(), 3), Some(4));
        assert!(!state.past_log);
    }

    #[test]
    fn a_first_commit_reaches_the_file_and_can_be_taken_back() {
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&SimMedium::new(), &[])));
        let db = target.db();
        let mut state = RedoLogState { redo: Some(append(db, &[(1, 1)], 1)), ..RedoLogState::default() };
        state.complete_new(db).unwrap();
        assert_eq!(db.data().len().unwrap(), PAGE as u64);
        state.take_back_new(db).unwrap();
        assert_eq!((db.data().len().unwrap(), state.redo.as_ref().unwrap().is_empty()), (0, true));
    }

    #[test]
    fn a_first_commit_that_fails_is_reported() {
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&SimMedium::new(), &[])));
        let db = target.db();
        let mut state = RedoLogState { redo: Some(append(db, &[(1, 1)], 1)), ..RedoLogState::default() };
        db.latch().close("on purpose");
        assert!(state.complete_new(db).is_err());
        assert_eq!(db.data().len().unwrap(), 0);
    }

    #[test]
    fn a_commit_without_a_log_reaches_the_file() {
        let target = Arc::new(PlainTarget::of(Db::of_test_on(&SimMedium::new(), &[7; 4 * PAGE])));
        commit_without_log(&*target, &dirty(&target, &[(2, vec![5; PAGE])]), Durability::Durable).unwrap();
        let mut file = vec![0; 4 * PAGE];
        target.db().data().read_at(&mut file, 0).unwrap();
        assert_eq!([file[0], file[PAGE], file[2 * PAGE]], [7, 5, 7]);
        target.db().latch().close("on purpose");
        let pages = dirty(&target, &[(2, vec![6; PAGE])]);
        assert!(commit_without_log(&*target, &pages, Durability::Durable).is_err());
    }
}
