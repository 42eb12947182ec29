//! What a member in WAL mode writes to the log in a transaction: it keeps that, so that another owner can commit it (`wal_commits`).
//!
//! # Invariants
//! 1. The frames are those from behind the log that the transaction has found. SQLite writes over those that it has rolled back, and commits up to the last
//!    one that has the size of the database.
//! 2. No more is kept than a member holds of any transaction. One that is larger depends on its owner.

use crate::files::group::wal_state::{Behind, Claim, Later, State, hash_of};
use crate::sync::heirs::Place;
use crate::sync::shared_frames::FrameMemory;
use crate::sync::wal_index::{SeenLog, salts_of};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, Header};
use std::collections::BTreeMap;

/// A frame: what its header says, and its page once that is written.
#[derive(Debug, Default)]
struct OwnFrame {
    page: u32,
    database_pages: u32,
    bytes: Option<Box<[u8]>>,
}

/// A commit that is complete.
pub(super) struct OwnCommit<'a> {
    /// Its pages.
    pub pages: BTreeMap<u32, &'a [u8]>,
    pub page_bytes: usize,
    /// Pages of the database behind it.
    pub database_pages: u32,
}

/// The frames of a transaction.
#[derive(Debug, Default)]
pub(super) struct OwnFrames {
    /// The log before it, and the pages of the database; `None` where it does not write.
    base: Option<(SeenLog, u32)>,
    frames: BTreeMap<u32, OwnFrame>,
    bytes: usize,
    most: usize,
    is_too_large: bool,
    /// The last frame of a commit that is complete.
    commits: Option<u32>,
    /// True if the commit is known to be in a log, durably.
    pub is_made: bool,
    /// True if SQLite has published it.
    is_published: bool,
}

impl OwnFrames {
    /// The transaction has the lock of a writer, and has written nothing. At most so many bytes are kept.
    pub(super) fn begin(&mut self, log: SeenLog, pages: u32, most: usize) {
        *self = OwnFrames { base: Some((log, pages)), most, ..OwnFrames::default() };
    }

    /// The transaction is over.
    pub(super) fn end(&mut self) {
        *self = OwnFrames::default();
    }

    /// True if all of it is here.
    pub(super) fn are_whole(&self) -> bool {
        self.base.is_some() && !self.is_too_large
    }

    /// SQLite has published the commit, and has given the lock of a writer back.
    pub(super) fn note_published(&mut self) {
        self.is_published = self.are_complete();
    }

    /// True if SQLite has done so.
    pub(super) fn is_published(&self) -> bool {
        self.is_published
    }

    /// True if a commit is complete.
    pub(super) fn are_complete(&self) -> bool {
        self.commits.is_some()
    }

    /// SQLite has written that to its log.
    pub(super) fn note_write(&mut self, buf: &[u8], offset: u64) {
        let Some((log, _)) = &mut self.base else { return };
        if self.is_too_large {
            return;
        }
        if let (Ok(bytes), Some((header, _)), 0) = (buf.try_into(), Header::decode(buf), offset) {
            // The log begins anew: the file has all that was in it.
            *log = SeenLog { salts: salts_of(bytes), page_bytes: header.page_bytes as usize, last: 0 };
            self.frames.clear();
            (self.bytes, self.commits) = (0, None);
            return;
        }
        let page_bytes = log.page_bytes;
        let is_header = buf.len() == FRAME_HEADER_BYTES;
        let page_at = if is_header { offset + FRAME_HEADER_BYTES as u64 } else { offset };
        let frame = SeenLog::frame_at(page_at, page_bytes).filter(|_| is_header || buf.len() == page_bytes);
        let Some(frame) = frame.filter(|frame| *frame > log.last) else { return self.give_up() };
        let own = self.frames.entry(frame).or_default();
        if is_header {
            let word =
                |at: usize| buf.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
            let (page, database_pages) = (word(0).unwrap_or(0), word(4).unwrap_or(0));
            if (own.page, own.database_pages) != (page, database_pages) {
                (own.page, own.database_pages) = (page, database_pages);
                self.bytes -= own.bytes.take().map_or(0, |bytes| bytes.len());
                self.commits = None;
            }
            return;
        }
        self.bytes += page_bytes - own.bytes.as_ref().map_or(0, |bytes| bytes.len());
        own.bytes = Some(buf.into());
        if own.database_pages != 0 {
            self.commits = Some(frame);
        }
        if self.bytes > self.most {
            self.give_up();
        }
    }

    /// It is not kept any more: the transaction depends on its owner.
    pub(super) fn give_up(&mut self) {
        self.frames.clear();
        (self.is_too_large, self.bytes, self.commits) = (true, 0, None);
    }

    /// Copies the page of a frame that lies there in the log; `false` where it is not one of these.
    pub(super) fn copy_frame(&self, buf: &mut [u8], offset: u64) -> bool {
        let frame = self.base.and_then(|(log, _)| SeenLog::frame_at(offset, log.page_bytes));
        let own = frame.and_then(|frame| self.frames.get(&frame)).and_then(|own| own.bytes.as_ref());
        own.filter(|bytes| bytes.len() == buf.len()).map(|bytes| buf.copy_from_slice(bytes)).is_some()
    }

    /// Answers what SQLite reads to write the checksums of its frames once more: a frame, or the checksum of the one before; `false` for anything else. Nobody
    /// looks at the checksums of a log whose owner has died, so that zeros stand for them.
    pub(super) fn read_to_repair(&self, buf: &mut [u8], offset: u64) -> bool {
        if buf.len() == 8 {
            buf.fill(0);
            return self.base.is_some();
        }
        let Some((header, page)) = buf.split_at_mut_checked(FRAME_HEADER_BYTES) else { return false };
        let page_at = offset + FRAME_HEADER_BYTES as u64;
        let frame = self.base.and_then(|(log, _)| SeenLog::frame_at(page_at, log.page_bytes));
        let Some(own) = frame.and_then(|frame| self.frames.get(&frame)) else { return false };
        header.fill(0);
        header[..4].copy_from_slice(&own.page.to_be_bytes());
        header[4..8].copy_from_slice(&own.database_pages.to_be_bytes());
        self.copy_frame(page, page_at)
    }

    /// A commit that is complete; `None` where not all of its pages are here.
    pub(super) fn commit(&self) -> Option<OwnCommit<'_>> {
        let ((log, _), last) = (self.base?, self.commits?);
        let database_pages = self.frames.get(&last)?.database_pages;
        let mut pages = BTreeMap::new();
        for frame in log.last + 1..=last {
            let own = self.frames.get(&frame)?;
            pages.insert(own.page, &**own.bytes.as_ref()?);
        }
        pages.retain(|number, _| (1..=database_pages).contains(number));
        Some(OwnCommit { pages, page_bytes: log.page_bytes, database_pages })
    }

    /// True if others have begun the log anew since the commit was published. They do so where the file has all of it.
    pub(super) fn is_past(&self, frames: &FrameMemory) -> bool {
        let own = self.base.map_or(0, |(log, _)| log.salts);
        self.is_published && frames.logs().iter().any(|log| log.salts != 0 && log.salts != own)
    }

    /// What the transaction has found, by the frames of its snapshot, and its commit; `None` where not all of that is here.
    pub(super) fn claim(&self, frames: &FrameMemory) -> Option<Claim> {
        let (log, pages) = self.base.filter(|_| !self.is_too_large)?;
        if log.last > 0 && log.page_bytes == 0 {
            return None;
        }
        let mut page = vec![0; log.page_bytes];
        let mut read_frame = |frame| {
            let ends_commit = frames.read_of_commit(log.salts, frame, &mut page)?;
            Some((hash_of(&page), ends_commit))
        };
        let numbers = frames.pages_of_frames(log.last)?;
        let newest: BTreeMap<u32, u32> = numbers.into_iter().zip(1..).collect();
        let mut hashes = BTreeMap::new();
        for (number, frame) in newest.into_iter().filter(|(number, _)| pages == 0 || *number <= pages) {
            hashes.insert(number, read_frame(frame)?.0);
        }
        let base = State { page_bytes: log.page_bytes, pages, hashes };
        let place = Place { salts: log.salts, frame: log.last };
        let Some((last, OwnCommit { pages, database_pages, .. })) = self.commits.zip(self.commit()) else {
            return Some(Claim { place, base, behind: None });
        };
        let mut state = State { pages: database_pages, ..base.clone() };
        state.hashes.extend(pages.into_iter().map(|(number, page)| (number, hash_of(page))));
        state.hashes.retain(|number, _| *number <= database_pages);
        let seen = frames.logs().iter().filter(|seen| seen.salts == log.salts).map(|seen| seen.last).max();
        let until = seen.filter(|_| self.is_published).unwrap_or(last).max(last);
        let numbers = frames.pages_of_frames(until)?.into_iter().zip(1..).skip(last as usize);
        let later = numbers.map(|(number, frame)| {
            let (hash, ends_commit) = read_frame(frame).unwrap_or_default();
            Later { number, hash, ends_commit }
        });
        let behind = Behind { place: Place { frame: last, ..place }, state, later: later.collect() };
        Some(Claim { place, base, behind: Some(behind) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::reservation::MemoryReservation;
    use crate::sync::shared_frames::SharedFrames;
    use crate::sync::wal_index::{COPY_WORDS, sum_of};
    use crate::sync::wal_index_marks::REGION_BYTES;
    use litefoot_storage::os::NamelessMemory;
    use std::sync::Arc;

    const PAGE: usize = 512;
    const MOST: usize = 4 * PAGE;

    fn at(frame: u64) -> u64 {
        32 + (frame - 1) * (24 + PAGE as u64) + 24
    }

    fn write(own: &mut OwnFrames, frame: u64, page: u32, database_pages: u32, byte: u8) {
        let mut header = [0; 24];
        header[..4].copy_from_slice(&page.to_be_bytes());
        header[4..8].copy_from_slice(&database_pages.to_be_bytes());
        own.note_write(&header, at(frame) - 24);
        own.note_write(&[byte; PAGE], at(frame));
    }

    fn begun() -> OwnFrames {
        let mut own = OwnFrames::default();
        own.begin(SeenLog { salts: 7, page_bytes: PAGE, last: 3 }, 9, MOST);
        own
    }

    fn fillers(own: &OwnFrames) -> Option<(Vec<(u32, u8)>, u32)> {
        let commit = own.commit()?;
        Some((
            commit.pages.into_iter().map(|(number, page)| (number, page[0])).collect(),
            commit.database_pages,
        ))
    }

    #[test]
    fn a_commit_is_the_newest_version_of_each_page_up_to_its_last_frame() {
        let mut own = begun();
        write(&mut own, 4, 2, 0, 1);
        write(&mut own, 5, 5, 0, 2);
        write(&mut own, 6, 8, 0, 3);
        assert!(own.are_whole() && !own.are_complete() && own.commit().is_none());
        // The last two were rolled back. SQLite writes the checksums of the first once more.
        own.note_write(&[&2_u32.to_be_bytes()[..], &[0; 20]].concat(), at(4) - 24);
        write(&mut own, 5, 2, 0, 4);
        write(&mut own, 6, 1, 4, 5);
        assert_eq!(fillers(&own), Some((vec![(1, 5), (2, 4)], 4)));
        let mut page = [0; PAGE];
        assert!(own.copy_frame(&mut page, at(5)) && page == [4; PAGE]);
        assert!(!own.copy_frame(&mut page, at(3)) && !own.copy_frame(&mut page, at(7)));
        let mut frame = [9; 24 + PAGE];
        assert!(own.read_to_repair(&mut frame, at(6) - 24) && frame[24..] == [5; PAGE]);
        assert_eq!(frame[..24], [&1_u32.to_be_bytes()[..], &4_u32.to_be_bytes(), &[0; 16]].concat());
        assert!(!own.read_to_repair(&mut frame, at(3) - 24) && !own.read_to_repair(&mut page, at(6)));
        assert!(own.read_to_repair(&mut page[..8], at(3) - 8));
        // SQLite has rolled it back, and goes on.
        own.note_write(&[&7_u32.to_be_bytes()[..], &[0; 20]].concat(), at(6) - 24);
        assert!(!own.are_complete() && own.commit().is_none());
        write(&mut own, 6, 7, 8, 6);
        assert_eq!(fillers(&own), Some((vec![(2, 4), (7, 6)], 8)));
        own.end();
        assert!(!own.are_whole() && !own.copy_frame(&mut page, at(5)));
    }

    #[test]
    fn a_log_that_begins_anew_has_no_frames_before_the_transaction() {
        let mut own = begun();
        own.note_write(&Header::first(PAGE as u32, None).encode().0, 0);
        write(&mut own, 1, 3, 9, 6);
        assert_eq!(fillers(&own), Some((vec![(3, 6)], 9)));
    }

    #[test]
    fn what_is_too_large_or_not_known_is_not_kept() {
        let mut large = begun();
        (4..9).for_each(|frame| write(&mut large, frame, frame as u32, 0, 1));
        let mut odd = begun();
        odd.note_write(&[0; 100], at(4));
        let mut before = begun();
        before.note_write(&[0; PAGE], at(3));
        for own in [&mut large, &mut odd, &mut before] {
            assert!(!own.are_whole());
            write(own, 4, 1, 1, 1);
            assert!(own.commit().is_none() && !own.are_complete());
        }
    }

    /// The owner's frames, and the index before them.
    struct Owner {
        memory: Arc<NamelessMemory>,
        frames: SharedFrames,
    }

    impl Owner {
        fn new() -> Owner {
            let memory = Arc::new(NamelessMemory::new().unwrap());
            memory.grow(REGION_BYTES as u64).unwrap();
            let mut frames = SharedFrames::new(memory.clone(), MemoryReservation::fixed(1 << 20)).unwrap();
            frames.begin(7, PAGE);
            Owner { memory, frames }
        }

        fn put(&mut self, frame: u32, page: u32, byte: u8, ends_commit: bool) {
            self.frames.put(frame, &[byte; PAGE], ends_commit);
            self.memory.write_at(&page.to_ne_bytes(), 136 + u64::from(frame - 1) * 4).unwrap();
        }

        /// The index says that the log has so many frames.
        fn publish(&self, salts: u32, frames: u32) {
            let mut header = [0; COPY_WORDS];
            (header[3], header[4], header[9]) = (2 << 16, frames, salts);
            [header[10], header[11]] = sum_of(&header);
            let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
            self.memory.write_at(&bytes, 0).unwrap();
        }

        fn members(&self) -> FrameMemory {
            FrameMemory::of(self.memory.clone()).unwrap()
        }
    }

    fn hashes(pages: &[(u32, u8)]) -> Vec<(u32, u64)> {
        pages.iter().map(|(number, byte)| (*number, hash_of(&[*byte; PAGE]))).collect()
    }

    fn state(pages: u32, log: &[(u32, u8)]) -> State {
        State { page_bytes: PAGE, pages, hashes: hashes(log).into_iter().collect() }
    }

    #[test]
    fn a_claim_has_the_newest_pages_of_the_snapshot_and_what_others_have_published_since() {
        let mut owner = Owner::new();
        for (frame, page, byte) in [(1, 2, 1), (2, 5, 2), (3, 2, 3)] {
            owner.put(frame, page, byte, true);
        }
        let mut own = begun();
        let base =
            Claim { place: Place { salts: 7, frame: 3 }, base: state(9, &[(2, 3), (5, 2)]), behind: None };
        assert_eq!(own.claim(&owner.members()), Some(base.clone()));
        write(&mut own, 4, 5, 0, 4);
        write(&mut own, 5, 1, 3, 5);
        let place = Place { salts: 7, frame: 5 };
        let behind = Behind { place, state: state(3, &[(1, 5), (2, 3)]), later: Vec::new() };
        let claim = Claim { behind: Some(behind.clone()), ..base };
        // A frame that the index has and SQLite has not published is nobody's.
        owner.put(6, 8, 6, true);
        owner.publish(7, 7);
        assert_eq!(own.claim(&owner.members()).as_ref(), Some(&claim));
        own.note_published();
        owner.put(7, 9, 7, true);
        owner.frames.remove(6);
        let later = [(8, 0, false), (9, hash_of(&[7; PAGE]), true)]
            .map(|(number, hash, ends_commit)| Later { number, hash, ends_commit })
            .to_vec();
        let behind = Some(Behind { later, ..behind });
        assert_eq!(own.claim(&owner.members()), Some(Claim { behind, ..claim }));
        owner.frames.remove(3);
        assert_eq!(own.claim(&owner.members()), None, "a page of the snapshot is not here");
        assert_eq!(OwnFrames::default().claim(&owner.members()), None);
    }

    #[test]
    fn a_commit_is_past_once_others_have_begun_the_log_anew() {
        let owner = Owner::new();
        let mut own = begun();
        write(&mut own, 4, 1, 3, 5);
        owner.publish(8, 1);
        assert!(!own.is_past(&owner.members()), "nobody else writes");
        own.note_published();
        assert!(own.is_past(&owner.members()));
        owner.publish(7, 9);
        assert!(!own.is_past(&owner.members()));
        owner.publish(0, 0);
        assert!(!own.is_past(&owner.members()), "there is no index");
        owner.publish(8, 1);
        owner.memory.write_at(&[9], 17).unwrap();
        assert!(!own.is_past(&owner.members()), "its owner has died while it was written");
    }
}
