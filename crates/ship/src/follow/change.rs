//! Pages are written to a copy whole or not at all, also where power is lost.
//!
//! The order is SQLite's: the pages as they were are durable in a rollback journal, then the copy is written, then it is durable, and then the
//! journal is void. Any SQLite that finds the journal before that rolls the copy back.

use litefoot_storage::file::{File, Medium, Result, SyncLatch, beside};
use litefoot_storage::rollback_journal::{Before, RollbackJournal, may_stay};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Pages as they are at a later moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages of the database then.
    pub count: u32,
    /// Those that are another, by number.
    pub pages: BTreeMap<u32, Vec<u8>>,
}

/// Writes a change. The caller has the lock that keeps readers out, and nothing is hot.
pub fn apply(medium: &dyn Medium, path: &Path, file: &dyn File, change: &Change) -> Result<()> {
    let size = change.page_bytes as u64;
    let old_count = (file.len()? / size) as u32;
    let offset = |page: u32| u64::from(page - 1) * size;
    // Pages behind a smaller end go with it.
    let changed = change.pages.keys().copied().chain(change.count + 1..=old_count);
    let mut pages = Vec::new();
    for page in changed.filter(|page| *page <= old_count) {
        let mut data = vec![0; change.page_bytes];
        file.read_at(&mut data, offset(page))?;
        pages.push((page, data));
    }
    let before = Before { page_bytes: change.page_bytes, database_pages: old_count, pages: &pages };
    let mut journal = open_journal(medium, &beside(path, "-journal"))?;
    journal.begin(medium, &before)?;
    for (page, data) in &change.pages {
        file.write_at(data, offset(*page))?;
    }
    file.set_len(offset(change.count + 1))?;
    file.sync()?;
    journal.end()?;
    if !may_stay(pages.len(), change.page_bytes) {
        journal.delete(medium)?;
    }
    Ok(())
}

/// The journal beside a copy. One that is not this program's is void: nothing is hot.
fn open_journal(medium: &dyn Medium, path: &Path) -> Result<RollbackJournal> {
    let latch = Arc::<SyncLatch>::default();
    if let Some(found) = RollbackJournal::find(medium, path, latch.clone())? {
        return Ok(found);
    }
    if medium.info(path)?.is_some() {
        medium.delete(path)?;
    }
    RollbackJournal::create(medium, path, latch)
}
