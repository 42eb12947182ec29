use super::*;
use crate::sync::stock_process::StockProcess;
use crate::sync::wal_index::{CHECKPOINT_SLOT, READ_SLOTS};
use litefoot_sim::{Faults, Random, SimMedium};
use litefoot_storage::file::{FileKind, OpenMode, Operation};
use litefoot_storage::os::OsMedium;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32};

const REGION: usize = 32768;

/// Runs a test over a simulated medium, and over real files.
fn on_both(test: impl Fn(Arc<dyn Medium>, &Path)) {
    test(Arc::new(SimMedium::new()), Path::new("/a.db-shm"));
    let directory = tempfile::tempdir().unwrap();
    test(Arc::new(OsMedium), &directory.path().join("a.db-shm"));
}

/// A process in the multi-process state, with two handles.
struct Process {
    index: WalIndex,
    handles: [HeldSlots; 2],
}

impl Process {
    fn joining(medium: &Arc<dyn Medium>, path: &Path) -> Process {
        let index = WalIndex::default();
        let handles = [index.register(), index.register()];
        handles.iter().for_each(|_| index.join_file(medium, path).unwrap());
        Process { index, handles }
    }

    /// An owner with two idle handles, and a region.
    fn owner() -> Process {
        let index = WalIndex::default();
        let handles = [index.register(), index.register()];
        handles.iter().for_each(|_| index.join(|| Ok::<(), ()>(())).unwrap());
        index.map(0, REGION, true).unwrap().unwrap();
        Process { index, handles }
    }

    fn lock(&mut self, handle: usize, slot: usize, exclusive: bool) -> bool {
        self.index.lock(&mut self.handles[handle], slot, 1, exclusive)
    }

    fn unlock(&mut self, handle: usize, slot: usize) {
        self.index.unlock(&mut self.handles[handle], slot, 1);
    }

    fn region(&self, number: usize, extend: bool) -> Option<NonNull<u8>> {
        self.index.map(number, REGION, extend).unwrap()
    }

    fn word(&self, number: usize) -> u32 {
        self.index.state().word(number).unwrap().load(Ordering::SeqCst)
    }

    fn set(&self, number: usize, value: u32) {
        self.index.state().word(number).unwrap().store(value, Ordering::SeqCst);
    }

    fn header(&self) -> [u32; 2 * COPY_WORDS] {
        std::array::from_fn(|word| self.word(word))
    }

    /// Makes an index, as SQLite does from an empty log.
    fn make_index(&self) {
        for start in [0, COPY_WORDS] {
            self.set(start + VERSION_WORD, VERSION);
            self.set(start + INIT_WORD, u32::from_ne_bytes([1, 0, 0, 0]));
        }
    }

    fn leave(mut self, delete: bool) {
        for held in &mut self.handles {
            self.index.leave(held, delete);
        }
    }
}

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

fn stock_database() -> (tempfile::TempDir, PathBuf, PathBuf, StockProcess) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let mut stock = StockProcess::start(&path);
    assert_eq!(stock.ask("a", "PRAGMA journal_mode=WAL"), "('wal',)");
    for sql in ["CREATE TABLE t(x)", "INSERT INTO t VALUES (1), (2), (3)"] {
        assert_eq!(stock.ask("a", sql), "None");
    }
    let shm = directory.path().join("a.db-shm");
    (directory, path, shm, stock)
}

#[test]
fn stock_sqlite_and_this_process_exclude_each_other() {
    let (_directory, _path, shm, mut stock) = stock_database();
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    let mut ours = Process::joining(&medium, &shm);
    ours.region(0, false).unwrap();
    let published = ours.index.published();
    assert!(published > 0, "the file was not emptied");
    let insert = "INSERT INTO t VALUES (4)";
    assert!(stock.may("b", insert) && ours.index.published() > published);
    assert!(ours.lock(0, WRITE_SLOT, true) && !stock.may("a", insert));
    ours.unlock(0, WRITE_SLOT);
    assert!(stock.may("a", "BEGIN IMMEDIATE") && !ours.lock(0, WRITE_SLOT, true));
    assert!(stock.may("a", "COMMIT") && ours.lock(1, CHECKPOINT_SLOT, true));
    assert!(stock.ask("a", "PRAGMA wal_checkpoint").starts_with("(1,"), "busy");
    ours.unlock(1, CHECKPOINT_SLOT);
    assert!(ours.lock(0, READ_SLOTS + 1, false));
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(1,"), "a reader is in the way");
    assert!(ours.lock(1, READ_SLOTS + 1, false));
    ours.unlock(0, READ_SLOTS + 1);
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(1,"), "and another handle's");
    ours.unlock(1, READ_SLOTS + 1);
    assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
    assert_eq!(ours.index.published(), 0);
}

#[test]
fn stock_sqlite_makes_the_index_of_a_log_or_finds_that_of_an_empty_one() {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium);
    for log_is_empty in [false, true] {
        let (_directory, path, shm, mut stock) = stock_database();
        if log_is_empty {
            assert!(stock.ask("a", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
        }
        drop(stock);
        let ours = Process::owner();
        ours.index.share(&medium, &shm, log_is_empty).unwrap();
        let before = ours.index.change_counter();
        assert_eq!(before > 0, log_is_empty);
        let mut stock = StockProcess::start(&path);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(3,)");
        assert_eq!(ours.index.published() == 0, log_is_empty);
        assert_eq!(ours.index.change_counter(), before, "an index that is there is not made again");
        assert_eq!(stock.ask("b", "INSERT INTO t VALUES (4)"), "None");
        assert_eq!(ours.index.change_counter(), before + 1);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(4,)");
        assert_eq!(stock.ask("a", "PRAGMA integrity_check"), "('ok',)");
        assert!(stock.ask("b", "PRAGMA wal_checkpoint(TRUNCATE)").starts_with("(0,"));
        drop(stock);
        ours.index.unshare(true).unwrap();
        let mut stock = StockProcess::start(&path);
        assert_eq!(stock.ask("a", "SELECT count(*) FROM t"), "(4,)");
    }
}

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
