//! Unwritten pages: those whose newest version is not in the database file yet, for members of a group that read the file themselves.
//!
//! # Why
//! In rollback-journal modes commits go to the redo log, and a checkpoint writes them to the file. A member that reads the owner's open file has to
//! know which pages to ask its owner for. So the owner marks them in memory that both map.
//!
//! ```text
//! life       a thread of the owner's, while that lives (`storage::os::life`)
//! open       set while the marks are right: the owner owns the database, and nobody else writes its file
//! all        set while any page may be unwritten
//! log        set while the owner owns the database in WAL mode, and members read its log in memory of all
//! beside     set while strangers may have the database open, so that all locks and bytes are on the files
//! owned      set while the owner owns the database: commits may wait that only litefoot recovers
//! marks      one bit for each page, from page 0 on, of the first [`MOST_PAGES`]
//! ```
//!
//! Between them lies what the owner leaves behind where it dies (`heirs`). Members write one word of that, beside `life`. All else is the owner's: members
//! have it write-protected.
//!
//! # Invariants
//! 1. A member reads while it has the lock of a reader, and the marks of a commit are set under the lock that excludes readers. So a mark that is not
//!    set stays so while a member reads. It is unset behind the write to the file.
//! 2. What a member has read counts where `open` and `life` are as they were, behind the read. The owner closes before it gives the file
//!    to anybody else.
//! 3. Page 1 is always unwritten: its counters are newer than the file's. So are pages that have no bit.
//! 4. Nothing here is needed to recover the files.

use crate::error::{Error, Result};
use crate::sync::wal_index_region::{LARGEST_PAGE, Region};
use litefoot_storage::os::NamelessMemory;
use litefoot_storage::os::life::{HasWord, Life, has_died, is_alive};
use litefoot_storage::sync::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Pages that have a bit: 32 GiB of pages of 4 KiB. Their memory is taken as it is used.
const MOST_PAGES: u32 = 1 << 23;

/// Places of the words, each in a cache line of its own.
const LIFE: usize = 0;
/// From here on all is the owner's.
pub(super) const OWNERS: usize = LARGEST_PAGE;
const OPEN: usize = OWNERS;
const ALL: usize = OWNERS + 128;
const LOG: usize = OWNERS + 256;
const BESIDE: usize = OWNERS + 384;
// Behind what `heirs` has.
const OWNED: usize = OWNERS + 3072;
const MARKS: usize = OWNERS + 4096;
const BYTES: usize = MARKS + MOST_PAGES as usize / 8;

/// The marks, as the owner or a member maps them.
pub(crate) struct Marks {
    region: Region,
    memory: NamelessMemory,
}

// SAFETY: the memory is used through atomic words only.
unsafe impl Sync for Marks {}

impl HasWord for Marks {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside of the region, and used as an atomic word by all.
        unsafe { self.region.at(LIFE).cast().as_ref() }
    }
}

impl Marks {
    /// The marks that an owner has sent.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn of(memory: NamelessMemory) -> Result<Marks> {
        let marks = Marks::map(memory)?;
        marks.region.protect(OWNERS..BYTES).map_err(|_| Error::NoMemory)?;
        Ok(marks)
    }

    fn map(memory: NamelessMemory) -> Result<Marks> {
        let mut region = Region::new(BYTES).ok_or(Error::NoMemory)?;
        region.join(&memory, 0).map_err(|_| Error::NoMemory)?;
        Ok(Marks { region, memory })
    }

    /// The memory, for a member.
    pub fn memory(&self) -> &NamelessMemory {
        &self.memory
    }

    pub(super) fn number(&self, place: usize) -> &AtomicU64 {
        // SAFETY: aligned, inside of the region, and used as an atomic word by all.
        unsafe { self.region.at(place).cast().as_ref() }
    }

    /// The word with the bit of a page, and the bit; `None` where it has none.
    fn bit(&self, page: u32) -> Option<(&AtomicU64, u64)> {
        (page < MOST_PAGES).then(|| (self.number(MARKS + page as usize / 64 * 8), 1 << (page % 64)))
    }

    /// True if the newest version of a page may not be in the file.
    fn may_be_unwritten(&self, page: u32) -> bool {
        let is_marked = self.bit(page).is_none_or(|(word, bit)| word.load(Ordering::SeqCst) & bit != 0);
        page <= 1 || is_marked || self.number(ALL).load(Ordering::SeqCst) != 0
    }

    /// True while the owner goes by the marks, or where it has died while it did.
    pub fn are_open(&self) -> bool {
        self.number(OPEN).load(Ordering::SeqCst) != 0
    }

    /// True while the owner owns the database, or where it has died while it did: an heir may take its open file over.
    pub fn may_be_inherited(&self) -> bool {
        let owned = self.are_open() || self.number(LOG).load(Ordering::SeqCst) != 0;
        owned && !self.are_beside_strangers()
    }

    /// True while strangers may have the database open, or where the owner has died while they might: transactions stand on the files.
    pub fn are_beside_strangers(&self) -> bool {
        self.number(BESIDE).load(Ordering::SeqCst) != 0
    }

    /// True while the owner owns the database alone, or where it has died while it did: an heir is to recover it before anybody else has it.
    pub fn needs_heir(&self) -> bool {
        self.number(OWNED).load(Ordering::SeqCst) != 0 && !self.are_beside_strangers()
    }

    /// True if the owner lives, as far as its memory says.
    pub fn has_owner(&self) -> bool {
        is_alive(self.word())
    }

    /// True if the owner has died, and has not closed the database before.
    pub fn has_lost_owner(&self) -> bool {
        has_died(self.word())
    }

    /// Has `read` read a page from the file, where a member that has the lock of a reader may. Answers whether it has, and what it has read counts.
    pub fn read(&self, page: u32, read: impl FnOnce() -> bool) -> bool {
        let may_read = || self.are_open() && self.has_owner();
        if !may_read() || self.may_be_unwritten(page) || !read() {
            return false;
        }
        // What was read is older than what is asked now.
        fence(Ordering::SeqCst);
        may_read()
    }

    /// Has `read` read from the file, where what is read there is complete. Answers whether it has, and the owner lives still.
    pub fn read_beside_owner(&self, read: impl FnOnce() -> bool) -> bool {
        if !read() {
            return false;
        }
        fence(Ordering::SeqCst);
        self.has_owner()
    }
}

/// The marks of an owner.
pub(crate) struct UnwrittenPages {
    marks: Arc<Marks>,
    /// A number that other owners' marks have not.
    id: u64,
    /// Words up to the last one that has a mark.
    used: Mutex<usize>,
    _life: Life,
}

impl UnwrittenPages {
    /// Marks of which nothing is known yet: they are closed.
    ///
    /// # Errors
    /// The system gives no memory, or does not say when a process dies.
    pub fn new() -> Result<UnwrittenPages> {
        let marks = Arc::new(Marks::map(NamelessMemory::new().map_err(|_| Error::NoMemory)?)?);
        marks.number(ALL).store(1, Ordering::SeqCst);
        let life = Life::begin(marks.clone()).map_err(|_| Error::NoMemory)?;
        let id = RandomState::new().hash_one(std::process::id());
        Ok(UnwrittenPages { marks, id, used: Mutex::new(0), _life: life })
    }

    /// The marks, as members map them.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// A number that other owners' marks have not.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// True if members may go by the marks.
    pub fn are_open(&self) -> bool {
        self.marks.are_open()
    }

    /// The marks are these pages, and right from now on.
    pub fn open(&self, pages: impl Iterator<Item = u32>) {
        self.clear();
        self.note(pages);
        self.marks.number(OPEN).store(1, Ordering::SeqCst);
    }

    /// The owner owns the database in WAL mode, and members read its log in memory of all.
    pub fn open_log(&self) {
        self.marks.number(LOG).store(1, Ordering::SeqCst);
    }

    /// Strangers may have the database open from now on, or have it no more.
    pub fn note_strangers(&self, are_there: bool) {
        self.marks.number(BESIDE).store(are_there.into(), Ordering::SeqCst);
    }

    /// The owner owns the database from now on, or does so no more.
    pub fn note_owned(&self, is_owned: bool) {
        self.marks.number(OWNED).store(is_owned.into(), Ordering::SeqCst);
    }

    /// The marks are right no more, and the owner does not own the database, or is about to give it up.
    pub fn close(&self) {
        self.marks.number(OPEN).store(0, Ordering::SeqCst);
        self.marks.number(LOG).store(0, Ordering::SeqCst);
    }

    /// A transaction that excludes readers is about to be committed with these pages.
    pub fn note(&self, pages: impl Iterator<Item = u32>) {
        let mut used = self.used.lock();
        for page in pages {
            if let Some((word, bit)) = self.marks.bit(page) {
                word.fetch_or(bit, Ordering::SeqCst);
                *used = (*used).max(page as usize / 64 + 1);
            }
        }
    }

    /// The same, with any pages.
    pub fn note_all(&self) {
        self.marks.number(ALL).store(1, Ordering::SeqCst);
    }

    /// All pages were written to the file.
    pub fn clear(&self) {
        let mut used = self.used.lock();
        for word in 0..*used {
            self.marks.number(MARKS + word * 8).store(0, Ordering::SeqCst);
        }
        *used = 0;
        self.marks.number(ALL).store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
impl UnwrittenPages {
    /// Those of an owner that had the database for its members.
    pub fn of_dead_owner() -> UnwrittenPages {
        let marks = UnwrittenPages::new().unwrap();
        marks.open_log();
        marks
    }

    /// The marks as a member has them, which has been sent their memory.
    pub fn of_member(&self) -> Arc<Marks> {
        let descriptor = self.marks.memory().descriptor().try_clone_to_owned().unwrap();
        Arc::new(Marks::of(NamelessMemory::of(descriptor)).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::sync::RwLock;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    /// Pages that a member reads itself, of some.
    fn readable(marks: &Marks) -> Vec<u32> {
        let some = [1, 2, 63, 64, 65, MOST_PAGES - 1, MOST_PAGES, u32::MAX];
        some.into_iter().filter(|page| marks.read(*page, || true)).collect()
    }

    #[test]
    fn a_member_reads_what_is_not_marked() {
        let owners = UnwrittenPages::new().unwrap();
        let marks = owners.of_member();
        assert!(marks.has_owner() && readable(&marks).is_empty(), "nothing is known");
        owners.open([2, 65].into_iter());
        assert!(owners.are_open());
        assert_eq!(readable(&marks), [63, 64, MOST_PAGES - 1]);
        owners.note([MOST_PAGES - 1, MOST_PAGES, u32::MAX].into_iter());
        assert_eq!(readable(&marks), [63, 64]);
        owners.note_all();
        assert!(readable(&marks).is_empty());
        owners.clear();
        assert_eq!(readable(&marks), [2, 63, 64, 65, MOST_PAGES - 1]);
        assert!(!marks.read(2, || false), "the file has less");
        assert!(!marks.read(2, || {
            owners.close();
            true
        }));
        assert!(readable(&marks).is_empty());
        assert!(marks.read_beside_owner(|| true) && !marks.read_beside_owner(|| false));
        owners.open(std::iter::empty());
        let during = marks.read(2, || {
            drop(owners);
            while marks.has_owner() {
                std::thread::yield_now();
            }
            true
        });
        assert!(!during && readable(&marks).is_empty(), "the owner is gone");
        assert!(!marks.read_beside_owner(|| true));
    }

    #[test]
    fn a_member_can_write_beside_the_word_of_the_owners_life_only() {
        let owners = UnwrittenPages::new().unwrap();
        let marks = owners.of_member();
        for (place, expected) in [(LIFE, true), (OPEN, false), (MARKS, false), (BYTES - 1, false)] {
            assert!(owners.marks().region.is_writable(place));
            assert_eq!(marks.region.is_writable(place), expected, "{place}");
        }
    }

    #[test]
    fn nobody_inherits_a_file_that_strangers_have() {
        let owners = UnwrittenPages::new().unwrap();
        owners.open_log();
        assert!(owners.marks().may_be_inherited() && !owners.marks().are_beside_strangers());
        owners.note_strangers(true);
        assert!(!owners.marks().may_be_inherited() && owners.marks().are_beside_strangers());
        owners.note_strangers(false);
        assert!(owners.marks().may_be_inherited());
    }

    #[test]
    fn a_database_that_its_owner_has_alone_needs_an_heir_whatever_its_members_read() {
        let owners = UnwrittenPages::new().unwrap();
        for (is_owned, strangers, expected) in
            [(true, false, true), (true, true, false), (false, false, false)]
        {
            owners.note_owned(is_owned);
            owners.note_strangers(strangers);
            owners.close();
            assert_eq!(owners.marks().needs_heir(), expected, "{is_owned} {strangers}");
        }
    }

    /// Readers beside commits, which exclude them, and beside checkpoints, which do not.
    #[test]
    fn threads_read_from_the_file_what_was_committed() {
        const PAGES: usize = 130;
        const COMMITS: u64 = 2000;
        let owners = UnwrittenPages::new().unwrap();
        owners.open(std::iter::empty());
        let pages = || (0..PAGES).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (file, committed) = (pages(), RwLock::new(vec![0_u64; PAGES]));
        let log = Mutex::new(BTreeMap::<usize, u64>::new());
        let (done, from_file) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let readers = [0, 1].map(|seed| {
                let (owners, file, committed, log) = (&owners, &file, &committed, &log);
                let (done, from_file) = (&done, &from_file);
                scope.spawn(move || {
                    let mut page = seed;
                    while !done.load(Ordering::Relaxed) {
                        page = (page * 7 + 3) % PAGES;
                        let truth = committed.read();
                        let mut found = 0;
                        let reads = || {
                            found = file[page].load(Ordering::Relaxed);
                            true
                        };
                        if owners.marks().read(page as u32, reads) {
                            from_file.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let newest = log.lock().get(&page).copied();
                            found = newest.unwrap_or_else(|| file[page].load(Ordering::Relaxed));
                        }
                        assert_eq!(found, truth[page], "page {page}");
                        drop(truth);
                        std::thread::yield_now();
                    }
                })
            });
            let checkpoints = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut log = log.lock();
                    for (page, value) in &*log {
                        file[*page].store(*value, Ordering::Relaxed);
                        std::thread::yield_now();
                    }
                    log.clear();
                    owners.clear();
                    drop(log);
                    std::thread::yield_now();
                }
            });
            // The readers may begin late.
            for commit in 1.. {
                if commit > COMMITS && from_file.load(Ordering::Relaxed) > COMMITS {
                    break;
                }
                let mut truth = committed.write();
                let mut log = log.lock();
                let changed = [commit as usize * 13 % PAGES, commit as usize * 31 % PAGES];
                owners.note(changed.into_iter().map(|page| page as u32));
                for page in changed {
                    log.insert(page, commit);
                    truth[page] = commit;
                }
            }
            done.store(true, Ordering::Relaxed);
            checkpoints.join().unwrap();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    #[test]
    fn an_open_file_may_be_inherited_while_its_owner_owns_the_database() {
        let owners = UnwrittenPages::new().unwrap();
        assert!(!owners.marks().may_be_inherited());
        for (opens, reads_by_marks) in [
            (UnwrittenPages::open_log as fn(&UnwrittenPages), false),
            (|owners| owners.open([].into_iter()), true),
        ] {
            opens(&owners);
            assert!(owners.marks().may_be_inherited());
            assert_eq!(owners.marks().read(2, || true), reads_by_marks);
            owners.close();
            assert!(!owners.marks().may_be_inherited());
        }
    }

    #[test]
    fn owners_are_told_apart() {
        let ids = [UnwrittenPages::new().unwrap().id(), UnwrittenPages::new().unwrap().id()];
        assert_ne!(ids[0], ids[1]);
    }
}
