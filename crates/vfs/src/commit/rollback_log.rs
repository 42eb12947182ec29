//! The redo log of a rollback-journal db.
//!
//! # Page 1
//! Every transaction changes page 1, if only its change counter. Its image is logged once per generation of
//! the log, and again only when more than the counter has changed. So that a database recovered from the
//! log never shows a counter that some connection may have seen with other content, the logged image has
//! its counter advanced by [`COUNTER_JUMP`], far more than a generation has transactions. A page 1 that a VFS above
//! litefoot has sealed (encrypted, or with a checksum in reserved bytes) is logged as it is, with every transaction.
//!
//! # Whose it is
//! Its header names the database file (`belonging`), and it must have its name when a commit counts on it (`place`). So
//! that every first sector that a crash can leave is explained by the log, page 1 is written in place last, after all
//! commits that it shows were synced in the log.
//!
//! # Writing in place
//! The database file is not touched by a commit: pages that are in the log are read from there. When the
//! log has grown to the option `max_wal_size`, a thread of its own copies the newest pages to the database file and
//! syncs it while commits go on; then, while they wait, it does the same for the few pages committed
//! meanwhile, and voids the log.

use crate::cache::PageSource;
use crate::db::Db;
use crate::db::{MAGIC, atomic_write_bytes, tier, write_atomic};
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::txn::dirty_pages::DirtyPages;
use crate::txn::{SpillTarget, TxnTarget};
use litefoot_storage::file::{self, DeviceError, File, Operation, runs};
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::RwLock;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::{Slots, Transaction};
use litefoot_storage::worker::Worker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the change counter of a logged page 1 is ahead by.
pub(crate) const COUNTER_JUMP: u32 = 1 << 20;
/// Pages copied before commits get their turn.
const PAGES_PER_TURN: usize = 64;
/// Where page 1 has the change counter, and its copy that vouches for the database size.
pub(crate) const COUNTERS: [usize; 2] = [24, 92];
/// Where page 1 says how many bytes at the end of each page are not SQLite's.
const RESERVED_BYTES: usize = 20;
/// Where page 1 says whether the database is in WAL mode (2).
const READ_VERSION: usize = 19;

/// The log, and who works on it.
#[derive(Default)]
pub struct RollbackRedoLog {
    pub(crate) state: RwLock<RedoLogState>,
    /// Whether there is a log on the medium.
    pub(crate) live: Arc<AtomicBool>,
    /// Whether its name was found to be in use by another owner.
    pub(crate) barred: AtomicBool,
    /// Resets the log.
    reset: Arc<Worker>,
}

#[derive(Default)]
pub(crate) struct RedoLogState {
    pub(crate) redo: Option<RedoLog>,
    /// The newest page 1 of a log that holds frames; it was logged with another counter.
    page_one: Option<Vec<u8>>,
    /// Whether a commit has gone past the log since page 1 was logged.
    past_log: bool,
}

impl RollbackRedoLog {
    /// Whether there is a log on the medium, which SQLite must not take for a write-ahead log.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// The same, for those who ask again and again.
    pub fn live_flag(&self) -> Arc<AtomicBool> {
        self.live.clone()
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let state = self.state.read();
        let page_one = state.page_one.as_ref().map_or(0, Vec::len);
        page_one + state.redo.as_ref().map_or(0, RedoLog::memory_bytes)
    }

    /// Bytes of a page in the log; 0 while it holds none.
    pub fn page_bytes(&self) -> usize {
        if !self.is_live() {
            return 0;
        }
        let state = self.state.read();
        state.redo.as_ref().filter(|redo| !redo.is_empty()).map_or(0, |redo| redo.page_bytes() as usize)
    }

    /// Reads the database as it was committed last, at any offset: pages that the log has from there, all others from
    /// `file`. Answers how many bytes there are.
    pub fn read(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        if !self.is_live() {
            return file.read_at(buf, offset);
        }
        let state = self.state.read();
        let Some(page_bytes) = state.redo.as_ref().filter(|redo| !redo.is_empty()).map(RedoLog::page_bytes)
        else {
            drop(state);
            return file.read_at(buf, offset);
        };
        let inside = (offset % u64::from(page_bytes)) as usize;
        if inside + buf.len() > page_bytes as usize {
            return state.read_pages(file, buf, offset);
        }
        if state.read_part(buf, (offset / u64::from(page_bytes)) as u32 + 1, inside)? {
            return Ok(buf.len());
        }
        drop(state);
        file.read_at(buf, offset)
    }

    /// Commits what is held.
    pub fn commit<T: TxnTarget>(
        &self,
        target: &Arc<T>,
        held: &mut DirtyPages,
        durability: Durability,
    ) -> Result<()> {
        let db = target.db();
        held.write_new(target)?;
        let mut state = self.state.write();
        if self.open(&mut state, db, Some(held))?.is_none() {
            drop(state);
            return self.commit_in_place(&**target, held, durability);
        }
        // So that writing in place, later, cannot fail for want of space.
        if held.len() > held.base_len() && held.base_len() > 0 {
            db.reserve(held.len())?;
        }
        // Pages that are in the file already must be there for good before the commit says that they count. Also
        // where nobody waits for this commit: the next sync of the log makes it count.
        if held.has_pages_in_file() {
            db.sync()?;
        }
        let page_bytes = held.new_page_bytes()?;
        if page_bytes == held.page_bytes() {
            state.log(db, held, durability)?;
        } else {
            // The log begins anew in pages of another size, over the slots.
            held.leave_slots(db)?;
            state.log_whole(db, held, page_bytes)?;
        }
        db.file_end().set_committed_len(held.len());
        Stats::add(&db.counters().commits_pages, 1);
        state.note_fill(db);
        if held.base_len() == 0 {
            return state.complete_new(db);
        }
        if page_bytes != held.page_bytes() {
            // The commit is in the log for good. Whatever fails here is met again by the next who writes.
            let _ = state.checkpoint(db);
        }
        Ok(())
    }

    /// Whether a page has a frame in the log.
    pub fn contains(&self, number: u32) -> bool {
        self.is_live() && self.state.read().redo.as_ref().is_some_and(|redo| redo.contains(number))
    }

    /// Room in the log for pages of a transaction that does not fit into memory: `count` of them, from number
    /// `first`.
    pub fn reserve_slots(&self, db: &Db, page_bytes: usize, first: usize, count: usize) -> Result<Slots> {
        let mut state = self.state.write();
        if first > 0
            && let Some(redo) = &mut state.redo
        {
            return Ok(redo.reserve_slots(page_bytes as u32, first as u32, count as u32)?);
        }
        match self.open(&mut state, db, None)? {
            Some(redo) => Ok(redo.reserve_slots(page_bytes as u32, first as u32, count as u32)?),
            None => Err(Error::Io(format!(
                "{}: the transaction does not fit into memory, and there is no place for a log",
                db.path().display()
            ))),
        }
    }

    /// A transaction has ended: what it wrote ahead and did not commit is gone.
    pub fn forget_ahead(&self, db: &Db, held: &DirtyPages) {
        // A rollback has cut what it holds, but not what lies in the file.
        if !held.has_slots() && !held.has_pages_in_file() && !db.file_end().is_written_behind() {
            return;
        }
        let mut state = self.state.write();
        let mut least = 0;
        if let Some(redo) = &mut state.redo {
            redo.discard_slots();
            // What a cut could take back still needs the pages that were there before.
            least = if redo.is_synced() { 0 } else { held.base_len() };
        }
        db.file_end().cut_behind(least);
    }

    /// Before a transaction writes behind the end: where the file still has pages there, whoever has cut them off must not
    /// be lost any more.
    pub fn before_behind_end(&self, db: &Db, end: u64) -> Result<()> {
        if db.data().len()? <= end {
            return Ok(());
        }
        match &mut self.state.write().redo {
            Some(redo) => Ok(redo.sync()?),
            None => Ok(()),
        }
    }

    /// Runs `write` on the database file behind its end, while nobody cuts it.
    pub fn undisturbed<T>(&self, write: impl FnOnce() -> T) -> T {
        let _state = self.state.read();
        write()
    }

    /// The log, where a crash would find it; `None` where there is no place for one.
    fn open<'a>(
        &self,
        state: &'a mut RedoLogState,
        db: &Db,
        held: Option<&mut DirtyPages>,
    ) -> Result<Option<&'a mut RedoLog>> {
        if tier::is_awaited(db) {
            state.move_to_tier(db)?;
        }
        self.live.store(true, Ordering::Release);
        let placed = state.keep_place(db, held)?;
        self.barred.store(!placed, Ordering::Release);
        Ok(state.redo.as_mut().filter(|_| placed))
    }

    /// True for a log that has grown past the limit, and is to be reset.
    fn is_large(&self, limit_bytes: usize) -> bool {
        self.state.read().redo.as_ref().is_some_and(|redo| redo.bytes() >= limit_bytes as u64)
    }

    /// Resets the log. Most of the work is done while commits go on.
    fn reset(&self, db: &Db) {
        // A failure is latched where it must be, and else met again by the next who needs the log voided.
        if !matches!(self.copy_ahead(db), Ok(true)) || db.sync().is_err() {
            return;
        }
        let mut state = self.state.write();
        // A transaction that writes ahead into the log needs it as it is; a later commit will ask again.
        if !state.redo.as_ref().is_some_and(RedoLog::has_slots) {
            let _ = state.checkpoint(db);
        }
    }

    /// Begins the log anew where it has grown large, in a thread of its own, which keeps `target` open.
    pub(crate) fn reset_in_background<T: SpillTarget>(self: &Arc<RollbackRedoLog>, target: &Arc<T>) {
        let db = target.db();
        if !self.is_large(db.options().max_wal_size) {
            return;
        }
        let Some(claim) = self.reset.claim() else { return };
        // The last handle to be closed gives the database back, before a thread that waits goes on.
        let (log, there) = (self.clone(), target.clone());
        if let Err(claim) = claim.start("litefoot-log", db.latch(), move |_| log.reset(there.db())) {
            // No thread to be had: the commit waits.
            claim.run_here("litefoot-log", || self.reset(db));
        }
    }

    /// Copies the newest pages to the database file, a few at a time, while commits go on. Stops, and answers
    /// `false`, when a commit has voided the log meanwhile: a VACUUM to another page size does.
    fn copy_ahead(&self, db: &Db) -> Result<bool> {
        let (generation, frames, numbers) = {
            let mut state = self.state.write();
            let Some(redo) = state.redo.as_mut().filter(|redo| !redo.is_empty()) else { return Ok(false) };
            // What is copied must be in the log for good: after a cut the log alone counts.
            redo.sync()?;
            // Page 1 comes last: it shows commits that are not synced yet.
            let numbers = redo.page_numbers().filter(|number| *number != 1);
            (redo.salts(), redo.frames(), numbers.collect::<Vec<u32>>())
        };
        for part in numbers.chunks(PAGES_PER_TURN) {
            let state = self.state.read();
            match &state.redo {
                Some(redo) if redo.salts() == generation => {
                    write_newest(db, redo, None, part)?;
                }
                _ => return Ok(false),
            }
        }
        match &mut self.state.write().redo {
            Some(redo) if redo.salts() == generation => redo.mark_copied(frames),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Waits for the end of a reset in the background. A panic there has latched the database; the next write meets that.
    pub(crate) fn wait_until_idle(&self) {
        let _ = self.reset.wait();
    }

    /// Prepares for writes in place that are not logged: nothing in the log counts any more, durably.
    pub fn clear(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        let mut state = self.state.write();
        state.checkpoint(db)?;
        match &mut state.redo {
            Some(redo) => Ok(redo.restart()?),
            None => Ok(()),
        }
    }

    /// Prepares for a journal beside the database: as [`RollbackRedoLog::clear`], and nothing is away.
    pub fn clear_for_journal(&self, db: &Db) -> Result<()> {
        if db.tier().is_none() {
            return self.clear(db);
        }
        self.retire(db)?;
        tier::come_home(db)
    }

    /// Leaves the database file alone and complete: writes it, syncs it and removes the log.
    pub fn retire(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        let mut state = self.state.write();
        state.checkpoint(db)?;
        if let Some(redo) = &mut state.redo {
            redo.delete()?;
        }
        state.redo = None;
        state.note_fill(db);
        // What has the name and is another owner's stays unseen.
        self.live.store(self.barred.load(Ordering::Acquire), Ordering::Release);
        Ok(())
    }
}

impl RedoLogState {
    /// Begins to log beside the tier device, where nothing waits in the log that there is.
    fn move_to_tier(&mut self, db: &Db) -> Result<()> {
        if let Some(redo) = &mut self.redo {
            if !redo.is_empty() || redo.has_slots() {
                return Ok(());
            }
            redo.delete()?;
        }
        self.redo = None;
        tier::mark(db).map(drop)
    }

    /// Reads a part of a page; `false` where the log does not have it.
    fn read_part(&self, buf: &mut [u8], number: u32, inside: usize) -> file::Result<bool> {
        let part = inside..inside + buf.len();
        match (&self.page_one, &self.redo) {
            (Some(page), _) if number == 1 && part.end <= page.len() => buf.copy_from_slice(&page[part]),
            (_, Some(redo)) => return redo.read_page(number, inside, buf),
            (_, None) => return Ok(false),
        }
        Ok(true)
    }

    /// Reads across pages. The file may still be shorter than the database in the log: what neither has is zeros.
    fn read_pages(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        let Some(redo) = &self.redo else { return file.read_at(buf, offset) };
        let page_bytes = u64::from(redo.page_bytes());
        let end = u64::from(redo.database_pages()) * page_bytes;
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

    /// Appends what is held to the log, page 1 only where it must be.
    fn log(&mut self, db: &Db, held: &DirtyPages, durability: Durability) -> Result<()> {
        let Some(redo) = &mut self.redo else { return Ok(()) };
        let mut numbers: Vec<u32> = held.in_memory().collect();
        let database_pages = held.len().div_ceil(held.page_bytes() as u64) as u32;
        let mut page_one = None;
        if numbers.first() == Some(&1) {
            let mut page = vec![0; held.page_bytes()];
            held.copy(1, &mut page);
            let same = |last: &Vec<u8>| {
                has_counters(last) && has_counters(&page) && without_counters(last) == without_counters(&page)
            };
            // The size of the database is told by the last frame.
            let is_told = numbers.len() > 1 || database_pages == redo.database_pages();
            if is_told && redo.contains(1) && self.page_one.as_ref().is_some_and(same) {
                numbers.remove(0);
            }
            page_one = Some(page);
        }
        let durable = durability == Durability::Durable && redo.is_synced();
        if durable && write_in_place_alone(db, redo, held, &numbers)? {
            self.past_log = true;
            self.page_one = page_one.or(self.page_one.take());
            return Ok(());
        }
        let transaction = Transaction {
            slots: &held.in_slots(),
            page_numbers: &numbers,
            page_bytes: held.page_bytes() as u32,
            database_pages,
        };
        let mut copy = |index: usize, out: &mut [u8]| {
            held.copy(numbers[index], out);
            if numbers[index] == 1 && has_counters(out) {
                advance_counters(out);
            }
            Ok(())
        };
        redo.append(&transaction, &mut copy, durability)?;
        self.page_one = page_one.or(self.page_one.take());
        Ok(())
    }

    /// A VACUUM to another page size: logs the whole database in pages of the new size.
    fn log_whole(&mut self, db: &Db, held: &DirtyPages, page_bytes: usize) -> Result<()> {
        self.checkpoint(db)?;
        let Some(redo) = &mut self.redo else { return Ok(()) };
        let database_pages = (held.len() / page_bytes as u64) as u32;
        let numbers: Vec<u32> = (1..=database_pages).collect();
        let base = |buf: &mut [u8], offset: u64| {
            let read = db.data().read_at(buf, offset)?;
            buf[read..].fill(0);
            Ok(())
        };
        let mut copy = |index: usize, page: &mut [u8]| {
            held.read(page, (index * page_bytes) as u64, &base).map_err(|error| match error {
                Error::Device(error) => error,
                other => DeviceError::new(Operation::Read, db.path(), io::Error::other(other.to_string())),
            })?;
            if index == 0 && has_counters(page) {
                advance_counters(page);
            }
            Ok(())
        };
        let transaction =
            Transaction { slots: &[], page_numbers: &numbers, page_bytes: page_bytes as u32, database_pages };
        Ok(redo.append(&transaction, &mut copy, Durability::Durable)?)
    }

    /// The first commit of a new database: SQLite takes an empty file with a log beside it for a new db,
    /// and removes the log. So the file is written now, and if that fails, the commit has not happened.
    fn complete_new(&mut self, db: &Db) -> Result<()> {
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

    /// Brings the database file up to date, durably, and voids the log.
    pub(crate) fn checkpoint(&mut self, db: &Db) -> Result<()> {
        let Some(redo) = &mut self.redo else { return Ok(()) };
        if redo.is_empty() {
            return Ok(());
        }
        if let Some(page_one) = self.page_one.as_deref().filter(|_| self.past_log) {
            log_page_one(redo, page_one)?;
        }
        self.past_log = false;
        redo.sync()?;
        let mut numbers: Vec<u32> = redo.page_numbers_to_copy().collect();
        // Page 1 changes without a frame of its own, and is never copied before.
        if redo.contains(1) && numbers.first() != Some(&1) {
            numbers.insert(0, 1);
        }
        copy_in_place(db, redo, self.page_one.as_deref(), &numbers)?;
        db.sync()?;
        redo.reset();
        self.page_one = None;
        self.note_fill(db);
        Ok(())
    }

    /// Shows how full the log is.
    fn note_fill(&self, db: &Db) {
        Stats::set(&db.counters().redo_log_bytes, self.redo.as_ref().map_or(0, RedoLog::bytes));
    }
}

/// Commits a transaction of one page by writing it in place, where the device never tears it; `false` where
/// it must be logged. The page must have no frame in the log, which would hide it, and page 1 must have one,
/// whose counter is ahead of this transaction's; what the log holds must be durable already.
fn write_in_place_alone(db: &Db, redo: &mut RedoLog, held: &DirtyPages, numbers: &[u32]) -> Result<bool> {
    let page_bytes = held.page_bytes();
    let [number] = *numbers else { return Ok(false) };
    let offset = u64::from(number - 1) * page_bytes as u64;
    let alone = number != 1
        && !redo.has_slots()
        && !held.has_pages_in_file()
        && redo.contains(1)
        && !redo.contains(number)
        && redo.database_pages() == held.len().div_ceil(page_bytes as u64) as u32
        && page_bytes <= atomic_write_bytes(db)
        && offset + page_bytes as u64 <= db.data().len()?;
    if !alone {
        return Ok(false);
    }
    // Page 1 will be logged once more because of it, which must not fail for want of space.
    if redo.claim(page_bytes as u32, 1).is_err() {
        return Ok(false);
    }
    let mut page = vec![0; page_bytes];
    held.copy(number, &mut page);
    let written = write_atomic(db, &page, offset)?;
    Stats::add(&db.counters().commits_in_place, u64::from(written));
    Ok(written)
}

/// Logs page 1 once more, as it is now: it is about to be written in place with a counter that the transactions in the log
/// do not account for.
fn log_page_one(redo: &mut RedoLog, page_one: &[u8]) -> Result<()> {
    let transaction = Transaction {
        slots: &[],
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

fn write_newest(db: &Db, redo: &RedoLog, page_one: Option<&[u8]>, numbers: &[u32]) -> Result<()> {
    let behind = numbers.partition_point(|number| *number <= redo.database_pages());
    let mut copy = |number: u32, page: &mut [u8]| match page_one {
        Some(one) if number == 1 => {
            page.copy_from_slice(one);
            Ok(())
        }
        _ if redo.read_page(number, 0, page)? => Ok(()),
        _ => {
            let what = io::Error::other(format!("it has lost page {number}"));
            Err(DeviceError::new(Operation::Read, redo.path(), what))
        }
    };
    write_in_place(db, &numbers[..behind], redo.page_bytes() as usize, &mut copy)
}

/// Writes pages, sorted by number, adjacent ones together.
fn write_in_place(
    db: &Db,
    numbers: &[u32],
    page_bytes: usize,
    copy: &mut dyn FnMut(u32, &mut [u8]) -> litefoot_storage::file::Result<()>,
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

/// Whether the newest page 1 says that the database is in WAL mode.
pub(crate) fn is_wal_mode(db: &Db, redo: &RedoLog) -> Result<bool> {
    Ok(wal_mode(db, redo)? == Some(true))
}

/// Whether the newest page 1 says that the database is in WAL mode; `None` where it does not say. What is encrypted is
/// recovered as a checkpoint would: its pages are brought home.
pub(crate) fn wal_mode(db: &Db, redo: &RedoLog) -> Result<Option<bool>> {
    let mut head = [0; READ_VERSION + 1];
    if !redo.read_page(1, 0, &mut head)? {
        db.data().read_at(&mut head, 0)?;
    }
    Ok(head.starts_with(MAGIC).then(|| head[READ_VERSION] == 2))
}

/// Whether nobody but SQLite looks at page 1, so that its counters may be advanced. A VFS above may have encrypted it, or
/// keep a checksum of it at its end, where SQLite leaves room (file format, section 1.3.4).
fn has_counters(page: &[u8]) -> bool {
    page.starts_with(MAGIC) && page.get(RESERVED_BYTES) == Some(&0)
}

/// What page 1 says besides its counters.
pub(crate) fn without_counters(page: &[u8]) -> [&[u8]; 3] {
    let [first, second] = COUNTERS;
    [&page[..first], &page[first + 4..second], &page[second + 4..]]
}

fn advance_counters(page: &mut [u8]) {
    for at in COUNTERS {
        let counter = u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        page[at..at + 4].copy_from_slice(&counter.wrapping_add(COUNTER_JUMP).to_be_bytes());
    }
}

impl PageSource for RollbackRedoLog {
    fn is_live(&self) -> bool {
        RollbackRedoLog::is_live(self)
    }

    fn contains(&self, number: u32) -> bool {
        RollbackRedoLog::contains(self, number)
    }

    fn read(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        RollbackRedoLog::read(self, file, buf, offset)
    }
}
