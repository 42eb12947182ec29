//! Every transition of the word of a page, one thread at a time.

use super::*;

fn ready(frame: u32) -> PageState {
    let state = PageState::default();
    state.begin(frame, false);
    state.ready();
    state.unpin();
    state
}

#[test]
fn a_page_goes_through_its_states() {
    let state = PageState::<AtomicU64>::default();
    assert_eq!((state.look(), state.pin()), (Found::Empty, None));
    state.begin(7, false);
    assert_eq!((state.look(), state.pin(), state.evict(7)), (Found::Reading, None, false));
    assert!(state.join());
    state.ready();
    assert_eq!((state.look(), state.pin()), (Found::Ready(7), Some(7)));
    // Three holds, and then none.
    for _ in 0..3 {
        assert!(!state.evict(7));
        state.unpin();
    }
    // It was used again: spared once.
    assert!(!state.evict(7));
    assert!(!state.evict(8));
    assert!(state.evict(7));
    assert_eq!(state.look(), Found::Empty);
}

#[test]
fn however_often_a_page_is_used_it_is_spared_three_times() {
    let state = ready(1);
    for _ in 0..100 {
        state.pin().unwrap();
        state.unpin();
    }
    assert_eq!((0..10).position(|_| state.evict(1)), Some(MOST_USAGE));
}

#[test]
fn a_page_read_ahead_waits_for_its_first_use() {
    let state = PageState::<AtomicU64>::default();
    state.begin(0, true);
    state.ready();
    assert_eq!((state.look(), state.pin()), (Found::Ready(0), None));
    assert!(state.first_use());
    assert!(!state.first_use());
    assert_eq!(state.pin(), Some(0));
    state.unpin();

    let unused = PageState::<AtomicU64>::default();
    unused.begin(1, true);
    unused.ready();
    assert!(!unused.evict(1));
    assert!(unused.evict(1));
}

#[test]
fn a_latched_page_stays_where_it_is_and_nobody_comes() {
    let state = PageState::<AtomicU64>::default();
    assert_eq!(state.latch(), Latched::Absent);
    assert_eq!(
        (state.look(), state.latch(), state.forget()),
        (Found::Latched, Latched::Busy, Forgotten::Busy)
    );
    state.unlatch();
    assert_eq!(state.look(), Found::Empty);

    let state = ready(5);
    state.pin().unwrap();
    assert_eq!(state.latch(), Latched::Frame(5, 1));
    assert_eq!((state.pin(), state.pin_ready(), state.write(), state.clean()), (None, None, None, None));
    assert_eq!((state.forget_latched(), state.evict(5)), (None, false));
    assert!(!state.is_steady());
    state.unpin();
    assert!((0..10).all(|_| !state.evict(5)));
    assert_eq!(state.forget_latched(), Some(5));
    assert_eq!(state.look(), Found::Latched);
    state.unlatch();
    assert_eq!(state.look(), Found::Empty);
    state.begin(1, false);
    assert_eq!(state.latch(), Latched::Busy);
}

#[test]
fn a_page_is_spoiled_until_it_goes() {
    let state = ready(2);
    state.pin().unwrap();
    assert!(state.is_steady());
    assert_eq!(state.latch(), Latched::Frame(2, 1));
    state.spoil();
    state.unlatch();
    assert!(!state.is_steady());
    state.unpin();
    assert_eq!(state.forget(), Forgotten::Frame(2, false));
    state.begin(3, false);
    state.ready();
    assert!(state.is_steady());
}

#[test]
fn a_failed_read_leaves_nothing() {
    let state = PageState::<AtomicU64>::default();
    state.begin(3, false);
    assert!(state.join());
    state.failed();
    assert_eq!(state.look(), Found::Empty);
}

#[test]
fn pins_do_not_overflow() {
    let state = ready(3);
    let more = (0..100_000).map_while(|_| state.pin()).count();
    assert_eq!(more, 0xffff);
    assert!(!state.join());
    assert_eq!((state.look(), state.pins()), (Found::Ready(3), 0xffff));
}

#[test]
fn a_writer_is_alone_and_leaves_a_dirty_page_that_stays() {
    let state = ready(4);
    state.pin().unwrap();
    assert_eq!(state.write(), None);
    state.unpin();
    assert_eq!(state.write(), Some((4, true)));
    assert_eq!((state.pin(), state.write(), state.look()), (None, None, Found::Writing));
    assert_eq!((state.clean(), state.forget()), (None, Forgotten::Pinned));
    state.written();
    assert!(state.is_dirty() && (0..10).all(|_| !state.evict(4)));
    assert_eq!(state.write(), Some((4, false)));
    state.written();
    // Cleaning lets readers in, and neither writers nor the clock.
    assert_eq!(state.clean(), Some(4));
    assert_eq!((state.clean(), state.write(), state.forget()), (None, None, Forgotten::Busy));
    assert_eq!(state.pin(), Some(4));
    state.cleaned(false);
    assert!(state.is_dirty());
    state.unpin();
    assert_eq!(state.clean(), Some(4));
    state.cleaned(true);
    assert!(!state.is_dirty());
    assert_eq!(state.forget(), Forgotten::Frame(4, false));
    state.begin_new(9);
    state.written();
    assert_eq!((state.forget(), state.forget()), (Forgotten::Frame(9, true), Forgotten::Empty));
}
