//! Readers that stay inside while an index is shared, and where it is not shared after all.

use super::*;
use crate::sync::group_board::Board;
use crate::sync::group_board::of_test::DATABASE;

/// An owner whose first handle reads by a slot, beside an idle one.
fn reading(slot: usize) -> Process {
    let mut owner = Process::owner();
    owner.region(2, true).unwrap();
    owner.make_index();
    for start in [0, COPY_WORDS] {
        owner.set(start + LAST_FRAME_WORD, 9);
    }
    owner.set(READ_MARK_WORDS + 1, 7);
    assert!(owner.lock(0, slot, false));
    owner
}

fn share_as_it_is(owner: &Process, medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
    let index = &owner.index;
    index
        .while_nobody_writes(|is_free| {
            assert!(!is_free && !index.try_share(&owner.handles[1], READ_SLOTS + 2, 1), "nobody else begins");
            index.share_as_it_is(medium, path)
        })
        .unwrap()
}

#[test]
fn readers_go_on_with_their_index_and_their_slots() {
    on_both(|medium, path| {
        let slot = READ_SLOTS + 1;
        let mut owner = reading(slot);
        let word = owner.region(2, false).unwrap().cast::<u32>();
        // SAFETY: a word of the region.
        unsafe { word.write_volatile(5) };
        let (before, address) = (owner.header(), owner.region(0, false));
        share_as_it_is(&owner, &medium, path).unwrap();
        assert_eq!((owner.header(), owner.region(0, false)), (before, address));
        // SAFETY: as above.
        assert_eq!(unsafe { word.read_volatile() }, 5);
        assert_eq!(owner.index.seen_by_all(), 0, "others may read what nobody here asks for");
        let mut other = Process::joining(&medium, path);
        other.region(2, false).unwrap();
        assert_eq!((other.word(LAST_FRAME_WORD), other.word(READ_MARK_WORDS + 1)), (9, 7));
        assert!(!other.lock(0, slot, true), "the reader's mark must stay");
        assert!(other.lock(0, slot, false) && other.lock(1, slot + 1, true));
        other.unlock(0, slot);
        owner.unlock(0, slot);
        assert!(other.lock(0, slot, true) && !owner.lock(0, slot, false));
    });
}

#[test]
fn a_reader_that_told_the_memory_only_is_in_nobodys_way_for_long() {
    on_both(|medium, path| {
        let slot = READ_SLOTS + 1;
        let owner = reading(slot);
        share_as_it_is(&owner, &medium, path).unwrap();
        owner.handles[0].unshare(1 << slot);
        let mut other = Process::joining(&medium, path);
        assert!(!other.lock(0, slot, true));
        owner.index.trim();
        assert!(other.lock(0, slot, true));
        owner.index.trim();
    });
}

#[test]
fn an_index_that_is_not_shared_after_all_is_memory_as_before() {
    on_both(|medium, path| {
        let slot = READ_SLOTS + 1;
        let mut owner = reading(slot);
        let before = owner.header();
        for _ in 0..2 {
            share_as_it_is(&owner, &medium, path).unwrap();
            owner.index.keep_as_it_is();
            assert_eq!((owner.header(), medium.identity(path).unwrap()), (before, None));
            assert!(owner.index.try_share(&owner.handles[1], slot, 1), "no file is asked");
            owner.unlock(1, slot);
        }
        owner.region(3, true).unwrap();
        share_as_it_is(&owner, &medium, path).unwrap();
        let other = Process::joining(&medium, path);
        other.region(3, false).unwrap();
        assert_eq!(other.word(LAST_FRAME_WORD), 9);
    });
}

#[test]
fn an_index_that_cannot_be_written_leaves_the_reader_alone() {
    let medium = SimMedium::new();
    let (there, path): (Arc<dyn Medium>, _) = (Arc::new(medium.clone()), Path::new("/a.db-shm"));
    let mut owner = reading(READ_SLOTS + 1);
    let before = owner.header();
    medium.set_faults(Faults::full_at(medium.used_bytes()));
    assert!(share_as_it_is(&owner, &there, path).is_err());
    medium.set_faults(Faults::default());
    assert_eq!((owner.header(), there.identity(path).unwrap()), (before, None));
    owner.unlock(0, READ_SLOTS + 1);
    assert!(owner.index.while_idle(|| owner.index.share(&there, path, true)).unwrap().is_ok());
}

#[test]
fn an_index_is_others_only_where_it_is_whole_and_nobody_writes() {
    let freed =
        |owner: &Process, below| owner.index.while_nobody_writes(|_| owner.index.indexed_log(below)).unwrap();
    let log = |owner: &Process| freed(owner, 0);
    let mut owner = reading(READ_SLOTS + 1);
    for (word, value) in [(FRAME_SUM_WORD, 3), (FRAME_SUM_WORD + 1, 4)] {
        [0, COPY_WORDS].iter().for_each(|start| owner.set(start + word, value));
    }
    let expected = Some(IndexedLog { frames: 9, checksum: [3, 4] });
    assert_eq!(log(&owner), expected);
    assert_eq!((freed(&owner, 8), owner.word(READ_MARK_WORDS + 1)), (expected, 8), "the reader sees as much");
    owner.unlock(0, READ_SLOTS + 1);
    assert_eq!((freed(&owner, 9), owner.word(READ_MARK_WORDS + 1)), (expected, UNUSED_MARK));
    owner.set(COPY_WORDS + LAST_FRAME_WORD, 8);
    assert_eq!(log(&owner), None, "torn");
    owner.set(COPY_WORDS + LAST_FRAME_WORD, 9);
    assert_eq!(log(&owner), expected);
    owner.index.renew();
    assert_eq!(log(&owner), None, "unmade");
    assert!(owner.lock(0, WRITE_SLOT, true));
    assert_eq!(owner.index.while_nobody_writes(|_| ()), None);
}

/// A group's index of so many regions, of which a member shares a slot by its seat.
fn read_by_a_member(regions: usize, slot: usize) -> (Process, Arc<Board>, usize) {
    let owner = reading(slot);
    let board = owner.index.while_nobody_writes(|_| owner.index.begin_group(DATABASE)).unwrap().unwrap();
    owner.region(regions - 1, true).unwrap();
    owner.handles[0].unshare(u8::MAX);
    let seat = owner.index.take_seat().unwrap();
    board.set_open(true);
    assert!(board.share(seat, 1 << slot, board.epoch(), true));
    (owner, board, seat)
}

#[test]
fn a_member_that_reads_by_its_seat_is_left_behind_with_its_slot_and_its_memory() {
    for dies in [false, true] {
        on_both(|medium, path| {
            let slot = READ_SLOTS + 1;
            let (owner, board, seat) = read_by_a_member(3, slot);
            let mut held = owner.index.register();
            let joined = owner.index.join_member(&mut held).unwrap();
            let mut members = Region::new(REGION).unwrap();
            members.join(&joined.memory, 0).unwrap();
            share_as_it_is(&owner, &medium, path).unwrap();
            let mut other = Process::joining(&medium, path);
            other.region(2, false).unwrap();
            assert!(!other.lock(0, slot, true), "the member's mark must stay");
            other.set(LAST_FRAME_WORD, 10);
            assert_eq!(owner.word(LAST_FRAME_WORD), 10);
            // SAFETY: a region is far larger.
            let seen = unsafe { members.word(LAST_FRAME_WORD) }.load(Ordering::SeqCst);
            assert_eq!(seen, 9, "nobody changes what the member has");
            if dies {
                owner.index.leave_seat(seat);
            } else {
                assert!(!board.end(seat, 1 << slot, joined.epoch), "the owner has to be told");
            }
            assert!(!other.lock(0, slot, true));
            owner.index.trim();
            assert!(other.lock(0, slot, true));
        });
    }
}

#[test]
fn an_index_of_a_group_that_is_not_shared_after_all_is_the_groups_as_before() {
    let medium = SimMedium::new();
    let (there, path): (Arc<dyn Medium>, _) = (Arc::new(medium.clone()), Path::new("/a.db-shm"));
    let slot = READ_SLOTS + 1;
    let (owner, board, seat) = read_by_a_member(3, slot);
    let is_the_groups = |value| {
        let mut held = owner.index.register();
        let joined = owner.index.join_member(&mut held).unwrap();
        let mut members = Region::new(REGION).unwrap();
        members.join(&joined.memory, 0).unwrap();
        owner.set(LAST_FRAME_WORD, value);
        // SAFETY: a region is far larger.
        assert_eq!(unsafe { members.word(LAST_FRAME_WORD) }.load(Ordering::SeqCst), value);
        assert!(!joined.is_file);
    };
    medium.set_faults(Faults::full_at(medium.used_bytes()));
    assert!(share_as_it_is(&owner, &there, path).is_err());
    medium.set_faults(Faults::default());
    is_the_groups(10);
    for value in [11, 12] {
        share_as_it_is(&owner, &there, path).unwrap();
        owner.index.keep_as_it_is();
        is_the_groups(value);
        assert!(owner.index.is_shared_by(seat));
    }
    assert!(!board.end(seat, 1 << slot, 0));
}

/// The owner looks at the seats before the new epoch, which the member looks at behind its end: one of them sees the other.
#[test]
fn a_member_that_ends_its_read_while_the_index_is_copied_keeps_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db-shm");
    let (medium, slot): (Arc<dyn Medium>, _) = (Arc::new(OsMedium), READ_SLOTS + 1);
    let mut untold = 0;
    for _ in 0..if cfg!(miri) { 1 } else { 40 } {
        let (owner, board, seat) = read_by_a_member(200, slot);
        let epoch = board.epoch();
        let is_told = std::thread::scope(|scope| {
            let member = scope.spawn(|| {
                // Once the slot is locked on the file.
                let locked = |file: &Arc<dyn litefoot_storage::file::File>| {
                    file.is_locked(120 + slot as u64, 1, litefoot_storage::file::RangeLock::Exclusive)
                        .unwrap()
                };
                loop {
                    let there = medium.identity(&path).unwrap().is_some();
                    let file = there.then(|| medium.open(&path, FileKind::WalIndex, OpenMode::ReadWrite));
                    if file.and_then(std::result::Result::ok).is_some_and(|file| locked(&file)) {
                        return board.end(seat, 1 << slot, epoch);
                    }
                }
            });
            share_as_it_is(&owner, &medium, &path).unwrap();
            member.join().unwrap()
        });
        untold += u32::from(is_told);
        let mut other = Process::joining(&medium, &path);
        other.region(0, false).unwrap();
        assert_eq!(other.lock(0, slot, true), is_told, "nobody tells the owner");
        medium.delete(&path).unwrap();
    }
    assert!(untold > 0, "each copy was over before");
}
