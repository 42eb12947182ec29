//! The paper's policy (P-SQLITE, sections IV.B and IV.C): the chunks that gain most are marked at the end of a period.
//! They move when they are next written.
//!
//! # Cost
//! The end of a period looks at the chunks whose count or EWMA is not 0. A chunk that is not written any more fades to
//! 0 within 21 periods, so each write costs at most as many steps. The table as a whole is never walked.
//!
//! # Invariants
//! 1. `active` are exactly the chunks whose section has a count or an EWMA that is not 0, each once.
//! 2. `marked` are exactly the chunks in state CHANGE.
//! 3. `residents` has exactly the chunks on the tier but chunk 0, under their current count and EWMA.

use super::Advice;
use super::decision::{Candidate, Latencies, Room, alpha, expected, hot_chunks};
use super::section::{MOST_WRITES, Place, Section, SectionTable};
use super::small_float::SmallFloat;
use std::collections::{BTreeSet, HashSet};

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

/// The section table and what keeps its use cheap.
#[derive(Clone, Debug)]
pub struct HotChunks {
    capacity: usize,
    period: Period,
    latencies: Latencies,
    table: SectionTable,
    active: Vec<u32>,
    marked: HashSet<u32>,
    /// Coldest first.
    residents: BTreeSet<(u8, SmallFloat, u32)>,
    /// True if chunk 0 is on the tier.
    first_is_resident: bool,
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
            table: SectionTable::default(),
            active: Vec::new(),
            marked: HashSet::new(),
            residents: BTreeSet::new(),
            first_is_resident: false,
            written: HashSet::new(),
            transactions: 0,
        }
    }

    /// The section table.
    pub fn table(&self) -> &SectionTable {
        &self.table
    }

    /// A chunk is written; a transaction counts once for it.
    pub fn write(&mut self, chunk: u32) -> Advice {
        if self.written.insert(chunk) {
            let section = self.table.get(chunk);
            if section.writes == 0 && section.ewma == SmallFloat::ZERO {
                self.active.push(chunk);
            }
            let place = if section.place == Place::Unused { Place::Flash } else { section.place };
            let writes = (section.writes + 1).min(MOST_WRITES);
            self.change(chunk, Section { place, writes, ..section });
        }
        if self.table.get(chunk).place == Place::Change { Advice::Move } else { Advice::Stay }
    }

    /// The chunk of the tier with the least count, then the least EWMA, then the lowest number.
    pub fn victim(&self) -> Option<u32> {
        self.residents.first().map(|(_, _, chunk)| *chunk)
    }

    /// A chunk is on the tier now.
    pub fn arrived(&mut self, chunk: u32) {
        self.marked.remove(&chunk);
        self.change(chunk, Section { place: Place::Tier, ..self.table.get(chunk) });
    }

    /// A chunk is on flash again.
    pub fn left(&mut self, chunk: u32) {
        if self.table.get(chunk).place == Place::Tier {
            self.change(chunk, Section { place: Place::Flash, ..self.table.get(chunk) });
        }
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
        for chunk in first..u32::try_from(self.table.bytes() / 2).unwrap_or(u32::MAX) {
            self.left(chunk);
        }
        self.active.retain(|chunk| *chunk < first);
        self.marked.retain(|chunk| *chunk < first);
        self.written.retain(|chunk| *chunk < first);
        self.table.cut(first);
    }

    fn end_period(&mut self) {
        for chunk in std::mem::take(&mut self.marked) {
            self.change(chunk, Section { place: Place::Flash, ..self.table.get(chunk) });
        }
        let alpha = alpha(self.period.history);
        let mut candidates = Vec::with_capacity(self.active.len());
        for chunk in std::mem::take(&mut self.active) {
            let section = self.table.get(chunk);
            let ewma = SmallFloat::new(expected(alpha, section.writes, section.ewma.value()));
            self.change(chunk, Section { writes: 0, ewma, ..section });
            if ewma != SmallFloat::ZERO {
                self.active.push(chunk);
                let on_tier = section.place == Place::Tier;
                candidates.push(Candidate { chunk, expected: ewma, on_tier });
            }
        }
        candidates.sort_unstable_by_key(|candidate| (std::cmp::Reverse(candidate.expected), candidate.chunk));
        let used = self.residents.len() + usize::from(self.first_is_resident);
        let hot = hot_chunks(&candidates, Room { capacity: self.capacity, used }, &self.latencies);
        for candidate in candidates[..hot].iter().filter(|candidate| !candidate.on_tier) {
            self.change(candidate.chunk, Section { place: Place::Change, ..self.table.get(candidate.chunk) });
            self.marked.insert(candidate.chunk);
        }
    }

    /// Changes a section, and its place among the residents.
    fn change(&mut self, chunk: u32, to: Section) {
        let from = self.table.get(chunk);
        self.table.set(chunk, to);
        if chunk == 0 {
            self.first_is_resident = to.place == Place::Tier;
            return;
        }
        if from.place == Place::Tier {
            self.residents.remove(&(from.writes, from.ewma, chunk));
        }
        if to.place == Place::Tier {
            self.residents.insert((to.writes, to.ewma, chunk));
        }
    }
}

#[cfg(test)]
mod tests;
