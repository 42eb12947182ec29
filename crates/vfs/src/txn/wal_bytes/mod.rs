//! The bytes of SQLite's log, by frame: the header, and where the page lies.
//!
//! SQLite reads back every frame that it wrote, also a page's older versions. So pages are kept by frame here, and not by
//! number as a rollback-journal transaction's ([`DirtyPages`](crate::txn::dirty_pages::DirtyPages)).
//!
//! Headers are in memory. A page is
//! - in memory, as long as there is some ([`PageMemory`]);
//! - in the database file or in a slot of the redo log, once its transaction has spilled it ([`SpillPlace`]);
//! - in the nameless spill file, if none of these may have it: the page of a finished transaction, or one that could
//!   not be spilled;
//! - freed, once nobody can ask for it (`txn/wal_frames/superseded.rs`).
//!
//! # Invariants
//! 1. SQLite reads what it wrote, as long as it may still ask. To read a freed page is an error. A page in the database file is read there until SQLite
//!    restarts its log. SQLite's checkpoint overwrites it only when no reader needs this version. The redo log is
//!    restarted together with SQLite's log.
//! 2. `memory` counts the frames with their page in memory, `closed_in_memory` those of them before `closed`.
//! 3. `spilled` frames have their page in the spill file, which is discarded with the last. `freed` frames are freed.

use crate::error::{Error, Result, check_reserve};
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::{MakeSpill, Spill};
use crate::txn::page_memory::PageMemory;
use crate::txn::spill_map::SpillPlace;
use crate::txn::spiller::PageBytes;
use litefoot_storage::file::{self, DeviceError, File, Operation};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES};
use std::io;
use std::sync::Arc;

mod freed;

/// Pages that the transaction under way may have in memory, however little there is.
pub const FEWEST_PAGES: usize = 8;
/// Bytes of pages that have left memory, and whose allocations are used again.
const SPARE_BYTES: usize = 256 * 1024;

/// Bytes of SQLite's log.
pub struct WalBytes {
    head: [u8; HEADER_BYTES],
    slots: Vec<FrameSlot>,
    /// Bytes that SQLite sees.
    len: usize,
    memory: PageMemory,
    /// Frames of finished transactions, and how many of them are in memory.
    closed: usize,
    closed_in_memory: usize,
    /// Frames behind those that were written, some of them twice.
    touched: Vec<usize>,
    spilled: usize,
    freed: usize,
    /// Bytes of the spill map.
    map_bytes: usize,
    /// Bytes that are kept for the next log.
    kept: usize,
    /// Pages that have left memory, for the next ones: of [`SPARE_BYTES`] at most, as an allocator would keep them.
    spare: Vec<PageBytes>,
    spill_file: Spill,
    /// The redo log, where pages are in it.
    log: Option<Arc<dyn File>>,
}

/// A frame: its header, and where its page is.
struct FrameSlot {
    header: [u8; FRAME_HEADER_BYTES],
    place: FramePlace,
}

/// Where a frame's page is.
enum FramePlace {
    /// Nowhere: the page was not written.
    Nothing,
    Memory(PageBytes),
    /// Where its transaction has spilled it.
    Spilled(SpillPlace),
    /// In the spill file, at the frame's number.
    SpillFile,
    /// Nobody can ask for it.
    Freed,
}

/// Part of the log at an offset: the header of the log, or a frame's header or page, each with the offset inside it.
enum LogPart {
    Head(usize),
    Header(usize, usize),
    Page(usize, usize),
}

impl WalBytes {
    /// Nothing yet; `kept` bytes of memory may stay from one log to the next.
    pub fn new(reservation: MemoryReservation, kept: usize, make_spill: MakeSpill) -> WalBytes {
        WalBytes {
            head: [0; HEADER_BYTES],
            slots: Vec::new(),
            len: 0,
            memory: PageMemory::new(reservation, 0),
            closed: 0,
            closed_in_memory: 0,
            touched: Vec::new(),
            spilled: 0,
            freed: 0,
            map_bytes: 0,
            kept,
            spare: Vec::new(),
            spill_file: Spill::new(make_spill),
            log: None,
        }
    }

    /// Length in bytes, as SQLite sees it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of a page; 0 before there is a header.
    pub fn page_bytes(&self) -> usize {
        self.memory.page_bytes()
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes() + self.fixed_bytes()
    }

    /// Bytes of memory that the log takes wherever its pages are.
    fn fixed_bytes(&self) -> usize {
        self.slots.len() * size_of::<FrameSlot>() + self.map_bytes
    }

    /// Most bytes of memory that the log may have now.
    fn most_bytes(&self) -> usize {
        self.memory.most_bytes().max(1)
    }

    /// Pages in memory that are not of finished transactions; also those that were rolled back.
    pub fn open_pages(&self) -> usize {
        self.memory.pages() - self.closed_in_memory
    }

    /// Bytes of memory of the transaction under way, and the most that it may have.
    pub fn open_bytes(&self) -> (usize, usize) {
        let closed = self.closed_in_memory * self.page_bytes();
        let most = self.most_bytes().saturating_sub(closed + self.fixed_bytes());
        (
            (self.open_pages() + self.memory.copies()) * self.page_bytes(),
            most.max(FEWEST_PAGES * self.page_bytes()),
        )
    }

    /// The frames of the transaction under way that were written, and whose page is in memory, in order.
    pub fn open_frames(&mut self) -> &[usize] {
        self.touched.sort_unstable();
        self.touched.dedup();
        let (slots, closed) = (&self.slots, self.closed);
        let is_in_memory =
            |number: usize| matches!(slots.get(number), Some(FrameSlot { place: FramePlace::Memory(_), .. }));
        self.touched.retain(|number| *number >= closed && is_in_memory(*number));
        &self.touched
    }

    /// Frames before `to` are of finished transactions. Their pages beyond the limit of memory go to the spill file.
    pub fn close(&mut self, to: usize) {
        let range = self.closed.min(to)..self.closed.max(to).min(self.slots.len());
        let is_in_memory = |number: &usize| matches!(self.slots[*number].place, FramePlace::Memory(_));
        let count = range.clone().filter(is_in_memory).count();
        let grows = to > self.closed;
        if grows {
            self.closed_in_memory += count;
        } else {
            self.closed_in_memory -= count;
        }
        self.closed = to;
        self.touched.clear();
        for number in range {
            // Where that fails, the pages stay in memory.
            if !grows || self.memory_bytes() <= self.most_bytes() || self.spill_page(number).is_err() {
                break;
            }
        }
    }

    /// True where there is memory for one page more of the transaction under way.
    pub fn has_room(&self) -> bool {
        self.has_memory() || self.open_pages() < FEWEST_PAGES
    }

    fn has_memory(&self) -> bool {
        self.memory_bytes() + self.page_bytes() <= self.most_bytes()
    }

    /// The header of the log.
    pub fn head(&self) -> &[u8; HEADER_BYTES] {
        &self.head
    }

    /// A frame's page, where it is in memory.
    pub fn page_in_memory(&self, number: usize) -> Option<&PageBytes> {
        match self.slots.get(number) {
            Some(FrameSlot { place: FramePlace::Memory(bytes), .. }) => Some(bytes),
            _ => None,
        }
    }

    /// The place of a frame's page that was spilled.
    pub fn spill_place(&self, number: usize) -> Option<SpillPlace> {
        match self.slots.get(number) {
            Some(FrameSlot { place: FramePlace::Spilled(away), .. }) => Some(*away),
            _ => None,
        }
    }

    /// The offset of a frame.
    pub fn offset_of(&self, number: usize) -> usize {
        HEADER_BYTES + number * (FRAME_HEADER_BYTES + self.page_bytes())
    }

    /// The frame that an offset lies in, and how far inside it.
    pub fn frame_at(&self, offset: usize) -> Option<(usize, usize)> {
        let behind_header = offset.checked_sub(HEADER_BYTES)?;
        let frame_bytes = FRAME_HEADER_BYTES + self.page_bytes();
        (self.page_bytes() > 0).then(|| (behind_header / frame_bytes, behind_header % frame_bytes))
    }

    /// Reads from `offset` until `buf` is full or the log ends; returns the bytes read. `data` is the database file.
    pub fn read(&self, buf: &mut [u8], offset: usize, data: &dyn File) -> file::Result<usize> {
        let count = buf.len().min(self.len.saturating_sub(offset));
        let mut done = 0;
        while done < count {
            let (part, left) = self.part_at(offset + done);
            let end = count.min(done.saturating_add(left));
            let buf = &mut buf[done..end];
            match part {
                Some(LogPart::Head(at)) => buf.copy_from_slice(&self.head[at..at + buf.len()]),
                Some(LogPart::Header(number, at)) => match self.slots.get(number) {
                    Some(slot) => buf.copy_from_slice(&slot.header[at..at + buf.len()]),
                    None => buf.fill(0),
                },
                Some(LogPart::Page(number, at)) => self.read_page(number, at, buf, data)?,
                None => buf.fill(0),
            }
            done = end;
        }
        Ok(count)
    }

    /// Reads a part of a frame's page.
    pub fn read_page(
        &self,
        number: usize,
        inside: usize,
        buf: &mut [u8],
        data: &dyn File,
    ) -> file::Result<()> {
        if self.is_freed(number) {
            let what =
                format!("frame {} of the write-ahead log, which a newer one has superseded", number + 1);
            return Err(DeviceError::new(Operation::Read, data.path(), io::Error::other(what)));
        }
        let read = match (self.slots.get(number).map(|slot| &slot.place), self.spill_file.existing()) {
            (Some(FramePlace::Memory(bytes)), _) => {
                buf.copy_from_slice(&bytes[inside..inside + buf.len()]);
                buf.len()
            }
            (Some(FramePlace::Spilled(SpillPlace::Database(page))), _) => {
                data.read_at(buf, (u64::from(*page) - 1) * self.page_bytes() as u64 + inside as u64)?
            }
            (Some(FramePlace::Spilled(SpillPlace::Slot(offset))), _) => match &self.log {
                Some(log) => log.read_at(buf, offset + inside as u64)?,
                None => 0,
            },
            (Some(FramePlace::SpillFile), Some(spill)) => {
                spill.read_at(buf, (number * self.page_bytes() + inside) as u64)?
            }
            _ => 0,
        };
        buf[read..].fill(0);
        Ok(())
    }

    /// Takes what SQLite writes.
    pub fn write(&mut self, buf: &[u8], offset: usize, data: &dyn File) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let (part, left) = self.part_at(offset + done);
            let end = buf.len().min(done.saturating_add(left));
            let buf = &buf[done..end];
            match part {
                Some(LogPart::Head(at)) => self.write_head(buf, at),
                Some(LogPart::Header(number, at)) => {
                    self.slot(number).header[at..at + buf.len()].copy_from_slice(buf);
                }
                Some(LogPart::Page(number, 0)) if buf.len() == self.page_bytes() => self.put(number, buf)?,
                Some(LogPart::Page(number, at)) => {
                    let mut page = vec![0; self.page_bytes()];
                    self.read_page(number, 0, &mut page, data)?;
                    page[at..at + buf.len()].copy_from_slice(buf);
                    self.put(number, &page)?;
                }
                None => return Err(Error::Io("frames without the header of a log".to_owned())),
            }
            done = end;
        }
        self.len = self.len.max(offset + buf.len());
        Ok(())
    }

    /// Takes the header of a frame.
    pub fn write_header(&mut self, number: usize, header: &[u8; FRAME_HEADER_BYTES]) {
        self.slot(number).header = *header;
        self.len = self.len.max(self.offset_of(number) + FRAME_HEADER_BYTES);
    }

    fn write_head(&mut self, buf: &[u8], at: usize) {
        self.head[at..at + buf.len()].copy_from_slice(buf);
        let page_bytes = page_bytes_of(&self.head);
        if page_bytes != self.page_bytes() {
            self.cut(0);
            self.memory.set_page_bytes(page_bytes);
        }
    }

    /// Puts a whole page where it can be.
    fn put(&mut self, number: usize, page: &[u8]) -> Result<()> {
        self.touch(number);
        if let Some(FrameSlot { place: FramePlace::Memory(bytes), .. }) = self.slots.get_mut(number) {
            if self.memory.replace(bytes, page) {
                self.account();
            }
            return Ok(());
        }
        let has_room = if number < self.closed { self.has_memory() } else { self.has_room() };
        self.slot(number);
        if !has_room {
            return self.write_spill(number, page);
        }
        let page = FramePlace::Memory(self.page_of(page));
        let before = std::mem::replace(&mut self.slot(number).place, page);
        self.memory.add_page();
        self.closed_in_memory += usize::from(number < self.closed);
        self.leave(number, before);
        self.account();
        Ok(())
    }

    fn touch(&mut self, number: usize) {
        if number >= self.closed && self.touched.last() != Some(&number) {
            self.touched.push(number);
            if self.touched.len() > 2 * (self.memory.pages() + FEWEST_PAGES) {
                self.open_frames();
            }
        }
    }

    fn spill_page(&mut self, number: usize) -> Result<()> {
        match self.page_in_memory(number).cloned() {
            Some(page) => self.write_spill(number, &page),
            None => Ok(()),
        }
    }

    fn write_spill(&mut self, number: usize, page: &[u8]) -> Result<()> {
        let offset = (number * self.page_bytes()) as u64;
        self.spill_file.file()?.write_at(page, offset)?;
        // One more before one fewer: the file stays.
        self.spilled += 1;
        let place = std::mem::replace(&mut self.slots[number].place, FramePlace::SpillFile);
        self.leave(number, place);
        self.account();
        Ok(())
    }

    /// A frame's page was spilled to a place.
    pub fn mark_spilled(&mut self, number: usize, place: SpillPlace) {
        if let Some(slot) = self.slots.get_mut(number) {
            let before = std::mem::replace(&mut slot.place, FramePlace::Spilled(place));
            self.leave(number, before);
        }
    }

    /// Sets the redo log's file, where pages in slots are read.
    pub fn set_log(&mut self, log: Arc<dyn File>) {
        self.log = Some(log);
    }

    /// The spill under way has ended: only the log has its pages.
    pub fn end_copies(&mut self) {
        self.memory.end_copies();
        self.account();
    }

    /// The spill map takes so many bytes of memory.
    pub fn set_map_bytes(&mut self, bytes: usize) {
        self.map_bytes = bytes;
        self.account();
    }

    /// SQLite restarts its log.
    pub fn reset(&mut self) {
        self.log = None;
        self.close(0);
        self.cut(self.kept / self.page_bytes().max(1));
        for number in 0..self.slots.len() {
            if !matches!(self.slots[number].place, FramePlace::Memory(_)) {
                let place = std::mem::replace(&mut self.slots[number].place, FramePlace::Nothing);
                self.leave(number, place);
            }
        }
    }

    /// Cuts the log, or extends it with zeros.
    pub fn set_len(&mut self, len: usize) {
        if len < self.len {
            let (frames, inside) = self.frame_at(len).unwrap_or_default();
            self.cut(frames + usize::from(inside > 0));
        }
        self.len = len;
    }

    /// Forgets the frames from a number on, and gives their memory back.
    fn cut(&mut self, frames: usize) {
        for number in frames..self.slots.len() {
            let place = std::mem::replace(&mut self.slots[number].place, FramePlace::Nothing);
            self.leave(number, place);
        }
        self.slots.truncate(frames);
        self.slots.shrink_to(2 * frames);
        self.account();
    }

    /// A page is no longer there.
    fn leave(&mut self, number: usize, place: FramePlace) {
        self.freed -= usize::from(matches!(place, FramePlace::Freed));
        let was_spilled = matches!(place, FramePlace::SpillFile);
        if let FramePlace::Memory(page) = place {
            self.memory.remove_pages(1);
            self.closed_in_memory -= usize::from(number < self.closed);
            if (self.spare.len() + 1) * page.len() <= SPARE_BYTES {
                self.spare.push(page);
            }
        }
        self.unspill(was_spilled);
    }

    fn unspill(&mut self, was_spilled: bool) {
        self.spilled -= usize::from(was_spilled);
        if self.spilled == 0 {
            self.spill_file.discard();
        }
    }

    fn account(&mut self) {
        self.memory.reserve(self.fixed_bytes());
    }

    /// Makes sure that a write of a frame finds memory for its header.
    pub fn reserve(&mut self, number: usize) -> Result<()> {
        check_reserve()?;
        self.slots.try_reserve((number + 1).saturating_sub(self.slots.len()))?;
        Ok(self.touched.try_reserve(1)?)
    }

    fn slot(&mut self, number: usize) -> &mut FrameSlot {
        while self.slots.len() <= number {
            self.slots.push(FrameSlot { header: [0; FRAME_HEADER_BYTES], place: FramePlace::Nothing });
        }
        &mut self.slots[number]
    }

    /// The part of the log at an offset, and its bytes from there on.
    fn part_at(&self, offset: usize) -> (Option<LogPart>, usize) {
        if offset < HEADER_BYTES {
            return (Some(LogPart::Head(offset)), HEADER_BYTES - offset);
        }
        match self.frame_at(offset) {
            None => (None, usize::MAX),
            Some((number, inside)) if inside < FRAME_HEADER_BYTES => {
                (Some(LogPart::Header(number, inside)), FRAME_HEADER_BYTES - inside)
            }
            Some((number, inside)) => {
                let at = inside - FRAME_HEADER_BYTES;
                (Some(LogPart::Page(number, at)), self.page_bytes() - at)
            }
        }
    }
}

/// Bytes of a page, as the header of a log says; 0 where it does not, or says what none can have.
pub fn page_bytes_of(header: &[u8]) -> usize {
    let bytes = if header.len() < HEADER_BYTES {
        0
    } else {
        u32::from_be_bytes([header[8], header[9], header[10], header[11]])
    };
    if bytes.is_power_of_two() && (512..=65536).contains(&bytes) { bytes as usize } else { 0 }
}

#[cfg(test)]
pub mod tests;
