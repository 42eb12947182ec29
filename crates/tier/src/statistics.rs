//! Figures of a tiered file, and the wear of its device.

/// Figures of a tiered file since it was opened, and the wear of its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Slots of the device.
    pub slots: u32,
    /// Chunks that are away now.
    pub away: usize,
    /// Write requests to flash, and their bytes.
    pub flash_writes: u64,
    /// Bytes written to flash.
    pub flash_bytes: u64,
    /// Write requests to slots.
    pub tier_writes: u64,
    /// Bytes written to slots; headers and entries are not in it.
    pub tier_bytes: u64,
    /// Chunks moved to the tier.
    pub moved_in: u64,
    /// Chunks moved home.
    pub moved_home: u64,
    /// Chunks that changed slots to spread wear.
    pub changed_slot: u64,
    /// Times that everything was brought home.
    pub drains: u64,
    /// Writes of every slot since the device was made, as far as its entries have been told.
    pub slot_writes: Vec<u64>,
}

impl Statistics {
    /// The least, the median and the most writes of a slot.
    pub fn wear(&self) -> (u64, u64, u64) {
        wear(&self.slot_writes)
    }

    pub(super) fn flash_write(&mut self, bytes: usize) {
        self.flash_writes += 1;
        self.flash_bytes += bytes as u64;
    }

    pub(super) fn tier_write(&mut self, bytes: usize) {
        self.tier_writes += 1;
        self.tier_bytes += bytes as u64;
    }
}

/// The least, the median and the most of these.
pub(super) fn wear(slot_writes: &[u64]) -> (u64, u64, u64) {
    let mut sorted = slot_writes.to_vec();
    sorted.sort_unstable();
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    (at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1)))
}
