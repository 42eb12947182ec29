//! Hot chunks of a file that has a log before it: commits go to the log, and chunks are written by checkpoints.
//!
//! # Why
//! Under P-SQLITE each transaction writes its chunks, and a period is five of them. Under a log a checkpoint writes each
//! changed chunk once, however many commits have changed it. A chunk on the tier then saves one write of flash for each
//! checkpoint, so a period is what was committed between two of them. A chunk counts once in it, or twice where several
//! commits have changed it: chunks that a single one has changed are mostly not changed again soon.
//!
//! # The decision
//! The EWMA is formula 1 of the paper, over [`PERIODS`] periods. A chunk moves when a checkpoint writes it: into a free
//! slot, or for the coldest chunk where formula 3 says so of the two ([`pays_to_replace`]). What checkpoints keep
//! writing keeps its EWMA, and so its slot. New rows all over the file do not take it.
//!
//! # Cost
//! A commit adds to one counter for each page. The first write of a checkpoint ends a period. A chunk that is not written
//! any more fades within 23 periods, so each count costs at most as many steps.

use super::Advice;
use super::chunk_table::ChunkTable;
use super::decision::{Latencies, alpha, expected, pays_to_replace};
use super::section::Place;
use super::small_float::SmallFloat;

/// Periods that count (N of the EWMA). Of 2 to 9 the longest saves most, and moves fewest chunks.
pub const PERIODS: u32 = 9;
/// Commits of a period that count for a chunk.
const MOST_COMMITS: u8 = 2;
/// An EWMA below this is none.
const FADED: f64 = 1.0 / 64.0;
/// A checkpoint ends a period that has this part of the commits of the last one, at least.
const LEAST_SHARE: u32 = 4;

/// The chunks, and the commits that end a period.
#[derive(Clone, Debug)]
pub struct LoggedChunks {
    capacity: usize,
    latencies: Latencies,
    /// The least EWMA is the coldest.
    chunks: ChunkTable<SmallFloat>,
    /// True from the first write of a checkpoint to its sync.
    is_checkpointing: bool,
    /// Commits of the current period.
    commits: u32,
    /// Commits that end it.
    needed: u32,
}

impl LoggedChunks {
    /// Nothing is known yet, and nothing on the tier.
    pub fn new(capacity: usize, latencies: Latencies) -> LoggedChunks {
        LoggedChunks {
            capacity,
            latencies,
            chunks: ChunkTable::new(|section| section.ewma),
            is_checkpointing: false,
            commits: 0,
            needed: 1,
        }
    }

    /// A commit has changed these chunks, in order: a chunk that comes twice in a row counts once.
    pub fn note_commit(&mut self, chunks: impl Iterator<Item = u32>) {
        let mut last = None;
        for chunk in chunks.filter(|chunk| last.replace(*chunk) != Some(*chunk)) {
            self.chunks.count(chunk, MOST_COMMITS);
        }
        self.commits = self.commits.saturating_add(1);
    }

    /// A checkpoint writes a chunk.
    pub fn write(&mut self, chunk: u32) -> Advice {
        if !std::mem::replace(&mut self.is_checkpointing, true) {
            self.begin_checkpoint();
        }
        let section = self.chunks.get(chunk);
        let gains = self.latencies.flash_write_us > self.latencies.tier_write_us;
        if section.place == Place::Tier || section.ewma == SmallFloat::ZERO || !gains {
            return Advice::Stay;
        }
        let has_room = self.chunks.used() < self.capacity;
        let replaces = |coldest: SmallFloat| {
            pays_to_replace(section.ewma.value(), coldest.value(), PERIODS, &self.latencies)
        };
        let moves = has_room || self.chunks.coldest().is_some_and(|(coldest, _)| replaces(coldest));
        if moves { Advice::Move } else { Advice::Stay }
    }

    /// The coldest chunk of the tier; of equals, the one with the lowest number.
    pub fn victim(&self) -> Option<u32> {
        self.chunks.coldest().map(|(_, chunk)| chunk)
    }

    /// A chunk is on the tier now.
    pub fn arrived(&mut self, chunk: u32) {
        self.chunks.put(chunk, Place::Tier);
    }

    /// A chunk is on flash again.
    pub fn left(&mut self, chunk: u32) {
        self.chunks.left(chunk);
    }

    /// The file was synced: a checkpoint, or a part of one, has ended.
    pub fn end_checkpoint(&mut self) {
        self.is_checkpointing = false;
    }

    /// The file was cut.
    pub fn cut(&mut self, first: u32) {
        self.chunks.cut(first);
    }

    /// A checkpoint writes in parts: most pages while commits go on, then those that were changed meanwhile. Such a part
    /// ends no period.
    fn begin_checkpoint(&mut self) {
        if self.commits < self.needed {
            // Should commits be few from now on, that is found out soon.
            self.needed /= 2;
            return;
        }
        self.needed = (self.commits / LEAST_SHARE).max(1);
        self.commits = 0;
        let alpha = alpha(PERIODS);
        self.chunks.end_period(|section| {
            let next = expected(alpha, section.writes, section.ewma.value());
            if next < FADED { SmallFloat::ZERO } else { SmallFloat::new(next) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunks_of(capacity: usize) -> LoggedChunks {
        LoggedChunks::new(capacity, Latencies::default())
    }

    /// A period of commits, and the checkpoint that writes what they have changed; gives the chunks that moved.
    fn period(logged: &mut LoggedChunks, commits: &[&[u32]]) -> Vec<u32> {
        commits.iter().for_each(|chunks| logged.note_commit(chunks.iter().copied()));
        let mut written: Vec<u32> = commits.iter().flat_map(|chunks| chunks.iter().copied()).collect();
        written.sort_unstable();
        written.dedup();
        let moved = written.into_iter().filter(|chunk| checkpointed(logged, *chunk)).collect();
        logged.end_checkpoint();
        moved
    }

    /// A checkpoint writes a chunk; true where it moves.
    fn checkpointed(logged: &mut LoggedChunks, chunk: u32) -> bool {
        let moves = logged.write(chunk) == Advice::Move;
        if moves {
            while logged.chunks.used() >= logged.capacity
                && let Some(victim) = logged.victim()
            {
                logged.left(victim);
            }
            logged.arrived(chunk);
        }
        moves
    }

    #[test]
    fn what_commits_have_changed_moves_with_the_first_checkpoint() {
        let mut logged = chunks_of(8);
        assert_eq!(period(&mut logged, &[&[3, 4], &[3, 7]]), [3, 4, 7]);
        // No commit has told of it: a new page that was written early.
        assert!(!checkpointed(&mut logged, 9));
        // On the tier already.
        assert_eq!(period(&mut logged, &[&[3]]), [0; 0]);
    }

    #[test]
    fn a_chunk_counts_twice_at_most_and_a_commit_once() {
        let mut logged = chunks_of(8);
        for (commits, expected) in [(&[&[5, 5][..]][..], 1), (&[&[5]], 2), (&[&[5], &[5]], 2)] {
            commits.iter().for_each(|chunks| logged.note_commit(chunks.iter().copied()));
            assert_eq!(logged.chunks.get(5).writes, expected);
        }
    }

    #[test]
    fn what_checkpoints_keep_writing_stays_whatever_passes_by() {
        let mut logged = chunks_of(3);
        for round in 0..30 {
            let passing = [100 + 2 * round, 101 + 2 * round];
            let moved = period(&mut logged, &[&[1, 2, passing[0]], &[1, 2, passing[1]]]);
            assert!(round == 0 || moved.iter().all(|chunk| *chunk > 2), "{round}: {moved:?}");
            assert!([1, 2].iter().all(|chunk| logged.chunks.get(*chunk).place == Place::Tier), "{round}");
        }
    }

    #[test]
    fn a_hotter_chunk_takes_the_place_of_the_coldest_once_that_pays() {
        let mut logged = chunks_of(2);
        assert_eq!(period(&mut logged, &[&[1, 2]]), [1, 2]);
        // 0.4 against 0.16: the difference of 0.24 saves 5 · 0.24 · 595 us, and costs 841.
        assert_eq!(period(&mut logged, &[&[2, 3], &[3]]), [0; 0]);
        assert_eq!(period(&mut logged, &[&[2, 3], &[3]]), [3]);
        assert_eq!([1, 2, 3].map(|chunk| logged.chunks.get(chunk).place == Place::Tier), [false, true, true]);
    }

    #[test]
    fn the_rest_of_a_checkpoint_ends_no_period() {
        let mut logged = chunks_of(8);
        let commits: Vec<&[u32]> = vec![&[1]; 40];
        period(&mut logged, &commits);
        let before = logged.chunks.get(1).ewma;
        // Commits that were made meanwhile.
        period(&mut logged, &[&[2]]);
        assert_eq!((logged.chunks.get(1).ewma, logged.chunks.get(2).writes), (before, 1));
        // From now on checkpoints come after each commit: in the end each is a period.
        (0..5).for_each(|_| _ = period(&mut logged, &[&[2]]));
        assert_eq!(logged.needed, 1);
        assert!(logged.chunks.get(1).ewma < before);
    }

    #[test]
    fn a_device_that_is_not_faster_gets_nothing() {
        let latencies = Latencies { flash_write_us: 100.0, tier_write_us: 100.0, tier_read_us: 10.0 };
        let mut logged = LoggedChunks::new(8, latencies);
        assert_eq!(period(&mut logged, &[&[1, 2], &[1]]), [0; 0]);
    }

    #[test]
    fn the_beginning_of_a_checkpoint_costs_what_was_touched() {
        let mut logged = chunks_of(8);
        period(&mut logged, &[&[1_000_000], &[1_000_000]]);
        (0..23).for_each(|_| _ = period(&mut logged, &[&[5]]));
        assert_eq!(logged.chunks.active(), [5]);
    }

    proptest! {
        /// The invariants, whatever happens.
        #[test]
        fn residents_and_active_chunks_are_those_of_the_table(
            steps in prop::collection::vec((0..5_u8, 0..20_u32), 1..300),
        ) {
            let mut logged = chunks_of(5);
            for (what, chunk) in steps {
                match what {
                    0 | 1 => logged.note_commit([chunk, chunk + 1].into_iter()),
                    2 => _ = checkpointed(&mut logged, chunk),
                    3 => logged.end_checkpoint(),
                    _ if chunk > 10 => logged.cut(chunk),
                    _ => logged.left(chunk),
                }
                logged.chunks.check();
                prop_assert!(logged.chunks.used() <= 5);
            }
        }
    }
}
