//! The files beside a database, by their paths: opening, deleting and finding them.
//!
//! # Invariants
//! 1. A redo log of a rollback-journal database is never shown to SQLite, which would take it for a write-ahead log.
//! 2. A deleted file is durably gone: SQLite asks for that at `synchronous=EXTRA` only. Beside other processes a log is so once
//!    SQLite's lock is given back.
//! 3. A handle that stays open goes with the state of the database. Where that cannot be, since it is not known whose the file
//!    is, the database goes over to SQLite's own protocol until it is closed.
//! 4. A journal that ends beside other processes stays, void, where that is as durable (`db/durable_names.rs`).
//! 5. A log in memory is opened only while the database stays this process's. Who opens it has SHARED, and uses no slot of the wal-index yet: to
//!    a visitor that comes at that moment it is a reader like any other (`open/sharing/leaving.rs`).
//! 6. While other processes may have the database open nothing is known of what lies beside it.
//! 7. A member's connection asks by its own stream. That of another connection of its process may wait for a lock that this one has.

use crate::commit::wal::Wal;
use crate::db::Companion;
use crate::db::durable_names::{JournalEnd, end_journal};
use crate::error::{Error, Result};
use crate::ffi::codes::*;
use crate::files::connection_state::ConnectionState;
use crate::files::group::link::{Link, companion_of};
use crate::files::group::protocol::FileOf;
use crate::files::journal::JournalFile;
use crate::files::passthrough::PassThroughFile;
use crate::files::requested_file::companion_kind;
use crate::files::vfs::{Opened, Vfs};
use crate::files::wal::WalFile;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use litefoot_storage::file::{FileId, parent_directory};
use std::borrow::Cow;
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

impl Vfs {
    /// Opens a journal or a log: the one in memory where it is known to be the connection's, else the file.
    pub(in crate::files) fn open_companion_file(
        &self,
        path: &Path,
        flags: c_int,
        connection: Option<Arc<ConnectionState>>,
    ) -> Result<Opened> {
        if let Some(connection) = connection.as_ref().filter(|connection| connection.is_beside_others())
            && let Some(opened) = self.open_beside_others(connection, flags)?
        {
            return Ok(opened);
        }
        if let Some(connection) = connection.as_ref().filter(|connection| connection.may_hold()) {
            if flags & SQLITE_OPEN_WAL != 0 {
                let opened = connection
                    .database
                    .while_alone(connection.internal, || self.open_log_in_memory(connection, flags));
                let opened = match opened {
                    Some(opened) => opened?,
                    // The state has changed since it was looked at.
                    None => self.open_beside_others(connection, flags)?,
                };
                if let Some(opened) = opened {
                    return Ok(opened);
                }
            }
            if flags & SQLITE_OPEN_WAL == 0 && flags & SQLITE_OPEN_CREATE != 0 {
                connection.begin_writing();
                let memory = self.memory(&connection.database);
                return Ok(Opened::new(JournalFile::new(connection.clone(), memory)?, flags));
            }
        }
        let is_new = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE) != 0;
        let database = match connection {
            Some(connection) => Some(connection.database.clone()),
            None => self.companion_at(path).map(|(database, _)| database),
        };
        if let Some(database) = database.as_ref().filter(|database| is_new && database.db().may_hold_back()) {
            database.go_native()?;
        }
        self.open_companion(path, flags, database)
    }

    /// Opens the log of a connection while this process alone uses the database; `None` where SQLite's own protocol is used.
    fn open_log_in_memory(&self, connection: &Arc<ConnectionState>, flags: c_int) -> Result<Option<Opened>> {
        let Some(wal) = self.wal_of(&connection.database)? else { return Ok(None) };
        // With the lock that it has, the connection will make an index of its own from the log.
        if connection.reader_slot.level() == Level::Exclusive {
            wal.rebuild_checksums(connection.database.db())?;
        }
        Ok(Some(Opened::new(WalFile::new(connection.clone(), wal), flags)))
    }

    /// Opens the log, or a new journal, of a connection while other processes may have its database open; `None` where the
    /// file is not kept open, or can only be read.
    fn open_beside_others(&self, connection: &Arc<ConnectionState>, flags: c_int) -> Result<Option<Opened>> {
        let is_log = flags & SQLITE_OPEN_WAL != 0;
        if flags & SQLITE_OPEN_CREATE == 0 || is_log && !connection.database.db().writable() {
            return Ok(None);
        }
        Ok(Some(if is_log {
            // For the time when this process is alone again.
            drop(self.provide_spill(&connection.database));
            Opened::new(WalFile::of_state(connection.clone())?, flags)
        } else {
            let memory = self.memory(&connection.database);
            Opened::new(JournalFile::new(connection.clone(), memory)?, flags)
        }))
    }

    /// The open database whose log or journal would have that path, and which of them it is.
    fn companion_at(&self, path: &Path) -> Option<(Arc<OpenDatabase>, Companion)> {
        // A VFS above may say it by another way than the core, which knows absolute paths only.
        if path.is_absolute() {
            return self.databases.companion_at(path);
        }
        self.databases.companion_at(&self.medium.absolute(path).ok()?.path)
    }

    /// The member's connection that asks for its journal or its log, and which of them it is. Where it is not known which one asks, any connection to
    /// a database that another process owns.
    fn member_at(&self, path: &Path, asks: Option<Arc<Link>>) -> Option<(Arc<Link>, FileOf)> {
        let known = asks.and_then(|link| companion_of(&link, path).map(|file| (link, file)));
        known.or_else(|| self.links.at(path).filter(|_| self.companion_at(path).is_none()))
    }

    /// The open database that has a hard link whose log or journal would have that path: these lie beside its first name.
    fn companion_of_link(&self, path: &Path) -> Option<(Arc<OpenDatabase>, Companion)> {
        let found = self.databases.companion_of_link(path, |base| self.medium.identity(base).ok().flatten());
        // Beside a name that the file has lost lies what another database has.
        found.filter(|(database, _)| database.db().has_its_name())
    }

    /// The log in memory of a database; `None` where SQLite's own protocol is used.
    fn wal_of(&self, database: &Arc<OpenDatabase>) -> Result<Option<Arc<Wal>>> {
        if self.pass_through || !database.db().writable() || database.is_native() {
            return Ok(None);
        }
        database.rollback_log().retire(database.db())?;
        if database.wal().is_none() && !database.db().has_its_name() {
            let name = database.db().path().display();
            let what =
                format!("{name}: renamed or removed since it was opened: it cannot begin a write-ahead log");
            return Err(Error::Refused(what));
        }
        database.rollback_log().remove_kept_journal(database.db());
        let spill = self.provide_spill(database);
        database.wal_or_open(spill).map(Some)
    }

    /// Opens the file itself.
    pub(super) fn open_companion(
        &self,
        path: &Path,
        flags: c_int,
        database: Option<Arc<OpenDatabase>>,
    ) -> Result<Opened> {
        let kind = companion_kind(flags);
        if let (Some(database), true) = (&database, flags & SQLITE_OPEN_CREATE != 0) {
            let is_log = flags & SQLITE_OPEN_WAL != 0;
            database
                .db()
                .companions()
                .set_alone(if is_log { Companion::Wal } else { Companion::Journal }, false);
        }
        let (opened, flags) = self.open_file(path, kind, flags)?;
        // The first sync of a handle that may have created the file syncs the directory, as in SQLite's own VFS.
        let name_unsynced = flags & SQLITE_OPEN_CREATE != 0;
        let (medium, file) = match &database {
            Some(database) => (database.db().medium(), database.db().metered(opened.file, kind)),
            None => (&self.medium, opened.file),
        };
        // Where it is not known whose it is, it may be one of ours.
        let settles = database.as_ref().map_or(!self.pass_through, |database| database.db().holds_back());
        let handle = PassThroughFile::companion(medium.clone(), file, database, name_unsynced, settles);
        Ok(Opened::new(handle, flags))
    }

    /// Deletes a file; what an open database has instead of it is emptied. `asks` is the member's connection that says so, where one does.
    pub(crate) fn delete(&self, path: &Path, sync_directory: bool, asks: Option<Arc<Link>>) -> Result<()> {
        if let Some((link, file)) = self.member_at(path, asks) {
            return link.delete(file, sync_directory);
        }
        let companion = match self.companion_at(path) {
            None if self.medium.identity(path)?.is_none() => self.companion_of_link(path),
            found => found,
        };
        let mut end = JournalEnd::Delete;
        match &companion {
            Some((database, Companion::Wal)) => {
                if let Some(wal) = database.wal() {
                    // The next log begins from nothing; until then the database is not in WAL mode.
                    database.shared_capture().close_reference();
                    wal.delete(database.db())?;
                    database.reset_wal();
                    return Ok(());
                }
                if database.rollback_log().is_live() {
                    return Ok(());
                }
            }
            // A journal in memory is gone with its handle.
            Some((database, Companion::Journal))
                if database.db().companions().is_alone(Companion::Journal) =>
            {
                return Ok(());
            }
            Some((database, Companion::Journal))
                if database.db().shared().is_multi_process() && !self.pass_through =>
            {
                end = end_journal(database.db())?;
            }
            _ => {}
        }
        if end == JournalEnd::Ended {
            return Ok(());
        }
        if companion.is_none() && self.databases.is_inherited(path) {
            return Err(Error::Forked { path: path.to_owned() });
        }
        let actual = actual(path, companion.as_ref());
        self.medium.delete(&actual)?;
        if let Some((database, Companion::Wal)) = &companion
            && !sync_directory
            && !self.pass_through
            && database.is_multi_process()
        {
            database.note_log_deleted();
            return Ok(());
        }
        // SQLite asks for it at synchronous=EXTRA only. At FULL a deleted journal could then come back after a power
        // cut, and roll an acknowledged transaction back. An old log could be taken for a new one.
        if sync_directory || !self.pass_through && end != JournalEnd::DeleteUnsynced {
            self.medium.sync_directory(parent_directory(&actual))?;
            if let Some((database, companion)) = companion
                && !database.db().shared().is_multi_process()
            {
                database.db().companions().set_alone(companion, true);
            }
        }
        Ok(())
    }

    /// True if there is a file, or one that can be used, as far as `companions::lacks` has not answered already.
    /// `asks` is the member's connection that asks, where one does.
    pub(crate) fn access(&self, path: &Path, flags: c_int, asks: Option<Arc<Link>>) -> Result<bool> {
        if let Some((link, file)) = self.member_at(path, asks) {
            return link.access(file, flags);
        }
        let companion = self.companion_at(path);
        if let Some((database, companion)) = &companion {
            if let (Companion::Wal, Some(wal)) = (companion, database.wal()) {
                return Ok(flags != SQLITE_ACCESS_EXISTS || wal.bytes() > 0);
            }
            let hidden = *companion == Companion::Wal && database.rollback_log().is_live();
            if hidden || database.db().companions().is_alone(*companion) {
                return Ok(false);
            }
        }
        let actual = actual(path, companion.as_ref());
        if flags == SQLITE_ACCESS_EXISTS {
            match self.medium.glance(&actual)? {
                None => return Ok(false),
                Some((there, len)) if len > 0 => return Ok(!is_known_void(companion.as_ref(), there)?),
                // Empty, or no file.
                Some(_) => {}
            }
        }
        let Some(info) = self.medium.info(&actual)? else { return Ok(false) };
        Ok(match flags {
            // SQLite takes an empty file for none: a journal of zero bytes is not hot.
            SQLITE_ACCESS_EXISTS => !info.is_file || info.len > 0,
            SQLITE_ACCESS_READWRITE => info.readable && info.writable,
            _ => info.readable,
        })
    }
}

/// True if SQLite would open the journal that is there, to find no transaction in it.
fn is_known_void(companion: Option<&(Arc<OpenDatabase>, Companion)>, there: FileId) -> Result<bool> {
    match companion {
        Some((database, Companion::Journal)) => database.db().durable_names().is_void_journal(there),
        _ => Ok(false),
    }
}

/// Where that is which SQLite looks for beside a database: with a tier the log lies elsewhere.
fn actual<'a>(path: &'a Path, companion: Option<&(Arc<OpenDatabase>, Companion)>) -> Cow<'a, Path> {
    companion.map_or(Cow::Borrowed(path), |(database, companion)| {
        database.db().companion_asked_for(*companion, path)
    })
}
