//! The wal-index of a group: memory that members map, too, each in its own process.
//!
//! # Invariants
//! 1. A member that has the memory of the present epoch sees what the owner sees at a region's address. Where the regions become a file's, or
//!    memory again, an epoch begins (`group_board`): the member takes no slot before it has mapped the other memory.
//! 2. Memory that the owner uses no more is replaced by new memory: whoever has mapped it, as a reader that goes on or by mistake, sees nothing of it
//!    change.
//! 3. A member's file is one of its own: with the DMS shared for as long as the member maps it, also where the owner has died, and without any
//!    lock of the owner's. Slots that the member holds exclusively are locked by that file (`shm_file`).

use crate::error::{Error, Result};
use crate::sync::group_board::Board;
use crate::sync::shared_frames::SharedFrames;
use crate::sync::slot_gates::{Gates, Seats};
use crate::sync::wal_index::{COPY_WORDS, HeldSlots, READ_SLOTS, WalIndex, WalIndexState};
use crate::sync::wal_index_region::Region;
use litefoot_storage::file::FileId;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The memory of a group's wal-index.
pub(super) struct GroupMemory {
    memory: Arc<NamelessMemory>,
    /// Set where there is no memory any more.
    is_over: bool,
    board: Arc<Board>,
    seats: Seats,
    /// The frames of a log that is gone, while members that were left behind read it.
    frames: Option<SharedFrames>,
}

/// The memory of the wal-index, as a member has it.
pub(crate) struct MembersMemory {
    pub memory: Arc<NamelessMemory>,
    /// True where it is the file that strangers share.
    pub is_file: bool,
    /// The epoch that it is of.
    pub epoch: u64,
}

impl GroupMemory {
    /// Makes a region of it.
    pub(super) fn hold(&self, region: &mut Region, offset: u64) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        region.join(&self.memory, offset).map_err(|_| Error::NoMemory)
    }
}

impl WalIndex {
    /// A group may begin: each index that is made, or found, from now on is different from all that members of an owner before may remember. No
    /// handle uses the regions yet.
    pub(crate) fn expect_members(&self) {
        self.expects_members.store(true, Ordering::Relaxed);
        self.renewed.store(true, Ordering::SeqCst);
    }

    /// The regions are memory that members can map, from now on, with what is in them. No handle holds a slot exclusively, or gets one.
    ///
    /// # Errors
    /// There is no such memory.
    pub(crate) fn begin_group(&self, database: FileId) -> Result<Arc<Board>> {
        self.begin_group_in(database, &mut self.state())
    }

    /// The same where no handle uses the regions, and none begins to before `then` has the board; `None` where one does.
    pub(crate) fn begin_unused_group(
        &self,
        database: FileId,
        then: impl FnOnce(Arc<Board>),
    ) -> Option<Result<()>> {
        let mut state = self.state();
        let is_unused = state.users == 0 && state.file.is_none();
        is_unused.then(|| self.begin_group_in(database, &mut state).map(then))
    }

    fn begin_group_in(&self, database: FileId, state: &mut WalIndexState) -> Result<Arc<Board>> {
        if let Some(group) = state.group.as_ref().filter(|group| !group.is_over) {
            return Ok(group.board.clone());
        }
        let memory = Arc::new(NamelessMemory::new().map_err(|_| Error::NoMemory)?);
        debug_assert!(
            state.users == 0 || self.exclusive.glance() == u8::MAX,
            "somebody may write to the regions"
        );
        // A file's regions are the members' as they are.
        let is_memory = state.file.is_none();
        if is_memory {
            state.copy_to(&memory)?;
        }
        // Connections of members may be there that use no index, with their seats.
        let (board, seats) = match state.group.take() {
            Some(group) => (group.board, group.seats),
            None => (Arc::new(Board::new(database)?), Seats::default()),
        };
        board.gate().set(self.exclusive.glance());
        if state.users == 0 {
            self.expect_members();
        }
        state.group = Some(GroupMemory { memory, is_over: false, board: board.clone(), seats, frames: None });
        if is_memory && let Err(error) = state.join_memory() {
            // The regions have the same in them, wherever they lie.
            state.end_group();
            return Err(error);
        }
        Ok(board)
    }

    /// A seat of the board for a member's connection; `None` where there is none, and the member asks for each slot.
    pub(crate) fn take_seat(&self) -> Option<usize> {
        let mut state = self.state();
        let group = state.group.as_mut()?;
        let number = group.seats.take(&*group.board)?;
        self.has_board.store(true, Ordering::Relaxed);
        // From now on a member may share slots that no handle of this process ever has.
        self.sharable.fetch_or(u8::MAX << READ_SLOTS, Ordering::SeqCst);
        Some(number)
    }

    /// The member's connection is gone, with all that it shares.
    pub(crate) fn leave_seat(&self, number: usize) {
        if let Some(group) = &mut self.state().group {
            group.seats.leave(&*group.board, number);
        }
    }

    /// The gates of the slots.
    pub(super) fn gates<'a>(&'a self, group: &'a Option<GroupMemory>) -> Gates<'a> {
        Gates::new(&self.exclusive, group.as_ref().map(|group| (&*group.board, group.seats.count())))
    }

    /// A member, whose handle holds no slot, gets the memory, or the file that the regions are.
    /// `None` where there is none.
    pub(crate) fn join_member(&self, held: &mut HeldSlots) -> Option<MembersMemory> {
        let state = self.state();
        let file = match &state.file {
            Some(file) => Some(Arc::new(file.for_member()?)),
            None => None,
        };
        let group = state.group.as_ref().filter(|group| !group.is_over)?;
        held.member.clone_from(&file);
        let is_file = file.is_some();
        let memory = file.unwrap_or_else(|| group.memory.clone());
        Some(MembersMemory { memory, is_file, epoch: group.board.epoch() })
    }

    /// The log of these frames is a file from now on: they stay while members read by their seats that were left behind.
    pub(crate) fn keep_frames(&self, frames: SharedFrames) {
        let mut state = self.state();
        if let Some(group) = &mut state.group {
            group.frames = Some(frames);
        }
        state.forget_unread_frames();
    }

    /// Tells whether a member reads by its seat.
    pub(crate) fn is_shared_by_members(&self) -> bool {
        self.state().shared_by_members() != 0
    }

    /// Tells whether the member of a seat reads by it.
    pub(crate) fn is_shared_by(&self, seat: usize) -> bool {
        let state = self.state();
        state.group.as_ref().and_then(|group| group.board.seat(seat)).is_some_and(|seat| seat.seen() != 0)
    }

    /// Makes the header invalid: the next reader makes the index again, from all that is complete in the log. The caller holds the
    /// write slot, or nobody uses the index.
    pub fn invalidate(&self) {
        let state = self.state();
        let Some(first) = state.regions.first() else { return };
        for word in 0..2 * COPY_WORDS {
            // SAFETY: a region is far larger. A reader meanwhile finds the two copies different, or the checksum wrong, and waits
            // for the write slot.
            unsafe { first.word(word) }.store(0, Ordering::SeqCst);
        }
    }
}

impl WalIndexState {
    /// The slots that members share by their seats.
    pub(super) fn shared_by_members(&self) -> u8 {
        self.group.as_ref().map_or(0, |group| group.board.shared_slots(group.seats.count()))
    }

    /// Forgets frames of a log that is gone, where nobody reads them any more.
    pub(super) fn forget_unread_frames(&mut self) {
        let is_read = self.shared_by_members() != 0;
        if let Some(group) = self.group.as_mut().filter(|_| !is_read) {
            group.frames = None;
        }
    }

    /// A checkpoint may write to the database file from now on.
    pub(super) fn note_checkpoint(&self) {
        if let Some(group) = &self.group {
            group.board.note_checkpoint();
        }
    }

    /// The regions are other memory from now on. Who has a slot keeps the memory before, and nobody gets one before this is done.
    pub(super) fn begin_epoch(&mut self) {
        if let Some(group) = &mut self.group {
            group.board.begin_epoch();
        }
    }

    /// The regions are the group's memory again, which has the same in it: they were a file's for a moment, and nobody has written.
    pub(super) fn rejoin_memory(&mut self) {
        if self.join_memory().is_err() {
            self.begin_epoch();
            self.end_group();
        }
    }

    /// The regions are memory that members cannot have.
    pub(super) fn end_group(&mut self) {
        if let Some(group) = &mut self.group {
            group.is_over = true;
        }
    }

    /// New memory takes the place of the old one, which nobody uses any more. Where there is none, no member is served from now on.
    pub(super) fn renew_memory(&mut self) {
        self.begin_epoch();
        let Some(group) = &mut self.group else { return };
        match NamelessMemory::new() {
            Ok(memory) => group.memory = Arc::new(memory),
            // Members that have a seat already have no index, and get none.
            Err(_) => group.is_over = true,
        }
        if self.join_memory().is_err()
            && let Some(group) = &mut self.group
        {
            group.is_over = true;
        }
    }

    /// Copies the regions to memory that is to take their place. Handles may read them meanwhile, and none writes.
    fn copy_to(&self, memory: &NamelessMemory) -> Result<()> {
        let mut offset = 0;
        for region in &self.regions {
            let mut copy = Region::new(region.bytes()).ok_or(Error::NoMemory)?;
            copy.join(memory, offset).map_err(|_| Error::NoMemory)?;
            region.copy_into(&copy);
            offset += region.bytes() as u64;
        }
        Ok(())
    }

    fn join_memory(&mut self) -> Result<()> {
        let Some(group) = self.group.as_ref().filter(|group| !group.is_over) else { return Ok(()) };
        let mut offset = 0;
        for region in &mut self.regions {
            group.hold(region, offset)?;
            offset += region.bytes() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::codes::SQLITE_SHM_NLOCK;
    use crate::sync::group_board::of_test::DATABASE;
    use crate::sync::shm_file::{ShmFile, unlock_members};
    use crate::sync::wal_index::{CHANGE_WORD, VERSION_WORD, WRITE_SLOT};
    use litefoot_storage::file::Medium;
    use litefoot_storage::os::OsMedium;

    const BYTES: usize = 32768;

    #[test]
    fn a_member_that_reads_by_its_seat_is_another_process_that_reads() {
        let index = WalIndex::default();
        let board = index.begin_group(DATABASE).unwrap();
        let seat = index.take_seat().unwrap();
        board.set_open(true);
        assert!(!index.is_read_by_others().unwrap());
        let slot = 1 << READ_SLOTS;
        assert!(board.share(seat, slot, board.epoch(), true) && index.is_read_by_others().unwrap());
        board.unshare(seat, slot);
        assert!(!index.is_read_by_others().unwrap());
    }

    #[test]
    fn a_member_sees_the_owners_index_until_nobody_uses_it() {
        let index = WalIndex::default();
        let mut members_slots = index.register();
        assert!(index.join_member(&mut members_slots).is_none(), "no group");
        index.begin_group(DATABASE).unwrap();
        index.join(|| Ok::<_, Error>(())).unwrap();
        let owners = [0, 1].map(|number| index.map(number, BYTES, true).unwrap().unwrap());
        let MembersMemory { memory, .. } = index.join_member(&mut members_slots).unwrap();
        let mut members = Region::new(BYTES).unwrap();
        members.join(&memory, BYTES as u64).unwrap();
        // SAFETY: regions of this test's own.
        unsafe {
            owners[1].as_ptr().add(100).write(7);
            assert_eq!(members.at(100).as_ptr().read(), 7);
            members.at(101).as_ptr().write(8);
            assert_eq!(owners[1].as_ptr().add(101).read(), 8);
        }
        let mut held = index.register();
        index.leave(&mut held, false);
        index.join(|| Ok::<_, Error>(())).unwrap();
        let again = index.map(1, BYTES, true).unwrap().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (again.as_ptr().add(100).read(), members.at(100).as_ptr().read()) }, (0, 7));
    }

    #[test]
    fn an_index_that_is_used_is_the_members_as_it_is_where_a_group_begins() {
        let index = WalIndex::default();
        index.expect_members();
        let mut reader = index.register();
        index.join(|| Ok::<_, Error>(())).unwrap();
        let owners = [0, 1].map(|number| index.map(number, BYTES, true).unwrap().unwrap());
        assert!(index.lock(&mut reader, READ_SLOTS, 1, false));
        for (region, value) in owners.iter().zip([5, 6]) {
            // SAFETY: regions of this test's own.
            unsafe { region.as_ptr().add(BYTES - 1).write(value) };
        }
        assert!(index.begin_unused_group(DATABASE, drop).is_none(), "a handle uses it");
        let board = index.while_nobody_writes(|_| index.begin_group(DATABASE)).unwrap().unwrap();
        assert!(Arc::ptr_eq(&board, &index.begin_group(DATABASE).unwrap()), "it has begun");
        let mut held = index.register();
        let MembersMemory { memory, .. } = index.join_member(&mut held).unwrap();
        for (number, value) in [(0, 5), (1, 6)] {
            let mut region = Region::new(BYTES).unwrap();
            region.join(&memory, (number * BYTES) as u64).unwrap();
            // SAFETY: as above.
            unsafe {
                assert_eq!(region.at(BYTES - 1).as_ptr().read(), value);
                region.at(0).as_ptr().write(value);
                assert_eq!(owners[number].as_ptr().read(), value, "both have the same memory");
            }
        }
        assert!(!index.lock(&mut held, READ_SLOTS, 1, true), "the reader is inside");
        assert!(board.gate().enter(board.seat(0).unwrap(), 0, 1 << READ_SLOTS, 1 << READ_SLOTS));
    }

    /// All indexes that SQLite makes of an empty log are equal.
    #[test]
    fn an_index_that_members_may_come_to_is_like_none_before() {
        let index_of_an_empty_log = |index: &WalIndex| {
            index.map(0, BYTES, true).unwrap();
            let mut held = index.register();
            assert!(index.lock(&mut held, WRITE_SLOT, 1, true));
            for copy in [0, COPY_WORDS] {
                index.state().word(copy + VERSION_WORD).unwrap().store(3_007_000, Ordering::SeqCst);
            }
            index.index_made(&held);
            index.unlock(&mut held, WRITE_SLOT, 1);
            index.state().word(CHANGE_WORD).unwrap().load(Ordering::SeqCst)
        };
        assert_eq!(index_of_an_empty_log(&WalIndex::default()), 0);
        let [one, other] = [(); 2].map(|()| {
            let index = WalIndex::default();
            index.expect_members();
            index_of_an_empty_log(&index)
        });
        assert!(one != 0 && other != 0 && one != other);
    }

    #[test]
    fn what_a_member_locks_on_the_file_outlives_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db-shm");
        let medium: Arc<dyn Medium> = Arc::new(OsMedium);
        let owner = || {
            let index = WalIndex::default();
            index.begin_group(DATABASE).unwrap();
            index.join_file(&medium, &path).unwrap();
            index.map(0, BYTES, true).unwrap();
            index
        };
        for ends in [false, true] {
            let index = owner();
            let mut held = index.register();
            let MembersMemory { memory, .. } = index.join_member(&mut held).unwrap();
            let members = NamelessMemory::of(memory.descriptor().try_clone_to_owned().unwrap());
            // What a reader has shared in the owner is in nobody's way any more.
            assert!(index.lock(&mut held, READ_SLOTS, 1, false));
            held.unshare(1 << READ_SLOTS);
            assert!(index.lock(&mut held, 0, SQLITE_SHM_NLOCK, true));
            index.unlock(&mut held, 1, SQLITE_SHM_NLOCK - 1);
            if ends {
                index.unlock(&mut held, 0, 1);
            }
            let mut stranger = ShmFile::open(&medium, &path).unwrap();
            assert_eq!(stranger.lock_exclusively(1, None), ends);
            stranger.unlock(1);
            // The owner's process ends.
            drop((index, held, memory));
            assert_eq!(stranger.lock_exclusively(1, None), ends, "the member may write to the index");
            stranger.unlock(1);
            assert!(stranger.lock_exclusively(u8::MAX << 1, None));
            unlock_members(&members, u8::MAX);
            assert!(stranger.lock_exclusively(1, None));
            stranger.close(true);
        }
    }

    #[test]
    fn an_invalid_header_is_zeros_and_the_marks_stay() {
        let index = WalIndex::default();
        index.invalidate();
        index.map(0, BYTES, true).unwrap();
        for word in 0..30 {
            index.state().word(word).unwrap().store(9, Ordering::SeqCst);
        }
        index.invalidate();
        let words: Vec<_> =
            (0..30).map(|word| index.state().word(word).unwrap().load(Ordering::SeqCst)).collect();
        assert_eq!(words, [vec![0; 24], vec![9; 6]].concat());
    }
}
