//! Frames of the log in memory that the members of a group map: they read the pages of the last commits without a message.
//!
//! # Why
//! The frames of SQLite's log are memory of the owner. A member that asks for each of them pays two changes of process, where SQLite makes a system
//! call. And they are gone with an owner that dies, whose members could go on reading otherwise.
//!
//! The frames lie in the memory of the wal-index, behind all regions that it may have:
//!
//! ```text
//! salts      of the log whose frames these are; 0 while there are none
//! page size  bytes of a page
//! places     of each frame, from the first on: 0 where it is not here, or the number of its place, from 1 on, below a number of its own;
//!            and one bit where a commit ends with it
//! pages      place by place
//! ```
//!
//! # Invariants
//! 1. A frame is here before it counts. It goes once no reader can ask for it, as its page leaves the owner's memory (`txn/wal_frames/superseded`).
//! 2. A member asks for frames that count in its snapshot, which its slot protects. So a place is not another frame's while the member reads it. It
//!    looks once more behind each read all the same.
//! 3. Frames of another log have other salts. No frame has a place while the salts change.
//! 4. Nothing here is needed to recover the files, and members have the words write-protected. A frame that is not here is asked for.
//! 5. The memory is reserved as that of the log is. A frame for which there is none is not here.

use crate::error::{Error, Result};
use crate::memory::reservation::MemoryReservation;
use crate::sync::wal_index::{COPY_WORDS, REGIONS, SeenLog, is_whole};
use crate::sync::wal_index_marks::{REGION_BYTES, place_of_number};
use crate::sync::wal_index_region::Region;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Frames that have a word: 4 GiB of pages of 4 KiB. The memory of the words is taken as they are used.
const MOST_FRAMES: u32 = 1 << 20;

/// Where the frames begin in the memory of a wal-index.
const FRAMES: u64 = (REGIONS * REGION_BYTES) as u64;
/// Places of the words behind that, and of the pages.
const SALTS: usize = 0;
const PAGE_BYTES: usize = 128;
const PLACES: usize = 65536;
const WORD_BYTES: usize = PLACES + MOST_FRAMES as usize * size_of::<u64>();
const PAGES: u64 = FRAMES + WORD_BYTES as u64;
/// The bit of a word for the last frame of a commit. No place has such a number.
const ENDS_COMMIT: u64 = 1 << 31;
/// The memory grows by so many bytes of pages.
const STEP_BYTES: u64 = 1 << 20;

/// The frames, as the owner or a member maps them.
pub(crate) struct FrameMemory {
    words: Region,
    memory: Arc<NamelessMemory>,
}

// SAFETY: the memory is used through atomic words and by calls of the system only.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// The frames in the memory of a wal-index that an owner has sent.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn of(memory: Arc<NamelessMemory>) -> Result<FrameMemory> {
        let there = FrameMemory::map(memory)?;
        there.words.protect(0..WORD_BYTES).map_err(|_| Error::NoMemory)?;
        Ok(there)
    }

    fn map(memory: Arc<NamelessMemory>) -> Result<FrameMemory> {
        let mut words = Region::new(WORD_BYTES).ok_or(Error::NoMemory)?;
        words.join(&memory, FRAMES).map_err(|_| Error::NoMemory)?;
        Ok(FrameMemory { words, memory })
    }

    fn number(&self, place: usize) -> &AtomicU64 {
        // SAFETY: aligned, inside of the region, and used as an atomic word by all.
        unsafe { self.words.at(place).cast().as_ref() }
    }

    /// The word of a frame, which counts from 1.
    fn word(&self, frame: u32) -> Option<&AtomicU64> {
        let number = frame.checked_sub(1).filter(|number| *number < MOST_FRAMES)?;
        Some(self.number(PLACES + number as usize * size_of::<u64>()))
    }

    /// Copies the page of a frame of the log with these salts, which counts in the reader's snapshot; `false` where it is not here.
    pub fn read(&self, salts: u64, frame: u32, buf: &mut [u8]) -> bool {
        self.read_of_commit(salts, frame, buf).is_some()
    }

    /// The same; answers whether a commit ends with that frame, or `None` where it is not here.
    pub fn read_of_commit(&self, salts: u64, frame: u32, buf: &mut [u8]) -> Option<bool> {
        let page_bytes = buf.len();
        let is_same_log = || {
            self.number(SALTS).load(Ordering::SeqCst) == salts
                && self.number(PAGE_BYTES).load(Ordering::SeqCst) == page_bytes as u64
        };
        let word = self.word(frame).filter(|_| salts != 0)?;
        let value = word.load(Ordering::SeqCst);
        let offset = offset_of(place_in(value), page_bytes).filter(|_| is_same_log())?;
        self.memory.read_at(buf, offset).ok()?;
        // What was read is older than what is asked now.
        fence(Ordering::SeqCst);
        let is_the_same = word.load(Ordering::SeqCst) == value && is_same_log();
        is_the_same.then_some(value & ENDS_COMMIT != 0)
    }
}

/// What the index before the frames says. Its owner may have died while it was changed.
impl FrameMemory {
    /// The log, as each whole header of the index says.
    pub fn logs(&self) -> Vec<SeenLog> {
        let mut bytes = [0; 2 * COPY_WORDS * size_of::<u32>()];
        if self.memory.read_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        let words: Vec<u32> = bytes.as_chunks().0.iter().copied().map(u32::from_ne_bytes).collect();
        let whole = words.as_chunks().0.iter().filter(|header| is_whole(header));
        whole.map(|header| SeenLog::of(|number| header.get(number).copied().unwrap_or(0))).collect()
    }

    /// The page of each frame up to one that counts in the reader's snapshot.
    pub fn pages_of_frames(&self, last: u32) -> Option<Vec<u32>> {
        let mut region = (usize::MAX, vec![0; REGION_BYTES]);
        let mut page_of = |frame: u32| {
            let (number, place) = place_of_number(frame)?;
            if region.0 != number {
                self.memory.read_at(&mut region.1, (number * REGION_BYTES) as u64).ok()?;
                region.0 = number;
            }
            let bytes = region.1.get(place * size_of::<u32>()..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        (1..=last).map(&mut page_of).collect()
    }
}

/// The place that a word of a frame has.
fn place_in(value: u64) -> u32 {
    (value & (ENDS_COMMIT - 1)) as u32
}

/// Where the page of a place lies.
fn offset_of(place: u32, page_bytes: usize) -> Option<u64> {
    Some(PAGES + u64::from(place.checked_sub(1)?) * page_bytes as u64)
}

/// The frames of an owner.
pub(crate) struct SharedFrames {
    there: FrameMemory,
    reservation: MemoryReservation,
    page_bytes: usize,
    /// Places that have ever been a frame's, and those of them that are free.
    places: u32,
    free: Vec<u32>,
    /// Frames whose word may have a place: those up to that number.
    used: u32,
    /// Frames that have ever been here.
    count: u32,
    /// Bytes of pages that the memory has room for.
    room: u64,
}

impl SharedFrames {
    /// None yet, in the memory of a wal-index.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn new(memory: Arc<NamelessMemory>, reservation: MemoryReservation) -> Result<SharedFrames> {
        let there = FrameMemory::map(memory)?;
        Ok(SharedFrames {
            there,
            reservation,
            page_bytes: 0,
            places: 0,
            free: Vec::new(),
            used: 0,
            count: 0,
            room: 0,
        })
    }

    /// True if the frames lie there.
    pub fn are_in(&self, memory: &Arc<NamelessMemory>) -> bool {
        Arc::ptr_eq(&self.there.memory, memory)
    }

    /// The frames that come next are those of that log.
    pub fn begin(&mut self, salts: u64, page_bytes: usize) {
        if self.there.number(SALTS).load(Ordering::SeqCst) == salts && self.page_bytes == page_bytes {
            return;
        }
        self.clear();
        self.page_bytes = page_bytes;
        self.there.number(PAGE_BYTES).store(page_bytes as u64, Ordering::SeqCst);
        self.there.number(SALTS).store(salts, Ordering::SeqCst);
    }

    /// A frame has that page from now on. It does not count yet.
    pub fn put(&mut self, frame: u32, page: &[u8], ends_commit: bool) {
        self.remove(frame);
        if page.len() != self.page_bytes || self.there.word(frame).is_none() {
            return;
        }
        let Some(place) = self.take_place() else { return };
        let offset = offset_of(place, self.page_bytes);
        if offset.is_none_or(|offset| self.there.memory.write_at(page, offset).is_err()) {
            return self.free.push(place);
        }
        self.count = self.count.wrapping_add(1);
        if let Some(word) = self.there.word(frame) {
            let ends = if ends_commit { ENDS_COMMIT } else { 0 };
            word.store(u64::from(self.count) << 32 | ends | u64::from(place), Ordering::SeqCst);
            self.used = self.used.max(frame);
        }
        self.account();
    }

    fn take_place(&mut self) -> Option<u32> {
        let page_bytes = self.page_bytes as u64;
        let bytes = self.reservation.bytes() as u64 + page_bytes;
        if bytes > self.reservation.most() as u64 {
            return None;
        }
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let end = (u64::from(self.places) + 1) * page_bytes;
        if end > self.room {
            let room = end.next_multiple_of(STEP_BYTES);
            self.there.memory.grow(PAGES + room).ok()?;
            self.room = room;
        }
        self.places += 1;
        Some(self.places)
    }

    /// A frame is not here any more: it does not count yet, or nobody can ask for it.
    pub fn remove(&mut self, frame: u32) {
        let value = self.there.word(frame).map_or(0, |word| word.swap(0, Ordering::SeqCst));
        if value != 0 {
            self.free.push(place_in(value));
            self.account();
        }
    }

    /// Nothing is here: the log begins anew, and no reader uses the one before.
    pub fn clear(&mut self) {
        self.there.number(SALTS).store(0, Ordering::SeqCst);
        for word in (1..=self.used).filter_map(|frame| self.there.word(frame)) {
            word.store(0, Ordering::SeqCst);
        }
        if self.places > 0 {
            // Where that fails the memory is used again.
            let _ = self.there.memory.give_back(PAGES, self.room);
        }
        (self.places, self.used) = (0, 0);
        self.free = Vec::new();
        self.account();
    }

    fn account(&mut self) {
        let pages = self.places as usize - self.free.len();
        self.reservation.set(pages * self.page_bytes);
    }

    /// Bytes of pages.
    pub fn bytes(&self) -> usize {
        self.reservation.bytes()
    }
}

impl Drop for SharedFrames {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const PAGE: usize = 512;
    const SALTS_OF_TEST: u64 = 7 << 40;

    fn frames(most: usize) -> (SharedFrames, FrameMemory) {
        let memory = Arc::new(NamelessMemory::new().unwrap());
        let sent = NamelessMemory::of(memory.descriptor().try_clone_to_owned().unwrap());
        let mut owners = SharedFrames::new(memory, MemoryReservation::fixed(most)).unwrap();
        owners.begin(SALTS_OF_TEST, PAGE);
        (owners, FrameMemory::of(Arc::new(sent)).unwrap())
    }

    fn read(members: &FrameMemory, salts: u64, frame: u32) -> Option<u8> {
        let mut page = [0; PAGE];
        let is_here = members.read(salts, frame, &mut page);
        assert!(!is_here || page.iter().all(|byte| *byte == page[0]));
        is_here.then_some(page[0])
    }

    #[test]
    fn a_member_cannot_write_to_the_words() {
        let (owners, members) = frames(1 << 20);
        for place in [SALTS, PLACES, WORD_BYTES - 1] {
            assert!(owners.there.words.is_writable(place) && !members.words.is_writable(place), "{place}");
        }
    }

    #[test]
    fn a_member_reads_what_is_here_of_the_same_log() {
        let (mut owners, members) = frames(1 << 20);
        for frame in [1, 2, 3, MOST_FRAMES] {
            owners.put(frame, &[frame as u8 | 1; PAGE], false);
        }
        owners.put(MOST_FRAMES + 1, &[9; PAGE], false);
        owners.put(4, &[9; 2 * PAGE], false);
        let cases = [
            (1, Some(1)),
            (2, Some(3)),
            (3, Some(3)),
            (MOST_FRAMES, Some(1)),
            (0, None),
            (4, None),
            (MOST_FRAMES + 1, None),
            (u32::MAX, None),
        ];
        for (frame, expected) in cases {
            assert_eq!(read(&members, SALTS_OF_TEST, frame), expected, "{frame}");
        }
        assert_eq!(read(&members, SALTS_OF_TEST + 1, 1), None, "another log");
        assert!(!members.read(SALTS_OF_TEST, 1, &mut [0; 2 * PAGE]), "pages of another size");
        owners.put(1, &[8; PAGE], true);
        let ends = |frame| members.read_of_commit(SALTS_OF_TEST, frame, &mut [0; PAGE]);
        assert_eq!([1, 2, 4].map(ends), [Some(true), Some(false), None], "the end of a commit");
        owners.remove(2);
        assert_eq!([1, 2].map(|frame| read(&members, SALTS_OF_TEST, frame)), [Some(8), None]);
        owners.begin(SALTS_OF_TEST, PAGE);
        assert_eq!(read(&members, SALTS_OF_TEST, 1), Some(8), "the log is the same");
        owners.begin(SALTS_OF_TEST + 1, PAGE);
        assert_eq!([0, 1].map(|more| read(&members, SALTS_OF_TEST + more, 1)), [None; 2]);
        owners.put(3, &[5; PAGE], false);
        assert_eq!([1, 3].map(|frame| read(&members, SALTS_OF_TEST + 1, frame)), [None, Some(5)]);
        drop(owners);
        assert_eq!(read(&members, SALTS_OF_TEST + 1, 3), None);
        assert!(!members.read(0, 3, &mut [0; PAGE]), "no log has such salts");
    }

    #[test]
    fn places_are_used_again_and_no_more_memory_is_taken_than_is_reserved() {
        let (mut owners, members) = frames(3 * PAGE);
        for frame in 1..=4 {
            owners.put(frame, &[frame as u8; PAGE], false);
        }
        let here = |members: &FrameMemory| {
            (1..=6).filter_map(|frame| read(members, SALTS_OF_TEST, frame)).collect::<Vec<_>>()
        };
        assert_eq!((here(&members), owners.bytes()), (vec![1, 2, 3], 3 * PAGE));
        owners.remove(2);
        owners.put(5, &[5; PAGE], false);
        owners.put(6, &[6; PAGE], false);
        assert_eq!((here(&members), owners.places), (vec![1, 3, 5], 3));
        let word = |owners: &SharedFrames| owners.there.word(5).unwrap().load(Ordering::SeqCst);
        let before = word(&owners);
        owners.put(5, &[7; PAGE], false);
        assert_ne!(word(&owners), before, "whoever reads the page before finds that it has gone");
        assert_eq!((here(&members), owners.bytes()), (vec![1, 3, 7], 3 * PAGE));
        owners.clear();
        assert_eq!((here(&members), owners.bytes()), (vec![], 0));
    }

    /// A frame that goes while it is read is not taken for another one.
    #[test]
    fn threads_read_frames_that_come_and_go() {
        let (mut owners, members) = frames(64 * PAGE);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut found = 0_u32;
                for frame in (1..=8).cycle() {
                    let mut page = [0; PAGE];
                    if members.read(SALTS_OF_TEST, frame, &mut page) {
                        assert_eq!(u32::from(page[0]), frame, "the page of another frame");
                        assert!(page.iter().all(|byte| *byte == page[0]));
                        found += 1;
                    }
                    if is_over.load(Ordering::Relaxed) && found > 1000 {
                        break;
                    }
                }
            });
            for round in 0..20_000_u32 {
                let frame = 1 + round * 5 % 8;
                owners.put(frame, &[frame as u8; PAGE], false);
                owners.remove(1 + round * 3 % 8);
            }
            (1..=8).for_each(|frame| owners.put(frame, &[frame as u8; PAGE], false));
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}
