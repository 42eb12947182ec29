//! The wait of a reader in WAL mode, which shows no commit that a power cut could still take back.
//!
//! # Why
//! A writer reads first. If it waited for the commit before its own, no two commits would ever share a sync. But a statement
//! that writes and returns no rows shows nothing of what it reads before its end. Its own commit comes later in the log, so it
//! waits for that one only.
//!
//! # How it is known
//! SQLite is asked, through its public functions, which statements of the connection run. That happens only while a commit
//! waits for its sync, and inside a call of that connection. Where SQLite cannot be asked, or something else runs, too, the
//! reader waits: in a connection with a shared cache, in a transaction with BEGIN, for an attached database.
//!
//! # Invariants
//! 1. A wait that was deferred is made up for before the connection gives its read slot back, and after a statement has given
//!    up the write lock without a commit of its own: SQLite answers the statement later.
//! 2. BEGIN IMMEDIATE is answered as soon as it has the write lock. It waits there for what it finds. Beside members, where syncs take long, it
//!    has stood aside before (`files/standing_aside`).
//! 3. Where the write lock was refused, or the snapshot turns out to be old, SQLite answers SQLITE_BUSY. Nothing was read
//!    then, and the wait is dropped.
//! 4. A reader that keeps meeting new commits keeps writers back for a moment. SQLite begins to read anew after each commit,
//!    and gives up after a while (`SQLITE_PROTOCOL`).

use crate::capture::first_word_of;
use crate::commit::wal::Wal;
use crate::error::{Error, Result};
use crate::ffi::connection::Connection;
use crate::files::main_db::MainFile;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Waits of one reader before it keeps writers back.
const PATIENCE: u32 = 2;
/// How long such a reader waits for its turn among the writers, and how long they wait for it.
const TURN_WAIT: Duration = Duration::from_millis(2);
const TURN: Duration = Duration::from_millis(5);

/// When the running statement shows what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// At any time.
    Always,
    /// Once it has the write lock.
    Begun,
    /// At its end.
    Outcome,
}

/// A read that found commits on their way to the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsettledRead {
    /// The commit whose wait was deferred.
    pub(super) owed: Option<u64>,
    pub(super) shows: Shows,
    /// The change counter of the index when the read began.
    pub(super) change: u32,
}

/// When the statement of a connection shows what it reads.
pub(super) fn shows(connection: Connection) -> Shows {
    if !connection.is_autocommit() {
        return Shows::Always;
    }
    match connection.only_open_statement() {
        Some(statement) if !statement.is_read_only() && !statement.has_columns() => {
            shows_of(first_word_of(statement.text_begin()))
        }
        _ => Shows::Always,
    }
}

/// The same of one that writes and returns no rows, by its first word. Only those that change rows and those that begin a
/// transaction are known.
fn shows_of(word: &str) -> Shows {
    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
    if is("BEGIN") {
        Shows::Begun
    } else if ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"].into_iter().any(is) {
        Shows::Outcome
    } else {
        Shows::Always
    }
}

impl MainFile {
    /// Before a read slot is taken: waits for the commits that a reader would see and that a power cut could still take back,
    /// or defers the wait.
    #[inline]
    pub(super) fn await_durable(&mut self) -> Result<()> {
        // First of all: what is promised later is looked at the next time.
        let promises = self.database.db().shared().promises();
        if self.settled == promises { Ok(()) } else { self.await_committed(promises) }
    }

    /// True if a reader that takes its slot now waits for no commit.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.settled == self.database.db().shared().promises()
    }

    fn await_committed(&mut self, promises: u64) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        let is_long = self.is_beside_long_syncs(&wal);
        if is_long && self.connection.capture().is_none() {
            self.await_turn_beside_members(&wal)?;
        }
        let Some(number) = wal.not_durable() else {
            (self.settled, self.unsettled) = (promises, None);
            self.database.db().shared().note_settled(promises);
            self.end_patience();
            return Ok(());
        };
        let change = self.database.wal_index().change_counter();
        let by_capture = self.connection.capture().map(|capture| capture.defers_wait(number));
        let shows = if by_capture.is_some() { Shows::Always } else { self.shows(is_long) };
        let mut read = UnsettledRead { owed: None, shows, change };
        match by_capture {
            Some(true) => {}
            None if shows != Shows::Always => read.owed = Some(number),
            _ => {
                if self.await_turn_to_read() {
                    wal.wait_durable_at_once(wal.not_durable().unwrap_or(number))?;
                } else {
                    wal.wait_durable(number)?;
                }
                if self.database.wal_index().change_counter() == change {
                    // SQLite need not begin anew.
                    self.end_patience();
                }
            }
        }
        self.unsettled = Some(read);
        Ok(())
    }

    /// True where a sync takes long, and members commit meanwhile.
    fn is_beside_long_syncs(&self, wal: &Wal) -> bool {
        self.database.db().counters().members.load(Ordering::Relaxed) > 0 && wal.is_long()
    }

    /// There a statement of this process that is going to write waits for its turn before it reads, as those of members do: a commit in between would
    /// have it read anew. Where it has no turn, SQLite is told so when it asks for the write lock.
    ///
    /// # Errors
    /// Others have committed meanwhile. SQLite begins anew at once, and nobody commits any more.
    fn await_turn_beside_members(&mut self, wal: &Wal) -> Result<()> {
        let shows = if self.slots.writes() { Shows::Always } else { self.connection.shows() };
        if shows == Shows::Always || self.has_unused_turn && self.database.writer_queue().has_turn(self.id) {
            return Ok(());
        }
        let change = self.database.wal_index().change_counter();
        self.has_unused_turn =
            self.await_turn(shows, true, || wal.not_durable(), |number| wal.wait_durable(number))?;
        if self.has_unused_turn && self.database.wal_index().change_counter() != change {
            return Err(Error::Busy);
        }
        Ok(())
    }

    /// A statement ends that has not used its turn.
    pub(super) fn give_unused_turn_back(&mut self) {
        if std::mem::take(&mut self.has_unused_turn) {
            self.database.writer_queue().leave_unless_writing(self.id);
        }
    }

    /// When the running statement shows what it reads. Where the write lock was taken first, nothing tells when it has begun. A statement that has
    /// taken it with its turn, where a sync takes `long`, owes a wait to its end.
    fn shows(&self, long: bool) -> Shows {
        if !self.slots.writes() {
            return self.connection.shows();
        }
        let owes = long && self.unsettled.is_some_and(|read| read.owed.is_some());
        if owes && self.connection.shows() == Shows::Outcome { Shows::Outcome } else { Shows::Always }
    }

    /// A reader that waits again and again keeps writers back, until it has read what is durable. Answers if it does.
    fn await_turn_to_read(&mut self) -> bool {
        self.waits += 1;
        let queue = self.database.writer_queue();
        self.waits > PATIENCE && queue.await_turn(self.id, Instant::now(), TURN_WAIT, TURN)
    }

    fn end_patience(&mut self) {
        if std::mem::take(&mut self.waits) > PATIENCE {
            self.database.writer_queue().leave_unless_writing(self.id);
        }
    }

    /// A reader beside other processes has its snapshot, and waits for no commit.
    pub(super) fn note_snapshot(&mut self) {
        let change = self.database.wal_index().change_counter();
        self.unsettled = Some(UnsettledRead { owed: None, shows: Shows::Always, change });
    }

    /// True if SQLite is about to refuse the write lock, which the connection has, for an old snapshot: a commit was published
    /// since the connection began to read.
    pub(super) fn has_old_snapshot(&self) -> bool {
        match self.unsettled {
            _ if !self.reads() => false,
            _ if self.seat_read.is_some() => {
                self.seat_read != Some(self.database.wal_index().change_counter())
            }
            Some(read) => self.database.wal_index().change_counter() != read.change,
            // Everything was durable then. What was promised since is published, or its writer would have the lock.
            None => self.settled != self.database.db().shared().promises(),
        }
    }

    /// The write lock was refused, or will be: what runs has read nothing, and shows nothing.
    pub(super) fn forget_owed(&mut self) {
        if let Some(read) = &mut self.unsettled {
            read.owed = None;
        }
    }

    /// The connection has the write lock, and its snapshot is new: a statement that shows so much waits now.
    pub(super) fn settle_begun(&mut self) -> Result<()> {
        match &mut self.unsettled {
            Some(read) if read.shows == Shows::Begun => {
                let owed = read.owed.take();
                match (owed, self.wal()) {
                    (Some(number), Some(wal)) => wal.wait_durable_at_once(number),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The running statement is about to be answered: waits for what it may show. A failure latches the database, and the next
    /// read meets it there.
    #[cold]
    pub(super) fn settle(&mut self) {
        let owed = self.unsettled.as_mut().and_then(|read| read.owed.take());
        if let (Some(number), Some(wal)) = (owed, self.wal()) {
            let _ = wal.wait_durable(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_that_change_rows_show_nothing_before_their_end() {
        for (sql, expected) in [
            (&b"INSERT INTO t VALUES(1)"[..], Shows::Outcome),
            (b" insert or ignore into t select 1", Shows::Outcome),
            (b"/* who */ UPDATE t SET a = 1", Shows::Outcome),
            (b"-- who\nDELETE FROM t", Shows::Outcome),
            (b"REPLACE INTO t VALUES(1)", Shows::Outcome),
            (b"WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", Shows::Outcome),
            (b"BEGIN IMMEDIATE", Shows::Begun),
            (b"begin exclusive", Shows::Begun),
            (b"CREATE TABLE t(a)", Shows::Always),
            (b"PRAGMA user_version = 1", Shows::Always),
            (b"ROLLBACK", Shows::Always),
            (b"SAVEPOINT a", Shows::Always),
            (b"VACUUM", Shows::Always),
            (b"INSERTED", Shows::Always),
            (b"/* a comment without its end", Shows::Always),
            (b"\xef\xbb\xbfINSERT INTO t VALUES(1)", Shows::Always),
            (b"", Shows::Always),
        ] {
            assert_eq!(shows_of(first_word_of(sql)), expected, "{}", String::from_utf8_lossy(sql));
        }
    }
}
