//! Leases of simulated files.
//!
//! Another handle's `open` calls `on_break` itself, as if it had waited for the thread that does so in the kernel's case.
//! Then it goes on, as after the longest wait: the lease is over, whether it was given back or not.

use super::event::Inode;
use super::{SimFile, SimState};
use litefoot_storage::file::{LeaseAnswer, OnBreak};

/// The lease of a handle.
pub(super) struct Lease {
    handle: u64,
    on_break: OnBreak,
}

impl SimState {
    /// The lease of a file that somebody else opens, who counts as a handle already. To be called without the lock.
    pub(super) fn break_lease(&mut self, inode: Inode) -> Option<OnBreak> {
        self.files[inode].lease.take().map(|lease| lease.on_break)
    }

    /// The lease of a handle, which is over. To be dropped without the lock.
    pub(super) fn end_lease(&mut self, inode: Inode, handle: u64) -> Option<Lease> {
        self.files[inode].lease.take_if(|lease| lease.handle == handle)
    }
}

impl SimFile {
    pub(super) fn take(&self, on_break: OnBreak) -> LeaseAnswer {
        let mut state = self.medium.state();
        let former = state.end_lease(self.inode, self.handle);
        let file = &mut state.files[self.inode];
        let (answer, unused) = if file.handles > 1 {
            (LeaseAnswer::Company, Some(on_break))
        } else {
            file.lease = Some(Lease { handle: self.handle, on_break });
            (LeaseAnswer::Granted, None)
        };
        drop(state);
        drop((former, unused));
        answer
    }

    pub(super) fn give_back(&self) {
        let mut state = self.medium.state();
        let former = state.end_lease(self.inode, self.handle);
        drop(state);
        drop(former);
    }
}
