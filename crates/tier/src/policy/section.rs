//! The section table: 2 bytes for each chunk of 2 KiB (P-SQLITE, section IV.A, table I).
//!
//! ```text
//! 15   14 13        10 9         0
//! | place | writes     | EWMA      |
//!   0  UNUSED             nothing is known of the chunk
//!   1  USED, on flash
//!   2  CHANGE             on flash, and moves to the tier when it is next written
//!   3  USED, on the tier
//! ```
//!
//! State and device of the paper's table are one field: a chunk that is on the tier or unused is never to change.
//! `writes` are the transactions of the current period that have written the chunk, 15 at most.

use super::small_float::SmallFloat;

/// State and device of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Never written, as far as is known.
    Unused,
    /// On flash.
    Flash,
    /// On flash, and to be moved when it is next written.
    Change,
    /// On the tier.
    Tier,
}

/// The table's entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// State and device.
    pub place: Place,
    /// Transactions of the current period that have written it.
    pub writes: u8,
    /// Expected writes of a period.
    pub ewma: SmallFloat,
}

/// Most writes that a section counts.
pub const MOST_WRITES: u8 = 15;

const WRITES_SHIFT: u32 = SmallFloat::BITS;
const PLACE_SHIFT: u32 = 14;

impl Section {
    const UNUSED: Section = Section { place: Place::Unused, writes: 0, ewma: SmallFloat::ZERO };

    fn encode(self) -> u16 {
        let place = match self.place {
            Place::Unused => 0,
            Place::Flash => 1,
            Place::Change => 2,
            Place::Tier => 3,
        };
        place << PLACE_SHIFT | u16::from(self.writes.min(MOST_WRITES)) << WRITES_SHIFT | self.ewma.bits()
    }

    fn decode(bits: u16) -> Section {
        let place = match bits >> PLACE_SHIFT {
            0 => Place::Unused,
            1 => Place::Flash,
            2 => Place::Change,
            _ => Place::Tier,
        };
        let writes = (bits >> WRITES_SHIFT) as u8 & MOST_WRITES;
        Section { place, writes, ewma: SmallFloat::from_bits(bits) }
    }
}

/// The table. It grows with the chunks that it is told of.
#[derive(Clone, Debug, Default)]
pub struct SectionTable {
    sections: Vec<u16>,
}

impl SectionTable {
    /// The section of a chunk.
    pub fn get(&self, chunk: u32) -> Section {
        self.sections.get(chunk as usize).map_or(Section::UNUSED, |bits| Section::decode(*bits))
    }

    /// Changes the section of a chunk.
    pub fn set(&mut self, chunk: u32, section: Section) {
        let place = chunk as usize;
        if self.sections.len() <= place {
            self.sections.resize(place + 1, Section::UNUSED.encode());
        }
        self.sections[place] = section.encode();
    }

    /// Forgets all chunks from `first` on.
    pub fn cut(&mut self, first: u32) {
        self.sections.truncate(first as usize);
    }

    /// Chunks that it has sections of: all from 0 on.
    pub fn len(&self) -> u32 {
        u32::try_from(self.sections.len()).unwrap_or(u32::MAX)
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Bytes of memory that the sections take.
    pub fn bytes(&self) -> usize {
        self.sections.len() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bytes_hold_every_section() {
        let mut table = SectionTable::default();
        let mut chunk = 0;
        for place in [Place::Unused, Place::Flash, Place::Change, Place::Tier] {
            for writes in 0..=MOST_WRITES {
                for ewma in [0.0, 1e-9, 0.89, 4.99, 15.75] {
                    let section = Section { place, writes, ewma: SmallFloat::new(ewma) };
                    table.set(chunk, section);
                    assert_eq!(table.get(chunk), section);
                    chunk += 1;
                }
            }
        }
        assert_eq!(table.bytes(), 2 * chunk as usize);
        assert_eq!(table.get(chunk), Section::UNUSED);
        table.cut(3);
        assert_eq!((table.get(3), table.bytes()), (Section::UNUSED, 6));
    }
}
