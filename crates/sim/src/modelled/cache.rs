//! The operating system's page cache of one file, as far as it decides what reaches the device.
//!
//! A write marks cache lines of pages; what reaches the device, and when, is decided by the next sync. A
//! page that was written or read once is not read from the device again.
//!
//! # Invariants
//! 1. A dirty page is mapped (has its place on the device) or makes the next sync write metadata.
//! 2. No page at or beyond the end of the file is dirty, cached or mapped after the file was cut.

use super::table::{LINE_BYTES, PAGE_BYTES};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The cached state of one file.
#[derive(Debug, Default)]
pub(super) struct CachedFile {
    len: u64,
    /// Pages that need not be read from the device.
    cached: HashSet<u64>,
    /// Pages that have a written place on the device, or get one with the metadata that is pending.
    mapped: HashSet<u64>,
    /// Dirty pages, and in each a bit for every dirty line.
    dirty: BTreeMap<u64, u64>,
    /// True if the length or the place of a page has changed since the last sync.
    metadata: bool,
}

/// The bytes that a sync writes: ranges, ascending and apart from each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Writeback {
    /// In whole pages, for devices that know nothing smaller.
    pub pages: Vec<Range<u64>>,
    /// In cache lines.
    pub lines: Vec<Range<u64>>,
    /// True if the file system's own records must be written too.
    pub metadata: bool,
}

impl CachedFile {
    /// A file that has `len` bytes on the device and none in the cache.
    pub fn new(len: u64) -> CachedFile {
        CachedFile { len, mapped: pages_of(0..len).collect(), ..CachedFile::default() }
    }

    /// Reads a range; returns the byte ranges that come from the device.
    pub fn read(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        for page in pages_of(range.start..range.end.min(self.len)) {
            if self.cached.insert(page) && self.mapped.contains(&page) {
                push(&mut missing, page * PAGE_BYTES..(page + 1) * PAGE_BYTES);
            }
        }
        missing
    }

    /// Writes a range.
    pub fn write(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.metadata |= range.end > self.len;
        self.len = self.len.max(range.end);
        for page in pages_of(range.clone()) {
            self.metadata |= self.mapped.insert(page);
            self.cached.insert(page);
            *self.dirty.entry(page).or_default() |= lines_in(page, &range);
        }
    }

    /// Cuts or extends the file. New space has no place on the device until it is written.
    pub fn set_len(&mut self, len: u64) {
        self.metadata |= len != self.len;
        self.len = len;
        let end = len.div_ceil(PAGE_BYTES);
        self.cached.retain(|page| *page < end);
        self.mapped.retain(|page| *page < end);
        self.dirty.split_off(&end);
    }

    /// Reserves space. It has no place on the device until it is written.
    pub fn allocate(&mut self, len: u64) {
        if len > self.len {
            self.set_len(len);
        }
    }

    /// Takes everything that a sync must write.
    pub fn take_all(&mut self) -> Writeback {
        let dirty = std::mem::take(&mut self.dirty);
        self.writeback(dirty)
    }

    /// Takes what making one range durable must write.
    pub fn take(&mut self, range: Range<u64>) -> Writeback {
        let dirty =
            pages_of(range).filter_map(|page| self.dirty.remove(&page).map(|lines| (page, lines))).collect();
        self.writeback(dirty)
    }

    fn writeback(&mut self, dirty: BTreeMap<u64, u64>) -> Writeback {
        let mut out = Writeback { metadata: std::mem::take(&mut self.metadata), ..Writeback::default() };
        for (page, lines) in dirty {
            let start = page * PAGE_BYTES;
            push(&mut out.pages, start..start + PAGE_BYTES);
            for line in (0..PAGE_BYTES / LINE_BYTES).filter(|line| lines >> line & 1 == 1) {
                push(&mut out.lines, start + line * LINE_BYTES..start + (line + 1) * LINE_BYTES);
            }
        }
        out
    }
}

/// The numbers of the pages that a byte range touches.
fn pages_of(range: Range<u64>) -> Range<u64> {
    if range.is_empty() { 0..0 } else { range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) }
}

/// The lines of a page that a byte range touches, one bit each; it touches at least one.
fn lines_in(page: u64, range: &Range<u64>) -> u64 {
    let start = page * PAGE_BYTES;
    let first = range.start.saturating_sub(start) / LINE_BYTES;
    let last = (range.end.min(start + PAGE_BYTES) - 1 - start) / LINE_BYTES;
    (u64::MAX >> (63 - (last - first))) << first
}

/// Adds a range behind the others, joined to the last one where it goes on from there.
fn push(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_page() {
        for (page, range, lines) in [
            (0, 0..1, 1),
            (0, 63..65, 0b11),
            (0, 64..128, 0b10),
            (0, 0..4096, u64::MAX),
            (1, 0..4097, 1),
            (0, 4095..5000, 1 << 63),
            (1, 4095..12_000, u64::MAX),
        ] {
            assert_eq!(lines_in(page, &range), lines, "{page} {range:?}");
        }
    }

    #[test]
    fn writes_are_joined_until_the_sync() {
        let mut file = CachedFile::new(16_384);
        file.write(100..400);
        file.write(200..300);
        file.write(4096..4097);
        file.write(12_288..12_352);
        let written = file.take_all();
        assert_eq!(written.pages, [0..8192, 12_288..16_384]);
        assert_eq!(written.lines, [64..448, 4096..4160, 12_288..12_352]);
        assert!(!written.metadata);
        assert_eq!(file.take_all(), Writeback::default());
    }

    #[test]
    fn a_durable_write_leaves_other_pages_for_later() {
        let mut file = CachedFile::new(16_384);
        file.write(0..10);
        file.write(8192..8292);
        assert_eq!(file.take(8192..8292).pages, std::slice::from_ref(&(8192..12_288)));
        assert_eq!(file.take_all().pages, std::slice::from_ref(&(0..4096)));
    }

    #[test]
    fn metadata_is_written_when_length_or_place_changed() {
        type Step = fn(&mut CachedFile);
        let cases: [(&str, Step, bool); 9] = [
            ("in place", |file| file.write(0..8192), false),
            ("appended, same page", |file| file.write(9000..9100), true),
            ("appended", |file| file.write(9000..20_000), true),
            ("cut", |file| file.set_len(0), true),
            ("same length", |file| file.set_len(9000), false),
            ("reserved", |file| file.allocate(20_000), true),
            ("reserved what is there", |file| file.allocate(100), false),
            ("first write into reserved space", reserved_and_written, true),
            (
                "second write into reserved space",
                |file| {
                    reserved_and_written(file);
                    file.take_all();
                    file.write(13_000..13_100);
                },
                false,
            ),
        ];
        for (name, step, metadata) in cases {
            let mut file = CachedFile::new(9000);
            step(&mut file);
            assert_eq!(file.take_all().metadata, metadata, "{name}");
        }
    }

    fn reserved_and_written(file: &mut CachedFile) {
        file.allocate(20_000);
        file.take_all();
        file.write(13_000..13_100);
    }

    #[test]
    fn pages_are_read_from_the_device_once() {
        let mut file = CachedFile::new(16_384);
        file.write(4096..8192);
        assert_eq!(file.read(0..100_000), [0..4096, 8192..16_384]);
        assert!(file.read(0..16_384).is_empty());
        file.set_len(4096);
        file.set_len(8192);
        assert!(file.read(0..8192).is_empty(), "a hole is not read");
        assert!(file.take_all().pages.is_empty(), "what was cut off is not written");
    }
}
