//! Reading, writing and cutting a file whose chunks are in two places.

use super::devices::{Barrier, Devices, offset_of};
use super::format::{CHUNK_BYTES, HEADER_BYTES, STAMP_AT, TierStamp, slot_at};
use super::policy::{Advice, Policy};
use super::slots::Slots;
use super::statistics::Statistics;
use litefoot_storage::file::{DeviceError, Operation, Result, Stamp};
use litefoot_storage::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Everything about an open pair. One thread at a time changes it; many read.
pub(super) struct TierState {
    pub devices: Devices,
    /// `None` while everything is home.
    pub away: Option<Away>,
    /// True while no chunk leaves by itself.
    pub stays: bool,
    /// True while the device is given back, and the file is others' as well: nothing here counts.
    pub lent: bool,
    /// True once the device was given back for good.
    pub closed: bool,
    /// Length of the file. The flash file has it too.
    pub len: u64,
    /// The number of the stamp on the device, while nothing was written since.
    pub stamp: Option<u64>,
    /// The slot of each chunk that is away.
    pub map: HashMap<u32, u32>,
    /// Chunk 0 while it is away: a device that fails shall not take with it what every reader begins with.
    pub first: Option<Box<[u8; CHUNK_BYTES]>>,
    pub slots: Slots,
    /// Slots that a chunk has left for another one since entries were written last.
    pub changed: HashSet<u32>,
    /// Under a lock of its own, which nobody holds over reading or writing: commits are told to it while this state is busy.
    pub policy: Arc<Mutex<Policy>>,
    /// Chunks that may be away: some slots stay free.
    pub capacity: usize,
    /// The highest of an entry.
    pub generation: u64,
    /// Entries of a lower generation are void.
    pub first_generation: u64,
    pub wear_gap: u64,
    /// True if something was written since the last sync.
    pub flash_dirty: bool,
    pub tier_dirty: bool,
    /// True if the current transaction has written.
    pub wrote: bool,
    /// The chunk of which the current transaction has just written a part to flash. The other part goes there, too: a chunk
    /// that moved now would be written to flash all the same, and once more when it comes home. Pages come in order, so
    /// the last one is all there is to know.
    pub partly_on_flash: Option<u32>,
    /// The figures since the file was opened; those of the present state are filled in on request.
    pub counters: Statistics,
}

/// The pairing of a file that has chunks away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Away {
    pub pairing: u64,
    pub session: u64,
}

impl TierState {
    /// Length of the file.
    pub fn len(&self) -> Result<u64> {
        if self.lent { self.devices.flash.len() } else { Ok(self.len) }
    }

    /// Reads until the buffer is full or the file ends.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if self.lent {
            return self.devices.flash.read_at(buf, offset);
        }
        let end = self.len.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        let count = (end - offset) as usize;
        let mut at = offset;
        while at < end {
            let slot = self.slot_of(at);
            let mut stop = next_chunk(at).min(end);
            // Neighbours on flash are read together.
            while slot.is_none() && stop < end && self.slot_of(stop).is_none() {
                stop = next_chunk(stop).min(end);
            }
            let part = &mut buf[(at - offset) as usize..(stop - offset) as usize];
            match (slot, &self.first) {
                (Some(_), Some(first)) if at < CHUNK_BYTES as u64 => {
                    part.copy_from_slice(&first[at as usize..stop as usize]);
                }
                (Some(slot), _) => {
                    self.devices.read_tier(part, self.slot_at(slot) + at % CHUNK_BYTES as u64)?
                }
                (None, _) => {
                    let read = self.devices.flash.read_at(part, at)?;
                    part[read..].fill(0);
                }
            }
            at = stop;
        }
        Ok(count)
    }

    fn slot_of(&self, offset: u64) -> Option<u32> {
        self.map.get(&u32::try_from(offset / CHUNK_BYTES as u64).ok()?).copied()
    }

    /// The offset of a slot's bytes.
    pub fn slot_at(&self, slot: u32) -> u64 {
        slot_at(self.slots.len(), slot)
    }

    /// Writes, and moves chunks where the policy says so.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.devices.check()?;
        if self.lent {
            self.counters.flash_write(bytes.len());
            return self.devices.flash.write_at(bytes, offset);
        }
        self.unstamp()?;
        let end = offset + bytes.len() as u64;
        // Neighbours that stay on flash are written together.
        let mut on_flash = offset..offset;
        let mut at = offset;
        while at < end {
            let chunk = self.chunk_at(at)?;
            let stop = next_chunk(at).min(end);
            let part = &bytes[(at - offset) as usize..(stop - offset) as usize];
            let advice = self.policy.lock().write(chunk);
            let moves = advice == Advice::Move
                && (self.away.is_some() || !self.stays)
                && self.partly_on_flash != Some(chunk)
                && offset_of(chunk) < self.len
                && self.len >= CHUNK_BYTES as u64;
            if moves || self.map.contains_key(&chunk) {
                self.write_flash(bytes, offset, &mut on_flash)?;
                let moved =
                    self.map.contains_key(&chunk) || self.take_in(chunk, part.len() == CHUNK_BYTES)?;
                if moved {
                    self.write_slot(chunk, at, part)?;
                    on_flash = stop..stop;
                }
            }
            if on_flash.start < stop {
                on_flash.end = stop;
                if part.len() < CHUNK_BYTES {
                    self.partly_on_flash = Some(chunk);
                }
            }
            at = stop;
        }
        self.write_flash(bytes, offset, &mut on_flash)?;
        self.wrote |= !bytes.is_empty();
        Ok(())
    }

    /// Writes the part of `bytes`, which begin at `offset`, that is for flash, and empties the range.
    fn write_flash(&mut self, bytes: &[u8], offset: u64, range: &mut Range<u64>) -> Result<()> {
        if !range.is_empty() {
            let part = &bytes[(range.start - offset) as usize..(range.end - offset) as usize];
            self.flash_dirty = true;
            self.devices.flash.write_at(part, range.start)?;
            self.len = self.len.max(range.end);
            self.counters.flash_write(part.len());
            range.start = range.end;
        }
        Ok(())
    }

    /// Writes a part of a chunk that is away.
    fn write_slot(&mut self, chunk: u32, offset: u64, part: &[u8]) -> Result<()> {
        self.level_wear(chunk)?;
        let Some(slot) = self.map.get(&chunk).copied() else { return Ok(()) };
        let end = offset + part.len() as u64;
        if end > self.len {
            // The space must be there when the chunk comes home.
            self.flash_dirty = true;
            self.devices.flash.allocate(end)?;
            self.len = end;
        }
        self.tier_dirty = true;
        self.devices.write_tier(part, self.slot_at(slot) + offset % CHUNK_BYTES as u64)?;
        if let (0, Some(first)) = (chunk, &mut self.first) {
            first[offset as usize..end as usize].copy_from_slice(part);
        }
        self.slots.wrote(slot);
        self.counters.tier_write(part.len());
        Ok(())
    }

    /// Makes everything durable; a write transaction ends with it.
    pub fn sync(&mut self) -> Result<()> {
        self.devices.check()?;
        if self.lent {
            return self.devices.sync_flash(Barrier::Lent);
        }
        self.settle()?;
        self.partly_on_flash = None;
        if std::mem::take(&mut self.wrote) {
            self.policy.lock().end_transaction();
        }
        Ok(())
    }

    /// Makes everything durable, and gives the file a stamp that no write leaves. Chunks come and go without the file's being
    /// another one, and a mark is written by each opening: while chunks are away the device has the stamp, and not flash's time.
    pub fn set_stamp(&mut self) -> Result<Stamp> {
        self.sync()?;
        let Some(away) = self.away else {
            let stamp = self.devices.set_stamp_of_flash()?;
            return Ok(Stamp { len: self.len()?, ..stamp });
        };
        let stamp = TierStamp { pairing: away.pairing, number: fastrand::u64(1..=MOST_STAMP) };
        self.devices.write_tier(&stamp.encode(), STAMP_AT)?;
        self.devices.sync_tier(Barrier::Stamped)?;
        self.stamp = Some(stamp.number);
        self.stamp()
    }

    /// The stamp of the file as it is.
    pub fn stamp(&self) -> Result<Stamp> {
        let len = self.len()?;
        match self.away {
            Some(_) => Ok(Stamp { len, modified: self.stamp.unwrap_or(0).into() }),
            None => Ok(Stamp { len, ..self.devices.flash.stamp()? }),
        }
    }

    /// The file is about to become another one than its stamp tells.
    fn unstamp(&mut self) -> Result<()> {
        if self.stamp.take().is_none() {
            return Ok(());
        }
        self.devices.write_tier(&[0; HEADER_BYTES], STAMP_AT)?;
        self.devices.sync_tier(Barrier::Unstamped)
    }

    /// Cuts or extends the file.
    pub fn set_len(&mut self, len: u64) -> Result<()> {
        self.devices.check()?;
        if self.lent {
            return self.devices.flash.set_len(len);
        }
        self.unstamp()?;
        if len < self.len {
            return self.cut(len);
        }
        self.flash_dirty = true;
        self.devices.flash.set_len(len)?;
        self.len = len;
        Ok(())
    }

    /// Reserves space.
    pub fn allocate(&mut self, len: u64) -> Result<()> {
        self.devices.check()?;
        if self.lent {
            return self.devices.flash.allocate(len);
        }
        self.unstamp()?;
        self.flash_dirty = true;
        self.devices.flash.allocate(len)?;
        self.len = self.len.max(len);
        Ok(())
    }

    fn cut(&mut self, len: u64) -> Result<()> {
        if self.away.is_some() && len < CHUNK_BYTES as u64 {
            self.drain()?;
        }
        // The chunk in which the file will end, and those behind it.
        let first = self.chunk_at(len)?;
        let affected: Vec<u32> = self.map.keys().copied().filter(|chunk| *chunk >= first).collect();
        self.flash_dirty = true;
        self.devices.flash.set_len(len)?;
        self.len = len;
        if self.away.is_some() && !(affected.is_empty() && self.slots.is_settled()) {
            // Before the slot's bytes and the entries: the cut may not survive. After it: old bytes would be back
            // once the file has grown again.
            self.devices.sync_flash(Barrier::Cut)?;
            for chunk in affected {
                let keep = len.saturating_sub(offset_of(chunk)) as usize;
                let Some(slot) = self.map.get(&chunk).copied() else { continue };
                if keep > 0 {
                    self.tier_dirty = true;
                    let zeros = vec![0; CHUNK_BYTES - keep];
                    self.devices.write_tier(&zeros, self.slot_at(slot) + keep as u64)?;
                    self.slots.wrote(slot);
                } else {
                    self.forget(chunk);
                }
            }
            self.settle()?;
        }
        let behind = len.div_ceil(CHUNK_BYTES as u64);
        self.policy.lock().cut(u32::try_from(behind).unwrap_or(u32::MAX));
        Ok(())
    }

    /// A chunk is no longer in its slot.
    pub fn forget(&mut self, chunk: u32) {
        if let Some(slot) = self.map.remove(&chunk) {
            self.slots.vacate(slot);
            self.policy.lock().left(chunk);
        }
    }

    fn chunk_at(&self, offset: u64) -> Result<u32> {
        u32::try_from(offset / CHUNK_BYTES as u64).map_err(|_| {
            DeviceError::new(Operation::Write, self.devices.flash.path(), io::ErrorKind::FileTooLarge.into())
        })
    }
}

/// The largest number of a stamp: a log has it in the place of nanoseconds since the epoch.
const MOST_STAMP: u64 = i64::MAX as u64;

/// The beginning of the next chunk.
fn next_chunk(offset: u64) -> u64 {
    (offset / CHUNK_BYTES as u64 + 1) * CHUNK_BYTES as u64
}
