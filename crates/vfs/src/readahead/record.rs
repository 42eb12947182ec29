//! Cells and records, as far as reading ahead needs them: integers at the end of a record, and where a
//! payload leaves its page. (SQLite's file format, sections 1.6 and 2.1.)
//!
//! The bytes are not trusted, and may change between two looks: each look is bounds-checked by itself.

/// The most columns of a record that are looked at: beyond, the record is not understood.
const MOST_COLUMNS: usize = 64;

/// Two bytes, big-endian.
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(two.try_into().ok()?)))
}

/// Four bytes, big-endian.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// SQLite's variable-length integer: its value and its length, 1 to 9 bytes.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        if place == 8 {
            return Some((value << 8 | u64::from(*byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

/// Bytes of a column's value in the record.
fn value_bytes(serial: u64) -> Option<usize> {
    Some(match serial {
        0 | 8 | 9 => 0,
        1..=4 => serial as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => usize::try_from((serial - 12) / 2).ok()?,
    })
}

/// The last column of a record, if it is an integer: the rowid, in an index of a rowid table.
///
/// `record` begins with the record and may end before it does, where the rest lies on other pages.
pub(super) fn last_integer(record: &[u8]) -> Option<i64> {
    let (header, mut at) = varint(record)?;
    let header = usize::try_from(header).ok()?;
    let mut value = header;
    for _ in 0..MOST_COLUMNS {
        let (serial, length) = varint(record.get(at..header)?)?;
        at += length;
        if at == header {
            return integer(serial, record.get(value..)?);
        }
        value = value.checked_add(value_bytes(serial)?)?;
    }
    None
}

/// The integer of that serial type at the beginning of the bytes.
fn integer(serial: u64, bytes: &[u8]) -> Option<i64> {
    match serial {
        8 => return Some(0),
        9 => return Some(1),
        1..=6 => (),
        _ => return None,
    }
    let bytes = bytes.get(..value_bytes(serial)?)?;
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { -1 };
    Some(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
}

/// Bytes of a payload that lie in its cell, on a page with that many usable bytes; less than `payload` if the
/// rest is on overflow pages.
pub(super) fn local_bytes(payload: u64, usable: usize, table: bool) -> usize {
    let usable = usable.max(480);
    let most = if table { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    if payload <= most as u64 {
        return payload as usize;
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let even = least + ((payload - least as u64) % (usable as u64 - 4)) as usize;
    if even <= most { even } else { least }
}
