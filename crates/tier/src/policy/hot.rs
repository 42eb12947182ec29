//! The paper's policy (P-SQLITE, sections IV.B and IV.C): the chunks that gain most are marked at the end of a period.
//! They move when they are next written.
//!
//! # Cost
//! A chunk that is not written any more fades to 0 within 21 periods, so each write costs at most as many steps.
//!
//! # Invariant
//! `marked` are exactly the chunks in state CHANGE.

use super::Advice;
use super::chunk_table::ChunkTable;
use super::decision::{Candidate, Latencies, Room, alpha, expected, hot_chunks};
use super::section::{MOST_WRITES, Place, SectionTable};
use super::small_float::SmallFloat;
use std::collections::HashSet;

/// The period of choosing hot chunks, and the length of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Write transactions of a period, 1 to 15.
    pub transactions: u32,
    /// Periods that count (N of the EWMA), at least 1.
    pub history: u32,
}

impl Default for Period {
    /// The paper's best values: 5 transactions, 2 periods.
    fn default() -> Period {
        Period { transactions: 5, history: 2 }
    }
}

/// The chunks, and those that are to move.
#[derive(Clone, Debug)]
pub struct HotChunks {
    capacity: usize,
    period: Period,
    latencies: Latencies,
    /// The least count, then the least EWMA is the coldest.
    chunks: ChunkTable<(u8, SmallFloat)>,
    marked: HashSet<u32>,
    /// Chunks that the current transaction has written.
    written: HashSet<u32>,
    /// Transactions of the current period that have ended.
    transactions: u32,
}

impl HotChunks {
    /// Nothing is known yet, and nothing on the tier.
    pub fn new(capacity: usize, period: Period, latencies: Latencies) -> HotChunks {
        let most = u32::from(MOST_WRITES);
        let period =
            Period { transactions: period.transactions.clamp(1, most), history: period.history.max(1) };
        HotChunks {
            capacity,
            period,
            latencies,
            chunks: ChunkTable::new(|section| (section.writes, section.ewma)),
            marked: HashSet::new(),
            written: HashSet::new(),
            transactions: 0,
        }
    }

    /// The section table.
    pub fn table(&self) -> &SectionTable {
        self.chunks.sections()
    }

    /// A chunk is written; a transaction counts once for it.
    pub fn write(&mut self, chunk: u32) -> Advice {
        if self.written.insert(chunk) {
            self.chunks.count(chunk, MOST_WRITES);
        }
        if self.chunks.get(chunk).place == Place::Change { Advice::Move } else { Advice::Stay }
    }

    /// The chunk of the tier with the least count, then the least EWMA, then the lowest number.
    pub fn victim(&self) -> Option<u32> {
        self.chunks.coldest().map(|(_, chunk)| chunk)
    }

    /// A chunk is on the tier now.
    pub fn arrived(&mut self, chunk: u32) {
        self.marked.remove(&chunk);
        self.chunks.put(chunk, Place::Tier);
    }

    /// A chunk is on flash again.
    pub fn left(&mut self, chunk: u32) {
        self.chunks.left(chunk);
    }

    /// A transaction has ended; at the end of a period hot chunks are chosen.
    pub fn end_transaction(&mut self) {
        self.written.clear();
        self.transactions += 1;
        if self.transactions == self.period.transactions {
            self.transactions = 0;
            self.end_period();
        }
    }

    /// The file was cut.
    pub fn cut(&mut self, first: u32) {
        self.chunks.cut(first);
        self.marked.retain(|chunk| *chunk < first);
        self.written.retain(|chunk| *chunk < first);
    }

    fn end_period(&mut self) {
        for chunk in std::mem::take(&mut self.marked) {
            self.chunks.put(chunk, Place::Flash);
        }
        let alpha = alpha(self.period.history);
        self.chunks
            .end_period(|section| SmallFloat::new(expected(alpha, section.writes, section.ewma.value())));
        let candidate = |chunk: &u32| {
            let section = self.chunks.get(*chunk);
            Candidate { chunk: *chunk, expected: section.ewma, on_tier: section.place == Place::Tier }
        };
        let mut candidates: Vec<Candidate> = self.chunks.active().iter().map(candidate).collect();
        candidates.sort_unstable_by_key(|candidate| (std::cmp::Reverse(candidate.expected), candidate.chunk));
        let room = Room { capacity: self.capacity, used: self.chunks.used() };
        let hot = hot_chunks(&candidates, room, &self.latencies);
        for candidate in candidates[..hot].iter().filter(|candidate| !candidate.on_tier) {
            self.chunks.put(candidate.chunk, Place::Change);
            self.marked.insert(candidate.chunk);
        }
    }
}

#[cfg(test)]
mod tests;
