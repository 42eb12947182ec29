//! The end of the database file: where it lies, and what is written behind it.
//!
//! # Why
//! Pages behind the end of the database belong to nobody: a large transaction writes its new pages there before it
//! commits. While it does, the file's end is that transaction's; what it has not committed is cut off when it is over.
//!
//! # Invariants
//! 1. No checkpoint of SQLite's that does not know of a commit yet cuts off, or writes over, what that commit counts on.
//! 2. Only the holder of [`Shared::tail`](super::Shared) writes behind the end, or moves it.

use super::shared::{Shared, UNKNOWN};
use super::{Db, tier};
use crate::error::Result;
use litefoot_storage::file::total_bytes;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The end of a database's file.
#[derive(Clone, Copy)]
pub struct FileEnd<'a> {
    pub(super) db: &'a Db,
}

impl FileEnd<'_> {
    /// Where the database ends, while this process owns it: what lies behind that in the file is nobody's, or not
    /// committed yet.
    #[inline]
    pub fn committed_len(self) -> Option<u64> {
        Some(self.db.shared.len.load(Ordering::Acquire)).filter(|len| *len != UNKNOWN)
    }

    /// Notes what a commit has made of the length: the file itself follows later.
    pub fn set_committed_len(self, len: u64) {
        self.db.shared.len.store(len, Ordering::Release);
    }

    /// Writes pages of a transaction behind the end of the database. The caller keeps the log from being checkpointed
    /// meanwhile.
    pub fn write_behind(self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        let (db, bytes) = (self.db, total_bytes(bufs));
        let _tail = db.shared.tail.lock();
        db.shared.behind_end.store(true, Ordering::Release);
        db.shared.written.store(true, Ordering::Release);
        db.data().write_vectored_at(bufs, offset)?;
        db.count_write(offset, bytes);
        if start_writeback {
            db.data().start_writeback(offset, bytes);
        }
        Ok(())
    }

    /// True if a transaction has written behind the end.
    #[inline]
    pub fn is_written_behind(self) -> bool {
        self.db.shared.behind_end.load(Ordering::Acquire)
    }

    /// Commits what was written behind the end: the database file has `len` bytes now. In WAL mode SQLite will write
    /// those pages once more.
    pub fn keep_behind(self, len: u64) {
        let shared = &self.db.shared;
        let mut tail = shared.tail.lock();
        let before = shared.len.load(Ordering::Acquire);
        let first = tail.as_ref().map_or(before, |there| there.start.min(before));
        *tail = Some(first..len.max(before));
        shared.change_len(|known| known.max(len));
        shared.behind_end.store(false, Ordering::Release);
    }

    /// Ends the transaction that wrote behind the end: what it did not commit is cut off, down to `least` bytes. Should
    /// that fail, the file is longer than its header says, which SQLite bears with.
    pub fn cut_behind(self, least: u64) {
        let (db, shared) = (self.db, &self.db.shared);
        let _tail = shared.tail.lock();
        if shared.behind_end.swap(false, Ordering::AcqRel) {
            let len = shared.len.load(Ordering::Acquire);
            if len != UNKNOWN && db.latch.reason().is_none() {
                let _ = db.data().set_len(tier::least_len(db, len.max(least)));
            }
        }
    }

    /// Notes the bytes that a commit in the log in memory gives the database. A checkpoint that does not know that
    /// commit must not cut them off.
    pub fn note_needed(self, bytes: u64) {
        self.db.shared.needed.store(bytes, Ordering::Release);
    }

    /// Forgets which bytes a checkpoint need not write again: SQLite restarts its log.
    pub fn forget_kept(self) {
        *self.db.shared.tail.lock() = None;
    }

    /// True if these bytes are known to be in the file already, for good.
    pub(super) fn has(self, buf: &[u8], offset: u64) -> bool {
        let covers = |there: &Range<u64>| there.start <= offset && offset + buf.len() as u64 <= there.end;
        if !self.db.shared.tail.lock().as_ref().is_some_and(covers) {
            return false;
        }
        let mut found = vec![0; buf.len()];
        matches!(self.db.data().read_at(&mut found, offset), Ok(read) if read == buf.len() && found == buf)
    }
}

impl Shared {
    /// Changes the length, where it is known.
    pub(super) fn change_len(&self, change: impl Fn(u64) -> u64) {
        let known = |len| (len != UNKNOWN).then(|| change(len));
        let _ = self.len.fetch_update(Ordering::AcqRel, Ordering::Acquire, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_commit_counts_on_is_not_cut_off_by_a_checkpoint_that_does_not_know_it() {
        let db = Db::of_test(&[1; 4096]);
        let end = db.file_end();
        end.note_needed(12_288);
        // Not extended either, before it is written.
        db.set_len_unseen(4096).unwrap();
        assert_eq!(db.file().len().unwrap(), 4096);
        end.write_behind(&[IoSlice::new(&[2; 8192])], 4096, false).unwrap();
        // Its own end decides while it is under way.
        db.set_len_unseen(4096).unwrap();
        end.keep_behind(12_288);
        db.set_len_unseen(4096).unwrap();
        assert_eq!((db.file().len().unwrap(), db.file_len().unwrap()), (12_288, 12_288));
        end.note_needed(8192);
        db.set_len_unseen(8192).unwrap();
        assert_eq!((db.file().len().unwrap(), db.file_len().unwrap()), (8192, 8192));
    }

    #[test]
    fn what_was_not_committed_behind_the_end_is_cut_off() {
        let db = Db::of_test(&[1; 4096]);
        db.file_end().write_behind(&[IoSlice::new(&[2; 8192])], 4096, false).unwrap();
        assert!(db.file_end().is_written_behind());
        db.file_end().cut_behind(0);
        assert_eq!(db.file().len().unwrap(), 4096);
    }

    #[test]
    fn only_bytes_that_were_kept_and_are_the_same_are_known_to_be_there() {
        let db = Db::of_test(&[1; 4096]);
        let end = db.file_end();
        end.write_behind(&[IoSlice::new(&[2; 8192])], 4096, false).unwrap();
        assert!(!end.has(&[2; 4096], 4096), "not committed");
        end.keep_behind(12_288);
        for (bytes, offset, known) in
            [(2, 4096, true), (2, 8192, true), (3, 8192, false), (1, 0, false), (2, 12_288, false)]
        {
            assert_eq!(end.has(&[bytes; 4096], offset), known, "{bytes} at {offset}");
        }
        end.forget_kept();
        assert!(!end.has(&[2; 4096], 4096));
    }
}
