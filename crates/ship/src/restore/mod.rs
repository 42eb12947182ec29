//! From a backup to a database.
//!
//! # What it promises
//! 1. The result is the database as it was behind one delivery, byte for byte, or there is none: checksums are compared before it gets its name.
//! 2. Pages go straight to their place. There is no file in between, and no page is written twice.
//! 3. A file that is there is not replaced, unless somebody said so.
//!
//! # How
//! The index of each file says which pages it has. The newest file that has a page wins. Then the files are fetched in pieces, at the same time, and each piece
//! unpacks and writes the pages that its file has won. Where the last file tracks the checksum of the database, that of the result must equal it,
//! and pieces that have won nothing are not fetched. Otherwise, as with backups of Litestream's, each file's own checksum is compared.

mod index;
mod pieces;
mod plan;
mod target;

pub use plan::{Plan, Until, header, older, plan};
pub use target::{Replace, Target};

use crate::store::Store;
use crate::{Error, Result};
use litefoot_ltx::{Checksum, TxId};
use std::fs::File;

/// Times that a plan is made anew since a compaction has taken files away.
const ATTEMPTS: u32 = 4;

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The last transaction in it.
    pub last: TxId,
    /// The time of that, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Bytes of the database.
    pub bytes: u64,
    /// Files that it was made of.
    pub files: usize,
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
    /// The checksum of the database, where it was tracked.
    pub sum: Checksum,
}

/// Hears how far it is: bytes that are done, and all. An error ends the work.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> Result<()> + Sync);

/// Restores a database, and gives it its name.
pub fn restore(store: &dyn Store, until: Until, target: &Target, progress: Progress<'_>) -> Result<Restored> {
    let unfinished = target.begin()?;
    let restored = restore_to(store, until, unfinished.file(), progress)?;
    unfinished.publish(target)?;
    Ok(restored)
}

/// Writes a database into a file.
pub fn restore_to(store: &dyn Store, until: Until, to: &File, progress: Progress<'_>) -> Result<Restored> {
    for _ in 0..ATTEMPTS {
        let plan = plan(store, until, None)?;
        to.set_len(0).map_err(|error| Error::local(std::path::Path::new("the database"), error))?;
        if let Some(restored) = attempt(store, &plan, to, progress)? {
            return Ok(restored);
        }
    }
    let why = "files go away while they are fetched: too many compactions at the same time; try again".into();
    Err(Error::Unreachable { place: store.place().to_owned(), why })
}

/// One attempt; `None` where a file has gone meanwhile.
fn attempt(store: &dyn Store, plan: &Plan, to: &File, progress: Progress<'_>) -> Result<Option<Restored>> {
    let Some(files) = index::fetch_all(store, plan)? else { return Ok(None) };
    let winners = index::winners(store, &files)?;
    let Some(done) = pieces::write_all(store, &files, &winners, to, progress)? else { return Ok(None) };
    let last = winners.last;
    let fetched_bytes = done.fetched_bytes + files.iter().map(|file| file.fetched_bytes).sum::<u64>();
    Ok(Some(Restored {
        last: last.header.max,
        timestamp_ms: last.header.timestamp_ms,
        bytes: u64::from(last.header.pages) * u64::from(last.header.page_size),
        files: files.len(),
        fetched_bytes,
        sum: last.trailer.after,
    }))
}

#[cfg(test)]
mod tests;
