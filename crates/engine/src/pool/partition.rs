//! The frames of one partition: which page has which, which are free, and the clock's hand.

use super::state::MOST_USAGE;
use super::table::Table;
use crate::task::Watched;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// How a read ended; waited on by those who want the page.
pub(super) type Slot = Watched<Option<std::result::Result<(), String>>>;

/// No page.
const NOBODY: u64 = u64::MAX;

/// What the lock of a partition guards.
pub(super) struct Partition {
    /// Its first frame.
    first: usize,
    /// The page in each of its frames.
    owner: Vec<u64>,
    free: Vec<u32>,
    hand: usize,
    evicted: u64,
    /// Pages of this partition that are being read, wherever their frames are.
    pub reading: HashMap<u64, Arc<Slot>>,
}

impl Partition {
    pub fn new(frames: Range<usize>) -> Partition {
        Partition {
            first: frames.start,
            owner: vec![NOBODY; frames.len()],
            // Those handed out first are the lowest.
            free: frames.rev().map(|frame| frame as u32).collect(),
            hand: 0,
            evicted: 0,
            reading: HashMap::new(),
        }
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The pages in its frames.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.owner.iter().copied().filter(|page| *page != NOBODY)
    }

    /// Its frames that a page has, and the page.
    pub fn owned(&self) -> impl Iterator<Item = (u32, u64)> {
        let owned = self.owner.iter().enumerate().filter(|(_, page)| **page != NOBODY);
        owned.map(|(index, page)| ((self.first + index) as u32, *page))
    }

    /// Frames on the free list that a page has, that are on it twice, or that are missing from it.
    pub fn wrong_free(&self) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        let twice = self.free.iter().filter(|frame| !seen.insert(**frame)).copied().collect::<Vec<_>>();
        let wrong = (0..self.owner.len()).filter(move |index| {
            let is_free = seen.contains(&((self.first + index) as u32));
            is_free != (self.owner[*index] == NOBODY)
        });
        wrong.map(|index| (self.first + index) as u32).chain(twice)
    }

    /// A frame for a page: a free one.
    pub fn take_free(&mut self, page: u64) -> Option<u32> {
        let frame = self.free.pop()?;
        self.owner[frame as usize - self.first] = page;
        Some(frame)
    }

    /// A frame for a page: that of the first page the clock's hand does not spare. A page is spared at most
    /// [`MOST_USAGE`] times, so the sweep is bounded.
    pub fn evict(&mut self, table: &Table, page: u64) -> Option<u32> {
        for _ in 0..(MOST_USAGE + 1) * self.owner.len() {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.owner.len();
            let frame = (self.first + index) as u32;
            if table.of(self.owner[index]).is_some_and(|state| state.evict(frame)) {
                self.owner[index] = page;
                self.evicted += 1;
                return Some(frame);
            }
        }
        None
    }

    /// A frame is nobody's any more.
    pub fn give_back(&mut self, frame: u32) {
        self.owner[frame as usize - self.first] = NOBODY;
        self.free.push(frame);
    }
}
