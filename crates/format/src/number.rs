//! Big-endian numbers, and SQLite's integer of variable length (file format, section 1.6).

/// Two bytes, big-endian.
pub fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(two.try_into().ok()?)))
}

/// Four bytes, big-endian.
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// SQLite's integer of variable length, 1 to 9 bytes, and what is behind it.
#[inline(always)]
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [one, rest @ ..] if *one < 0x80 => Some((u64::from(*one), rest)),
        [one, two, rest @ ..] if *two < 0x80 => Some((u64::from(one & 0x7f) << 7 | u64::from(*two), rest)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        if place == 8 {
            return Some((value << 8 | u64::from(*byte), &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

/// Appends an integer of variable length.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value >> 56 != 0 {
        out.extend((0..8).map(|place| (value >> (57 - 7 * place)) as u8 | 0x80));
        // The ninth byte has eight bits.
        out.push(value as u8);
        return;
    }
    let more = (1..8).filter(|place| value >> (7 * place) != 0).count();
    out.extend((1..=more).rev().map(|place| (value >> (7 * place)) as u8 | 0x80));
    out.push(value as u8 & 0x7f);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_sqlite_reads_them() {
        for (bytes, value) in [
            (&[0][..], Some((0, 1))),
            (&[0x7f, 9], Some((127, 1))),
            (&[0x81, 0], Some((128, 2))),
            (&[0x81, 0x80, 1], Some((16385, 3))),
            (&[0xff; 9], Some((u64::MAX, 9))),
            (&[0xff; 8], None),
            (&[0x80], None),
            (&[], None),
        ] {
            let found = varint(bytes).map(|(value, rest)| (value, bytes.len() - rest.len()));
            assert_eq!(found, value, "{bytes:?}");
        }
    }

    #[test]
    fn varints_are_written_in_as_few_bytes_as_there_can_be() {
        for bits in 0..64 {
            for value in [(1 << bits) - 1, 1 << bits, (1 << bits) | 1, u64::MAX >> (63 - bits)] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(varint(&bytes), Some((value, &[][..])), "{value:#x}");
                let expected =
                    if value >> 56 != 0 { 9 } else { (64 - value.leading_zeros()).div_ceil(7).max(1) };
                assert_eq!(bytes.len() as u32, expected, "{value:#x}");
            }
        }
    }
}
