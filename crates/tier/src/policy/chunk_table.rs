//! What a policy knows of chunks: their sections, which of them count, and which are on the tier, the coldest first.
//!
//! # Cost
//! The end of a period looks at the chunks whose count or EWMA is not 0. A chunk that is not written any more fades, so
//! each count costs a limited number of steps. The table as a whole is never walked, but to cut it.
//!
//! # Invariants
//! 1. `active` are exactly the chunks whose section has a count or an EWMA that is not 0, each once.
//! 2. `residents` has exactly the chunks on the tier but chunk 0, under the present `rank` of their section.

use super::section::{Place, Section, SectionTable};
use super::small_float::SmallFloat;
use std::collections::BTreeSet;

/// The table. `Rank` says how cold a chunk is: the least goes first.
#[derive(Clone, Debug)]
pub(super) struct ChunkTable<Rank> {
    rank: fn(Section) -> Rank,
    sections: SectionTable,
    active: Vec<u32>,
    residents: BTreeSet<(Rank, u32)>,
    /// True if chunk 0 is on the tier.
    first_is_resident: bool,
}

impl<Rank: Ord + Copy> ChunkTable<Rank> {
    /// Nothing is known yet, and nothing on the tier.
    pub fn new(rank: fn(Section) -> Rank) -> ChunkTable<Rank> {
        ChunkTable {
            rank,
            sections: SectionTable::default(),
            active: Vec::new(),
            residents: BTreeSet::new(),
            first_is_resident: false,
        }
    }

    /// The sections.
    pub fn sections(&self) -> &SectionTable {
        &self.sections
    }

    /// The section of a chunk.
    pub fn get(&self, chunk: u32) -> Section {
        self.sections.get(chunk)
    }

    /// The chunks that count.
    pub fn active(&self) -> &[u32] {
        &self.active
    }

    /// Chunks on the tier, chunk 0 included.
    pub fn used(&self) -> usize {
        self.residents.len() + usize::from(self.first_is_resident)
    }

    /// The coldest chunk of the tier; of equals, the one with the lowest number.
    pub fn coldest(&self) -> Option<(Rank, u32)> {
        self.residents.first().copied()
    }

    /// Counts a write of a chunk, up to `most`.
    pub fn count(&mut self, chunk: u32, most: u8) {
        let section = self.get(chunk);
        if section.writes == 0 && section.ewma == SmallFloat::ZERO {
            self.active.push(chunk);
        }
        let place = if section.place == Place::Unused { Place::Flash } else { section.place };
        self.change(chunk, Section { place, writes: (section.writes + 1).min(most), ..section });
    }

    /// Ends a period: `next` gives the EWMA of each chunk that counts, and counting begins anew.
    pub fn end_period(&mut self, next: impl Fn(Section) -> SmallFloat) {
        for chunk in std::mem::take(&mut self.active) {
            let section = self.get(chunk);
            let ewma = next(section);
            self.change(chunk, Section { writes: 0, ewma, ..section });
            if ewma != SmallFloat::ZERO {
                self.active.push(chunk);
            }
        }
    }

    /// A chunk has another place.
    pub fn put(&mut self, chunk: u32, place: Place) {
        self.change(chunk, Section { place, ..self.get(chunk) });
    }

    /// A chunk of the tier is on flash again.
    pub fn left(&mut self, chunk: u32) {
        if self.get(chunk).place == Place::Tier {
            self.put(chunk, Place::Flash);
        }
    }

    /// The file was cut: there are no chunks from `first` on.
    pub fn cut(&mut self, first: u32) {
        for chunk in first..self.sections.len() {
            self.left(chunk);
        }
        self.active.retain(|chunk| *chunk < first);
        self.sections.cut(first);
    }

    fn change(&mut self, chunk: u32, to: Section) {
        let from = self.get(chunk);
        self.sections.set(chunk, to);
        let on_tier = |section: Section| section.place == Place::Tier;
        if chunk == 0 {
            self.first_is_resident = on_tier(to);
            return;
        }
        let place = |section| on_tier(section).then(|| ((self.rank)(section), chunk));
        let (before, after) = (place(from), place(to));
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.residents.remove(&before);
        }
        if let Some(after) = after {
            self.residents.insert(after);
        }
    }

    /// The invariants, for the tests of those who use it.
    #[cfg(test)]
    pub fn check(&self) {
        let sections = || (0..self.sections.len()).map(|chunk| (chunk, self.get(chunk)));
        let mut active = self.active.clone();
        active.sort_unstable();
        let counts = sections().filter(|(_, section)| section.writes > 0 || section.ewma > SmallFloat::ZERO);
        assert!(active.iter().copied().eq(counts.map(|(chunk, _)| chunk)), "{active:?}");
        let on_tier = || sections().filter(|(_, section)| section.place == Place::Tier);
        let residents: BTreeSet<_> = on_tier()
            .filter(|(chunk, _)| *chunk > 0)
            .map(|(chunk, section)| ((self.rank)(section), chunk))
            .collect();
        assert!(self.residents == residents);
        assert_eq!(self.used(), on_tier().count());
    }
}
