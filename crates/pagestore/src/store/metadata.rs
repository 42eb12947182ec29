//! The metadata file: what the data file beside it is.
//!
//! ```text
//!   0   8  magic "lf-store"
//!   8   4  version, 1
//!  12   4  bytes of a page
//!  16   4  groups: pages of the allocation table
//!  20   4  CRC-32C of the 20 bytes before
//! ```
//!
//! Little-endian. It lies in one sector, so that a rewrite in place is whole or did not happen.

use super::PAGE_SIZES;

const MAGIC: &[u8; 8] = b"lf-store";
const VERSION: u32 = 1;

/// Bytes of the file.
pub(crate) const BYTES: usize = 24;

/// The content of the metadata file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages of the allocation table, at least.
    pub groups: u32,
}

impl Metadata {
    /// The bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.groups.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the bytes, or says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Metadata, String> {
        if bytes.len() != BYTES {
            return Err(format!("the metadata file has {} bytes instead of {BYTES}", bytes.len()));
        }
        if &bytes[..8] != MAGIC {
            return Err("this is no metadata file of a page store".to_owned());
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(20) != crc32c::crc32c(&bytes[..20]) {
            return Err("the metadata file's checksum does not fit".to_owned());
        }
        if word(8) != VERSION {
            return Err(format!("the store has version {}, this program knows {VERSION}", word(8)));
        }
        let metadata = Metadata { page_size: word(12), groups: word(16) };
        if !PAGE_SIZES.contains(&(metadata.page_size as usize)) || metadata.groups == 0 {
            return Err(format!("the metadata file says {metadata:?}, which cannot be"));
        }
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_every_changed_bit_is_seen() {
        let metadata = Metadata { page_size: 16_384, groups: 3 };
        let bytes = metadata.encode();
        assert_eq!(Metadata::decode(&bytes), Ok(metadata));
        for bit in 0..BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Metadata::decode(&changed).is_err(), "bit {bit}");
        }
        assert!(Metadata::decode(&bytes[..BYTES - 1]).is_err());
        assert!(Metadata::decode(&Metadata { page_size: 512, groups: 1 }.encode()).is_err());
    }
}
