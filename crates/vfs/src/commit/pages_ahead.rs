//! Pages ahead: most pages of a materialization, in the redo log while commits go on.
//!
//! # Why
//! A full commit log has changed thousands of pages. To write and to sync them takes long, and whoever has the log writer
//! meanwhile keeps every commit waiting. So a thread that knows in time writes them ahead, in rounds, without that lock. The
//! materialization then appends the pages that have changed since.
//!
//! # What it promises
//! 1. A page ahead is the newest version when it is copied, and its record is in the commit log by then.
//! 2. Nothing ahead counts before the materialization ([`FramesAhead`]). It may end at any time, and be dropped.
//!
//! # Invariants
//! 1. Each page that a record up to `until` has changed is ahead in its newest version up to there, or in `owed`.
//! 2. The pages ahead are of records that wait. Whoever materializes these takes the pages ahead first, in all cases.

use crate::txn::wal_frames::WalFrames;
use litefoot_storage::file::{self, File};
use litefoot_storage::sync::Mutex;
use litefoot_storage::wal_file::FramesAhead;
use std::collections::{BTreeMap, BTreeSet};

/// Pages that are copied and written at a time: so long a commit waits for a frame of SQLite's log.
pub(super) const PAGES_PER_WRITE: usize = 64;
/// Pages that are not worth a write of their own, and those that are worth no other round.
const LEAST_PAGES: usize = 8;
const LEAST_PAGES_OF_A_ROUND: usize = 64;
/// Most rounds. Commits that come meanwhile make another one.
const MOST_ROUNDS: usize = 4;

/// True where so many pages are written ahead, after some rounds.
pub(super) fn pays(rounds: usize, pages: usize) -> bool {
    let least = if rounds == 0 { LEAST_PAGES } else { LEAST_PAGES_OF_A_ROUND };
    rounds < MOST_ROUNDS && pages > least
}

/// The place where the pages ahead are found; empty while there are none, and while some of them are on their way.
pub(crate) type AheadPlace = Mutex<Option<PagesAhead>>;

/// The pages of a materialization that are in the redo log already.
pub(crate) struct PagesAhead {
    pub(super) frames: FramesAhead,
    /// Frames of SQLite's log that were looked at.
    until: usize,
    /// Pages in these frames whose newest version is not ahead.
    owed: BTreeSet<u32>,
}

impl PagesAhead {
    /// No page yet; `logged` frames of SQLite's log are in the redo log.
    pub fn new(frames: FramesAhead, logged: usize) -> PagesAhead {
        PagesAhead { frames, until: logged, owed: BTreeSet::new() }
    }

    /// The pages that the frames up to `end` have changed, and that are not ahead: number, and frame of the newest version.
    pub fn owed(&self, log: &WalFrames, end: usize) -> BTreeMap<u32, usize> {
        let mut pages = log.newest_until(self.until, end);
        for number in &self.owed {
            if let Some(frame) = log.newest_before(*number, end) {
                pages.entry(*number).or_insert(frame);
            }
        }
        pages
    }

    /// Looks at the frames up to `end`; answers the pages that are owed.
    pub fn look(&mut self, log: &WalFrames, end: usize) -> BTreeMap<u32, usize> {
        let pages = self.owed(log, end);
        self.owed = pages.keys().copied().collect();
        self.until = end;
        pages
    }

    /// Copies pages, by number and frame, that are owed. Those that a newer version supersedes already stay so.
    pub fn copy(&mut self, pages: &[(u32, usize)], log: &WalFrames, data: &dyn File) -> file::Result<()> {
        for (number, frame) in pages {
            if log.is_newest(*frame) {
                self.frames.push(*number, |page| log.copy_page(*frame, page, data))?;
                self.owed.remove(number);
            }
        }
        Ok(())
    }

    /// A page that is ahead; `None` where none is.
    pub fn any(&self) -> Option<u32> {
        self.frames.page_numbers().last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{Logs, PAGE, first_byte};
    use litefoot_storage::log_file::Durability;
    use litefoot_storage::wal_file::Transaction;

    #[test]
    fn pages_are_written_ahead_while_they_are_many() {
        for (rounds, pages, expected) in [
            (0, 0, false),
            (0, LEAST_PAGES, false),
            (0, LEAST_PAGES + 1, true),
            (1, LEAST_PAGES_OF_A_ROUND, false),
            (1, LEAST_PAGES_OF_A_ROUND + 1, true),
            (MOST_ROUNDS - 1, 100_000, true),
            (MOST_ROUNDS, 100_000, false),
        ] {
            assert_eq!(pays(rounds, pages), expected, "{rounds} {pages}");
        }
    }

    #[test]
    fn a_page_is_owed_until_its_newest_version_is_ahead() {
        let logs = Logs::of_test(&[7; 9 * PAGE], 1 << 20);
        let data = &**logs.db.data();
        let begun = logs.group.with_writer(|writer| {
            writer.redo.begin(PAGE as u32).unwrap();
            writer.redo.sync().unwrap();
            writer.redo.begin_ahead().unwrap()
        });
        let mut ahead = PagesAhead::new(begun, 0);
        let numbers = |pages: &BTreeMap<u32, usize>| pages.keys().copied().collect::<Vec<_>>();
        logs.write(&[(2, 1), (3, 1), (4, 1)], 9);
        let list: Vec<_> = ahead.look(&logs.frames.read(), 3).into_iter().collect();
        assert_eq!(list, [(2, 0), (3, 1), (4, 2)]);
        // A commit that is in no log yet changes page 3 before it is copied; page 4 is left for later.
        logs.write(&[(3, 2)], 9);
        ahead.copy(&list[..2], &logs.frames.read(), data).unwrap();
        assert_eq!(ahead.owed(&logs.frames.read(), 3), [(3, 1), (4, 2)].into());
        // Pages 2 and 5 change; the frames up to there are in the log now.
        logs.write(&[(2, 3), (5, 3)], 9);
        assert_eq!(numbers(&ahead.owed(&logs.frames.read(), 4)), [3, 4]);
        let rest: Vec<_> = ahead.look(&logs.frames.read(), 6).into_iter().collect();
        assert_eq!(rest, [(2, 4), (3, 3), (4, 2), (5, 5)]);
        ahead.copy(&rest[..3], &logs.frames.read(), data).unwrap();
        assert_eq!((numbers(&ahead.owed(&logs.frames.read(), 6)), ahead.any()), (vec![5], Some(4)));
        ahead.frames.write().unwrap();
        logs.group.with_writer(|writer| {
            let end = Transaction {
                slots: &[],
                early: &[],
                page_numbers: &[5],
                page_bytes: PAGE as u32,
                database_pages: 9,
            };
            let mut copy = |_: usize, page: &mut [u8]| logs.frames.read().copy_page(5, page, data);
            writer.redo.append_behind(&ahead.frames, &end, &mut copy, Durability::Durable).unwrap();
            let found = [2, 3, 4, 5, 6].map(|number| first_byte(&writer.redo, number));
            assert_eq!(found, [Some(3), Some(2), Some(1), Some(3), None]);
        });
    }
}
