//! A main database handle while other processes may have the database open: SQLite's own protocol, by this VFS.
//!
//! # Why
//! What SQLite writes is on the file at once, and what it reads may be another process's. So nothing of what an owner does has a
//! place here: no pool, no length in memory, no transaction that is held back, no wait for a commit or a checkpoint.
//! SQLite's automatic checkpoints are its own again.
//!
//! # Writers of this process
//! Chance decides between processes. The writers of one process keep their order (`sync/writer_queue.rs`): one that has waited
//! in SQLite's busy handler gets the write lock before one that has just begun. Those of other processes stand in no queue, so
//! that a writer whose turn it is may find the lock taken.
//!
//! # Invariants
//! 1. A state lasts for a transaction: a handle that holds a lock, or a slot of the wal-index, finds the same at each call.
//! 2. No internal connection begins a transaction.
//! 3. No handle waits while it holds a slot. A writer waits where SQLite lets it sleep, and holds nothing then.

use crate::error::{Error, Result, check_memory};
use crate::files::handle::read_exactly;
use crate::files::main_db::MainFile;
use crate::sync::wal_index::{CHECKPOINT_SLOT, READ_SLOTS, WRITE_SLOT};

impl MainFile {
    /// True while other processes may have the database open.
    #[inline]
    pub(super) fn is_beside_others(&self) -> bool {
        self.database.db().shared().is_multi_process()
    }

    /// Reads the file itself.
    #[inline(never)]
    pub(super) fn read_file(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        debug_assert!(self.rollback_txn.is_none());
        self.connection_cache.let_go(&*self.database);
        read_exactly(&**self.database.db().data(), buf, offset)
    }

    /// Writes the file itself.
    #[inline(never)]
    pub(super) fn write_file(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        debug_assert!(self.rollback_txn.is_none());
        self.database.sync_deleted_log()?;
        self.database.db().write_unseen(buf, offset)
    }

    /// Takes slots of the wal-index, which other processes take as well; `false` where the state has changed, and nothing was done.
    #[inline(never)]
    pub(super) fn lock_slots_beside_others(
        &mut self,
        first: usize,
        count: usize,
        exclusive: bool,
    ) -> Result<bool> {
        if self.connection.internal {
            return Err(Error::Busy);
        }
        let writes = first == WRITE_SLOT && exclusive;
        if !exclusive || writes {
            check_memory()?;
        }
        // A reader begins to write; all others only look after the log.
        let begins_to_write = writes && self.slots.reads();
        if begins_to_write {
            self.may_begin()?;
            self.admit(first, exclusive)?;
        }
        self.auto_checkpoint.begins_otherwise();
        let slots = &mut self.slots;
        let wal_index = self.database.wal_index();
        match self.database.while_multi_process(|| wal_index.lock(slots, first, count, exclusive)) {
            None => return Ok(false),
            Some(true) if begins_to_write => self.begin_to_write()?,
            Some(true) if first >= READ_SLOTS && !exclusive => self.note_snapshot(),
            Some(true) => {}
            Some(false) => {
                // No writer of this process was in the way.
                if begins_to_write {
                    self.write_refused_by_others();
                }
                return Err(Error::Busy);
            }
        }
        Ok(true)
    }

    /// Gives slots back.
    #[inline(never)]
    pub(super) fn unlock_slots_beside_others(&mut self, first: usize, count: usize) {
        self.database.wal_index().index_made(&self.slots);
        self.database.wal_index().unlock(&mut self.slots, first, count);
        self.unsettled = None;
        if first == WRITE_SLOT {
            self.database.writer_queue().leave(self.id);
        }
        if first == CHECKPOINT_SLOT {
            self.end_checkpoint();
        }
        self.database.note_transaction_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::connection_state::ConnectionState;
    use crate::files::handle::{Control, Handle};
    use crate::open::OpenDatabase;
    use crate::open::database::DatabaseSetup;
    use crate::options::Options;
    use crate::sync::lock_table::Level;
    use crate::sync::owner_lock::LOCK_OFFSET;
    use crate::sync::refused_writer;
    use litefoot_sim::{Random, SimMedium};
    use litefoot_storage::file::{File, FileKind, Medium, OpenMode, RangeLock};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const PAGE: usize = 4096;

    /// A page of a database.
    fn page(filler: u8) -> Vec<u8> {
        let mut page = vec![filler; PAGE];
        page[..16].copy_from_slice(crate::db::MAGIC);
        page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
        page
    }

    /// A database of two pages, which this process owns, and the file as another process has it.
    fn open() -> (SimMedium, Arc<dyn File>, MainFile) {
        let medium = SimMedium::new();
        let others = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
        others.write_at(&[page(1), page(1)].concat(), 0).unwrap();
        medium.sync_directory(Path::new("/")).unwrap();
        let setup = DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/app.db"));
        let options = Options { buffer_pool_size: Some(1 << 20), ..Options::default() };
        let database = OpenDatabase::new(DatabaseSetup { options, pooled: true, ..setup });
        let mut file = MainFile::new(Arc::new(database), false, true, false);
        file.control(Control::Connected).unwrap();
        (medium, others, file)
    }

    /// As a change of the state has it, between two transactions.
    fn change(file: &MainFile, multi_process: bool) {
        let database = &file.database;
        database.cache().drop_pages(|| ());
        database.db().shared().forget_file();
        database.db().shared().set_owned(false);
        database.db().shared().set_multi_process(multi_process);
    }

    fn first_bytes(file: &mut MainFile) -> [u8; 2] {
        [0, PAGE as u64].map(|at| {
            let mut byte = [0];
            file.read(&mut byte, at + 100).unwrap();
            byte[0]
        })
    }

    #[test]
    fn nothing_that_was_in_memory_is_shown_beside_others_and_nothing_of_theirs_afterwards() {
        let (_medium, others, mut file) = open();
        file.lock(Level::Shared).unwrap();
        assert_eq!((first_bytes(&mut file), file.known_size()), ([1, 1], Some(2 * PAGE as u64)));
        assert!(file.fetch(PAGE as u64, PAGE).is_some(), "the pool has it");
        file.unfetch(PAGE as u64);
        file.unlock(Level::None).unwrap();
        change(&file, true);
        for filler in [2, 3] {
            others.write_at(&[page(filler), page(filler), page(filler)].concat(), 0).unwrap();
            assert_eq!(first_bytes(&mut file), [filler; 2]);
            assert_eq!((file.known_size(), file.size().unwrap()), (None, 3 * PAGE as u64));
            assert!(!file.read_pinned(&mut [0; 16], 24) && file.fetch(PAGE as u64, PAGE).is_none());
            assert!(file.fetch_in_memory(PAGE as u64, PAGE as u32).is_none());
            others.set_len(2 * PAGE as u64).unwrap();
            assert_eq!(file.size().unwrap(), 2 * PAGE as u64);
        }
        change(&file, false);
        file.lock(Level::Shared).unwrap();
        assert_eq!((first_bytes(&mut file), file.known_size()), ([3, 3], Some(2 * PAGE as u64)));
        assert!(file.fetch(PAGE as u64, PAGE).is_some());
        file.unfetch(PAGE as u64);
        file.unlock(Level::None).unwrap();
    }

    #[test]
    fn what_is_written_beside_others_is_in_the_file_at_once() {
        let (medium, others, mut file) = open();
        change(&file, true);
        let mut found = vec![0; PAGE];
        file.write(&page(7), PAGE as u64).unwrap();
        others.read_at(&mut found, PAGE as u64).unwrap();
        assert_eq!(found, page(7));
        file.truncate(PAGE as u64).unwrap();
        assert_eq!(others.len().unwrap(), PAGE as u64);
        file.write(&page(8), 0).unwrap();
        file.sync().unwrap();
        let mut random = Random::new(1);
        for _ in 0..10 {
            assert_eq!(medium.cut(&mut random).files()[0].2, page(8));
        }
        // The commit and the rollback of SQLite's are over with the journal, and leave nothing behind here.
        file.control(Control::SeveralFiles).unwrap();
        file.control(Control::CommitDone).unwrap();
        assert!(file.rollback_txn.is_none() && !file.database.rollback_log().is_live());
        file.database.db().latch().close("on purpose");
        assert!(file.write(&page(9), 0).is_err() && file.truncate(0).is_err() && file.sync().is_err());
    }

    #[test]
    fn sqlites_own_checkpoints_are_not_left_to_a_thread() {
        let (_medium, _others, mut file) = open();
        change(&file, true);
        for _ in 0..10 {
            file.auto_checkpoint.committed(5000);
            file.shm_lock(CHECKPOINT_SLOT, 1, true).unwrap();
            file.shm_lock(READ_SLOTS, 1, true).unwrap();
            file.shm_unlock(READ_SLOTS, 1).unwrap();
            file.shm_unlock(CHECKPOINT_SLOT, 1).unwrap();
        }
    }

    /// Two handles of one process, beside another process.
    fn two_beside_others() -> (SimMedium, Arc<dyn File>, [MainFile; 2]) {
        let (medium, others, file) = open();
        change(&file, true);
        let other = MainFile::new(file.database.clone(), false, true, false);
        (medium, others, [file, other])
    }

    fn write_slot(main: &mut MainFile) -> Result<()> {
        main.shm_lock(WRITE_SLOT, 1, true)
    }

    #[test]
    fn a_writer_beside_others_is_refused_where_another_one_writes() {
        let (_medium, _others, [mut file, mut other]) = two_beside_others();
        for main in [&mut file, &mut other] {
            main.shm_lock(READ_SLOTS + 1, 1, false).unwrap();
        }
        write_slot(&mut file).unwrap();
        assert!(matches!(write_slot(&mut other), Err(Error::Busy)), "it does not wait");
        assert!(other.refused.is_some() && !other.database.writer_queue().has_turn(other.id));
        file.shm_unlock(WRITE_SLOT, 1).unwrap();
        write_slot(&mut other).unwrap();
        assert!(other.refused.is_none());
        file.database.db().latch().close("on purpose");
        other.shm_unlock(WRITE_SLOT, 1).unwrap();
        assert!(matches!(write_slot(&mut other), Err(Error::Closed(_))));
        for main in [&mut file, &mut other] {
            main.shm_unlock(READ_SLOTS + 1, 1).unwrap();
        }
    }

    #[test]
    fn a_writer_that_another_process_keeps_out_sleeps_as_with_sqlite_alone() {
        /// Where SQLite has the lock of a writer in the wal-index (file format, section 4).
        const WRITE_LOCK_BYTE: u64 = 120;
        let (medium, _others, [mut file, _other]) = two_beside_others();
        let (medium, path): (Arc<dyn Medium>, _) = (Arc::new(medium), Path::new("/app.db-shm"));
        file.database.wal_index().join_file(&medium, path).unwrap();
        file.shm_lock(READ_SLOTS + 1, 1, false).unwrap();
        let theirs = medium.open(path, FileKind::WalIndex, OpenMode::ReadWrite).unwrap();
        assert!(theirs.lock_range(WRITE_LOCK_BYTE, 1, RangeLock::Exclusive).unwrap());
        assert!(matches!(write_slot(&mut file), Err(Error::Busy)));
        assert!(file.refused.is_some() && !refused_writer::has_note());
        assert!(theirs.lock_range(WRITE_LOCK_BYTE, 1, RangeLock::None).unwrap());
        write_slot(&mut file).unwrap();
        file.shm_unlock(WRITE_SLOT, 1).unwrap();
        file.shm_unlock(READ_SLOTS + 1, 1).unwrap();
    }

    #[test]
    fn a_turn_that_is_not_used_keeps_out_nobody_that_cannot_wait() {
        let (_medium, _others, [mut file, other]) = two_beside_others();
        let queue = other.database.writer_queue();
        let limit = Duration::from_secs(60);
        assert!(queue.await_turn(other.id, Instant::now(), limit, limit));
        let opened = std::thread::scope(|scope| {
            // SQLite says nothing of this connection: its transaction may have read before.
            let newcomer = || file.shm_lock(READ_SLOTS + 1, 1, false).and_then(|()| write_slot(&mut file));
            scope.spawn(newcomer).join().unwrap()
        });
        assert!(opened.is_ok() && !queue.has_turn(other.id) && queue.has_turn(file.id));
    }

    #[test]
    fn a_slot_is_given_back_where_the_state_has_changed_before() {
        let (_medium, _others, mut file) = open();
        assert!(!file.lock_slots_beside_others(READ_SLOTS, 1, false).unwrap());
        assert!(file.slots.is_empty());
    }

    #[test]
    fn a_writer_of_another_process_is_told_from_one_that_has_died() {
        let (_medium, others, mut file) = open();
        assert!(!file.is_reserved().unwrap());
        change(&file, true);
        for (lock, is_reserved) in [(RangeLock::Exclusive, true), (RangeLock::None, false)] {
            assert!(others.lock_range(LOCK_OFFSET + 1, 1, lock).unwrap());
            assert_eq!(file.is_reserved().unwrap(), is_reserved);
        }
        file.lock(Level::Shared).unwrap();
        file.lock(Level::Reserved).unwrap();
        assert!(file.is_reserved().unwrap());
    }

    #[test]
    fn an_internal_connection_does_nothing_beside_others() {
        let (_medium, _others, file) = open();
        let mut internal = MainFile::new(file.database.clone(), false, true, false);
        let state = ConnectionState::new(file.database.clone(), internal.id, true, false);
        internal.connection = Arc::new(state);
        assert!(internal.lock(Level::Shared).is_ok());
        change(&file, true);
        assert!(matches!(internal.lock(Level::Shared), Err(Error::Busy)));
        assert!(matches!(internal.shm_lock(READ_SLOTS, 1, false), Err(Error::Busy)));
    }
}
