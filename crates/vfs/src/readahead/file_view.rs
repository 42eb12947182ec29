//! File view: the pages in memory, the file and the configuration, for every decision of readahead.

use std::time::Duration;

/// Pages in memory.
pub trait Memory {
    /// Shows all bytes of a page that is in memory; `false` where the page is not. Never reads, and is never nested.
    fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool;

    /// Tells whether a page is in memory or on its way there.
    fn holds(&self, page: u32) -> bool {
        self.with(page, &mut |_| ())
    }
}

/// Settings of readahead; they do not change while a file is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a page that b-trees use: the page size without the reserved bytes at its end.
    pub usable_bytes: u32,
    /// Pages that the memory has room for, for this file.
    pub memory_pages: u32,
    /// Full-file readahead: when the file is read in its own order, into the system's cache.
    pub full_file_mode: FullFileMode,
    /// Set where the system reads ahead far enough by itself as long as pages come in order.
    pub system_reads_ahead: bool,
}

/// Pages of the longest window, however much memory there is.
pub const LONGEST_WINDOW: u32 = 256;

/// The file, at one demanded page.
pub(super) struct FileView<'a> {
    pub memory: &'a dyn Memory,
    /// Pages of the file.
    pub pages: u32,
    /// Bytes of a page that b-trees use.
    pub usable: usize,
    /// Pages that the memory has room for.
    pub memory_pages: u32,
    /// Pages of the longest window, with this memory.
    pub longest: u32,
    /// The clock: pages demanded so far.
    pub now: u32,
    pub full_file_mode: FullFileMode,
    pub system_reads_ahead: bool,
    /// Time since the first demanded page.
    pub time: Duration,
}

impl FileView<'_> {
    /// Tells whether a page may be requested.
    pub fn is_inside(&self, page: u32) -> bool {
        (2..=self.pages).contains(&page)
    }
}

/// Most pages of a stream's first window.
pub(super) const FIRST_WINDOW: u32 = 4;

/// Largest distance of two slots that begin a stream. The slots between them hold pages in memory.
pub(super) const GAP: usize = 4;

/// Full-file readahead: when a file is read in its own order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullFileMode {
    /// Never: reads do not pass the system's cache.
    #[default]
    Never,
    /// Where it pays. Random pages count only in a file of at most so many pages.
    UpTo(u32),
    /// The same, however quickly pages come, for a medium that counts or models.
    Always,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Pages in memory, of zeros.
    pub struct InMemory(pub Vec<u32>);

    impl Memory for InMemory {
        fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool {
            let is_there = self.0.contains(&page);
            if is_there {
                look(&[0; 64]);
            }
            is_there
        }
    }

    /// A file of 1,000 pages.
    pub fn view(memory: &dyn Memory) -> FileView<'_> {
        FileView {
            memory,
            pages: 1000,
            usable: 4096,
            memory_pages: 1000,
            longest: 125,
            now: 0,
            full_file_mode: FullFileMode::Never,
            system_reads_ahead: false,
            time: Duration::ZERO,
        }
    }
}
