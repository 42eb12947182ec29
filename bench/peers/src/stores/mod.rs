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

use crate::round::{Outcome, Row, Store};
use std::path::Path;

/// A store that was built in.
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// The package whose version counts.
    pub package: &'static str,
    /// Opens it.
    pub open: fn(&Path) -> Outcome<Box<dyn Store>>,
    /// Opens it for several threads, where it is measured with them.
    pub share: Option<Share>,
}

type Share = fn(&Path) -> Outcome<Box<dyn Shared>>;

/// A store that several threads write.
pub trait Shared: Sync {
    /// Stores rows in one transaction, which is durable afterwards.
    fn write(&self, rows: &[Row]) -> Outcome<()>;
}

/// Those that were built in.
pub const ALL: &[Known] = &[
    #[cfg(feature = "redb")]
    Known { name: "redb", package: "redb", open: redb::open, share: Some(redb::share) },
    #[cfg(feature = "lmdb")]
    Known { name: "lmdb", package: "heed", open: lmdb::open, share: None },
    #[cfg(feature = "fjall")]
    Known { name: "fjall", package: "fjall", open: fjall::open, share: Some(fjall::share) },
    #[cfg(feature = "rocksdb")]
    Known { name: "rocksdb", package: "librocksdb-sys", open: rocksdb::open, share: Some(rocksdb::share) },
    #[cfg(feature = "libsql")]
    Known { name: "libsql", package: "libsql", open: libsql::open, share: None },
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
