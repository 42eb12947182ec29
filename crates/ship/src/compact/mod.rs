//! Compaction: few files instead of many, at any machine that reaches the place.
//!
//! # What it promises
//! 1. Nothing is deleted before what replaces it is there, whole. A compaction that ends anywhere leaves a place that restores everything.
//! 2. Two compactions at the same time do each other no harm: names say what is in a file, and a name is used once.
//! 3. The shipper of the place need not know of it.

mod policy;
mod reader;

pub use policy::Retention;
use policy::{Old, Timed, WINDOWS, ages, superfluous, wants_snapshot, windows};

use crate::restore::{Until, header, older, plan};
use crate::store::{Body, FileName, Listed, Put, Store};
use crate::{Error, Result};
use litefoot_ltx::{Level, TxId, compact as merge};
use reader::Reader;
use std::path::Path;

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files that were written.
    pub written: usize,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Files that were deleted.
    pub deleted: usize,
}

/// Compacts a place, as of a time. Large files are made in a directory first.
pub fn compact(
    store: &dyn Store,
    retention: &Retention,
    now_ms: u64,
    scratch: &Path,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<Compacted> {
    let mut done = Compacted::default();
    let first = begin(store, scratch, &mut done)?;
    for (number, window) in WINDOWS {
        let (Some(below), Some(level)) = (Level::new(number - 1), Level::new(number)) else { continue };
        let last = store.list(level)?.last().map_or(first, |last| last.name.max);
        let files: Vec<Listed> = store.list(below)?.into_iter().filter(|file| file.name.max > last).collect();
        for group in windows(&timed(store, files)?, window, now_ms) {
            go_on()?;
            let files: Vec<Listed> = group.iter().map(|timed| timed.file).collect();
            write(store, level, &files, scratch, &mut done)?;
        }
    }
    let Ok(latest) = plan(store, Until::Latest, None) else {
        return Err(Error::Refused {
            place: store.place().to_owned(),
            why: "there is no whole backup here".into(),
        });
    };
    let time = |file: Option<&Listed>| -> Result<Option<u64>> {
        let header = file.map(|file| header(store, *file)).transpose()?.flatten();
        Ok(header.map(|header| header.timestamp_ms))
    };
    let last = time(store.list(Level::SNAPSHOTS)?.last())?;
    let newest = time(latest.files.last())?.unwrap_or_default();
    if latest.files.len() > 1 && wants_snapshot(last, newest, retention.snapshots) {
        go_on()?;
        write(store, Level::SNAPSHOTS, &latest.files, scratch, &mut done)?;
    }
    let levels = Level::all().map(|level| store.list(level)).collect::<Result<Vec<_>>>()?;
    let old = old(store, &levels, retention, now_ms)?;
    let names: Vec<FileName> = superfluous(&levels, &old).iter().map(|file| file.name).collect();
    store.delete(&names)?;
    done.deleted = names.len();
    Ok(done)
}

/// Makes the first file, which has all pages, a whole database. Levels 1 to 3 begin behind the first one, so that they have no copy of it each.
fn begin(store: &dyn Store, scratch: &Path, done: &mut Compacted) -> Result<TxId> {
    if let Some(whole) = store.list(Level::SNAPSHOTS)?.first() {
        return Ok(whole.name.max);
    }
    match store.list(Level::SHIPMENTS)?.first() {
        Some(first) if first.name.min.get() == 1 => {
            write(store, Level::SNAPSHOTS, &[*first], scratch, done)?;
            Ok(first.name.max)
        }
        _ => Ok(TxId::default()),
    }
}

/// Finds out what is old. Times ascend in each level, so that few files have to be asked.
fn old(store: &dyn Store, levels: &[Vec<Listed>], retention: &Retention, now_ms: u64) -> Result<Old> {
    let last_before = |level: u8, age: std::time::Duration| -> Result<Option<Listed>> {
        let files = levels.get(usize::from(level)).map_or(&[][..], Vec::as_slice);
        let before = now_ms.saturating_sub(age.as_millis() as u64);
        Ok(older(store, files, before)?.checked_sub(1).and_then(|last| files.get(last)).copied())
    };
    let mut old = Old { first: last_before(Level::SNAPSHOTS.get(), retention.history)?, ..Old::default() };
    for (level, age) in (1..).zip(ages(retention)) {
        old.merged[usize::from(level) - 1] =
            last_before(level, age)?.map_or(Default::default(), |file| file.name.max);
    }
    Ok(old)
}

/// The times of files. Those that went meanwhile are left out.
fn timed(store: &dyn Store, files: Vec<Listed>) -> Result<Vec<Timed>> {
    let mut timed = Vec::with_capacity(files.len());
    for file in files {
        if let Some(header) = header(store, file)? {
            timed.push(Timed { file, timestamp_ms: header.timestamp_ms });
        }
    }
    Ok(timed)
}

/// Merges files that follow one another to one of a level.
fn write(
    store: &dyn Store,
    level: Level,
    files: &[Listed],
    scratch: &Path,
    done: &mut Compacted,
) -> Result<()> {
    let damaged = |error: litefoot_ltx::Error| match error {
        litefoot_ltx::Error::Io(error) => {
            Error::Unreachable { place: store.place().to_owned(), why: error.to_string() }
        }
        other => Error::Damaged {
            place: store.place().to_owned(),
            why: format!("a file of {} cannot be merged: {other}", files[0].name.level.folder()),
        },
    };
    let readers: Vec<Reader<'_>> = files.iter().map(|file| Reader::new(store, *file)).collect();
    let (body, header, _) = merge(readers, Body::new(scratch)).map_err(damaged)?;
    let name = FileName { level, min: header.min, max: header.max };
    // Where it exists somebody else has merged the same.
    if store.put_new(name, &body, header.timestamp_ms)? == Put::Created {
        done.written += 1;
        done.written_bytes += body.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
