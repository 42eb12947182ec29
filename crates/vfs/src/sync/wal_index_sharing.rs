//! The wal-index shared with other processes: its regions become the file `-shm`, and memory again, under the addresses that
//! SQLite knows.
//!
//! # States
//! ```text
//! memory --share--> file         the owner lets others in: all slots free, the owner lock still exclusive
//! memory --share_as_it_is--> file    the same beside readers that share slots, and go on with their index
//! memory --join_shared--> file   others have the database open already; idle connections of this process go on
//! memory --join_file--> file     the first handle of this process begins to use a multi-process database's index
//! file --unshare--> memory       this process has the owner lock again
//! file --leave--> memory         the last handle of this process is gone
//! ```
//!
//! # Equal indexes
//! SQLite believes that a database is unchanged where the header of the index is what the connection has seen last. An index
//! that is made from a log with frames has the salts and the checksum of that log, so it equals only an index of the same
//! frames. All indexes that SQLite makes from an empty log are equal, also where the log was full and empty again
//! meanwhile. So an empty log's index is not left to SQLite: [`WalIndex::share`] writes it, unlike all before, and
//! [`WalIndex::make_of_empty_log`] does so in memory. To change the one that SQLite has made would be too late: others may begin to read by it
//! before the write slot is given back. [`WalIndex::join_shared`] changes the change counter of the index that it finds, under the write slot, as a commit does. So does
//! [`WalIndex::join_file`] in an owner of a group: members of the owner before may remember an index, and come to this one.
//!
//! # Invariants
//! 1. All regions are the file's, or none is. Where that cannot be restored after an error, no slot is locked any more. Regions of a
//!    file that has lost its name, after [`WalIndex::share_as_it_is`] has failed, are memory like any other.
//! 2. The file is as long as the regions of this process, from the moment that they are its.
//! 3. A reader's slot is locked on the file before the file has the reader's index, and before another process can open it.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::sync::shm_file::ShmFile;
use crate::sync::wal_index::{
    COPY_WORDS, FRAME_SUM_WORD, HeldSlots, LAST_FRAME_WORD, READ_SLOTS, RECOVERY_SLOT, SUM_WORD,
    VERSION_WORD, WRITE_SLOT, WalIndex, WalIndexState, write_header,
};
use crate::sync::wal_index_marks::{
    ATTEMPTED_WORD, BACKFILL_WORD, READ_MARK_WORDS, REGION_BYTES, UNUSED_MARK,
};
use crate::sync::wal_index_region::{Region, page_bytes, regions_per_mapping};
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use litefoot_storage::wal_file::format::Header;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The version of a wal-index (`WALINDEX_MAX_VERSION`).
const VERSION: u32 = 3_007_000;
/// The word of a header whose first byte says that it is complete (`isInit`).
const INIT_WORD: usize = 3;

/// The log that an index was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedLog {
    /// Its frames.
    pub frames: u32,
    /// The checksum of the last one.
    pub checksum: [u32; 2],
}

impl WalIndex {
    /// The regions become the new file `path`. It has the index of an empty log where `log_is_empty`: where SQLite would find
    /// no frame in `-wal`. Otherwise it has zeros, and the first process that comes makes the index.
    ///
    /// No handle holds a slot. No other process has the database open, or can open it now.
    ///
    /// # Errors
    /// The regions are memory, zeros: the next reader makes another index.
    pub fn share(&self, medium: &Arc<dyn Medium>, path: &Path, log_is_empty: bool) -> Result<()> {
        let mut state = self.state();
        if state.is_unused() || state.file.is_some() {
            return Ok(());
        }
        let made = ShmFile::create(medium, path).and_then(|file| self.begin(&mut state, file));
        match (made, state.regions.first()) {
            (Ok(()), Some(first)) if log_is_empty => write_empty(first, 0),
            (Ok(()), _) => {}
            (Err(error), _) => {
                state.regions.iter().for_each(Region::clear);
                self.renewed.store(true, Ordering::SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The log of the index, where the index can be others' as it is, with all that its readers see. All of them see `freed_below` frames:
    /// older versions of their pages were freed. No handle holds a slot exclusively.
    pub fn indexed_log(&self, freed_below: u32) -> Option<IndexedLog> {
        let state = self.state();
        let header = read_header(state.regions.first()?)?;
        if state.file.is_some() || self.renewed.load(Ordering::SeqCst) {
            return None;
        }
        state.raise_marks(freed_below);
        Some(IndexedLog {
            frames: header[LAST_FRAME_WORD],
            checksum: [header[FRAME_SUM_WORD], header[FRAME_SUM_WORD + 1]],
        })
    }

    /// The regions become the new file `path` as they are, beside readers. The slots that these share are locked on the file. Members that share slots by
    /// their seats keep the memory, which nobody changes from now on.
    ///
    /// No handle holds a slot exclusively, or gets one. No other process has the database open, or can open it now.
    ///
    /// # Errors
    /// The regions are as they were, and no file's that has a name.
    pub fn share_as_it_is(&self, medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
        let mut state = self.state();
        if state.file.is_some() {
            return Err(Error::Busy);
        }
        let mut file = ShmFile::create(medium, path)?;
        // First of all: a reader that leaves from now on waits for the lock, and gives back what is locked here.
        self.on_file.store(true, Ordering::SeqCst);
        let is_locked = file.share(state.shared_slots());
        let copied = if is_locked { state.copy_all(&file) } else { Err(Error::Busy) };
        if let Err(error) = copied.and_then(|()| state.map_all(&file)) {
            state.rejoin_memory();
            self.on_file.store(false, Ordering::SeqCst);
            file.close(true);
            return Err(error);
        }
        state.file = Some(file);
        state.begin_epoch();
        // Members that have left before the epoch began have told nobody.
        state.give_back(u8::MAX);
        (state.checkpoint_sees, state.snapshots_from) = (0, 0);
        Ok(())
    }

    /// Undoes [`WalIndex::share_as_it_is`] at once. Snapshots that were refused are refused still: the index says so.
    pub fn keep_as_it_is(&self) {
        let mut state = self.state();
        self.on_file.store(false, Ordering::SeqCst);
        if let Some(file) = state.file.take() {
            file.close(true);
            // Where there is no group the regions are what was the file.
            state.rejoin_memory();
        }
    }

    /// A handle has taken the write slot, and the log is empty: where there is no index, SQLite would make one next. It finds this one, since it
    /// looks once more under the slot.
    pub(crate) fn make_of_empty_log(&self, held: &HeldSlots) {
        let state = self.state();
        let Some(first) = state.regions.first().filter(|_| state.file.is_none()) else { return };
        if !held.writes() || read_header(first).is_some() {
            return;
        }
        // An application may keep everybody from making an index, and so from reading. SQLite asks for that slot next.
        let others = self.exclusive.glance() & !held.exclusive;
        if others >> RECOVERY_SLOT & 1 != 0 {
            self.renewed.store(true, Ordering::SeqCst);
        } else {
            write_empty(first, state.shared_slots());
            self.renewed.store(false, Ordering::SeqCst);
        }
    }

    /// Gives back on the file what no handle shares any more. A reader that left while the state changed may have told the memory
    /// only.
    pub fn trim(&self) {
        self.state().give_back(u8::MAX);
    }

    /// The same where other processes have the database open already: the file's content stays as it is. No handle holds a slot,
    /// and nothing counts that is in memory.
    ///
    /// # Errors
    /// [`Error::Busy`] where somebody writes: the caller tries again. The regions are memory.
    pub fn join_shared(&self, medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
        let mut state = self.state();
        if state.is_unused() || state.file.is_some() {
            return Ok(());
        }
        self.open(&mut state, medium, path)
    }

    /// A handle starts to use the memory of a multi-process database. The first one opens the file.
    ///
    /// # Errors
    /// As [`WalIndex::join_shared`].
    pub fn join_file(&self, medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
        let mut state = self.state();
        if state.file.is_none() {
            self.open(&mut state, medium, path)?;
        }
        state.users += 1;
        Ok(())
    }

    /// The regions become memory again, zeros. The file is closed, and deleted where `delete`. No handle holds a slot. No other
    /// process has the database open, or can open it now.
    ///
    /// # Errors
    /// The regions are the file's still.
    pub fn unshare(&self, delete: bool) -> Result<()> {
        let mut state = self.state();
        if let Some(mut file) = state.file.take() {
            if let Err(error) = state.unmap(&file) {
                file.broken = state.map_all(&file).is_err();
                state.file = Some(file);
                return Err(error);
            }
            self.on_file.store(false, Ordering::SeqCst);
            file.close(delete);
            self.renewed.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// True if another process reads the log: a member by its seat, or a stranger.
    pub fn is_read_by_others(&self) -> Result<bool> {
        let state = self.state();
        if state.shared_by_members() >> READ_SLOTS != 0 {
            return Ok(true);
        }
        let readers = READ_SLOTS as u32..u8::BITS;
        state.file.as_ref().map_or(Ok(false), |file| Ok(file.is_held_by_others(readers)?))
    }

    /// A handle shares slots no more; gives back what no handle of this process shares.
    #[cold]
    pub(super) fn unshare_on_file(&self, held: &HeldSlots, mask: u8) {
        let mut state = self.state();
        held.unshare(mask);
        state.give_back(mask);
    }

    /// The last handle is gone.
    pub(super) fn leave_file(&self, state: &mut WalIndexState, delete: bool) {
        // Inherited connections may come yet, and know the addresses. There must be nothing of the file: whoever adopts the
        // regions next clears their header.
        if state.regions.iter().any(|region| region.inherited) {
            let Some(mut file) = state.file.take() else { return };
            if state.unmap(&file).is_err() {
                file.broken = true;
                state.file = Some(file);
                return;
            }
            self.on_file.store(false, Ordering::SeqCst);
            return file.close(delete);
        }
        state.regions.clear();
        state.renew_memory();
        self.on_file.store(false, Ordering::SeqCst);
        if let Some(file) = state.file.take() {
            file.close(delete);
        }
    }

    /// Opens the file that others may have open.
    fn open(&self, state: &mut WalIndexState, medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
        let file = ShmFile::open(medium, path)?;
        // Members that come from another owner remember its index.
        let has_memory = !state.regions.is_empty();
        if !has_memory && self.expects_members.load(Ordering::Relaxed) {
            let bytes = REGION_BYTES * regions_per_mapping(REGION_BYTES, page_bytes());
            state.regions.push(Region::new(bytes).ok_or(Error::NoMemory)?);
        }
        let mut opened = self.begin(state, file);
        if opened.is_ok()
            && let Err(error) = state.make_different(&**medium, path)
        {
            opened = Err(match state.file.take() {
                Some(file) => self.take_back(state, file, error),
                None => error,
            });
        }
        if opened.is_err() && !has_memory && state.file.is_none() {
            state.regions.clear();
        }
        opened
    }

    /// The regions become the file.
    fn begin(&self, state: &mut WalIndexState, file: ShmFile) -> Result<()> {
        self.on_file.store(true, Ordering::SeqCst);
        if let Err(error) = state.map_all(&file) {
            return Err(self.take_back(state, file, error));
        }
        state.file = Some(file);
        state.begin_epoch();
        (state.checkpoint_sees, state.snapshots_from) = (0, 0);
        self.renewed.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// The regions become memory after an error.
    fn take_back(&self, state: &mut WalIndexState, mut file: ShmFile, error: Error) -> Error {
        if state.unmap(&file).is_err() {
            file.broken = true;
            state.file = Some(file);
        } else {
            self.on_file.store(false, Ordering::SeqCst);
            self.renewed.store(true, Ordering::SeqCst);
            file.close(false);
        }
        error
    }
}

impl WalIndexState {
    /// True if neither a handle nor an inherited connection knows a region.
    fn is_unused(&self) -> bool {
        self.users == 0 && self.regions.is_empty()
    }

    /// Makes regions until there are so many, of so many bytes; `false` where there are fewer and `extend` is not set.
    pub(super) fn make(&mut self, needed: usize, bytes: usize, extend: bool) -> Result<bool> {
        if self.regions.len() >= needed {
            return Ok(true);
        }
        let is_there = match &self.file {
            Some(file) if file.broken => return Err(broken(file)),
            Some(file) => file.has_bytes((needed * bytes) as u64, extend)?,
            None => extend,
        };
        while is_there && self.regions.len() < needed {
            let mut region = Region::new(bytes).ok_or(Error::NoMemory)?;
            let offset = (self.regions.len() * bytes) as u64;
            match (&self.file, &self.group) {
                (Some(file), _) => region.share(file.file(), offset)?,
                (None, Some(group)) => group.hold(&mut region, offset)?,
                (None, None) => {}
            }
            self.regions.push(region);
        }
        Ok(is_there)
    }

    /// Unlocks those of the slots on the file that no handle shares.
    fn give_back(&mut self, mask: u8) {
        let still_shared = self.shared_slots();
        self.forget_unread_frames();
        let Some(file) = &mut self.file else { return };
        let given_back = file.shared() & mask & !still_shared;
        if given_back != 0 {
            file.unlock(given_back);
        }
    }

    /// Copies the regions to the file.
    fn copy_all(&self, file: &ShmFile) -> Result<()> {
        file.has_bytes(self.regions.iter().map(|region| region.bytes() as u64).sum(), true)?;
        let mut offset = 0;
        for region in &self.regions {
            region.copy_to(file.file(), offset)?;
            offset += region.bytes() as u64;
        }
        Ok(())
    }

    fn map_all(&mut self, file: &ShmFile) -> Result<()> {
        let bytes = self.regions.iter().map(|region| region.bytes() as u64).sum();
        file.has_bytes(bytes, true)?;
        let mut offset = 0;
        for region in &mut self.regions {
            region.share(file.file(), offset)?;
            offset += region.bytes() as u64;
        }
        Ok(())
    }

    /// Zeros take the place of the file: with the header last, by which all others count.
    fn unmap(&mut self, file: &ShmFile) -> Result<()> {
        let unmapped = self.regions.iter_mut().rev().try_for_each(|region| region.unshare(file.path()));
        self.renew_memory();
        Ok(unmapped?)
    }

    /// Makes the index of the file different from what idle connections of this process remember.
    fn make_different(&mut self, medium: &dyn Medium, path: &Path) -> Result<()> {
        let (Some(first), Some(file)) = (self.regions.first(), &mut self.file) else { return Ok(()) };
        let write_slot = 1 << WRITE_SLOT;
        if !file.lock_exclusively(write_slot, None) {
            return Err(Error::Busy);
        }
        let made = if let Some(header) = read_header(first) {
            // SAFETY: the first region, and the write slot is held.
            unsafe { write_header(first, header) };
            Ok(())
        } else {
            // A process has died while it changed the header, or has emptied the file and made no index yet: SQLite leaves three bytes.
            clear_header(first);
            is_void(medium, path).map(|is_void| {
                if is_void {
                    write_empty(first, 0)
                }
            })
        };
        file.unlock(write_slot);
        made
    }
}

fn broken(file: &ShmFile) -> Error {
    Error::Io(format!(
        "{}: memory could not be mapped; close every connection of this process to the database, and open it again",
        file.path().display()
    ))
}

/// The header of the index, where it is whole. Under the write slot.
pub(super) fn read_header(first: &Region) -> Option<[u32; COPY_WORDS]> {
    // SAFETY: a region is far larger.
    let word = |number| unsafe { first.word(number) }.load(Ordering::SeqCst);
    let [header, copy] = [0, COPY_WORDS].map(|start| std::array::from_fn(|place| word(start + place)));
    let is_whole = header == copy && header[VERSION_WORD] != 0 && header[INIT_WORD].to_ne_bytes()[0] != 0;
    is_whole.then_some(header)
}

/// Zeros take the place of a header that is none: whoever comes makes the index anew. Under the write slot.
fn clear_header(first: &Region) {
    // SAFETY: a region is far larger.
    (0..2 * COPY_WORDS).for_each(|number| unsafe { first.word(number) }.store(0, Ordering::SeqCst));
}

/// True where SQLite finds no log, or none that is one. It would make an index like any other of an empty log. Of any other log it
/// makes one with the salts of that.
fn is_void(medium: &dyn Medium, path: &Path) -> Result<bool> {
    let name = path.as_os_str().as_bytes();
    let database = Path::new(OsStr::from_bytes(
        name.strip_suffix(Companion::WalIndex.suffix().as_bytes()).unwrap_or(name),
    ));
    let log = Companion::Wal.of(database);
    if medium.identity(&log)?.is_none() {
        return Ok(true);
    }
    let mut first = [0; 4];
    let read = medium.open(&log, FileKind::RedoLog, OpenMode::ReadOnly)?.read_at(&mut first, 0)?;
    Ok(!Header::begins(&first[..read]))
}

/// Writes the index of an empty log, as SQLite makes it, but for a change counter of its own. Under the write slot, or where nobody else uses the
/// region. Marks of slots that are `shared` stay.
fn write_empty(first: &Region, shared: u8) {
    let mut header = [0; COPY_WORDS];
    header[VERSION_WORD] = VERSION;
    header[INIT_WORD] = u32::from_ne_bytes([1, 0, 0, 0]);
    debug_assert!(header[SUM_WORD..] == [0, 0]);
    // SAFETY: a region is far larger, and this is the first one.
    unsafe {
        for word in [BACKFILL_WORD, ATTEMPTED_WORD] {
            first.word(word).store(0, Ordering::SeqCst);
        }
        for mark in (1..5).filter(|mark| shared >> (READ_SLOTS + mark) & 1 == 0) {
            first.word(READ_MARK_WORDS + mark).store(UNUSED_MARK, Ordering::SeqCst);
        }
        write_header(first, header);
    }
}

#[cfg(test)]
mod tests;
