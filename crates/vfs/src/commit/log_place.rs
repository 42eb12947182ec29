//! The place of the redo log: the name beside the database, which may be lost, or be another's.
//!
//! SQLite and a crash find a log by its name. Before a commit counts on the log, two questions are asked of the medium: has
//! the database file its name, and has the log its own? Where one is answered with no, the newest pages are brought into
//! the database file, by its descriptor, and the log is given up. Nothing that has a name of ours and is not ours is
//! written, replaced or removed.
//!
//! | database file | log | what a commit does |
//! |---|---|---|
//! | has its name | has its name | as ever |
//! | has its name | renamed, removed or replaced | brings the pages home, begins another log |
//! | has its name | a foreign one, not in use | sets that aside, begins another log |
//! | has its name | a foreign one, in use: the old file of that name is open somewhere | does without: by a real journal |
//! | renamed or removed | any | brings the pages home, writes in place |
//!
//! SQLite itself refuses to begin a transaction on a file that has lost its name, where the journal is one that is deleted.

use crate::commit::log_identity::{Verdict, judge};
use crate::commit::rollback_log::{RedoLogState, RollbackRedoLog, wal_mode};
use crate::db::Companion;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::notice;
use crate::stats::Stats;
use crate::txn::TxnTarget;
use crate::txn::dirty_pages::DirtyPages;
use crate::txn::dirty_pages::write_in_place;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::file::{DeviceError, Operation, SyncLatch};
use litefoot_storage::log_file::Durability;
use litefoot_storage::log_file::set_aside;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::Whereabouts;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Most foreign logs that are set aside before one commit.
const MOST_FOREIGN: u32 = 16;

impl RollbackRedoLog {
    /// Takes over the log that recovery finds; `None` where nothing of it is the database's.
    pub(crate) fn find(&self, db: &Db) -> Result<Option<RedoLog>> {
        let path = db.companion_path(Companion::Wal);
        match open(db, &path) {
            Ok(redo) => {
                if verdict(db, &redo)? != Verdict::Foreign {
                    return Ok(Some(redo));
                }
                drop(redo);
                db.set_log_aside(&path)?;
                Ok(None)
            }
            Err(error) if is_in_use(&error) => {
                let redo = RedoLog::look(db.medium().clone(), &path, Some(db.data_file()))?;
                // Somebody looks at what waits for this database.
                if verdict(db, &redo)? == Verdict::Ours {
                    return Err(Error::Busy);
                }
                // SQLite must not see it either.
                self.live.store(true, Ordering::Release);
                self.state.write().bar(db, &path);
                self.barred.store(true, Ordering::Release);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a transaction has to do without the log, because its name is in use. Asks again.
    pub fn is_barred(&self, db: &Db) -> Result<bool> {
        if !self.barred.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut state = self.state.write();
        let free = state.redo.is_some() || state.claim(db)?;
        self.barred.store(!free, Ordering::Release);
        Ok(!free)
    }

    /// The database file has lost its name: brings everything home, and gives the log up. Not while a transaction has
    /// pages in the log, whose commit does it.
    pub fn leave_place(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        let mut state = self.state.write();
        if state.redo.as_ref().is_some_and(RedoLog::has_slots) { Ok(()) } else { state.leave_place(db) }
    }

    /// Commits without a log. Who cannot have one is not protected from a crash in the middle of it.
    pub(crate) fn commit_in_place<T: TxnTarget>(
        &self,
        target: &T,
        held: &mut DirtyPages,
        durability: Durability,
    ) -> Result<()> {
        let db = target.db();
        if held.len() > held.base_len() {
            db.reserve(held.len())?;
        }
        let written = write_in_place(target, held).and_then(|()| match durability {
            Durability::Durable => db.sync(),
            Durability::Buffered => Ok(()),
        });
        // Nobody knows what is in the file now.
        written.inspect_err(|error| db.latch().close(&error.to_string()))?;
        Stats::add(&db.counters().commits_pages, 1);
        Ok(())
    }
}

impl RedoLogState {
    /// Sees to it that the log is one that a crash would find; `false` where none can be had.
    pub(crate) fn keep_place(&mut self, db: &Db, held: Option<&mut DirtyPages>) -> Result<bool> {
        let has_name = db.has_its_name_now();
        if let Some(redo) = &mut self.redo {
            let whereabouts = if has_name { redo.whereabouts()? } else { Whereabouts::Elsewhere };
            match whereabouts {
                Whereabouts::AtItsName => return Ok(true),
                Whereabouts::Cut => return Err(cut(db, redo)),
                Whereabouts::Elsewhere => {
                    if let Some(held) = held {
                        held.leave_slots(db)?;
                        redo.discard_slots();
                    }
                    self.leave_place(db)?;
                }
            }
        }
        if has_name { self.claim(db) } else { Ok(false) }
    }

    /// Opens the log at its name; `false` where another owner has that.
    fn claim(&mut self, db: &Db) -> Result<bool> {
        let path = db.companion_path(Companion::Wal);
        for _ in 0..MOST_FOREIGN {
            match open(db, &path) {
                Ok(redo) if verdict(db, &redo)? == Verdict::Foreign => {
                    drop(redo);
                    db.set_log_aside(&path)?;
                }
                Ok(redo) => {
                    self.redo = Some(redo);
                    return Ok(true);
                }
                Err(error) if is_in_use(&error) => {
                    self.bar(db, &path);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Io(format!("{}: somebody puts other logs there again and again", path.display())))
    }

    fn bar(&mut self, db: &Db, log: &Path) {
        self.redo = None;
        let text = format!(
            "{}: {} is in use by a program that has an older file of this name open; transactions go by a rollback \
             journal until that closes it",
            db.path().display(),
            log.display()
        );
        notice::tell_once(db.path(), "log in use", &text);
    }

    fn leave_place(&mut self, db: &Db) -> Result<()> {
        self.checkpoint(db)?;
        if let Some(mut redo) = self.redo.take() {
            redo.delete()?;
        }
        Ok(())
    }
}

impl Db {
    /// Gives a log that is not this database's another name, and tells of it.
    fn set_log_aside(&self, log: &Path) -> Result<()> {
        let aside = set_aside(&**self.medium(), log, self.latch())?;
        let text = format!(
            "{}: the log {} is of another database, or of another time: nothing of it was applied, and it is kept as \
             {}; remove it where nobody needs it",
            self.path().display(),
            log.display(),
            aside.display()
        );
        notice::tell_once(self.path(), "log set aside", &text);
        self.set_commit_log_aside()
    }

    /// The same for a commit log beside it whose redo log is gone, or that lies beside a new file.
    pub(crate) fn set_commit_log_aside(&self) -> Result<()> {
        // The option names one place for any db.
        if self.options().commit_log_path.is_some() {
            return Ok(());
        }
        let path = self.commit_log_path();
        if self.medium().info(&path)?.is_none_or(|info| !info.is_file) {
            return Ok(());
        }
        match CommitLog::open(self.medium().clone(), &path, self.latch().clone()) {
            Ok(statements) if statements.is_understood() && statements.is_empty() => Ok(()),
            // Its owner will remove it.
            Err(error) if is_in_use(&error) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(statements) => {
                drop(statements);
                let aside = set_aside(&**self.medium(), &path, self.latch())?;
                let text = format!(
                    "{}: the commit log {} is of another database, or of another time: nothing of it was \
                     replayed, and it is kept as {}; remove it where nobody needs it",
                    self.path().display(),
                    path.display(),
                    aside.display()
                );
                notice::tell_once(self.path(), "commit log set aside", &text);
                Ok(())
            }
        }
    }
}

fn open(db: &Db, path: &Path) -> litefoot_storage::file::Result<RedoLog> {
    RedoLog::open_of(db.medium().clone(), path, db.latch().clone(), db.data_file())
}

fn verdict(db: &Db, redo: &RedoLog) -> Result<Verdict> {
    let sector = db.data_file().first_sector()?;
    // What does not say may be in WAL mode, where the log need not have every version of page 1.
    judge(redo, &sector, wal_mode(db, redo)? != Some(false))
}

/// Whether an error says that a log is in use.
pub(crate) fn is_in_use(error: &DeviceError) -> bool {
    error.operation == Operation::Lock && error.source.kind() == std::io::ErrorKind::ResourceBusy
}

/// Somebody has cut the log. What was in it cannot be had any more, and nothing may be built on the rest.
fn cut(db: &Db, redo: &RedoLog) -> Error {
    let reason = format!(
        "{}: somebody has cut the log {}, which holds committed transactions; nothing is written any more. Copy what \
         is still shown, close every connection, and restore the database",
        db.path().display(),
        redo.path().display()
    );
    let latch: &SyncLatch = db.latch();
    latch.close(&reason);
    notice::tell_once(db.path(), "log cut", &reason);
    Error::Io(reason)
}
