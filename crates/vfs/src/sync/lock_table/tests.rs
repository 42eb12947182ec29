use super::*;
use crate::sync::file_seats::SeatLock;
use crate::sync::group_board::of_test::DATABASE;
use crate::sync::group_changes::Moment;
use Level::*;
use std::sync::atomic::AtomicU64;

const ALL: [Level; 5] = [None, Shared, Reserved, Pending, Exclusive];

#[test]
fn a_word_is_read_as_the_level_that_was_written() {
    for level in ALL {
        assert_eq!(Level::of(level as u8), level);
    }
}

#[test]
fn the_rules_of_lockingv3() {
    // (what handle 1 holds, what handle 2 asks for, granted, level of 2 afterwards)
    let cases = [
        (None, Shared, true, Shared),
        (Shared, Shared, true, Shared),
        (Reserved, Shared, true, Shared),
        (Pending, Shared, false, None),
        (Exclusive, Shared, false, None),
        (Shared, Reserved, true, Reserved),
        (Reserved, Reserved, false, None),
        (Shared, Exclusive, false, Pending),
        (Reserved, Exclusive, false, None),
        (Pending, Exclusive, false, None),
        (None, Exclusive, true, Exclusive),
    ];
    for (held, wanted, granted, after) in cases {
        let table = LockTable::default();
        let (one, two) = (table.new_reader_slot(), table.new_reader_slot());
        assert!(table.lock(&one, held));
        assert_eq!(table.lock(&two, wanted), granted, "{held:?} against {wanted:?}");
        assert_eq!(two.level(), after, "{held:?} against {wanted:?}");
    }
}

#[test]
fn a_refused_request_leaves_the_level_as_it_is() {
    // The level after each request, while the highest level of the others is none, SHARED, RESERVED, PENDING, EXCLUSIVE.
    for (held, wanted, granted_by) in [
        (None, Shared, [Shared, Shared, Shared, None, None]),
        (Shared, Reserved, [Reserved, Reserved, Shared, Shared, Shared]),
        (Reserved, Pending, [Pending, Pending, Reserved, Reserved, Reserved]),
        (Shared, Exclusive, [Exclusive, Pending, Shared, Shared, Shared]),
        (Pending, Exclusive, [Exclusive, Pending, Pending, Pending, Pending]),
        (Reserved, None, [Reserved; 5]),
    ] {
        for (others, level) in ALL.into_iter().zip(granted_by) {
            assert_eq!(granted(held, wanted, others), level, "{held:?}: {wanted:?} against {others:?}");
        }
    }
}

#[test]
fn a_quick_request_does_what_the_other_does_or_nothing() {
    for held in ALL {
        for others in ALL {
            let [quick, slow] = [(); 2].map(|()| {
                let table = LockTable::default();
                let (one, two) = (table.new_reader_slot(), table.new_reader_slot());
                // Levels that cannot meet are no case.
                let meet = table.lock(&one, held) && table.lock(&two, others);
                (table, one, two, meet)
            });
            if !quick.3 {
                continue;
            }
            let shared = quick.0.try_share(&quick.1);
            assert_eq!(shared, held == None && slow.0.lock(&slow.1, Shared), "{held:?}, {others:?}");
            assert_eq!(quick.1.level(), if shared { Shared } else { held }, "{held:?}, {others:?}");
            let before = quick.1.level();
            assert_eq!(quick.0.try_unshare(&quick.1), before == Shared, "{held:?}, {others:?}");
            assert_eq!(quick.1.level(), if before == Shared { None } else { before });
            assert_eq!(quick.2.level(), others);
        }
    }
}

#[test]
fn pending_waits_for_readers_and_then_wins() {
    let table = LockTable::default();
    let [one, two, three] = [table.new_reader_slot(), table.new_reader_slot(), table.new_reader_slot()];
    assert!(table.lock(&one, Shared) && table.lock(&two, Shared) && table.lock(&two, Reserved));
    assert!(!table.lock(&two, Exclusive));
    assert_eq!(two.level(), Pending);
    assert!(!table.lock(&three, Shared));
    table.unlock(&one, None);
    assert!(table.lock(&two, Exclusive));
    table.unlock(&two, Shared);
    assert!(table.lock(&three, Shared) && !table.is_reserved());
}

#[test]
fn a_handle_that_reads_by_slots_is_idle_between_transactions() {
    let table = LockTable::default();
    let [one, two] = [table.new_reader_slot(), table.new_reader_slot()];
    assert!(table.lock(&one, Shared));
    assert_eq!(table.while_idle(|| ()), Option::None);
    one.set_by_slots(true);
    assert_eq!(table.while_idle(|| table.gate.closed() == CLOSED), Some(true));
    assert!(table.lock(&two, Shared));
    assert_eq!(table.while_idle(|| ()), Option::None);
    table.unlock(&two, None);
    assert!(table.lock(&one, Reserved));
    assert_eq!(table.while_idle(|| ()), Option::None);
}

#[test]
fn handles_stay_inside_while_the_file_is_unwritten() {
    for (level, by_slots, expected) in [
        (None, false, Some(Inside { level: None, are_idle: true })),
        (Shared, false, Some(Inside { level: Shared, are_idle: false })),
        (Shared, true, Some(Inside { level: Shared, are_idle: true })),
        (Reserved, true, Some(Inside { level: Reserved, are_idle: false })),
        (Pending, false, Some(Inside { level: Pending, are_idle: false })),
        (Exclusive, true, Option::None),
    ] {
        let table = LockTable::default();
        let [one, other] = [table.new_reader_slot(), table.new_reader_slot()];
        assert!(table.lock(&one, level));
        one.set_by_slots(by_slots);
        let found = table.while_unwritten(|inside| {
            assert!(!table.try_share(&other), "nobody else begins");
            assert!(level != Shared || table.try_unshare(&one), "a reader may leave");
            inside
        });
        assert_eq!(found, expected, "{level:?}");
        assert_eq!(table.lock(&other, Shared), level < Pending, "{level:?}");
    }
}

#[test]
fn a_reader_slot_that_is_left_is_in_nobodys_way() {
    let table = LockTable::default();
    let [one, two] = [table.new_reader_slot(), table.new_reader_slot()];
    assert!(table.lock(&one, Exclusive) && !table.lock(&two, Shared));
    assert_eq!(table.while_free(|| ()), Option::None);
    table.leave(&one);
    assert_eq!(table.while_free(|| table.gate.closed() == CLOSED), Some(true));
    assert!(table.lock(&two, Shared) && !table.is_reserved());
}

/// A reader must never see what an exclusive holder has half done.
#[test]
fn threads_read_together_or_write_alone() {
    let table = LockTable::default();
    let (one, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let read = || {
        let reader_slot = table.new_reader_slot();
        let mut seen = 0;
        while seen < 2000 {
            if table.lock(&reader_slot, Shared) {
                assert_eq!(one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
                table.unlock(&reader_slot, None);
                seen += 1;
            }
        }
        table.leave(&reader_slot);
    };
    let write = || {
        let reader_slot = table.new_reader_slot();
        let mut done = 0;
        while done < 500 {
            if table.lock(&reader_slot, Shared)
                && table.lock(&reader_slot, Reserved)
                && table.lock(&reader_slot, Exclusive)
            {
                one.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                other.fetch_add(1, Ordering::Relaxed);
                done += 1;
            }
            table.unlock(&reader_slot, None);
        }
        table.leave(&reader_slot);
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(read);
        }
        for _ in 0..2 {
            scope.spawn(write);
        }
    });
    assert_eq!((one.load(Ordering::Relaxed), other.load(Ordering::Relaxed)), (1000, 1000));
    assert!(table.reader_slots.lock().is_empty() && table.gate.closed() == OPEN);
}

#[test]
fn members_that_read_by_their_seats_count_as_readers() {
    let now = Moment { epoch: 1, commits: 0 };
    for (wanted, granted, after) in [
        (Shared, true, Shared),
        (Reserved, true, Reserved),
        (Pending, true, Pending),
        (Exclusive, false, Pending),
    ] {
        let (table, board) = (LockTable::default(), Arc::new(Board::new(DATABASE).unwrap()));
        let slot = table.new_reader_slot();
        board.set_open(true);
        board.show(now);
        table.sit(&board, 5);
        assert_eq!(board.read(5, now), SeatLock::Shared);
        assert_eq!(table.inside(), Inside { level: Shared, are_idle: false });
        assert_eq!((table.while_free(|| ()), table.while_idle(|| ())), (Option::None, Option::None));
        assert!(table.lock(&slot, Shared));
        assert_eq!((table.lock(&slot, wanted), slot.level()), (granted, after), "{wanted:?}");
        assert_eq!(board.may_show(now), after < Pending, "{wanted:?}");
        assert!(board.unread(5) && table.lock(&slot, Exclusive) && !board.may_show(now));
        table.unlock(&slot, None);
        assert!(board.may_show(now) && table.while_free(|| board.may_show(now)) == Some(false));
    }
}

#[test]
fn the_first_member_finds_the_gate_as_it_is() {
    let now = Moment { epoch: 1, commits: 0 };
    let (table, board) = (LockTable::default(), Arc::new(Board::new(DATABASE).unwrap()));
    let slot = table.new_reader_slot();
    assert!(table.lock(&slot, Exclusive));
    board.set_open(true);
    board.show(now);
    table.sit(&board, 0);
    assert!(!board.may_show(now));
    table.unlock(&slot, None);
    assert!(board.may_show(now));
}

#[test]
fn a_forked_child_leaves_the_board_of_its_parent_alone() {
    let now = Moment { epoch: 1, commits: 0 };
    let (table, board) = (LockTable::default(), Arc::new(Board::new(DATABASE).unwrap()));
    let parent = fork::generation().wrapping_sub(1);
    let members = Members { board: board.clone(), seats: AtomicUsize::new(1), generation: parent };
    assert!(table.members.set(members).is_ok());
    let slot = table.new_reader_slot();
    board.set_open(true);
    board.show(now);
    assert_eq!(board.read(0, now), SeatLock::Shared);
    assert!(table.lock(&slot, Exclusive) && board.may_show(now));
}
