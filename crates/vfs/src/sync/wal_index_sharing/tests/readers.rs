//! Readers that stay inside while an index is shared, and where it is not shared after all.

use super::*;

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
