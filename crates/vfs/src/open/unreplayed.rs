//! Why a commit log was not replayed, in words for the user.

use crate::db::Db;
use crate::open::recovery::KeepReason;
use crate::open::replay::transactions;
use litefoot_storage::commit_log::CommitLog;

/// The message for a commit log that is kept.
pub(super) fn message(db: &Db, log: &CommitLog, reason: KeepReason) -> String {
    match reason {
        KeepReason::Foreign => foreign(db, log),
        KeepReason::OtherBuild => other_build(db, log),
        KeepReason::Strangers => strangers(db, log),
        KeepReason::Unknown => unknown(db, log),
        KeepReason::Written | KeepReason::Damaged => deltas(db, log, reason, 0),
    }
}

/// The message for a commit log of deltas that is kept, in which `count` transactions wait.
pub(super) fn deltas(db: &Db, log: &CommitLog, reason: KeepReason, count: usize) -> String {
    let (name, log) = (db.path().display(), log.path().display());
    let (what, advice) = match reason {
        KeepReason::Strangers => (
            "another user owns that file or may write it",
            "Where they are yours, give that file the owner and the mode of the database; else move it away"
                .to_owned(),
        ),
        KeepReason::Damaged => (
            "pages of the database are neither as before nor as after them",
            format!("Restore {name} as it was, or move {log} away to go on without them"),
        ),
        KeepReason::Written | KeepReason::Foreign => (
            "another program has written the database since, or it was copied without its time of change",
            format!(
                "Where both files were copied together, and no other program has written the database since the crash, \
                 `litefoot recover --apply {name}` applies them; else restore {name} \
                 as it was, or move {log} away to go on without them"
            ),
        ),
        KeepReason::Unknown | KeepReason::OtherBuild => (
            "this version of litefoot does not understand them",
            "Open the database with the version that wrote them".to_owned(),
        ),
    };
    format!(
        "{name}: {count} committed transactions wait in {log}, and {what}; nothing was changed, and the database can only \
         be read, as it was before them. {advice}"
    )
}

/// The message for a commit log whose replay has failed.
pub(super) fn failed(db: &Db, what: &str) -> String {
    format!(
        "{}: the transactions in {} cannot be replayed: {what}; nothing was changed, and the database can only be \
         read, as it was before them. Where the disk is full, make room and open the database again; \
         `litefoot recover` shows the transactions",
        db.path().display(),
        db.commit_log_path().display(),
    )
}

fn other_build(db: &Db, log: &CommitLog) -> String {
    let count = log.records().map_or(0, |records| transactions(&records));
    let theirs = log.statement_base().map_or(0, |base| base.writer.version);
    format!(
        "{}: {count} committed transactions wait in {} since a crash; they were written under another build of \
         SQLite ({}, this one is {}), which could make something else of them; nothing was changed, and the database can only be read, as it was before them. \
         Open the database once with the program that wrote them; `litefoot recover {}` shows them and can \
         export them as SQL",
        db.path().display(),
        log.path().display(),
        version_text(theirs),
        version_text(db.writer().version),
        db.path().display(),
    )
}

fn strangers(db: &Db, log: &CommitLog) -> String {
    let count = log.records().map_or(0, |records| transactions(&records));
    format!(
        "{}: {} holds {count} transactions, and another user owns it or may write it: it may have been made for this \
         program to run; nothing was changed, and the database can only be read. `litefoot recover {}` shows them. \
         Where they are yours, give that file the owner and the mode of the database; else move it away",
        db.path().display(),
        log.path().display(),
        db.path().display(),
    )
}

fn unknown(db: &Db, log: &CommitLog) -> String {
    format!(
        "{}: {} should be the commit log and is none that this version of litefoot understands; it was \
         written by another version, or is damaged, or is another file; nothing was changed, and the database can only be read. Open \
         the database with the version that wrote it, or name another file, or, where it is of no use, move \
         it away",
        db.path().display(),
        log.path().display(),
    )
}

fn foreign(db: &Db, log: &CommitLog) -> String {
    let count = log.records().map_or(0, |records| transactions(&records));
    format!(
        "{}: {} holds {count} committed transactions that are not in the database, but somebody else has \
         changed the database, or its -wal, since; nothing was changed, and the database can only be read; `litefoot recover {}` \
         shows them and can export them as SQL",
        db.path().display(),
        db.commit_log_path().display(),
        db.path().display(),
    )
}

/// A version as people write it.
pub(crate) fn version_text(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{Medium, SyncLatch};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn versions_are_told_as_people_write_them() {
        for (number, text) in [(3_040_001, "3.40.1"), (3_051_003, "3.51.3"), (0, "0.0.0")] {
            assert_eq!(version_text(number), text);
        }
    }

    #[test]
    fn each_reason_names_the_file_what_is_wrong_and_what_to_do() {
        let db = Db::of_test(b"");
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let log = CommitLog::open(medium, Path::new("/app.db-commits"), Arc::new(SyncLatch::new())).unwrap();
        for (reason, what, advice) in [
            (KeepReason::Foreign, "somebody else has changed the database", "litefoot recover"),
            (KeepReason::OtherBuild, "another build of SQLite", "Open the database once with the program"),
            (KeepReason::Strangers, "another user owns it", "the owner and the mode"),
            (KeepReason::Unknown, "none that this version of litefoot understands", "move it away"),
        ] {
            let text = message(&db, &log, reason);
            for part in ["/app.db: ", "/app.db-commits", "nothing was changed", what, advice] {
                assert!(text.contains(part), "{reason:?}: {part:?} is not in {text:?}");
            }
        }
    }
}
