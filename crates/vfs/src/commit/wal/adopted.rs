//! A transaction that another owner had, and that has died: this owner's log takes its pages (`files/group/wal_commits`).

use crate::commit::wal::Wal;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::memory::sqlite_cache::SqliteCacheSize;
use crate::txn::SpillTarget;
use crate::txn::wal_frames::WalFrames;
use litefoot_storage::sync::RwLockReadGuard;
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pages that the log and the file have. No commit is finished while this is there.
pub(crate) struct PresentPages<'a> {
    db: &'a Db,
    frames: RwLockReadGuard<'a, WalFrames>,
    newest: BTreeMap<u32, usize>,
}

impl Wal {
    /// The pages as they are now.
    pub(crate) fn present<'a>(&'a self, db: &'a Db) -> PresentPages<'a> {
        let frames = self.frames.read();
        PresentPages { db, newest: frames.newest(0), frames }
    }
}

impl PresentPages<'_> {
    /// Bytes of a page; 0 where nothing is in the log.
    pub(crate) fn page_bytes(&self) -> usize {
        if self.newest.is_empty() { 0 } else { self.frames.page_bytes() }
    }

    /// Pages of the database; 0 where its file says that.
    pub(crate) fn pages(&self) -> u32 {
        self.frames.database_pages()
    }

    /// Bytes of the file.
    pub(crate) fn bytes_of_file(&self) -> Result<u64> {
        Ok(self.db.data().len()?)
    }

    /// The pages of the log.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.newest.keys().copied()
    }

    /// Reads a page as the file has it.
    pub(crate) fn read_in_file(&self, number: u32, page: &mut [u8]) -> Result<()> {
        let read = self.db.data().read_at(page, u64::from(number.saturating_sub(1)) * page.len() as u64)?;
        page[read..].fill(0);
        Ok(())
    }

    /// Reads a page.
    pub(crate) fn read(&self, number: u32, page: &mut [u8]) -> Result<()> {
        match self.newest.get(&number) {
            Some(frame) => Ok(self.frames.copy_page(*frame, page, &**self.db.data())?),
            None => self.read_in_file(number, page),
        }
    }
}

impl Wal {
    /// Appends a transaction with these pages, durably. The caller has the lock of a writer, and has the index made anew. After a failure the commit has not
    /// happened.
    pub(crate) fn append<T: SpillTarget>(
        &self,
        target: &Arc<T>,
        page_bytes: usize,
        database_pages: u32,
        pages: &BTreeMap<u32, Box<[u8]>>,
    ) -> Result<()> {
        let db = target.db();
        let wrong =
            || Error::Io(format!("{}: a transaction that does not fit its database", db.path().display()));
        let fits = pages.values().all(|page| page.len() == page_bytes);
        let last = pages.keys().next_back().copied().filter(|last| fits && *last <= database_pages);
        if last.is_none() {
            return Err(wrong());
        }
        self.end_transaction(db);
        let size = SqliteCacheSize::default();
        let (begun, first) = {
            let mut frames = self.frames.write();
            (frames.rebuild_checksums(&**db.data())?, frames.committed())
        };
        let (header, mut checksum) = match begun {
            Some(begun) => begun,
            None => {
                let header = Header::first(u32::try_from(page_bytes).map_err(|_| wrong())?, None);
                let (bytes, checksum) = header.encode();
                self.write(target, &size, &bytes, 0)?;
                (header, checksum)
            }
        };
        if header.page_bytes as usize != page_bytes {
            return Err(wrong());
        }
        let (mut offset, mut made) =
            ((HEADER_BYTES + first * (FRAME_HEADER_BYTES + page_bytes)) as u64, None);
        for (number, page) in pages {
            let size_behind = if Some(*number) == last { database_pages } else { 0 };
            let (head, next) = header.encode_frame(checksum, *number, size_behind, page);
            self.write(target, &size, &head, offset)?;
            made = self.write(target, &size, page, offset + FRAME_HEADER_BYTES as u64)?;
            offset += (FRAME_HEADER_BYTES + page_bytes) as u64;
            checksum = next;
        }
        self.log_commit(db, made.ok_or_else(wrong)?)
    }
}
