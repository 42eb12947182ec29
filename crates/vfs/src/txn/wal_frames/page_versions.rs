//! Page versions: the committed frames of each page, as a list from the newest to the oldest.
//!
//! A commit of page deltas asks for each page as it was before the transaction, and a frame's memory is of no use once
//! a newer frame of its page counts. Both are answers of one step here, without a look at any other frame.
//!
//! # Invariants
//! 1. There is a link for each committed frame, and for no other.
//! 2. `newest` has the last committed frame of each page. From there `previous` leads through all its committed frames,
//!    each below the one before, and `next` leads back.

use crate::error::Result;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// No frame.
const NONE: u32 = u32::MAX;
/// Pages for which memory stays from one log to the next.
const KEPT_PAGES: usize = 4096;

/// The frames of a page before and behind one of its frames.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// The committed frames of each page.
#[derive(Default)]
pub(super) struct PageVersions {
    newest: HashMap<u32, u32, PageHash>,
    links: Vec<Link>,
}

impl PageVersions {
    /// Makes sure that so many committed frames find memory.
    pub fn reserve(&mut self, frames: usize) -> Result<()> {
        let more = frames.saturating_sub(self.links.len());
        self.links.try_reserve(more)?;
        Ok(self.newest.try_reserve(more)?)
    }

    /// The next frame is committed, with this page.
    pub fn push(&mut self, page_number: u32) {
        let frame = frame_number(self.links.len());
        let previous = self.newest.insert(page_number, frame).unwrap_or(NONE);
        if let Some(link) = self.links.get_mut(previous as usize) {
            link.next = frame;
        }
        self.links.push(Link { previous, next: NONE });
    }

    /// The last committed frame is so no more; it had this page.
    pub fn pop(&mut self, page_number: u32) {
        let Some(Link { previous, .. }) = self.links.pop() else { return };
        match self.links.get_mut(previous as usize) {
            Some(link) => {
                link.next = NONE;
                self.newest.insert(page_number, previous);
            }
            None => drop(self.newest.remove(&page_number)),
        }
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.newest.clear();
        self.newest.shrink_to(KEPT_PAGES);
        self.links.clear();
        self.links.shrink_to(KEPT_PAGES);
    }

    /// Pages that have a committed frame.
    pub fn pages(&self) -> usize {
        self.newest.len()
    }

    /// The newest frame of a page below frame `before`.
    pub fn newest_before(&self, page_number: u32, before: usize) -> Option<usize> {
        let mut frame = *self.newest.get(&page_number)?;
        while frame as usize >= before {
            frame = self.links.get(frame as usize)?.previous;
        }
        Some(frame as usize)
    }

    /// The frame of the same page before a frame.
    pub fn previous(&self, frame: usize) -> Option<usize> {
        self.links.get(frame).filter(|link| link.previous != NONE).map(|link| link.previous as usize)
    }

    /// True for the newest frame of its page.
    pub fn is_newest(&self, frame: usize) -> bool {
        self.is_newest_before(frame, NONE as usize)
    }

    /// True for the newest frame of its page below frame `before`.
    pub fn is_newest_before(&self, frame: usize, before: usize) -> bool {
        self.links.get(frame).is_some_and(|link| link.next as usize >= before)
    }
}

/// A frame as a link has it. A wal-index has room for a thousandth of what overflows here.
fn frame_number(frame: usize) -> u32 {
    u32::try_from(frame).unwrap_or(NONE)
}

/// Hashes page numbers. Neighbours, and pages at even distances, spread alike; no stranger chooses them.
#[derive(Clone, Copy, Default)]
struct PageHash;

/// The hash of one page number.
struct PageHasher(u64);

impl BuildHasher for PageHash {
    type Hasher = PageHasher;

    fn build_hasher(&self) -> PageHasher {
        PageHasher(0)
    }
}

impl Hasher for PageHasher {
    fn write_u32(&mut self, number: u32) {
        // Fibonacci hashing (Knuth, volume 3, section 6.4): 2^64 by the golden ratio. The high bits are the good ones.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn versions_are_those_of_a_plain_list(
            steps in prop::collection::vec((0..4_u8, prop::collection::vec(1..9_u32, 1..6)), 1..40),
        ) {
            let mut versions = PageVersions::default();
            let mut plain: Vec<u32> = Vec::new();
            for (step, pages) in steps {
                match step {
                    0 => {
                        for _ in 0..pages.len().min(plain.len()) {
                            versions.pop(plain.pop().unwrap());
                        }
                    }
                    1 if pages == [1] => {
                        versions.clear();
                        plain.clear();
                    }
                    _ => {
                        versions.reserve(plain.len() + pages.len()).unwrap();
                        for page in pages {
                            versions.push(page);
                            plain.push(page);
                        }
                    }
                }
                for before in 0..=plain.len() + 1 {
                    for page in 0..10 {
                        let below = &plain[..before.min(plain.len())];
                        let expected = below.iter().rposition(|other| *other == page);
                        prop_assert_eq!(versions.newest_before(page, before), expected, "{} {}", page, before);
                    }
                }
                for (frame, page) in plain.iter().enumerate() {
                    prop_assert_eq!(versions.is_newest(frame), !plain[frame + 1..].contains(page));
                    let newer = plain.iter().enumerate().skip(frame + 1).find(|(_, other)| *other == page);
                    for before in frame + 1..=plain.len() {
                        let expected = newer.is_none_or(|(next, _)| next >= before);
                        prop_assert_eq!(versions.is_newest_before(frame, before), expected);
                    }
                    let previous = plain[..frame].iter().rposition(|other| other == page);
                    prop_assert_eq!(versions.previous(frame), previous);
                }
                prop_assert!(!versions.is_newest(plain.len()));
            }
        }
    }

    /// A table of a power of two has the low bits of a hash, and a tag of the highest seven.
    #[test]
    fn page_numbers_spread() {
        for stride in [1_u32, 2, 64, 1024, 65_536, 1 << 20] {
            let hashes = (0..1024_u32).map(|at| PageHash.hash_one(at * stride));
            let (low, high): (HashSet<u64>, HashSet<u64>) =
                hashes.map(|hash| (hash % 1024, hash >> 57)).unzip();
            assert!(low.len() > 256 && high.len() > 100, "{stride}: {} {}", low.len(), high.len());
        }
    }
}
