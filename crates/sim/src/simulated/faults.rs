//! Planted faults: errors of the medium, and bugs of litefoot, to prove that the tests can see them.

use litefoot_storage::file::{FileKind, Operation};
use std::collections::BTreeMap;
use std::io;

/// A place where syncs happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncSite {
    /// The sync of a file, or a durable write to it.
    File(FileKind),
    /// The sync of a directory.
    Directory,
}

/// The faults to inject, and their moments.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Bytes that fit on the medium; writes beyond fail for want of space.
    pub capacity_bytes: Option<u64>,
    /// The operation that fails with an input/output error, and how many of its kind succeed first.
    pub fail: Option<(Operation, FileKind, u64)>,
    /// True if the failing operation goes on failing.
    pub fail_again: bool,
    /// Syncs that report success and do nothing: the place, and which of them (`None`: all).
    pub ignored_sync: Option<(SyncSite, Option<u64>)>,
    /// Writes that the medium says are atomic are torn like any other.
    pub torn_atomic_writes: bool,
    seen: u64,
    syncs: BTreeMap<SyncSite, u64>,
    directory_syncs_until_failure: Option<u64>,
}

impl Faults {
    /// The medium is full at so many bytes.
    pub fn full_at(bytes: u64) -> Faults {
        Faults { capacity_bytes: Some(bytes), ..Faults::default() }
    }

    /// The `n`-th (from 0) operation of that kind fails, and all after it.
    pub fn failing(operation: Operation, kind: FileKind, n: u64) -> Faults {
        Faults { fail: Some((operation, kind, n)), fail_again: true, ..Faults::default() }
    }

    /// The `n`-th (from 0) sync of a directory fails.
    pub fn failing_directory_sync(n: u64) -> Faults {
        Faults { directory_syncs_until_failure: Some(n), ..Faults::default() }
    }

    /// Syncs of that place do nothing: all of them, or the `n`-th.
    pub fn ignoring(site: SyncSite, n: Option<u64>) -> Faults {
        Faults { ignored_sync: Some((site, n)), ..Faults::default() }
    }

    pub(super) fn strike(&mut self, operation: Operation, kind: FileKind, used: u64) -> Option<io::Error> {
        let grows = matches!(operation, Operation::Write | Operation::SetLength | Operation::Allocate);
        if grows && self.capacity_bytes.is_some_and(|capacity| used > capacity) {
            return Some(io::ErrorKind::StorageFull.into());
        }
        let (failing, failing_kind, after) = self.fail?;
        if (failing, failing_kind) != (operation, kind) {
            return None;
        }
        self.seen += 1;
        let strikes = self.seen == after + 1 || (self.fail_again && self.seen > after);
        strikes.then(|| io::Error::other("planted input/output error"))
    }

    pub(super) fn strike_directory(&mut self) -> Option<io::Error> {
        let left = self.directory_syncs_until_failure.as_mut()?;
        if *left == 0 {
            return Some(io::Error::other("planted input/output error"));
        }
        *left -= 1;
        None
    }

    /// Syncs of a place so far.
    pub(super) fn syncs(&self, site: SyncSite) -> u64 {
        self.syncs.get(&site).copied().unwrap_or_default()
    }

    /// True if this sync, which is counted, does nothing.
    pub(super) fn ignores(&mut self, site: SyncSite) -> bool {
        let count = self.syncs.entry(site).or_default();
        let number = *count;
        *count += 1;
        matches!(self.ignored_sync, Some((ignored, which)) if ignored == site && which.is_none_or(|n| n == number))
    }
}
