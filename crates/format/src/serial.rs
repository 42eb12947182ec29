//! The serial types of a record's values (file format, section 2.1).

/// Bytes of a value in its record; `None` for the two types that SQLite has reserved.
pub fn value_bytes(serial: u64) -> Option<usize> {
    Some(match serial {
        0 | 8 | 9 => 0,
        1..=4 => serial as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => usize::try_from((serial - 12) / 2).ok()?,
    })
}

/// The integer of a serial type at the beginning of the bytes; `None` for other types.
pub fn integer(serial: u64, bytes: &[u8]) -> Option<i64> {
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
