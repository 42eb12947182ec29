//! Delta start: when commits of a WAL database begin to be logged as deltas.
//!
//! # Why
//! A generation of deltas begins only when the data file has every page of the database. A program that commits once and
//! closes would pay for that, and gain nothing. So the first commits go to the redo log as pages. The same
//! happens after a large commit, and while a checkpoint is under way. Completing the data file costs a checkpoint, which
//! pays once the commits that could not be deltas have written about as many bytes as it will.
//!
//! # Promises
//! 1. With the option `auto` no generation begins before [`FIRST_PAGES`] commits were logged as pages.
//! 2. A checkpoint is asked for when small commits have written half as many bytes as pages as the redo log holds.

/// Small commits that are logged as pages after a database was opened.
const FIRST_PAGES: u32 = 32;

/// Decides when deltas begin.
#[derive(Debug, Default)]
pub(crate) struct DeltaStart {
    /// True where the first commit may be a delta.
    eager: bool,
    /// Small commits that were logged as pages.
    commits: u32,
    /// Bytes of their pages, since a checkpoint was asked for.
    lost: u64,
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
    pub fn note_pages(&mut self, bytes: u64) {
        self.commits = self.commits.saturating_add(1);
        self.lost += bytes;
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
        for (eager, commits, expected) in
            [(true, 0, true), (false, 0, false), (false, 31, false), (false, 32, true)]
        {
            let mut start = DeltaStart::new(eager);
            (0..commits).for_each(|_| start.note_pages(1));
            assert_eq!(start.may_begin(), expected, "{eager} {commits}");
        }
    }

    #[test]
    fn a_checkpoint_pays_once_half_as_many_bytes_were_written() {
        let mut start = DeltaStart::new(true);
        assert!(!start.wants_complete_file(0));
        start.note_pages(4_000);
        assert_eq!([0, 8_000, 8_001].map(|redo| start.wants_complete_file(redo)), [false, true, false]);
        start.note_checkpoint();
        assert!(!start.wants_complete_file(4_000));
        let mut start = DeltaStart::new(false);
        start.note_pages(1 << 20);
        assert!(!start.wants_complete_file(4_000), "the first commits");
    }
}
