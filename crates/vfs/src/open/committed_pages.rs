//! The pages of a moment that was committed: from the file, the rollback log, or frames of the log.
//!
//! # Invariants
//! 1. The moment is held meanwhile: by the lock or the slot of a reader, or since nobody writes.
//! 2. Nothing is read through a connection, so any thread may read.

use crate::cache::read_committed;
use crate::commit::wal::Wal;
use crate::open::OpenDatabase;
use std::collections::HashMap;
use std::sync::Arc;

/// The header of the log, and of each of its frames (<https://www.sqlite.org/walformat.html>).
const WAL_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// The pages of one moment.
pub(crate) struct CommittedPages<'a> {
    pub database: &'a OpenDatabase,
    pub source: &'a PageSources,
}

/// Where the pages of one moment are.
pub(crate) struct PageSources {
    pub wal: Option<Arc<Wal>>,
    /// By page number: the newest frame of the moment.
    pub frames: HashMap<u32, u32>,
    pub page_bytes: usize,
}

impl CommittedPages<'_> {
    /// Reads pages that follow one another; `false` where that fails.
    pub(crate) fn read(&self, first: u32, buf: &mut [u8]) -> bool {
        let page_bytes = self.source.page_bytes;
        let mut page = first;
        let mut rest = buf;
        while rest.len() >= page_bytes {
            let in_file = self.pages_in_file(page, rest.len() / page_bytes);
            let pages = in_file.max(1);
            let (part, behind) = rest.split_at_mut(pages * page_bytes);
            let is_read = match self.source.frames.get(&page) {
                Some(frame) if in_file == 0 => self.read_frame(*frame, part),
                _ => self.read_file(part, u64::from(page - 1) * page_bytes as u64),
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
        let frames = &self.source.frames;
        if frames.is_empty() {
            return most;
        }
        (first..).take(most).take_while(|page| !frames.contains_key(page)).count()
    }

    /// Reads what the database file and the rollback log have.
    fn read_file(&self, buf: &mut [u8], offset: u64) -> bool {
        let db = self.database.db();
        if db.shared().is_multi_process() {
            return db.data().read_at(buf, offset).is_ok_and(|read| read == buf.len());
        }
        read_committed(db, &**self.database.rollback_log(), buf, offset).is_ok()
    }

    fn read_frame(&self, frame: u32, buf: &mut [u8]) -> bool {
        let page_bytes = self.source.page_bytes;
        let offset = WAL_HEADER + u64::from(frame - 1) * (FRAME_HEADER + page_bytes as u64) + FRAME_HEADER;
        let read = |wal: &Arc<Wal>| wal.read(self.database.db(), buf, offset);
        self.source.wal.as_ref().map(read).is_some_and(|read| read.is_ok_and(|read| read == page_bytes))
    }
}
