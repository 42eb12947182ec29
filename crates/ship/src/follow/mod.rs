//! A copy that keeps up with a backup, and that others read meanwhile.
//!
//! # What it promises
//! 1. The copy is a database of SQLite in rollback-journal mode. Its readers take SQLite's own locks, and each sees one delivery, whole.
//! 2. A kill or a power cut at any point leaves the copy at one delivery: any SQLite, or this program, rolls the unfinished one back.
//! 3. What is written is compared with the checksums of the backup before.
//! 4. The copy differs from the database at the place in the header only: journal mode and change counter are the copy's own.
//!
//! # How
//! The next delivery has a name that is known, so a look is one request. Where it is not there, the place is listed now and then: a
//! compaction may have merged it. The pages of what came are written under SQLite's exclusive lock, behind a rollback journal.
//! Where somebody else wrote to the copy, or files are missing that lead from it to the newest, the whole backup is fetched, and the pages that differ
//! are written.
//!
//! | file | decides |
//! |---|---|
//! | `change` | how pages are written, so that a power cut rolls them back |
//! | `copy` | the copy under its lock, and whether somebody else wrote to it |
//! | `state` | where the copy stands, in a file beside it |

mod change;
mod copy;
mod state;

use crate::restore::{Plan, Replace, Target, Until, plan, restore_to};
use crate::source::PageMap;
use crate::store::{FileName, Store};
use crate::{Error, Result};
use change::Change;
use copy::Written;
use litefoot_ltx::{Checksum, Decoder, Level, TxId};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks between two listings.
const LISTED_EVERY: u32 = 60;
/// The largest part of a file that the first request asks for.
const FIRST_BYTES: u64 = 256 << 10;
/// Most bytes of files that are applied at once. What is more is fetched as a whole database.
const APPLIED_BYTES: u64 = 64 << 20;

/// Where a copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last transaction in it.
    pub transaction: u64,
    /// The time of that, in milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// A copy, and the place that it follows.
pub struct Follower {
    store: Arc<dyn Store>,
    path: PathBuf,
    known: Option<Known>,
    looks: u32,
}

/// The copy as this process knows it.
struct Known {
    position: Position,
    /// The pages as the place has them.
    map: PageMap,
    /// The first page as the copy has it, with a header of its own.
    first: Vec<u8>,
}

impl Follower {
    /// A copy at a path. Nothing is asked or written yet.
    pub fn new(store: Arc<dyn Store>, path: &Path) -> Follower {
        Follower { store, path: path.to_owned(), known: None, looks: 0 }
    }

    /// Where the copy stands; `None` before the first look.
    pub fn position(&self) -> Option<Position> {
        self.known.as_ref().map(|known| known.position)
    }

    /// One look: `true` where the copy has moved.
    ///
    /// # Errors
    /// The copy stays at its delivery, and the next look tries again.
    pub fn look(&mut self) -> Result<bool> {
        let Some(known) = &self.known else { return self.begin() };
        let next = known.position.transaction + 1;
        let name = FileName { level: Level::SHIPMENTS, min: TxId::new(next), max: TxId::new(next) };
        let files = match self.fetch(name)? {
            Some(bytes) => vec![bytes],
            None => {
                self.looks += 1;
                if self.looks % LISTED_EVERY != 1 {
                    return Ok(false);
                }
                match self.listed(next - 1)? {
                    Some(files) if files.is_empty() => return Ok(false),
                    Some(files) => files,
                    None => return self.refresh(),
                }
            }
        };
        match self.step(&files) {
            Ok(Some((known, change))) => self.write(known, &change),
            // The files do not lead on from this copy.
            Ok(None) | Err(Error::Damaged { .. }) => self.refresh(),
            Err(error) => Err(error),
        }
    }

    /// The first look: finds out where the copy stands, or makes it.
    fn begin(&mut self) -> Result<bool> {
        let state = state::load(&self.path)?;
        if !self.path.exists() {
            self.make(Replace::Never)?;
            return Ok(true);
        }
        let Some(state) = state else {
            return Err(Error::Refused {
                place: self.path.display().to_string(),
                why: "is there, and is no copy that follows a backup; name a new file".into(),
            });
        };
        let (rest, first) = copy::read(&self.path, state.page_size)?;
        for stands in [Some(state.now), state.before].into_iter().flatten() {
            let mut map = rest.clone();
            map.set(1, stands.first);
            if map.sum() == stands.sum && Checksum::of_page(1, &first) == stands.own {
                self.known = Some(Known { position: stands.position, map, first });
                return self.look();
            }
        }
        self.refresh()
    }

    /// Fetches one file; `None` where it is not there.
    fn fetch(&self, name: FileName) -> Result<Option<Vec<u8>>> {
        let Some(mut bytes) = self.store.get(name, 0..FIRST_BYTES)? else { return Ok(None) };
        while bytes.len() as u64 >= FIRST_BYTES {
            let at = bytes.len() as u64;
            let Some(more) = self.store.get(name, at..at + APPLIED_BYTES)? else { return Ok(None) };
            if more.is_empty() {
                break;
            }
            bytes.extend(more);
        }
        Ok(Some(bytes))
    }

    /// The files that lead from a transaction to the newest; `None` where there are none, or too many.
    fn listed(&self, after: u64) -> Result<Option<Vec<Vec<u8>>>> {
        let Plan { files, .. } = match plan(&*self.store, Until::Latest, Some(after)) {
            Err(Error::Damaged { .. }) => return Ok(None),
            found => found?,
        };
        if files.iter().map(|file| file.bytes).sum::<u64>() > APPLIED_BYTES {
            return Ok(None);
        }
        // One that goes meanwhile was merged: the next listing has the merged one.
        let fetched =
            files.into_iter().map(|file| self.fetch(file.name)).collect::<Result<Option<Vec<_>>>>()?;
        Ok(Some(fetched.unwrap_or_default()))
    }

    /// What files come to; `None` where they do not lead on from here.
    fn step(&self, files: &[Vec<u8>]) -> Result<Option<(Known, Change)>> {
        let Some(known) = &self.known else { return Ok(None) };
        let (mut map, mut position) = (known.map.clone(), known.position);
        let mut pages = BTreeMap::new();
        for bytes in files {
            let damaged = |error: litefoot_ltx::Error| Error::Damaged {
                place: self.store.place().to_owned(),
                why: error.to_string(),
            };
            let mut decoder = Decoder::new(bytes.as_slice()).map_err(damaged)?;
            let header = decoder.header().clone();
            let follows =
                header.min.get() <= position.transaction + 1 && header.max.get() > position.transaction;
            let is_next = header.min.get() == position.transaction + 1;
            let is_of_this = !is_next || !header.before.is_some() || header.before == map.sum();
            if header.page_size != map.page_size() || !follows || !is_of_this {
                return Ok(None);
            }
            map.resize(map.len().min(header.pages));
            let mut data = vec![0; header.page_size as usize];
            while let Some(page) = decoder.page(&mut data).map_err(damaged)? {
                map.set(page, Checksum::of_page(page, &data));
                pages.insert(page, data.clone());
            }
            map.resize(header.pages);
            pages.retain(|page, _| *page <= header.pages);
            let trailer = decoder.finish().map_err(damaged)?;
            if trailer.after.is_some() && trailer.after != map.sum() {
                return Ok(None);
            }
            position = Position { transaction: header.max.get(), timestamp_ms: header.timestamp_ms };
        }
        let mut first = pages.remove(&1).unwrap_or_else(|| known.first.clone());
        copy::own(&mut first, map.len(), copy::counter(&known.first).wrapping_add(1));
        pages.insert(1, first.clone());
        let change = Change { page_bytes: map.page_size() as usize, count: map.len(), pages };
        Ok(Some((Known { position, map, first }, change)))
    }

    /// Writes a change to the copy, unless somebody else has written to it.
    fn write(&mut self, known: Known, change: &Change) -> Result<bool> {
        let Some(before) = &self.known else { return Ok(false) };
        state::save(&self.path, &state::State::of(&known, Some(before)))?;
        match copy::write(&self.path, before.map.len(), &before.first, change)? {
            Written::Yes => {
                self.known = Some(known);
                Ok(true)
            }
            Written::NotOurs => self.refresh(),
        }
    }

    /// Makes the copy anew.
    fn make(&mut self, replace: Replace) -> Result<()> {
        let target = Target::new(&self.path, replace)?;
        let unfinished = target.begin()?;
        let mut known = self.restore(unfinished.file())?;
        known.first = copy::begin(unfinished.file(), &self.path, known.map.page_size(), known.map.len())?;
        state::save(&self.path, &state::State::of(&known, None))?;
        unfinished.publish(&target)?;
        self.known = Some(known);
        Ok(())
    }

    /// Fetches the whole backup into a file.
    fn restore(&self, file: &File) -> Result<Known> {
        let restored = restore_to(&*self.store, Until::Latest, file, &|_, _| Ok(()))?;
        let position = Position { transaction: restored.last.get(), timestamp_ms: restored.timestamp_ms };
        let page_size = copy::page_size(file, &self.path)?;
        Ok(Known { position, map: copy::map_of(file, &self.path, page_size)?, first: Vec::new() })
    }

    /// Fetches the whole backup, and writes what differs. Readers keep their connections.
    fn refresh(&mut self) -> Result<bool> {
        let directory =
            self.path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let file = tempfile::tempfile_in(directory).map_err(|error| Error::local(directory, error))?;
        let mut known = self.restore(&file)?;
        let (page_size, count) = (known.map.page_size(), known.map.len());
        copy::replace(&self.path, &file, page_size, count, |first| {
            known.first = first;
            state::save(&self.path, &state::State::of(&known, None))
        })?;
        self.known = Some(known);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
