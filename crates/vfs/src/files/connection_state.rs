//! The state that the handles of one connection share: its main database file, its journal and its log.
//!
//! # Why
//! SQLite tells a connection's settings to one of its files (PRAGMA, file controls), and another of them needs to know.
//!
//! # Invariants
//! SQLite uses a connection by one thread at a time, so nothing here is contended.

use crate::ffi::connection::Connection;
use crate::files::durable_reads::Shows;
use crate::files::journal_content::Journal;
use crate::memory::sqlite_cache::SqliteCacheSize;
use crate::open::OpenDatabase;
use crate::open::capture_host::ConnectionCapture;
use crate::sync::lock_table::{HandleId, ReaderSlot};
use crate::txn::wal_frames::Transaction;
use litefoot_storage::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The statement that a connection runs, for an owner in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembersStatement {
    /// True outside of a transaction with BEGIN.
    pub is_autocommit: bool,
    /// When it shows what it reads.
    pub shows: Shows,
}

impl MembersStatement {
    /// What is told where nothing is known.
    pub const UNKNOWN: MembersStatement = MembersStatement { is_autocommit: false, shows: Shows::Always };

    /// The statement that a connection of this process runs.
    pub fn of(connection: Connection) -> MembersStatement {
        MembersStatement { is_autocommit: connection.is_autocommit(), shows: Self::shows_of(connection) }
    }

    fn shows_of(connection: Connection) -> Shows {
        super::durable_reads::shows(connection)
    }
}

/// The state of one connection to a database.
pub struct ConnectionState {
    /// The database, which all its connections share.
    pub database: Arc<OpenDatabase>,
    /// The transaction that was completed in the log and that SQLite has not published yet.
    pub completed: Mutex<Option<Transaction>>,
    /// The rollback journal that is open, where it is ours.
    pub journal: Mutex<Option<Arc<Mutex<Journal>>>>,
    /// True if a transaction of pages has begun.
    pub writing: AtomicBool,
    /// True after a transaction in WAL mode has written.
    pub has_written: AtomicBool,
    /// The handle on the main database file.
    pub id: HandleId,
    /// The locks that this handle has on the database.
    pub reader_slot: Arc<ReaderSlot>,
    /// True if the connection is internal.
    pub internal: bool,
    /// True if SQLite tells of its commits: a VFS above may not pass file controls on.
    pub receives_file_controls: AtomicBool,
    /// True if it takes no locks (`nolock=1`, `immutable=1`).
    pub unlocked: bool,
    /// True if commits need not be durable at all (`synchronous=OFF`).
    pub unsafe_commits: AtomicBool,
    /// True if SQLite, as far as known, syncs none of its commits in WAL mode (`synchronous` below FULL). A wrong guess
    /// costs time, and nothing else.
    unsynced_commits: AtomicBool,
    /// True if the transaction that was completed last is in the redo log, and is to be durable soon.
    pub logged: AtomicBool,
    /// How large its cache is.
    pub cache_size: SqliteCacheSize,
    /// The state that has taken its place in a forked child.
    pub successor: OnceLock<Arc<ConnectionState>>,
    /// SQLite's handle of the connection; only for calls that SQLite makes for this connection.
    handle: OnceLock<Connection>,
    /// What the statement of a member's connection is, as the member has told with its last request; `None` for a connection of
    /// this process.
    members_statement: Mutex<Option<MembersStatement>>,
    /// True once another connection shares its cache, and its file.
    is_shared: AtomicBool,
    /// The capture of the connection's statements.
    capture: OnceLock<Arc<ConnectionCapture>>,
    /// The transaction that was queued and that the commit waits for: its number, and whether until it is
    /// durable.
    waiting: Mutex<Option<(u64, bool)>>,
}

impl ConnectionState {
    /// A new connection.
    pub fn new(database: Arc<OpenDatabase>, id: HandleId, internal: bool, unlocked: bool) -> ConnectionState {
        ConnectionState {
            reader_slot: database.locks().new_reader_slot(),
            database,
            id,
            internal,
            receives_file_controls: AtomicBool::new(false),
            unlocked,
            unsafe_commits: AtomicBool::new(false),
            unsynced_commits: AtomicBool::new(false),
            logged: AtomicBool::new(false),
            cache_size: SqliteCacheSize::default(),
            successor: OnceLock::new(),
            handle: OnceLock::new(),
            members_statement: Mutex::new(None),
            is_shared: AtomicBool::new(false),
            capture: OnceLock::new(),
            waiting: Mutex::new(None),
            completed: Mutex::new(None),
            journal: Mutex::new(None),
            writing: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
        }
    }

    /// Notes the value of `PRAGMA synchronous`.
    pub fn note_synchronous(&self, value: &str) {
        let (unsafe_commits, unsynced_commits) = synchronous(value);
        self.unsafe_commits.store(unsafe_commits, Ordering::Relaxed);
        self.note_unsynced(unsynced_commits);
    }

    /// Notes whether SQLite syncs the commits of the connection in WAL mode.
    #[inline]
    pub fn note_unsynced(&self, are_unsynced: bool) {
        self.unsynced_commits.store(are_unsynced, Ordering::Relaxed);
        if !self.internal {
            self.database.note_unsynced(are_unsynced);
        }
    }

    /// Takes over what the connection has set, from the one that it was before a fork.
    pub fn inherit(&self, other: &ConnectionState) {
        for (new, old) in
            [(&self.unsafe_commits, &other.unsafe_commits), (&self.unsynced_commits, &other.unsynced_commits)]
        {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.cache_size.inherit(&other.cache_size);
    }

    /// True if its commits are to be durable, soon at least.
    pub fn wants_durability(&self) -> bool {
        !self.unsafe_commits.load(Ordering::Relaxed)
    }

    /// True if a transaction in WAL mode is written as soon as it is complete: no sync is expected, before which it would be.
    pub fn logs_at_once(&self) -> bool {
        self.unsynced_commits.load(Ordering::Relaxed) && !self.database.db().options().logs_statements()
    }

    /// Notes SQLite's handle of the connection.
    pub fn set_handle(&self, handle: Connection) {
        let _ = self.handle.set(handle);
    }

    /// Another connection has the same file: nobody knows any more which one a call is for.
    pub fn set_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// SQLite's handle of the connection that a call is for, where that is known.
    pub fn handle(&self) -> Option<Connection> {
        self.handle.get().copied().filter(|_| !self.is_shared.load(Ordering::Relaxed))
    }

    /// Notes what the statement of a member's connection is.
    pub fn note_statement(&self, statement: MembersStatement) {
        *self.members_statement.lock() = Some(statement);
    }

    /// True if the connection that a call is for is known to be in no transaction with BEGIN.
    pub fn is_autocommit(&self) -> bool {
        let members = *self.members_statement.lock();
        members.map_or_else(
            || self.handle().is_some_and(Connection::is_autocommit),
            |statement| statement.is_autocommit,
        )
    }

    /// When the running statement shows what it reads.
    pub(super) fn shows(&self) -> Shows {
        let members = *self.members_statement.lock();
        members.map_or_else(
            || self.handle().map_or(Shows::Always, MembersStatement::shows_of),
            |statement| statement.shows,
        )
    }

    /// The same for a connection of this process; a member tells with some of its calls only.
    pub(super) fn own_statement_shows(&self) -> Shows {
        if self.members_statement.lock().is_some() { Shows::Always } else { self.shows() }
    }

    /// True if a commit ends all that the connection does. A member says so itself.
    pub(super) fn ends_with_own_statement(&self) -> bool {
        let own = self.handle().filter(|_| self.members_statement.lock().is_none());
        own.is_some_and(Connection::ends_with_statement)
    }

    /// Watches the connection's statements from now on.
    pub fn set_capture(&self, capture: Arc<ConnectionCapture>) {
        let _ = self.capture.set(capture);
    }

    /// The capture of the connection's statements.
    pub fn capture(&self) -> Option<&Arc<ConnectionCapture>> {
        self.capture.get()
    }

    /// A lock or a failure was met.
    pub fn disturb(&self) {
        if let Some(capture) = self.capture() {
            capture.disturb();
        }
    }

    /// The commit will have to wait for a transaction.
    pub fn wait_for(&self, number: u64, durable: bool) {
        *self.waiting.lock() = Some((number, durable));
    }

    /// True while a commit has to wait for a transaction.
    pub fn is_waiting(&self) -> bool {
        self.waiting.lock().is_some()
    }

    /// Takes the transaction that the commit has to wait for.
    pub fn take_waiting(&self) -> Option<(u64, bool)> {
        self.waiting.lock().take()
    }

    /// Notes that a transaction of pages begins, where they are held back.
    pub fn begin_writing(&self) {
        if self.database.db().holds_back() {
            self.writing.store(true, Ordering::Relaxed);
        }
    }

    /// True if it is known which writes are one transaction, so that its journal and its log can go with the state of the
    /// database.
    #[inline]
    pub fn is_heard(&self) -> bool {
        let heard = self.receives_file_controls.load(Ordering::Relaxed) && !self.unlocked;
        heard && !self.database.is_native()
    }

    /// True if its journal and its log are files now, since other processes may have the database open.
    pub fn is_beside_others(&self) -> bool {
        self.database.db().shared().is_multi_process() && self.is_heard()
    }

    /// True if transactions may be held back, with a journal or a log in memory.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.is_heard() && self.database.db().holds_back()
    }

    /// Before the database file is written: where others have come since the transaction began, its journal becomes a file.
    pub fn carry_journal(&self) -> crate::error::Result<()> {
        let journal = self.journal.lock().clone();
        journal.map_or(Ok(()), |journal| journal.lock().follow_begun(self.database.db()))
    }

    /// True if the transaction is in a real journal, which a connection in exclusive mode keeps open.
    pub fn has_real_journal(&self) -> bool {
        self.journal.lock().as_ref().is_some_and(|journal| journal.lock().is_in_use())
    }

    /// The transaction that is in the journal, where that is ours, and one is.
    pub fn journal_transaction(&self) -> Option<u64> {
        self.journal.lock().as_ref().and_then(|journal| journal.lock().transaction())
    }

    /// True if a transaction of pages has begun.
    pub fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }
}

/// The meaning of a value of `PRAGMA synchronous`, as SQLite reads it. The first is true if commits need not be durable
/// at all, the second if SQLite syncs none of them in WAL mode.
fn synchronous(value: &str) -> (bool, bool) {
    let is = |names: &[&str]| names.iter().any(|name| value.eq_ignore_ascii_case(name));
    let level = match value.parse::<u8>() {
        Ok(level) => level,
        Err(_) if is(&["off", "no", "false"]) => 0,
        Err(_) if is(&["full", "extra"]) => 2,
        Err(_) => 1,
    };
    (level == 0, level < 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synchronous_is_read_as_sqlite_reads_it() {
        for (value, unsafe_commits, unsynced_commits) in [
            ("0", true, true),
            ("OFF", true, true),
            ("no", true, true),
            ("false", true, true),
            ("1", false, true),
            ("normal", false, true),
            ("on", false, true),
            ("yes", false, true),
            ("2", false, false),
            ("Full", false, false),
            ("3", false, false),
            ("extra", false, false),
            ("nonsense", false, true),
        ] {
            assert_eq!(synchronous(value), (unsafe_commits, unsynced_commits), "{value}");
        }
    }
}
