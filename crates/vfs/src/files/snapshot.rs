//! The pages of a connection's snapshot, for any number of threads at a time.
//!
//! # Why
//! SQLite reads by one thread for each connection. A scan reads pages by several, and they must be those that SQLite would
//! read in the transaction that is under way.
//!
//! # Invariants
//! 1. The connection is in a read transaction while a snapshot is made and used. In rollback-journal modes its SHARED lock keeps
//!    all writers from the file and from the rollback log. In WAL mode its read slot keeps the frames that it sees, and a
//!    checkpoint writes no page that it would not find in a frame.
//! 2. A connection that has written has pages of its own in SQLite's cache: it gets no snapshot.
//! 3. Where it is not certain which frames the connection sees, there is no snapshot.

use crate::db::{HEADER_BYTES, is_wal_mode, page_bytes_in};
use crate::files::main_db::MainFile;
use crate::open::OpenDatabase;
use crate::open::committed_pages::CommittedPages;
use crate::scan::PageReader;
use std::sync::Arc;

/// Where the header of a database has what a snapshot looks at.
const RESERVED: usize = 20;
const ENCODING: usize = 59;
const UTF_8: u8 = 1;

/// The pages that a transaction sees.
pub(crate) struct Snapshot {
    database: Arc<OpenDatabase>,
    committed: CommittedPages,
    usable_bytes: usize,
    pages: u32,
}

impl MainFile {
    /// The pages of the transaction that is under way.
    ///
    /// # Errors
    /// The reason that there are none, in words.
    pub(crate) fn snapshot(&mut self) -> std::result::Result<Snapshot, &'static str> {
        let db = self.database.db();
        if self.connection.internal || self.connection.handle().is_none() || self.connection.unlocked {
            return Err("the connection shares its cache, or takes no locks");
        }
        if !self.rollback_txn.is_none() || db.check_process().is_err() {
            return Err("the transaction writes, or is another process's");
        }
        let by_slots = self.slots.reads();
        if !by_slots && !self.connection.reader_slot.only_reads() {
            return Err("the connection does not read");
        }
        let not_known = "it is not known which commits the transaction sees";
        let mut frames = Vec::new();
        if by_slots {
            frames = self.database.wal_index().frames_of_reader(&self.slots).ok_or(not_known)?;
        }
        if !frames.is_empty() && self.is_beside_others() {
            return Err("another process may use the log");
        }
        let wal = if frames.is_empty() { None } else { Some(self.wal().ok_or(not_known)?) };
        let db = self.database.db();
        let len = db.file_len().map_err(|_| "the length of the file cannot be read")?;
        let page_bytes = db.page_bytes(len).map_err(|_| "the file cannot be read")?;
        if page_bytes == 0 {
            return Err("its page size is not known yet");
        }
        let last = frames.iter().map(|(_, page)| *page).max().unwrap_or(0);
        let pages = u32::try_from(len / page_bytes as u64).unwrap_or(u32::MAX).max(last);
        // Of several frames of a page, the last one stays.
        let frames = frames.into_iter().map(|(frame, page)| (page, frame)).collect();
        let database = self.database.clone();
        let committed = CommittedPages { wal, frames, page_bytes };
        let snapshot = Snapshot { database, committed, usable_bytes: page_bytes, pages };
        snapshot.check_header(by_slots)
    }
}

impl Snapshot {
    fn check_header(self, by_slots: bool) -> std::result::Result<Snapshot, &'static str> {
        let mut header = vec![0; self.committed.page_bytes];
        if !self.read(1, &mut header)
            || page_bytes_in(&header[..HEADER_BYTES]) as usize != self.committed.page_bytes
        {
            return Err("its header cannot be read");
        }
        if is_wal_mode(&header) && !by_slots {
            return Err("the connection has the log alone (locking_mode=EXCLUSIVE)");
        }
        if header[ENCODING] > UTF_8 {
            return Err("its texts are UTF-16");
        }
        let usable_bytes = self.committed.page_bytes - usize::from(header[RESERVED]);
        // SQLite refuses less.
        if usable_bytes < 480 {
            return Err("its header cannot be read");
        }
        Ok(Snapshot { usable_bytes, ..self })
    }
}

impl PageReader for Snapshot {
    fn page_bytes(&self) -> usize {
        self.committed.page_bytes
    }

    fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn read(&self, first: u32, buf: &mut [u8]) -> bool {
        self.committed.read(&self.database, first, buf)
    }

    fn read_ahead(&self, first: u32, count: u32) {
        if first == 0 {
            return;
        }
        let page_bytes = self.committed.page_bytes as u64;
        self.database
            .db()
            .data()
            .read_ahead(u64::from(first - 1) * page_bytes, u64::from(count) * page_bytes);
    }
}
