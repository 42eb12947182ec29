//! The bytes of SQLite's log, by frame: where each page of it is.
//!
//! Headers are in memory. A page is
//! - in memory, as long as the log may have some ([`MemoryReservation`]);
//! - in the database file or in the redo log, where it was written ahead of its commit (see `large`);
//! - in a nameless file, where it may be in none of them.
//!
//! # Invariants
//! 1. SQLite reads what it wrote, as long as it may still ask: a page in the database file is read there until the log
//!    begins anew, and SQLite writes a newer version there only when nobody reads this one any more. The redo log begins
//!    anew when SQLite's log does.
//! 2. `in_memory` frames have their page in memory, `closed_in_memory` of them before `closed`; and `spilled` in the nameless
//!    file, which is gone with the last.

use crate::error::{Error, Result, check_reserve};
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::{MakeSpill, Spill};
use crate::txn::spiller::Bytes;
use litefoot_storage::file::{self, File};
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES};
use std::sync::Arc;

/// Pages that the transaction under way may have in memory, however little there is.
pub const FEWEST_PAGES: usize = 8;

/// The bytes of the log.
pub struct Store {
    head: [u8; HEADER_BYTES],
    page_bytes: usize,
    slots: Vec<FrameSlot>,
    /// Bytes that SQLite sees.
    len: usize,
    in_memory: usize,
    /// Frames of finished transactions, and how many of them are in memory.
    closed: usize,
    closed_in_memory: usize,
    /// Frames behind those that were written, some of them twice.
    touched: Vec<usize>,
    spilled: usize,
    /// Pages that somebody still has who writes them away, and that were changed since.
    copies: usize,
    /// Bytes that are known of pages that are elsewhere.
    known: usize,
    /// Bytes that are kept for the next log.
    kept: usize,
    reservation: MemoryReservation,
    spill: Spill,
    /// The redo log, where pages are in it.
    log: Option<Arc<dyn File>>,
}

/// A frame.
struct FrameSlot {
    header: [u8; FRAME_HEADER_BYTES],
    place: FramePlace,
}

/// Where a frame's page is.
enum FramePlace {
    /// Nowhere: it was not written.
    Nothing,
    Memory(Bytes),
    /// Where it was written ahead of its commit.
    Spilled(Spilled),
    /// In the nameless file, at the frame's number.
    Spill,
}

/// Where a page is that was written ahead of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spilled {
    /// In the database file, as the page of this number.
    Database(u32),
    /// In the redo log, at this offset.
    Log(u64),
}

/// What lies at an offset.
enum Part {
    Head(usize),
    Header(usize, usize),
    Page(usize, usize),
}

impl Store {
    /// Nothing yet; `kept` bytes of memory may stay from one log to the next.
    pub fn new(reservation: MemoryReservation, kept: usize, make_spill: MakeSpill) -> Store {
        Store {
            head: [0; HEADER_BYTES],
            page_bytes: 0,
            slots: Vec::new(),
            len: 0,
            in_memory: 0,
            closed: 0,
            closed_in_memory: 0,
            touched: Vec::new(),
            spilled: 0,
            copies: 0,
            known: 0,
            kept,
            reservation,
            spill: Spill::new(make_spill),
            log: None,
        }
    }

    /// Length in bytes, as SQLite sees it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of a page; 0 before there is a header.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        (self.in_memory + self.copies) * self.page_bytes + self.fixed_bytes()
    }

    /// Bytes of memory that it takes wherever its pages are.
    fn fixed_bytes(&self) -> usize {
        self.slots.len() * size_of::<FrameSlot>() + self.known
    }

    /// Bytes of memory that it may have.
    fn most_bytes(&self) -> usize {
        self.reservation.most().max(1)
    }

    /// Pages in memory that are not of finished transactions. What was written before, and is not part of the log any more,
    /// is among them.
    pub fn open_pages(&self) -> usize {
        self.in_memory - self.closed_in_memory
    }

    /// Bytes of memory for pages of the transaction under way, and how many there may be.
    pub fn open_bytes(&self) -> (usize, usize) {
        let closed = self.closed_in_memory * self.page_bytes;
        let most = self.most_bytes().saturating_sub(closed + self.fixed_bytes());
        ((self.open_pages() + self.copies) * self.page_bytes, most.max(FEWEST_PAGES * self.page_bytes))
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

    /// Frames up to this one are of finished transactions: what they have beyond the memory that there is leaves it.
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
            // Where that fails, they stay.
            if !grows || self.memory_bytes() <= self.most_bytes() || self.spill_page(number).is_err() {
                break;
            }
        }
    }

    /// Whether there is memory for one page more of the transaction under way.
    pub fn has_room(&self) -> bool {
        self.has_memory() || self.open_pages() < FEWEST_PAGES
    }

    fn has_memory(&self) -> bool {
        self.memory_bytes() + self.page_bytes <= self.most_bytes()
    }

    /// The header of the log.
    pub fn head(&self) -> &[u8; HEADER_BYTES] {
        &self.head
    }

    /// A frame's page, where it is in memory.
    pub fn page_in_memory(&self, number: usize) -> Option<&Bytes> {
        match self.slots.get(number) {
            Some(FrameSlot { place: FramePlace::Memory(bytes), .. }) => Some(bytes),
            _ => None,
        }
    }

    /// Where a frame's page is that was written early.
    pub fn away(&self, number: usize) -> Option<Spilled> {
        match self.slots.get(number) {
            Some(FrameSlot { place: FramePlace::Spilled(away), .. }) => Some(*away),
            _ => None,
        }
    }

    /// Where a frame lies.
    pub fn offset_of(&self, number: usize) -> usize {
        HEADER_BYTES + number * (FRAME_HEADER_BYTES + self.page_bytes)
    }

    /// The frame that an offset lies in, and how far inside it.
    pub fn frame_at(&self, offset: usize) -> Option<(usize, usize)> {
        let behind_header = offset.checked_sub(HEADER_BYTES)?;
        let frame_bytes = FRAME_HEADER_BYTES + self.page_bytes;
        (self.page_bytes > 0).then(|| (behind_header / frame_bytes, behind_header % frame_bytes))
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
                Some(Part::Head(at)) => buf.copy_from_slice(&self.head[at..at + buf.len()]),
                Some(Part::Header(number, at)) => match self.slots.get(number) {
                    Some(slot) => buf.copy_from_slice(&slot.header[at..at + buf.len()]),
                    None => buf.fill(0),
                },
                Some(Part::Page(number, at)) => self.read_page(number, at, buf, data)?,
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
        let read = match (self.slots.get(number).map(|slot| &slot.place), self.spill.existing()) {
            (Some(FramePlace::Memory(bytes)), _) => {
                buf.copy_from_slice(&bytes[inside..inside + buf.len()]);
                buf.len()
            }
            (Some(FramePlace::Spilled(Spilled::Database(page))), _) => {
                data.read_at(buf, (u64::from(*page) - 1) * self.page_bytes as u64 + inside as u64)?
            }
            (Some(FramePlace::Spilled(Spilled::Log(offset))), _) => match &self.log {
                Some(log) => log.read_at(buf, offset + inside as u64)?,
                None => 0,
            },
            (Some(FramePlace::Spill), Some(spill)) => {
                spill.read_at(buf, (number * self.page_bytes + inside) as u64)?
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
                Some(Part::Head(at)) => self.write_head(buf, at),
                Some(Part::Header(number, at)) => {
                    self.slot(number).header[at..at + buf.len()].copy_from_slice(buf);
                }
                Some(Part::Page(number, 0)) if buf.len() == self.page_bytes => self.put(number, buf)?,
                Some(Part::Page(number, at)) => {
                    let mut page = vec![0; self.page_bytes];
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

    fn write_head(&mut self, buf: &[u8], at: usize) {
        self.head[at..at + buf.len()].copy_from_slice(buf);
        let page_bytes = page_bytes_of(&self.head);
        if page_bytes != self.page_bytes {
            self.cut(0);
            self.page_bytes = page_bytes;
        }
    }

    /// Puts a whole page where it can be.
    fn put(&mut self, number: usize, page: &[u8]) -> Result<()> {
        self.touch(number);
        if let Some(FrameSlot { place: FramePlace::Memory(bytes), .. }) = self.slots.get_mut(number) {
            match Arc::get_mut(bytes) {
                Some(bytes) => bytes.copy_from_slice(page),
                None => {
                    *bytes = page.into();
                    self.copies += 1;
                    self.account();
                }
            }
            return Ok(());
        }
        let has_room = if number < self.closed { self.has_memory() } else { self.has_room() };
        let place = &mut self.slot(number).place;
        if !has_room {
            return self.write_spill(number, page);
        }
        let was_spilled = matches!(place, FramePlace::Spill);
        *place = FramePlace::Memory(page.into());
        self.in_memory += 1;
        self.closed_in_memory += usize::from(number < self.closed);
        self.unspill(was_spilled);
        self.account();
        Ok(())
    }

    fn touch(&mut self, number: usize) {
        if number >= self.closed && self.touched.last() != Some(&number) {
            self.touched.push(number);
            if self.touched.len() > 2 * (self.in_memory + FEWEST_PAGES) {
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
        self.spill.file()?.write_at(page, (number * self.page_bytes) as u64)?;
        // One more before one fewer: the file stays.
        self.spilled += 1;
        let place = std::mem::replace(&mut self.slots[number].place, FramePlace::Spill);
        self.leave(number, &place);
        self.account();
        Ok(())
    }

    /// A frame's page was written early.
    pub fn mark_spilled(&mut self, number: usize, away: Spilled) {
        if let Some(slot) = self.slots.get_mut(number) {
            let place = std::mem::replace(&mut slot.place, FramePlace::Spilled(away));
            self.leave(number, &place);
        }
    }

    /// Where the redo log is read.
    pub fn set_log(&mut self, log: Arc<dyn File>) {
        self.log = Some(log);
    }

    /// What was spilled is nobody else's any more.
    pub fn end_copies(&mut self) {
        self.copies = 0;
        self.account();
    }

    /// What is known of pages that are elsewhere takes so many bytes.
    pub fn set_known_bytes(&mut self, bytes: usize) {
        self.known = bytes;
        self.account();
    }

    /// SQLite restarts its log.
    pub fn reset(&mut self) {
        self.log = None;
        self.close(0);
        self.cut(self.kept / self.page_bytes.max(1));
        for number in 0..self.slots.len() {
            if !matches!(self.slots[number].place, FramePlace::Memory(_)) {
                let place = std::mem::replace(&mut self.slots[number].place, FramePlace::Nothing);
                self.leave(number, &place);
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
            self.leave(number, &place);
        }
        self.slots.truncate(frames);
        self.slots.shrink_to(2 * frames);
        self.account();
    }

    /// A page is no longer there.
    fn leave(&mut self, number: usize, place: &FramePlace) {
        if let FramePlace::Memory(_) = place {
            self.in_memory -= 1;
            self.closed_in_memory -= usize::from(number < self.closed);
        }
        self.unspill(matches!(place, FramePlace::Spill));
    }

    fn unspill(&mut self, was_spilled: bool) {
        self.spilled -= usize::from(was_spilled);
        if self.spilled == 0 {
            self.spill.discard();
        }
    }

    fn account(&mut self) {
        let bytes = self.memory_bytes();
        self.reservation.set(bytes);
    }

    /// Makes sure that a write of a frame finds memory for what is known of it.
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

    /// What lies at an offset, and how many bytes of it from there.
    fn part_at(&self, offset: usize) -> (Option<Part>, usize) {
        if offset < HEADER_BYTES {
            return (Some(Part::Head(offset)), HEADER_BYTES - offset);
        }
        match self.frame_at(offset) {
            None => (None, usize::MAX),
            Some((number, inside)) if inside < FRAME_HEADER_BYTES => {
                (Some(Part::Header(number, inside)), FRAME_HEADER_BYTES - inside)
            }
            Some((number, inside)) => {
                let at = inside - FRAME_HEADER_BYTES;
                (Some(Part::Page(number, at)), self.page_bytes - at)
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
pub mod tests {
    use super::*;
    use crate::memory::spill_file::tests::make_spill;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use proptest::prelude::*;
    use std::path::Path;

    const PAGE: usize = 512;
    const FRAME: usize = FRAME_HEADER_BYTES + PAGE;

    /// A log that may have so much memory.
    pub fn store(bytes: usize) -> Store {
        Store::new(MemoryReservation::fixed(bytes), bytes / 2, make_spill())
    }

    fn head() -> [u8; HEADER_BYTES] {
        let mut head = [0; HEADER_BYTES];
        head[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
        head
    }

    #[derive(Clone, Debug)]
    enum Step {
        Frame(usize, u8),
        Bytes(usize, usize, u8),
        /// A page leaves for the database file or the log.
        Leave(usize),
        Cut(usize),
        /// A page is lent, so that who writes it makes a copy.
        Lend(usize),
        Close(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..24_usize, any::<u8>()).prop_map(|(number, byte)| Step::Frame(number, byte)),
            1 => (HEADER_BYTES..24 * FRAME, 1..2 * FRAME, any::<u8>())
                .prop_map(|(offset, len, byte)| Step::Bytes(offset, len, byte)),
            2 => (0..24_usize).prop_map(Step::Leave),
            1 => (HEADER_BYTES..24 * FRAME).prop_map(Step::Cut),
            1 => (0..24_usize).prop_map(Step::Lend),
            1 => (0..24_usize).prop_map(Step::Close),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_wherever_it_is(steps in steps(), budget in 0..16 * FRAME) {
            let medium = SimMedium::new();
            let open = |path: &str, kind| medium.open(Path::new(path), kind, OpenMode::Create).unwrap();
            let (data, log) = (open("/app.db", FileKind::Database), open("/app.db-wal", FileKind::RedoLog));
            let mut store = store(budget);
            store.set_log(log.clone());
            store.write(&head(), 0, &*data).unwrap();
            let mut plain = head().to_vec();
            let mut lent = Vec::new();
            let put = |plain: &mut Vec<u8>, offset: usize, bytes: &[u8]| {
                plain.resize(plain.len().max(offset + bytes.len()), 0);
                plain[offset..offset + bytes.len()].copy_from_slice(bytes);
            };
            for step in steps {
                let mut written = None;
                match step {
                    Step::Frame(number, byte) => {
                        written = Some(number);
                        let offset = HEADER_BYTES + number * FRAME;
                        for (bytes, at) in [
                            (vec![byte; FRAME_HEADER_BYTES], offset),
                            (vec![!byte; PAGE], offset + FRAME_HEADER_BYTES),
                        ] {
                            store.write(&bytes, at, &*data).unwrap();
                            put(&mut plain, at, &bytes);
                        }
                    }
                    Step::Bytes(offset, len, byte) => {
                        store.write(&vec![byte; len], offset, &*data).unwrap();
                        put(&mut plain, offset, &vec![byte; len]);
                    }
                    Step::Leave(number) => {
                        if let Some(bytes) = store.page_in_memory(number) {
                            let page_number = 100 - number as u32;
                            let offset = u64::from(page_number - 1) * PAGE as u64;
                            let away = if number % 2 == 0 {
                                data.write_at(bytes, offset).unwrap();
                                Spilled::Database(page_number)
                            } else {
                                log.write_at(bytes, offset + 7).unwrap();
                                Spilled::Log(offset + 7)
                            };
                            store.mark_spilled(number, away);
                            prop_assert_eq!(store.away(number), Some(away));
                        }
                    }
                    Step::Cut(len) => {
                        store.set_len(len);
                        let frames = (len - HEADER_BYTES) / FRAME;
                        plain.resize(len, 0);
                        // What is behind the end of a frame that was cut is not to be relied upon.
                        let whole = HEADER_BYTES + frames * FRAME;
                        store.set_len(whole.min(len));
                        plain.truncate(whole.min(len));
                    }
                    Step::Close(to) => store.close(to),
                    Step::Lend(number) => lent.extend(store.page_in_memory(number).cloned()),
                }
                let in_memory = |to: usize| (0..to).filter(|number| store.page_in_memory(*number).is_some()).count();
                prop_assert_eq!(store.in_memory, in_memory(store.slots.len()));
                prop_assert_eq!(store.closed_in_memory, in_memory(store.closed));
                let (closed, count) = (store.closed, store.slots.len());
                let open = store.open_frames().to_vec();
                prop_assert!(open.iter().all(|number| (closed..count).contains(number)));
                prop_assert!(written.is_none_or(|n| open.contains(&n) == (store.page_in_memory(n).is_some() && n >= closed)));
                prop_assert_eq!(store.len(), plain.len());
                let mut back = vec![1; plain.len() + 10];
                prop_assert_eq!(store.read(&mut back, 0, &*data).unwrap(), plain.len());
                prop_assert!(back[..plain.len()] == plain[..], "the bytes differ");
            }
            lent.clear();
            store.end_copies();
            let in_pages = store.memory_bytes() - store.slots.len() * size_of::<FrameSlot>();
            prop_assert!(in_pages <= budget + FEWEST_PAGES * PAGE, "{in_pages} of {budget}");
            store.reset();
            prop_assert!(store.memory_bytes() <= budget / 2 + store.slots.len() * size_of::<FrameSlot>());
            prop_assert!(store.spill.existing().is_none());
        }
    }

    #[test]
    fn frames_without_a_header_are_refused() {
        let data = SimMedium::new().open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
        assert!(store(1 << 20).write(&[1; PAGE], HEADER_BYTES, &*data).is_err());
    }
}
