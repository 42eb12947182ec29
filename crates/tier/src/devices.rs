//! The two files beneath, the latch that closes the pair after a failure, and the ordering edges by name.

use super::format::CHUNK_BYTES;
use litefoot_storage::file::{
    DeviceError, File, Medium, Operation, Result, Stamp, SyncLatch, parent_directory,
};
use std::io;
use std::sync::Arc;

/// An ordering edge: a sync that something depends on. Tests leave each out and must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// The header's HOME before anything else is on the device: a header of zeros beside data is foreign.
    Formatted,
    /// The device's name before the file depends on it.
    Named,
    /// Chunk 0, its entry and CROSSING before the mark takes the place of chunk 0.
    Left,
    /// The length of the file before the mark: what is marked has a chunk at least.
    Long,
    /// The mark before any other chunk is only on the tier.
    Marked,
    /// A session on the device before the mark has it.
    Session,
    /// Chunks that went home, before their entries say so.
    Home,
    /// Chunks that came, before their entries say so.
    Filled,
    /// The new entry of a chunk that changed slots, before the old one is cleared: flash has nothing of it.
    Changed,
    /// Entries, before a sync is done and slots are used again.
    Entered,
    /// A shorter length, before what is behind it in the last chunk's slot is zeros.
    Cut,
    /// All chunks home, before the mark goes.
    AllHome,
    /// CROSSING, before the mark goes.
    Returning,
    /// The first sector, before the device forgets it.
    Restored,
    /// HOME, before the device gets another owner.
    Drained,
    /// A stamp, before something is built upon the file that it tells.
    Stamped,
    /// No stamp, before the file changes.
    Unstamped,
    /// Writes to a file that is lent.
    Lent,
}

#[cfg(test)]
impl Barrier {
    pub const ALL: [Barrier; 18] = [
        Barrier::Formatted,
        Barrier::Named,
        Barrier::Left,
        Barrier::Long,
        Barrier::Marked,
        Barrier::Session,
        Barrier::Home,
        Barrier::Filled,
        Barrier::Changed,
        Barrier::Entered,
        Barrier::Cut,
        Barrier::AllHome,
        Barrier::Returning,
        Barrier::Restored,
        Barrier::Drained,
        Barrier::Stamped,
        Barrier::Unstamped,
        Barrier::Lent,
    ];
}

/// Both files.
pub(super) struct Devices {
    pub flash: Arc<dyn File>,
    pub tier: Arc<dyn File>,
    pub medium: Arc<dyn Medium>,
    pub latch: Arc<SyncLatch>,
    #[cfg(test)]
    pub skipped: Option<Barrier>,
}

impl Devices {
    /// Fails once either file has failed.
    pub fn check(&self) -> Result<()> {
        self.latch.check(self.flash.path())
    }

    /// Passes on what the tier answered; a failure closes the pair for writing.
    fn of_tier<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.latch.close(&format!("the tier device failed: {error}")))
    }

    /// Reads bytes of the tier that must be there.
    pub fn read_tier(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.tier.read_at(buf, offset).and_then(|count| {
            let short =
                || DeviceError::new(Operation::Read, self.tier.path(), io::ErrorKind::UnexpectedEof.into());
            if count == buf.len() { Ok(()) } else { Err(short()) }
        });
        self.of_tier(read)
    }

    pub fn write_tier(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.of_tier(self.tier.write_at(bytes, offset))
    }

    pub fn sync_tier(&self, barrier: Barrier) -> Result<()> {
        if self.leaves_out(barrier) {
            return Ok(());
        }
        self.of_tier(self.tier.sync())
    }

    /// Makes the tier's name durable.
    pub fn sync_name(&self, barrier: Barrier) -> Result<()> {
        if self.leaves_out(barrier) {
            return Ok(());
        }
        self.of_tier(self.medium.sync_directory(parent_directory(self.tier.path())))
    }

    /// A chunk as flash has it; zeros behind the end of the file.
    pub fn read_flash_chunk(&self, chunk: u32) -> Result<[u8; CHUNK_BYTES]> {
        let mut bytes = [0; CHUNK_BYTES];
        let count = self.flash.read_at(&mut bytes, offset_of(chunk))?;
        bytes[count..].fill(0);
        Ok(bytes)
    }

    pub fn sync_flash(&self, barrier: Barrier) -> Result<()> {
        if self.leaves_out(barrier) {
            return Ok(());
        }
        self.latch.watch(self.flash.sync())
    }

    pub fn set_stamp_of_flash(&self) -> Result<Stamp> {
        self.latch.watch(self.flash.set_stamp())
    }

    #[cfg(test)]
    fn leaves_out(&self, barrier: Barrier) -> bool {
        self.skipped == Some(barrier)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests' counterpart has a choice")]
    fn leaves_out(&self, _barrier: Barrier) -> bool {
        false
    }
}

/// The offset of a chunk in the file.
pub(super) fn offset_of(chunk: u32) -> u64 {
    u64::from(chunk) * CHUNK_BYTES as u64
}
