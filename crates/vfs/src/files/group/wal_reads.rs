//! What a member in WAL mode reads without a message: frames of the log in memory of all, and pages of the database file, some of which it keeps.
//!
//! # Why
//! SQLite forgets all pages of a connection as soon as another one has committed, and reads them again. In a member each of these reads would be a
//! message. But a frame that counts does not change (`sync/shared_frames`), and the file changes by checkpoints only.
//!
//! # Invariants
//! 1. Only a transaction that reads by the memory of its owner finds something here. The owner owns the database as long as it lasts, or has left it behind
//!    (`left_behind`).
//! 2. A frame is read here where it counts in the snapshot of the transaction, or is one that the transaction has published.
//! 3. Where the owner has died the frames are as they were, and pages of the file are read by a guardian (`wal_orphan`).
//! 4. A page of the file is kept with the number of checkpoints that had begun when it was read, where none was under way. It is void as soon as
//!    another one begins.

use crate::error::Result;
use crate::files::group::channel::Channel;
use crate::files::group::kept_pages::KeptPages;
use crate::files::group::lent_pages::Reading;
use crate::files::group::link::Link;
use crate::files::group::member_file::{MemberFile, read};
use crate::files::group::own_frames::OwnFrames;
use crate::files::group::protocol::FileOf;
use crate::files::group::read_ahead::read_pages;
use crate::files::group::wal_state::Claim;
use crate::sync::group_changes::Moment;
use crate::sync::shared_frames::FrameMemory;
use crate::sync::wal_index::SeenLog;
use std::sync::Arc;

/// The next owner, which keeps the file as it is for a snapshot whose owner has died (`wal_orphan`).
pub(super) struct Guardian {
    pub channel: Arc<Channel>,
    /// True if it has given the lock of a writer.
    pub writes: bool,
}

/// The snapshot of a transaction.
struct Snapshot {
    log: SeenLog,
    /// Where its frames are, as far as they are in memory of all.
    frames: Option<Arc<FrameMemory>>,
}

/// The snapshot and the pages of one connection.
#[derive(Default)]
pub(super) struct WalReads {
    /// The transaction under way, where it reads by the memory of its owner.
    snapshot: Option<Snapshot>,
    /// True while it has the lock of a writer, or its turn.
    writes: bool,
    /// The next owner, which keeps the file for it, where the last one has died.
    pub(super) guardian: Option<Guardian>,
    /// What the transaction under way has written.
    pub(super) own: OwnFrames,
    file: KeptPages,
}

impl WalReads {
    /// A transaction begins to read.
    pub(super) fn begin(&mut self, log: SeenLog, frames: Option<Arc<FrameMemory>>) {
        self.snapshot = Some(Snapshot { log, frames });
    }

    /// It ends, or reads in another way.
    pub(super) fn end(&mut self) {
        (self.snapshot, self.guardian) = (None, None);
        self.own.end();
    }

    /// It has the lock of a writer, or its turn, or neither.
    pub(super) fn note_writes(&mut self, writes: bool) {
        self.writes = writes;
    }

    /// True if it goes on where its owner has died.
    pub(super) fn outlives_owner(&self) -> bool {
        let has_frames = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.frames.is_some());
        has_frames && (!self.writes || self.own.are_whole())
    }

    /// True where the guardian has to give the lock of a writer.
    pub(super) fn is_to_write(&self) -> bool {
        self.writes && !self.own.is_made
    }

    /// What the transaction has found, and its commit; `None` where not all of that is here.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.own.claim(self.snapshot.as_ref()?.frames.as_ref()?)
    }

    /// True if its commit was published, and all of its log is in the file by now.
    pub(super) fn is_past(&self) -> bool {
        let frames = self.snapshot.as_ref().and_then(|snapshot| snapshot.frames.as_ref());
        frames.is_some_and(|frames| self.own.is_past(frames))
    }

    /// It has published what it has written: that counts by now, in that log.
    pub(super) fn note_published(&mut self, log: SeenLog) {
        self.snapshot.iter_mut().for_each(|snapshot| snapshot.log = log);
        self.own.note_published();
    }

    /// Copies the page of a frame that counts, and lies there in the log; `false` where it has to be asked for.
    fn copy_frame(&self, buf: &mut [u8], offset: u64) -> bool {
        if self.own.copy_frame(buf, offset) {
            return true;
        }
        let Some(Snapshot { log, frames: Some(frames) }) = &self.snapshot else { return false };
        let frame = SeenLog::frame_at(offset, buf.len()).filter(|_| buf.len() == log.page_bytes);
        frame.is_some_and(|frame| frame <= log.last && frames.read(log.salts, frame, buf))
    }

    /// The page of the file that is wanted.
    fn page_at(&self, offset: u64, bytes: usize) -> Option<u32> {
        let is_page = bytes.is_power_of_two() && bytes >= 512 && offset.is_multiple_of(bytes as u64);
        let number = u32::try_from(offset / bytes.max(1) as u64).ok()?.checked_add(1)?;
        self.snapshot.as_ref().filter(|_| is_page).map(|_| number)
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
        if self.wal_reads.lock().copy_frame(buf, offset) || self.copy_written(FileOf::Wal, buf, offset) {
            return Ok(());
        }
        let channel = self.channel();
        let read = read(&channel, FileOf::Wal, buf, offset);
        let read = self.or_by_itself(read, |own| own.read(FileOf::Wal, buf, offset));
        if read.is_err() && self.recovery.give_up() {
            channel.leave();
            return read;
        }
        if read.is_ok() || !channel.has_lost_owner() {
            return read;
        }
        let reads = self.wal_reads.lock();
        if reads.guardian.is_some() && reads.own.read_to_repair(buf, offset) { Ok(()) } else { read }
    }
}

impl MemberFile {
    /// Reads bytes of the database file, which in WAL mode may be kept.
    pub(super) fn read_file(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut reads = self.link.wal_reads.lock();
        if reads.guardian.is_none() {
            let read = self.read_beside_owner(&mut reads, buf, offset);
            let read = self.link.or_by_itself(read, |own| own.read(FileOf::Main, buf, offset));
            if read.is_ok() || !self.channel.has_lost_owner() || !reads.outlives_owner() {
                return read;
            }
        }
        let page = reads.page_at(offset, buf.len());
        self.link.read_by_guardian(&mut reads, page, buf, offset)
    }

    fn read_beside_owner(&self, reads: &mut WalReads, buf: &mut [u8], offset: u64) -> Result<()> {
        let page = reads.page_at(offset, buf.len()).zip(checkpoints(&self.channel));
        let Some((number, before)) = page else { return read(&self.channel, FileOf::Main, buf, offset) };
        if reads.copy_page(before, number, buf) {
            return Ok(());
        }
        let ends = (&*self.link, &*self.channel);
        let is_read = self.channel.borrowing.read(ends, Reading::Slot, number, buf, offset);
        // Behind the read.
        if is_read && !self.is_left_behind() {
            return Ok(());
        }
        let page_bytes = buf.len();
        let count = reads.file.ahead.count(number, u32::MAX, page_bytes);
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
            pages.into_iter().for_each(|(number, page)| reads.keep_page(before, number, page));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::reservation::MemoryReservation;
    use crate::sync::shared_frames::SharedFrames;
    use litefoot_storage::os::NamelessMemory;

    const PAGE: usize = 512;

    fn log(salts: u64, last: u32) -> SeenLog {
        SeenLog { salts, page_bytes: PAGE, last }
    }

    /// Where the page of a frame lies.
    fn at(frame: u64) -> u64 {
        32 + (frame - 1) * (24 + PAGE as u64) + 24
    }

    #[test]
    fn frames_are_read_that_count_in_the_snapshot() {
        let memory = Arc::new(NamelessMemory::new().unwrap());
        let mut owners = SharedFrames::new(memory.clone(), MemoryReservation::fixed(1 << 20)).unwrap();
        owners.begin(7, PAGE);
        (1..=4).for_each(|frame| owners.put(frame, &[frame as u8; PAGE], true));
        let frames = Some(Arc::new(FrameMemory::of(memory).unwrap()));
        let mut reads = WalReads::default();
        let found = |reads: &WalReads, offset, bytes| {
            let mut buf = vec![0; bytes];
            reads.copy_frame(&mut buf, offset).then(|| buf[bytes - 1])
        };
        assert_eq!(found(&reads, at(1), PAGE), None, "no transaction");
        reads.begin(log(7, 3), frames.clone());
        for (offset, bytes, byte) in [
            (at(1), PAGE, Some(1)),
            (at(3), PAGE, Some(3)),
            (at(4), PAGE, None),
            (at(3) + 1, PAGE, None),
            (at(3) - 24, 24, None),
            (at(3), 2 * PAGE, None),
            (0, 32, None),
        ] {
            assert_eq!(found(&reads, offset, bytes), byte, "{offset} {bytes}");
        }
        reads.note_published(log(7, 4));
        assert_eq!(found(&reads, at(4), PAGE), Some(4));
        reads.begin(log(8, 4), frames);
        assert_eq!(found(&reads, at(1), PAGE), None, "another log");
        reads.begin(log(7, 4), None);
        assert_eq!(found(&reads, at(1), PAGE), None, "there is no such memory");
        reads.end();
        reads.note_published(log(7, 4));
        assert!(reads.snapshot.is_none());
    }

    #[test]
    fn a_page_of_the_file_is_kept_until_a_checkpoint_begins() {
        let mut reads = WalReads::default();
        assert_eq!(reads.page_at(PAGE as u64, PAGE), None, "no transaction");
        reads.begin(log(7, 3), None);
        for (offset, bytes, page) in
            [(PAGE, PAGE, Some(2)), (0, PAGE, Some(1)), (24, 16, None), (100, PAGE, None), (0, 100, None)]
        {
            assert_eq!(reads.page_at(offset as u64, bytes), page, "{offset} {bytes}");
        }
        reads.keep_page(4, 2, [9; PAGE].into());
        let mut buf = [0; PAGE];
        assert!(!reads.copy_page(5, 2, &mut buf) && !reads.copy_page(4, 1, &mut buf));
        assert!(!reads.copy_page(4, 2, &mut [0; 2 * PAGE]) && reads.copy_page(4, 2, &mut buf));
        assert_eq!(buf, [9; PAGE]);
        reads.keep_page(5, 1, [8; PAGE].into());
        assert!(!reads.copy_page(5, 2, &mut buf) && reads.copy_page(5, 1, &mut buf));
    }
}
