//! The part of a pool that its reads under way share: frames, words of pages, partitions and counters.

use super::{Config, FEWEST_FRAMES};
use crate::budget::{Budget, Member};
use crate::frames::Frames;
use crate::frames::partition::Partition;
use crate::page_state::table::Table;
use crate::prefetch::Detector;
use crate::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The part of a pool that reads under way keep alive.
pub(crate) struct Shared {
    pub page_bytes: usize,
    pub frames: Frames,
    pub table: Table,
    pub partitions: Box<[Mutex<Partition>]>,
    pub detector: Mutex<Option<Detector>>,
    /// Frames in all partitions.
    pub count: usize,
    pub run_pages: u64,
    /// Memory nodes that the partitions are spread over, in turn.
    pub nodes: usize,
    /// Partitions for which the system did not take that wish.
    pub refused_partitions: u64,
    pub budget: Option<Arc<Budget>>,
    /// Frames that have memory, where there is a budget.
    pub populated: AtomicUsize,
    /// Frames that get memory together.
    pub portion: usize,
    /// Pages of the file.
    pub pages: AtomicU64,
    pub ahead_on_their_way: AtomicUsize,
    pub dirty: AtomicUsize,
    /// True once a page in memory differs from the file.
    pub stale: AtomicBool,
    /// Pages on their way to the medium: their frames come free soon.
    pub cleaning: AtomicUsize,
    pub missed: AtomicU64,
    pub ahead: AtomicU64,
    pub ahead_used: AtomicU64,
    pub evicted: AtomicU64,
}

impl Shared {
    pub fn partition(&self, page: u64) -> &Mutex<Partition> {
        &self.partitions[self.partition_of(page)]
    }

    pub fn partition_of(&self, page: u64) -> usize {
        (page / self.run_pages % self.partitions.len() as u64) as usize
    }

    /// From so many frames on, large pages of memory pay.
    pub fn large(&self) -> usize {
        LARGE_BYTES / self.page_bytes
    }

    /// Gets memory for more frames of a partition. Under its lock.
    pub fn grow(&self, partition: &mut Partition) -> bool {
        let Some(budget) = &self.budget else { return false };
        let count = self.portion.min(partition.vacant());
        let bytes = count * self.page_bytes;
        if count == 0 {
            return false;
        }
        if self.populated.load(Ordering::Relaxed) < FEWEST_FRAMES {
            budget.take(bytes);
        } else if !budget.take_for_pool(bytes, self.bytes()) {
            return false;
        }
        let before = self.populated.fetch_add(count, Ordering::Relaxed);
        if before < self.large() && before + count >= self.large() {
            self.frames.ask_for_large_pages();
        }
        partition.populate(count);
        true
    }

    /// The pages in frames, in order, each once.
    pub fn in_frames(&self) -> Vec<u64> {
        let partitions = self.partitions.iter();
        let mut pages: Vec<u64> =
            partitions.flat_map(|part| part.lock().pages().collect::<Vec<_>>()).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The pages of a range that may be in memory, at most as many as there are frames. No reads of the range begin any
    /// more.
    pub fn perhaps_in_memory(&self, pages: Range<u64>) -> Box<dyn Iterator<Item = u64>> {
        let frames = self.populated.load(Ordering::Relaxed) as u64;
        if pages.end.saturating_sub(pages.start) <= frames {
            return Box::new(pages);
        }
        // A thread that began a read before, and may still take a frame, has the lock of a partition.
        self.partitions.iter().for_each(|partition| drop(partition.lock()));
        let mut found = self.in_frames();
        found.retain(|page| pages.contains(page));
        Box::new(found.into_iter())
    }

    /// A frame has no page any more. To be called under no lock of a partition.
    pub fn give_back(&self, frame: u32) {
        // The inverse of how frames are cut into partitions.
        let part = ((frame as usize + 1) * self.partitions.len() - 1) / self.count;
        if let Some(partition) = self.partitions.get(part) {
            partition.lock().give_back(frame);
        }
    }
}

impl Member for Shared {
    fn bytes(&self) -> usize {
        self.populated.load(Ordering::Relaxed) * self.page_bytes
    }

    fn give_up(&self, bytes: usize) -> usize {
        let wanted = bytes.div_ceil(self.page_bytes);
        let mut given = 0;
        // The holder of a lock may be waiting for the pool that asks.
        for mut partition in self.partitions.iter().filter_map(Mutex::try_lock) {
            let mut frames = Vec::new();
            while given < wanted && self.populated.load(Ordering::Relaxed) > FEWEST_FRAMES {
                let Some(frame) = partition.vacate(&self.table) else { break };
                self.populated.fetch_sub(1, Ordering::Relaxed);
                frames.push(frame);
                given += 1;
            }
            self.frames.give_up(frames);
        }
        if let Some(budget) = &self.budget {
            budget.put_back(given * self.page_bytes);
        }
        given * self.page_bytes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.leave(self.bytes());
        }
    }
}

/// From so many bytes on, large pages of memory pay.
const LARGE_BYTES: usize = 32 << 20;
/// Most frames that get memory together.
const MOST_PORTION: usize = 128;

/// Frames that get memory together: enough for adjacent pages to lie together, few enough for a small budget.
pub(crate) fn portion(config: &Config) -> usize {
    let limit = config.budget.as_ref().map_or(usize::MAX, |budget| budget.limit());
    (limit / config.page_bytes / 16).clamp(1, MOST_PORTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_a_sixteenth_of_the_budget_within_limits() {
        let cases = [
            (None, 4096, MOST_PORTION),
            (Some(0), 4096, 1),
            (Some(16 * 4096), 4096, 1),
            (Some(160 * 4096), 4096, 10),
            (Some(160 * 4096), 65536, 1),
            (Some(1 << 30), 4096, MOST_PORTION),
        ];
        for (limit, page_bytes, expected) in cases {
            let config = Config {
                page_bytes,
                frames: 16,
                partitions: 1,
                most_pages: 1,
                prefetch: false,
                run_pages: 1,
                budget: limit.map(|limit| Arc::new(Budget::new(limit))),
                topology: crate::numa::Topology::single(),
            };
            assert_eq!(portion(&config), expected, "{limit:?} {page_bytes}");
        }
    }
}
