//! The state of the transaction under way in SQLite's log that does not fit into memory; `wal_spill` changes it.

use crate::txn::new_pages::New;
use crate::txn::spill_map::SpillMap;
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::spiller::Running;
use std::sync::Arc;

/// What is known of it.
pub struct Large {
    pub policy: SpillPolicy,
    /// What may be written early, once that was asked for.
    pub(super) new: Option<New>,
    pub(super) spill_map: SpillMap,
    pub(super) spill_under_way: Option<SpillBatch>,
    pub(super) failed: bool,
    /// Whether it is complete, and its slots are not in the redo log yet.
    pub(super) closing: bool,
    /// Writes before which there is no use in looking for pages that could leave.
    pub(super) not_before: u64,
}

/// A spill that is under way.
pub struct SpillBatch {
    pub running: Arc<Running>,
    pub leaving: Vec<Leaving>,
    /// The last write before it began.
    pub until: u64,
}

/// A page that leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaving {
    pub page_number: u32,
    pub frame: usize,
}

impl Large {
    /// Nothing yet.
    pub fn new(policy: SpillPolicy) -> Large {
        Large {
            policy,
            new: None,
            spill_map: SpillMap::default(),
            spill_under_way: None,
            failed: false,
            closing: false,
            not_before: 0,
        }
    }

    pub(crate) fn is_new(&self, page_number: u32) -> bool {
        self.new.as_ref().is_some_and(|new| new.contains(page_number))
    }
}
