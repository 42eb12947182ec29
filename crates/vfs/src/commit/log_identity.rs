//! Log identity: decides if a redo log belongs to the database that has its name.
//!
//! # Why
//! Files are copied, restored and renamed, and a log is found by its name alone. The pages of another database, or of another
//! time of this one, would destroy what is in the file.
//!
//! | database file | first sector | the log | verdict |
//! |---|---|---|---|
//! | any | any | no frame counts | nothing waits |
//! | empty | | any | foreign: SQLite takes the file for a new database |
//! | another file than then, and the log is the same file | any | any | foreign: another file has the name now |
//! | any | unchanged since the log began | any | ours: no checkpoint has written page 1 |
//! | any | zeros, or less than a sector | begun upon an empty file | ours: the first commit, cut while it was completed |
//! | any | as an image of page 1 in the log, but for the counters, with a counter that the log tells | any | ours: a checkpoint was under way, or recovery |
//! | any | of the state that the first image follows, by one | begun by SQLite | ours: SQLite took the log over, and was killed |
//! | any | anything else | any | foreign: a copy of another time, or another database |
//! | without a page that was written early | any | awaits that page | foreign: a copy of a time before that page |
//!
//! # Invariants
//! 1. A log is ours after each power cut: while the log holds frames, only checkpoints write the first sector, and they sync
//!    the log first.
//! 2. A counter that the log tells is that of an image, or the one that the transactions since have given page 1 by the next
//!    image, or by the end of the log. Page 1 is in the file with no other one: a checkpoint logs it before, where its
//!    counter is another, and after a checkpoint that failed the next transaction does. So a copy of another time is foreign.
//! 3. A log awaits the pages of its transactions that are in the data file and not in the log
//!    ([`early`](litefoot_storage::wal_file)). They are durable before the transaction is, and nothing else is written in
//!    their places while the log holds frames. So a crash leaves them, and a copy of an earlier time has others.
//!
//! In WAL mode SQLite writes versions of page 1 that the log need not have. So a first sector that the log cannot explain is
//! foreign only in another file. Everything else is as with stock SQLite, which knows no early pages.

use crate::commit::page_one::{COUNTER_JUMP, counter_of, without_counters};
use crate::db::page_bytes_in;
use crate::error::Result;
use litefoot_storage::file::SECTOR_BYTES;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::origin::content_of;

/// A redo log's relation to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing waits in it.
    Nothing,
    /// Its pages are the database's.
    Ours,
    /// The log is another database's, or of another time.
    Foreign,
}

/// Judges `redo` by its data file, whose first sector is `sector`.
pub fn judge(redo: &RedoLog, sector: &[u8], wal_mode: bool) -> Result<Verdict> {
    if redo.is_empty() {
        return Ok(if redo.is_understood() { Verdict::Nothing } else { Verdict::Foreign });
    }
    if sector.is_empty() {
        return Ok(Verdict::Foreign);
    }
    let moved_in = redo.names_another_file()?;
    let explained = explains(redo, sector)?;
    let ours = if wal_mode { !moved_in || explained } else { !moved_in && explained };
    Ok(if ours && redo.has_its_early_pages()? { Verdict::Ours } else { Verdict::Foreign })
}

/// True when the log tells how the data file came to have this first sector.
fn explains(redo: &RedoLog, sector: &[u8]) -> Result<bool> {
    if let Some(origin) = redo.origin() {
        let is_begun = sector.len() >= SECTOR_BYTES && sector.iter().any(|byte| *byte != 0);
        if origin.content == content_of(sector) || (origin.content == content_of(&[]) && !is_begun) {
            return Ok(true);
        }
    }
    if sector.len() < SECTOR_BYTES {
        return Ok(false);
    }
    let counter = counter_of(sector);
    let mut image = [0; SECTOR_BYTES];
    let images = redo.page_one_images();
    for (number, found) in images.iter().enumerate() {
        redo.read_frame(found.frame, &mut image)?;
        let logged = counter_of(&image);
        let end = images.get(number + 1).map_or(redo.transactions(), |next| next.transaction);
        let told = end.checked_sub(found.transaction + 1).map(|follow| {
            let first = logged.wrapping_sub(COUNTER_JUMP);
            first.wrapping_add(follow)
        });
        if (counter == logged || told == Some(counter))
            && without_counters(sector) == without_counters(&image)
        {
            return Ok(true);
        }
        // A log of SQLite's own has no jump.
        let continues = number == 0 && logged == counter.wrapping_add(1);
        if continues && page_bytes_in(sector) == redo.page_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::page_one::COUNTERS;
    use crate::db::MAGIC;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use litefoot_storage::log_file::Durability;
    use litefoot_storage::wal_file::origin::DataFile;
    use litefoot_storage::wal_file::{Transaction, early_pages};
    use std::path::Path;
    use std::sync::Arc;

    const PAGE: usize = 1024;

    /// A page 1 with that change counter, and `filler` as everything that is no counter.
    fn page_one(counter: u32, filler: u8) -> Vec<u8> {
        let mut page = vec![filler; PAGE];
        page[..16].copy_from_slice(MAGIC);
        page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
        for at in COUNTERS {
            page[at..at + 4].copy_from_slice(&counter.to_be_bytes());
        }
        page
    }

    /// Makes a log upon a data file that begins with `data`, with one transaction for each item of `pages`. An item is
    /// an image of page 1; `None` stands for another page.
    fn log(medium: &SimMedium, data: &[u8], pages: &[Option<Vec<u8>>]) -> RedoLog {
        let path = Path::new("/a");
        let file = medium.open(path, FileKind::Database, OpenMode::CreateNew).unwrap();
        file.write_at(data, 0).unwrap();
        let data = DataFile { path: path.to_owned(), content: file.clone(), file };
        let open = || {
            let medium = Arc::new(medium.clone());
            RedoLog::open_of(medium, Path::new("/a-wal"), Arc::default(), data.clone()).unwrap()
        };
        let mut redo = open();
        for page in pages {
            let number = if page.is_some() { 1 } else { 2 };
            let transaction = Transaction {
                slots: &[],
                early: &[],
                page_numbers: &[number],
                page_bytes: PAGE as u32,
                database_pages: 2,
            };
            let mut copy = |_: usize, out: &mut [u8]| {
                out.copy_from_slice(page.as_deref().unwrap_or(&[0; PAGE]));
                Ok(())
            };
            redo.append(&transaction, &mut copy, Durability::Durable).unwrap();
        }
        drop(redo);
        open()
    }

    fn sector(page: &[u8]) -> &[u8] {
        &page[..SECTOR_BYTES.min(page.len())]
    }

    #[test]
    fn a_log_is_ours_exactly_where_it_tells_how_the_first_sector_came_to_be() {
        use Verdict::{Foreign, Ours};
        let logged = |counter: u32, filler: u8| Some(page_one(counter + COUNTER_JUMP, filler));
        // Three transactions: counters 11 to 13; the last one changed page 1 in another way, too.
        let redo = log(&SimMedium::new(), &page_one(10, 1), &[logged(11, 2), None, logged(13, 3)]);
        let cases = [
            (page_one(10, 1), Ours, "as it was"),
            (page_one(9, 1), Foreign, "an earlier copy"),
            (page_one(10, 2), Foreign, "an earlier copy with the same content"),
            (page_one(11, 2), Foreign, "the first transaction, behind which page 1 would be logged again"),
            (page_one(12, 2), Ours, "before the second image"),
            (page_one(13, 2), Foreign, "the third, with the image of the first"),
            (page_one(14, 2), Foreign, "after the last"),
            (page_one(13, 3), Ours, "the last"),
            (page_one(12, 3), Foreign, "before the last image"),
            (page_one(14, 3), Foreign, "a later copy"),
            (page_one(13 + COUNTER_JUMP, 3), Ours, "recovered"),
            (page_one(11 + COUNTER_JUMP, 2), Ours, "an image as it is"),
            (page_one(14 + COUNTER_JUMP, 3), Foreign, "recovered, and gone on"),
            (vec![0; PAGE], Foreign, "zeros"),
            (Vec::new(), Foreign, "empty"),
        ];
        for (page, expected, what) in cases {
            assert_eq!(judge(&redo, sector(&page), false).unwrap(), expected, "{what}");
        }
        // In WAL mode only another file is foreign, or an empty one.
        assert_eq!(judge(&redo, &page_one(9, 1), true).unwrap(), Ours);
        assert_eq!(judge(&redo, &[], true).unwrap(), Foreign);
    }

    #[test]
    fn a_log_without_the_early_pages_that_it_awaits_is_foreign_in_each_journal_mode() {
        let (medium, before) = (SimMedium::new(), page_one(10, 1));
        let path = Path::new("/a");
        drop(log(&medium, &[&before[..], &[5; PAGE]].concat(), &[Some(page_one(11 + COUNTER_JUMP, 2))]));
        let file = medium.open(path, FileKind::Database, OpenMode::ReadWrite).unwrap();
        let data = DataFile { path: path.to_owned(), content: file.clone(), file: file.clone() };
        let open = || {
            let latch = Arc::default();
            RedoLog::open_of(Arc::new(medium.clone()), Path::new("/a-wal"), latch, data.clone()).unwrap()
        };
        let mut redo = open();
        let transaction = Transaction {
            slots: &[],
            early: &early_pages(&*file, &[2], PAGE as u32).unwrap(),
            page_numbers: &[3],
            page_bytes: PAGE as u32,
            database_pages: 3,
        };
        redo.append(&transaction, &mut |_, _| Ok(()), Durability::Durable).unwrap();
        drop(redo);
        for (byte, expected) in [(5, Verdict::Ours), (6, Verdict::Foreign)] {
            file.write_at(&[byte], 2 * PAGE as u64 - 1).unwrap();
            let verdicts = [false, true].map(|wal_mode| judge(&open(), sector(&before), wal_mode).unwrap());
            assert_eq!(verdicts, [expected; 2]);
        }
    }

    #[test]
    fn the_first_commit_of_a_database_is_completed_where_something_of_it_is_there() {
        let redo = log(&SimMedium::new(), &[], &[Some(page_one(1 + COUNTER_JUMP, 1))]);
        for (page, expected) in [
            (vec![0; PAGE], Verdict::Ours),
            (vec![0; 100], Verdict::Ours),
            (page_one(1, 1), Verdict::Ours),
            (page_one(1, 2), Verdict::Foreign),
            (Vec::new(), Verdict::Foreign),
        ] {
            assert_eq!(judge(&redo, sector(&page), false).unwrap(), expected, "{} bytes", page.len());
        }
    }

    #[test]
    fn a_log_that_sqlite_has_restarted_is_ours_where_it_goes_on_from_the_file() {
        let redo = log(&SimMedium::new(), &page_one(77, 9), &[Some(page_one(31, 2)), None]);
        for (counter, expected) in [(30, Verdict::Ours), (31, Verdict::Foreign), (29, Verdict::Foreign)] {
            assert_eq!(judge(&redo, sector(&page_one(counter, 1)), false).unwrap(), expected, "{counter}");
        }
        assert_eq!(judge(&redo, sector(&page_one(31, 2)), false).unwrap(), Verdict::Ours);
    }

    #[test]
    fn a_file_that_is_no_log_is_foreign_and_an_empty_log_is_nothing() {
        let medium = SimMedium::new();
        let redo = log(&medium, &page_one(1, 1), &[]);
        assert_eq!(judge(&redo, &page_one(1, 1), false).unwrap(), Verdict::Nothing);
        drop(redo);
        let file = medium.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::Create).unwrap();
        file.write_at(b"somebody's notes", 0).unwrap();
        let redo = RedoLog::look(Arc::new(medium), Path::new("/a-wal"), None).unwrap();
        assert_eq!(judge(&redo, &page_one(1, 1), false).unwrap(), Verdict::Foreign);
    }
}
