//! The wal-index of a group: memory that members map, too, each in its own process.
//!
//! # Invariants
//! 1. While a member has the memory, the regions are no file's, and the memory is not replaced: what the owner sees at a region's
//!    address is what the member sees.
//! 2. Memory that nobody uses any more is replaced by new memory: whoever has mapped it by mistake sees nothing of it change.

use crate::error::{Error, Result};
use crate::sync::wal_index::{COPY_WORDS, WalIndex, WalIndexState};
use crate::sync::wal_index_region::Region;
use litefoot_storage::os::NamelessMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The memory of a group's wal-index.
pub(super) struct GroupMemory {
    memory: Arc<NamelessMemory>,
    /// Connections of members that have it.
    members: usize,
}

impl GroupMemory {
    /// Makes a region of it.
    pub(super) fn hold(&self, region: &mut Region, offset: u64) -> Result<()> {
        region.join(&self.memory, offset).map_err(|_| Error::NoMemory)
    }
}

impl WalIndex {
    /// The regions are memory that members can map, from now on. No handle uses them yet; those that were inherited are zeros.
    ///
    /// # Errors
    /// There is no such memory, or a handle uses the regions already.
    pub fn begin_group(&self) -> Result<()> {
        let mut state = self.state();
        if state.users > 0 {
            return Err(Error::Busy);
        }
        let memory = NamelessMemory::new().map_err(|_| Error::NoMemory)?;
        state.group = Some(GroupMemory { memory: Arc::new(memory), members: 0 });
        state.join_memory()
    }

    /// A member gets the memory; it has it until [`WalIndex::leave_member`]. `None` while the regions are a file's.
    pub fn join_member(&self) -> Option<Arc<NamelessMemory>> {
        let mut state = self.state();
        if state.file.is_some() {
            return None;
        }
        let group = state.group.as_mut()?;
        group.members += 1;
        Some(group.memory.clone())
    }

    /// A member has unmapped the memory, or is gone.
    pub fn leave_member(&self) {
        if let Some(group) = &mut self.state().group {
            group.members = group.members.saturating_sub(1);
        }
    }

    /// Tells whether members have the memory.
    pub fn has_members(&self) -> bool {
        self.state().has_members()
    }

    /// Makes the header invalid: the next reader makes the index again, from all that is complete in the log. The caller holds the
    /// write slot, or nobody uses the index.
    pub fn invalidate(&self) {
        let state = self.state();
        let Some(first) = state.regions.first() else { return };
        for word in 0..2 * COPY_WORDS {
            // SAFETY: a region is far larger. A reader meanwhile finds the two copies different, or the checksum wrong, and waits
            // for the write slot.
            unsafe { first.word(word) }.store(0, Ordering::SeqCst);
        }
    }
}

impl WalIndexState {
    /// Tells whether members have the memory.
    pub(super) fn has_members(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.members > 0)
    }

    /// New memory takes the place of the old one, which nobody uses any more. Where there is none, no member is served from now on.
    pub(super) fn renew_memory(&mut self) {
        let Some(group) = &mut self.group else { return };
        match NamelessMemory::new() {
            Ok(memory) => group.memory = Arc::new(memory),
            Err(_) => self.group = None,
        }
        if self.join_memory().is_err() {
            self.group = None;
        }
    }

    fn join_memory(&mut self) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let mut offset = 0;
        for region in &mut self.regions {
            group.hold(region, offset)?;
            offset += region.bytes() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 32768;

    #[test]
    fn a_member_sees_the_owners_index_until_nobody_uses_it() {
        let index = WalIndex::default();
        assert!(index.join_member().is_none(), "no group");
        index.begin_group().unwrap();
        index.join(|| Ok::<_, Error>(())).unwrap();
        let owners = [0, 1].map(|number| index.map(number, BYTES, true).unwrap().unwrap());
        let memory = index.join_member().unwrap();
        let mut members = Region::new(BYTES).unwrap();
        members.join(&memory, BYTES as u64).unwrap();
        // SAFETY: regions of this test's own.
        unsafe {
            owners[1].as_ptr().add(100).write(7);
            assert_eq!(members.at(100).as_ptr().read(), 7);
            members.at(101).as_ptr().write(8);
            assert_eq!(owners[1].as_ptr().add(101).read(), 8);
        }
        assert!(index.has_members());
        index.leave_member();
        assert!(!index.has_members());
        let mut held = index.register();
        index.leave(&mut held, false);
        index.join(|| Ok::<_, Error>(())).unwrap();
        let again = index.map(1, BYTES, true).unwrap().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (again.as_ptr().add(100).read(), members.at(100).as_ptr().read()) }, (0, 7));
    }

    #[test]
    fn an_invalid_header_is_zeros_and_the_marks_stay() {
        let index = WalIndex::default();
        index.invalidate();
        index.map(0, BYTES, true).unwrap();
        for word in 0..30 {
            index.state().word(word).unwrap().store(9, Ordering::SeqCst);
        }
        index.invalidate();
        let words: Vec<_> =
            (0..30).map(|word| index.state().word(word).unwrap().load(Ordering::SeqCst)).collect();
        assert_eq!(words, [vec![0; 24], vec![9; 6]].concat());
    }
}
