//! Appending: transactions, and slots that are written ahead of their transaction.

use super::ahead::{Ahead, FramesAhead};
use super::early::{self, EARLY_PAGES, early_frames};
use super::format::{Checksum, FRAME_HEADER_BYTES, Header};
use super::{RedoLog, ReservedSlots, Transaction};
use crate::file::{DeviceError, File, Operation, Result};
use crate::log_file::Durability;
use std::io;
use std::ops::Range;

/// Bytes of the buffer that are kept from one append to the next, and of a write that waits for no sync of its own.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes by which a transaction goes beyond what was written before, so that its own bytes take the place of zeros.
const LARGE_BYTES: u64 = 256 * 1024;
/// Most pages in one write, which is durable by itself.
pub(super) const PAGES_PER_WRITE: usize = 256;

/// When a transaction is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Now,
    /// By a flush, for which somebody waits.
    Soon,
    /// With a later one, if ever.
    Never,
}

impl From<Durability> for Sync {
    fn from(durability: Durability) -> Sync {
        match durability {
            Durability::Durable => Sync::Now,
            Durability::Buffered => Sync::Never,
        }
    }
}

impl RedoLog {
    /// Appends one transaction: its early pages by their checksums, each other page once, and the size of the database after
    /// it.
    ///
    /// `copy` is asked for the pages in turn, by their place in `transaction.page_numbers`.
    pub fn append(
        &mut self,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
        durability: Durability,
    ) -> Result<()> {
        self.append_all(None, transaction, copy, durability.into())
    }

    /// The same for a transaction that counts once a [`flush`](RedoLog::flush), or a sync, has covered it. Space and contents are prepared as for
    /// one that is synced at once, and a [compaction](RedoLog::compact) takes it for durable.
    pub fn append_to_be_flushed(
        &mut self,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.append_all(None, transaction, copy, Sync::Soon)
    }

    /// The same for a transaction whose other pages are in frames ahead, which the log [takes](RedoLog::takes). It has no slots,
    /// and appends at least one page.
    ///
    /// # Errors
    /// Also that the frames ahead do not count.
    pub fn append_behind(
        &mut self,
        ahead: &FramesAhead,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
        durability: Durability,
    ) -> Result<()> {
        if !self.takes(ahead)? || transaction.page_numbers.is_empty() {
            let what = io::Error::other("pages were written ahead of another transaction");
            return Err(DeviceError::new(Operation::Write, self.file.path(), what));
        }
        self.append_all(Some(ahead.into()), transaction, copy, durability.into())
    }

    fn append_all(
        &mut self,
        ahead: Option<Ahead<'_>>,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
        sync: Sync,
    ) -> Result<()> {
        let durability = if sync == Sync::Now { Durability::Durable } else { Durability::Buffered };
        let (numbers, slots) = (transaction.page_numbers, transaction.slots);
        if numbers.is_empty() && slots.is_empty() && transaction.early.is_empty() {
            return if durability == Durability::Durable { self.sync() } else { Ok(()) };
        }
        if slots.len() as u32 > self.slots {
            // They are in another log, which is gone.
            let what = io::Error::other("pages are in slots that the log does not have");
            return Err(DeviceError::new(Operation::Write, self.file.path(), what));
        }
        let header = match &ahead {
            Some(ahead) => ahead.header,
            None => self.begin(transaction.page_bytes)?,
        };
        let ahead_numbers = ahead.as_ref().map_or(&[][..], |ahead| ahead.page_numbers);
        let behind_slots = self.frames + (slots.len() + ahead_numbers.len()) as u32;
        let checksum = ahead.as_ref().map_or(self.checksum, |ahead| ahead.checksum);
        let mut encoding = Encoding { header, transaction, checksum };
        let appended = encoding.appended();
        let end = behind_slots + appended as u32;
        if let Some(ahead) = &ahead {
            self.file.note_written(ahead.written, ahead.unsynced);
        }
        let end_offset = header.frame_offset(end);
        if sync == Sync::Never || end_offset > self.file.allocated() + LARGE_BYTES {
            self.file.reserve_whole(end_offset)?;
        } else {
            self.file.reserve(end_offset)?;
        }
        if let Some(file) = self.file.opened().cloned().filter(|_| !slots.is_empty()) {
            self.file.check()?;
            encoding.close_slots(&*file, self.frames)?;
            self.file.mark_unsynced();
        }
        let alone =
            appended <= PAGES_PER_WRITE && !self.file.is_unsynced() && durability == Durability::Durable;
        let pages_per_write =
            if alone { PAGES_PER_WRITE } else { (KEPT_BUFFER_BYTES / header.frame_bytes()).max(1) };
        for part in encoding.parts(pages_per_write) {
            let offset = header.frame_offset(behind_slots + part.start as u32);
            encoding.fill(part, &mut self.buffer, copy)?;
            let written = match alone {
                true => self.file.write_durably(&self.buffer, offset),
                false => self.file.write_later(&self.buffer, offset),
            };
            written.inspect_err(|_| self.disown(&header))?;
        }
        self.file.sync_for(durability).inspect_err(|_| self.disown(&header))?;
        let in_slots = slots.iter().map(|(number, _)| number).chain(ahead_numbers);
        self.awaited.commit(
            transaction.early.iter().copied(),
            in_slots.clone().chain(numbers).copied(),
            transaction.database_pages,
        );
        let behind_early = end - numbers.len() as u32;
        for (frame, page_number) in (self.frames..).zip(in_slots).chain((behind_early..).zip(numbers)) {
            self.newest.insert(*page_number, frame);
        }
        self.frames = end;
        if sync != Sync::Never {
            self.synced = end;
        }
        self.slots = 0;
        self.checksum = encoding.checksum;
        self.database_pages = transaction.database_pages;
        self.buffer.shrink_to(KEPT_BUFFER_BYTES);
        Ok(())
    }

    /// Breaks the chain before a transaction that has failed, perhaps after it was written. SQLite rolls it back, so
    /// the next opening must not find it. The latch is closed by then, but these bytes count for nothing whatever
    /// becomes of them. A device that refuses them as well leaves it open whether the transaction happened.
    fn disown(&self, header: &Header) {
        self.file.void(&[0; FRAME_HEADER_BYTES], header.frame_offset(self.frames));
    }

    /// Makes sure that `frames` more frames will not run out of space, without writing them.
    pub fn claim(&mut self, page_bytes: u32, frames: u32) -> Result<()> {
        let header = self.begin(page_bytes)?;
        self.file.claim(header.frame_offset(self.frames + frames))
    }

    /// The log after [`RedoLog::append`] of this transaction, which has no slots: its frames, and the checksum of the
    /// last one.
    pub fn predict(
        &mut self,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<(u32, [u32; 2])> {
        let header = self.begin(transaction.page_bytes)?;
        let mut encoding = Encoding { header, transaction, checksum: self.checksum };
        for part in encoding.parts(PAGES_PER_WRITE) {
            encoding.fill(part, &mut self.buffer, copy)?;
        }
        Ok((self.frames + encoding.appended() as u32, encoding.checksum.words()))
    }

    /// Room for `count` pages, from number `first` (from 0), of a transaction under way. They may be written more than
    /// once before [`RedoLog::append`], and do not count before it.
    pub fn reserve_slots(&mut self, page_bytes: u32, first: u32, count: u32) -> Result<ReservedSlots> {
        let header = self.begin(page_bytes)?;
        self.file.reserve_whole(header.frame_offset(self.frames + first + count))?;
        self.file.check()?;
        self.slots = self.slots.max(first + count);
        self.file.mark_unsynced();
        let Some(file) = self.file.opened().cloned() else {
            let gone = io::Error::from(io::ErrorKind::NotFound);
            return Err(DeviceError::new(Operation::Write, self.file.path(), gone));
        };
        let offset = header.frame_offset(self.frames + first) + FRAME_HEADER_BYTES as u64;
        Ok(ReservedSlots { file, offset, header })
    }

    /// True while slots are in use: the log must not begin a new generation.
    pub fn has_slots(&self) -> bool {
        self.slots > 0
    }

    /// Gives all slots back.
    pub fn discard_slots(&mut self) {
        self.slots = 0;
    }
}

/// The frames of a transaction on their way into a log: those in slots, those with its early pages, then those of its pages.
///
/// # Invariant
/// Frames are encoded once each, in their order: `checksum` is that of the frame before the next one.
struct Encoding<'a> {
    header: Header,
    transaction: &'a Transaction<'a>,
    checksum: Checksum,
}

impl Encoding<'_> {
    /// Frames that are appended: all that are not in slots.
    fn appended(&self) -> usize {
        let Transaction { early, page_numbers, page_bytes, .. } = self.transaction;
        early_frames(early.len(), *page_bytes) + page_numbers.len()
    }

    /// The parts of so many pages in which they are appended: one write each.
    fn parts(&self, pages: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let appended = self.appended();
        (0..appended).step_by(pages).map(move |first| first..appended.min(first + pages))
    }

    /// Writes the frame headers of the slots, of which the first one is the frame `first`.
    fn close_slots(&mut self, file: &dyn File, first: u32) -> Result<()> {
        let (step, slots) = (self.header.step(), self.transaction.slots);
        let behind = self.appended();
        for (index, (page_number, sum)) in slots.iter().enumerate() {
            let last = behind == 0 && index + 1 == slots.len();
            let size = if last { self.transaction.database_pages } else { 0 };
            let (head, next) = self.header.encode_frame_of_sum(self.checksum, *page_number, size, step, *sum);
            file.write_at(&head, self.header.frame_offset(first + index as u32))?;
            self.checksum = next;
        }
        Ok(())
    }

    /// Makes the frames of a part in the buffer.
    fn fill(
        &mut self,
        part: Range<usize>,
        buffer: &mut Vec<u8>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let frame_bytes = self.header.frame_bytes();
        buffer.resize(part.len() * frame_bytes, 0);
        let appended = self.appended();
        let with_early = appended - self.transaction.page_numbers.len();
        for (index, frame) in part.zip(buffer.chunks_exact_mut(frame_bytes)) {
            let (head, page) = frame.split_at_mut(FRAME_HEADER_BYTES);
            let number = match index.checked_sub(with_early) {
                Some(index) => {
                    copy(index, page)?;
                    self.transaction.page_numbers[index]
                }
                None => {
                    early::encode(self.transaction.early, index, page);
                    EARLY_PAGES
                }
            };
            let size = if index + 1 == appended { self.transaction.database_pages } else { 0 };
            let encoded = self.header.encode_frame(self.checksum, number, size, page);
            head.copy_from_slice(&encoded.0);
            self.checksum = encoded.1;
        }
        Ok(())
    }
}
