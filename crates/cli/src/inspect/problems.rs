//! Litefoot's own invariants of the files, checked on what [`super::look`] has read.
//!
//! 1. The page size is one that SQLite knows, and the file is a whole number of pages.
//! 2. With no log or journal in use, the file is at least as long as its header says. Pages that a large transaction
//!    wrote behind the end before a crash belong to nobody ([`unused_bytes`]).
//! 3. A write-ahead log or journal beside the database has the format of one, and the database's page size. A log in
//!    another page size holds the whole database: a VACUUM that was cut off.
//! 4. Where parts live on a tier device, it is there.
//!
//! A write-ahead log beside a database in a rollback mode, or beside an empty one, is in order: it is
//! litefoot's redo log.

use super::Files;
use super::journal::Content;
use litefoot_terminal::text::grouped;

/// Problems of a database, one sentence each.
pub fn problems(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(away) = &files.away
        && let Err(why) = &away.overview
    {
        let device = away.device.display();
        found.push(format!("parts of it live on the tier device {device}, which cannot be read: {why}"));
    }
    let Some(header) = &files.header else { return found };
    let page_bytes = u64::from(header.page_bytes);
    if page_bytes == 0 {
        found.push("the header holds no valid page size".to_owned());
        return found;
    }
    if !files.bytes.is_multiple_of(page_bytes) && !log_in_use(files) {
        found.push(format!(
            "the file has {} bytes, which is not a whole number of pages of {page_bytes} bytes: \
             its end was cut off, or something was appended",
            files.bytes
        ));
    }
    if let Some(expected) = stated_bytes(files)
        && files.bytes < expected
    {
        found.push(format!(
            "the header says {} pages ({expected} bytes), but the file has {} bytes",
            header.pages, files.bytes
        ));
    }
    journal_problems(files, header.page_bytes, &mut found);
    wal_problems(files, header.page_bytes, &mut found);
    found
}

/// Bytes behind the last page: written by a large transaction that a crash took back. SQLite ignores these bytes, and
/// overwrites them as the database grows.
fn unused_bytes(files: &Files) -> u64 {
    stated_bytes(files).map_or(0, |stated| files.bytes.saturating_sub(stated))
}

/// What is in order, and good to know.
pub fn notes(files: &Files) -> Vec<String> {
    let unfinished = files.unfinished_log.as_ref().map(|log| {
        format!(
            "{} is left of a program that was killed, and of no use; litefoot release removes it",
            log.display()
        )
    });
    unused_note(files).into_iter().chain(unfinished).collect()
}

/// The message about unused bytes.
fn unused_note(files: &Files) -> Option<String> {
    match unused_bytes(files) {
        0 => None,
        unused => Some(format!(
            "{} bytes behind its last page are unused, left by a transaction that was cut off; VACUUM gives them back",
            grouped(unused)
        )),
    }
}

/// The length that the header states, where that holds: no log or journal knows better.
fn stated_bytes(files: &Files) -> Option<u64> {
    let header = files.header.as_ref()?;
    let holds = header.version_valid_for == header.change_counter && header.pages > 0 && !log_in_use(files);
    holds.then(|| u64::from(header.pages) * u64::from(header.page_bytes))
}

fn log_in_use(files: &Files) -> bool {
    files.wal.as_ref().is_some_and(|wal| wal.committed_frames > 0)
        || matches!(&files.journal, Some(journal) if journal.content != Content::Finished)
}

fn journal_problems(files: &Files, page_bytes: u32, found: &mut Vec<String>) {
    match files.journal.as_ref().map(|journal| &journal.content) {
        Some(Content::Foreign) => {
            found.push("the -journal beside it is not a rollback journal".to_owned());
        }
        Some(Content::InUse { page_bytes: theirs, .. }) if *theirs != page_bytes => found.push(format!(
            "the -journal beside it has pages of {theirs} bytes, the database {page_bytes}: \
             it belongs to another database"
        )),
        _ => {}
    }
}

fn wal_problems(files: &Files, page_bytes: u32, found: &mut Vec<String>) {
    let Some(wal) = &files.wal else { return };
    if wal.foreign {
        found.push("the -wal beside it is not a write-ahead log".to_owned());
    }
    let Some(log) = wal.header.as_ref().filter(|_| wal.committed_frames > 0) else { return };
    let whole = u64::from(wal.pages) <= wal.committed_frames;
    if log.page_bytes != page_bytes && !whole {
        found.push(format!(
            "the -wal beside it has pages of {} bytes, the database {page_bytes}: \
             it belongs to another database",
            log.page_bytes
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::super::{Header, Owner, Wal};
    use super::*;
    use litefoot_storage::file::FileId;
    use litefoot_storage::wal_file::format;

    fn healthy() -> Files {
        let header = Header {
            page_bytes: 4096,
            write_version: 2,
            reserved_bytes: 0,
            change_counter: 7,
            pages: 3,
            free_pages: 0,
            schema_cookie: 1,
            user_version: 0,
            application_id: 0,
            version_valid_for: 7,
            sqlite_version: 3_040_001,
        };
        let log = format::Header { page_bytes: 4096, generation: 0, salts: [0; 2], big_endian: false };
        let wal = Wal { bytes: 32, header: Some(log), foreign: false, committed_frames: 0, pages: 0 };
        Files {
            path: "a.db".into(),
            bytes: 3 * 4096,
            header: Some(header),
            unread: false,
            journal: Some(Journal { bytes: 0, content: Content::Finished }),
            wal: Some(wal),
            commit_log_bytes: None,
            unfinished_log: None,
            away: None,
            atomic_write_bytes: 0,
            owner: Owner::Nobody,
            shared_on_demand: false,
            published: None,
            id: FileId { device: 0, inode: 0 },
        }
    }

    type Spoil = fn(&mut Files);

    #[test]
    fn each_invariant_is_seen_when_it_breaks() {
        let cases: &[(&str, Spoil)] = &[
            ("not a whole number of pages", |files| files.bytes += 100),
            ("header says 3 pages", |files| files.bytes -= 4096),
            ("no valid page size", |files| files.header.as_mut().unwrap().page_bytes = 0),
            ("not a rollback journal", |files| files.journal.as_mut().unwrap().content = Content::Foreign),
            ("-journal beside it has pages of 512", |files| {
                files.journal.as_mut().unwrap().content =
                    Content::InUse { initial_pages: 3, page_bytes: 512 };
            }),
            ("not a write-ahead log", |files| files.wal.as_mut().unwrap().foreign = true),
            ("-wal beside it has pages of 512", |files| {
                let wal = files.wal.as_mut().unwrap();
                (wal.committed_frames, wal.pages) = (1, 3);
                wal.header.as_mut().unwrap().page_bytes = 512;
            }),
        ];
        assert_eq!(problems(&healthy()), Vec::<String>::new());
        for (expected, spoil) in cases {
            let mut files = healthy();
            spoil(&mut files);
            let found = problems(&files);
            assert!(found.iter().any(|text| text.contains(expected)), "{expected}: {found:?}");
        }
    }

    #[test]
    fn pages_behind_the_end_are_told_and_no_problem() {
        let mut files = healthy();
        assert_eq!(unused_note(&files), None);
        files.bytes += 4096;
        assert_eq!(problems(&files), Vec::<String>::new());
        assert!(unused_note(&files).unwrap().contains("4,096"));
    }

    #[test]
    fn a_length_that_a_log_will_correct_is_no_problem() {
        let mut files = healthy();
        files.bytes += 4096 + 100;
        files.wal.as_mut().unwrap().committed_frames = 1;
        assert_eq!(problems(&files), Vec::<String>::new());
    }
}
