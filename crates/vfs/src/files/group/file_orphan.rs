//! A member's transaction beside strangers whose owner has died: it goes on by itself, as one of stock SQLite does.
//!
//! # Why
//! Beside strangers all that a transaction stands on is on the files: locks, slots of the wal-index, a journal or a log. The owner had the locks for it, and
//! made its calls. The locks belong to the owner's open file, and last as long as somebody has borrowed that (`borrowed_file`). So the member opens the file
//! once more, takes the same locks by it, and makes its calls itself until the transaction ends. Nobody has to be the next owner for that.
//!
//! # Invariants
//! 1. Somebody has the lock all the time: the open file of the dead owner, until this process has it. Behind that it is looked whether this was in time. A
//!    transaction that has lost its lock once fails.
//! 2. The slots of the wal-index are locked by the member's own file all the time (`file_slots`).
//! 3. A write counts once the owner has answered a later call. So all writes since the transaction has the lock of a writer are made once more, before any
//!    other call. Nobody else has written meanwhile. What is known of them is all or nothing, and nothing any more before that lock is given back.
//! 4. The names of the files are durable with the first sync of the journal or the log, and before a checkpoint writes to the database: a log that was deleted
//!    before must not come back.
//! 5. To everybody else this process is a stranger until the transaction ends. Then its files are closed, and the next one begins with the next owner.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::ffi::codes::SQLITE_OPEN_CREATE;
use crate::files::group::borrowed_file::{FormerOwner, Reopened, fate_beside_strangers, open_again};
use crate::files::group::held_txn::{HeldJournal, HeldTxn, most_held};
use crate::files::group::link::Link;
use crate::files::group::member_rollback::unexpected;
use crate::files::group::orphan::{GLANCE, LAST_STREAM};
use crate::files::group::protocol::FileOf;
use crate::files::handle::read_exactly;
use crate::sync::file_locks::{is_reserved_by_others, lower, raise};
use crate::sync::heirs::{Fate, LATEST};
use crate::sync::lock_table::Level;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, parent_directory};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the dead owner's lock may be in the way, which others take their own from.
const OTHERS_TAKE: Duration = LATEST.saturating_add(Duration::from_millis(100));
/// How long it may be there once it is decided that it is given back.
const RELEASE_ENDS: Duration = Duration::from_millis(5);

/// A transaction on the files, beside strangers.
#[derive(Default)]
pub(super) struct FileTxn {
    /// True while the connection has a slot on the file of the wal-index.
    has_slots: bool,
    written: Written,
    /// The files, once the owner has died.
    own: Option<OwnFiles>,
    /// True once its lock was given up on the way there.
    is_lost: bool,
}

/// What a transaction has written.
#[derive(Default)]
struct Written {
    /// Pages of the database, and of the log with their headers, by their places.
    database: BTreeMap<u64, Box<[u8]>>,
    log: BTreeMap<u64, Box<[u8]>>,
    journal: Option<HeldJournal>,
    bytes: usize,
    is_too_large: bool,
}

impl Written {
    fn part(&mut self, file: FileOf) -> Option<&mut BTreeMap<u64, Box<[u8]>>> {
        match file {
            FileOf::Main => Some(&mut self.database),
            FileOf::Wal => Some(&mut self.log),
            FileOf::Journal => None,
        }
    }

    fn note(&mut self, file: FileOf, buf: &[u8], offset: u64, most: usize) {
        if self.is_too_large {
            return;
        }
        let is_kept = match self.part(file) {
            None => self.journal.as_mut().is_some_and(|journal| journal.write(buf, offset)),
            Some(part) => {
                let before = part.insert(offset, buf.into());
                // SQLite writes the same things at the same place.
                let is_same = before.is_none_or(|before| before.len() == buf.len());
                self.bytes += buf.len();
                is_same && self.bytes <= most
            }
        };
        if !is_kept {
            *self = Written { is_too_large: true, ..Written::default() };
        }
    }

    /// All of it is where it belongs. A journal may stay open, and be another one's from now on: nothing of it is known.
    fn end(&mut self) {
        let mut journal = self.journal.take().filter(|_| !self.is_too_large);
        journal.iter_mut().for_each(|journal| journal.bytes.clear());
        *self = Written { journal, ..Written::default() };
    }

    fn note_len(&mut self, file: FileOf, len: u64) {
        let is_kept = match self.part(file) {
            None => self.journal.as_mut().is_none_or(|journal| journal.set_len(len)),
            Some(part) => {
                part.retain(|offset, _| *offset < len);
                true
            }
        };
        self.is_too_large |= !is_kept;
    }
}

/// The files of a transaction whose owner has died.
pub(super) struct OwnFiles {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    database: Arc<dyn File>,
    /// What is locked on it.
    level: Level,
    log: Option<Arc<dyn File>>,
    journal: Option<Arc<dyn File>>,
    /// True while SQLite takes it for durable, and it was written once more since.
    is_journal_replayed: bool,
    /// True once names in the directory are durable.
    are_names_durable: bool,
    former: FormerOwner,
}

impl OwnFiles {
    /// Opens the files, and makes all writes once more.
    fn open(
        link: &Link,
        (database, former): (Arc<dyn File>, FormerOwner),
        level: Level,
        written: &Written,
    ) -> Result<OwnFiles> {
        let medium = link.vfs.upgrade().ok_or(Error::Busy)?.medium.clone();
        let path = link.opening.path.clone();
        let mut files = OwnFiles {
            medium,
            path,
            database,
            level,
            log: None,
            journal: None,
            is_journal_replayed: false,
            are_names_durable: false,
            former,
        };
        if !written.database.is_empty() && level < Level::Exclusive {
            return Err(unexpected());
        }
        if link.open_flags(FileOf::Wal).is_some() {
            let log = Companion::Wal.of(&files.path);
            files.log = Some(files.medium.open(&log, FileKind::RedoLog, OpenMode::ReadWrite)?);
        }
        let journal = written.journal.as_ref().filter(|journal| !journal.bytes.is_empty());
        if let Some(journal) = journal.filter(|_| level >= Level::Reserved) {
            files.open_journal(journal.flags)?;
            files.write(FileOf::Journal, &journal.bytes, 0)?;
            files.is_journal_replayed = true;
        }
        for (file, part) in [(FileOf::Wal, &written.log), (FileOf::Main, &written.database)] {
            part.iter().try_for_each(|(offset, bytes)| files.write(file, bytes, *offset))?;
        }
        Ok(files)
    }

    /// Opens the journal, by SQLite's flags.
    pub(super) fn open_journal(&mut self, flags: c_int) -> Result<()> {
        let path = Companion::Journal.of(&self.path);
        let medium = self.medium.for_database(&self.database).unwrap_or_else(|| self.medium.clone());
        let is_new = flags & SQLITE_OPEN_CREATE != 0;
        let mode = if is_new { OpenMode::Create } else { OpenMode::ReadWrite };
        self.journal = Some(medium.open(&path, FileKind::Journal, mode)?);
        self.are_names_durable &= !is_new;
        Ok(())
    }

    fn file(&mut self, file: FileOf) -> Result<&dyn File> {
        if file == FileOf::Journal && self.journal.is_none() {
            // The owner had it open. It is new to whoever writes it.
            self.open_journal(if self.level >= Level::Reserved { SQLITE_OPEN_CREATE } else { 0 })?;
        }
        let opened = match file {
            FileOf::Main => Some(&self.database),
            FileOf::Journal => self.journal.as_ref(),
            FileOf::Wal => self.log.as_ref(),
        };
        opened.map(|file| &**file).ok_or(Error::Busy)
    }

    /// Reads from a file.
    pub(super) fn read(&mut self, file: FileOf, buf: &mut [u8], offset: u64) -> Result<()> {
        read_exactly(self.file(file)?, buf, offset)
    }

    /// Writes to a file.
    pub(super) fn write(&mut self, file: FileOf, buf: &[u8], offset: u64) -> Result<()> {
        self.before_change(file)?;
        Ok(self.file(file)?.write_at(buf, offset)?)
    }

    /// Before the database changes, what it may be rolled back by is durable.
    fn before_change(&mut self, file: FileOf) -> Result<()> {
        if file == FileOf::Main && self.log.is_some() {
            self.sync_names()?;
        }
        if file == FileOf::Main && self.is_journal_replayed {
            self.sync(FileOf::Journal)?;
        }
        Ok(())
    }

    /// Changes the length of a file.
    pub(super) fn set_len(&mut self, file: FileOf, len: u64) -> Result<()> {
        self.before_change(file)?;
        Ok(self.file(file)?.set_len(len)?)
    }

    /// Bytes of a file.
    pub(super) fn len(&mut self, file: FileOf) -> Result<u64> {
        Ok(self.file(file)?.len()?)
    }

    /// Makes durable what was written to a file, and the names of the files.
    pub(super) fn sync(&mut self, file: FileOf) -> Result<()> {
        self.file(file)?.sync()?;
        if file == FileOf::Main {
            return Ok(());
        }
        self.sync_names()?;
        self.is_journal_replayed &= file != FileOf::Journal;
        Ok(())
    }

    fn sync_names(&mut self) -> Result<()> {
        if !self.are_names_durable {
            self.medium.sync_directory(parent_directory(&self.path))?;
            self.are_names_durable = true;
        }
        Ok(())
    }

    /// Raises the lock. What the dead owner has locked is given back once others have had their time.
    pub(super) fn lock(&mut self, to: Level) -> Result<()> {
        let before = self.level;
        let (mut until, mut is_released) = (Instant::now() + OTHERS_TAKE, false);
        loop {
            if !is_released && self.former.is_released() {
                (until, is_released) = (Instant::now() + RELEASE_ENDS, true);
            }
            raise(&mut self.level, &*self.database, before, to)?;
            if self.level >= to {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Error::Busy);
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Lowers the lock.
    pub(super) fn unlock(&mut self, to: Level) -> Result<()> {
        lower(&mut self.level, &*self.database, to)
    }

    /// True if another handle has RESERVED.
    pub(super) fn is_reserved(&self) -> Result<bool> {
        is_reserved_by_others(&*self.database)
    }

    /// Deletes the journal or the log.
    pub(super) fn delete(&mut self, file: FileOf, sync_directory: bool) -> Result<()> {
        let path = self.companion(file)?;
        // The dead owner may have been as far.
        if self.medium.identity(&path)?.is_some() {
            self.medium.delete(&path)?;
        }
        self.are_names_durable = false;
        if sync_directory { self.sync_names() } else { Ok(()) }
    }

    /// True if the journal or the log is there.
    pub(super) fn is_there(&self, file: FileOf) -> Result<bool> {
        Ok(self.medium.info(&self.companion(file)?)?.is_some_and(|info| info.len > 0))
    }

    fn companion(&self, file: FileOf) -> Result<PathBuf> {
        match file {
            FileOf::Main => Err(unexpected()),
            FileOf::Journal => Ok(Companion::Journal.of(&self.path)),
            FileOf::Wal => Ok(Companion::Wal.of(&self.path)),
        }
    }
}

impl Link {
    /// The connection has slots on the file of the wal-index from now on, or has none.
    pub(super) fn note_file_slots(&self, has_slots: bool) {
        let mut txn = self.file_txn.lock();
        if !has_slots {
            self.forget_file_txn(&mut txn);
        } else if !std::mem::replace(&mut txn.has_slots, true) {
            // Nothing is written yet.
            txn.written = Written::default();
        }
    }

    /// SQLite writes to one of the files. `true` where that is done; otherwise the owner is told.
    pub(super) fn note_write(&self, file: FileOf, buf: &[u8], offset: u64) -> Result<bool> {
        let channel = self.channel();
        let mut txn = self.file_txn.lock();
        if let Some(own) = self.opened(&mut txn) {
            own.write(file, buf, offset)?;
            return Ok(true);
        }
        // A checkpoint waits for each of its pages.
        let is_checkpoint = file == FileOf::Main && self.open_flags(FileOf::Wal).is_some();
        match channel.borrowing.are_strangers_there() {
            _ if is_checkpoint => {}
            true => txn.written.note(file, buf, offset, most_held(&self.opening.options)),
            // What is known is all of it, or nothing.
            false => txn.written = Written { is_too_large: true, ..Written::default() },
        }
        Ok(false)
    }

    /// What was written is where it belongs.
    pub(super) fn forget_written(&self) {
        self.file_txn.lock().written.end();
    }

    /// The owner has changed the length of a file, or has died before.
    pub(super) fn end_truncate(&self, told: Result<()>, file: FileOf, len: u64) -> Result<()> {
        self.or_by_itself(told, |_| Ok(()))?;
        let mut txn = self.file_txn.lock();
        txn.written.note_len(file, len);
        // The owner may have died since, and what it has cut off may have been written once more.
        self.opened(&mut txn).map_or(Ok(()), |own| own.set_len(file, len))
    }

    /// SQLite has a lock: so have the own files, which may have been opened before it was known.
    pub(super) fn confirm_lock(&self, level: Level) -> Result<()> {
        match self.opened(&mut self.file_txn.lock()) {
            Some(own) if own.level < level => own.lock(level),
            _ => Ok(()),
        }
    }

    /// The journal was closed.
    pub(super) fn note_journal_closed(&self) {
        self.file_txn.lock().written.journal = None;
    }

    /// The owner has opened the journal, or has died before: then this process has it open.
    pub(super) fn open_own_journal(&self, opened: Result<c_int>, flags: c_int) -> Result<c_int> {
        let opened = self.or_by_itself(opened, |own| own.open_journal(flags).map(|()| flags))?;
        // One that is there is only read.
        let is_new = flags & SQLITE_OPEN_CREATE != 0;
        let journal = is_new.then(|| HeldJournal::new(flags, most_held(&self.opening.options)));
        self.file_txn.lock().written.journal = journal;
        Ok(opened)
    }

    /// Copies what the transaction has written there; `false` where that is not known.
    pub(super) fn copy_written(&self, file: FileOf, buf: &mut [u8], offset: u64) -> bool {
        let mut txn = self.file_txn.lock();
        let found = txn.written.part(file).and_then(|part| part.get(&offset));
        found.filter(|bytes| bytes.len() == buf.len()).map(|bytes| buf.copy_from_slice(bytes)).is_some()
    }

    /// The transaction has given locks back.
    pub(super) fn end_file_txn(&self, to: Level) -> Result<()> {
        let mut txn = self.file_txn.lock();
        if to < Level::Reserved {
            txn.written.end();
        }
        let unlocked = self.opened(&mut txn).map_or(Ok(()), |own| own.unlock(to));
        if to == Level::None {
            self.forget_file_txn(&mut txn);
        }
        unlocked
    }

    fn forget_file_txn(&self, txn: &mut FileTxn) {
        *txn = FileTxn::default();
        self.has_left_owner.store(false, Ordering::SeqCst);
    }

    /// Makes a call of a transaction by its own files, where the owner has not made it, since it has died; otherwise the answer is the owner's.
    pub(super) fn or_by_itself<T>(
        &self,
        asked: Result<T>,
        call: impl FnOnce(&mut OwnFiles) -> Result<T>,
    ) -> Result<T> {
        if asked.is_ok() {
            return asked;
        }
        let mut txn = self.file_txn.lock();
        match self.own_files(&mut txn) {
            Some(own) => call(own),
            None => asked,
        }
    }

    /// True if the transaction goes on by itself.
    pub(super) fn goes_by_itself(&self) -> bool {
        self.own_files(&mut self.file_txn.lock()).is_some()
    }

    /// True if the dead owner had made a commit with which the transaction `ends`, and had let strangers in behind it. It is durable: before them all that was
    /// committed is brought home (`open/sharing/leaving`).
    pub(super) fn was_committed_before_strangers(&self, txn: &HeldTxn, ends: bool) -> bool {
        fate_beside_strangers(txn.orphan(self.token, ends)) == Some(Fate::Committed)
    }

    /// The files that were opened; a forked child's are its parent's.
    fn opened<'a>(&self, txn: &'a mut FileTxn) -> Option<&'a mut OwnFiles> {
        txn.own.as_mut().filter(|_| self.channel().is_of_this_process())
    }

    fn own_files<'a>(&self, txn: &'a mut FileTxn) -> Option<&'a mut OwnFiles> {
        if txn.own.is_none() {
            txn.own = self.open_own_files(txn);
        }
        self.opened(txn)
    }

    fn open_own_files(&self, txn: &mut FileTxn) -> Option<OwnFiles> {
        let channel = self.channel();
        let _ = channel.look();
        let level = self.level();
        let has_log = self.open_flags(FileOf::Wal).is_some();
        let is_under_way = if has_log { txn.has_slots } else { level >= Level::Shared };
        let has_lost_owner = channel.has_lost_owner() && channel.borrowing.are_strangers_there();
        if !is_under_way || !has_lost_owner || txn.written.is_too_large || txn.is_lost {
            return None;
        }
        // Where the file has lost its name, those of its journal and its log are another one's.
        if self.has_moved() != Some(false) {
            return None;
        }
        self.carry_to(&mut txn.written)?;
        let level = if self.txn.lock().is_reserved { level.max(Level::Reserved) } else { level };
        let own = match open_again(channel.borrowing.marks(), &self.opening.path, level) {
            Reopened::NotYet => return None,
            Reopened::Lost => None,
            Reopened::Ours(file, former) => OwnFiles::open(self, (file, former), level, &txn.written).ok(),
        };
        // Others may have the database from now on.
        txn.is_lost = own.is_none();
        self.has_left_owner.store(true, Ordering::SeqCst);
        own
    }

    /// What the member holds of its transaction becomes files; `None` where pages of it depend on the owner.
    fn carry_to(&self, written: &mut Written) -> Option<()> {
        let mut held = self.txn.lock();
        if held.pages.as_ref().is_some_and(|pages| pages.has_changes() || pages.sync_wanted) {
            return None;
        }
        held.pages = None;
        if let Some(journal) = held.journal.take() {
            self.note_open(FileOf::Journal, Some(journal.flags));
            written.journal = Some(journal);
        }
        Some(())
    }

    /// The owner with these marks has died: its transaction goes on, whatever the connection does just now. `false` where a call is under way, which may see to
    /// it.
    fn keep_file_txn(&self, marks: u64) -> bool {
        let channel = self.channel();
        if channel.borrowing.marks() != marks {
            return true;
        }
        // The system ends the streams of a process one after the other.
        if channel.look().is_ok() {
            return false;
        }
        match self.file_txn.try_lock() {
            Some(mut txn) => drop(self.own_files(&mut txn)),
            // The call may wait until this process lets the dead owner's locks go.
            None => return self.has_left_owner.load(Ordering::SeqCst),
        }
        true
    }
}

/// The owner with these marks has died beside strangers: the transactions that these connections have had with it go on.
pub(super) fn keep_file_txns(links: Vec<Arc<Link>>, marks: u64) {
    let until = Instant::now() + LAST_STREAM;
    let mut left = links;
    loop {
        left.retain(|link| !link.keep_file_txn(marks));
        if left.is_empty() || Instant::now() >= until {
            return;
        }
        std::thread::sleep(GLANCE);
    }
}

#[cfg(test)]
mod tests;
