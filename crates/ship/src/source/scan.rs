//! Finding changed pages: by the frames of the log, or by comparing all pages with their checksums.

use super::view::View;
use super::{Images, PageMap, Snapshot};
use crate::Result;
use crate::source::visit::LogEnd;
use litefoot_ltx::{Checksum, lock_page};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What a look at a snapshot came to.
pub struct Found {
    /// The pages as they are now.
    pub map: PageMap,
    /// Those that are new or changed, ascending.
    pub changed: Vec<u32>,
    /// The end of the log, by which the next look begins.
    pub log_end: Option<LogEnd>,
    /// When it was committed, where it is one transaction of a history.
    pub committed_ms: Option<u64>,
    /// True if there is something to deliver.
    pub is_change: bool,
    /// Pages that did not change, of the first look of a process that keeps some.
    pub loaded: Option<Images>,
    /// The bytes of the changed pages, where somebody wants them.
    pub images: Vec<u8>,
}

impl Found {
    /// Nothing has changed yet.
    pub fn of(map: PageMap) -> Found {
        Found {
            map,
            changed: Vec::new(),
            log_end: None,
            committed_ms: None,
            is_change: false,
            loaded: None,
            images: Vec::new(),
        }
    }

    /// Reads the changed pages once more, for those that keep them.
    pub fn read_images(&mut self, snapshot: &dyn View) -> Result<()> {
        let size = snapshot.page_size() as usize;
        self.images.resize(self.changed.len() * size, 0);
        for (page, place) in self.changed.iter().zip(self.images.chunks_mut(size)) {
            snapshot.read(*page, place)?;
        }
        Ok(())
    }
}

/// Finds what changed since `before`, which was the database at `end` of its log.
pub fn find(snapshot: &Snapshot<'_>, before: Option<&PageMap>, end: Option<LogEnd>) -> Result<Found> {
    let mut found = Found::of(before.cloned().unwrap_or_else(|| PageMap::new(snapshot.page_size())));
    found.log_end = snapshot.log_end()?;
    let logged = match (before, end) {
        (Some(_), Some(end)) => snapshot.logged_since(end)?,
        _ => None,
    };
    match logged {
        Some(pages) => by_log(snapshot, &mut found, pages)?,
        None => by_comparison(snapshot, &mut found, 1)?,
    }
    Ok(found)
}

/// Keeps of the pages that are as they were at the last delivery those that a rule wants.
pub fn load_images(
    snapshot: &dyn View,
    before: Option<&PageMap>,
    found: &Found,
    rule: &Images,
) -> Result<Images> {
    let mut images = rule.emptied();
    let Some(before) = before else { return Ok(images) };
    let mut data = vec![0; snapshot.page_size() as usize];
    for page in 1..=snapshot.pages().min(before.len()) {
        if before.get(page).is_some() && before.get(page) == found.map.get(page) {
            snapshot.read(page, &mut data)?;
            images.note(page, &data);
        }
    }
    Ok(images)
}

/// Looks at pages that the log names, and at those behind the old end: SQLite writes no frame for a new page that is free.
fn by_log(snapshot: &Snapshot<'_>, found: &mut Found, pages: Vec<u32>) -> Result<()> {
    let old = found.map.len();
    let mut data = vec![0; snapshot.page_size() as usize];
    found.map.resize(old.min(snapshot.pages()));
    for page in pages.into_iter().filter(|page| *page <= old.min(snapshot.pages()) && *page > 0) {
        snapshot.read(page, &mut data)?;
        note(found, page, &data);
    }
    by_comparison(snapshot, found, old + 1)
}

/// Compares all pages from one on.
fn by_comparison(snapshot: &Snapshot<'_>, found: &mut Found, first: u32) -> Result<()> {
    let size = snapshot.page_size() as usize;
    let mut chunk = vec![0; CHUNK_BYTES.max(size)];
    let step = (chunk.len() / size) as u32;
    found.map.resize(snapshot.pages().min(found.map.len()));
    let mut page = first;
    while page <= snapshot.pages() {
        let pages = step.min(snapshot.pages() - page + 1);
        let bytes = &mut chunk[..pages as usize * size];
        snapshot.read(page, bytes)?;
        for (page, data) in (page..).zip(bytes.chunks(size)) {
            note(found, page, data);
        }
        page += pages;
    }
    // The page of the locks may be the last one, and has no checksum.
    found.map.resize(snapshot.pages());
    Ok(())
}

fn note(found: &mut Found, page: u32, data: &[u8]) {
    if page != lock_page(found.map.page_size()) && found.map.set(page, Checksum::of_page(page, data)) {
        found.changed.push(page);
    }
}
