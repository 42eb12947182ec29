//! The pages of a transaction until it commits, and those that leave memory before.

pub(crate) mod dirty_pages;
pub(crate) mod new_pages;
pub(crate) mod spill_map;
pub(crate) mod spill_policy;
pub(crate) mod spiller;
pub(crate) mod wal_bytes;
pub(crate) mod wal_frames;
pub(crate) mod wal_spill;
