//! The times of files, as a hostile clock and a power cut leave them.
//!
//! The clock ticks every few changes only, as a kernel's does: changes within one tick leave the same time. A time that
//! is set ([`File::set_stamp`](litefoot_storage::file::File::set_stamp)) is no time that a change leaves.

use super::Random;

/// Changes within one tick of the clock.
const TICK: u64 = 8;

/// Counts the changes of a medium's files. A power cut does not set it back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    changes: u64,
}

impl Clock {
    /// The time of a change: an even number.
    pub fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes / TICK * TICK * 2
    }

    /// A time that is set: an odd number, each another.
    pub fn set(&mut self) -> u64 {
        self.changes += 1;
        self.changes * 2 - 1
    }
}

/// The times that a file may have after a power cut: the durable one, and those since.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    durable: u64,
    since: Vec<u64>,
}

impl Times {
    /// Of a file that has a time, durably.
    pub fn new(durable: u64) -> Times {
        Times { durable, since: Vec::new() }
    }

    /// The file has changed.
    pub fn change(&mut self, time: u64) {
        if self.current() != time {
            self.since.push(time);
        }
    }

    /// The time is durable.
    pub fn sync(&mut self) {
        *self = Times::new(self.current());
    }

    /// The durable time.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The time as the operating system sees it.
    pub fn current(&self) -> u64 {
        self.since.last().copied().unwrap_or(self.durable)
    }

    /// Any of the times.
    pub fn any(&self, random: &mut Random) -> u64 {
        let chosen = random.below(self.since.len() as u64 + 1) as usize;
        self.since.get(chosen).copied().unwrap_or(self.durable)
    }
}
