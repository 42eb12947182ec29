//! Compaction: replaces a log that was not synced by one with the newest version of each page.
//!
//! # Why
//! Commits that nobody syncs (`synchronous=OFF`) leave many versions of the same pages in the log. The system has them, the
//! device does not. A sync would write all of them; the checkpoint behind it needs the newest ones only.
//!
//! # Order
//! ```text
//! app.db-wal.new:  newest version of each page, one transaction    synced
//! app.db-wal.new -> app.db-wal                                     renamed, the directory synced
//! ```
//!
//! # Promises
//! 1. A process that is killed leaves the old log or the new one at the name, whole.
//! 2. After a power cut each transaction that was durable before is still there: the new log is durable before it has the name.
//! 3. A compaction that fails leaves the old log in use.
//!
//! Where nothing in the log is durable, a new log need not be, either: then neither is synced.

use super::{RedoLog, Transaction, Whereabouts};
use crate::file::{FileKind, Medium, OpenMode, Result, beside};
use crate::log_file::{Durability, InUse};
use std::path::{Path, PathBuf};

/// Blocks that a new file and its name cost, in frames: with fewer frames to save a compaction does not pay.
const LEAST_SAVED_FRAMES: u32 = 32;

/// True where a new log of `pages` frames costs less than a sync of `unsynced` frames.
fn pays(unsynced: u32, pages: u32) -> bool {
    unsynced >= pages.saturating_add(LEAST_SAVED_FRAMES)
}

/// The name of a log on its way to the name of the old one.
pub fn new_path(log: &Path) -> PathBuf {
    beside(log, ".new")
}

impl RedoLog {
    /// Replaces the log by one that has each page once, where that costs less than a sync of the log; answers true where it
    /// did. `change` sees each page, by its number. Without [`Durability::Durable`] nothing is synced that was not before.
    ///
    /// # Errors
    /// Errors of reading, and of the last sync. The log is not replaced where the new one cannot be written.
    pub fn compact(
        &mut self,
        change: &mut dyn FnMut(u32, &mut [u8]),
        durability: Durability,
    ) -> Result<bool> {
        let pages = self.newest.len() as u32;
        if self.built_upon || self.slots > 0 || !pays(self.frames - self.synced, pages) {
            return Ok(false);
        }
        // A durable transaction is in the new log before that has the name.
        let durability = if self.synced > 0 { Durability::Durable } else { durability };
        let Some(mut new) = self.newest_pages(change, durability)? else { return Ok(false) };
        let path = self.path().to_owned();
        if let Err(error) = new.file.rename_over(&path) {
            let _ = new.file.delete();
            return Err(error);
        }
        std::mem::swap(self, &mut new);
        // The old file has no name any more.
        new.file.close();
        if durability == Durability::Durable {
            self.sync()?;
        }
        Ok(true)
    }

    /// A log of another name with the newest version of each page; `None` where it cannot be written. Its name is unsynced.
    fn newest_pages(
        &self,
        change: &mut dyn FnMut(u32, &mut [u8]),
        durability: Durability,
    ) -> Result<Option<RedoLog>> {
        let numbers: Vec<u32> = self.page_numbers().filter(|number| *number <= self.database_pages).collect();
        if numbers.is_empty() || self.file.whereabouts(self.bytes())? != Whereabouts::AtItsName {
            return Ok(None);
        }
        let mut new = RedoLog::of_file(self.file.beside(&new_path(self.path()))?);
        let transaction = Transaction {
            slots: &[],
            early: &self.awaited.pages(),
            page_numbers: &numbers,
            page_bytes: self.page_bytes(),
            database_pages: self.database_pages,
        };
        let mut copy = |index: usize, page: &mut [u8]| {
            self.read_page(numbers[index], 0, page)?;
            change(numbers[index], page);
            Ok(())
        };
        let written = new.append(&transaction, &mut copy, Durability::Buffered);
        let synced = written.and_then(|()| match durability {
            Durability::Durable => new.file.sync_content(),
            Durability::Buffered => Ok(()),
        });
        if synced.is_err() {
            let _ = new.file.delete();
            return Ok(None);
        }
        Ok(Some(new))
    }
}

/// Removes the file that a process has left at `path`, which was killed while it compacted a log. A file in use stays.
pub(super) fn remove_remnant(medium: &dyn Medium, path: &Path) -> Result<()> {
    if medium.info(path)?.is_none_or(|info| !info.is_file) {
        return Ok(());
    }
    let file = medium.open(path, FileKind::RedoLog, OpenMode::ReadWrite)?;
    let Ok(_in_use) = InUse::take(&file) else { return Ok(()) };
    if medium.identity(path)? == Some(file.id()) { medium.delete(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{CountingMedium, Faults, Random, SimMedium, SyncSite};
    use crate::wal_file::tests::{PAGE, append, is_state, look, open, version_of};
    use std::sync::Arc;

    /// Appends transactions of two pages, unsynced, with these versions.
    fn append_many(log: &mut RedoLog, versions: std::ops::Range<u32>) -> Vec<(u32, Vec<u32>)> {
        let transactions: Vec<_> = versions.map(|version| (version, vec![1 + version % 5, 9])).collect();
        for (version, numbers) in &transactions {
            append(log, numbers, *version, Durability::Buffered).unwrap();
        }
        transactions
    }

    fn compact(log: &mut RedoLog) -> Result<bool> {
        log.compact(&mut |_, _| {}, Durability::Durable)
    }

    fn names(medium: &SimMedium) -> Vec<PathBuf> {
        medium.files().into_iter().map(|(path, ..)| path).collect()
    }

    #[test]
    fn a_compaction_pays_where_a_sync_would_write_more() {
        for (unsynced, pages, expected) in
            [(0, 0, false), (33, 2, false), (34, 2, true), (34, u32::MAX, false)]
        {
            assert_eq!(pays(unsynced, pages), expected, "{unsynced} {pages}");
        }
    }

    #[test]
    fn a_compacted_log_has_each_page_once_and_goes_on() {
        let medium = SimMedium::default();
        let counting = CountingMedium::new(Arc::new(medium.clone()));
        let mut log = RedoLog::open(Arc::new(counting.clone()), Path::new("/a-wal"), Arc::default()).unwrap();
        append(&mut log, &[7], 1, Durability::Durable).unwrap();
        assert!(!compact(&mut log).unwrap());
        append_many(&mut log, 2..42);
        let (old, before) = (log.salts(), counting.snapshot());
        assert!(log.compact(&mut |number, page| page[PAGE - 1] = number as u8, Durability::Durable).unwrap());
        let spent = counting.snapshot() - before;
        assert_eq!(spent.total().bytes_written, 32 + 7 * (24 + PAGE as u64));
        assert_eq!((spent.total().syncs, spent.all_syncs()), (1, 2));
        assert_ne!(log.salts(), old);
        append(&mut log, &[7], 50, Durability::Durable).unwrap();
        for log in [&log, &look(&medium)] {
            assert_eq!((log.frames(), log.database_pages()), (8, 150));
            let versions = [1, 2, 7, 9].map(|number| version_of(log, number));
            assert_eq!(versions, [Some(40), Some(41), Some(50), Some(41)]);
        }
        assert!(log.is_synced() && !compact(&mut log).unwrap());
        assert_eq!(names(&medium), [PathBuf::from("/a-wal")]);
    }

    #[test]
    fn without_a_durable_transaction_nothing_is_synced() {
        let counting = CountingMedium::new(Arc::new(SimMedium::default()));
        let mut log = RedoLog::open(Arc::new(counting.clone()), Path::new("/a-wal"), Arc::default()).unwrap();
        for (first, syncs) in [(1, 0), (101, 2)] {
            append_many(&mut log, first..first + 40);
            let before = counting.snapshot();
            assert!(log.compact(&mut |_, _| {}, Durability::Buffered).unwrap());
            assert_eq!((counting.snapshot() - before).all_syncs(), syncs);
            // Also a transaction without pages makes the others durable.
            append(&mut log, &[], first + 50, Durability::Durable).unwrap();
        }
    }

    #[test]
    fn a_log_in_use_otherwise_is_not_compacted() {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        append_many(&mut log, 1..41);
        log.reserve_slots(PAGE as u32, 0, 1).unwrap();
        assert!(!compact(&mut log).unwrap(), "slots");
        log.discard_slots();
        medium.rename(Path::new("/a-wal"), Path::new("/b-wal")).unwrap();
        assert!(!compact(&mut log).unwrap(), "the log has lost its name");
        medium.rename(Path::new("/b-wal"), Path::new("/a-wal")).unwrap();
        log.build_upon();
        assert!(!compact(&mut log).unwrap(), "a commit log builds upon it");
    }

    #[test]
    fn without_room_for_a_new_log_the_old_one_stays() {
        let medium = SimMedium::default();
        let mut log = open(&medium);
        append_many(&mut log, 1..41);
        medium.set_faults(Faults::full_at(medium.used_bytes()));
        assert!(!compact(&mut log).unwrap());
        medium.set_faults(Faults::default());
        assert_eq!(names(&medium), [PathBuf::from("/a-wal")]);
        append(&mut log, &[7], 50, Durability::Durable).unwrap();
        assert_eq!((look(&medium).frames(), version_of(&log, 7)), (81, Some(50)));
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        let medium = SimMedium::default();
        let remnant = || {
            let file = medium.open(Path::new("/a-wal.new"), FileKind::RedoLog, OpenMode::Create).unwrap();
            file.write_at(&[1; 9000], 0).unwrap();
            file
        };
        let mut log = open(&medium);
        append_many(&mut log, 1..41);
        let _in_use = InUse::take(&remnant()).unwrap();
        assert!(!compact(&mut log).unwrap(), "another process compacts there");
        drop(_in_use);
        assert!(compact(&mut log).unwrap());
        assert_eq!(look(&medium).frames(), 6);
        drop((log, remnant()));
        open(&medium).delete().unwrap();
        assert!(names(&medium).is_empty());
    }

    /// Runs transactions and compactions, and cuts the power everywhere. Describes the first cut after which the log holds
    /// anything but a prefix of the transactions, durable ones included.
    fn cut_everywhere(seed: u64, faults: Faults) -> Option<String> {
        let medium = SimMedium::default();
        medium.set_faults(faults);
        let mut random = Random::new(seed);
        let mut log = open(&medium);
        let (mut transactions, mut durable) = (Vec::new(), 0);
        let mut acknowledged = vec![(0, 0)];
        for round in 0..4 {
            let first = 1 + round * 100;
            transactions.extend(append_many(&mut log, first..first + 30));
            let durability = [Durability::Durable, Durability::Buffered][random.below(2) as usize];
            assert!(log.compact(&mut |_, _| {}, durability).unwrap());
            if durability == Durability::Durable {
                durable = transactions.len();
            }
            acknowledged.push((medium.operations(), durable));
            if random.one_in(2) {
                append(&mut log, &[7], first + 90, Durability::Durable).unwrap();
                transactions.push((first + 90, vec![7]));
                durable = transactions.len();
                acknowledged.push((medium.operations(), durable));
            }
        }
        let mut replay = medium.replay();
        for cut in (0..=medium.operations()).filter(|cut| cut % 5 == 0 || cut + 12 > medium.operations()) {
            replay.advance(cut);
            let least = acknowledged.iter().rev().find(|(at, _)| *at <= cut).map_or(0, |(_, least)| *least);
            let recovered = open(&replay.cut(&mut random));
            if !(least..=transactions.len()).any(|count| is_state(&recovered, &transactions[..count])) {
                return Some(format!("seed {seed}, cut {cut}: {} frames, {least}", recovered.frames()));
            }
        }
        None
    }

    #[test]
    fn power_cuts_leave_whole_transactions_and_each_sync_left_out_is_noticed() {
        for seed in 0..8 {
            assert_eq!(cut_everywhere(seed, Faults::default()), None);
        }
        for site in [SyncSite::File(FileKind::RedoLog), SyncSite::Directory] {
            let caught = (0..60).any(|seed| cut_everywhere(seed, Faults::ignoring(site, None)).is_some());
            assert!(caught, "{site:?}");
        }
    }
}
