//! The frames of one partition: which page has which, which are free, and the clock's hand.
//!
//! A frame is *vacant* while it has no memory: it was never used, or given up.

use crate::io::Monitor;
use crate::page_state::MOST_USAGE;
use crate::page_state::table::Table;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The end of a read; awaited by the threads that want the page.
pub(crate) type PendingRead = Monitor<Option<std::result::Result<(), String>>>;

/// No page.
const NO_PAGE: u64 = u64::MAX;

/// The data under the lock of a partition.
pub(crate) struct Partition {
    /// Its first frame.
    first: usize,
    /// Frames it may have.
    most: usize,
    /// The page in each of the frames that ever had memory.
    owner: Vec<u64>,
    free: Vec<u32>,
    /// Frames that were given up; the ones that never had memory lie behind `owner`.
    vacant: Vec<u32>,
    hand: usize,
    /// Pages of this partition that are being read, wherever their frames are.
    pub reading: HashMap<u64, Arc<PendingRead>>,
}

impl Partition {
    /// All frames are vacant.
    pub fn new(frames: Range<usize>) -> Partition {
        Partition {
            first: frames.start,
            most: frames.len(),
            owner: Vec::new(),
            free: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            reading: HashMap::new(),
        }
    }

    /// Frames that have no memory.
    pub fn vacant(&self) -> usize {
        self.vacant.len() + self.most - self.owner.len()
    }

    /// Up to so many vacant frames have memory now, and are free.
    pub fn populate(&mut self, count: usize) {
        let known = self.vacant.len().min(count);
        let fresh = (count - known).min(self.most - self.owner.len());
        let start = self.first + self.owner.len();
        self.owner.resize(self.owner.len() + fresh, NO_PAGE);
        // Handed out from behind, so that those of one portion lie one behind the other.
        self.free.extend((start..start + fresh).rev().map(|frame| frame as u32));
        let mut known: Vec<u32> = self.vacant.drain(self.vacant.len() - known..).collect();
        known.sort_unstable_by_key(|frame| std::cmp::Reverse(*frame));
        self.free.extend(known);
    }

    /// A frame whose memory can go, free or taken from a page; it is vacant now.
    pub fn vacate(&mut self, table: &Table) -> Option<u32> {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None => self.evict(table, NO_PAGE)?,
        };
        self.vacant.push(frame);
        Some(frame)
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The pages in its frames.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.owner.iter().copied().filter(|page| *page != NO_PAGE)
    }

    /// Its frames that a page has, and the page.
    pub fn owned(&self) -> impl Iterator<Item = (u32, u64)> {
        let owned = self.owner.iter().enumerate().filter(|(_, page)| **page != NO_PAGE);
        owned.map(|(index, page)| ((self.first + index) as u32, *page))
    }

    /// Frames on the free list that a page has, that are on it twice, or that are missing from it.
    pub fn wrong_free(&self) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        let twice = self.free.iter().filter(|frame| !seen.insert(**frame)).copied().collect::<Vec<_>>();
        let wrong = (0..self.owner.len()).filter(move |index| {
            let frame = (self.first + index) as u32;
            let is_free = seen.contains(&frame) || self.vacant.contains(&frame);
            is_free != (self.owner[*index] == NO_PAGE)
        });
        wrong.map(|index| (self.first + index) as u32).chain(twice)
    }

    /// A frame for a page: a free one.
    pub fn take_free(&mut self, page: u64) -> Option<u32> {
        let frame = self.free.pop()?;
        debug_assert_eq!(
            self.owner[frame as usize - self.first],
            NO_PAGE,
            "frame {frame} is free, and has a page"
        );
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
                return Some(frame);
            }
        }
        None
    }

    /// A frame has no page any more.
    pub fn give_back(&mut self, frame: u32) {
        self.owner[frame as usize - self.first] = NO_PAGE;
        self.free.push(frame);
    }
}
