use super::*;

#[test]
fn slots_are_shared_or_exclusive() {
    let memory = WalIndex::default();
    let (mut a, mut b) = (memory.register(), memory.register());
    assert!(memory.lock(&mut a, 3, 1, false));
    assert!(memory.lock(&mut b, 3, 1, false));
    assert!(a.reads() && !memory.lock(&mut b, 1, 7, true));
    // Not even one's own.
    memory.unlock(&mut a, 3, 1);
    assert!(!memory.lock(&mut b, 3, 1, true));
    memory.unlock(&mut b, 3, 1);
    assert!(!a.reads() && memory.lock(&mut b, 1, 7, true));
    assert!(!memory.lock(&mut a, 5, 1, false) && !memory.lock(&mut a, 3, 1, false));
    assert!(memory.lock(&mut a, 0, 1, true));
    memory.unlock(&mut b, 1, 7);
    assert!(memory.lock(&mut a, 5, 1, false));
    assert!(memory.lock(&mut b, 1, 1, true));
    memory.unregister(&mut b);
    assert!(memory.lock(&mut a, 1, 1, true));
}

#[test]
fn a_quick_request_shares_what_was_shared_before_and_gives_back_what_is_shared() {
    let memory = WalIndex::default();
    let (mut a, b) = (memory.register(), memory.register());
    assert!(!memory.try_share(&a, 3, 1) && !a.reads(), "nobody has shared it yet");
    assert!(memory.lock(&mut a, 3, 1, false) && memory.try_share(&b, 3, 1) && b.reads());
    assert!(memory.try_share(&b, 3, 1), "it has it already");
    assert!(memory.try_unshare(&a, 3, 1) && !a.reads() && b.reads());
    assert!(!memory.lock(&mut a, 3, 1, true));
    assert!(memory.try_unshare(&b, 3, 1) && memory.lock(&mut a, 3, 1, true));
    assert!(!memory.try_share(&b, 3, 1) && !b.reads(), "another handle has it exclusively");
    assert!(!memory.try_unshare(&a, 3, 1), "nor is that given back");
    memory.unlock(&mut a, 3, 1);
    assert!(memory.try_share(&b, 3, 1));
}

#[test]
fn an_index_that_is_made_anew_is_like_none_before() {
    let memory = WalIndex::default();
    let mut held = memory.register();
    memory.join(|| Ok::<(), ()>(())).unwrap();
    let region = memory.map(0, 32768, true).unwrap().unwrap();
    // SAFETY: region 0 holds 32768 bytes.
    let header = || unsafe { std::slice::from_raw_parts(region.as_ptr(), 96) }.to_vec();
    // As SQLite makes it of an empty log.
    let make = |held: &mut HeldSlots| {
        assert!(memory.lock(held, WRITE_SLOT, 1, true));
        let mut copy = [0_u8; 48];
        copy[..4].copy_from_slice(&3_007_000_u32.to_ne_bytes());
        copy[12] = 1;
        for at in [0, 48] {
            // SAFETY: as above.
            unsafe { region.as_ptr().add(at).copy_from_nonoverlapping(copy.as_ptr(), 48) };
        }
        memory.index_made(held);
        memory.unlock(held, WRITE_SLOT, 1);
        header()
    };
    let first = make(&mut held);
    assert_eq!(make(&mut held), first, "nothing has changed");
    assert!(memory.lock(&mut held, 3, 1, false));
    assert_eq!(memory.while_idle(|| ()), None, "somebody reads");
    memory.unlock(&mut held, 3, 1);
    let mut seen = vec![first];
    for _ in 0..3 {
        assert_eq!(memory.while_idle(|| memory.renew()), Some(()));
        assert_eq!(header(), [0; 96]);
        let made = make(&mut held);
        assert!(made[..48] == made[48..] && !seen.contains(&made));
        seen.push(made);
    }
}

#[test]
fn leaving_gives_back_what_is_held_and_the_last_one_clears() {
    let memory = WalIndex::default();
    let (mut a, mut b) = (memory.register(), memory.register());
    assert_eq!(memory.join(|| Err(1)), Err(1));
    for _ in 0..2 {
        let first = memory.state().users == 0;
        assert_eq!(memory.join(|| if first { Ok(()) } else { Err(2) }), Ok(()));
    }
    assert!(memory.map(0, 32768, false).unwrap().is_none());
    let region = memory.map(1, 32768, true).unwrap().unwrap();
    // SAFETY: region 1 holds 32768 bytes.
    unsafe { region.as_ptr().write(7) };
    assert_eq!(memory.map(1, 32768, false).unwrap(), Some(region));
    assert!(memory.lock(&mut a, 0, 1, true));
    memory.leave(&mut a, true);
    assert!(memory.lock(&mut b, 0, 1, true));
    memory.leave(&mut b, true);
    assert!(memory.map(1, 32768, false).unwrap().is_none());
    assert!(memory.map(REGIONS, 32768, true).is_err());
}

/// A sharer must never see what an exclusive holder has half done.
#[test]
fn threads_share_a_slot_or_have_it_alone() {
    let memory = WalIndex::default();
    let (one, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let share = || {
        let (mut held, mut seen) = (memory.register(), 0);
        while seen < 2000 {
            if memory.lock(&mut held, 4, 1, false) {
                assert_eq!(one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
                memory.unlock(&mut held, 4, 1);
                seen += 1;
            }
        }
        memory.unregister(&mut held);
    };
    let change = || {
        let (mut held, mut done) = (memory.register(), 0);
        while done < 500 {
            if memory.lock(&mut held, 4, 2, true) {
                one.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                other.fetch_add(1, Ordering::Relaxed);
                memory.unlock(&mut held, 4, 2);
                done += 1;
            }
        }
        memory.unregister(&mut held);
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(share);
        }
        for _ in 0..2 {
            scope.spawn(change);
        }
    });
    assert_eq!((one.load(Ordering::Relaxed), other.load(Ordering::Relaxed)), (1000, 1000));
    assert!(memory.state().readers.is_empty() && memory.exclusive.glance() == 0);
}
