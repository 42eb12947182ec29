//! The handle that SQLite has on its write-ahead log: memory where this process owns the database, else the file.
//!
//! # Why
//! SQLite keeps the handle open between transactions, and the database may become multi-process in between, or this process's
//! own again. So the handle goes with the state.
//!
//! # Invariants
//! 1. A call finds the log of the present state. The state changes between transactions only, and SQLite uses its log only in
//!    one.
//! 2. Whenever this process has owned the database, the file is opened anew: another may have its name.
//! 3. The file is created with the rights of the database, and its name is durable with the first sync.

use crate::commit::wal::Wal;
use crate::db::Companion;
use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::handle::Handle;
use crate::files::passthrough::PassThroughFile;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One connection's handle on the log of its database.
pub struct WalFile {
    connection: Arc<ConnectionState>,
    log: Log,
    /// When that was asked for.
    generation: u64,
}

/// Where the log is.
enum Log {
    /// In memory, as all connections of this process share it.
    Memory(Arc<Wal>),
    /// A file that other processes may use, too.
    File(Box<PassThroughFile>),
}

impl WalFile {
    /// A connection's handle on the log of its database.
    pub fn new(connection: Arc<ConnectionState>, wal: Arc<Wal>) -> WalFile {
        let generation = connection.database.wal_generation();
        WalFile { connection, log: Log::Memory(wal), generation }
    }

    /// A connection's handle on the log of its database as the state of that is now.
    pub fn of_state(connection: Arc<ConnectionState>) -> Result<WalFile> {
        let generation = connection.database.wal_generation();
        Ok(WalFile { log: Log::of(&connection.database)?, connection, generation })
    }

    /// The log is another one where the database was another process's meanwhile, or its state has changed.
    #[inline]
    fn follow(&mut self) -> Result<()> {
        let is_same = self.generation == self.connection.database.wal_generation();
        if is_same && matches!(self.log, Log::Memory(_)) { Ok(()) } else { self.follow_state(is_same) }
    }

    #[inline(never)]
    fn follow_state(&mut self, is_same: bool) -> Result<()> {
        let database = &self.connection.database;
        if !is_same || !database.db().shared().is_multi_process() {
            // First of all: another log, or none, is asked for next.
            let generation = database.wal_generation();
            self.log = Log::of(database)?;
            self.generation = generation;
        }
        Ok(())
    }

    /// Before a change of the log.
    fn check(&mut self) -> Result<()> {
        self.follow()?;
        self.connection.database.db().check_process()?;
        match &self.log {
            Log::Memory(wal) => Ok(self.connection.database.db().latch().check(wal.path())?),
            // It checks that itself.
            Log::File(_) => Ok(()),
        }
    }
}

impl Log {
    /// The log of a database as its state is now.
    fn of(database: &Arc<OpenDatabase>) -> Result<Log> {
        if database.db().shared().is_multi_process() {
            let file = PassThroughFile::beside_others(database, Companion::Wal)?;
            return Ok(Log::File(Box::new(file)));
        }
        let gone = || Error::Io(format!("{}: its log was closed", database.db().path().display()));
        database.wal().map(Log::Memory).ok_or_else(gone)
    }
}

impl Handle for WalFile {
    fn latch_after_panic(&self, text: &str) {
        self.connection.database.db().latch_after_panic(text);
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.follow()?;
        let count = match &mut self.log {
            Log::Memory(wal) => wal.read(self.connection.database.db(), buf, offset)?,
            Log::File(file) => return file.read(buf, offset),
        };
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let wal = match &mut self.log {
            Log::Memory(wal) => wal,
            Log::File(file) => return file.write(buf, offset),
        };
        let written = wal.write(&self.connection.database, &self.connection.cache_size, buf, offset);
        let Some(transaction) = written.inspect_err(|_| self.connection.disturb())? else { return Ok(()) };
        if self.connection.logs_at_once() {
            // Nothing but this write can still fail where SQLite takes the transaction back.
            wal.log_completed(self.connection.database.db(), transaction)?;
            self.connection.logged.store(true, Ordering::Relaxed);
        } else {
            *self.connection.completed.lock() = Some(transaction);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        match &mut self.log {
            Log::Memory(wal) => wal.set_len(self.connection.database.db(), len),
            Log::File(file) => file.truncate(len),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        let wal = match &mut self.log {
            Log::Memory(wal) => wal,
            Log::File(file) => return file.sync(),
        };
        let Some(transaction) = self.connection.completed.lock().take() else {
            if self.connection.logged.swap(false, Ordering::Relaxed) {
                self.connection.note_unsynced(false);
            }
            return wal.log(self.connection.database.db(), Durability::Durable);
        };
        self.connection.note_unsynced(false);
        match wal.queue(self.connection.database.db(), self.connection.capture(), transaction, true) {
            Some(number) => self.connection.wait_for(number, true),
            None => wal.log_commit(self.connection.database.db(), transaction)?,
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        self.follow()?;
        match &mut self.log {
            Log::Memory(wal) => Ok(wal.bytes()),
            Log::File(file) => file.size(),
        }
    }

    fn in_this_process(&self) -> Option<Box<dyn Handle>> {
        let connection = self.connection.successor.get()?;
        Some(Box::new(WalFile::of_state(connection.clone()).ok()?))
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.connection.database)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The database leaves WAL mode. The pages that the connection writes next, under the lock that it has already, is
        // a transaction.
        if self.connection.reader_slot.level() == Level::Exclusive {
            self.connection.begin_writing();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::spill_file::tests::make_spill;
    use crate::open::database::DatabaseSetup;
    use litefoot_sim::{Random, SimMedium};
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::path::Path;

    const LOG: &str = "/app.db-wal";

    fn open(medium: &SimMedium) -> Arc<ConnectionState> {
        let setup = DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/app.db"));
        let database = Arc::new(OpenDatabase::new(setup));
        database.own().unwrap();
        Arc::new(ConnectionState::new(database, 1, false, false))
    }

    /// As a change of the state has it: the log in memory is closed, and the database is nobody's or everybody's.
    fn change(database: &OpenDatabase, multi_process: bool) {
        if let Some(wal) = database.wal() {
            wal.close();
        }
        database.reset_wal();
        database.db().shared().set_owned(!multi_process);
        database.db().shared().set_multi_process(multi_process);
    }

    fn content(medium: &SimMedium) -> Option<Vec<u8>> {
        medium.files().into_iter().find(|(path, ..)| path == Path::new(LOG)).map(|(.., bytes)| bytes)
    }

    #[test]
    fn a_handle_goes_with_the_state_of_its_database() {
        let medium = SimMedium::new();
        let connection = open(&medium);
        let database = connection.database.clone();
        let wal = database.wal_or_open(make_spill()).unwrap();
        let mut handle = WalFile::new(connection, wal);
        assert_eq!((handle.size().unwrap(), content(&medium)), (0, None));
        change(&database, true);
        handle.write(b"frames", 0).unwrap();
        assert_eq!(content(&medium).as_deref(), Some(&b"frames"[..]));
        let mut found = [0; 8];
        assert!(matches!(handle.read(&mut found, 0), Err(Error::ShortRead)));
        assert_eq!((&found, handle.size().unwrap()), (b"frames\0\0", 6));
        handle.truncate(3).unwrap();
        assert_eq!(content(&medium).as_deref(), Some(&b"fra"[..]));
        change(&database, false);
        assert!(handle.size().is_err(), "there is none in memory");
        let other = medium.open(Path::new(LOG), FileKind::RedoLog, OpenMode::Create).unwrap();
        other.set_len(0).unwrap();
        database.wal_or_open(make_spill()).unwrap();
        assert_eq!(handle.size().unwrap(), 0);
        // This process has used the log meanwhile, and the file has another identity now.
        medium.delete(Path::new(LOG)).unwrap();
        change(&database, true);
        handle.write(b"new", 0).unwrap();
        assert_eq!(content(&medium).as_deref(), Some(&b"new"[..]));
        assert_eq!(other.len().unwrap(), 0);
    }

    #[test]
    fn a_file_that_was_not_used_in_memory_meanwhile_is_opened_anew_all_the_same() {
        let medium = SimMedium::new();
        let connection = open(&medium);
        let database = connection.database.clone();
        change(&database, true);
        let mut handle = WalFile::of_state(connection).unwrap();
        handle.write(b"old", 0).unwrap();
        change(&database, false);
        database.wal_or_open(make_spill()).unwrap();
        change(&database, true);
        medium.delete(Path::new(LOG)).unwrap();
        handle.write(b"new", 0).unwrap();
        assert_eq!(content(&medium).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn the_first_sync_makes_the_name_of_a_log_durable() {
        let medium = SimMedium::new();
        let connection = open(&medium);
        change(&connection.database, true);
        let mut handle = WalFile::of_state(connection).unwrap();
        handle.write(b"frames", 0).unwrap();
        handle.sync().unwrap();
        let mut random = Random::new(5);
        for _ in 0..20 {
            assert_eq!(content(&medium.cut(&mut random)).as_deref(), Some(&b"frames"[..]));
        }
    }

    #[test]
    fn nothing_is_written_behind_a_closed_latch() {
        let medium = SimMedium::new();
        let connection = open(&medium);
        change(&connection.database, true);
        let mut handle = WalFile::of_state(connection.clone()).unwrap();
        connection.database.db().latch().close("on purpose");
        assert!(handle.write(b"frames", 0).is_err() && handle.sync().is_err());
        assert_eq!(content(&medium).as_deref(), Some(&b""[..]));
    }
}
