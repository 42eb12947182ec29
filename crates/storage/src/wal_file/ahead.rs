//! Frames ahead: pages of a large transaction that are in the log before its last frame is.
//!
//! # Why
//! A transaction of thousands of pages takes long to write and to sync. Most of its pages are known long before its end. They are
//! written in their frames, by a thread that has no lock on the log. The end of the transaction then appends what has changed
//! since, and the frame that makes everything count.
//!
//! # What it promises
//! 1. A frame ahead does not count: its header has no size of the database. Both SQLite and litefoot read up to the last frame that has one.
//! 2. The caller may drop frames ahead at any time. The next append writes over them.
//! 3. What [`FramesAhead::sync`] has left is durable.
//!
//! # Invariants
//! 1. Frames ahead continue the checksum of the log behind which they were begun. So they count only with a transaction
//!    that is appended there, in the same generation: [`RedoLog::takes`].
//! 2. Of two frames of one page in a transaction the later one counts, for SQLite and for litefoot.
//! 3. Frames in space that was written before are written durably. Others wait for a sync, with the file's length.
//! 4. The header of the generation is durable before.

use super::RedoLog;
use super::format::{Checksum, FRAME_HEADER_BYTES, Header};
use crate::file::{File, Result, SyncLatch};
use crate::log_file::space;
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes behind frames that are written where nothing was before, for the end of their transaction.
const ROOM_BYTES: u64 = 256 << 10;

/// Frames ahead of a transaction, behind a log.
pub struct FramesAhead {
    file: Arc<dyn File>,
    latch: Arc<SyncLatch>,
    header: Header,
    /// The number of the first.
    first: u32,
    /// The checksum that the next frame continues.
    checksum: Checksum,
    /// Their pages, in order.
    page_numbers: Vec<u32>,
    /// Bytes of the file that were written, durably but for what is unsynced.
    written: u64,
    unsynced: bool,
    /// The last of them, on their way to the medium.
    buffer: Vec<u8>,
}

impl FramesAhead {
    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.page_numbers.is_empty()
    }

    /// The pages, in order; a later one of the same number counts.
    pub fn page_numbers(&self) -> &[u32] {
        &self.page_numbers
    }

    /// Makes the frame of a page, which [`FramesAhead::write`] writes.
    ///
    /// # Errors
    /// Those of `copy`. There is no such frame then.
    pub fn push(&mut self, page_number: u32, copy: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + self.header.frame_bytes(), 0);
        let (head, page) = self.buffer[start..].split_at_mut(FRAME_HEADER_BYTES);
        if let Err(error) = copy(page) {
            self.buffer.truncate(start);
            return Err(error);
        }
        let (encoded, next) = self.header.encode_frame(self.checksum, page_number, 0, page);
        head.copy_from_slice(&encoded);
        self.checksum = next;
        self.page_numbers.push(page_number);
        Ok(())
    }

    /// Writes the frames that were made since the last call.
    ///
    /// # Errors
    /// Errors of the medium, a full disk among them. Nothing ahead counts any more then, and the caller drops this.
    pub fn write(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.latch.check(self.file.path())?;
        let (end, bytes) = (self.end(), [IoSlice::new(&self.buffer)]);
        let offset = end - self.buffer.len() as u64;
        if end <= self.written && !self.unsynced {
            self.latch.watch(self.file.write_durable_at(&bytes, offset))?;
        } else {
            self.file.allocate(end)?;
            self.file.write_vectored_at(&bytes, offset)?;
            self.file.start_writeback(offset, self.buffer.len() as u64);
            (self.written, self.unsynced) = (self.written.max(end), true);
        }
        self.buffer.clear();
        Ok(())
    }

    /// Makes everything that was written durable, and room for the end of the transaction.
    ///
    /// # Errors
    /// Errors of the medium, as for [`FramesAhead::write`].
    pub fn sync(&mut self) -> Result<()> {
        if self.unsynced {
            self.latch.check(self.file.path())?;
            self.written = space::grow(&*self.file, self.written, self.written + ROOM_BYTES)?;
            self.latch.watch(self.file.sync())?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// The end of the frames in the file.
    fn end(&self) -> u64 {
        self.header.frame_offset(self.first + self.page_numbers.len() as u32)
    }
}

/// What a transaction finds ahead of it.
pub(super) struct Ahead<'a> {
    pub page_numbers: &'a [u32],
    pub header: Header,
    pub checksum: Checksum,
    pub written: u64,
    pub unsynced: bool,
}

impl<'a> From<&'a FramesAhead> for Ahead<'a> {
    fn from(frames: &'a FramesAhead) -> Ahead<'a> {
        debug_assert!(frames.buffer.is_empty(), "frames that were not written");
        Ahead {
            page_numbers: &frames.page_numbers,
            header: frames.header,
            checksum: frames.checksum,
            written: frames.written,
            unsynced: frames.unsynced,
        }
    }
}

impl RedoLog {
    /// Begins frames ahead of the next transaction. `None` while another one has slots, and where the generation is not open,
    /// durably.
    pub fn begin_ahead(&self) -> Option<FramesAhead> {
        let (Some(header), Some(file)) = (self.header, self.file.opened().cloned()) else { return None };
        if self.has_slots() || !self.is_synced() {
            return None;
        }
        Some(FramesAhead {
            file,
            latch: self.file.latch().clone(),
            header,
            first: self.frames,
            checksum: self.checksum,
            page_numbers: Vec::new(),
            written: self.file.allocated(),
            unsynced: false,
            buffer: Vec::new(),
        })
    }

    /// True if a transaction that is appended now can have these frames ahead.
    ///
    /// # Errors
    /// Errors of reading the data file, which the generation names.
    pub fn takes(&self, ahead: &FramesAhead) -> Result<bool> {
        let is_here = self.header == Some(ahead.header) && self.frames == ahead.first && !self.has_slots();
        Ok(is_here && !ahead.is_empty() && self.still_says(&ahead.header)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileKind, Medium};
    use crate::log_file::Durability;
    use crate::sim::{CountingMedium, Faults, SimMedium};
    use crate::wal_file::frames;
    use crate::wal_file::tests::{PAGE, append, look, open, page, version_of, with_pages};
    use std::path::Path;

    /// Begins frames ahead, and writes these pages.
    fn begin(log: &RedoLog, numbers: &[u32], version: u32) -> FramesAhead {
        let mut ahead = log.begin_ahead().unwrap();
        push(&mut ahead, numbers, version);
        ahead
    }

    fn push(ahead: &mut FramesAhead, numbers: &[u32], version: u32) {
        for number in numbers {
            let copy = |out: &mut [u8]| {
                out.copy_from_slice(&page(*number, version));
                Ok(())
            };
            ahead.push(*number, copy).unwrap();
        }
        ahead.write().unwrap();
    }

    /// Appends the end of their transaction.
    fn end(log: &mut RedoLog, ahead: &FramesAhead, numbers: &[u32], version: u32) -> Result<()> {
        with_pages(numbers, version, |transaction, copy| {
            log.append_behind(ahead, transaction, copy, Durability::Durable)
        })
    }

    fn versions(log: &RedoLog) -> [Option<u32>; 5] {
        [1, 2, 3, 4, 5].map(|number| version_of(log, number))
    }

    #[test]
    fn frames_ahead_count_with_the_end_of_their_transaction() {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        append(&mut log, &[1, 5], 1, Durability::Durable).unwrap();
        let mut ahead = begin(&log, &[2, 3, 4], 2);
        push(&mut ahead, &[3], 3);
        for log in [&log, &look(&medium)] {
            assert_eq!((log.frames(), versions(log)), (2, [Some(1), None, None, None, Some(1)]));
        }
        // They are valid frames, as any reader of the format takes them.
        let (header, file) = (log.header.unwrap(), log.file.opened().unwrap().clone());
        let mut found = Vec::new();
        frames(&*file, &header, header.encode().1, |frame, _| {
            found.push((frame.page_number, frame.database_pages));
        })
        .unwrap();
        assert_eq!(found, [(1, 0), (5, 101), (2, 0), (3, 0), (4, 0), (3, 0)]);
        assert!(log.takes(&ahead).unwrap());
        end(&mut log, &ahead, &[4, 5], 4).unwrap();
        for log in [&log, &look(&medium)] {
            assert_eq!((log.frames(), log.database_pages()), (8, 104));
            assert_eq!(versions(log), [Some(1), Some(2), Some(3), Some(4), Some(4)]);
        }
        assert!(log.is_synced() && !log.takes(&ahead).unwrap());
        append(&mut log, &[2], 5, Durability::Durable).unwrap();
        assert_eq!((look(&medium).frames(), versions(&look(&medium))[1]), (9, Some(5)));
    }

    #[test]
    fn frames_ahead_are_taken_in_their_place_and_generation_only() {
        type Change = fn(&mut RedoLog);
        let changes: [(&str, Change, bool); 5] = [
            ("nothing", |_| (), true),
            ("a claim", |log| log.claim(PAGE as u32, 100).unwrap(), true),
            ("a transaction", |log| append(log, &[9], 9, Durability::Durable).unwrap(), false),
            ("a new generation", RedoLog::reset, false),
            ("slots", |log| drop(log.reserve_slots(PAGE as u32, 0, 1).unwrap()), false),
        ];
        for (what, change, expected) in changes {
            let mut log = open(&SimMedium::default());
            append(&mut log, &[1], 1, Durability::Durable).unwrap();
            let ahead = begin(&log, &[2], 2);
            change(&mut log);
            assert_eq!(log.takes(&ahead).unwrap(), expected, "{what}");
            assert_eq!(end(&mut log, &ahead, &[3], 3).is_ok(), expected, "{what}");
        }
        let mut log = open(&SimMedium::default());
        assert!(log.begin_ahead().is_none(), "no generation");
        append(&mut log, &[1], 1, Durability::Buffered).unwrap();
        assert!(log.begin_ahead().is_none(), "a header that is not durable");
        log.sync().unwrap();
        let none = log.begin_ahead().unwrap();
        assert!(none.is_empty() && !log.takes(&none).unwrap());
        log.reserve_slots(PAGE as u32, 0, 1).unwrap();
        assert!(log.begin_ahead().is_none(), "slots");
    }

    #[test]
    fn frames_ahead_that_were_dropped_are_written_over() {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        log.begin(PAGE as u32).unwrap();
        log.sync().unwrap();
        drop(begin(&log, &[1, 2, 3, 4, 5], 1));
        append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
        // The same pages follow behind it, and still do not count.
        for log in [&log, &look(&medium)] {
            assert_eq!((log.frames(), versions(log)), (2, [Some(1), Some(1), None, None, None]));
        }
        append(&mut log, &[3], 2, Durability::Durable).unwrap();
        assert_eq!((look(&medium).frames(), versions(&look(&medium))[2]), (3, Some(2)));
    }

    #[test]
    fn space_that_was_written_before_is_written_durably_and_other_space_is_synced_once() {
        let counting = CountingMedium::new(Arc::new(SimMedium::default()));
        let mut log = RedoLog::open(Arc::new(counting.clone()), Path::new("/a-wal"), Arc::default()).unwrap();
        for (is_written_before, syncs) in [(false, [0, 0, 1, 1]), (true, [1, 1, 0, 1])] {
            log.begin(PAGE as u32).unwrap();
            log.sync().unwrap();
            let mut ahead = log.begin_ahead().unwrap();
            let mut last = counting.snapshot();
            let mut spent = || {
                let now = counting.snapshot();
                (now - std::mem::replace(&mut last, now)).all_syncs()
            };
            push(&mut ahead, &[1, 2], 1);
            let first = spent();
            push(&mut ahead, &[3], 1);
            let second = spent();
            ahead.sync().unwrap();
            let third = spent();
            end(&mut log, &ahead, &[4], 2).unwrap();
            assert_eq!([first, second, third, spent()], syncs, "{is_written_before}");
            log.reset();
        }
    }

    #[test]
    fn a_full_disk_leaves_the_log_as_it_was() {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        append(&mut log, &[1, 5], 1, Durability::Durable).unwrap();
        let mut ahead = log.begin_ahead().unwrap();
        medium.set_faults(Faults::full_at(medium.used_bytes()));
        let room = medium.files().iter().find(|file| file.1 == FileKind::RedoLog).unwrap().2.len() / PAGE;
        for number in 0..room as u32 {
            ahead.push(number + 1, |_| Ok(())).unwrap();
        }
        assert!(ahead.write().is_err());
        drop(ahead);
        append(&mut log, &[2], 2, Durability::Durable).unwrap();
        assert_eq!(versions(&look(&medium)), [Some(1), Some(2), None, None, Some(1)]);
        assert!(medium.info(Path::new("/a-wal")).unwrap().is_some());
    }
}
