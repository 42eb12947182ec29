//! Appending: transactions, and slots that are written ahead of their transaction.

use super::ahead::{Ahead, FramesAhead};
use super::early::{self, EARLY_PAGES, early_frames};
use super::format::{Checksum, FRAME_HEADER_BYTES, Header};
use super::{RedoLog, ReservedSlots, Transaction};
use crate::file::{DeviceError, Operation, Result};
use crate::log_file::Durability;
use std::io;
use std::ops::Range;

/// Bytes of the buffer that are kept from one append to the next.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes by which a transaction goes beyond what was written before, so that its own bytes take the place of zeros.
const LARGE_BYTES: u64 = 256 * 1024;
/// Most pages in one write.
pub(super) const PAGES_PER_WRITE: usize = 256;

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
        self.append_all(None, transaction, copy, durability)
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
        self.append_all(Some(ahead.into()), transaction, copy, durability)
    }

    fn append_all(
        &mut self,
        ahead: Option<Ahead<'_>>,
        transaction: &Transaction<'_>,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
        durability: Durability,
    ) -> Result<()> {
        let (numbers, slots) = (transaction.page_numbers, transaction.slots);
        if numbers.is_empty() && slots.is_empty() && transaction.early.is_empty() {
            return if durability == Durability::Durable { self.sync() } else { Ok(()) };
        }
        debug_assert!(slots.len() as u32 <= self.slots, "pages in slots that were not reserved");
        let header = match &ahead {
            Some(ahead) => ahead.header,
            None => self.begin(transaction.page_bytes)?,
        };
        let ahead_numbers = ahead.as_ref().map_or(&[][..], |ahead| ahead.page_numbers);
        let behind_slots = self.frames + (slots.len() + ahead_numbers.len()) as u32;
        let appended = appended_frames(transaction);
        let end = behind_slots + appended as u32;
        if let Some(ahead) = &ahead {
            self.file.note_written(ahead.written, ahead.unsynced);
        }
        let end_offset = header.frame_offset(end);
        if durability == Durability::Buffered || end_offset > self.file.allocated() + LARGE_BYTES {
            self.file.reserve_whole(end_offset)?;
        } else {
            self.file.reserve(end_offset)?;
        }
        let mut checksum = match &ahead {
            Some(ahead) => ahead.checksum,
            None => self.close_slots(&header, transaction)?,
        };
        let alone =
            appended <= PAGES_PER_WRITE && !self.file.is_unsynced() && durability == Durability::Durable;
        for first in (0..appended).step_by(PAGES_PER_WRITE) {
            let part = first..appended.min(first + PAGES_PER_WRITE);
            self.fill(&header, transaction, part, &mut checksum, copy)?;
            let offset = header.frame_offset(behind_slots + first as u32);
            self.write(offset, alone).inspect_err(|_| self.disown(&header))?;
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
        if durability == Durability::Durable {
            self.synced = end;
        }
        self.slots = 0;
        self.checksum = checksum;
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
        let mut checksum = self.checksum;
        let appended = appended_frames(transaction);
        for first in (0..appended).step_by(PAGES_PER_WRITE) {
            let part = first..appended.min(first + PAGES_PER_WRITE);
            self.fill(&header, transaction, part, &mut checksum, copy)?;
        }
        Ok((self.frames + appended as u32, checksum.words()))
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

    /// Writes the frame headers of the slots; returns the checksum behind them.
    fn close_slots(&mut self, header: &Header, transaction: &Transaction<'_>) -> Result<Checksum> {
        let mut checksum = self.checksum;
        let Some(file) = self.file.opened().cloned().filter(|_| !transaction.slots.is_empty()) else {
            return Ok(checksum);
        };
        self.file.check()?;
        let step = header.step();
        let behind = appended_frames(transaction);
        for (index, (page_number, sum)) in transaction.slots.iter().enumerate() {
            let last = behind == 0 && index + 1 == transaction.slots.len();
            let size = if last { transaction.database_pages } else { 0 };
            let (head, next) = header.encode_frame_of_sum(checksum, *page_number, size, step, *sum);
            file.write_at(&head, header.frame_offset(self.frames + index as u32))?;
            checksum = next;
        }
        self.file.mark_unsynced();
        Ok(checksum)
    }

    /// Makes the frames of a part of a transaction in the buffer: those with its early pages, then those of its pages.
    fn fill(
        &mut self,
        header: &Header,
        transaction: &Transaction<'_>,
        part: Range<usize>,
        checksum: &mut Checksum,
        copy: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.buffer.resize(part.len() * header.frame_bytes(), 0);
        let appended = appended_frames(transaction);
        let with_early = appended - transaction.page_numbers.len();
        for (index, frame) in part.zip(self.buffer.chunks_exact_mut(header.frame_bytes())) {
            let (head, page) = frame.split_at_mut(FRAME_HEADER_BYTES);
            let number = match index.checked_sub(with_early) {
                Some(index) => {
                    copy(index, page)?;
                    transaction.page_numbers[index]
                }
                None => {
                    early::encode(transaction.early, index, page);
                    EARLY_PAGES
                }
            };
            let size = if index + 1 == appended { transaction.database_pages } else { 0 };
            let encoded = header.encode_frame(*checksum, number, size, page);
            head.copy_from_slice(&encoded.0);
            *checksum = encoded.1;
        }
        Ok(())
    }

    /// Writes the buffer, durably or not.
    fn write(&mut self, offset: u64, durable: bool) -> Result<()> {
        if durable {
            self.file.write_durably(&self.buffer, offset)
        } else {
            self.file.write_later(&self.buffer, offset)
        }
    }
}

/// Frames of a transaction that are appended: all that are not in slots.
fn appended_frames(transaction: &Transaction<'_>) -> usize {
    early_frames(transaction.early.len(), transaction.page_bytes) + transaction.page_numbers.len()
}
