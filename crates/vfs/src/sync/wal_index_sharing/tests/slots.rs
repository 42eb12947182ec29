//! Slots: who has them, in this process and in others.

use super::*;

#[test]
fn slots_exclude_handles_of_one_process_and_of_others() {
    on_both(|medium, path| {
        let [mut one, mut other] = [(); 2].map(|()| Process::joining(&medium, path));
        let slot = READ_SLOTS + 1;
        assert!(one.lock(0, slot, false) && one.lock(1, slot, false) && other.lock(0, slot, false));
        assert!(!one.index.try_share(&one.handles[0], slot + 1, 1), "not without the file's lock");
        other.unlock(0, slot);
        assert!(!other.lock(0, slot, true));
        assert!(!one.index.try_unshare(&one.handles[0], slot, 1), "not without the file's lock");
        one.unlock(0, slot);
        assert!(!other.lock(0, slot, true), "the other handle shares it");
        one.unlock(1, slot);
        assert!(other.lock(0, slot, true) && !one.lock(0, slot, false) && !other.lock(1, slot, false));
        other.unlock(0, slot);
        for slot in [WRITE_SLOT, CHECKPOINT_SLOT, READ_SLOTS + 4] {
            assert!(one.lock(1, slot, true) && !other.lock(1, slot, true) && !other.lock(0, slot, false));
            one.unlock(1, slot);
            assert!(other.lock(1, slot, true));
            other.unlock(1, slot);
        }
        // A handle that is closed holds nothing.
        assert!(one.lock(0, slot, false) && one.lock(0, WRITE_SLOT, true));
        one.index.unregister(&mut one.handles[0]);
        assert!(other.lock(0, slot, true) && other.lock(0, WRITE_SLOT, true));
        // As SQLite takes several.
        assert!(!one.index.lock(&mut one.handles[1], READ_SLOTS, 5, true));
        other.unlock(0, slot);
        assert!(one.index.lock(&mut one.handles[1], READ_SLOTS, 5, true) && !other.lock(1, slot + 2, false));
    });
}

#[test]
fn a_thread_that_is_late_leaves_no_lock_behind() {
    on_both(|medium, path| {
        let mut process = Process::owner();
        let slot = READ_SLOTS + 2;
        assert!(process.lock(0, slot, false));
        process.index.share(&medium, path, true).unwrap();
        let mut other = Process::joining(&medium, path);
        assert!(other.lock(0, slot, true), "it was shared in memory");
        other.unlock(0, slot);
        assert!(process.lock(1, slot, false) && !other.lock(0, slot, true));
        process.unlock(0, slot);
        assert!(!other.lock(0, slot, true), "the other handle shares it");
        process.unlock(1, slot);
        assert!(other.lock(0, slot, true));
        other.unlock(0, slot);
        // One that has left shares no more, before another takes it exclusively.
        assert!(process.lock(0, slot, false));
        process.handles[0].unshare(1 << slot);
        assert!(process.lock(1, slot, true));
        process.unlock(0, slot);
        assert!(!other.lock(0, slot, false), "the exclusive lock is there still");
        process.unlock(1, slot);
        // The late one gives it back last.
        process.handles[0].announce_of_test(slot);
        assert!(process.lock(1, slot, false));
        process.unlock(1, slot);
        assert!(!other.lock(0, slot, true));
        process.unlock(0, slot);
        assert!(other.lock(0, slot, true));
    });
}

/// A sharer must never see what an exclusive holder of another process has half done.
#[test]
fn processes_share_a_slot_or_have_it_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (medium, path): (Arc<dyn Medium>, _) = (Arc::new(OsMedium), directory.path().join("a.db-shm"));
    let [one, other] = [(); 2].map(|()| Process::joining(&medium, &path));
    let (is_done, is_torn) = (AtomicBool::new(false), AtomicBool::new(false));
    let looks = AtomicU32::new(0);
    let work = |index: &WalIndex, writes: bool| {
        let region = index.map(0, REGION, true).unwrap().unwrap().cast::<AtomicU32>();
        // SAFETY: words of the region, which lives as long as the index.
        let words = [100, 5000].map(|word| unsafe { region.add(word).as_ref() });
        let mut held = index.register();
        let mut changes = 0;
        while !is_done.load(Ordering::Relaxed) {
            if !index.lock(&mut held, 4, 1, writes) {
                continue;
            }
            if writes {
                words[0].fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                words[1].fetch_add(1, Ordering::Relaxed);
                changes += 1;
            } else {
                let [before, after] = words.map(|word| word.load(Ordering::Relaxed));
                if before != after {
                    is_torn.store(true, Ordering::Relaxed);
                    is_done.store(true, Ordering::Relaxed);
                }
                looks.fetch_add(1, Ordering::Relaxed);
            }
            index.unlock(&mut held, 4, 1);
            if changes >= 300 && looks.load(Ordering::Relaxed) >= 300 {
                is_done.store(true, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
        index.unregister(&mut held);
    };
    std::thread::scope(|scope| {
        for index in [&one.index, &other.index] {
            for writes in [false, true] {
                scope.spawn(move || work(index, writes));
            }
        }
    });
    assert!(!is_torn.load(Ordering::Relaxed));
    assert_eq!(one.word(100), other.word(5000));
    assert!(one.word(100) >= 300);
}
