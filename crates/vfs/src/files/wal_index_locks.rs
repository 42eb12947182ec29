//! A main database handle in WAL mode: the wal-index, its slots, and what taking them waits for.
//!
//! # Invariants
//! 1. A slot is taken only while this process owns the database, or by SQLite's own protocol (`beside_others`).
//! 2. A reader sees no commit that a power cut could still take back, unless it shows nothing of that before its own
//!    commit (`durable_reads`).
//! 3. A writer that was refused in this process leaves a note: it waits in the writer queue once SQLite lets it sleep.

use crate::db::Companion;
use crate::error::{Error, Result, check_memory};
use crate::ffi::codes::SQLITE_SHM_NLOCK;
use crate::files::main_db::{Checkpoint, MainFile};
use crate::sync::lock_table::Level;
use crate::sync::refused_writer::{self, Attempts};
use crate::sync::wal_index::{CHECKPOINT_SLOT, READ_SLOTS, WRITE_SLOT};
use crate::sync::writer_queue::CHECKPOINTER;
use litefoot_storage::reserve;
use litefoot_storage::wal_file::format::HEADER_BYTES;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl MainFile {
    /// A region of the wal-index.
    pub(super) fn map_wal_index(
        &mut self,
        region: usize,
        bytes: usize,
        extend: bool,
    ) -> Result<Option<NonNull<u8>>> {
        if !self.database.db().writable() {
            return Err(Error::ReadOnlyWal { path: self.database.db().path().to_owned() });
        }
        if !self.uses_wal_index {
            self.join_wal_index()?;
            self.uses_wal_index = true;
            if !self.connection.internal {
                self.database.wal_index().note_application(true);
            }
            self.connection.reader_slot.set_by_slots(true);
        }
        self.database.wal_index().map(region, bytes, extend)
    }

    /// Starts to use the wal-index: SQLite is about to make it from the log, where nobody has.
    fn join_wal_index(&mut self) -> Result<()> {
        let (wal, database) = (self.wal(), &self.database);
        let (index, db) = (database.wal_index(), database.db());
        let path = db.companion_path(Companion::WalIndex);
        if let Some(joined) = database.while_multi_process(|| index.join_file(db.medium(), &path)) {
            return joined;
        }
        index.join(|| wal.map_or(Ok(()), |wal| wal.rebuild_checksums(db)))
    }

    /// Takes a read slot, where everything is durable and nobody is in the way; `false` leaves the handle as it was, and
    /// `lock_slots` knows what to do.
    #[inline]
    pub fn try_share_slot(&mut self, first: usize, count: usize) -> bool {
        let is_ready = first >= READ_SLOTS
            && count == 1
            && !self.connection.internal
            && reserve::is_untouched()
            && !self.database.checkpointer().has_turn()
            && self.is_settled()
            && self.database.db().shared().was_owned()
            && !self.database.wants_attention();
        if !is_ready || !self.database.wal_index().try_share(&self.slots, first, count) {
            return false;
        }
        let is_owned = self.database.is_owned();
        if is_owned {
            self.auto_checkpoint.begins_otherwise();
        } else {
            // It was given to another process meanwhile.
            self.database.wal_index().unlock(&mut self.slots, first, count);
        }
        is_owned
    }

    /// Gives a read slot back, behind a transaction that owes no wait; `false` where `unlock_slots` knows what else there is to
    /// do.
    #[inline]
    pub fn try_unshare_slot(&mut self, first: usize, count: usize) -> bool {
        let is_done = first >= READ_SLOTS
            && !self.connection.internal
            && self.unsettled.is_none()
            && !self.has_unused_turn
            && self.connection_cache.is_settled()
            && self.database.wal_index().try_unshare(&self.slots, first, count);
        if is_done {
            self.database.note_transaction_end();
        }
        is_done
    }

    /// Takes slots of the wal-index.
    #[inline]
    pub(super) fn lock_slots(&mut self, first: usize, count: usize, exclusive: bool) -> Result<()> {
        while !self.try_lock_slots(first, count, exclusive)? {}
        Ok(())
    }

    /// The same; `false` where the state of the database has changed, and nothing was taken.
    #[inline]
    fn try_lock_slots(&mut self, first: usize, count: usize, exclusive: bool) -> Result<bool> {
        if !exclusive && first >= READ_SLOTS && !self.connection.internal && self.slots.is_empty() {
            self.database.yield_to_others();
        }
        if self.is_beside_others() && self.lock_slots_beside_others(first, count, exclusive)? {
            return Ok(true);
        }
        if !self.connection.internal && !self.checkpoints_now(first, count, exclusive) {
            return Err(Error::Busy);
        }
        let writes = first == WRITE_SLOT && self.reads() && !self.is_inherited;
        if exclusive && (writes || first == CHECKPOINT_SLOT && count == 1) {
            self.database.await_heirs();
        }
        if !exclusive || first == WRITE_SLOT {
            check_memory().inspect_err(|_| self.connection.disturb())?;
        }
        // A reader begins to write; all others only look after the log.
        if first == WRITE_SLOT && exclusive && self.reads() {
            self.may_begin()?;
        }
        // A commit log that waits needs the redo log as it is. To make the index takes more slots than this one.
        if first == CHECKPOINT_SLOT
            && exclusive
            && count == 1
            && self.database.recovery().check_replayed().is_err()
        {
            return Err(Error::Busy);
        }
        self.admit(first, exclusive)?;
        let (first, count) = self.widen(first, count);
        let Some(mut is_locked) = self.take_slots(first, count, exclusive)? else { return Ok(false) };
        let checkpoints = first == CHECKPOINT_SLOT || self.checkpoint != Checkpoint::None;
        let mut may_be_ours = exclusive && (first == WRITE_SLOT || checkpoints) && !self.connection.internal;
        while !is_locked && may_be_ours {
            // Our own checkpoint may have been faster: since the connection was admitted.
            may_be_ours = self.database.checkpointer().await_end_for_use(self.database.db());
            let Some(taken) = self.take_slots(first, count, exclusive)? else { return Ok(false) };
            is_locked = taken;
        }
        if !is_locked {
            // That a mark of readers cannot be moved is common, and SQLite uses another.
            if first == WRITE_SLOT || !exclusive {
                self.connection.disturb();
            }
            if first == WRITE_SLOT && exclusive {
                self.write_refused();
            }
            return Err(Error::Busy);
        }
        if first == WRITE_SLOT && exclusive {
            self.make_index_of_empty_log();
        }
        if first == WRITE_SLOT && exclusive && !self.connection.internal {
            self.begin_to_write()?;
            self.connection.has_written.store(true, Ordering::Relaxed);
            if let Some(wal) = self.wal() {
                let index = self.database.wal_index();
                wal.free_superseded(index, || index.published());
            }
        }
        if first == CHECKPOINT_SLOT && exclusive {
            self.checkpoint = Checkpoint::Begun;
        }
        Ok(true)
    }

    /// The connection has the write lock. SQLite may have taken it to make an index. That of an empty log must be like none before as soon as
    /// anybody can see it (`sync/wal_index_sharing`).
    fn make_index_of_empty_log(&mut self) {
        if self.wal().is_some_and(|wal| wal.bytes() <= HEADER_BYTES as u64) {
            self.database.wal_index().make_of_empty_log(&self.slots);
        }
    }

    /// The connection has the write lock. SQLite refuses it where the snapshot is old.
    pub(super) fn begin_to_write(&mut self) -> Result<()> {
        let had_turn = self.database.writer_queue().writes(self.id);
        self.has_unused_turn = false;
        if self.has_old_snapshot() {
            self.forget_owed();
            if !had_turn {
                self.leave_note();
            }
            return Ok(());
        }
        self.refused = None;
        self.settle_begun().inspect_err(|_| {
            self.database.wal_index().unlock(&mut self.slots, WRITE_SLOT, 1);
            self.database.writer_queue().leave(self.id);
        })
    }

    /// The write lock was refused to a writer of the application.
    pub(super) fn write_refused(&mut self) {
        self.forget_owed();
        let may_come_again = !self.connection.internal && self.reads();
        if may_come_again && !self.database.writer_queue().has_turn(self.id) {
            self.leave_note();
        }
    }

    /// The same where another process writes. The queue knows nothing of its end, so the next sleep is a plain one: to end it
    /// early would use an attempt of SQLite's busy handler up.
    pub(super) fn write_refused_by_others(&mut self) {
        self.forget_owed();
        self.note_attempt();
    }

    pub(super) fn leave_note(&mut self) {
        let attempts = self.note_attempt();
        refused_writer::note(self.database.writer_queue(), self.id, attempts);
    }

    fn note_attempt(&mut self) -> Attempts {
        let attempts = Attempts::another(self.refused, Instant::now());
        self.refused = Some(attempts);
        attempts
    }

    /// Gives slots back; the end of a transaction queues what it has completed.
    #[inline]
    pub(super) fn unlock_slots(&mut self, first: usize, count: usize) -> Result<()> {
        if self.is_beside_others() {
            self.unlock_slots_beside_others(first, count);
            return Ok(());
        }
        self.database.wal_index().index_made(&self.slots);
        if first == WRITE_SLOT && !self.connection.internal {
            // In a forked child the transaction is the parent's, and so is what it has written early.
            if let Some(wal) = self.wal().filter(|_| self.database.db().is_of_this_process()) {
                self.queue_unsynced(&wal);
                wal.end_transaction(self.database.db());
            }
            self.database.wal_index().mark_for_members();
            self.database.wal_index().unlock(&mut self.slots, first, count);
            self.database.writer_queue().leave(self.id);
            if self.unsettled.is_some() && !self.connection.is_waiting() {
                self.settle();
            }
            self.end_seat_read();
            self.database.note_transaction_end();
            return Ok(());
        }
        if first >= READ_SLOTS {
            self.give_unused_turn_back();
        }
        // SQLite begins to read anew where it has the write lock still.
        if first >= READ_SLOTS && self.unsettled.is_some() && self.slots.reads() && !self.slots.writes() {
            self.settle();
            self.unsettled = None;
        }
        if first == CHECKPOINT_SLOT {
            self.end_checkpoint();
        }
        self.connection_cache.rest(&*self.database);
        let (first, count) = self.widen(first, count);
        self.database.wal_index().unlock(&mut self.slots, first, count);
        self.database.note_transaction_end();
        Ok(())
    }

    pub(super) fn end_checkpoint(&mut self) {
        self.checkpoint = Checkpoint::None;
        self.auto_checkpoint.ends();
    }

    /// True unless the slots are those of a checkpoint that is left to the checkpointer.
    fn checkpoints_now(&mut self, first: usize, count: usize, exclusive: bool) -> bool {
        match (first, count, exclusive) {
            (CHECKPOINT_SLOT, 1, true) => {
                let level = self.connection.reader_slot.level();
                let wal = self.wal();
                let database = &self.database;
                // A log that the checkpointer has not emptied in time is SQLite's again.
                let may_wait = || {
                    let has_time = wal.is_some_and(|wal| !wal.is_overdue(database.db()));
                    level < Level::Reserved && has_time && database.host().is_some()
                };
                self.auto_checkpoint.begins(may_wait)
            }
            (READ_SLOTS, 1, true) if self.checkpoint != Checkpoint::None => {
                self.auto_checkpoint.copies(self.slots.writes())
            }
            (WRITE_SLOT, ..) | (READ_SLOTS.., _, false) => {
                self.auto_checkpoint.begins_otherwise();
                true
            }
            _ => true,
        }
    }

    /// The slots that are really taken. When our checkpoint restarts the log, SQLite locks out the readers of the log,
    /// and not the readers of the database file. Those could not go on to write (`SQLITE_BUSY_SNAPSHOT`), for no reason
    /// of the application's making. So litefoot locks them out as well.
    fn widen(&self, first: usize, count: usize) -> (usize, usize) {
        let restarts =
            self.connection.internal && first == READ_SLOTS + 1 && first + count == SQLITE_SHM_NLOCK;
        if restarts { (READ_SLOTS, count + 1) } else { (first, count) }
    }

    /// Takes slots while this process owns the database; `false` where somebody is in the way, `None` where other processes have
    /// come.
    #[inline]
    fn take_slots(&mut self, first: usize, count: usize, exclusive: bool) -> Result<Option<bool>> {
        loop {
            self.database.own()?;
            if self.is_beside_others() {
                return Ok(None);
            }
            let attempts = self.database.sharing().attempts();
            if !self.database.wal_index().lock(&mut self.slots, first, count, exclusive) {
                if self.database.was_in_the_way(attempts) {
                    continue;
                }
                return Ok(Some(false));
            }
            if self.database.is_owned() {
                return Ok(Some(true));
            }
            // It was given to another process, or is shared with others.
            self.database.wal_index().unlock(&mut self.slots, first, count);
        }
    }

    /// True if a slot of the wal-index may be taken now.
    pub(super) fn admit(&mut self, first: usize, exclusive: bool) -> Result<()> {
        if self.connection.internal {
            return Ok(());
        }
        match (first, exclusive) {
            (WRITE_SLOT, true) => self.admit_writer(),
            (CHECKPOINT_SLOT, true) => {
                self.database.checkpointer().await_end_for_use(self.database.db());
                Ok(())
            }
            (READ_SLOTS.., false) => {
                // A writer begins to read anew where it restarts the log, and the turn waits for it.
                if self.database.checkpointer().has_turn()
                    && self.connection.has_written.load(Ordering::Relaxed)
                    && !self.slots.writes()
                {
                    // It is likely to write again.
                    self.yield_to_checkpoint();
                }
                self.await_durable()
            }
            _ => Ok(()),
        }
    }

    /// Waits for the end of the checkpointer's turn. The connection's own turn, if it has that, is the checkpointer's.
    pub(super) fn yield_to_checkpoint(&self) {
        self.database.writer_queue().leave_unless_writing(self.id);
        self.database.checkpointer().await_turn_end(self.database.db());
    }

    /// True if the writers' slot may be taken now.
    fn admit_writer(&mut self) -> Result<()> {
        if self.database.writer_queue().may_write(self.id) {
            return Ok(());
        }
        self.database.writer_queue().await_end();
        // One look tells of the turn, and of its writer: our own checkpoint may end its turn at any time.
        let Some(mut whose_turn) = self.database.writer_queue().in_the_way(self.id) else { return Ok(()) };
        // SQLite asks nobody to wait for a transaction that has read already. A turn that was only reserved, and our own
        // checkpoint, must not be what is in its way.
        let may_wait = self.connection.is_autocommit();
        if !may_wait && self.database.writer_queue().overtake_unused(self.id) {
            return Ok(());
        }
        let checkpointer = self.database.checkpointer();
        while whose_turn == CHECKPOINTER {
            checkpointer.await_end_for_use(self.database.db());
            match self.database.writer_queue().in_the_way(self.id) {
                None => return Ok(()),
                // The turn of a thread that is not here ends at no time: that of a parent.
                Some(CHECKPOINTER) if !checkpointer.is_at_work() => break,
                Some(writer) => whose_turn = writer,
            }
        }
        self.connection.disturb();
        self.write_refused();
        Err(Error::Busy)
    }

    /// The database file is about to be written in place: what was committed must be in the redo log.
    pub(super) fn before_in_place(&mut self) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        if self.checkpoint != Checkpoint::Logged {
            wal.before_in_place(self.database.db())?;
        }
        if self.checkpoint == Checkpoint::Begun {
            self.checkpoint = Checkpoint::Logged;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{frame_header, wal_header};
    use crate::files::connection_state::MembersStatement;
    use crate::files::durable_reads::Shows;
    use crate::files::handle::Handle;
    use crate::files::wal::WalFile;
    use crate::memory::spill_file::tests::make_spill;
    use crate::open::OpenDatabase;
    use crate::open::checkpointer::{run_of_test, take_turn_of_test};
    use crate::open::database::DatabaseSetup;
    use crate::sync::wal_index::RECOVERY_SLOT;
    use crate::sync::wal_index_marks::REGION_BYTES;
    use litefoot_sim::SimMedium;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    fn open(is_autocommit: bool) -> MainFile {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/app.db"));
        let main = MainFile::new(Arc::new(OpenDatabase::new(setup)), false, true, false);
        main.connection.note_statement(MembersStatement { is_autocommit, shows: Shows::Always });
        main
    }

    /// Two handles of a database that has a log.
    fn two_with_a_log() -> [MainFile; 2] {
        let mut main = open(true);
        main.database.wal_or_open(make_spill()).unwrap();
        let mut other = MainFile::new(main.database.clone(), false, true, false);
        for file in [&mut main, &mut other] {
            file.shm_map(0, REGION_BYTES, true).unwrap();
        }
        [main, other]
    }

    #[test]
    fn the_index_of_an_empty_log_is_another_one_while_sqlite_would_make_it() {
        let (header, frame) = (wal_header(), frame_header(2, 4));
        for (writes, is_made) in
            [(&[][..], true), (&[(0, &header[..])], true), (&[(0, &header), (HEADER_BYTES, &frame)], false)]
        {
            let mut main = open(true);
            let wal = main.database.wal_or_open(make_spill()).unwrap();
            let mut log = WalFile::new(main.connection.clone(), wal);
            for (offset, bytes) in writes {
                log.write(bytes, *offset as u64).unwrap();
            }
            main.shm_map(0, REGION_BYTES, true).unwrap();
            main.shm_lock(WRITE_SLOT, 1, true).unwrap();
            let made = main.database.wal_index().change_counter();
            assert_eq!(made != 0, is_made, "{} writes", writes.len());
            main.shm_unlock(WRITE_SLOT, 1).unwrap();
            main.shm_lock(WRITE_SLOT, 1, true).unwrap();
            assert_eq!(main.database.wal_index().change_counter(), made, "it is there");
            main.shm_unlock(WRITE_SLOT, 1).unwrap();
        }
    }

    #[test]
    fn no_index_is_made_while_another_connection_keeps_everybody_from_making_one() {
        let [mut main, mut other] = two_with_a_log();
        let made = |main: &mut MainFile| {
            main.shm_lock(WRITE_SLOT, 1, true).unwrap();
            let made = main.database.wal_index().change_counter();
            main.shm_unlock(WRITE_SLOT, 1).unwrap();
            made
        };
        other.shm_lock(RECOVERY_SLOT, 1, true).unwrap();
        assert_eq!(made(&mut main), 0);
        other.shm_unlock(RECOVERY_SLOT, 1).unwrap();
        assert_ne!(made(&mut main), 0);
    }

    #[test]
    fn threads_no_writer_is_refused_since_our_own_checkpoint_has_its_turn() {
        for is_autocommit in [true, false] {
            let mut main = open(is_autocommit);
            for round in 0..400 {
                take_turn_of_test(&main.database);
                while main.database.checkpointer().is_at_work() {
                    let locked = main.shm_lock(WRITE_SLOT, 1, true);
                    assert!(locked.is_ok(), "round {round}, outside of a transaction: {is_autocommit}");
                    main.shm_unlock(WRITE_SLOT, 1).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_writer_that_begins_to_read_anew_does_not_wait_for_a_turn_that_waits_for_it() {
        let mut main = open(true);
        main.shm_lock(WRITE_SLOT, 1, true).unwrap();
        take_turn_of_test(&main.database);
        while !main.database.checkpointer().has_turn() {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        main.shm_lock(READ_SLOTS + 1, 1, false).unwrap();
        assert!(begun.elapsed() < Duration::from_millis(250), "the turn waits for 500 ms");
        main.shm_unlock(READ_SLOTS + 1, 1).unwrap();
        main.shm_unlock(WRITE_SLOT, 1).unwrap();
    }

    #[test]
    fn one_that_closes_waits_for_a_checkpoint_only_where_it_is_the_last() {
        let [mut main, mut other] = two_with_a_log();
        for file in [&mut main, &mut other] {
            file.lock(Level::Shared).unwrap();
        }
        let (end, ended) = std::sync::mpsc::channel::<()>();
        run_of_test(&main.database, move |_| {
            let _ = ended.recv_timeout(Duration::from_secs(20));
        });
        assert!(matches!(other.lock(Level::Exclusive), Err(Error::Busy)));
        assert!(main.database.checkpointer().is_at_work(), "it has waited for the checkpoint");
        other.unlock(Level::None).unwrap();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(end);
        });
        main.lock(Level::Exclusive).unwrap();
        assert!(!main.database.checkpointer().is_at_work(), "it is alone, also with the log");
        ending.join().unwrap();
    }

    #[test]
    fn a_checkpoint_of_the_application_is_not_refused_for_what_our_own_thread_reads() {
        let mut main = open(true);
        main.shm_lock(CHECKPOINT_SLOT, 1, true).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        run_of_test(&main.database, move |there| {
            let mut slots = there.wal_index().register();
            assert!(there.wal_index().lock(&mut slots, READ_SLOTS + 1, 1, false));
            sender.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            there.wal_index().unregister(&mut slots);
        });
        receiver.recv().unwrap();
        main.shm_lock(READ_SLOTS + 1, 4, true).unwrap();
        main.shm_unlock(READ_SLOTS + 1, 4).unwrap();
        main.shm_unlock(CHECKPOINT_SLOT, 1).unwrap();
    }
}
