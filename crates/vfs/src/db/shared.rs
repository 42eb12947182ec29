//! The half of a database that all its users have in common: plain numbers.
//!
//! Nothing here but what members of a group see is a pointer, a descriptor or a thread, so that this half of a database could lie in memory that several
//! processes share.
//!
//! # Invariants
//! 1. `len` is [`UNKNOWN`] while this process does not own the database: the file may be another process's.
//! 2. `owned` and `multi_process` are never both set.
//! 3. Only the holder of `tail` writes behind the end of the database, or moves it.

use crate::sync::group_board::Board;
use crate::sync::group_changes::GroupChanges;
use crate::sync::page_marks::PageMarks;
use crate::sync::promises::Promises;
use crate::sync::unwritten_pages::UnwrittenPages;
use litefoot_storage::sync::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// No length: the file may be another process's.
pub const UNKNOWN: u64 = u64::MAX;

/// The numbers of a database's file and of the commits on it.
pub struct Shared {
    /// True if this process is the owner.
    owned: AtomicBool,
    /// True while other processes may have the database open: SQLite's own protocol is used, and nobody is the owner.
    multi_process: AtomicBool,
    /// Bytes of a page, as the file says; 0 while that must be read.
    pub(super) page_bytes: AtomicU32,
    /// Length of the file, while this process owns it; [`UNKNOWN`] before.
    pub(super) len: AtomicU64,
    /// True if the file was written since its last sync.
    pub(super) written: AtomicBool,
    /// True once this process has synced the file: before, it may have what another process has written and not synced.
    pub(super) settled: AtomicBool,
    /// True if a transaction has written behind the end of the database.
    pub(super) behind_end: AtomicBool,
    /// Bytes of the file behind the end that hold pages which the log in memory has as well, mostly.
    pub(super) tail: Mutex<Option<Range<u64>>>,
    /// Bytes that the newest commit in the log in memory counts on.
    pub(super) needed: AtomicU64,
    /// How many commits of the log were promised to be durable.
    promises: Promises,
    /// Where members of a group see what concerns them, too.
    board: OnceLock<Arc<Board>>,
    /// What the last commits have changed, for members that keep pages.
    changes: GroupChanges,
    /// What has changed, for those that look at the database from outside.
    changed: PageMarks,
    /// The pages that are not in the file, where members read it themselves.
    unwritten: OnceLock<UnwrittenPages>,
    /// Connections of other processes, and streams by which one of these has borrowed the file, and may write it.
    members: AtomicUsize,
    heirs: AtomicUsize,
    /// Another number after each change of what the file has up to its end, by this process or, as far as it knows, by any other.
    file_changes: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            owned: AtomicBool::new(false),
            multi_process: AtomicBool::new(false),
            page_bytes: AtomicU32::new(0),
            len: AtomicU64::new(UNKNOWN),
            written: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            behind_end: AtomicBool::new(false),
            tail: Mutex::default(),
            needed: AtomicU64::new(0),
            promises: Promises::default(),
            board: OnceLock::new(),
            changes: GroupChanges::default(),
            changed: PageMarks::default(),
            unwritten: OnceLock::new(),
            members: AtomicUsize::new(0),
            heirs: AtomicUsize::new(0),
            file_changes: AtomicU64::new(0),
        }
    }
}

fn count(number: &AtomicUsize, is_one_more: bool) {
    if is_one_more {
        number.fetch_add(1, Ordering::SeqCst);
    } else {
        number.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// True if this process owns the database now; a look that needs no order with the locks between connections.
    #[inline]
    pub fn was_owned(&self) -> bool {
        self.owned.load(Ordering::Acquire)
    }

    /// True if this process owns the database now.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.owned.load(Ordering::SeqCst)
    }

    /// This process becomes the owner, or is the owner no more.
    pub fn set_owned(&self, owned: bool) {
        // Recovery, and others, may have changed anything.
        self.forget_changes();
        if !owned {
            self.note_file_change();
        } else if let Some(unwritten) = self.unwritten() {
            // Before anybody can commit.
            unwritten.note_owned(true);
        }
        self.owned.store(owned, Ordering::SeqCst);
        self.tell_members();
        // Behind it: who opens the marks looks once more who the owner is.
        self.unwritten().into_iter().for_each(UnwrittenPages::close);
        if let Some(board) = self.board.get() {
            board.set_open(owned);
        }
    }

    /// What the file has up to its end is about to be changed, or others may change it.
    pub(super) fn note_file_change(&self) {
        self.file_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Another number after each of these changes.
    pub(crate) fn file_changes(&self) -> u64 {
        self.file_changes.load(Ordering::SeqCst)
    }

    /// Members of a group see the board from now on.
    pub(crate) fn begin_board(&self, board: Arc<Board>) {
        self.changes.begin_board(board.clone());
        if self.board.set(board).is_ok()
            && let Some(board) = self.board.get()
        {
            board.promise(self.promises());
            board.set_open(self.is_owned());
        }
    }

    /// Members of a group ask before they read, until the board is opened again.
    pub(crate) fn close_board(&self) {
        if let Some(board) = self.board.get() {
            board.set_open(false);
        }
    }

    /// Members of a group read without a message, where this process owns the database.
    pub(crate) fn open_board(&self) {
        if let Some(board) = self.board.get() {
            board.set_open(self.is_owned());
        }
    }

    /// The board of the group, where there is one.
    #[inline]
    pub(crate) fn board(&self) -> Option<&Arc<Board>> {
        self.board.get()
    }

    /// The pages that are not in the file, where members read it themselves.
    pub(crate) fn unwritten(&self) -> Option<&UnwrittenPages> {
        self.unwritten.get()
    }

    /// A connection has EXCLUSIVE from now on, by its token (`heirs`).
    pub(crate) fn note_writing(&self, token: u64) {
        self.unwritten().into_iter().for_each(|unwritten| unwritten.note_writing(token));
    }

    /// The same, where members are about to.
    pub(crate) fn unwritten_or_new(&self) -> Option<&UnwrittenPages> {
        if self.unwritten.get().is_none() {
            // Another thread may be as far.
            let _ = self.unwritten.set(UnwrittenPages::new().ok()?);
            self.tell_members();
        }
        self.unwritten.get()
    }

    /// Members read the log of a database in WAL mode in memory of all from now on: an heir may keep the file for them.
    pub(crate) fn open_log_to_members(&self) {
        let Some(unwritten) = self.unwritten.get() else { return };
        unwritten.open_log();
        if !self.is_owned() {
            unwritten.close();
        }
    }

    /// The marks of unwritten pages are these, and right from now on, where this process owns the database. No page is committed meanwhile, and the
    /// caller has the lock of a reader.
    pub(crate) fn open_unwritten(&self, pages: impl Iterator<Item = u32>) {
        let Some(unwritten) = self.unwritten.get() else { return };
        unwritten.open(pages);
        if !self.is_owned() {
            unwritten.close();
        }
    }

    /// True while other processes may have the database open, so that SQLite's own protocol is used: real locks on the
    /// file, a real `-wal`, `-shm` and journal. This process owns nothing then.
    #[inline]
    pub fn is_multi_process(&self) -> bool {
        self.multi_process.load(Ordering::Acquire)
    }

    /// The database begins, or ceases, to be used by SQLite's own protocol.
    pub fn set_multi_process(&self, multi_process: bool) {
        self.forget_changes();
        self.multi_process.store(multi_process, Ordering::SeqCst);
        self.tell_members();
    }

    /// Members are to know whether this process owns the database, and strangers may have it open, for as long as this process lives.
    fn tell_members(&self) {
        let Some(unwritten) = self.unwritten.get() else { return };
        let now = || (self.is_owned(), self.multi_process.load(Ordering::SeqCst));
        loop {
            let (is_owned, are_strangers_there) = now();
            unwritten.note_owned(is_owned);
            unwritten.note_strangers(are_strangers_there);
            // Another thread may have changed it, and have come first.
            if now() == (is_owned, are_strangers_there) {
                return;
            }
        }
    }

    /// A connection of another process's has come, or has ended.
    pub(crate) fn note_member(&self, is_there: bool) {
        count(&self.members, is_there);
    }

    /// Another process has borrowed the file, and may write it; or has it no more.
    pub(crate) fn note_heir(&self, is_there: bool) {
        count(&self.heirs, is_there);
    }

    /// True while other processes are members, and none of them has borrowed the file to write it: where this one dies, strangers may have the database before
    /// any of them. They must find all that was committed.
    pub(crate) fn lacks_heir(&self) -> bool {
        self.members.load(Ordering::SeqCst) > 0 && self.heirs.load(Ordering::SeqCst) == 0
    }

    /// What the last commits have changed.
    pub(crate) fn changes(&self) -> &GroupChanges {
        &self.changes
    }

    /// What has changed, for those that look at the database from outside.
    #[inline]
    pub(crate) fn changed(&self) -> &PageMarks {
        &self.changed
    }

    /// Anything may have changed.
    fn forget_changes(&self) {
        self.changes.forget();
        self.changed.note_all();
    }

    /// Nothing is known of the file any more: another process may change it.
    pub fn forget_file(&self) {
        self.len.store(UNKNOWN, Ordering::Release);
        self.page_bytes.store(0, Ordering::Relaxed);
    }

    /// A commit was promised to be durable, and readers must wait for that: the log says so already, and no reader sees
    /// the commit yet.
    pub fn note_durability_wanted(&self) {
        self.promises.add(self.board.get().map(|board| &**board));
    }

    /// Everything that was promised is durable, of so many.
    #[inline]
    pub fn note_settled(&self, promises: u64) {
        if let Some(board) = self.board.get() {
            board.settle(promises);
        }
    }

    /// The same, where every commit of the log is found to be durable.
    pub fn settle_where(&self, is_durable: impl FnOnce() -> bool) {
        if let Some(board) = self.board.get() {
            self.promises.settle(board, is_durable);
        }
    }

    /// How many commits of the log were promised to be durable.
    #[inline]
    pub fn promises(&self) -> u64 {
        self.promises.count()
    }
}

#[cfg(test)]
mod tests {
    use crate::db::Db;
    use std::io::IoSlice;

    #[test]
    fn each_change_of_what_the_file_has_up_to_its_end_is_counted() {
        let db = Db::of_test(&[1; 4096]);
        let counts = |change: &dyn Fn()| {
            let before = db.shared().file_changes();
            change();
            db.shared().file_changes() != before
        };
        assert!(counts(&|| db.write_unseen(&[2; 512], 512).unwrap()));
        assert!(counts(&|| db.set_len_unseen(2048).unwrap()));
        assert!(counts(&|| db.put_back(&[(1, vec![1; 512])], 512, 4096)));
        assert!(counts(&|| db.shared().set_owned(false)), "others may change it");
        assert!(!counts(&|| db.shared().set_owned(true)));
        assert!(!counts(&|| db.file_end().write_behind(&[IoSlice::new(&[2; 512])], 4096, false).unwrap()));
    }
}
