//! The plan of an adoption: state and changes, from the bytes of the database's files alone.

use super::Mode;
use crate::inspect::{Content, Files};
use litefoot_terminal::text::grouped;

/// The plan that `litefoot adopt` shows before it does anything.
#[derive(Debug, Default)]
pub struct Plan {
    /// The state of the files.
    pub facts: Vec<(&'static str, String)>,
    /// Changes on the medium.
    pub changes: Vec<String>,
    /// True if opening the database recovers something, and so writes.
    pub recovers: bool,
    /// Recommendations.
    pub advice: Option<&'static str>,
}

impl Plan {
    /// The plan for a database of these files.
    pub fn new(files: &Files, journal: Mode) -> Plan {
        let mut plan = Plan::default();
        let is_wal = files.header.as_ref().is_some_and(|header| header.journal_mode() == "wal");
        plan.describe(files, is_wal);
        plan.recover(files);
        if journal == Mode::Wal && !is_wal {
            plan.changes.push("the journal mode becomes WAL, which the file remembers".to_owned());
        } else if !is_wal {
            plan.advice = Some("in WAL mode a small commit writes one block, not its pages: --journal wal");
        }
        plan
    }

    fn describe(&mut self, files: &Files, is_wal: bool) {
        let size = match &files.header {
            Some(header) => format!(
                "{} bytes, {} pages of {} bytes",
                grouped(files.bytes),
                grouped(u64::from(header.pages)),
                header.page_bytes
            ),
            None => "an empty database".to_owned(),
        };
        self.facts.push(("size", size));
        let mode = if is_wal { "WAL" } else { "rollback journal" };
        self.facts.push(("journal mode", mode.to_owned()));
        if files.atomic_write_bytes > 0 {
            let bytes = grouped(u64::from(files.atomic_write_bytes));
            self.facts.push(("device", format!("never tears writes of up to {bytes} bytes")));
        }
    }

    fn recover(&mut self, files: &Files) {
        if matches!(files.journal.as_ref().map(|journal| &journal.content), Some(Content::InUse { .. })) {
            self.changes
                .push("the transaction in its -journal, which was cut off, is rolled back".to_owned());
        }
        match &files.wal {
            Some(wal) if wal.committed_frames > 0 => self.changes.push(format!(
                "{} pages that wait in its -wal are written to the file, and the -wal is removed",
                grouped(wal.committed_frames)
            )),
            Some(_) => self.changes.push("its -wal, in which nothing waits, is removed".to_owned()),
            None => {}
        }
        if files.commit_log_bytes.is_some() {
            self.changes.push(
                "the transactions in its commit log are replayed, where this build of SQLite has written them; \
                 litefoot recover shows them"
                    .to_owned(),
            );
        }
        self.recovers = !self.changes.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{self, look};
    use rusqlite::Connection;

    /// The changes for a database that `sql` has made and that is still open.
    fn changes(sql: &str, journal: Mode) -> (Vec<String>, bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(sql).unwrap();
        let files = look(&path).unwrap();
        assert_eq!(inspect::problems(&files), [""; 0]);
        let plan = Plan::new(&files, journal);
        assert_eq!(plan.advice.is_some(), !sql.contains("wal") && journal == Mode::Keep);
        (plan.changes, plan.recovers)
    }

    #[test]
    fn what_changes_is_told_beforehand() {
        let rollback = "CREATE TABLE t(a)";
        let persist = "PRAGMA journal_mode=persist; CREATE TABLE t(a)";
        let wal = "PRAGMA journal_mode=wal; CREATE TABLE t(a)";
        let empty_wal = "PRAGMA journal_mode=wal; CREATE TABLE t(a); PRAGMA wal_checkpoint(TRUNCATE)";
        for (sql, journal, expected, recovers) in [
            (rollback, Mode::Keep, "", false),
            (persist, Mode::Keep, "", false),
            (rollback, Mode::Wal, "journal mode becomes WAL", false),
            (wal, Mode::Keep, "wait in its -wal", true),
            (wal, Mode::Wal, "wait in its -wal", true),
            (empty_wal, Mode::Keep, "nothing waits", true),
        ] {
            let (changes, recovering) = changes(sql, journal);
            let told = changes.join("; ");
            assert_eq!((told.is_empty(), recovering), (expected.is_empty(), recovers), "{sql}: {told}");
            assert!(told.contains(expected), "{sql}: {told}");
        }
    }
}
