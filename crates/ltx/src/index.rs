//! The index of pages: where in the file each one is, so that a single page can be read.
//!
//! ```text
//! page, offset, bytes   three varints (7 bits a byte, lowest first, the highest bit says: more) for each page, ascending
//! 0                     the end
//! bytes of all that     u64
//! ```

use crate::header::u64_at;
use crate::{Error, Result, TRAILER_BYTES};

/// The place of a page in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The page's number.
    pub page: u32,
    /// The first byte of its frame.
    pub offset: u64,
    /// The bytes of its frame, with its header.
    pub bytes: u64,
}

/// Writes a varint.
pub fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads a varint, and moves behind it.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Bytes that the index and the trailer take, from the last 24 bytes of a file. Behind its pages a reader fetches so many bytes,
/// and gives all but the trailer to [`parse_index`].
pub fn index_bytes(tail: &[u8; 8 + TRAILER_BYTES]) -> u64 {
    u64_at(tail, 0).saturating_add(tail.len() as u64)
}

/// Reads an index: its entries, their end, and the number of its bytes.
pub fn parse_index(bytes: &[u8]) -> Result<Vec<Entry>> {
    let whole = bytes.len().checked_sub(8).ok_or(Error::Malformed("its index is cut short"))?;
    if u64_at(bytes, whole) != whole as u64 {
        return Err(Error::Malformed("its index has another length"));
    }
    let mut rest = &bytes[..whole];
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let page = varint(&mut rest).ok_or(Error::Malformed("its index is cut short"))?;
        if page == 0 {
            break;
        }
        let page = u32::try_from(page).map_err(|_| Error::Malformed("its index has no page number"))?;
        let [Some(offset), Some(bytes)] = [varint(&mut rest), varint(&mut rest)] else {
            return Err(Error::Malformed("its index is cut short"));
        };
        if entries
            .last()
            .is_some_and(|last| last.page >= page || last.offset.checked_add(last.bytes) != Some(offset))
        {
            return Err(Error::Malformed("its index is out of order"));
        }
        entries.push(Entry { page, offset, bytes });
    }
    if !rest.is_empty() {
        return Err(Error::Malformed("its index goes on behind its end"));
    }
    Ok(entries)
}

/// Writes an index.
pub fn encode_index(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 8 + 9);
    for entry in entries {
        put_varint(&mut bytes, u64::from(entry.page));
        put_varint(&mut bytes, entry.offset);
        put_varint(&mut bytes, entry.bytes);
    }
    bytes.push(0);
    let whole = bytes.len() as u64;
    bytes.extend(whole.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_come_back_and_no_others_are_read() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((varint(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(varint(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(varint(&mut [0xff; 11].as_slice()), None);
        assert_eq!(varint(&mut [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2].as_slice()), None);
    }

    proptest! {
        #[test]
        fn an_index_comes_back(steps in proptest::collection::vec((1..1000_u32, 1..70_000_u64), 0..50)) {
            let (mut page, mut offset, mut entries) = (0, 100, Vec::new());
            for (step, bytes) in steps {
                page += step;
                entries.push(Entry { page, offset, bytes });
                offset += bytes;
            }
            let bytes = encode_index(&entries);
            prop_assert_eq!(parse_index(&bytes).unwrap(), entries);
            for len in 0..bytes.len() {
                prop_assert!(parse_index(&bytes[..len]).is_err(), "{}", len);
            }
        }

        #[test]
        fn hostile_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_index(&bytes);
        }
    }
}
