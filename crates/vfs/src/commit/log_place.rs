//! Log place: the name of a redo log, which the log can lose, and which another log can have.
//!
//! # Why
//! SQLite, and recovery after a crash, find a log by its name. So each commit asks the medium first: does the database file
//! have its name, and does the log? A file that has a name of ours, and is not ours, is never written, replaced or removed.
//!
//! | database file | log | a commit ([`decide`]) |
//! |---|---|---|
//! | has its name | has its name | uses the log |
//! | has its name | not open | opens the log |
//! | has its name | renamed, removed or replaced, or it has given its name up | checkpoints the log, and opens another one |
//! | has its name | has its name, and lost frames | is refused: committed transactions are gone |
//! | renamed or removed | open | checkpoints the log, and writes in place |
//! | renamed or removed | not open | writes in place |
//!
//! A log that is opened may be foreign ([`log_identity`](super::log_identity)): it is set aside, and another one is begun. A
//! log that is in use belongs to a program that has an older file of this name open. Then transactions use a rollback journal.
//!
//! SQLite itself refuses to begin a transaction on a file that has lost its name, if its journal is one that is deleted.

use super::log_identity::{Verdict, judge};
use super::page_one::wal_mode;
use super::redo_log_state::RedoLogState;
use crate::db::{Companion, Db};
use crate::error::{Error, Result};
use crate::notice;
use crate::txn::dirty_pages::DirtyPages;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::file::{self, SyncLatch};
use litefoot_storage::log_file::{is_in_use, set_aside};
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::Whereabouts;
use std::path::Path;

/// Most foreign logs that are set aside before one commit.
const MAX_FOREIGN_LOGS: u32 = 16;

/// The action of a commit on the place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceAction {
    UseLog,
    OpenLog,
    /// Checkpoints the log, removes it, and opens another one.
    ReplaceLog,
    /// Checkpoints the log, removes it, and does without one.
    GiveUpLog,
    WriteInPlace,
    /// Latches the database.
    Refuse,
}

/// Decides by the name of the database file, and by the place of the log, if one is open.
pub(crate) fn decide(has_name: bool, log: Option<Whereabouts>) -> PlaceAction {
    match (has_name, log) {
        (true, Some(Whereabouts::AtItsName)) => PlaceAction::UseLog,
        (true, Some(Whereabouts::Elsewhere)) => PlaceAction::ReplaceLog,
        (true, Some(Whereabouts::Cut)) => PlaceAction::Refuse,
        (true, None) => PlaceAction::OpenLog,
        (false, Some(_)) => PlaceAction::GiveUpLog,
        (false, None) => PlaceAction::WriteInPlace,
    }
}

/// The log that recovery finds.
pub(crate) enum FoundLog {
    /// A log of the database, or an empty one.
    Ours(Box<RedoLog>),
    /// Nothing, after a foreign log was set aside.
    Nothing,
    /// A foreign log that is in use.
    NameTaken,
}

/// Looks for the log of a database.
///
/// # Errors
/// `Busy` while another process has a log open that belongs to the database.
pub(crate) fn find(db: &Db) -> Result<FoundLog> {
    let path = db.companion_path(Companion::Wal);
    match open(db, &path) {
        Ok(redo) => {
            if verdict(db, &redo)? != Verdict::Foreign {
                return Ok(FoundLog::Ours(Box::new(redo)));
            }
            drop(redo);
            set_redo_log_aside(db, &path)?;
            Ok(FoundLog::Nothing)
        }
        Err(error) if is_in_use(&error) => {
            let redo = RedoLog::look(db.medium().clone(), &path, Some(db.data_file()))?;
            // Another process looks at what waits for this database.
            if verdict(db, &redo)? == Verdict::Ours {
                return Err(Error::Busy);
            }
            Ok(FoundLog::NameTaken)
        }
        Err(error) => Err(error.into()),
    }
}

impl RedoLogState {
    /// Opens the log where a crash would find it; `false` where the transaction must do without one.
    pub fn keep_place(&mut self, db: &Db, dirty: Option<&mut DirtyPages>) -> Result<bool> {
        let has_name = db.has_its_name_now();
        let whereabouts = match &self.redo {
            Some(redo) if has_name => Some(redo.whereabouts()?),
            Some(_) => Some(Whereabouts::Elsewhere),
            None => None,
        };
        match decide(has_name, whereabouts) {
            PlaceAction::UseLog => Ok(true),
            PlaceAction::Refuse => Err(refuse_cut(db)),
            PlaceAction::ReplaceLog if self.deltas.waits() => {
                // The file that was lost has no frame, and the deltas need one that a crash would find.
                if let Some(mut redo) = self.redo.take() {
                    redo.delete()?;
                }
                self.deltas.forget_claim();
                let placed = self.claim_name(db)?;
                if !placed {
                    self.write_deltas_home(db)?;
                }
                Ok(placed)
            }
            PlaceAction::ReplaceLog => {
                self.leave_slots(db, dirty)?;
                self.checkpoint_and_delete(db)?;
                self.claim_name(db)
            }
            PlaceAction::GiveUpLog => {
                self.leave_slots(db, dirty)?;
                self.checkpoint_and_delete(db)?;
                Ok(false)
            }
            PlaceAction::OpenLog => self.claim_name(db),
            PlaceAction::WriteInPlace => Ok(false),
        }
    }

    /// Takes the pages of a transaction under way out of a log that is given up, or begins anew.
    pub fn leave_slots(&mut self, db: &Db, dirty: Option<&mut DirtyPages>) -> Result<()> {
        if let (Some(dirty), Some(redo)) = (dirty, &mut self.redo) {
            dirty.leave_slots(db)?;
            redo.discard_slots();
        }
        Ok(())
    }

    /// Opens the log at its name; `false` while the name is another owner's.
    pub fn claim_name(&mut self, db: &Db) -> Result<bool> {
        let path = db.companion_path(Companion::Wal);
        for _ in 0..MAX_FOREIGN_LOGS {
            match open(db, &path) {
                Ok(redo) if verdict(db, &redo)? == Verdict::Foreign => {
                    drop(redo);
                    set_redo_log_aside(db, &path)?;
                }
                Ok(redo) => {
                    self.redo = Some(redo);
                    return Ok(true);
                }
                Err(error) if is_in_use(&error) => {
                    self.note_name_taken(db);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Io(format!(
            "{}: another program puts foreign logs there again and again; stop that program",
            path.display()
        )))
    }

    /// Another owner has the name of the log: tells so.
    pub fn note_name_taken(&mut self, db: &Db) {
        self.redo = None;
        let text = format!(
            "{}: {} is in use by a program that has an older file of this name open; transactions go by a rollback \
             journal until that closes it",
            db.path().display(),
            db.companion_path(Companion::Wal).display()
        );
        notice::tell_once(db.path(), "log in use", &text);
    }

    /// Copies the logs to the database file, by its descriptor, and removes them.
    pub fn checkpoint_and_delete(&mut self, db: &Db) -> Result<()> {
        self.write_deltas_home(db)?;
        self.checkpoint(db)?;
        self.deltas.delete_log()?;
        if let Some(mut redo) = self.redo.take() {
            redo.delete()?;
        }
        Ok(())
    }
}

/// Gives a foreign log another name, and tells of it.
fn set_redo_log_aside(db: &Db, log: &Path) -> Result<()> {
    let aside = set_aside(&**db.medium(), log, db.latch())?;
    let text = format!(
        "{}: the log {} is of another database, or of another time: nothing of it was applied, and it is kept as \
         {}; remove it if it is not needed",
        db.path().display(),
        log.display(),
        aside.display()
    );
    notice::tell_once(db.path(), "log set aside", &text);
    set_commit_log_aside(db)
}

/// Gives a commit log another name whose redo log is gone, or whose database file is new, and tells of it.
pub(crate) fn set_commit_log_aside(db: &Db) -> Result<()> {
    // The option names one place for any database.
    if db.options().commit_log_path.is_some() {
        return Ok(());
    }
    let path = db.commit_log_path();
    if db.medium().info(&path)?.is_none_or(|info| !info.is_file) {
        return Ok(());
    }
    match CommitLog::open(db.medium().clone(), &path, db.latch().clone()) {
        Ok(commit_log) if commit_log.is_understood() && commit_log.is_empty() => Ok(()),
        // Its owner will remove it.
        Err(error) if is_in_use(&error) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(commit_log) => {
            drop(commit_log);
            let aside = set_aside(&**db.medium(), &path, db.latch())?;
            let text = format!(
                "{}: the commit log {} is of another database, or of another time: nothing of it was \
                 replayed, and it is kept as {}; remove it if it is not needed",
                db.path().display(),
                path.display(),
                aside.display()
            );
            notice::tell_once(db.path(), "commit log set aside", &text);
            Ok(())
        }
    }
}

fn open(db: &Db, path: &Path) -> file::Result<RedoLog> {
    RedoLog::open_of(db.medium().clone(), path, db.latch().clone(), db.data_file())
}

fn verdict(db: &Db, redo: &RedoLog) -> Result<Verdict> {
    let sector = db.data_file().first_sector()?;
    // An encrypted database may be in WAL mode, where the log need not have every version of page 1.
    judge(redo, &sector, wal_mode(db, redo)? != Some(false))
}

/// Another program has cut the log. The pages in it are lost, and nothing may be built on the rest.
fn refuse_cut(db: &Db) -> Error {
    let reason = format!(
        "{}: another program has cut the log {}, which holds committed transactions; nothing is written any more. Copy what \
         is still shown, close every connection, and restore the database",
        db.path().display(),
        db.companion_path(Companion::Wal).display()
    );
    let latch: &SyncLatch = db.latch();
    latch.close(&reason);
    notice::tell_once(db.path(), "log cut", &reason);
    Error::Io(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, first_byte, page_one, redo_log};
    use crate::commit::page_one::advance_counters;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use litefoot_storage::log_file::Durability;
    use litefoot_storage::wal_file::Transaction;

    const LOG: &str = "/app.db-wal";

    #[test]
    fn the_table() {
        use PlaceAction::{GiveUpLog, OpenLog, Refuse, ReplaceLog, UseLog, WriteInPlace};
        use Whereabouts::{AtItsName, Cut, Elsewhere};
        for (has_name, log, expected) in [
            (true, Some(AtItsName), UseLog),
            (true, None, OpenLog),
            (true, Some(Elsewhere), ReplaceLog),
            (true, Some(Cut), Refuse),
            (false, Some(AtItsName), GiveUpLog),
            (false, Some(Elsewhere), GiveUpLog),
            (false, Some(Cut), GiveUpLog),
            (false, None, WriteInPlace),
        ] {
            assert_eq!(decide(has_name, log), expected, "{has_name} {log:?}");
        }
    }

    /// A database of two pages whose log has a new version of the second.
    fn with_log(medium: &SimMedium) -> (Db, RedoLogState) {
        let db = Db::of_test_on(medium, &[page_one(10, 0), vec![7; PAGE]].concat());
        let mut redo = redo_log(&db);
        let transaction = Transaction {
            slots: &[],
            early: &[],
            page_numbers: &[1, 2],
            page_bytes: PAGE as u32,
            database_pages: 2,
        };
        let mut copy = |index: usize, out: &mut [u8]| {
            out.copy_from_slice(&if index == 0 { page_one(11, 0) } else { vec![9; PAGE] });
            advance_counters(out);
            Ok(())
        };
        redo.append(&transaction, &mut copy, Durability::Durable).unwrap();
        (db, RedoLogState { redo: Some(redo), ..RedoLogState::default() })
    }

    fn second_page(db: &Db) -> u8 {
        let mut byte = [0];
        db.data().read_at(&mut byte, PAGE as u64).unwrap();
        byte[0]
    }

    fn names(medium: &SimMedium) -> Vec<String> {
        let mut names: Vec<String> =
            medium.files().iter().map(|(path, ..)| path.display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_log_at_its_name_is_used() {
        let medium = SimMedium::new();
        let (db, mut state) = with_log(&medium);
        assert!(state.keep_place(&db, None).unwrap());
        assert_eq!(
            (state.redo.as_ref().and_then(|redo| first_byte(redo, 2)), second_page(&db)),
            (Some(9), 7)
        );
    }

    #[test]
    fn a_log_that_was_renamed_is_checkpointed_and_replaced() {
        let medium = SimMedium::new();
        let (db, mut state) = with_log(&medium);
        medium.rename(Path::new(LOG), Path::new("/else")).unwrap();
        assert!(state.keep_place(&db, None).unwrap());
        assert_eq!(second_page(&db), 9);
        assert!(state.redo.as_ref().unwrap().is_empty());
        assert!(names(&medium).contains(&"/else".to_owned()));
    }

    /// The database has its name again before anybody has given the log its own.
    #[test]
    fn a_log_that_has_given_its_name_up_is_checkpointed_and_replaced() {
        let medium = SimMedium::new();
        let (db, mut state) = with_log(&medium);
        state.redo.as_mut().unwrap().step_aside().unwrap();
        assert_eq!(names(&medium), ["/app.db", "/app.db-wal.set-aside-1"]);
        assert!(state.keep_place(&db, None).unwrap());
        assert_eq!((second_page(&db), state.redo.as_ref().unwrap().is_empty()), (9, true));
        assert_eq!(names(&medium), ["/app.db"]);
    }

    #[test]
    fn a_database_that_was_renamed_is_checkpointed_and_goes_without_a_log() {
        let medium = SimMedium::new();
        let (db, mut state) = with_log(&medium);
        medium.rename(Path::new("/app.db"), Path::new("/else.db")).unwrap();
        assert!(!state.keep_place(&db, None).unwrap());
        assert_eq!((second_page(&db), state.redo.is_none()), (9, true));
        assert_eq!(names(&medium), ["/else.db"]);
        assert!(!state.keep_place(&db, None).unwrap());
    }

    #[test]
    fn a_log_that_was_cut_latches_the_database() {
        let medium = SimMedium::new();
        let (db, mut state) = with_log(&medium);
        medium.open(Path::new(LOG), FileKind::RedoLog, OpenMode::ReadWrite).unwrap().set_len(40).unwrap();
        let error = state.keep_place(&db, None).unwrap_err().to_string();
        assert!(error.contains("has cut the log /app.db-wal"), "{error}");
        assert!(db.latch().reason().is_some());
    }

    #[test]
    fn a_foreign_log_is_set_aside() {
        let medium = SimMedium::new();
        let (db, state) = with_log(&medium);
        drop(state);
        // A backup from before the log's time is put back.
        db.data().write_at(&page_one(5, 3), 0).unwrap();
        let mut state = RedoLogState::default();
        assert!(state.keep_place(&db, None).unwrap());
        assert!(state.redo.as_ref().unwrap().is_empty());
        let names = names(&medium);
        assert!(names.iter().any(|name| name.starts_with(LOG) && name != LOG), "{names:?}");
    }

    #[test]
    fn a_foreign_log_in_use_keeps_its_name() {
        let medium = SimMedium::new();
        let (db, other) = with_log(&medium);
        db.data().write_at(&page_one(5, 3), 0).unwrap();
        let mut state = RedoLogState::default();
        assert!(!state.keep_place(&db, None).unwrap());
        assert!(matches!(find(&db), Ok(FoundLog::NameTaken)));
        assert_eq!(names(&medium), ["/app.db", LOG]);
        // Its owner closes it.
        drop(other);
        assert!(state.claim_name(&db).unwrap());
    }

    #[test]
    fn a_log_of_the_database_in_use_makes_recovery_wait() {
        let medium = SimMedium::new();
        let (db, state) = with_log(&medium);
        assert!(matches!(find(&db), Err(Error::Busy)));
        drop(state);
        assert!(matches!(find(&db), Ok(FoundLog::Ours(_))));
    }
}
