//! The ranges of bytes in which a page differs from another.
//!
//! Most of a changed page is as before. So pages are compared in blocks first, then in words. A range ends where a whole
//! word is equal: fewer equal bytes cost less than another range.

use super::varint::{self, Reader};

const WORD_BYTES: usize = 8;
const BLOCK_BYTES: usize = 64;

/// Appends the ranges in which `after` differs from `before`. Both have the same length, a multiple of a block.
pub fn encode(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    let mut written = 0;
    let mut at = 0;
    while let Some(start) = first_difference(before, after, at) {
        let mut end = start;
        at = start - start % WORD_BYTES;
        while let Some(difference) = difference(before, after, at).filter(|difference| *difference != 0) {
            at += WORD_BYTES;
            end = at - difference.leading_zeros() as usize / 8;
        }
        varint::put(out, (start - written) as u32);
        varint::put(out, (end - start) as u32);
        out.extend_from_slice(&after[start..end]);
        written = end;
    }
}

/// Changes the bytes of `page` that `ranges` has; none if they lead outside.
pub fn apply(ranges: &[u8], page: &mut [u8]) -> Option<()> {
    let mut ranges = Ranges { rest: Reader(ranges), at: 0 };
    while !ranges.rest.0.is_empty() {
        let (start, bytes) = ranges.next_range()?;
        page.get_mut(start..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    }
    Some(())
}

/// True if all of `ranges` lie in a page of so many bytes.
pub fn fit(ranges: &[u8], page_bytes: usize) -> bool {
    let mut ranges = Ranges { rest: Reader(ranges), at: 0 };
    while !ranges.rest.0.is_empty() {
        if ranges.next_range().is_none() || ranges.at > page_bytes as u64 {
            return false;
        }
    }
    true
}

struct Ranges<'a> {
    rest: Reader<'a>,
    /// The end of the last range.
    at: u64,
}

impl<'a> Ranges<'a> {
    fn next_range(&mut self) -> Option<(usize, &'a [u8])> {
        let start = self.at + u64::from(self.rest.varint()?);
        let length = self.rest.varint().filter(|length| *length > 0)?;
        self.at = start + u64::from(length);
        Some((usize::try_from(start).ok()?, self.rest.bytes(length)?))
    }
}

/// The first byte at or behind `at`, which begins a word, in which the pages differ.
fn first_difference(before: &[u8], after: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let block = at..at + BLOCK_BYTES;
        match (before.get(block.clone()), after.get(block)) {
            (Some(old), Some(new)) if old == new => at += BLOCK_BYTES,
            _ => break,
        }
    }
    loop {
        match difference(before, after, at)? {
            0 => at += WORD_BYTES,
            difference => return Some(at + difference.trailing_zeros() as usize / 8),
        }
    }
}

/// The bits in which the words at `at` differ; none at the end of the pages.
fn difference(before: &[u8], after: &[u8], at: usize) -> Option<u64> {
    let word = |page: &[u8]| page.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    Some(word(before)? ^ word(after)?)
}
