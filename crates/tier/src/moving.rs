//! Chunks that leave, move between slots, settle and come home. The order of all syncs is in the module's header.

use super::devices::{Barrier, offset_of};
use super::format::{CHUNK_BYTES, ENTRY_BYTES, Entry, Header, HeaderState, Mark, entry_at};
use super::state::{Away, TierState};
use litefoot_storage::file::Result;

impl TierState {
    /// Takes a chunk to the tier, if there can be room. The caller writes it next: where that is the whole of it,
    /// nothing is read from flash.
    pub fn take_in(&mut self, chunk: u32, whole: bool) -> Result<bool> {
        self.leave()?;
        if chunk == 0 {
            return Ok(true);
        }
        while self.map.len() >= self.capacity {
            let victim = self.policy.lock().victim();
            let Some(victim) = victim else { return Ok(false) };
            self.send_home(victim)?;
        }
        if !self.slots.has_free() {
            self.settle()?;
        }
        // Before a slot is taken: what is taken is entered.
        let bytes = if whole { None } else { Some(self.devices.read_flash_chunk(chunk)?) };
        let Some(slot) = self.slots.take(chunk) else { return Ok(false) };
        if let Some(bytes) = bytes {
            self.fill(slot, &bytes)?;
        }
        self.map.insert(chunk, slot);
        self.policy.lock().arrived(chunk);
        self.counters.moved_in += 1;
        Ok(true)
    }

    /// Writes all of a slot.
    fn fill(&mut self, slot: u32, bytes: &[u8]) -> Result<()> {
        self.tier_dirty = true;
        self.devices.write_tier(bytes, self.slot_at(slot))?;
        self.slots.wrote(slot);
        self.counters.tier_write(bytes.len());
        Ok(())
    }

    fn read_slot(&self, slot: u32) -> Result<[u8; CHUNK_BYTES]> {
        let mut bytes = [0; CHUNK_BYTES];
        self.devices.read_tier(&mut bytes, self.slot_at(slot))?;
        Ok(bytes)
    }

    /// Writes a chunk to flash, from byte `from` on, and not behind the end of the file.
    fn write_home(&mut self, chunk: u32, bytes: &[u8], from: usize) -> Result<()> {
        let end = self.len.saturating_sub(offset_of(chunk)).min(CHUNK_BYTES as u64) as usize;
        if from < end {
            self.flash_dirty = true;
            self.devices.flash.write_at(&bytes[from..end], offset_of(chunk) + from as u64)?;
            self.counters.flash_write(end - from);
        }
        Ok(())
    }

    fn send_home(&mut self, chunk: u32) -> Result<()> {
        let Some(slot) = self.map.get(&chunk).copied() else { return Ok(()) };
        let bytes = self.read_slot(slot)?;
        self.write_home(chunk, &bytes, 0)?;
        self.forget(chunk);
        self.counters.moved_home += 1;
        Ok(())
    }

    /// Wear levelling: a chunk that is written often changes to a slot that was written less. A chunk that is not
    /// written leaves a slot that was written least.
    pub fn level_wear(&mut self, chunk: u32) -> Result<()> {
        let Some(slot) = self.map.get(&chunk).copied() else { return Ok(()) };
        let writes = self.slots.writes(slot);
        if writes == 0 || !writes.is_multiple_of(self.wear_gap) {
            return Ok(());
        }
        let ahead = |of: u64| of + self.wear_gap <= writes;
        if self.slots.least_free_writes().is_some_and(ahead) {
            return self.change_slot(chunk, slot);
        }
        match self.slots.least_written_in_use() {
            Some((least, idle_slot, idle)) if ahead(least) && self.slots.has_free() => {
                self.change_slot(idle, idle_slot)
            }
            _ => Ok(()),
        }
    }

    fn change_slot(&mut self, chunk: u32, from: u32) -> Result<()> {
        let bytes = self.read_slot(from)?;
        let Some(to) = self.slots.take(chunk) else { return Ok(()) };
        self.fill(to, &bytes)?;
        self.map.insert(chunk, to);
        self.slots.vacate(from);
        self.changed.insert(from);
        self.counters.changed_slot += 1;
        Ok(())
    }

    /// Makes everything durable that was written, and tells the device where chunks are.
    pub fn settle(&mut self) -> Result<()> {
        if self.flash_dirty {
            self.devices.sync_flash(Barrier::Home)?;
            self.flash_dirty = false;
        }
        let unsettled = self.slots.unsettled();
        if self.tier_dirty {
            // Without entries to follow, this is all there is.
            self.devices.sync_tier(Barrier::Filled)?;
            self.tier_dirty = false;
        }
        // Flash has nothing of a chunk that went from slot to slot: the new entry first.
        let changed = std::mem::take(&mut self.changed);
        let is_after = |slot: &u32| self.slots.chunk_in(*slot).is_none() && changed.contains(slot);
        let (after, now): (Vec<u32>, Vec<u32>) = unsettled.into_iter().partition(is_after);
        self.enter(now, if after.is_empty() { Barrier::Entered } else { Barrier::Changed })?;
        self.enter(after, Barrier::Entered)
    }

    /// Writes entries, durably.
    fn enter(&mut self, slots: Vec<u32>, barrier: Barrier) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        for slot in &slots {
            self.write_entry(*slot)?;
        }
        self.devices.sync_tier(barrier)?;
        slots.into_iter().for_each(|slot| self.slots.settle(slot));
        Ok(())
    }

    fn write_entry(&mut self, slot: u32) -> Result<()> {
        self.generation += 1;
        let entry = Entry {
            chunk: self.slots.chunk_in(slot),
            generation: self.generation,
            writes: self.slots.writes(slot),
        };
        self.devices.write_tier(&entry.encode(slot), entry_at(slot))
    }

    fn write_header(&self, state: HeaderState) -> Result<()> {
        let away = self.away.unwrap_or(Away { pairing: 0, session: 0 });
        let header = Header {
            state,
            slots: self.slots.len(),
            pairing: away.pairing,
            session: away.session,
            generation: self.first_generation,
            flash_path: self.devices.flash.path().to_owned(),
        };
        self.devices.write_tier(&header.encode(), 0)
    }

    fn write_mark(&mut self) -> Result<()> {
        let Some(away) = self.away else { return Ok(()) };
        let mark = Mark {
            pairing: away.pairing,
            session: away.session,
            tier_path: self.devices.tier.path().to_owned(),
        };
        self.flash_dirty = true;
        let written = self.devices.flash.write_at(&mark.encode(), 0);
        // Its state on the medium is unknown now.
        self.devices.latch.watch(written)
    }

    /// The first chunk leaves: after this the file is marked, and others may.
    pub fn leave(&mut self) -> Result<()> {
        if self.away.is_some() {
            return Ok(());
        }
        self.write_header(HeaderState::Home)?;
        self.devices.sync_tier(Barrier::Formatted)?;
        self.devices.sync_name(Barrier::Named)?;
        let first = self.devices.read_flash_chunk(0)?;
        let Some(slot) = self.slots.take(0) else { return Ok(()) };
        self.fill(slot, &first)?;
        self.first_generation = self.generation + 1;
        self.write_entry(slot)?;
        self.away = Some(Away { pairing: fastrand::u64(1..), session: 1 });
        self.map.insert(0, slot);
        self.first = Some(Box::new(first));
        self.policy.lock().arrived(0);
        self.write_header(HeaderState::Crossing)?;
        self.devices.sync_tier(Barrier::Left)?;
        self.slots.settle(slot);
        if self.flash_dirty {
            self.devices.sync_flash(Barrier::Long)?;
        }
        self.write_mark()?;
        self.devices.sync_flash(Barrier::Marked)?;
        self.flash_dirty = false;
        self.tier_dirty = true;
        self.write_header(HeaderState::Away)?;
        self.counters.moved_in += 1;
        Ok(())
    }

    /// The pair was opened while chunks are away.
    pub fn begin_session(&mut self) -> Result<()> {
        if let Some(slot) = self.map.get(&0).copied() {
            self.first = Some(Box::new(self.read_slot(slot)?));
        }
        self.write_header(HeaderState::Away)?;
        self.devices.sync_tier(Barrier::Session)?;
        self.write_mark()?;
        let end = (self.len % CHUNK_BYTES as u64) as usize;
        let last = u32::try_from(self.len / CHUNK_BYTES as u64).ok();
        if let Some(slot) = last.and_then(|chunk| self.map.get(&chunk).copied())
            && end > 0
        {
            self.tier_dirty = true;
            self.devices.write_tier(&vec![0; CHUNK_BYTES - end], self.slot_at(slot) + end as u64)?;
        }
        self.settle()
    }

    /// Brings every chunk home, and makes everything durable. The file is plain afterwards, and the device free.
    pub fn drain(&mut self) -> Result<()> {
        self.devices.check()?;
        if self.away.is_none() {
            return self.settle();
        }
        let mut away: Vec<(u32, u32)> = self.map.iter().map(|(chunk, slot)| (*chunk, *slot)).collect();
        away.sort_unstable();
        let mut first_sector = Vec::new();
        for (chunk, slot) in &away {
            let bytes = self.read_slot(*slot)?;
            let from = if *chunk == 0 { litefoot_storage::file::SECTOR_BYTES } else { 0 };
            self.write_home(*chunk, &bytes, from)?;
            if *chunk == 0 {
                first_sector = bytes[..from].to_vec();
            }
        }
        self.devices.sync_flash(Barrier::AllHome)?;
        self.write_header(HeaderState::Crossing)?;
        self.devices.sync_tier(Barrier::Returning)?;
        let written = self.devices.flash.write_at(&first_sector, 0);
        self.devices.latch.watch(written)?;
        self.devices.sync_flash(Barrier::Restored)?;
        self.come_home(&away)
    }

    /// Everything is in the flash file, durably: the device forgets it, and keeps what it knows of its wear.
    fn come_home(&mut self, away: &[(u32, u32)]) -> Result<()> {
        (self.away, self.first, self.stamp) = (None, None, None);
        self.flash_dirty = false;
        for (chunk, _) in away {
            self.forget(*chunk);
        }
        self.generation += 1;
        self.first_generation = self.generation;
        self.write_header(HeaderState::Home)?;
        let mut table = Vec::with_capacity(self.slots.len() as usize * ENTRY_BYTES);
        for (slot, writes) in self.slots.all_writes().enumerate() {
            let entry = Entry { chunk: None, generation: self.generation, writes };
            table.extend_from_slice(&entry.encode(slot as u32));
        }
        self.devices.write_tier(&table, entry_at(0))?;
        self.devices.sync_tier(Barrier::Drained)?;
        self.tier_dirty = false;
        self.changed.clear();
        self.slots.unsettled().into_iter().for_each(|slot| self.slots.settle(slot));
        self.counters.moved_home += away.len() as u64;
        self.counters.drains += 1;
        Ok(())
    }
}
