//! The stores, one file each. Their names, duties and durability are those of litefoot's `experiments/peers/stores.rs`.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "libsql")]
mod libsql;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use crate::round::{Outcome, Store};
use std::path::Path;

/// A store's name, its package, and how it is opened.
pub type Known = (&'static str, &'static str, fn(&Path) -> Outcome<Box<dyn Store>>);

/// Those that were built in.
pub const ALL: &[Known] = &[
    #[cfg(feature = "redb")]
    ("redb", "redb", redb::open),
    #[cfg(feature = "lmdb")]
    ("lmdb", "heed", lmdb::open),
    #[cfg(feature = "fjall")]
    ("fjall", "fjall", fjall::open),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", "librocksdb-sys", rocksdb::open),
    #[cfg(feature = "libsql")]
    ("libsql", "libsql", libsql::open),
];

/// Rows and index entries as bytes, for stores that know nothing else.
#[cfg(any(feature = "fjall", feature = "lmdb", feature = "rocksdb"))]
mod bytes {
    use crate::round::{Found, Outcome, Row};

    /// In the order of ids.
    pub fn key(id: i64) -> [u8; 8] {
        id.to_be_bytes()
    }

    /// In the order of numbers, then of ids.
    pub fn index_key(row: &Row) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(row.number ^ i64::MIN).to_be_bytes());
        key[8..].copy_from_slice(&row.id.to_be_bytes());
        key
    }

    /// Integer, double, text.
    pub fn value(row: &Row) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + row.text.len());
        bytes.extend_from_slice(&row.number.to_le_bytes());
        bytes.extend_from_slice(&row.value.to_le_bytes());
        bytes.extend_from_slice(row.text.as_bytes());
        bytes
    }

    /// The row in the bytes of [`key`] and [`value`].
    pub fn found<'a>(key: &[u8], value: &'a [u8]) -> Outcome<Found<'a>> {
        let (number, rest) = value.split_first_chunk().ok_or("a value is too short")?;
        let (double, text) = rest.split_first_chunk().ok_or("a value is too short")?;
        Ok(Found {
            id: i64::from_be_bytes(key.try_into()?),
            text,
            number: i64::from_le_bytes(*number),
            value: f64::from_le_bytes(*double),
        })
    }
}
