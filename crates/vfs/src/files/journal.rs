//! The rollback journal that SQLite sees: memory, until a transaction needs a real one, or other processes may look for it.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::handle::{Handle, read_exactly};
use crate::files::journal_content::Journal;
use crate::memory::memory_file::{MemoryFile, position};
use crate::open::OpenDatabase;
use litefoot_storage::rollback_journal::MAGIC;
use litefoot_storage::sync::Mutex;
use std::sync::Arc;

/// A connection's handle on its journal.
pub struct JournalFile {
    connection: Arc<ConnectionState>,
    journal: Arc<Mutex<Journal>>,
}

impl JournalFile {
    /// A handle on a new journal of the connection.
    pub fn new(connection: Arc<ConnectionState>, memory: MemoryFile) -> Result<JournalFile> {
        let mut journal = Journal::new(memory);
        journal.follow(connection.database.db())?;
        let journal = Arc::new(Mutex::new(journal));
        *connection.journal.lock() = Some(journal.clone());
        Ok(JournalFile { connection, journal })
    }

    /// True where a transaction begins in a real journal of an earlier one, as it does on a connection in exclusive mode.
    fn begins_in_real(&self, buf: &[u8], offset: u64) -> bool {
        let journal = self.journal.lock();
        makes_hot(buf, offset) && !journal.has_header && journal.real.is_some()
    }

    fn check(&self) -> Result<()> {
        let database = &self.connection.database;
        database.db().check_process()?;
        if database.db().latch().reason().is_none() {
            return Ok(());
        }
        Ok(database.db().latch().check(&database.db().companion_path(Companion::Journal))?)
    }
}

impl Handle for JournalFile {
    fn latch_after_panic(&self, text: &str) {
        self.connection.database.db().latch_after_panic(text);
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.connection.database)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut journal = self.journal.lock();
        if offset == 0 {
            // SQLite looks if it is hot.
            journal.follow(self.connection.database.db())?;
        }
        journal.follow_begun(self.connection.database.db())?;
        if let Some(real) = &journal.real {
            return read_exactly(&**real, buf, offset);
        }
        let count = journal.memory.read(buf, position(offset, buf.len())?)?;
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        // SQLite looks whether the super-journal is there, and if not, takes the transaction for committed. But another
        // database of the transaction, which is rolled back first, has deleted it: that finds no journal here which
        // names it. A journal in memory is only ever read to roll back.
        if *buf == MAGIC && offset + MAGIC.len() as u64 == journal.memory.len() as u64 {
            buf.fill(0);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let database = &self.connection.database;
        // It is hot from now on, and must not be that beside a marked file.
        if database.db().tier().is_some() && self.begins_in_real(buf, offset) {
            database.rollback_log().clear_for_journal(database.db())?;
        }
        let mut journal = self.journal.lock();
        if let (0, Some(first)) = (offset, buf.first()) {
            journal.follow(self.connection.database.db())?;
            let has_header = *first != 0;
            journal.transactions += u64::from(has_header && !journal.has_header);
            journal.has_header = has_header;
        }
        journal.follow_begun(self.connection.database.db())?;
        journal.unsynced = true;
        match &journal.real {
            Some(real) => Ok(real.write_at(buf, offset)?),
            None => Ok(journal.memory.write(buf, position(offset, buf.len())?)?),
        }
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        let mut journal = self.journal.lock();
        journal.follow_begun(self.connection.database.db())?;
        journal.unsynced = true;
        journal.has_header &= len > 0;
        match &journal.real {
            Some(real) => Ok(real.set_len(len)?),
            None => Ok(journal.memory.set_len(position(len, 0)?)?),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        let mut journal = self.journal.lock();
        journal.follow_begun(self.connection.database.db())?;
        journal.settle(self.connection.database.db())
    }

    fn size(&mut self) -> Result<u64> {
        let mut journal = self.journal.lock();
        journal.follow_begun(self.connection.database.db())?;
        match &journal.real {
            Some(real) => Ok(real.len()?),
            None => Ok(journal.memory.len() as u64),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.connection.journal.lock().take();
        self.journal.lock().close(self.connection.database.db())
    }
}

/// True for the write by which a real journal is hot.
pub(super) fn makes_hot(buf: &[u8], offset: u64) -> bool {
    offset == 0 && buf.first().is_some_and(|first| *first != 0)
}

/// Takes a transaction back to SQLite's own protocol: the journal becomes real. The dirty pages are to be written in
/// place next.
pub(crate) fn make_real(connection: &ConnectionState, journal: &Mutex<Journal>) -> Result<()> {
    let database = &connection.database;
    database.rollback_log().clear_for_journal(database.db())?;
    journal.lock().make_real(database.db())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::reservation::MemoryReservation;
    use crate::memory::spill_file::tests::make_spill;
    use crate::open::database::DatabaseSetup;
    use litefoot_sim::{Random, SimMedium};
    use std::path::Path;

    /// The bytes that a void header begins with.
    const VOID: [u8; 8] = [0; 8];

    fn open(medium: &SimMedium, multi_process: bool) -> (Arc<OpenDatabase>, JournalFile) {
        let setup = DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/app.db"));
        let database = Arc::new(OpenDatabase::new(setup));
        change(&database, multi_process);
        let connection = Arc::new(ConnectionState::new(database.clone(), 1, false, false));
        let memory = MemoryFile::new(MemoryReservation::new(database.db().memory().share()), make_spill());
        (database, JournalFile::new(connection, memory).unwrap())
    }

    fn change(database: &OpenDatabase, multi_process: bool) {
        database.db().shared().set_owned(!multi_process);
        database.db().shared().set_multi_process(multi_process);
    }

    fn content(medium: &SimMedium) -> Option<Vec<u8>> {
        let files = medium.files().into_iter();
        files
            .map(|(path, _, bytes)| (path, bytes))
            .find(|(path, _)| path == Path::new("/app.db-journal"))
            .map(|(_, bytes)| bytes)
    }

    fn write_transaction(journal: &mut JournalFile) {
        journal.write(&MAGIC, 0).unwrap();
        journal.write(b"page", 512).unwrap();
        journal.sync().unwrap();
    }

    #[test]
    fn a_journal_that_others_may_look_for_is_a_file_from_its_first_byte() {
        let medium = SimMedium::new();
        let (_database, mut journal) = open(&medium, true);
        assert_eq!(content(&medium).as_deref(), Some(&b""[..]));
        journal.write(&MAGIC, 0).unwrap();
        assert_eq!(content(&medium).as_deref(), Some(&MAGIC[..]));
        let mut random = Random::new(3);
        let is_lost = |image: SimMedium| content(&image).is_none_or(|bytes| bytes != MAGIC);
        assert!((0..20).any(|_| is_lost(medium.cut(&mut random))));
        journal.sync().unwrap();
        assert!((0..20).all(|_| !is_lost(medium.cut(&mut random))), "its name is durable, too");
        assert_eq!(journal.size().unwrap(), MAGIC.len() as u64);
        let mut found = [0; 8];
        journal.read(&mut found, 0).unwrap();
        assert_eq!(found, MAGIC, "a journal of memory would hide a lone header at the end");
    }

    #[test]
    fn a_void_journal_that_stays_open_goes_with_the_state() {
        for by_cutting in [false, true] {
            let medium = SimMedium::new();
            let (database, mut journal) = open(&medium, false);
            let end = |journal: &mut JournalFile| {
                if by_cutting { journal.truncate(0) } else { journal.write(&VOID, 0) }.unwrap();
            };
            write_transaction(&mut journal);
            end(&mut journal);
            assert_eq!(content(&medium), None);
            change(&database, true);
            // SQLite looks if it is hot, and nothing of the time before is there.
            let mut first = [9];
            assert!(matches!(journal.read(&mut first, 0), Err(Error::ShortRead)));
            assert_eq!((first, journal.size().unwrap()), ([0], 0));
            write_transaction(&mut journal);
            assert_eq!(content(&medium).unwrap().len(), 516);
            end(&mut journal);
            let left = content(&medium).unwrap();
            assert!(left.iter().take(8).all(|byte| *byte == 0), "nothing that could be rolled back");
            change(&database, false);
            write_transaction(&mut journal);
            assert_eq!((content(&medium).unwrap(), journal.size().unwrap()), (left, 516));
        }
    }

    #[test]
    fn within_a_transaction_no_journal_changes_its_form() {
        let medium = SimMedium::new();
        for multi_process in [false, true] {
            let (database, mut journal) = open(&medium, multi_process);
            write_transaction(&mut journal);
            change(&database, !multi_process);
            assert!(journal.write(&VOID, 0).is_err() && journal.read(&mut [0], 0).is_err());
        }
    }

    #[test]
    fn a_transaction_in_which_others_come_has_its_journal_in_a_file() {
        type Use = fn(&mut JournalFile) -> Result<()>;
        let mut header = vec![0; 512];
        header[12..28].fill(7);
        let uses: [(&str, Use); 6] = [
            ("read", |journal| journal.read(&mut [0; 4], 512)),
            ("size", |journal| journal.size().map(drop)),
            ("a record", |journal| journal.write(b"more", 516)),
            ("the header", |journal| journal.write(&MAGIC, 0)),
            ("sync", |journal| journal.sync()),
            ("lock", |journal| journal.connection.carry_journal()),
        ];
        for (name, first_use) in uses {
            let medium = SimMedium::new();
            let (database, mut journal) = open(&medium, false);
            journal.write(&header, 0).unwrap();
            journal.write(b"page", 512).unwrap();
            assert_eq!(content(&medium), None);
            change(&database, true);
            first_use(&mut journal).unwrap();
            let mut expected = [&header[..], b"page"].concat();
            match name {
                "a record" => expected.extend_from_slice(b"more"),
                "the header" => expected[..8].copy_from_slice(&MAGIC),
                _ => {}
            }
            assert_eq!(content(&medium).as_ref(), Some(&expected), "{name}");
            assert_eq!(journal.size().unwrap(), expected.len() as u64, "{name}");
            journal.sync().unwrap();
            let mut random = Random::new(7);
            assert!((0..20).all(|_| content(&medium.cut(&mut random)).as_ref() == Some(&expected)), "{name}");
        }
    }

    #[test]
    fn a_journal_of_others_is_as_durable_as_sqlite_has_asked_for() {
        for (multi_process, syncs) in [(false, 0), (true, 1)] {
            let medium = SimMedium::new();
            let (database, mut journal) = open(&medium, multi_process);
            write_transaction(&mut journal);
            journal.write(&VOID, 0).unwrap();
            Box::new(journal).close().unwrap();
            let syncs_made =
                database.stats().iter().find(|(name, _)| name == "journal_syncs").map_or(0, |row| row.1);
            assert_eq!(syncs_made, syncs, "beside others: {multi_process}");
        }
    }
}
