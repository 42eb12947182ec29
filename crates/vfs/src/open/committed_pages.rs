//! The pages of a moment that was committed: from the file, the rollback log, or frames of the log.
//!
//! # Invariants
//! 1. The moment is held meanwhile: by the lock or the slot of a reader, or since nobody writes.
//! 2. Nothing is read through a connection, so any thread may read.

use crate::cache::read_committed;
use crate::commit::wal::Wal;
use crate::open::OpenDatabase;
use crate::sync::wal_index::offset_of_page;
use std::collections::HashMap;
use std::sync::Arc;

/// The pages of one moment of a database.
pub(crate) struct CommittedPages {
    pub wal: Option<Arc<Wal>>,
    /// By page number: the newest frame of the moment.
    pub frames: HashMap<u32, u32>,
    pub page_bytes: usize,
}

impl CommittedPages {
    /// Reads pages that follow one another; `false` where that fails.
    pub(crate) fn read(&self, database: &OpenDatabase, first: u32, buf: &mut [u8]) -> bool {
        let page_bytes = self.page_bytes;
        let mut page = first;
        let mut rest = buf;
        while rest.len() >= page_bytes {
            let in_file = self.pages_in_file(page, rest.len() / page_bytes);
            let pages = in_file.max(1);
            let (part, behind) = rest.split_at_mut(pages * page_bytes);
            let is_read = match self.frames.get(&page) {
                Some(frame) if in_file == 0 => self.read_frame(database, *frame, part),
                _ => read_file(database, part, u64::from(page - 1) * page_bytes as u64),
            };
            if !is_read {
                return false;
            }
            (page, rest) = (page.saturating_add(pages as u32), behind);
        }
        true
    }

    /// How many pages from a number on are in no frame, up to a limit.
    fn pages_in_file(&self, first: u32, most: usize) -> usize {
        if self.frames.is_empty() {
            return most;
        }
        (first..).take(most).take_while(|page| !self.frames.contains_key(page)).count()
    }

    fn read_frame(&self, database: &OpenDatabase, frame: u32, buf: &mut [u8]) -> bool {
        let offset = offset_of_page(frame, self.page_bytes);
        let read = |wal: &Arc<Wal>| wal.read(database.db(), buf, offset);
        self.wal.as_ref().map(read).is_some_and(|read| read.is_ok_and(|read| read == self.page_bytes))
    }
}

/// Reads what the database file and the rollback log have.
fn read_file(database: &OpenDatabase, buf: &mut [u8], offset: u64) -> bool {
    let db = database.db();
    if db.shared().is_multi_process() {
        return db.data().read_at(buf, offset).is_ok_and(|read| read == buf.len());
    }
    read_committed(db, &**database.rollback_log(), buf, offset).is_ok()
}
