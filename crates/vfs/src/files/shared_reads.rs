//! The wait of a reader in a rollback-journal mode, which shows no commit that a power cut could still take back.
//!
//! Commits of a group's processes give their lock up before they are durable (`commit/shared_syncs`). Who has SHARED then waits until they are. A
//! statement that writes and returns no rows shows nothing of what it reads before its end (`durable_reads`): it waits there, or for
//! its own commit, which comes later in the log.
//!
//! # Invariants
//! 1. Who finds everything durable once it has SHARED sees nothing else until it gives that up: a commit needs the database alone.
//! 2. A wait that was deferred is made up for before SQLite hears that the lock is given up, or that the commit is done.
//! 3. BEGIN IMMEDIATE is answered as soon as it has the lock of a writer. It waits there for what it finds. It has stood aside before
//!    (`files/standing_aside`): mostly there is nothing.

use crate::error::Result;
use crate::files::durable_reads::Shows;
use crate::files::main_db::MainFile;
use crate::sync::lock_table::Level;

/// What a connection knows of commits that share syncs.
#[derive(Debug, Default)]
pub(super) struct SharedRead {
    /// True while the lock of a reader is taken for a statement that shows nothing yet.
    pub defers: bool,
    /// The commit for which it has to wait before it shows anything.
    owed: Option<u64>,
}

impl MainFile {
    /// The connection has SHARED: waits for the commits that it would see and that a power cut could still take back, or defers the wait.
    /// Without its success the lock is given up.
    pub(super) fn await_shared_syncs(&mut self) -> Result<()> {
        let Some(number) = self.database.rollback_log().syncs().unsettled() else { return Ok(()) };
        if self.shared_read.defers || self.connection.own_statement_shows() == Shows::Outcome {
            self.shared_read.owed = Some(number);
            return Ok(());
        }
        let log = self.database.rollback_log();
        log.syncs().await_durable_at_once(log, self.database.db(), number).inspect_err(|_| {
            self.database.unlock(&self.connection.reader_slot, Level::None);
        })
    }

    /// Before a connection takes SHARED, where syncs are long: a statement of this process that is going to write waits for its turn, as one of a
    /// member does. All others wait for the commits there are now, and keep nobody from committing meanwhile.
    pub(super) fn await_before_shared(&mut self) -> Result<()> {
        let log = self.database.rollback_log();
        let (syncs, db) = (log.syncs(), self.database.db());
        let is_first = self.connection.reader_slot.level() == Level::None && !self.shared_read.defers;
        if !is_first || !syncs.is_long() || !self.takes_turns() {
            return Ok(());
        }
        match self.connection.own_statement_shows() {
            Shows::Always => syncs.unsettled().map_or(Ok(()), |number| syncs.await_durable(log, db, number)),
            // Where it has none, SQLite is told so when it asks for the lock of a writer.
            shows => self.await_turn_to_write(shows).map(drop),
        }
    }

    /// The transaction is committed, and may not be durable. Nobody else has committed since: the connection has the database alone.
    pub(crate) fn owe_shared_sync(&mut self) {
        self.shared_read.owed = self.database.rollback_log().syncs().unsettled();
    }

    /// Waits for what was deferred.
    pub(super) fn settle_shared_sync(&mut self) -> Result<()> {
        let owed = self.take_owed_sync();
        self.await_owed_sync(owed)
    }

    /// The same for a connection that keeps others back meanwhile.
    pub(super) fn settle_shared_sync_at_once(&mut self) -> Result<()> {
        let Some(number) = self.take_owed_sync() else { return Ok(()) };
        let log = self.database.rollback_log();
        log.syncs().await_durable_at_once(log, self.database.db(), number)
    }

    /// What was deferred, for [`MainFile::await_owed_sync`] behind the end of the transaction.
    pub(crate) fn take_owed_sync(&mut self) -> Option<u64> {
        self.shared_read.owed.take()
    }

    pub(crate) fn await_owed_sync(&self, owed: Option<u64>) -> Result<()> {
        let Some(number) = owed else { return Ok(()) };
        let log = self.database.rollback_log();
        log.syncs().await_durable(log, self.database.db(), number)
    }
}
