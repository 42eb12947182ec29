//! The file of a redo log: its name, its lock, its space, and the parts of it that are not durable yet.
//!
//! # Invariants
//! 1. The latch is checked before every write, and watches every sync and every durable write.
//! 2. `unsynced` and `name_unsynced` are cleared only by a sync that succeeded, or with the file. A [`Flush`] is such a sync.
//! 3. Every byte below `allocated` was written at least once, or is about to be.

use super::compact::{new_path, remove_remnant};
use super::format::HEADER_BYTES;
use super::kept::{KeptLog, void_header};
use super::origin::DataFile;
use crate::file::{
    DeviceError, File, FileKind, Medium, OpenMode, Operation, Result, SyncLatch, beside, parent_directory,
};
use crate::log_file::{Durability, Flush, InUse, Unsynced, set_aside, space, step_back};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suffix that SQLite gives the name of a database for its log.
const WAL_SUFFIX: &str = "-wal";

/// Most bytes of a file that is left for the next opening: SQLite's own log grows to as many.
const MOST_KEPT_BYTES: u64 = 4 << 20;

/// The place of the file of an open log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Where it was opened, or there is none yet.
    AtItsName,
    /// It was renamed, removed or replaced, or has given its name up.
    Elsewhere,
    /// It has its name, and frames were cut off.
    Cut,
}

/// How a log's removal is made durable.
///
/// # Why
/// A directory's sync writes every block of the file system that creating and removing the file has changed: eight on ext4.
/// A void header is one block. So a log at SQLite's own name is voided, durably, before it loses its name. A power cut may
/// bring the name back. SQLite and litefoot then find a log without frames there, whatever another program has written to
/// the database meanwhile.
///
/// A log at another name lies beside a tier's device, where its presence alone tells something. Its name must be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Removal {
    voids: bool,
    syncs_directory: bool,
}

impl Removal {
    fn of(is_named: bool, is_beside_data: bool) -> Removal {
        Removal { voids: !is_named || is_beside_data, syncs_directory: is_named && !is_beside_data }
    }
}

/// The file of a redo log, which may not exist yet.
pub(super) struct LogFile {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    latch: Arc<SyncLatch>,
    /// The data file of the log, where its origin is to be known.
    data: Option<DataFile>,
    opened: Option<Arc<dyn File>>,
    in_use: Option<InUse>,
    /// True while the file's name may not be durable.
    name_unsynced: bool,
    /// Bytes that were written without a sync.
    unsynced: Unsynced,
    /// Bytes of the file that were written at least once.
    allocated: u64,
    /// Bytes of the file that there is space for.
    claimed: u64,
    /// True for a file that another process has left, which may have ended in a compaction.
    found: bool,
    /// The mark of a file that this process has left void, durably, and in which nothing was written since.
    kept: Option<KeptLog>,
    /// The name that the file has given up, while it has one of its own.
    given_up: Option<PathBuf>,
}

impl LogFile {
    /// A log without a file.
    pub fn new(
        medium: Arc<dyn Medium>,
        path: &Path,
        latch: Arc<SyncLatch>,
        data: Option<DataFile>,
    ) -> LogFile {
        LogFile {
            medium,
            path: path.to_owned(),
            latch,
            data,
            opened: None,
            in_use: None,
            name_unsynced: false,
            unsynced: Unsynced::default(),
            allocated: 0,
            claimed: 0,
            found: false,
            kept: None,
            given_up: None,
        }
    }

    /// A log without a file, of the same data file and with another name, which nothing of a compaction has any more.
    pub fn beside(&self, path: &Path) -> Result<LogFile> {
        remove_remnant(&*self.medium, path)?;
        Ok(LogFile::new(self.medium.clone(), path, self.latch.clone(), self.data.clone()))
    }

    /// Gives the file the name of another log, which loses it.
    pub fn rename_over(&mut self, path: &Path) -> Result<()> {
        self.latch.check(&self.path)?;
        self.medium.rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        self.name_unsynced = true;
        Ok(())
    }

    /// Opens and locks the file, if there is one; only looks at it in [`OpenMode::ReadOnly`].
    pub fn find(&mut self, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        if !self.medium.info(&self.path)?.is_some_and(|info| info.is_file) {
            return Ok(None);
        }
        let file = self.medium.open(&self.path, FileKind::RedoLog, mode)?;
        if mode != OpenMode::ReadOnly {
            self.in_use = Some(InUse::take(&file)?);
        }
        self.allocated = file.len()?;
        Ok(Some(file))
    }

    /// Takes over a file that was found, and scanned.
    pub fn take_over(&mut self, file: Arc<dyn File>) {
        self.opened = Some(file);
        // The writer may have died before the name, or the last bytes, were durable.
        self.name_unsynced = true;
        self.unsynced.note_write();
        self.found = true;
    }

    /// Takes over a file that the last opening has left void: its name, and that nothing counts in it, are durable.
    pub fn take_over_kept(&mut self, file: Arc<dyn File>, kept: KeptLog) {
        self.opened = Some(file);
        self.kept = Some(kept);
    }

    /// True if there is a file, other than a kept one that is untouched.
    pub fn is_used(&self) -> bool {
        self.opened.is_some() && self.kept.is_none()
    }

    /// True where no header counts in the file, durably. The next one may then become durable together with the first
    /// frames. Somebody is about to write it.
    pub fn take_void(&mut self) -> bool {
        self.opened.is_none() || self.kept.take().is_some()
    }

    /// A log that has no file will have it at another place.
    pub fn relocate(&mut self, path: &Path) {
        if self.opened.is_none() {
            path.clone_into(&mut self.path);
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file; `None` while there is none.
    pub fn opened(&self) -> Option<&Arc<dyn File>> {
        self.opened.as_ref()
    }

    /// The data file of the log, where its origin is to be known.
    pub fn data(&self) -> Option<&DataFile> {
        self.data.as_ref()
    }

    /// Bytes of the file that were written at least once.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// The latch of the database.
    pub fn latch(&self) -> &Arc<SyncLatch> {
        &self.latch
    }

    /// Notes that somebody has written the bytes before `end`, and whether they wait for a sync.
    pub fn note_written(&mut self, end: u64, unsynced: bool) {
        self.allocated = self.allocated.max(end);
        if unsynced {
            self.unsynced.note_write();
        }
    }

    /// The place of the file, of which `bytes` count. One call to the medium.
    pub fn whereabouts(&self, bytes: u64) -> Result<Whereabouts> {
        let Some(file) = &self.opened else { return Ok(Whereabouts::AtItsName) };
        if self.is_aside() {
            return Ok(Whereabouts::Elsewhere);
        }
        Ok(match self.medium.glance(&self.path)? {
            Some((id, _)) if id != file.id() => Whereabouts::Elsewhere,
            Some((_, len)) if len < bytes => Whereabouts::Cut,
            Some(_) => Whereabouts::AtItsName,
            None => Whereabouts::Elsewhere,
        })
    }

    /// True if no write and no name waits for a sync.
    pub fn is_synced(&self) -> bool {
        !self.unsynced.is_any() && !self.name_unsynced
    }

    /// True if some write waits for a sync.
    pub fn is_unsynced(&self) -> bool {
        self.unsynced.is_any()
    }

    /// Refuses to write after a failed sync.
    pub fn check(&self) -> Result<()> {
        self.latch.check(&self.path)
    }

    /// Writes bytes that the next sync makes durable.
    pub fn write_later(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(file) = &self.opened else { return Ok(()) };
        self.latch.check(&self.path)?;
        file.write_vectored_at(&[IoSlice::new(bytes)], offset)?;
        self.unsynced.note_write();
        Ok(())
    }

    /// Writes bytes durably.
    pub fn write_durably(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(file) = &self.opened else { return Ok(()) };
        self.latch.check(&self.path)?;
        self.latch.watch(file.write_durable_at(&[IoSlice::new(bytes)], offset))
    }

    /// Overwrites bytes after a failure, as far as the device lets it: the latch is closed by then.
    pub fn void(&self, bytes: &[u8], offset: u64) {
        if let Some(file) = &self.opened {
            let _ = file.write_at(bytes, offset);
        }
    }

    /// Notes that bytes were, or will be, written to [`LogFile::opened`] without a sync.
    pub fn mark_unsynced(&mut self) {
        self.unsynced.note_write();
    }

    /// Closes the file, which stays as it is.
    pub fn close(&mut self) {
        self.opened = None;
        self.in_use = None;
        self.forget_aside();
    }

    /// The next file has the name that this one had.
    fn forget_aside(&mut self) {
        if let Some(name) = self.given_up.take() {
            self.path = name;
        }
    }

    /// The file, created where there is none. No other file is replaced, and none is created beside a file that has
    /// taken the data file's name.
    pub fn open_or_create(&mut self) -> Result<Arc<dyn File>> {
        if let Some(file) = &self.opened {
            return Ok(file.clone());
        }
        if let Some(data) = &self.data
            && !data.has_its_name(&*self.medium)?
        {
            let moved = io::Error::new(io::ErrorKind::NotFound, "the database was renamed or removed");
            return Err(DeviceError::new(Operation::Open, &self.path, moved));
        }
        let file = self.medium.open(&self.path, FileKind::RedoLog, OpenMode::CreateNew)?;
        self.in_use = Some(InUse::take(&file)?);
        self.name_unsynced = true;
        self.opened = Some(file.clone());
        Ok(file)
    }

    /// Removes the file. After a power cut nothing in it counts, if its name comes back ([`Removal`]). A file that has lost its
    /// name stays, void.
    pub fn delete(&mut self) -> Result<()> {
        (self.allocated, self.claimed) = (0, 0);
        self.unsynced.clear();
        self.name_unsynced = false;
        self.kept = None;
        let Some(file) = self.opened.take() else { return Ok(()) };
        let is_named = self.medium.identity(&self.path)? == Some(file.id());
        let removal = Removal::of(is_named, self.is_beside_data());
        if removal.voids {
            self.latch.watch(file.write_durable_at(&[IoSlice::new(&[0; HEADER_BYTES])], 0))?;
        }
        if is_named {
            self.medium.delete(&self.path)?;
        }
        if removal.syncs_directory {
            self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
        }
        self.forget_aside();
        if std::mem::take(&mut self.found) {
            // It counts for nothing, and the next compaction tries again.
            let _ = remove_remnant(&*self.medium, &new_path(&self.path));
        }
        self.in_use = None;
        Ok(())
    }

    /// Leaves the file void at its name, durably, for the next opening; `None` where it was removed instead, since it is
    /// large or has lost its name.
    pub fn keep(&mut self) -> Result<Option<KeptLog>> {
        let Some(file) = self.opened.clone() else { return Ok(None) };
        let named = !self.name_unsynced
            && self.medium.identity(&self.path)? == Some(file.id())
            && self.is_beside_data();
        if !named || self.allocated.max(self.claimed) > MOST_KEPT_BYTES {
            return self.delete().map(|()| None);
        }
        let kept = match self.kept.take() {
            Some(untouched) => untouched,
            None => {
                let kept = KeptLog::new(file.id());
                self.latch.check(&self.path)?;
                self.latch.watch(file.write_durable_at(&[IoSlice::new(&void_header(kept))], 0))?;
                kept
            }
        };
        if std::mem::take(&mut self.found) {
            // It counts for nothing, and the next compaction tries again.
            let _ = remove_remnant(&*self.medium, &new_path(&self.path));
        }
        (self.allocated, self.claimed) = (0, 0);
        self.unsynced.clear();
        self.close();
        Ok(Some(kept))
    }

    /// True for a log at the name that SQLite knows.
    fn is_beside_data(&self) -> bool {
        self.data.as_ref().is_some_and(|data| beside(&data.path, WAL_SUFFIX) == self.path)
    }

    /// Gives the file, of which `bytes` count, a name of its own: another database has taken that of the data file.
    pub fn step_aside(&mut self, bytes: u64) -> Result<()> {
        if self.opened.is_some() && self.whereabouts(bytes)? != Whereabouts::Elsewhere {
            let aside = set_aside(&*self.medium, &self.path, &self.latch)?;
            self.given_up = Some(std::mem::replace(&mut self.path, aside));
        }
        Ok(())
    }

    /// True while the file has a name of its own.
    pub fn is_aside(&self) -> bool {
        self.given_up.is_some()
    }

    /// Gives the file its name again: the data file has its own again.
    pub fn step_back(&mut self) -> Result<()> {
        if let (Some(file), Some(name)) = (&self.opened, &self.given_up)
            && step_back(&*self.medium, (&self.path, name), file.id(), &self.latch)?
        {
            name.clone_into(&mut self.path);
            self.given_up = None;
        }
        Ok(())
    }

    /// Reserves space, and fills it with zeros so that later writes into it change no metadata. The first space of a
    /// file is not filled: it is written at once, and a program with one transaction writes no more than that.
    pub fn reserve(&mut self, end: u64) -> Result<()> {
        if self.allocated == 0 {
            return self.reserve_whole(end);
        }
        let Some(file) = self.opened.clone().filter(|_| end > self.allocated) else { return Ok(()) };
        self.latch.check(&self.path)?;
        self.allocated = space::grow(&*file, self.allocated, end)?;
        self.unsynced.note_write();
        Ok(())
    }

    /// Reserves space of which every byte is written next: zeros would be written for nothing. Space is claimed ahead, so
    /// that small writes seldom ask for it.
    pub fn reserve_whole(&mut self, end: u64) -> Result<()> {
        let Some(file) = self.opened.clone().filter(|_| end > self.allocated) else { return Ok(()) };
        self.latch.check(&self.path)?;
        if end > self.claimed {
            self.claimed = space::claim(&*file, self.allocated, end)?;
        }
        self.allocated = end;
        self.unsynced.note_write();
        Ok(())
    }

    /// Makes sure that writes before `end` do not run out of space, without writing there.
    pub fn claim(&mut self, end: u64) -> Result<()> {
        let Some(file) = self.opened.clone().filter(|_| end > self.claimed.max(self.allocated)) else {
            return Ok(());
        };
        self.latch.check(&self.path)?;
        file.allocate(end)?;
        self.claimed = end;
        Ok(())
    }

    /// Syncs everything written, but for the name of a new file.
    pub fn sync_content(&mut self) -> Result<()> {
        if let Some(file) = self.opened.as_ref().filter(|_| self.unsynced.is_any()) {
            self.latch.check(&self.path)?;
            self.latch.watch(file.sync())?;
            self.unsynced.clear();
        }
        Ok(())
    }

    /// Syncs everything that is not durable yet, the name of a new file included, if that is asked for.
    pub fn sync_for(&mut self, durability: Durability) -> Result<()> {
        if self.opened.is_none() || durability == Durability::Buffered {
            return Ok(());
        }
        self.sync_content()?;
        if self.name_unsynced {
            self.latch.watch(self.medium.sync_directory(parent_directory(&self.path)))?;
            self.name_unsynced = false;
        }
        debug_assert!(self.is_synced());
        Ok(())
    }

    /// A flush of everything written, which needs no lock; the name of a new file is synced here. `None` where nothing waits.
    pub fn flush(&mut self) -> Result<Option<Flush>> {
        if self.name_unsynced {
            self.sync_for(Durability::Durable)?;
        }
        Ok(self.opened.as_ref().and_then(|file| self.unsynced.flush(file, &self.latch)))
    }
}

#[cfg(test)]
mod tests {
    use super::Removal;

    #[test]
    fn a_removed_log_is_void_or_its_name_is_durably_gone() {
        for (is_named, is_beside_data, voids, syncs_directory) in [
            (true, true, true, false),
            (true, false, false, true),
            (false, true, true, false),
            (false, false, true, false),
        ] {
            let removal = Removal::of(is_named, is_beside_data);
            assert_eq!(removal, Removal { voids, syncs_directory }, "{is_named} {is_beside_data}");
        }
    }
}
