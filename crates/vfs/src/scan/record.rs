//! Leaves of a table's b-tree, their cells and records (<https://www.sqlite.org/fileformat2.html>, sections 1.6 and 2.1).
//!
//! # Invariant
//! Where a column's value lies is checked when the record is met ([`Layout::locate`]). So looks at values need no answer
//! for wrong bytes, and none of them leaves the page.

use super::plan::{Place, Slot};
use crate::ffi::statement::Value;
use litefoot_format::cell::local_bytes;
use litefoot_format::number::{be16, be32, varint};
use litefoot_format::page::{FILE_HEADER_BYTES, TABLE_INTERIOR, TABLE_LEAF};

/// The reason that SQLite has to run a statement after all.
pub(super) type Odd = &'static str;

pub(super) const CORRUPT: Odd = "a page is not what it should be";
const DEFAULT: Odd = "a row is older than a column with a default";

/// A page of a table's b-tree.
pub(super) enum Node<'a> {
    Leaf(Leaf<'a>),
    Interior(Interior<'a>),
}

impl<'a> Node<'a> {
    /// Reads the header of a page, of whose bytes as many are given as b-trees use.
    pub(super) fn new(number: u32, page: &'a [u8]) -> Result<Node<'a>, Odd> {
        let at = if number == 1 { FILE_HEADER_BYTES } else { 0 };
        let kind = *page.get(at).ok_or(CORRUPT)?;
        let header = if kind == TABLE_LEAF { 8 } else { 12 };
        let count = be16(page, at + 3).ok_or(CORRUPT)?;
        let pointers = page.get(at + header..at + header + 2 * count).ok_or(CORRUPT)?.as_chunks::<2>().0;
        match kind {
            TABLE_LEAF => Ok(Node::Leaf(Leaf { page, pointers })),
            TABLE_INTERIOR => {
                let right = be32(page, at + 8).ok_or(CORRUPT)?;
                Ok(Node::Interior(Interior { page, pointers, right }))
            }
            _ => Err(CORRUPT),
        }
    }
}

pub(super) struct Interior<'a> {
    page: &'a [u8],
    pointers: &'a [[u8; 2]],
    right: u32,
}

impl Interior<'_> {
    /// The children in the order of their rowids.
    pub(super) fn children(&self, children: &mut Vec<u32>) -> Result<(), Odd> {
        for pointer in self.pointers {
            children.push(be32(self.page, usize::from(u16::from_be_bytes(*pointer))).ok_or(CORRUPT)?);
        }
        children.push(self.right);
        Ok(())
    }
}

pub(super) struct Leaf<'a> {
    page: &'a [u8],
    pointers: &'a [[u8; 2]],
}

/// A row of a leaf, before its record is looked into.
pub(super) struct Cell<'a> {
    pub(super) rowid: i64,
    /// Bytes of the record.
    pub(super) payload: usize,
    /// Those of them that are on the page.
    pub(super) local: &'a [u8],
    /// The first page with the others; 0 for none.
    pub(super) overflow: u32,
}

impl<'a> Leaf<'a> {
    /// Its number of rows.
    pub(super) fn count(&self) -> usize {
        self.pointers.len()
    }

    /// A row; its rowid is 0 unless it is wanted.
    #[inline(always)]
    pub(super) fn cell(&self, number: usize, wants_rowid: bool) -> Result<Cell<'a>, Odd> {
        let pointer = self.pointers.get(number).ok_or(CORRUPT)?;
        let cell = self.page.get(usize::from(u16::from_be_bytes(*pointer))..).ok_or(CORRUPT)?;
        match short_cell(cell, wants_rowid) {
            Some(found) => Ok(found),
            None => self.any_cell(cell),
        }
    }

    fn any_cell(&self, cell: &'a [u8]) -> Result<Cell<'a>, Odd> {
        let (payload, rest) = varint(cell).ok_or(CORRUPT)?;
        let (rowid, rest) = rowid(rest).ok_or(CORRUPT)?;
        let payload = usize::try_from(payload).map_err(|_| CORRUPT)?;
        let local = local_bytes(payload as u64, self.page.len(), true);
        let (local_part, rest) = rest.split_at_checked(local).ok_or(CORRUPT)?;
        let overflow = if local == payload { 0 } else { be32(rest, 0).ok_or(CORRUPT)? };
        Ok(Cell { rowid: rowid as i64, payload, local: local_part, overflow })
    }
}

/// A cell whose record has less than 128 bytes, which are all on the page, and whose two numbers take 8 bytes at most. Nothing
/// depends on how many these are but an address.
#[inline(always)]
fn short_cell(cell: &[u8], wants_rowid: bool) -> Option<Cell<'_>> {
    const GO_ON: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*cell.first_chunk()?);
    // The highest bit of each byte that is a number's last one.
    let ends = !word & GO_ON;
    let of_rowid = ends & ends.wrapping_sub(1);
    if word & 0x80 != 0 || of_rowid == 0 {
        return None;
    }
    let (payload, start) = ((word & 0x7f) as usize, of_rowid.trailing_zeros() as usize / 8 + 1);
    let local = cell.get(start..start + payload)?;
    let rowid = if wants_rowid { rowid(&cell[1..])?.0 as i64 } else { 0 };
    Some(Cell { rowid, payload, local, overflow: 0 })
}

/// An integer of variable length that is likely to be large, and what is behind it.
#[inline(always)]
fn rowid(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let low = |byte: u8| u64::from(byte & 0x7f);
    match bytes {
        [one, two, three, rest @ ..] if one & two & 0x80 != 0 && *three < 0x80 => {
            Some((low(*one) << 14 | low(*two) << 7 | low(*three), rest))
        }
        [one, two, three, four, rest @ ..] if one & two & three & 0x80 != 0 && *four < 0x80 => {
            Some((low(*one) << 21 | low(*two) << 14 | low(*three) << 7 | low(*four), rest))
        }
        _ => varint(bytes),
    }
}

/// A column's value in a record: its serial type, or one of the types below, and where it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    serial: u32,
    start: u32,
}

/// The rowid, in the place of a serial type that SQLite has reserved.
const ROWID: u32 = 10;
/// Beside a serial type of integers: the column is one for reals.
const AS_REAL: u32 = 1 << 31;

/// The columns of a record that a statement wants.
#[derive(Debug)]
pub(super) struct Layout {
    /// Their places in the record, ascending, with their slots, and true where the column is one for reals.
    wanted: Vec<(usize, usize, bool)>,
    /// True where a slot is the rowid.
    pub(super) has_rowid: bool,
}

const SIZES: [u8; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];

impl Layout {
    pub(super) fn new(slots: &[Slot]) -> Layout {
        let place = |(slot, of): (usize, &Slot)| match of.place {
            Place::Record { index, is_real, .. } => Some((index, slot, is_real)),
            Place::Rowid => None,
        };
        let mut wanted: Vec<_> = slots.iter().enumerate().filter_map(place).collect();
        wanted.sort_unstable();
        Layout { wanted, has_rowid: slots.iter().any(|slot| slot.place == Place::Rowid) }
    }

    /// The fields of a row in which nothing was looked for yet.
    pub(super) fn fields(slots: &[Slot]) -> Vec<Field> {
        let serial = |slot: &Slot| if slot.place == Place::Rowid { ROWID } else { 0 };
        slots.iter().map(|slot| Field { serial: serial(slot), start: 0 }).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Finds the wanted values of a record of `payload` bytes, of which `bytes` are the first; answers where the last one ends, and
    /// `None` where that is behind these bytes.
    pub(super) fn locate(
        &self,
        bytes: &[u8],
        payload: usize,
        slots: &[Slot],
        fields: &mut [Field],
    ) -> Result<Option<usize>, Odd> {
        let (header, rest) = varint(bytes).ok_or(CORRUPT)?;
        let header = usize::try_from(header).ok().filter(|header| *header <= payload).ok_or(CORRUPT)?;
        let header_rest = header.checked_sub(bytes.len() - rest.len()).ok_or(CORRUPT)?;
        let Some(mut serials) = rest.get(..header_rest) else { return Ok(None) };
        let (mut index, mut start, mut last) = (0, header, header);
        for (place, slot, is_real) in &self.wanted {
            let field = fields.get_mut(*slot).ok_or(CORRUPT)?;
            // The same column may be wanted in two slots.
            let (serial, size) = loop {
                if serials.is_empty() {
                    break (0, 0);
                }
                let (serial, rest) = varint(serials).ok_or(CORRUPT)?;
                let size = match serial {
                    0..10 => usize::from(SIZES[serial as usize]),
                    10 | 11 => return Err(CORRUPT),
                    12..0x7fff_ffff => (serial - 12) as usize / 2,
                    _ => return Err(CORRUPT),
                };
                if index == *place {
                    break (serial as u32, size);
                }
                (serials, index, start) = (rest, index + 1, start.saturating_add(size));
            };
            if serials.is_empty() && has_default(slots, *slot) {
                return Err(DEFAULT);
            }
            let end = start.saturating_add(size);
            if end > payload {
                return Err(CORRUPT);
            }
            if end > bytes.len() {
                return Ok(None);
            }
            last = end;
            let is_integer = matches!(serial, 1..=6 | 8 | 9);
            let serial = if *is_real && is_integer { serial | AS_REAL } else { serial };
            *field = Field { serial, start: start as u32 };
        }
        Ok(Some(last))
    }
}

#[cold]
fn has_default(slots: &[Slot], slot: usize) -> bool {
    slots.get(slot).is_none_or(|slot| matches!(slot.place, Place::Record { has_default: true, .. }))
}

/// A row whose wanted values were found.
pub(super) struct Row<'a> {
    pub(super) rowid: i64,
    pub(super) bytes: &'a [u8],
    pub(super) fields: &'a [Field],
}

impl<'a> Row<'a> {
    /// The value of a slot.
    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> Value<'a> {
        self.field(self.fields[slot])
    }

    #[inline(always)]
    fn field(&self, field: Field) -> Value<'a> {
        let from = self.bytes.get(field.start as usize..).unwrap_or_default();
        match field.serial {
            1 => integer::<1>(from),
            2 => integer::<2>(from),
            3 => integer::<3>(from),
            4 => integer::<4>(from),
            5 => integer::<6>(from),
            6 => integer::<8>(from),
            7 => match from.first_chunk() {
                Some(bytes) => real(f64::from_be_bytes(*bytes)),
                None => Value::Null,
            },
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            ROWID => Value::Integer(self.rowid),
            serial @ 12..AS_REAL => {
                let bytes = from.get(..(serial - 12) as usize / 2).unwrap_or_default();
                if serial & 1 == 1 { Value::Text(bytes) } else { Value::Blob(bytes) }
            }
            AS_REAL.. => self.as_real(field),
            _ => Value::Null,
        }
    }

    /// An integer in a column for reals.
    #[inline(never)]
    fn as_real(&self, field: Field) -> Value<'a> {
        match self.field(Field { serial: field.serial & !AS_REAL, ..field }) {
            Value::Integer(number) => Value::Real(number as f64),
            value => value,
        }
    }
}

/// SQLite takes a stored NaN for NULL.
fn real(number: f64) -> Value<'static> {
    if number.is_nan() { Value::Null } else { Value::Real(number) }
}

#[inline(always)]
fn integer<const N: usize>(from: &[u8]) -> Value<'static> {
    let Some(bytes) = from.first_chunk::<N>() else { return Value::Null };
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1i64 };
    Value::Integer(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::value::Collation;

    fn slot(index: usize, has_default: bool) -> Slot {
        Slot {
            place: Place::Record { index, is_real: false, has_default },
            affinity: crate::scan::plan::Affinity::Blob,
            collation: Collation::Binary,
        }
    }

    #[test]
    fn values_of_all_serial_types_are_read() {
        let slots: Vec<Slot> = (0..12).map(|index| slot(index, false)).collect();
        let mut record = vec![12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 12];
        record[0] = record.len() as u8;
        record.extend([0xff]);
        record.extend([0x01, 0x00]);
        record.extend([0xff, 0xff, 0xfe]);
        record.extend([0x7f, 0xff, 0xff, 0xff]);
        record.extend([0x80, 0, 0, 0, 0, 0]);
        record.extend(i64::MIN.to_be_bytes());
        record.extend(1.5f64.to_be_bytes());
        record.extend(b"a");
        let mut fields = vec![Field::default(); 12];
        let layout = Layout::new(&slots);
        assert!(matches!(layout.locate(&record, record.len(), &slots, &mut fields), Ok(Some(_))));
        let row = Row { rowid: 1, bytes: &record, fields: &fields };
        let values: Vec<_> = (0..12).map(|slot| row.value(slot)).collect();
        use Value::*;
        assert_eq!(
            values,
            [
                Null,
                Integer(-1),
                Integer(256),
                Integer(-2),
                Integer(0x7fff_ffff),
                Integer(-(1 << 47)),
                Integer(i64::MIN),
                Real(1.5),
                Integer(0),
                Integer(1),
                Text(b"a"),
                Blob(b"")
            ]
        );
        for cut in 0..record.len() {
            let found = layout.locate(&record[..cut], record.len(), &slots, &mut fields);
            assert!(matches!(found, Ok(None) | Err(_)), "{cut}");
        }
    }

    #[test]
    fn a_short_cell_is_as_any_other() {
        let mut random = litefoot_sim::Random::new(23);
        let mut short = 0;
        for _ in 0..20_000 {
            let mut page: Vec<u8> = (0..600).map(|_| random.below(256) as u8).collect();
            // Short numbers are seldom among random bytes.
            if random.one_in(2) {
                page[0] &= 0x7f;
            }
            let leaf = Leaf { page: &page, pointers: &[[0, 0]] };
            let (found, expected) = (leaf.cell(0, true), leaf.any_cell(&page));
            short += usize::from(short_cell(&page, true).is_some());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(
                    (found.rowid, found.payload, found.local, found.overflow),
                    (expected.rowid, expected.payload, expected.local, expected.overflow)
                ),
                (found, expected) => assert_eq!(found.is_err(), expected.is_err()),
            }
        }
        assert!(short > 5000, "{short}");
    }

    #[test]
    fn an_integer_of_a_column_for_reals_is_one_and_a_rowid_is_the_cells() {
        let of = |place| Slot { place, ..slot(0, false) };
        let real = |index| of(Place::Record { index, is_real: true, has_default: false });
        let slots = [real(0), real(1), of(Place::Rowid)];
        let record = [3, 1, 9, 0xfe];
        let mut fields = Layout::fields(&slots);
        let layout = Layout::new(&slots);
        assert!(layout.has_rowid);
        assert!(matches!(layout.locate(&record, record.len(), &slots, &mut fields), Ok(Some(_))));
        let row = Row { rowid: 77, bytes: &record, fields: &fields };
        let values: Vec<_> = (0..3).map(|slot| row.value(slot)).collect();
        assert_eq!(values, [Value::Real(-2.0), Value::Real(1.0), Value::Integer(77)]);
    }

    #[test]
    fn a_short_record_has_nulls_or_is_left_to_sqlite() {
        let record = [2, 9];
        let mut fields = vec![Field::default(); 1];
        for (has_default, is_found) in [(false, true), (true, false)] {
            let slots = [slot(1, has_default)];
            let found = Layout::new(&slots).locate(&record, 2, &slots, &mut fields);
            assert_eq!(found.is_ok(), is_found);
        }
        let row = Row { rowid: 1, bytes: &record, fields: &fields };
        assert_eq!(row.value(0), Value::Null);
    }

    #[test]
    fn wrong_bytes_are_no_panic_and_no_look_outside() {
        let mut random = litefoot_sim::Random::new(7);
        let slots: Vec<Slot> = (0..4).map(|index| slot(index, false)).collect();
        let layout = Layout::new(&slots);
        let mut fields = vec![Field::default(); 4];
        for _ in 0..20_000 {
            let mut page: Vec<u8> = (0..512).map(|_| random.below(256) as u8).collect();
            page[0] = [TABLE_LEAF, TABLE_INTERIOR][random.below(2) as usize];
            page[3] = 0;
            match Node::new(2, &page) {
                Ok(Node::Leaf(leaf)) => {
                    for number in 0..leaf.count() {
                        let Ok(cell) = leaf.cell(number, true) else { continue };
                        assert!(cell.local.len() <= 512);
                        let found = layout.locate(cell.local, cell.payload, &slots, &mut fields);
                        if matches!(found, Ok(Some(_))) {
                            let row = Row { rowid: 1, bytes: cell.local, fields: &fields };
                            (0..4).for_each(|slot| _ = row.value(slot));
                        }
                    }
                }
                Ok(Node::Interior(interior)) => _ = interior.children(&mut Vec::new()),
                Err(_) => {}
            }
        }
    }
}
