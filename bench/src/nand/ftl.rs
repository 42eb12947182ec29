//! A page-mapped flash translation layer.
//!
//! # Invariants
//! 1. `owner[p]` is the logical page that is valid in physical page `p`, and then `place` of it is `p`.
//! 2. `valid[b]` counts the valid pages of block `b`.
//! 3. At least two blocks are free between two writes, so that garbage collection has one to copy to.

use super::cache::PAGE_BYTES;
use std::collections::VecDeque;

/// Pages of a block of 128 KiB.
const BLOCK_PAGES: u32 = 64;

/// The size of a device, in pages and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Pages that the host may use.
    pub logical_pages: u32,
    /// Pages of a block.
    pub block_pages: u32,
    /// Blocks of the device.
    pub blocks: u32,
}

impl Geometry {
    /// A device on which the host may use so many bytes, with pages of 2 KiB, blocks of 128 KiB and 7 % of spare
    /// blocks.
    pub fn of(bytes: u64) -> Geometry {
        let logical_pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX / 2);
        let blocks = (u64::from(logical_pages) * 107).div_ceil(100 * u64::from(BLOCK_PAGES)) as u32;
        Geometry { logical_pages, block_pages: BLOCK_PAGES, blocks }
    }
}

/// Counters of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounts {
    /// Pages read for the host.
    pub host_reads: u64,
    /// Pages written for the host.
    pub host_writes: u64,
    /// Pages copied by garbage collection: a read and a write each.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl FtlCounts {
    /// All pages written.
    pub fn writes(&self) -> u64 {
        self.host_writes + self.copies
    }

    /// Time of all of it, in microseconds (P-SQLITE, table II).
    pub fn us(&self) -> f64 {
        let reads = self.host_reads + self.copies;
        reads as f64 * 100.0 + self.writes() as f64 * 800.0 + self.erases as f64 * 1500.0
    }
}

const NONE: u32 = u32::MAX;

/// A block that is being filled, and its next page.
#[derive(Clone, Copy, Debug)]
struct Stream {
    block: u32,
    next: u32,
}

/// A flash device.
#[derive(Clone, Debug)]
pub struct Ftl {
    geometry: Geometry,
    place: Vec<u32>,
    owner: Vec<u32>,
    valid: Vec<u32>,
    free: VecDeque<u32>,
    /// Pages that the host writes.
    host: Stream,
    /// Pages that garbage collection copies.
    copies: Stream,
    counts: FtlCounts,
}

impl Ftl {
    /// An empty device.
    ///
    /// # Panics
    /// If there are no spare blocks to collect garbage with.
    pub fn new(geometry: Geometry) -> Ftl {
        let pages = geometry.blocks * geometry.block_pages;
        assert!(pages >= geometry.logical_pages + 4 * geometry.block_pages, "no spare blocks");
        Ftl {
            geometry,
            place: vec![NONE; geometry.logical_pages as usize],
            owner: vec![NONE; pages as usize],
            valid: vec![0; geometry.blocks as usize],
            free: (2..geometry.blocks).collect(),
            host: Stream { block: 0, next: 0 },
            copies: Stream { block: 1, next: 0 },
            counts: FtlCounts::default(),
        }
    }

    /// A device that has been in use: the first `percent` of its pages are filled, and as many written again at
    /// random. Nothing has been counted yet.
    pub fn aged(geometry: Geometry, percent: u32, seed: u64) -> Ftl {
        let mut ftl = Ftl::new(geometry);
        let filled = (u64::from(geometry.logical_pages) * u64::from(percent) / 100) as u32;
        (0..filled).for_each(|page| ftl.write(page));
        let mut random = fastrand::Rng::with_seed(seed);
        (0..filled).for_each(|_| ftl.write(random.u32(0..filled)));
        ftl.counts = FtlCounts::default();
        ftl
    }

    /// Its size.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The counters.
    pub fn counts(&self) -> FtlCounts {
        self.counts
    }

    /// True if a page holds something.
    pub fn is_mapped(&self, page: u32) -> bool {
        self.place[page as usize] != NONE
    }

    /// Reads a page; one that was never written costs nothing.
    pub fn read(&mut self, page: u32) {
        self.counts.host_reads += u64::from(self.is_mapped(page));
    }

    /// Writes a page.
    pub fn write(&mut self, page: u32) {
        self.trim(page);
        self.counts.host_writes += 1;
        self.host = self.program(self.host, page);
        while self.free.len() < 2 {
            self.collect();
        }
    }

    /// A page is not needed any more.
    pub fn trim(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.place[page as usize], NONE);
        if place != NONE {
            self.owner[place as usize] = NONE;
            self.valid[(place / self.geometry.block_pages) as usize] -= 1;
        }
    }

    /// Puts a page into the block that a stream fills; gives the stream as it is then.
    fn program(&mut self, mut stream: Stream, page: u32) -> Stream {
        if stream.next == self.geometry.block_pages {
            // Invariant 3.
            let Some(block) = self.free.pop_front() else { return stream };
            stream = Stream { block, next: 0 };
        }
        let place = stream.block * self.geometry.block_pages + stream.next;
        stream.next += 1;
        self.place[page as usize] = place;
        self.owner[place as usize] = page;
        self.valid[stream.block as usize] += 1;
        stream
    }

    /// Frees the block with the fewest valid pages.
    fn collect(&mut self) {
        let full = (0..self.geometry.blocks).filter(|block| {
            ![self.host.block, self.copies.block].contains(block) && !self.free.contains(block)
        });
        let Some(victim) = full.min_by_key(|block| (self.valid[*block as usize], *block)) else { return };
        let first = victim * self.geometry.block_pages;
        let pages: Vec<u32> = (first..first + self.geometry.block_pages)
            .map(|place| self.owner[place as usize])
            .filter(|page| *page != NONE)
            .collect();
        for page in &pages {
            self.trim(*page);
            self.copies = self.program(self.copies, *page);
        }
        self.free.push_back(victim);
        self.counts.copies += pages.len() as u64;
        self.counts.erases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Geometry {
        Geometry { logical_pages: 32, block_pages: 4, blocks: 12 }
    }

    fn consistent(ftl: &Ftl) {
        for (page, place) in ftl.place.iter().enumerate().filter(|(_, place)| **place != NONE) {
            assert_eq!(ftl.owner[*place as usize], page as u32);
        }
        for (block, valid) in ftl.valid.iter().enumerate() {
            let owners = &ftl.owner[block * 4..block * 4 + 4];
            assert_eq!(owners.iter().filter(|owner| **owner != NONE).count(), *valid as usize);
        }
        assert!(ftl.free.len() >= 2);
    }

    #[test]
    fn writes_and_copies_add_up_and_nothing_is_lost() {
        let mut ftl = Ftl::new(small());
        let mut random = fastrand::Rng::with_seed(1);
        let mut model = [false; 32];
        for number in 0..5000 {
            let page = random.u32(0..32);
            let needed = random.u32(0..10) > 0;
            if needed {
                ftl.write(page)
            } else {
                ftl.trim(page)
            }
            model[page as usize] = needed;
            consistent(&ftl);
            let mapped: Vec<bool> = (0..32).map(|page| ftl.is_mapped(page)).collect();
            assert_eq!(mapped, model, "{number}");
        }
        let counts = ftl.counts();
        // Every page programmed was in a block that is erased, or is still there.
        let programmed = counts.writes();
        assert!(programmed >= counts.erases * 4 && programmed <= counts.erases * 4 + 48, "{counts:?}");
    }

    #[test]
    fn overwriting_in_order_copies_nothing() {
        let mut ftl = Ftl::new(small());
        for _ in 0..50 {
            (0..32).for_each(|page| ftl.write(page));
        }
        assert_eq!((ftl.counts().copies, ftl.counts().host_writes), (0, 1600));
        // 400 blocks were filled; 9 of the 12 are still, one is for copies, two are free.
        assert_eq!(ftl.counts().erases, 400 - 9);
    }

    #[test]
    fn what_is_trimmed_is_not_copied() {
        let mut ftl = Ftl::new(small());
        (0..32).for_each(|page| ftl.write(page));
        // Every other page is not needed any more.
        (0..32).step_by(2).for_each(|page| ftl.trim(page));
        let before = ftl.counts();
        (0..16).for_each(|_| ftl.write(0));
        let copied = ftl.counts().copies - before.copies;
        assert!(copied <= 8, "{copied}");
    }

    #[test]
    fn times_are_those_of_the_paper() {
        let counts = FtlCounts { host_reads: 1, host_writes: 2, copies: 3, erases: 4 };
        assert_eq!(counts.us(), 400.0 + 4000.0 + 6000.0);
        let geometry = Geometry::of(256 << 20);
        assert_eq!((geometry.logical_pages, geometry.block_pages, geometry.blocks), (131_072, 64, 2192));
    }

    #[test]
    fn ageing_is_the_same_in_every_run() {
        let geometry = Geometry::of(16 << 20);
        let (first, second) = (Ftl::aged(geometry, 90, 5), Ftl::aged(geometry, 90, 5));
        assert_eq!((first.place, first.counts), (second.place, FtlCounts::default()));
    }
}
