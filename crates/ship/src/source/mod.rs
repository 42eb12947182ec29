//! The source: what changed in a database since the last delivery, as one moment, beside the application that writes it.
//!
//! | file | decides |
//! |---|---|
//! | `stamp` | has anything changed? Told without opening a file |
//! | `turn` | one visit at a time in this process |
//! | `visit` | how one moment is held and read, in each journal mode |
//! | `owner` | what a process on litefoot tells, so that no visit is needed |
//! | `steps` | transactions that it has told, for a history |
//! | `view` | the pages of one moment, by either |
//! | `wal_index` | which frames of a log are committed |
//! | `map` | a checksum for each page, as of the last delivery |
//! | `images` | pages as of the last delivery, for sinks that compare |
//! | `state` | the map in a file, across restarts |
//!
//! # How changed pages are found
//! In WAL mode the frames behind the last visit name them, as long as the log was not restarted meanwhile. Otherwise all pages are read
//! and compared with their checksums. In WAL mode nobody waits for that.
//! With a rollback journal writers would: a database of more than [`QUIET_BYTES`] is read without a lock first, and that counts if the file was not
//! written meanwhile.

mod images;
mod map;
pub mod owner;
mod scan;
mod stamp;
pub mod state;
mod steps;
mod turn;
mod view;
mod visit;
mod wal_index;

pub use images::{Images, Keep, KeepRule};
pub use map::PageMap;
pub use stamp::{Stamp, beside};
pub use visit::{Door, PlainDoor, Snapshot, Visit, explain};

use crate::{Error, Result};
use litefoot_ltx::Checksum;
use owner::{Looks, ToldView, Way};
use scan::Found;
use std::path::{Path, PathBuf};
use turn::Turn;
use view::View;
use visit::LogEnd;

/// Databases up to this size are read under the lock at once: that takes a few milliseconds.
pub const QUIET_BYTES: u64 = 32 << 20;
/// Times that a visit begins anew since the log was restarted, or its owner died.
const ATTEMPTS: u32 = 5;

/// A database whose changes are delivered.
pub struct Source {
    path: PathBuf,
    door: Box<dyn Door>,
    looks: Option<Looks>,
    map: Option<PageMap>,
    images: Option<Images>,
    /// True once `images` has what the rule wants of pages that did not change since this process began.
    has_images: bool,
    stamp: Option<Stamp>,
    log_end: Option<LogEnd>,
}

/// What changed, within a snapshot.
pub struct Changes<'a> {
    view: &'a dyn View,
    before: Option<&'a PageMap>,
    images: Option<&'a Images>,
    found: &'a Found,
}

impl Changes<'_> {
    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.view.page_size()
    }

    /// The number of pages.
    pub fn pages(&self) -> u32 {
        self.view.pages()
    }

    /// The pages as the destination has them; `None` where it has none of them, or pages of another size.
    pub fn before(&self) -> Option<&PageMap> {
        self.before
    }

    /// The pages as they are now.
    pub fn after(&self) -> &PageMap {
        &self.found.map
    }

    /// The checksum of the database as it is now.
    pub fn sum(&self) -> Checksum {
        self.found.map.sum()
    }

    /// The pages that are new or changed, ascending: all of them where the destination has none.
    pub fn changed(&self) -> &[u32] {
        &self.found.changed
    }

    /// When the one transaction was committed that made the changes, in milliseconds since 1970; `None` where these may be several.
    pub fn committed_ms(&self) -> Option<u64> {
        self.found.committed_ms
    }

    /// Reads any page as it is now.
    pub fn read(&self, page: u32, to: &mut [u8]) -> Result<()> {
        self.view.read(page, to)
    }

    /// A page as it was at the last delivery, where it was kept.
    pub fn image(&self, page: u32) -> Option<&[u8]> {
        self.images?.get(page)
    }
}

/// What an attempt came to.
struct Looked {
    found: Option<Found>,
    stamp: Stamp,
}

impl Looked {
    /// Ends the transaction in which something was found; `None` where the log was restarted under it.
    fn at(snapshot: &Snapshot<'_>, found: Found, visit: &Visit) -> Result<Option<Looked>> {
        let is_sound = snapshot.is_sound()?;
        visit.end()?;
        Ok(is_sound.then(|| Looked { found: Some(found), stamp: snapshot.stamp().clone() }))
    }
}

impl Source {
    /// A database, and its pages as the destination has them.
    pub fn new(path: &Path, door: Box<dyn Door>, known: Option<PageMap>) -> Source {
        Source {
            path: path.to_owned(),
            looks: door.owner().map(|owner| Looks::new(path, owner)),
            door,
            map: known,
            images: None,
            has_images: false,
            stamp: None,
            log_end: None,
        }
    }

    /// Keeps pages for [`Changes::image`].
    #[must_use]
    pub fn with_images(mut self, images: Option<Images>) -> Source {
        self.images = images;
        self
    }

    /// Looks at each transaction from now on, as far as the owner of the database tells them.
    #[must_use]
    pub fn with_history(mut self, is_wanted: bool) -> Source {
        if is_wanted {
            self.looks.iter_mut().for_each(Looks::want_history);
        }
        self
    }

    /// Takes the transactions that an owner keeps for a history; nothing is gathered.
    pub fn listen(&mut self) {
        self.looks.iter_mut().for_each(Looks::listen);
    }

    /// True if the next look finds a transaction that was told already.
    pub fn has_next(&self) -> bool {
        self.looks.as_ref().is_some_and(Looks::has_next)
    }

    /// The pages as of the last visit.
    pub fn map(&self) -> Option<&PageMap> {
        self.map.as_ref()
    }

    /// False if nothing is known to have been written since the last visit. The database is not opened. A write that times of files do not tell is
    /// looked for once their grain is over.
    pub fn may_have_changed(&self) -> Result<bool> {
        let Some(stamp) = self.stamp.as_ref().filter(|_| !self.has_next()) else { return Ok(true) };
        Ok(stamp.wants_look(&Stamp::take(&self.path)?))
    }

    /// Looks at the database. Where it changed, `gather` reads what it needs of it; where it fails, the change counts as not seen.
    ///
    /// `gather` may be called several times, each time from the beginning: the last one counts, and none does where the answer is not `true`. With
    /// `may_wait` a change may be left for a later look, where that costs the application less.
    pub fn look(
        &mut self,
        may_wait: bool,
        mut gather: impl FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<bool> {
        match self.look_through_owner(may_wait, &mut gather)? {
            Some(has_changed) => Ok(has_changed),
            None => self.visit(gather),
        }
    }

    /// Has the owner tell what changed. `None` where the database is to be visited.
    fn look_through_owner(
        &mut self,
        may_wait: bool,
        gather: &mut dyn FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<Option<bool>> {
        let Some(mut looks) = self.looks.take() else { return Ok(None) };
        let looked = self.ask(&mut looks, may_wait, gather);
        self.looks = Some(looks);
        looked
    }

    fn ask(
        &mut self,
        looks: &mut Looks,
        may_wait: bool,
        gather: &mut dyn FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<Option<bool>> {
        for _ in 0..ATTEMPTS {
            // First of all: what is written later is looked at later.
            let stamp = Stamp::take(&self.path)?;
            // To look for an owner may open the file.
            let turn = (!looks.is_connected()).then(|| Turn::take(&self.path));
            let way = looks.ask(self.map.as_ref(), may_wait);
            drop(turn);
            let moment = match way {
                Way::Through(moment) => moment,
                Way::Wait => return Ok(Some(false)),
                Way::Visit => return Ok(None),
            };
            let Some(found) = looks.find(moment, self.map.as_ref()) else { return Ok(None) };
            let images = self.images.as_ref();
            let gathered = self.gather_found(&ToldView { looks, moment, images }, found, gather);
            if looks.is_past() {
                continue;
            }
            let found = gathered?;
            looks.clear();
            self.stamp = Some(stamp);
            return Ok(Some(self.accept(found)));
        }
        Ok(None)
    }

    /// The same by opening it.
    pub fn visit(&mut self, mut gather: impl FnMut(&mut Changes<'_>) -> Result<()>) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let _turn = Turn::take(&self.path);
            let visit = Visit::open(&self.path, &*self.door)?;
            let looked = self.attempt(&visit, &mut gather)?;
            drop(visit);
            let Some(Looked { found, stamp }) = looked else { continue };
            self.stamp = Some(stamp);
            if let Some(looks) = &mut self.looks {
                looks.note_visit();
            }
            return Ok(found.is_some_and(|found| self.accept(found)));
        }
        Err(Error::Locked {
            path: self.path.clone(),
            why: "programs that use it come and go all the time".into(),
        })
    }

    /// One attempt: `None` where it has to begin anew.
    fn attempt(
        &self,
        visit: &Visit,
        gather: &mut dyn FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<Option<Looked>> {
        let Some(snapshot) = visit.begin(&*self.door)? else { return Ok(None) };
        let bytes = u64::from(snapshot.pages()) * u64::from(snapshot.page_size());
        if bytes == 0 {
            // A database that nobody has written yet.
            visit.end()?;
            return Ok(Some(Looked { found: None, stamp: snapshot.stamp().clone() }));
        }
        if snapshot.is_wal() || bytes <= QUIET_BYTES {
            let found = self.gather(&snapshot, gather)?;
            return Looked::at(&snapshot, found, visit);
        }
        // Without the lock. The number of pages is as of the stamp, which was taken under it.
        visit.end()?;
        let found = self.gather(&snapshot, gather)?;
        let Some(now) = visit.begin(&*self.door)? else { return Ok(None) };
        let is_quiet = !now.is_wal() && snapshot.stamp().tells_equal(now.stamp());
        let found = if is_quiet { found } else { self.gather(&now, gather)? };
        Looked::at(&now, found, visit)
    }

    /// Finds what changed, and has it read.
    fn gather(
        &self,
        snapshot: &Snapshot<'_>,
        gather: &mut dyn FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<Found> {
        let found = scan::find(snapshot, self.before(snapshot), self.log_end)?;
        self.gather_found(snapshot, found, gather)
    }

    /// The pages as of the last look, where they are comparable.
    fn before(&self, view: &dyn View) -> Option<&PageMap> {
        self.map.as_ref().filter(|map| map.page_size() == view.page_size())
    }

    /// Has read what was found.
    fn gather_found(
        &self,
        view: &dyn View,
        mut found: Found,
        gather: &mut dyn FnMut(&mut Changes<'_>) -> Result<()>,
    ) -> Result<Found> {
        let before = self.before(view);
        if before.is_some_and(|before| found.changed.is_empty() && before.len() == found.map.len()) {
            return Ok(found);
        }
        if let Some(images) = self.images.as_ref().filter(|_| !self.has_images) {
            found.loaded = Some(scan::load_images(view, before, &found, images)?);
        }
        let images = found.loaded.as_ref().or(self.images.as_ref());
        gather(&mut Changes { view, before, images, found: &found })?;
        if self.images.is_some() {
            found.read_images(view)?;
        }
        found.is_change = true;
        Ok(found)
    }

    /// The moment that was read is the last one from now on.
    fn accept(&mut self, found: Found) -> bool {
        if let Some(loaded) = found.loaded {
            self.images = Some(loaded);
            self.has_images = true;
        }
        if let Some(images) = &mut self.images {
            images.truncate(found.map.len());
            let size = found.map.page_size() as usize;
            for (page, data) in found.changed.iter().zip(found.images.chunks(size)) {
                images.note(*page, data);
            }
        }
        self.map = Some(found.map);
        self.log_end = found.log_end;
        found.is_change
    }
}

#[cfg(test)]
mod tests;
