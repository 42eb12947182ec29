//! Which pages of a database SQLite will want next: a decision, no I/O.
//!
//! # Why
//! A page that is read before it is asked for costs nobody a wait. In a database, the next page is seldom the
//! one behind in the file: rows that came in another order than their keys leave a tree whose neighbours lie
//! anywhere, and a prefetcher of next pages reads such a file many times over. The tree itself says what
//! comes: an interior page names its children in order.
//!
//! ```text
//! passed    the interior pages and index leaves that came by: who is whose parent
//! sights    where trees were entered: two neighbours begin a stream
//! reads     which index leaf causes the reads of a table: two neighbours begin a stream
//! siblings, entries, chain   what a stream wants next: children, rows of an index, overflow pages
//! stream, streams, expected  the windows
//! runs      how far it is worth to go
//! sweep     when it pays to read the file in its own order
//! node, record, path         pages of b-trees, read without trust
//! ```
//!
//! # What it promises
//! 1. Two children of an interior page, side by side and in either direction, begin a stream of the children
//!    that follow, in the next interior pages, too. Children may themselves be interior pages. All b-trees:
//!    tables, indexes, tables without rowids.
//! 2. Two rows of a table, side by side on an index leaf, begin a stream of the table leaves of the entries
//!    that follow. Overflow pages are guessed while chains go straight.
//! 3. The window at most doubles, from 4 pages to [`LONGEST_WINDOW`] or an eighth of the memory; the next pages are asked for when
//!    half of it is left. How much of that is allowed depends on how long streams have been: `runs.rs`.
//! 4. Pages asked for lie in 2 to the end of the file. None was in memory when it was expected. The same page
//!    may be asked for again by another stream.
//! 5. Pages of any content lead to useless pages at worst: every look is bounds-checked, every loop has a limit.
//! 6. A hit costs a comparison, and no allocation. The first page that has to be read allocates; with one
//!    stream a value takes 5 KiB, with eight at their longest windows less than 24.
//!
//! 7. Beside a stream that is long, [`ReadAhead::sweep`] tells of parts of the file that the system should read into its
//!    own cache, in the order of the file: `sweep.rs`.
//!
//! # What it does not do
//! It takes no part in what is kept in memory. It does not find ranges over an index whose table has no rowids,
//! nor the first overflow pages of a leaf's rows: only what follows them.

mod chain;
mod entries;
mod expected;
mod mind;
pub(crate) mod node;
mod passed;
mod path;
mod reads;
mod record;
mod runs;
mod siblings;
mod sights;
mod stream;
mod streams;
mod sweep;

pub(crate) use crate::readahead::node::LEAF;
pub use crate::readahead::sweep::Sweeps;

use crate::readahead::mind::Mind;
use crate::readahead::passed::Passed;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The pages in memory.
pub trait Memory {
    /// Shows the page's bytes, all of it, if it is in memory. Never reads. Not called from within itself.
    fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool;

    /// Whether the page is in memory or on its way there.
    fn holds(&self, page: u32) -> bool {
        self.with(page, &mut |_| ())
    }
}

/// What does not change while a file is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a page that b-trees use: its size without the reserved bytes at its end.
    pub usable_bytes: u32,
    /// Pages that the memory has room for, for this file.
    pub memory_pages: u32,
    /// When the file is read in its own order, into the system's cache.
    pub sweeps: Sweeps,
    /// Whether the system reads far enough ahead by itself where pages come in order.
    pub system_leads: bool,
}

/// Pages of the longest window of all.
pub const LONGEST_WINDOW: u32 = 256;

/// What all decisions look at.
struct View<'a> {
    memory: &'a dyn Memory,
    /// Pages of the file.
    pages: u32,
    usable: usize,
    /// Pages that the memory has room for.
    memory_pages: u32,
    /// Pages of the longest window.
    longest: u32,
    /// Pages that were wanted so far.
    now: u32,
    sweeps: Sweeps,
    system_leads: bool,
    /// Since the beginning.
    time: Duration,
}

impl View<'_> {
    /// Whether a page may be asked for.
    fn is_inside(&self, page: u32) -> bool {
        (2..=self.pages).contains(&page)
    }
}

/// Decides what to read ahead for one connection's file.
#[derive(Debug, Default)]
pub struct ReadAhead {
    config: Config,
    passed: Passed,
    mind: Option<Box<Mind>>,
    /// When the first page was wanted.
    began: Option<Instant>,
}

impl ReadAhead {
    /// One that has seen nothing.
    pub fn new(config: Config) -> ReadAhead {
        ReadAhead { config, passed: Passed::default(), mind: None, began: None }
    }

    /// SQLite got that page. `first_byte` is the page's: it tells b-tree pages apart.
    #[inline]
    pub fn passed(&mut self, page: u32, first_byte: u8) {
        // Leaves of tables come by most often.
        if first_byte & LEAF != 0 {
            if first_byte == node::INDEX_LEAF {
                self.passed.index_leaf(page);
            }
        } else if first_byte == node::TABLE_INTERIOR || first_byte == node::INDEX_INTERIOR {
            self.passed.interior(page);
        }
    }

    /// SQLite got an interior page.
    #[inline]
    pub fn passed_interior(&mut self, page: u32) {
        self.passed.interior(page);
    }

    /// A page has to be read, or was read ahead and is used for the first time. To be called before it is read;
    /// `pages` is the length of the file. Adds the pages to read ahead, in the order in which they will be wanted.
    pub fn wanted(&mut self, page: u32, pages: u32, memory: &dyn Memory, ahead: &mut Vec<u32>) {
        self.passed.wanted = self.passed.wanted.saturating_add(1);
        let Config { usable_bytes, memory_pages, sweeps, system_leads } = self.config;
        let longest = (memory_pages / 8).clamp(stream::FIRST_WINDOW, LONGEST_WINDOW);
        let (usable, now, time) = (
            usable_bytes as usize,
            self.passed.wanted,
            self.began.get_or_insert_with(Instant::now).elapsed(),
        );
        let view = View { memory, pages, usable, memory_pages, longest, now, sweeps, system_leads, time };
        let begin = ahead.len();
        self.mind.get_or_insert_default().wanted(page, &mut self.passed, &view, ahead);
        let mut place = begin;
        while place < ahead.len() {
            if ahead[place] == page || !view.is_inside(ahead[place]) {
                ahead.remove(place);
            } else {
                place += 1;
            }
        }
    }

    /// Pages that the system should be asked for into its own cache, beside those: to be called until there are none.
    pub fn sweep(&mut self, pages: u32) -> Option<Range<u32>> {
        self.mind.as_mut()?.sweep.next(pages)
    }
}

#[cfg(test)]
mod tests;
