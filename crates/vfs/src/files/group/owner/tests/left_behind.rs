//! Members that read by their seats in WAL mode while strangers are let in.

use super::*;
use crate::sync::shared_frames::FrameMemory;
use crate::sync::wal_index::salts_of;
use litefoot_storage::file::{Medium, OpenMode, RangeLock};

const SLOT: usize = READ_SLOTS + 1;
const PAGE_OF_LOG: (u64, u64) = (32 + 24, PAGE as u64);

/// A group whose log has a frame, and a member that reads it by its seat; the file of the index, once there is one.
struct Group {
    medium: SimMedium,
    vfs: Arc<Vfs>,
    database: Arc<OpenDatabase>,
    reader: Member,
    frames: FrameMemory,
    /// Those of the log.
    salts: u64,
}

impl Group {
    fn new() -> Group {
        let medium = SimMedium::new();
        let (vfs, database) = group_on(&medium);
        let mut writer = member_in_wal_mode(&vfs, &database);
        let mut reader = member_in_wal_mode(&vfs, &database);
        write_transaction(&mut writer);
        writer.ask(Operation::Read, FileOf::Wal, (0, 32), &[]).unwrap();
        let head = *writer.0.buffer.first_chunk().unwrap();
        publish(&database, &head);
        for slot in [WRITE_SLOT, SLOT] {
            writer.main(Operation::ShmUnlock, slot as u64, 1);
        }
        writer.main(Operation::Close, 0, 0);
        let board = database.board().unwrap();
        assert!(board.share(reader.0.seat.unwrap(), 1 << SLOT, board.epoch(), true));
        let memory = reader.0.memory.as_ref().unwrap().memory.clone();
        assert!(reader.0.shares_frames() && first_byte_of_log(&mut reader) == 7);
        let frames = FrameMemory::of(memory).unwrap();
        Group { medium, vfs, database, reader, frames, salts: salts_of(&head) }
    }

    fn leave(&self) {
        assert!(self.database.leave_of_test() && self.database.is_multi_process());
    }

    /// True if a stranger gets a slot.
    fn is_free(&self, slot: usize) -> bool {
        let file =
            self.medium.open(Path::new("/app.db-shm"), FileKind::WalIndex, OpenMode::ReadWrite).unwrap();
        let is_free = file.lock_range(120 + slot as u64, 1, RangeLock::Exclusive).unwrap();
        file.lock_range(120 + slot as u64, 1, RangeLock::None).unwrap();
        is_free
    }

    fn end_by_seat(&self) -> bool {
        let epoch = self.reader.0.memory.as_ref().unwrap().epoch;
        self.database.board().unwrap().end(self.reader.0.seat.unwrap(), 1 << SLOT, epoch)
    }
}

fn first_byte_of_log(member: &mut Member) -> u8 {
    member.ask(Operation::Read, FileOf::Wal, PAGE_OF_LOG, &[]).unwrap();
    member.0.buffer[0]
}

/// The index has the frame of [`write_transaction`], as SQLite publishes it.
fn publish(database: &OpenDatabase, bytes: &[u8; 32]) {
    let (log, checksum) = Header::decode(bytes).unwrap();
    let (_, sums) = log.encode_frame(checksum, 1, 1, &[7; PAGE]);
    let salts = salts_of(bytes);
    let [one, other] = sums.words();
    let size = (PAGE as u32) << 16 | 1;
    let [high, low] = [(salts >> 32) as u32, salts as u32];
    let header = [3_007_000, 0, 1, size, 1, 1, one, other, high, low, 0, 0];
    for (word, value) in header.iter().chain(&header).enumerate() {
        // SAFETY: a region is longer, and nobody else uses it in this test.
        unsafe { region(database).cast::<u32>().add(word).write(*value) };
    }
}

#[test]
fn a_snapshot_that_is_left_behind_keeps_its_slot_its_log_and_its_frames_until_it_ends() {
    for dies in [false, true] {
        let mut group = Group::new();
        // It keeps the file of the index.
        let idle = member_in_wal_mode(&group.vfs, &group.database);
        group.leave();
        assert!(!group.is_free(SLOT) && group.is_free(SLOT + 1) && group.is_free(WRITE_SLOT));
        assert_eq!(first_byte_of_log(&mut group.reader), 7, "the file has the log");
        let mut page = [0; PAGE];
        assert!(group.frames.read(group.salts, 1, &mut page) && page == [7; PAGE]);
        if dies {
            std::mem::replace(&mut group.reader, idle).0.end();
        } else {
            assert!(!group.end_by_seat(), "the owner has to be told");
            assert!(!group.is_free(SLOT), "it was not told");
            group.reader.main(Operation::ShmUnlock, SLOT as u64, 1);
        }
        assert!(group.is_free(SLOT));
        assert!(!group.frames.read(group.salts, 1, &mut page), "nobody reads them any more");
    }
}

#[test]
fn frames_go_with_the_log_where_nobody_is_left_behind() {
    let group = Group::new();
    assert!(group.frames.read(group.salts, 1, &mut [0; PAGE]) && group.end_by_seat());
    group.leave();
    assert!(!group.frames.read(group.salts, 1, &mut [0; PAGE]));
}

/// Has the owner make a call, as it comes over a stream; whether the stream goes on, and whether the call was refused as by a lock.
fn make(member: &mut Member, slot: usize, exclusive: bool) -> (bool, bool) {
    let statement = [statement::encode(exclusive, MembersStatement::UNKNOWN)];
    let call = Call::new(Operation::ShmLock, FileOf::Main, slot as u64, 1).with(&statement);
    let mut outgoing = Vec::new();
    let goes_on = member.0.make(&call, true, &mut outgoing).is_some();
    (goes_on, goes_on && Reply::decode(&outgoing[4..]).unwrap().outcome == Outcome::Busy)
}

#[test]
fn a_member_that_is_left_behind_gets_no_other_slot_and_an_idle_one_comes_anew() {
    let mut group = Group::new();
    let mut idle = member_in_wal_mode(&group.vfs, &group.database);
    group.leave();
    for slot in [WRITE_SLOT, SLOT + 1] {
        assert_eq!(make(&mut group.reader, slot, true), (true, true));
        assert!(group.is_free(slot));
    }
    assert_eq!(make(&mut idle, SLOT, false), (false, false));
    assert!(!group.is_free(SLOT) && first_byte_of_log(&mut group.reader) == 7, "it reads on");
    assert!(!group.end_by_seat());
    assert_eq!(make(&mut group.reader, SLOT, false), (false, false), "its next transaction");
}

#[test]
fn a_slot_that_was_got_while_strangers_have_come_is_given_back() {
    let mut group = Group::new();
    group.leave();
    let call = Call::new(Operation::ShmLock, FileOf::Main, WRITE_SLOT as u64, 1);
    let locked = group.reader.lock(WRITE_SLOT, true);
    assert!(locked.is_ok() && !group.is_free(WRITE_SLOT));
    assert!(matches!(group.reader.0.refuse_left_behind(&call, locked), Err(Error::Busy)));
    assert!(group.is_free(WRITE_SLOT) && !group.is_free(SLOT));
}
