//! Delta start: when commits of a WAL database begin to be logged as deltas.
//!
//! # Why
//! A generation of deltas begins only when the data file has every page of the database. A program that commits once and
//! closes would pay for that, and gain nothing. So the first commits go to the redo log as pages. The same
//! happens after a large commit, and while a checkpoint is under way. Completing the data file costs a checkpoint, which
//! pays once the commits that could not be deltas have written about as many bytes as it will.
//!
//! The pages of a generation are written once more when it ends. So commits whose deltas take about as many bytes as their
//! pages, such as rows that fill new pages, are better logged as pages from the beginning, and need no complete file.
//!
//! # Promises
//! 1. With the option `auto` no generation begins before [`FIRST_PAGES`] commits were logged as pages, or a quarter as many that
//!    were to be durable at once: each of those costs pages, and a flush of the file system's metadata in most.
//! 2. A checkpoint is asked for when small commits have written half as many bytes as pages as the redo log holds.
//! 3. A generation begins with a commit of few pages, or whose deltas take half the bytes of its pages. A commit as large as
//!    the last one whose deltas took more is not counted as small.

use litefoot_storage::log_file::Durability;

/// Small commits that are logged as pages after a database was opened.
const FIRST_PAGES: u32 = 32;
/// A commit that is to be durable at once counts as so many. A process of 20 commits writes as much with any factor from 2 to 4,
/// one of 40 a third less with 4 than with 1, and one of 11 to 14 some 5 % more, which is what stock SQLite writes.
const DURABLE_COMMITS: u32 = 4;
/// Deltas begin a generation where they are smaller than their pages by this factor.
const LEAST_RATIO: u64 = 2;
/// Bytes of pages below which a commit is small whatever its deltas take: the next ones may be others.
const SMALL_BYTES: u64 = 32 << 10;

/// Decides when deltas begin.
#[derive(Debug, Default)]
pub(crate) struct DeltaStart {
    /// True where the first commit may be a delta.
    eager: bool,
    /// Small commits that were logged as pages; those that were to be durable count [more](DURABLE_COMMITS).
    commits: u32,
    /// Bytes of their pages, since a checkpoint was asked for.
    lost: u64,
    /// Bytes of the pages of the smallest commit whose deltas did not pay, until those of one as large do.
    refused: Option<u64>,
}

/// True where deltas of so many bytes may begin a generation.
fn pays(delta_bytes: u64, page_bytes: u64) -> bool {
    page_bytes < SMALL_BYTES || delta_bytes * LEAST_RATIO <= page_bytes
}

impl DeltaStart {
    /// A rule for a database that was opened; an `eager` one has deltas from the first commit on.
    pub fn new(eager: bool) -> DeltaStart {
        DeltaStart { eager, ..DeltaStart::default() }
    }

    /// True where a generation may begin.
    pub fn may_begin(&self) -> bool {
        self.eager || self.commits >= FIRST_PAGES
    }

    /// A small commit was logged as pages of so many bytes.
    pub fn note_pages(&mut self, bytes: u64, durability: Durability) {
        let weight = if durability == Durability::Durable { DURABLE_COMMITS } else { 1 };
        self.commits = self.commits.saturating_add(weight);
        if self.refused.is_none_or(|refused| bytes < refused) {
            self.lost += bytes;
        }
    }

    /// True where a commit, with deltas of so many bytes, may be the first of a generation. It is noted for those to come.
    pub fn may_be_first(&mut self, delta_bytes: u64, page_bytes: u64) -> bool {
        let pays = pays(delta_bytes, page_bytes);
        if pays {
            self.refused = self.refused.filter(|refused| page_bytes < *refused)
        } else {
            self.note_refused(page_bytes)
        }
        pays
    }

    /// A commit with pages of so many bytes has deltas that do not pay.
    pub fn note_refused(&mut self, page_bytes: u64) {
        self.refused = Some(self.refused.map_or(page_bytes, |refused| refused.min(page_bytes)));
    }

    /// True where the data file is to be completed; `redo_bytes` are in the redo log.
    pub fn wants_complete_file(&self, redo_bytes: u64) -> bool {
        self.may_begin() && redo_bytes > 0 && 2 * self.lost >= redo_bytes
    }

    /// A checkpoint has ended, or a generation begins.
    pub fn note_checkpoint(&mut self) {
        self.lost = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_begin_once_commits_keep_coming() {
        for (eager, buffered, durable, expected) in [
            (true, 0, 0, true),
            (false, 0, 0, false),
            (false, 31, 0, false),
            (false, 32, 0, true),
            (false, 0, 7, false),
            (false, 0, 8, true),
            (false, 3, 7, false),
            (false, 4, 7, true),
        ] {
            let mut start = DeltaStart::new(eager);
            (0..buffered).for_each(|_| start.note_pages(1, Durability::Buffered));
            (0..durable).for_each(|_| start.note_pages(1, Durability::Durable));
            assert_eq!(start.may_begin(), expected, "{eager} {buffered} {durable}");
        }
    }

    #[test]
    fn a_generation_begins_with_deltas_that_pay() {
        for (deltas, pages, expected, what) in [
            (500, 4_096, true, "a small one"),
            (30_000, 28_672, true, "few pages"),
            (30_000, 32_768, false, "more than half"),
            (20_000, 40_000, true, "half"),
            (20_001, 40_000, false, "a byte too many"),
        ] {
            assert_eq!(pays(deltas, pages), expected, "{what}");
        }
    }

    #[test]
    fn commits_whose_deltas_do_not_pay_want_no_complete_file() {
        let mut start = DeltaStart::new(true);
        let mut wants_after = |begin: fn(&mut DeltaStart), bytes: u64| {
            begin(&mut start);
            start.note_checkpoint();
            start.note_pages(bytes, Durability::Buffered);
            start.wants_complete_file(2 * bytes)
        };
        assert!(wants_after(|_| (), 40_960));
        let refuse = |start: &mut DeltaStart| assert!(!start.may_be_first(40_000, 40_960));
        assert!(!wants_after(refuse, 40_960));
        assert!(wants_after(|_| (), 8_192), "a smaller one");
        assert!(!wants_after(|start| start.note_refused(1 << 20), 40_960), "the smallest counts");
        assert!(!wants_after(|start| assert!(start.may_be_first(100, 8_192)), 40_960), "a smaller one pays");
        assert!(wants_after(|start| assert!(start.may_be_first(100, 40_960)), 40_960), "one as large pays");
    }

    #[test]
    fn a_checkpoint_pays_once_half_as_many_bytes_were_written() {
        let mut start = DeltaStart::new(true);
        assert!(!start.wants_complete_file(0));
        start.note_pages(4_000, Durability::Buffered);
        assert_eq!([0, 8_000, 8_001].map(|redo| start.wants_complete_file(redo)), [false, true, false]);
        start.note_checkpoint();
        assert!(!start.wants_complete_file(4_000));
        let mut start = DeltaStart::new(false);
        start.note_pages(1 << 20, Durability::Buffered);
        assert!(!start.wants_complete_file(4_000), "the first commits");
    }
}
