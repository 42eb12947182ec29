//! The index itself: its regions, its header, who empties, makes or deletes it, and what failures and power cuts leave.

use super::*;
use crate::sync::group_board::of_test::DATABASE;

#[test]
fn regions_are_one_memory_and_grow_for_all() {
    on_both(|medium, path| {
        let [one, other] = [(); 2].map(|()| Process::joining(&medium, path));
        assert!(one.region(0, false).is_none() && other.region(0, false).is_none());
        let (here, there) = (one.region(1, true).unwrap(), other.region(1, false).unwrap());
        assert!(other.region(2, false).is_none());
        // SAFETY: bytes of the regions.
        unsafe {
            here.add(REGION - 1).write(7);
            assert_eq!(there.add(REGION - 1).read(), 7);
        }
        one.set(9, 5);
        assert_eq!((other.word(9), one.region(1, false)), (5, Some(here)));
    });
}

#[test]
fn the_first_process_empties_the_file_and_the_last_deletes_it_where_sqlite_says_so() {
    on_both(|medium, path| {
        medium.open(path, FileKind::WalIndex, OpenMode::Create).unwrap().write_at(&[9; REGION], 0).unwrap();
        let one = Process::joining(&medium, path);
        assert!(one.region(0, false).is_none(), "it was left by a crash");
        one.region(0, true).unwrap();
        one.set(3, 4);
        let other = Process::joining(&medium, path);
        other.region(0, false).unwrap();
        assert_eq!(other.word(3), 4);
        one.leave(false);
        other.set(3, 5);
        assert!(medium.identity(path).unwrap().is_some());
        let third = Process::joining(&medium, path);
        third.region(0, false).unwrap();
        assert_eq!(third.word(3), 5);
        other.leave(false);
        third.leave(true);
        assert!(medium.identity(path).unwrap().is_none());
        // The same wal-index may be used again.
        let mut again = Process::joining(&medium, path);
        for held in &mut again.handles {
            again.index.leave(held, false);
        }
        assert!(!again.index.on_file.load(Ordering::SeqCst) && again.index.state().regions.is_empty());
        again.index.join_file(&medium, path).unwrap();
        assert!(again.index.map(0, REGION, false).unwrap().is_none());
    });
}

/// Others may begin to read by an index before the process that makes it gives the write slot back.
#[test]
fn the_index_of_an_empty_log_is_like_none_before_as_soon_as_it_is_there() {
    let mut process = Process::owner();
    process.index.make_of_empty_log(&process.handles[0]);
    assert_eq!(process.header(), [0; 2 * COPY_WORDS], "the slot is another's");
    process.make_index();
    let mut seen = vec![process.header()];
    for is_shared in [false, true, false] {
        process.index.invalidate();
        let words = [BACKFILL_WORD, ATTEMPTED_WORD, READ_MARK_WORDS + 2];
        words.iter().for_each(|word| process.set(*word, 7));
        assert!(!is_shared || process.lock(1, READ_SLOTS + 2, false));
        assert!(process.lock(0, WRITE_SLOT, true));
        process.index.make_of_empty_log(&process.handles[0]);
        let made = process.header();
        assert!(read_header(&process.index.state().regions[0]).is_some() && !seen.contains(&made));
        let words = words.map(|word| process.word(word));
        assert_eq!(words, [0, 0, if is_shared { 7 } else { UNUSED_MARK }], "what a reader shares stays");
        process.index.make_of_empty_log(&process.handles[0]);
        process.index.index_made(&process.handles[0]);
        assert_eq!(process.header(), made, "it is there");
        process.unlock(0, WRITE_SLOT);
        process.unlock(1, READ_SLOTS + 2);
        seen.push(made);
    }
}

#[test]
fn going_out_and_back_leaves_the_addresses_and_makes_each_index_another() {
    on_both(|medium, path| {
        let mut process = Process::owner();
        let (first, second) = (process.region(0, true).unwrap(), process.region(1, true).unwrap());
        process.make_index();
        process.set(100, 9);
        let mut seen = vec![process.header()];
        for round in 0..3 {
            process.index.share(&medium, path, true).unwrap();
            let header = process.header();
            assert!(header[..COPY_WORDS] == header[COPY_WORDS..] && !seen.contains(&header), "{round}");
            seen.push(header);
            assert_eq!(
                (process.word(READ_MARK_WORDS), process.word(READ_MARK_WORDS + 4), process.word(100)),
                (0, UNUSED_MARK, 0)
            );
            let other = Process::joining(&medium, path);
            other.region(0, false).unwrap();
            assert_eq!((other.header(), other.word(SUM_WORD)), (header, header[SUM_WORD]));
            assert!(process.lock(0, READ_SLOTS, false));
            process.unlock(0, READ_SLOTS);
            process.set(100, 9);
            drop(other);
            process.index.unshare(true).unwrap();
            assert!(medium.identity(path).unwrap().is_none());
            assert_eq!((process.header(), process.word(100)), ([0; 2 * COPY_WORDS], 0));
            assert_eq!((process.region(0, false), process.region(1, false)), (Some(first), Some(second)));
            // The next index is made by this process, in memory.
            process.make_index();
            assert!(process.lock(0, WRITE_SLOT, true));
            process.index.index_made(&process.handles[0]);
            process.unlock(0, WRITE_SLOT);
            assert!(!seen.contains(&process.header()));
            seen.push(process.header());
            assert!(process.index.try_share(&process.handles[0], READ_SLOTS, 1));
            assert!(process.index.try_unshare(&process.handles[0], READ_SLOTS, 1));
        }
        process.index.share(&medium, path, false).unwrap();
        assert_eq!(process.header(), [0; 2 * COPY_WORDS], "whoever comes makes it from the log");
        process.make_index();
        let made = process.header();
        assert!(process.lock(0, WRITE_SLOT, true));
        process.index.index_made(&process.handles[0]);
        process.unlock(0, WRITE_SLOT);
        assert_eq!(process.header(), made, "others may have it already");
    });
}

#[test]
fn an_index_of_others_is_changed_for_connections_that_may_remember_it() {
    on_both(|medium, path| {
        let mut other = Process::joining(&medium, path);
        other.region(0, true).unwrap();
        let process = Process::owner();
        process.region(1, true).unwrap();
        let join = || process.index.join_shared(&medium, path);
        other.make_index();
        let before = other.header();
        assert!(other.lock(0, WRITE_SLOT, true));
        assert!(matches!(join(), Err(Error::Busy)), "somebody writes");
        assert!(!process.index.on_file.load(Ordering::SeqCst) && process.header() == [0; 2 * COPY_WORDS]);
        other.unlock(0, WRITE_SLOT);
        join().unwrap();
        let after = process.header();
        assert!(
            after == other.header() && after[..COPY_WORDS] == after[COPY_WORDS..] && after[2] != before[2]
        );
        // The file is as long as what this process has, and the write slot is free.
        assert!(other.region(1, false).is_some() && other.lock(0, WRITE_SLOT, true));
        join().unwrap();
        assert_eq!(process.header(), after, "once");
        // Nobody remembers anything where nothing is in use.
        let unused = WalIndex::default();
        unused.join_shared(&medium, path).unwrap();
        unused.share(&medium, path, true).unwrap();
        assert!(!unused.on_file.load(Ordering::SeqCst) && other.header() == after);
    });
}

/// As SQLite's own VFS leaves it: of a header that was it keeps three bytes, until somebody makes an index. That process may be stopped.
#[test]
fn a_header_that_is_none_is_no_reason_to_wait() {
    on_both(|medium, path| {
        let other = Process::joining(&medium, path);
        other.region(0, true).unwrap();
        {
            let state = other.index.state();
            // SAFETY: the first word of a region.
            unsafe { state.regions[0].word(0) }.store(0x2d_e218, Ordering::SeqCst);
        }
        let process = Process::owner();
        process.region(0, true).unwrap();
        process.index.join_shared(&medium, path).unwrap();
        // There is no log: an index of none.
        let header = process.header();
        assert!(header == other.header() && header[..COPY_WORDS] == header[COPY_WORDS..]);
        assert_ne!(header, [0; 2 * COPY_WORDS]);
    });
}

#[test]
fn no_index_of_an_owner_is_one_that_its_members_may_remember_of_another() {
    on_both(|medium, path| {
        let mut other = Process::joining(&medium, path);
        other.region(0, true).unwrap();
        other.make_index();
        let remembered = other.header();
        let (index, mut held) = (WalIndex::default(), WalIndex::default().register());
        index.begin_group(DATABASE).unwrap();
        assert!(other.lock(0, WRITE_SLOT, true));
        assert!(matches!(index.join_file(&medium, path), Err(Error::Busy)), "somebody writes");
        assert!(index.state().regions.is_empty() && !index.is_used());
        other.unlock(0, WRITE_SLOT);
        index.join_file(&medium, path).unwrap();
        let others = other.header();
        assert!(others != remembered && others[..COPY_WORDS] == others[COPY_WORDS..]);
        index.leave(&mut held, false);
        // The same in memory, at the first use and at each later one.
        let owner = Process { index, handles: [held, WalIndex::default().register()] };
        let mut seen = vec![remembered, others];
        for _ in 0..2 {
            owner.index.join(|| Ok::<(), ()>(())).unwrap();
            owner.region(0, true).unwrap();
            owner.make_index();
            let mut held = owner.index.register();
            assert!(owner.index.lock(&mut held, WRITE_SLOT, 1, true));
            owner.index.index_made(&held);
            assert!(!seen.contains(&owner.header()));
            seen.push(owner.header());
            owner.index.leave(&mut held, false);
        }
    });
}

#[test]
fn an_index_that_nobody_has_made_is_made_where_all_of_its_kind_are_equal() {
    on_both(|medium, path| {
        let log = path.with_file_name(path.file_name().unwrap().to_str().unwrap().replace("-shm", "-wal"));
        let is_made = |content: Option<&[u8]>| {
            if let Some(content) = content {
                let file = medium.open(&log, FileKind::RedoLog, OpenMode::Create).unwrap();
                file.write_at(content, 0).unwrap();
            }
            let mut other = Process::joining(&medium, path);
            other.region(0, true).unwrap();
            let process = Process::owner();
            process.region(0, true).unwrap();
            process.index.join_shared(&medium, path).unwrap();
            assert_eq!(process.header(), other.header());
            assert!(other.lock(0, WRITE_SLOT, true), "the write slot is free");
            process.header()[0] != 0
        };
        assert!(is_made(None), "there is no log");
        medium.delete(path).unwrap();
        assert!(is_made(Some(&[0; 32])), "it is void");
        medium.delete(path).unwrap();
        assert!(!is_made(Some(&[0x37, 0x7f, 6, 0x83])), "SQLite makes it of the log");
    });
}

/// A child opens the database for each request, and an inherited connection knows the addresses.
#[test]
fn regions_that_are_adopted_again_clear_nothing_of_the_file() {
    on_both(|medium, path| {
        let other = Process::joining(&medium, path);
        other.region(0, true).unwrap();
        other.make_index();
        let parents = Process::owner();
        for _ in 0..2 {
            let child = WalIndex::default();
            child.adopt(&parents.index);
            let mut held = child.register();
            child.join_file(&medium, path).unwrap();
            child.map(0, REGION, true).unwrap().unwrap();
            let header = other.header();
            assert!(header[0] != 0);
            child.leave(&mut held, false);
            child.unregister(&mut held);
            WalIndex::default().adopt(&parents.index);
            assert_eq!(other.header(), header);
        }
    });
}

#[test]
fn marks_of_an_owner_mean_nothing_beside_others() {
    on_both(|medium, path| {
        let mut process = Process::owner();
        process.set(4, 50);
        process.index.refuse_snapshots_below(12);
        process.index.share(&medium, path, true).unwrap();
        process.set(4, 50);
        assert_eq!(process.index.seen_by_all(), 0);
        process.index.refuse_snapshots_below(12);
        assert!(process.lock(0, CHECKPOINT_SLOT, true));
        process.unlock(0, CHECKPOINT_SLOT);
        assert_eq!(process.word(32), 0, "nothing is refused in other processes' names");
    });
}

#[test]
fn a_full_or_failing_medium_is_an_error_and_changes_nothing() {
    let sim = SimMedium::new();
    let (medium, path): (Arc<dyn Medium>, _) = (Arc::new(sim.clone()), Path::new("/a.db-shm"));
    let process = Process::owner();
    let addresses = [0, 1, 2].map(|number| process.region(number, true).unwrap());
    process.make_index();
    let unmapped = (0..3).map(|n| Faults::failing(Operation::Map, FileKind::WalIndex, n));
    for (number, faults) in [Faults::full_at(REGION as u64)].into_iter().chain(unmapped).enumerate() {
        sim.set_faults(faults);
        process.index.share(&medium, path, true).unwrap_err();
        assert_eq!(process.header(), [0; 2 * COPY_WORDS], "{number}");
        process.index.join_shared(&medium, path).unwrap_err();
        sim.set_faults(Faults::default());
        assert_eq!([0, 1, 2].map(|number| process.region(number, false).unwrap()), addresses);
        // It is memory again: nobody else sees it.
        process.set(50, 7);
        let other = Process::joining(&medium, path);
        assert!(other.region(0, true).is_some() && other.word(50) == 0, "{number}");
        other.leave(true);
    }
    process.index.share(&medium, path, true).unwrap();
    sim.set_faults(Faults::full_at(3 * REGION as u64));
    assert!(process.index.map(3, REGION, true).is_err() && process.region(3, false).is_none());
    sim.set_faults(Faults::default());
    assert!(process.region(3, true).is_some());
}

/// A full file system must not end the process with SIGBUS where it stores into a region.
#[test]
fn a_full_file_system_is_an_error_before_anything_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("small");
    std::fs::create_dir(&place).unwrap();
    let mount = |arguments: &[&str]| {
        let done = std::process::Command::new(arguments[0]).args(&arguments[1..]).arg(&place).output();
        done.is_ok_and(|output| output.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=96k", "none"]) {
        return; // It takes root.
    }
    struct Unmounts<'a>(&'a dyn Fn() -> bool);
    impl Drop for Unmounts<'_> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let unmount = || mount(&["umount", "-l"]);
    let _unmounts = Unmounts(&unmount);
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    let process = Process::joining(&medium, &place.join("a.db-shm"));
    let last = (0..4).take_while(|number| process.index.map(*number, REGION, true).is_ok()).last().unwrap();
    assert!(last < 3);
    // SAFETY: bytes of regions that could be had.
    (0..=last).for_each(|number| unsafe { process.region(number, false).unwrap().write_bytes(1, REGION) });
}

#[test]
fn a_power_cut_leaves_an_index_that_nobody_trusts() {
    let sim = SimMedium::new();
    let (medium, path): (Arc<dyn Medium>, _) = (Arc::new(sim.clone()), Path::new("/a.db-shm"));
    let process = Process::joining(&medium, path);
    process.region(0, true).unwrap();
    sim.sync_directory(Path::new("/")).unwrap();
    process.make_index();
    let mut left = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let after: Arc<dyn Medium> = Arc::new(sim.cut(&mut Random::new(seed)));
        left.insert(after.info(path).unwrap().is_some_and(|found| found.len > 0));
        assert!(Process::joining(&after, path).region(0, false).is_none());
    }
    assert_eq!(left.len(), 2, "the file is there, or is not");
}
