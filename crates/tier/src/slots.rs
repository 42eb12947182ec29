//! The slots of a tier, in memory: the chunk of each, its entry on the device, and the number of its writes.
//!
//! ```text
//! free ──take──▶ taken ──publish──▶ published ──vacate──▶ vacated ──publish──▶ free
//!   ▲              │ vacate: no entry ever said so
//!   └──────────────┘
//! ```
//!
//! # Invariants
//! 1. `free` are exactly the slots that hold nothing and whose durable entry says nothing.
//! 2. `unsettled` are exactly the slots whose entry is not yet what it must be: taken and vacated ones.

use std::collections::BTreeSet;

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
struct TierSlot {
    /// The chunk in it.
    holds: Option<u32>,
    /// True if its entry on the device names a chunk.
    entered: bool,
    /// The number of its writes.
    writes: u64,
}

/// All slots.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<TierSlot>,
    /// Least written first.
    free: BTreeSet<(u64, u32)>,
    unsettled: BTreeSet<u32>,
}

impl Slots {
    /// Empty slots that were written so often.
    pub fn new(writes: impl IntoIterator<Item = u64>) -> Slots {
        let slots: Vec<TierSlot> =
            writes.into_iter().map(|writes| TierSlot { writes, ..TierSlot::default() }).collect();
        let free = slots.iter().enumerate().map(|(slot, state)| (state.writes, slot as u32)).collect();
        Slots { slots, free, unsettled: BTreeSet::new() }
    }

    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Writes of the free slot that was written least.
    pub fn least_free_writes(&self) -> Option<u64> {
        self.free.first().map(|(writes, _)| *writes)
    }

    /// The slot written least of those that are published.
    pub fn least_written_in_use(&self) -> Option<(u64, u32, u32)> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.entered);
        used.filter_map(|(number, slot)| Some((slot.writes, number as u32, slot.holds?))).min()
    }

    /// The chunk in a slot.
    pub fn chunk_in(&self, slot: u32) -> Option<u32> {
        self.slots[slot as usize].holds
    }

    pub fn writes(&self, slot: u32) -> u64 {
        self.slots[slot as usize].writes
    }

    /// The writes of every slot.
    pub fn all_writes(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|slot| slot.writes)
    }

    /// A slot was written.
    pub fn wrote(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        if self.free.remove(&(state.writes, slot)) {
            self.free.insert((state.writes + 1, slot));
        }
        state.writes += 1;
    }

    /// The least written of the free slots, for a chunk.
    pub fn take(&mut self, chunk: u32) -> Option<u32> {
        let (_, slot) = self.free.pop_first()?;
        self.slots[slot as usize].holds = Some(chunk);
        self.unsettled.insert(slot);
        Some(slot)
    }

    /// A slot whose entry already names the chunk: when the device is opened.
    pub fn found(&mut self, slot: u32, chunk: u32) {
        let state = &mut self.slots[slot as usize];
        self.free.remove(&(state.writes, slot));
        state.holds = Some(chunk);
        state.entered = true;
    }

    /// The chunk is elsewhere.
    pub fn vacate(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.holds = None;
        if state.entered {
            self.unsettled.insert(slot);
        } else {
            self.unsettled.remove(&slot);
            self.free.insert((state.writes, slot));
        }
    }

    /// Slots whose entries must be written.
    pub fn unsettled(&self) -> Vec<u32> {
        self.unsettled.iter().copied().collect()
    }

    pub fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// The entry of a slot is durable as it must be.
    pub fn settle(&mut self, slot: u32) {
        if self.unsettled.remove(&slot) {
            let state = &mut self.slots[slot as usize];
            state.entered = state.holds.is_some();
            if !state.entered {
                self.free.insert((state.writes, slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_an_entry_names_is_free_only_once_the_entry_is_gone() {
        let mut slots = Slots::new([5, 3, 9]);
        assert_eq!((slots.take(70), slots.take(71), slots.chunk_in(1)), (Some(1), Some(0), Some(70)));
        // Never published: free at once.
        slots.vacate(0);
        assert_eq!((slots.unsettled(), slots.least_free_writes()), (vec![1], Some(5)));
        slots.settle(1);
        slots.vacate(1);
        assert_eq!((slots.unsettled(), slots.take(72), slots.take(73)), (vec![1], Some(0), Some(2)));
        assert_eq!(slots.take(74), None);
        slots.unsettled().into_iter().for_each(|slot| slots.settle(slot));
        assert_eq!((slots.is_settled(), slots.take(74)), (true, Some(1)));
    }

    #[test]
    fn the_least_written_is_taken() {
        let mut slots = Slots::new([0; 4]);
        for _ in 0..100 {
            let slot = slots.take(1).unwrap();
            slots.wrote(slot);
            slots.settle(slot);
            slots.vacate(slot);
            slots.settle(slot);
        }
        assert!(slots.all_writes().all(|writes| writes == 25));
    }
}
