//! Marks of the wal-index: which frames of the log a reader or a checkpoint may still ask for.
//!
//! SQLite keeps the marks in the checkpoint information, behind the two copies of the header
//! (<https://www.sqlite.org/walformat.html>, section 2.3.1):
//!
//! ```text
//! word 0 .. 12   header: word 4 is the last frame that counts (mxFrame)
//! word 12 .. 24  its copy
//! word 24        nBackfill
//! word 25 .. 30  aReadMark[0..5]
//! word 30, 31    lock bytes
//! word 32        nBackfillAttempted
//! ```
//!
//! The page number of each frame lies behind them: of the first 4062 frames in region 0, of 4096 more in each other region.
//!
//! # Invariants
//! 1. A reader that shares read slot `i > 0` sees at least frames `1..=aReadMark[i]`: SQLite takes a mark that is not
//!    above the reader's last frame, and a mark changes only under the exclusive lock. Slot 0 uses no log.
//! 2. A reader that shares its slot after [`WalIndex::seen_by_all`] has looked sees everything that was published
//!    before. SQLite compares the header once more when it has the slot, and begins again where that has changed.
//! 3. A checkpoint sees at least what was published when it took the checkpoint slot.
//! 4. A snapshot (`sqlite3_snapshot_open`) below `nBackfillAttempted` is refused. SQLite looks with its read slot shared
//!    already, so a snapshot that is not refused has a mark that the next look sees.
//! 5. A reader's last frame lies between its mark and the last frame that counts now. So it is known where these two are the
//!    same. Frames up to `nBackfill`, which is at no time beyond the mark of a reader, are in the database file.

use crate::ffi::codes::SQLITE_SHM_NLOCK;
use crate::sync::wal_index::{
    CHANGE_WORD, CHECKPOINT_SLOT, HEADER_WORDS, HeldSlots, LAST_FRAME_WORD, PAGES_WORD, READ_SLOTS, WalIndex,
    WalIndexState,
};
use crate::sync::wal_index_sharing::read_header;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const READ_MARK_WORDS: usize = 25;
/// A read mark that is not in use (`READMARK_NOT_USED`).
pub(super) const UNUSED_MARK: u32 = u32::MAX;
pub(super) const BACKFILL_WORD: usize = 24;
pub(super) const ATTEMPTED_WORD: usize = 32;

/// Bytes of a region as SQLite has it, and the bytes in the first one that are no page numbers.
pub(crate) const REGION_BYTES: usize = 32768;
const FIRST_BYTES: usize = HEADER_WORDS * size_of::<u32>();
/// Page numbers in a region.
const FRAMES_OF_REGION: usize = 4096;

/// The region with the page number of a frame, and which number of that region it is.
pub(super) fn place_of_number(frame: u32) -> Option<(usize, usize)> {
    let place = frame.checked_sub(1)? as usize + FIRST_BYTES / size_of::<u32>();
    Some((place / FRAMES_OF_REGION, place % FRAMES_OF_REGION))
}

/// The frames that are published and not in the database file yet.
pub struct PublishedFrames {
    /// In their order, each with its page.
    pub frames: Vec<(u32, u32)>,
    /// The pages of the database, where the log has any frame.
    pub pages: Option<u32>,
}

impl WalIndex {
    /// Frames that are published. Under the write slot, or where nobody else writes.
    pub fn published(&self) -> u32 {
        self.state().published()
    }

    /// The change counter of the header: another one after each commit that was published.
    pub fn change_counter(&self) -> u32 {
        self.state().word(CHANGE_WORD).map_or(0, |counter| counter.load(Ordering::SeqCst))
    }

    /// The number of frames, from the first on, that every reader and every checkpoint sees, now and later, of those that
    /// are published. None is known to be, while other processes may read.
    pub fn seen_by_all(&self) -> u32 {
        let state = self.state();
        if state.file.is_some() {
            return 0;
        }
        let shared = state.shared_slots();
        let marks = (1..SQLITE_SHM_NLOCK - READ_SLOTS)
            .filter(|slot| shared >> (READ_SLOTS + slot) & 1 != 0)
            .filter_map(|slot| Some(state.word(READ_MARK_WORDS + slot)?.load(Ordering::SeqCst)));
        let checkpoint =
            (self.exclusive.glance() >> CHECKPOINT_SLOT & 1 != 0).then_some(state.checkpoint_sees);
        marks.chain(checkpoint).min().unwrap_or(u32::MAX)
    }

    /// The frames that a reader sees and that are not in the database file yet, in their order, each with its page; `None`
    /// where its snapshot is not known. The reader keeps its slot meanwhile, and as long as it reads the frames.
    pub fn frames_of_reader(&self, held: &HeldSlots) -> Option<Vec<(u32, u32)>> {
        let (last, backfilled) = {
            let state = self.state();
            let read_slots = held.shared() >> READ_SLOTS;
            if read_slots == 1 {
                return Some(Vec::new());
            }
            let slot = (1..SQLITE_SHM_NLOCK - READ_SLOTS).find(|slot| read_slots == 1 << slot)?;
            let word = |number| Some(state.word(number)?.load(Ordering::SeqCst));
            let mark = word(READ_MARK_WORDS + slot)?;
            if state.published() != mark {
                return None;
            }
            (mark, word(BACKFILL_WORD)?)
        };
        self.pages_of_frames(backfilled + 1, last)
    }

    /// What the log has of the present; `None` where there is no index. Nobody writes, or makes a checkpoint.
    pub fn published_frames(&self) -> Option<PublishedFrames> {
        let (header, backfilled) = {
            let state = self.state();
            let is_current = state.file.is_none() && !self.renewed.load(Ordering::SeqCst);
            let first = state.regions.first().filter(|_| is_current)?;
            (read_header(first)?, state.word(BACKFILL_WORD)?.load(Ordering::SeqCst))
        };
        let last = header[LAST_FRAME_WORD];
        let pages = (last > 0).then_some(header[PAGES_WORD]);
        Some(PublishedFrames { frames: self.pages_of_frames(backfilled + 1, last)?, pages })
    }

    /// Frames that follow one another, each with its page.
    fn pages_of_frames(&self, first: u32, last: u32) -> Option<Vec<(u32, u32)>> {
        let mut region = (usize::MAX, NonNull::dangling());
        let mut page_of = |frame: u32| {
            let (number, place) = place_of_number(frame)?;
            if region.0 != number {
                region = (number, self.map(number, REGION_BYTES, false).ok().flatten()?);
            }
            // SAFETY: half of a region are page numbers, and regions are aligned; SQLite writes a frame's number before the frame
            // counts, and not again while a reader sees it.
            Some((frame, unsafe { *region.1.as_ptr().cast::<u32>().add(place) }))
        };
        (first..=last).map(&mut page_of).collect()
    }

    /// Sees to it that a reader finds a mark for what is published, where a slot is free: it need not change one itself. The caller holds the
    /// write slot, or has just given it back.
    pub fn mark_for_members(&self) {
        // Most databases have no members.
        if self.has_board.load(Ordering::Relaxed) {
            self.mark_for_members_at(self.published());
        }
    }

    /// The same for what a member is about to publish, which is in the log. A mark of more frames than are published is no reader's, and in
    /// no checkpoint's way.
    pub fn mark_for_members_at(&self, published: u32) {
        let state = self.state();
        let mark = |slot: usize| state.word(READ_MARK_WORDS + slot);
        let slots = 1..SQLITE_SHM_NLOCK - READ_SLOTS;
        let is_marked = |slot| mark(slot).is_none_or(|mark| mark.load(Ordering::SeqCst) == published);
        let is_backfilled =
            state.word(BACKFILL_WORD).is_none_or(|frames| frames.load(Ordering::SeqCst) == published);
        if state.file.is_some() || is_backfilled || slots.clone().any(is_marked) {
            return;
        }
        let (closed, shared) = (self.exclusive.glance(), state.shared_slots());
        let is_free = |slot: &usize| (closed | shared) >> (READ_SLOTS + slot) & 1 == 0;
        let Some(slot) = slots.clone().find(is_free) else { return };
        self.gates(&state.group).close(closed | 1 << (READ_SLOTS + slot));
        if state.shared_slots() >> (READ_SLOTS + slot) & 1 == 0
            && let Some(mark) = mark(slot)
        {
            mark.store(published, Ordering::SeqCst);
        }
        self.gates(&state.group).close(closed);
    }

    /// Refuses snapshots of fewer frames from now on.
    pub fn refuse_snapshots_below(&self, frames: u32) {
        let mut state = self.state();
        if state.file.is_some() {
            return;
        }
        state.snapshots_from = state.snapshots_from.max(frames);
        state.refuse_snapshots();
    }
}

impl WalIndexState {
    /// The slots that handles share.
    pub(super) fn shared_slots(&self) -> u8 {
        self.readers.iter().fold(self.shared_by_members(), |slots, reader| slots | reader.0.seen())
    }

    /// Sees to it that no process admits a snapshot of fewer frames than `least`, also where a checkpoint of another process would. A mark
    /// that says less goes out of use; one that a reader shares says `least`, which every reader sees.
    ///
    /// A reader that looks at a mark now looks once more when it shares the slot. No slot is held exclusively.
    pub(super) fn raise_marks(&self, least: u32) {
        let shared = self.shared_slots();
        for slot in 1..SQLITE_SHM_NLOCK - READ_SLOTS {
            let Some(mark) = self.word(READ_MARK_WORDS + slot) else { return };
            if mark.load(Ordering::SeqCst) < least {
                let is_shared = shared >> (READ_SLOTS + slot) & 1 != 0;
                mark.store(if is_shared { least } else { UNUSED_MARK }, Ordering::SeqCst);
            }
        }
    }

    pub(super) fn word(&self, number: usize) -> Option<&AtomicU32> {
        // SAFETY: a region is far larger than the words that are asked for here.
        self.regions.first().map(|first| unsafe { first.word(number) })
    }

    fn published(&self) -> u32 {
        self.word(LAST_FRAME_WORD).map_or(0, |last| last.load(Ordering::SeqCst))
    }

    /// A checkpoint has taken its slot.
    pub(super) fn checkpoint_begins(&mut self) {
        self.checkpoint_sees = self.published();
        self.note_checkpoint();
    }

    /// A checkpoint is about to give up its slot. It has written its own number of frames below which snapshots are
    /// refused, perhaps a smaller one.
    pub(super) fn checkpoint_ends(&mut self) {
        if self.file.is_some() {
            return;
        }
        // A log that was restarted meanwhile has frames of its own.
        self.snapshots_from = self.snapshots_from.min(self.published());
        self.refuse_snapshots();
    }

    fn refuse_snapshots(&self) {
        if let Some(attempted) = self.word(ATTEMPTED_WORD).filter(|_| self.snapshots_from > 0) {
            attempted.fetch_max(self.snapshots_from, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::wal_index::WRITE_SLOT;

    /// Sets a word as SQLite does.
    fn set(index: &WalIndex, word: usize, value: u32) {
        index.state().word(word).unwrap().store(value, Ordering::SeqCst);
    }

    fn attempted(index: &WalIndex) -> u32 {
        index.state().word(ATTEMPTED_WORD).unwrap().load(Ordering::SeqCst)
    }

    #[test]
    fn every_reader_sees_the_lowest_mark_of_a_shared_slot() {
        let index = WalIndex::default();
        assert_eq!((index.published(), index.seen_by_all()), (0, u32::MAX), "no index");
        index.map(0, 32768, true).unwrap().unwrap();
        set(&index, LAST_FRAME_WORD, 50);
        for (slot, mark) in [0, 20, 30, 10, u32::MAX].into_iter().enumerate() {
            set(&index, READ_MARK_WORDS + slot, mark);
        }
        let mut readers: Vec<_> = (0..3).map(|_| index.register()).collect();
        for (slots, seen) in [
            (&[][..], u32::MAX),
            (&[0], u32::MAX),
            (&[1], 20),
            (&[2, 1], 20),
            (&[0, 2], 30),
            (&[3, 2, 1], 10),
            (&[4], u32::MAX),
        ] {
            for (slot, reader) in slots.iter().zip(&mut readers) {
                assert!(index.lock(reader, READ_SLOTS + slot, 1, false));
            }
            assert_eq!(index.seen_by_all(), seen, "{slots:?}");
            readers.iter_mut().for_each(|reader| index.unlock(reader, 0, SQLITE_SHM_NLOCK));
        }
        // A slot whose mark is being moved has no reader, and a writer is none.
        assert!(index.lock(&mut readers[0], READ_SLOTS + 3, 1, true));
        assert!(index.lock(&mut readers[1], WRITE_SLOT, 1, true));
        assert_eq!((index.seen_by_all(), index.published()), (u32::MAX, 50));
    }

    #[test]
    fn marks_below_what_was_freed_go_out_of_use_or_say_what_their_readers_see() {
        for (reader, freed, left) in [
            (None, 0, [7, 12, 20, UNUSED_MARK]),
            (None, 12, [UNUSED_MARK, 12, 20, UNUSED_MARK]),
            (Some(3), 20, [UNUSED_MARK, UNUSED_MARK, 20, UNUSED_MARK]),
            (Some(0), 8, [UNUSED_MARK, 12, 20, UNUSED_MARK]),
            (Some(2), 20, [UNUSED_MARK, 20, 20, UNUSED_MARK]),
            (Some(1), 9, [9, 12, 20, UNUSED_MARK]),
        ] {
            let index = WalIndex::default();
            index.map(0, 32768, true).unwrap().unwrap();
            set(&index, LAST_FRAME_WORD, 20);
            for (slot, mark) in [7, 12, 20, UNUSED_MARK].into_iter().enumerate() {
                set(&index, READ_MARK_WORDS + 1 + slot, mark);
            }
            let mut held = index.register();
            assert!(reader.is_none_or(|slot| index.lock(&mut held, READ_SLOTS + slot, 1, false)));
            index.state().raise_marks(freed);
            let mark = |slot| index.state().word(READ_MARK_WORDS + slot).unwrap().load(Ordering::SeqCst);
            assert_eq!([1, 2, 3, 4].map(mark), left, "{reader:?} {freed}");
        }
    }

    #[test]
    fn a_checkpoint_sees_what_was_published_when_it_began() {
        let index = WalIndex::default();
        index.map(0, 32768, true).unwrap().unwrap();
        let mut held = index.register();
        set(&index, LAST_FRAME_WORD, 7);
        assert!(index.lock(&mut held, CHECKPOINT_SLOT, 1, true));
        set(&index, LAST_FRAME_WORD, 9);
        assert_eq!(index.seen_by_all(), 7);
        index.unlock(&mut held, CHECKPOINT_SLOT, 1);
        assert_eq!(index.seen_by_all(), u32::MAX);
    }

    #[test]
    fn a_refused_snapshot_stays_refused_until_the_log_restarts() {
        let index = WalIndex::default();
        index.refuse_snapshots_below(3);
        index.map(0, 32768, true).unwrap().unwrap();
        let mut held = index.register();
        set(&index, LAST_FRAME_WORD, 20);
        index.refuse_snapshots_below(12);
        assert_eq!(attempted(&index), 12);
        index.refuse_snapshots_below(10);
        assert_eq!(attempted(&index), 12);
        for (published, by_sqlite, refused) in [(20, 5, 12), (22, 15, 15), (0, 0, 0), (30, 4, 4)] {
            assert!(index.lock(&mut held, CHECKPOINT_SLOT, 1, true));
            set(&index, LAST_FRAME_WORD, published);
            set(&index, ATTEMPTED_WORD, by_sqlite);
            index.unlock(&mut held, CHECKPOINT_SLOT, 1);
            assert_eq!(attempted(&index), refused, "{published} frames");
        }
    }
}
