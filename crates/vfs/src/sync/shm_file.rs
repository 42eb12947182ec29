//! The wal-index as a file, `-shm`, while the database is multi-process: the locks of this process on it, and its length.
//!
//! Offsets and rules are those of SQLite's own VFS (<https://www.sqlite.org/walformat.html>, section 2.3.1):
//!
//! ```text
//! byte 120 .. 128   the lock slots
//! byte 128          the dead man's switch (DMS): shared by every process that uses the file
//! ```
//!
//! A process that finds nobody at the DMS empties the file: its content is from before a crash. A process that empties the
//! file holds the DMS exclusively meanwhile.
//!
//! # Invariants
//! 1. The DMS is shared for as long as a mapping of this process is the file's.
//! 2. A slot is locked on the file while a handle of this process holds it: shared with the first sharer, until the last one
//!    gives it back. The wal-index calls these functions under its lock.
//! 3. A slot that a member of a group holds exclusively is locked by the member's open file, which the owner has as well. So the lock outlives the
//!    owner: the member may be about to write to the index, and nobody else may until it has.
//! 4. A region is mapped only where the file has its bytes, with space reserved. The file does not become shorter while
//!    somebody holds the DMS.

use crate::error::{Error, Result};
use litefoot_storage::file::{self, File, FileKind, Medium, OpenMode, RangeLock};
use litefoot_storage::os::NamelessMemory;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the lock slots, and of the DMS behind them.
const SLOTS: u64 = 120;
const DMS: u64 = 128;
/// What is in a file that was emptied. SQLite's own VFS leaves as many bytes. ext4 writes a file out when it is closed that was cut to nothing
/// (`auto_da_alloc`): 32 KiB for nothing, where each request of an application opens the database.
const EMPTY: [u8; 3] = [0; 3];

/// The open file.
pub(super) struct ShmFile {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    path: PathBuf,
    /// Slots that are locked shared on the file.
    shared: u8,
    /// Set where part of the regions could not be mapped back: nothing is locked any more.
    pub broken: bool,
}

impl ShmFile {
    /// A new file. No other process has the database open, or can open it.
    pub fn create(medium: &Arc<dyn Medium>, path: &Path) -> Result<ShmFile> {
        // What lies there is nobody's, and may have been a stranger's.
        if medium.identity(path)?.is_some() {
            medium.delete(path)?;
        }
        let file = medium.open(path, FileKind::WalIndex, OpenMode::CreateNew)?;
        if !file.lock_range(DMS, 1, RangeLock::Shared)? {
            return Err(Error::Busy);
        }
        Ok(ShmFile::of(medium, path, file))
    }

    /// The file that other processes may have open, emptied where none has.
    ///
    /// # Errors
    /// [`Error::Busy`] where one is emptying it.
    pub fn open(medium: &Arc<dyn Medium>, path: &Path) -> Result<ShmFile> {
        let file = medium.open(path, FileKind::WalIndex, OpenMode::Create)?;
        if file.lock_range(DMS, 1, RangeLock::Exclusive)? && file.len()? > 0 {
            file.set_len(EMPTY.len() as u64)?;
            file.write_at(&EMPTY, 0)?;
        }
        // Converts the exclusive lock without giving it up.
        if !file.lock_range(DMS, 1, RangeLock::Shared)? {
            return Err(Error::Busy);
        }
        Ok(ShmFile::of(medium, path, file))
    }

    fn of(medium: &Arc<dyn Medium>, path: &Path, file: Arc<dyn File>) -> ShmFile {
        ShmFile { medium: medium.clone(), file, path: path.to_owned(), shared: 0, broken: false }
    }

    /// The file.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The file for a member of a group, with the DMS shared by it; `None` where the system gives none.
    pub fn for_member(&self) -> Option<NamelessMemory> {
        let descriptor = self.file.raw_descriptor().filter(|_| !self.broken)?;
        let file = NamelessMemory::open_again(descriptor).ok()?;
        matches!(file.lock_range(DMS, 1, RangeLock::Shared), Ok(true)).then_some(file)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file so long, with space reserved, where `extend` is set; `false` where it is shorter.
    pub fn has_bytes(&self, bytes: u64, extend: bool) -> file::Result<bool> {
        if self.file.len()? >= bytes {
            return Ok(true);
        }
        if extend {
            self.file.allocate(bytes)?;
        }
        Ok(extend)
    }

    /// Locks slots of which no handle of this process holds any exclusively. Like SQLite, takes an error for a lock that is in
    /// the way.
    pub fn share(&mut self, slots: u8) -> bool {
        let missing = slots & !self.shared;
        let is_shared = self.lock(missing, RangeLock::Shared);
        self.shared |= if is_shared { missing } else { 0 };
        is_shared
    }

    /// Locks slots exclusively of which no handle of this process holds any; for a member of a group by its open file.
    pub fn lock_exclusively(&mut self, slots: u8, member: Option<&NamelessMemory>) -> bool {
        if let Some(member) = member {
            // A sharer that has left may not have given its lock back yet.
            self.unlock(slots & self.shared);
            return !self.broken && lock_all(slots, RangeLock::Exclusive, by_member(member));
        }
        let is_locked = self.lock(slots, RangeLock::Exclusive);
        if is_locked {
            // Such a lock is part of this one now.
            self.shared &= !slots;
        }
        is_locked
    }

    /// Gives slots back that a handle holds exclusively; for a member of a group by its open file.
    pub fn unlock_exclusively(&mut self, slots: u8, member: Option<&NamelessMemory>) {
        match member {
            Some(member) => unlock_members(member, slots),
            None => self.unlock(slots),
        }
    }

    /// Gives slots back that no handle of this process holds any more, exclusively or shared.
    pub fn unlock(&mut self, slots: u8) {
        self.shared &= !slots;
        unlock_all(slots, by_file(&*self.file));
    }

    /// The slots that are locked shared.
    pub fn shared(&self) -> u8 {
        self.shared
    }

    /// True if another process holds one of these slots, of any kind.
    pub fn is_held_by_others(&self, slots: Range<u32>) -> file::Result<bool> {
        self.file.is_locked(offset(&slots), len(&slots), RangeLock::Exclusive)
    }

    /// All of the slots, or none.
    fn lock(&mut self, slots: u8, lock: RangeLock) -> bool {
        !self.broken && lock_all(slots, lock, by_file(&*self.file))
    }

    /// The last user of this process is gone, and no region is the file's any more. It is deleted where no other process
    /// has the database open.
    pub fn close(self, delete: bool) {
        if delete {
            // A file that stays has nobody at its DMS: the next process empties it.
            let _ = self.medium.delete(&self.path);
        }
        // Explicit, because a forked child may still have the descriptor.
        let _ = self.file.lock_range(SLOTS, DMS + 1 - SLOTS, RangeLock::None);
    }
}

/// Removes the file that lies there, where somebody is at its DMS although no other process has the database open: members of an owner that has
/// died. They use it no more, and whoever comes next would take it for the index of the log, which changes from now on.
///
/// A file that nobody uses stays: the next process empties it.
pub(crate) fn remove_orphan(medium: &dyn Medium, path: &Path) -> Result<()> {
    if medium.info(path)?.is_none_or(|info| !info.is_file || !info.writable) {
        return Ok(());
    }
    let file = medium.open(path, FileKind::WalIndex, OpenMode::ReadWrite)?;
    if file.lock_range(DMS, 1, RangeLock::Exclusive)? {
        file.lock_range(DMS, 1, RangeLock::None)?;
        return Ok(());
    }
    Ok(medium.delete(path)?)
}

/// Locks slots by a member's open file, or none of them.
pub(crate) fn lock_members(member: &NamelessMemory, slots: u8, lock: RangeLock) -> bool {
    lock_all(slots, lock, by_member(member))
}

/// Makes a member's file so long, with space reserved, where `extend` is set; `false` where it is shorter.
pub(crate) fn extend_members(member: &NamelessMemory, bytes: u64, extend: bool) -> io::Result<bool> {
    let is_long = member.bytes()? >= bytes;
    if !is_long && extend {
        member.extend(bytes)?;
    }
    Ok(is_long || extend)
}

/// Gives back what a member of a group holds by its open file.
pub(crate) fn unlock_members(member: &NamelessMemory, slots: u8) {
    unlock_all(slots, by_member(member));
}

/// Locks bytes of the file of this process; an error is a lock that is in the way.
fn by_file(file: &dyn File) -> impl FnMut(u64, u64, RangeLock) -> bool {
    |offset, len, lock| file.lock_range(offset, len, lock).unwrap_or(false)
}

/// The same of a member's file.
fn by_member(member: &NamelessMemory) -> impl FnMut(u64, u64, RangeLock) -> bool {
    |offset, len, lock| member.lock_range(offset, len, lock).unwrap_or(false)
}

/// Locks all of the slots, or none.
fn lock_all(slots: u8, lock: RangeLock, mut lock_range: impl FnMut(u64, u64, RangeLock) -> bool) -> bool {
    let mut locked = 0;
    for range in ranges(slots) {
        if !lock_range(offset(&range), len(&range), lock) {
            unlock_all(locked, lock_range);
            return false;
        }
        locked |= mask(&range);
    }
    true
}

/// Unlocks slots. This fails for want of the kernel's memory. Then they stay locked until the file is closed.
fn unlock_all(slots: u8, mut lock_range: impl FnMut(u64, u64, RangeLock) -> bool) {
    for range in ranges(slots) {
        lock_range(offset(&range), len(&range), RangeLock::None);
    }
}

/// The ranges of slots that are these ones, as few as may be.
fn ranges(slots: u8) -> impl Iterator<Item = Range<u32>> {
    let is_in = move |slot: u32| slot < u8::BITS && slots >> slot & 1 != 0;
    let begins = move |slot: &u32| is_in(*slot) && !(*slot > 0 && is_in(slot - 1));
    (0..u8::BITS)
        .filter(begins)
        .map(move |first| first..(first..).find(|slot| !is_in(*slot)).unwrap_or(u8::BITS))
}

/// Where the range is in the file.
fn offset(range: &Range<u32>) -> u64 {
    SLOTS + u64::from(range.start)
}

fn len(range: &Range<u32>) -> u64 {
    u64::from(range.end - range.start)
}

/// The bits of the slots of a range.
fn mask(range: &Range<u32>) -> u8 {
    range.clone().fold(0, |slots, slot| slots | 1 << slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;

    const PATH: &str = "/a.db-shm";

    fn open(medium: &Arc<dyn Medium>) -> ShmFile {
        ShmFile::open(medium, Path::new(PATH)).unwrap()
    }

    #[test]
    fn slots_are_locked_in_as_few_ranges_as_may_be() {
        for (slots, expected) in [
            (0, &[][..]),
            (0b1, &[(120, 1)]),
            (0b1111_1110, &[(121, 7)]),
            (0b1010_0110, &[(121, 2), (125, 1), (127, 1)]),
            (u8::MAX, &[(120, 8)]),
        ] {
            let found: Vec<_> = ranges(slots).map(|range| (offset(&range), len(&range))).collect();
            assert_eq!(found, expected, "{slots:b}");
            assert_eq!(ranges(slots).fold(0, |all, range| all | mask(&range)), slots);
        }
    }

    #[test]
    fn processes_exclude_each_other_and_one_process_locks_a_slot_once() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let (mut one, mut other) = (open(&medium), open(&medium));
        assert!(one.share(0b1000) && one.share(0b1000) && other.share(0b1_1000));
        assert_eq!((one.shared(), other.shared()), (0b1000, 0b1_1000));
        assert!(
            !one.lock_exclusively(0b1_0000, None) && !one.lock_exclusively(0b11_0010, None),
            "and nothing of it"
        );
        assert!(other.lock_exclusively(0b10_0010, None) && !one.share(0b10_0000) && one.shared() == 0b1000);
        other.unlock(0b1_0000);
        assert!(one.lock_exclusively(0b1_0000, None) && !other.share(0b1_0000));
        other.unlock(u8::MAX);
        assert!(other.shared() == 0 && one.lock_exclusively(0b10_0010, None));
        assert!(one.share(0b1000) && !one.is_held_by_others(3..8).unwrap(), "its own do not count");
        assert!(other.share(0b1000) && one.is_held_by_others(3..8).unwrap());
        assert!(!one.is_held_by_others(4..8).unwrap());
        other.unlock(0b1000);
        one.broken = true;
        assert!(!one.share(0b100) && other.share(0b100));
    }

    #[test]
    fn the_first_process_empties_the_file_and_the_others_leave_it() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let file = medium.open(Path::new(PATH), FileKind::WalIndex, OpenMode::Create).unwrap();
        file.write_at(&[7; 40_000], 0).unwrap();
        let first = open(&medium);
        // Not cut to nothing, which ext4 answers by writing the file out; and no part of a header that was.
        let mut left = [1; 8];
        assert_eq!((first.file().read_at(&mut left, 0).unwrap(), left), (3, [0, 0, 0, 1, 1, 1, 1, 1]));
        assert!(!first.has_bytes(32768, false).unwrap() && first.has_bytes(32768, true).unwrap());
        let second = open(&medium);
        assert!(second.has_bytes(32768, false).unwrap() && !second.has_bytes(32769, false).unwrap());
        first.close(false);
        assert!(!file.lock_range(DMS, 1, RangeLock::Exclusive).unwrap(), "the second one uses it");
        second.close(false);
        // Another process is emptying it.
        assert!(file.lock_range(DMS, 1, RangeLock::Exclusive).unwrap());
        assert!(matches!(ShmFile::open(&medium, Path::new(PATH)), Err(Error::Busy)));
        drop(file);
        let last = open(&medium);
        assert_eq!(last.file().len().unwrap(), 3);
        last.close(true);
        assert!(medium.identity(Path::new(PATH)).unwrap().is_none());
    }

    #[test]
    fn a_file_is_removed_that_somebody_uses_who_has_no_owner() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let path = Path::new(PATH);
        remove_orphan(&*medium, path).unwrap();
        let members = open(&medium);
        remove_orphan(&*medium, path).unwrap();
        assert!(medium.identity(path).unwrap().is_none());
        members.close(false);
        open(&medium).close(false);
        remove_orphan(&*medium, path).unwrap();
        assert!(medium.identity(path).unwrap().is_some(), "nobody uses it");
        open(&medium);
    }

    #[test]
    fn a_member_locks_slots_and_extends_the_file_as_its_owner_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db-shm");
        let medium: Arc<dyn Medium> = Arc::new(litefoot_storage::os::OsMedium);
        let mut owners = ShmFile::open(&medium, &path).unwrap();
        let member = owners.for_member().unwrap();
        assert!(lock_members(&member, 0b1000, RangeLock::Shared) && owners.share(0b1000));
        assert!(!owners.lock_exclusively(0b1000, None));
        assert!(!lock_members(&member, 0b1001, RangeLock::Exclusive), "all of them, or none");
        owners.unlock(0b1000);
        assert!(lock_members(&member, 0b1001, RangeLock::Exclusive) && !owners.share(1));
        unlock_members(&member, 0b1001);
        assert!(
            !extend_members(&member, 40_000, false).unwrap()
                && extend_members(&member, 40_000, true).unwrap()
        );
        assert_eq!(owners.file().len().unwrap(), 40_000);
        assert!(extend_members(&member, 32_768, false).unwrap());
        owners.close(true);
    }

    #[test]
    fn an_owner_makes_a_file_of_its_own() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let strangers = medium.open(Path::new(PATH), FileKind::WalIndex, OpenMode::Create).unwrap();
        strangers.set_len(40_000).unwrap();
        let file = ShmFile::create(&medium, Path::new(PATH)).unwrap();
        assert!(file.file().id() != strangers.id() && file.file().is_empty().unwrap());
        let other = open(&medium);
        assert_eq!(other.file().id(), file.file().id());
    }
}
