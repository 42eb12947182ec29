//! Lending the database file: members read it by the owner's open file, but for the pages that are not in it (`sync/unwritten_pages`).
//!
//! # Why
//! A page over a stream takes two changes of process, and a system call where the member reads it. A file that the member opens itself would
//! break the owner's lease.
//!
//! # Invariants
//! 1. The file is lent where it has every page that is not marked: it has no tier, and is not read past the system's cache.
//! 2. The marks are opened for a member that has the lock of a reader, in a rollback-journal mode.
//! 3. The stream by which a process has borrowed the file says nothing further. Its end tells that process to close the file.
//! 4. The owner has the lease for as long as somebody has borrowed the file, also without a connection.
//! 5. Where other processes are members, commits are deltas only while one of them has borrowed the file that may write it: it recovers them before strangers
//!    can have the database. Else commits are pages, which all find.

use super::{Answer, Served};
use crate::db::Shared;
use crate::error::Result;
use crate::files::group::protocol::{Incoming, Reply};
use crate::open::OpenDatabase;
use crate::open::departures::Present;
use crate::options::Direct;
use crate::sync::unwritten_pages::UnwrittenPages;
use litefoot_storage::os::{LocalSocket, Peer};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The marks of a database whose file may be lent.
fn lendable(database: &OpenDatabase) -> Option<&UnwrittenPages> {
    let (db, options) = (database.db(), database.db().options());
    let is_plain = db.tier().is_none() && options.tier.is_none() && options.direct_io != Direct::On;
    db.file().raw_descriptor().filter(|_| is_plain && db.writable())?;
    db.shared().unwritten_or_new()
}

/// The number of the marks, where there are some and the file may be lent; 0 where there are none.
pub(in crate::files::group) fn number_of_marks(database: &OpenDatabase) -> u64 {
    database.db().shared().unwritten().and_then(|_| lendable(database)).map_or(0, UnwrittenPages::id)
}

/// Members read the log in memory of all from now on: with the file they outlive this process, where that may be lent.
pub(super) fn open_log_to_members(database: &OpenDatabase) {
    if lendable(database).is_some() {
        database.db().shared().open_log_to_members();
    }
}

impl Served {
    /// Sends the marks, where the file may be lent; the value is their number.
    pub(super) fn lend_marks(&mut self) -> Result<Answer> {
        let database = self.database.clone();
        let Some(unwritten) = lendable(&database) else { return Ok(Answer::flag(false)) };
        self.open_marks()?;
        Ok(Answer { flag: true, sends_memory: true, ..Answer::value(unwritten.id()) })
    }

    /// Members read the file from now on, where they may.
    pub(super) fn open_marks(&mut self) -> Result<()> {
        let database = self.database.clone();
        let are_closed = database.db().shared().unwritten().is_some_and(|unwritten| !unwritten.are_open());
        if are_closed && (self.main()?.reads_held() || self.reads_by_seat()) {
            database.rollback_log().open_to_members(database.db());
        }
        Ok(())
    }
}

/// Lends the file to a process, until that gives it back, or is gone. `socket` has brought its first call, and what follows is `incoming`. Until then this
/// process has the database, also behind its last connection, which leaves the file complete: the next owner would get no lease. The last connection waits
/// for what is answered. One that `may_write` is an heir.
pub(in crate::files::group) fn lend(
    socket: &Arc<LocalSocket>,
    incoming: &mut Incoming,
    database: Arc<OpenDatabase>,
    may_write: bool,
) -> Present {
    let present = database.borrowers().note(socket.clone());
    if send_file(socket, &database) {
        let _heir = may_write.then(|| Counted::note(socket, &database, Shared::note_heir));
        while matches!(incoming.next(socket), Ok(Some(_))) {}
    }
    present
}

/// Another process, which is counted until this is dropped.
pub(in crate::files::group) struct Counted {
    database: Arc<OpenDatabase>,
    note: fn(&Shared, bool),
}

impl Counted {
    /// Counts the one at the other end of a stream; `None` for this process: its own connections outlive nothing.
    pub fn note(
        socket: &LocalSocket,
        database: &Arc<OpenDatabase>,
        note: fn(&Shared, bool),
    ) -> Option<Counted> {
        socket.peer().is_ok_and(Peer::is_another).then(|| {
            note(database.db().shared(), true);
            Counted { database: database.clone(), note }
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.note)(self.database.db().shared(), false);
    }
}

fn send_file(socket: &LocalSocket, database: &OpenDatabase) -> bool {
    let Some((unwritten, file)) = lendable(database).zip(database.db().file().raw_descriptor()) else {
        return false;
    };
    let mut reply = Vec::new();
    Reply { value: unwritten.id(), ..Reply::DONE }.encode(&mut reply);
    // SAFETY: the database has the file open.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    socket.send(&reply, Some(file)).is_ok()
}
