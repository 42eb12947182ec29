//! The header and the trailer of a file.
//!
//! ```text
//!  0 "LTX1"                                  40 zeros                              u64
//!  4 flags: 2                        u32     48 offset and bytes in the -wal   u64 u64
//!  8 bytes of a page                 u32     64 salts of the -wal             u32 u32
//! 12 pages of the database after     u32     72 the node that wrote it            u64
//! 16 first and last transaction  u64 u64     80 checksum of the database before    u64
//! 32 time, ms since 1970             u64     88 checksum of the database after     u64
//! ```
//!
//! LTX has places for the two checksums, behind the time and in the trailer, and flag 2 says that they are empty. Litestream 0.5 sets the flag,
//! and cannot restore files without it. It leaves the bytes from 80 on alone: litefoot's checksums stand there, and Litestream's files have zeros.
//!
//! The magic says 1 in version 3 as well. litefoot leaves the fields of the `-wal` empty: a shipment comes from any journal mode.

use crate::{Checksum, Error, Result, TxId};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 100;
/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = 16;

const MAGIC: &[u8; 4] = b"LTX1";
const UNTRACKED: u32 = 1 << 1;
/// The byte whose page no database has: SQLite's locks are there.
const PENDING_BYTE: u32 = 0x4000_0000;

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// False where the checksums of the database are not tracked, as in Litestream's own files.
    pub tracked: bool,
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages of the database after these transactions.
    pub pages: u32,
    /// The first transaction.
    pub min: TxId,
    /// The last transaction.
    pub max: TxId,
    /// The time of the last transaction, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The checksum of the database before the first transaction.
    pub before: Checksum,
    /// The checksum of the database after the last transaction.
    pub after: Checksum,
    /// The place in the `-wal` that the pages came from, and its salts; zeros where they did not.
    pub wal: Wal,
    /// The program that wrote it, or 0.
    pub node: u64,
}

/// The place in a `-wal` that Litestream notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wal {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The salts of its header.
    pub salts: [u32; 2],
}

/// True for a page size of SQLite's.
pub fn is_page_size(bytes: u32) -> bool {
    (512..=65_536).contains(&bytes) && bytes.is_power_of_two()
}

/// The page that no database has.
pub fn lock_page(page_size: u32) -> u32 {
    PENDING_BYTE / page_size + 1
}

impl Header {
    /// True for a file with all pages of the database.
    pub fn is_snapshot(&self) -> bool {
        self.min.get() == 1
    }

    /// Says what is wrong with it.
    pub fn validate(&self) -> std::result::Result<(), &'static str> {
        let wal = &self.wal;
        match () {
            () if !is_page_size(self.page_size) => Err("the page size is none of SQLite's"),
            () if self.min.get() == 0 => Err("there is no transaction 0"),
            () if self.max < self.min => Err("the transactions are out of order"),
            () if wal.offset == 0 && *wal != Wal::default() => Err("a log without an offset"),
            () if self.is_snapshot() && self.before.is_some() => {
                Err("a whole database with a checksum before it")
            }
            () if !self.tracked && self.before.is_some() => {
                Err("a checksum of the database that is not tracked")
            }
            () if self.tracked && !self.is_snapshot() && !self.before.is_some() => {
                Err("the checksum of the database before is missing")
            }
            () if !self.before.is_well_formed() => Err("the checksum of the database before is none"),
            () if self.tracked != self.after.is_some() => {
                Err("a checksum of the database after too much, or missing")
            }
            () if !self.after.is_well_formed() => Err("the checksum of the database after is none"),
            () => Ok(()),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        let [low, high] = self.wal.salts;
        for (at, number) in [(4, UNTRACKED), (8, self.page_size), (12, self.pages), (64, low), (68, high)] {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        for (at, number) in [
            (16, self.min.get()),
            (24, self.max.get()),
            (32, self.timestamp_ms),
            (48, self.wal.offset),
            (56, self.wal.bytes),
            (72, self.node),
            (80, self.before.bits()),
            (88, self.after.bits()),
        ] {
            bytes[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads it.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        if &bytes[..4] != MAGIC {
            return Err(Error::Malformed("it does not begin with LTX1"));
        }
        if u32_at(bytes, 4) != UNTRACKED || u64_at(bytes, 40) != 0 {
            return Err(Error::Malformed("it has checksums, or flags, that Litestream 0.5 does not write"));
        }
        let after = Checksum::from_bits(u64_at(bytes, 88));
        let header = Header {
            tracked: after.is_some(),
            page_size: u32_at(bytes, 8),
            pages: u32_at(bytes, 12),
            min: TxId::new(u64_at(bytes, 16)),
            max: TxId::new(u64_at(bytes, 24)),
            timestamp_ms: u64_at(bytes, 32),
            before: Checksum::from_bits(u64_at(bytes, 80)),
            after,
            wal: Wal {
                offset: u64_at(bytes, 48),
                bytes: u64_at(bytes, 56),
                salts: [u32_at(bytes, 64), u32_at(bytes, 68)],
            },
            node: u64_at(bytes, 72),
        };
        header.validate().map_err(Error::Malformed)?;
        Ok(header)
    }
}

/// The end of a file: eight zeros, and the checksum of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The checksum of the database after the transactions, of the header.
    pub after: Checksum,
    /// The checksum of the file.
    pub file: Checksum,
}

impl Trailer {
    /// Says what is wrong with it.
    pub fn validate(&self, header: &Header) -> std::result::Result<(), &'static str> {
        match () {
            () if header.after != self.after => Err("another checksum of the database than its header says"),
            () if !self.file.is_some() || !self.file.is_well_formed() => {
                Err("the checksum of the file is none")
            }
            () => Ok(()),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[8..].copy_from_slice(&self.file.bits().to_be_bytes());
        bytes
    }

    /// Reads that of a file with this header.
    pub fn decode(bytes: &[u8; TRAILER_BYTES], header: &Header) -> Trailer {
        let [own, file] = [0, 8].map(|at| Checksum::from_bits(u64_at(bytes, at)));
        // One that is here is one too much, which is told by its difference from the header's.
        Trailer { after: if own.is_some() { own } else { header.after }, file }
    }
}

/// A number in bytes that are long enough.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// A number in bytes that are long enough.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Header {
        Header {
            tracked: true,
            page_size: 4096,
            pages: 7,
            min: TxId::new(2),
            max: TxId::new(3),
            timestamp_ms: 1_700_000_000_123,
            before: Checksum::EMPTY,
            after: Checksum::EMPTY,
            wal: Wal { offset: 32, bytes: 4120, salts: [1, 2] },
            node: 9,
        }
    }

    #[test]
    fn a_header_comes_back() {
        let header = sound();
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        assert!(bytes[40..48].iter().chain(&bytes[96..]).all(|byte| *byte == 0));
    }

    #[test]
    fn what_no_file_may_say_is_refused() {
        let snapshot = Header { min: TxId::new(1), before: Checksum::NONE, ..sound() };
        assert_eq!(snapshot.validate(), Ok(()));
        let untracked = Header { tracked: false, before: Checksum::NONE, after: Checksum::NONE, ..sound() };
        assert_eq!(untracked.validate(), Ok(()));
        for wrong in [
            Header { page_size: 1000, ..sound() },
            Header { page_size: 131_072, ..sound() },
            Header { min: TxId::new(0), ..sound() },
            Header { min: TxId::new(4), ..sound() },
            Header { before: Checksum::NONE, ..sound() },
            Header { before: Checksum::from_bits(1), ..sound() },
            Header { tracked: false, after: Checksum::NONE, ..sound() },
            Header { after: Checksum::from_bits(1), ..sound() },
            Header { before: Checksum::EMPTY, ..snapshot },
            Header { wal: Wal { offset: 0, bytes: 1, salts: [0, 0] }, ..sound() },
            Header { wal: Wal { offset: 0, bytes: 0, salts: [1, 0] }, ..sound() },
        ] {
            assert!(wrong.validate().is_err() && Header::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
        let mut bytes = sound().encode();
        bytes[47] = 1;
        assert!(Header::decode(&bytes).is_err());
        bytes = sound().encode();
        bytes[7] |= 4;
        assert!(Header::decode(&bytes).is_err());
        bytes[0] = b'l';
        assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn no_database_has_the_page_of_the_locks() {
        for (page_size, page) in [(512, 2_097_153), (4096, 262_145), (65_536, 16_385)] {
            assert_eq!(lock_page(page_size), page);
        }
    }
}
