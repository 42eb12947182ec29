//! What a member in WAL mode keeps between its transactions: frames of the log, and pages of the database file.
//!
//! # Why
//! SQLite forgets all pages of a connection as soon as another one has committed, and reads them again. In a member each of these reads would be a
//! message. But a frame that counts does not change, and the file changes by checkpoints only.
//!
//! # Invariants
//! 1. Only a transaction that reads by its seat finds something here: the owner owns the database as long as it lasts.
//! 2. A frame is kept by its number, for as long as the log has the same salts. Frames behind the last one that counts are not kept: the next
//!    writer overwrites them.
//! 3. A page of the file is kept with the number of checkpoints that had begun when it was read, where none was under way. It is void as soon as
//!    another one begins.
//! 4. What the connection writes itself is kept once it counts.

use crate::error::Result;
use crate::files::group::channel::Channel;
use crate::files::group::kept_pages::KeptPages;
use crate::files::group::lent_pages::Reading;
use crate::files::group::link::Link;
use crate::files::group::member_file::{MemberFile, read};
use crate::files::group::protocol::FileOf;
use crate::files::group::read_ahead::read_pages;
use crate::sync::group_changes::Moment;
use crate::sync::wal_index::SeenLog;
use std::collections::BTreeMap;

/// Most frames of a transaction that are kept.
const MOST_OWN: usize = 256;

/// The frames and pages of one connection.
#[derive(Default)]
pub(super) struct KeptFrames {
    /// The log that the transaction under way sees, where it reads by its seat.
    log: Option<SeenLog>,
    /// The last frame that counted when a transaction saw the log, and the frames.
    through: u32,
    frames: KeptPages,
    /// What the transaction under way has written to the log.
    own: BTreeMap<u32, Box<[u8]>>,
    file: KeptPages,
}

impl KeptFrames {
    /// A transaction begins to read by its seat.
    pub(super) fn begin(&mut self, log: SeenLog) {
        self.see(log);
        self.log = Some(log);
    }

    fn see(&mut self, log: SeenLog) {
        let moment = Moment { epoch: log.salts, commits: 0 };
        let is_same = self.frames.moment() == moment;
        self.frames.go_on(moment, log.page_bytes, is_same.then_some(&[]));
        self.through = log.last;
    }

    /// It ends, or reads in another way.
    pub(super) fn end(&mut self) {
        self.log = None;
    }

    /// The log as it was seen last: its salts, and its last frame.
    pub(super) fn through(&self) -> (u64, u64) {
        (self.frames.moment().epoch, u64::from(self.through))
    }

    /// The frame that counts whose page lies there.
    fn frame_at(&self, offset: u64, bytes: usize) -> Option<u32> {
        let log = self.log.filter(|log| log.page_bytes == bytes)?;
        SeenLog::frame_at(offset, bytes).filter(|frame| *frame <= log.last)
    }

    /// The connection has the write slot, and may write to the log.
    pub(super) fn begin_to_write(&mut self) {
        self.own.clear();
    }

    /// It has written.
    pub(super) fn note_write(&mut self, buf: &[u8], offset: u64) {
        if let Some(frame) = SeenLog::frame_at(offset, buf.len())
            && (self.own.len() < MOST_OWN || self.own.contains_key(&frame))
        {
            self.own.insert(frame, buf.into());
        }
    }

    /// It is about to give the write slot back. What it has published counts by now, in that log.
    pub(super) fn end_to_write(&mut self, log: Option<SeenLog>) {
        let own = std::mem::take(&mut self.own);
        let Some(log) = log.filter(|_| self.log.is_some()) else { return };
        self.begin(log);
        for (frame, page) in own.into_iter().filter(|(frame, _)| *frame <= log.last) {
            self.frames.keep(frame, page);
        }
    }

    /// Frames that an owner has sent: of the log with these salts.
    pub(super) fn take(&mut self, log: SeenLog, frames: impl Iterator<Item = (u32, Box<[u8]>)>) {
        self.see(log);
        frames
            .filter(|(frame, _)| *frame <= log.last)
            .for_each(|(frame, page)| self.frames.keep(frame, page));
    }

    /// The page of the file that is wanted.
    fn page_at(&self, offset: u64, bytes: usize) -> Option<u32> {
        let is_page = bytes.is_power_of_two() && bytes >= 512 && offset.is_multiple_of(bytes as u64);
        let number = u32::try_from(offset / bytes.max(1) as u64).ok()?.checked_add(1)?;
        self.log.filter(|_| is_page).map(|_| number)
    }

    /// Copies a page of the file, as it is after so many checkpoints; `false` where it is not kept.
    fn copy_page(&mut self, checkpoints: u64, number: u32, buf: &mut [u8]) -> bool {
        let is_same = self.file.moment().commits == checkpoints;
        let found = self.file.get(number).filter(|page| is_same && page.len() == buf.len());
        found.map(|page| buf.copy_from_slice(page)).is_some()
    }

    fn keep_page(&mut self, checkpoints: u64, number: u32, page: Box<[u8]>) {
        let moment = Moment { epoch: 1, commits: checkpoints };
        let is_same = self.file.moment() == moment;
        self.file.go_on(moment, page.len(), is_same.then_some(&[]));
        self.file.keep(number, page);
    }
}

/// The checkpoints that have begun, where none is under way.
fn checkpoints(channel: &Channel) -> Option<u64> {
    channel.board().and_then(|(board, _)| board.checkpoints())
}

impl Link {
    /// Reads bytes of the log.
    pub(super) fn read_log(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut kept = self.kept.lock();
        let frame = kept.frame_at(offset, buf.len());
        if let Some(page) = frame.and_then(|frame| kept.frames.get(frame)) {
            buf.copy_from_slice(page);
            return Ok(());
        }
        read(&self.channel(), FileOf::Wal, buf, offset)?;
        if let Some(frame) = frame {
            kept.frames.keep(frame, (&*buf).into());
        }
        Ok(())
    }
}

impl MemberFile {
    /// Reads bytes of the database file, which in WAL mode may be kept.
    pub(super) fn read_file(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut kept = self.link.kept.lock();
        let page = kept.page_at(offset, buf.len()).zip(checkpoints(&self.channel));
        let Some((number, before)) = page else { return read(&self.channel, FileOf::Main, buf, offset) };
        if kept.copy_page(before, number, buf) {
            return Ok(());
        }
        let ends = (&*self.link, &*self.channel);
        if self.channel.borrowing.read(ends, Reading::Slot, number, buf, offset) {
            return Ok(());
        }
        let page_bytes = buf.len();
        let count = kept.file.ahead.count(number, u32::MAX, page_bytes);
        let mut pages: Vec<(u32, Box<[u8]>)> = Vec::new();
        if count > 1 {
            read_pages(&self.channel, number, count, page_bytes, |number, page| {
                pages.push((number, page.into()))
            })?;
        }
        match pages.first() {
            Some((_, page)) => buf.copy_from_slice(page),
            None => {
                read(&self.channel, FileOf::Main, buf, offset)?;
                pages.push((number, (&*buf).into()));
            }
        }
        if checkpoints(&self.channel) == Some(before) {
            pages.into_iter().for_each(|(number, page)| kept.keep_page(before, number, page));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    fn log(salts: u64, last: u32) -> SeenLog {
        SeenLog { salts, page_bytes: PAGE, last }
    }

    /// Where the page of a frame lies.
    fn at(frame: u64) -> u64 {
        32 + (frame - 1) * (24 + PAGE as u64) + 24
    }

    fn numbers(kept: &mut KeptFrames) -> Vec<u32> {
        (1..9).filter(|frame| kept.frames.get(*frame).is_some()).collect()
    }

    #[test]
    fn frames_are_kept_that_count_in_the_same_log() {
        let mut kept = KeptFrames::default();
        assert_eq!(kept.frame_at(at(1), PAGE), None, "no transaction");
        kept.begin(log(7, 3));
        for (offset, bytes, frame) in [
            (at(3), PAGE, Some(3)),
            (at(4), PAGE, None),
            (at(3) + 1, PAGE, None),
            (at(3), 2 * PAGE, None),
            (0, 32, None),
        ] {
            assert_eq!(kept.frame_at(offset, bytes), frame, "{offset} {bytes}");
        }
        kept.frames.keep(3, vec![3; PAGE].into());
        kept.end();
        kept.begin(log(7, 5));
        assert_eq!((numbers(&mut kept), kept.through()), (vec![3], (7, 5)));
        kept.begin(log(8, 5));
        assert_eq!(numbers(&mut kept), [0; 0], "the log has begun anew");
    }

    #[test]
    fn what_is_written_is_kept_once_it_counts() {
        for (before, after, is_by_seat, expected) in [
            (log(7, 1), Some(log(7, 3)), true, &[2, 3][..]),
            (log(7, 1), Some(log(7, 1)), true, &[]),
            (log(7, 1), Some(log(8, 2)), true, &[2]),
            (log(7, 1), None, true, &[]),
            (log(7, 1), Some(log(7, 3)), false, &[]),
        ] {
            let mut kept = KeptFrames::default();
            kept.begin(before);
            if !is_by_seat {
                kept.end();
            }
            kept.begin_to_write();
            for frame in [2, 3, 4] {
                kept.note_write(&[0; 24], at(frame) - 24);
                kept.note_write(&[frame as u8; PAGE], at(frame));
            }
            kept.end_to_write(after);
            assert_eq!(numbers(&mut kept), expected, "{before:?} {after:?} {is_by_seat}");
            assert!(kept.own.is_empty());
        }
    }

    #[test]
    fn a_page_of_the_file_is_kept_until_a_checkpoint_begins() {
        let mut kept = KeptFrames::default();
        assert_eq!(kept.page_at(PAGE as u64, PAGE), None, "no transaction");
        kept.begin(log(7, 3));
        for (offset, bytes, page) in
            [(PAGE, PAGE, Some(2)), (0, PAGE, Some(1)), (24, 16, None), (100, PAGE, None), (0, 100, None)]
        {
            assert_eq!(kept.page_at(offset as u64, bytes), page, "{offset} {bytes}");
        }
        kept.keep_page(4, 2, [9; PAGE].into());
        let mut buf = [0; PAGE];
        assert!(!kept.copy_page(5, 2, &mut buf) && !kept.copy_page(4, 1, &mut buf));
        assert!(!kept.copy_page(4, 2, &mut [0; 2 * PAGE]) && kept.copy_page(4, 2, &mut buf));
        assert_eq!(buf, [9; PAGE]);
        kept.keep_page(5, 1, [8; PAGE].into());
        assert!(!kept.copy_page(5, 2, &mut buf) && kept.copy_page(5, 1, &mut buf));
    }
}
