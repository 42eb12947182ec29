//! Headers of records that were met before, and where the wanted values lie behind them.
//!
//! The records of a table have few different headers: types, and lengths of texts. Where the values lie follows from the header
//! alone, so a known one is compared, in two words, and not read again.
//!
//! # Invariant
//! A place has the fields of the header that is its key. That they lie within the record is looked at for each record.

use super::plan::Slot;
use super::record::{Field, Layout, Odd};

/// Headers that are kept, a power of two; two with the same place take turns.
const PLACES: usize = 128;
/// Bytes of the longest header that is kept.
const KEY_BYTES: usize = size_of::<u128>();

/// A header that was met.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The header, with zeros behind it; 0 for none.
    key: u128,
    /// Where the last wanted value ends.
    end: usize,
}

/// The headers that one thread has met.
pub(super) struct Headers {
    known: Box<[Known; PLACES]>,
    /// The wanted values' fields, for each place, and for one header more that is too long.
    fields: Vec<Field>,
    width: usize,
}

/// By the length of a header: its bytes in the word that it begins.
const MASKS: [u128; KEY_BYTES + 1] = {
    let mut masks = [u128::MAX; KEY_BYTES + 1];
    let mut length = 0;
    while length < KEY_BYTES {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

impl Headers {
    pub(super) fn new(slots: &[Slot]) -> Headers {
        let fields = Layout::fields(slots).repeat(PLACES + 1);
        Headers { known: Box::new([Known::default(); PLACES]), fields, width: slots.len() }
    }

    /// The wanted values of a record of `payload` bytes, of which `bytes` are the first; `None` where they end behind these.
    #[inline(always)]
    pub(super) fn locate(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        payload: usize,
        slots: &[Slot],
    ) -> Result<Option<&[Field]>, Odd> {
        if let Some(key) = key(bytes) {
            let place = place(key);
            let known = &self.known[place];
            if known.key == key && known.end <= bytes.len() {
                return Ok(self.fields.get(place * self.width..(place + 1) * self.width));
            }
        }
        self.meet(layout, bytes, payload, slots)
    }

    /// The same for a header that is not known.
    #[inline(never)]
    fn meet(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        payload: usize,
        slots: &[Slot],
    ) -> Result<Option<&[Field]>, Odd> {
        let key = key(bytes).filter(|_| !layout.is_empty());
        let place = key.map_or(PLACES, place);
        let own = place * self.width..(place + 1) * self.width;
        if !layout.is_empty() {
            let fields = self.fields.get_mut(own.clone()).unwrap_or_default();
            let end = layout.locate(bytes, payload, slots, fields)?;
            if let Some(key) = key {
                self.known[place] = end.map_or(Known::default(), |end| Known { key, end });
            }
            if end.is_none() {
                return Ok(None);
            }
        }
        Ok(self.fields.get(own))
    }
}

/// The header as a number; `None` where it is too long, or the record too short.
#[inline(always)]
fn key(bytes: &[u8]) -> Option<u128> {
    let word = u128::from_le_bytes(*bytes.first_chunk()?);
    let mask = MASKS.get(usize::from(word as u8))?;
    (word as u8 > 0).then_some(word & mask)
}

#[inline(always)]
fn place(key: u128) -> usize {
    let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(super::value::MIX);
    (mixed >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::statement::Value;
    use crate::scan::plan::{Affinity, Place};
    use crate::scan::record::Row;
    use crate::scan::value::Collation;

    fn slots(indexes: &[usize]) -> Vec<Slot> {
        let slot = |index: &usize| Slot {
            place: Place::Record { index: *index, is_real: false, has_default: false },
            affinity: Affinity::Blob,
            collation: Collation::Binary,
        };
        indexes.iter().map(slot).collect()
    }

    /// A record with texts of these lengths, each of letters of its own.
    fn record(lengths: &[usize]) -> Vec<u8> {
        let mut record = vec![1 + lengths.len() as u8];
        record.extend(lengths.iter().map(|length| (13 + 2 * length) as u8));
        for (number, length) in lengths.iter().enumerate() {
            record.extend(std::iter::repeat_n(b'a' + number as u8, *length));
        }
        record
    }

    #[test]
    fn a_known_header_gives_what_reading_it_gives() {
        let mut random = litefoot_sim::Random::new(11);
        for columns in [1, 3, 14, 15, 16, 40] {
            let slots = slots(&[columns - 1, 0, columns]);
            let layout = Layout::new(&slots);
            let mut headers = Headers::new(&slots);
            for _ in 0..2000 {
                let lengths: Vec<usize> = (0..columns).map(|_| random.below(4) as usize).collect();
                let record = record(&lengths);
                // Parts of a record, whose header may be known from a whole one.
                let given = record.len() - random.below(3).min(record.len() as u64) as usize;
                let mut fields = vec![Field::default(); slots.len()];
                let expected = layout.locate(&record[..given], record.len(), &slots, &mut fields);
                let found = headers.locate(&layout, &record[..given], record.len(), &slots);
                match (expected, found) {
                    (Ok(Some(_)), Ok(Some(found))) => {
                        let value = |fields, slot| Row { rowid: 1, bytes: &record, fields }.value(slot);
                        (0..3).for_each(|slot| assert_eq!(value(found, slot), value(&fields, slot)));
                        assert_eq!(value(found, 1), Value::Text(&vec![b'a'; lengths[0]]));
                    }
                    (expected, found) => assert_eq!(
                        (expected.is_err(), true),
                        (found.is_err(), found.is_err() || found == Ok(None))
                    ),
                }
            }
        }
    }

    #[test]
    fn headers_of_one_place_take_turns() {
        let slots = slots(&[1]);
        let layout = Layout::new(&slots);
        let mut headers = Headers::new(&slots);
        let of = |length: usize| record(&[length, 16]);
        let home = |length: usize| place(key(&of(length)).unwrap());
        let other = (1..50).find(|length| home(*length) == home(0)).unwrap();
        for length in [0, other, 0, other, other, 0] {
            let record = of(length);
            let fields = headers.locate(&layout, &record, record.len(), &slots).unwrap().unwrap();
            assert_eq!(Row { rowid: 1, bytes: &record, fields }.value(0), Value::Text(&[b'b'; 16]));
        }
    }
}
