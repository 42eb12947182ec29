//! Checksums of files, of pages, and of whole databases: CRC-64/GO-ISO with the highest bit set.

use crc_fast::CrcAlgorithm::Crc64GoIso;
use std::fmt;

/// The bit that every checksum has, so that none is 0.
const FLAG: u64 = 1 << 63;

/// A checksum, or [`Checksum::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checksum(u64);

impl Checksum {
    /// No checksum: it is not tracked.
    pub const NONE: Checksum = Checksum(0);
    /// That of a database without pages.
    pub const EMPTY: Checksum = Checksum(FLAG);

    /// That of one page in its place.
    pub fn of_page(page: u32, data: &[u8]) -> Checksum {
        let mut digest = Digest::default();
        digest.update(&page.to_be_bytes());
        digest.update(data);
        digest.checksum()
    }

    /// Takes a page into the checksum of a database, or out of it.
    #[must_use]
    pub fn toggle(self, page: Checksum) -> Checksum {
        Checksum(FLAG | (self.0 ^ page.0))
    }

    /// The number, as a file has it.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The checksum that a file has there, whatever it is.
    pub fn from_bits(bits: u64) -> Checksum {
        Checksum(bits)
    }

    /// True if there is one.
    pub fn is_some(self) -> bool {
        self != Checksum::NONE
    }

    /// True if this is none, or has the bit that all have.
    pub fn is_well_formed(self) -> bool {
        !self.is_some() || self.0 & FLAG != 0
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A checksum in the making.
#[derive(Clone, Debug)]
pub struct Digest {
    digest: crc_fast::Digest,
    bytes: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest { digest: crc_fast::Digest::new(Crc64GoIso), bytes: 0 }
    }
}

impl Digest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Adds the bytes of another one behind those of this one.
    pub fn append(&mut self, next: &Digest) {
        self.digest.combine(&next.digest);
        self.bytes += next.bytes;
    }

    /// The checksum of what was added.
    pub fn checksum(&self) -> Checksum {
        Checksum(FLAG | self.digest.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit, as the definition says.
    fn by_definition(bytes: &[u8]) -> u64 {
        let mut crc = !0_u64;
        for byte in bytes {
            crc ^= u64::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xd800_0000_0000_0000 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn it_is_the_checksum_of_the_catalogue() {
        assert_eq!(by_definition(b"123456789"), 0xb909_56c7_75a4_1001);
        let mut digest = Digest::default();
        digest.update(b"123456789");
        assert_eq!(digest.checksum().bits(), 0xb909_56c7_75a4_1001);
    }

    #[test]
    fn a_page_goes_in_and_out() {
        let [old, new] = [Checksum::of_page(7, &[1; 512]), Checksum::of_page(7, &[2; 512])];
        let database = Checksum::EMPTY.toggle(Checksum::of_page(1, &[0; 512])).toggle(old);
        let after = database.toggle(old).toggle(new);
        assert_ne!(after, database);
        assert_eq!(after.toggle(new).toggle(old), database);
        assert!(after.is_well_formed() && after.is_some() && !Checksum::from_bits(5).is_well_formed());
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..5000), cut in any::<prop::sample::Index>()) {
            let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
            let [mut whole, mut left, mut right] = [(); 3].map(|()| Digest::default());
            whole.update(&bytes);
            left.update(head);
            right.update(tail);
            left.append(&right);
            prop_assert_eq!(whole.checksum().bits(), FLAG | by_definition(&bytes));
            prop_assert_eq!(left.checksum(), whole.checksum());
        }
    }
}
