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

/// The headers that one thread has met.
pub(super) struct Headers {
    /// Each header, with zeros behind it; 0 for none.
    keys: Vec<u128>,
    /// Where the last wanted value ends.
    ends: Vec<usize>,
    /// The wanted values' fields, for each place, and for one header more that is too long.
    fields: Vec<Field>,
    width: usize,
}

impl Headers {
    pub(super) fn new(slots: &[Slot]) -> Headers {
        let width = slots.len();
        let fields = vec![Field::default(); (PLACES + 1) * width];
        Headers { keys: vec![0; PLACES], ends: vec![0; PLACES], fields, width }
    }

    /// The wanted values of a record of `payload` bytes, of which `bytes` are the first; `None` where they end behind these.
    #[inline]
    pub(super) fn locate(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        payload: usize,
        slots: &[Slot],
    ) -> Result<Option<&[Field]>, Odd> {
        if layout.is_empty() {
            return Ok(Some(&[]));
        }
        let key = key(bytes);
        let place = key.map_or(PLACES, place);
        let own = place * self.width..(place + 1) * self.width;
        let is_known = key.is_some_and(|key| self.keys[place] == key && self.ends[place] <= bytes.len());
        if !is_known {
            let fields = self.fields.get_mut(own.clone()).unwrap_or_default();
            let end = layout.locate(bytes, payload, slots, fields)?;
            if let Some(key) = key {
                (self.keys[place], self.ends[place]) = (end.map_or(0, |_| key), end.unwrap_or(0));
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
    let header = usize::from(bytes[0]);
    let unused = 8 * KEY_BYTES.checked_sub(header)? as u32;
    (header > 0).then(|| word << unused >> unused)
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
                        let value = |fields, slot| {
                            Row { rowid: 1, bytes: &record, fields, slots: &slots }.value(slot)
                        };
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
            assert_eq!(
                Row { rowid: 1, bytes: &record, fields, slots: &slots }.value(0),
                Value::Text(&[b'b'; 16])
            );
        }
    }
}
