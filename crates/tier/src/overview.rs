//! An overview of a device, read without changing it.
//!
//! Nothing is locked: while the device is in use, the figures are those of its last written entries.

use super::error::Result;
use super::format::{ENTRY_BYTES, Entry, HeaderState, entry_at, is_named};
use super::open::read_header;
use super::statistics::wear;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place of the chunks of a device's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// All in the file; the device is free for any.
    Home,
    /// They were leaving, or coming back, when the power was cut: the file knows.
    Crossing,
    /// Some on the device.
    Away,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The file that it was used with last; long paths are cut.
    pub flash_path: PathBuf,
    /// The place of the chunks of that file.
    pub whereabouts: Whereabouts,
    /// Chunks that entries name.
    pub away: usize,
    /// Writes of every slot since the device was made, as far as its entries have been told.
    pub slot_writes: Vec<u64>,
}

impl Overview {
    /// True if it was used with this file last; of long paths the stored part counts.
    pub fn names(&self, flash: &Path) -> bool {
        is_named(&self.flash_path, flash)
    }

    /// Writes of all slots.
    pub fn writes(&self) -> u64 {
        self.slot_writes.iter().sum()
    }

    /// The least, the median and the most writes of a slot.
    pub fn wear(&self) -> (u64, u64, u64) {
        wear(&self.slot_writes)
    }
}

/// Looks at the device at `path`; `None` where nothing is, or nothing was written yet.
///
/// # Errors
/// Errors of reading, and that the file is no device of litefoot's, damaged, or of another version.
pub fn look(medium: &Arc<dyn Medium>, path: &Path) -> Result<Option<Overview>> {
    if medium.info(path)?.is_none() {
        return Ok(None);
    }
    let tier = medium.open(path, FileKind::Tier, OpenMode::ReadOnly)?;
    let Some(header) = read_header(&*tier)? else { return Ok(None) };
    // A device that was cut off has fewer than it says.
    let there = tier.len()?.saturating_sub(entry_at(0)).min(u64::from(header.slots) * ENTRY_BYTES as u64);
    let mut bytes = vec![0; there as usize];
    let read = tier.read_at(&mut bytes, entry_at(0))?;
    let entries: Vec<Entry> = Entry::decode_all(&bytes[..read]).flatten().collect();
    let whereabouts = match header.state {
        HeaderState::Home => Whereabouts::Home,
        HeaderState::Crossing => Whereabouts::Crossing,
        HeaderState::Away => Whereabouts::Away,
    };
    let names = |entry: &&Entry| entry.chunk.is_some() && entry.generation >= header.generation;
    let away = if whereabouts == Whereabouts::Home { 0 } else { entries.iter().filter(names).count() };
    let slot_writes = entries.iter().map(|entry| entry.writes).collect();
    Ok(Some(Overview { flash_path: header.flash_path, whereabouts, away, slot_writes }))
}
