//! A page as copies of what both sides know, and the bytes between them.
//!
//! A b-tree page that is split, balanced or defragmented has its old bytes in other places, or in those of its siblings.
//! So copies are taken from the dictionary, which is the old versions of several pages, and from the page's own bytes so
//! far. This is LZ77 with two twists. A source is told as its distance from where the last copy would go on: 0 after a
//! change in place. And the dictionary has as many pages as it needs, not a window of 64 KiB.
//!
//! # Invariants
//! 1. A copy stays within one page of the dictionary, or begins before the place that it goes to.
//! 2. Copies and bytes together have exactly the length of a page.
//!
//! The address of a byte is its offset in the page's own bytes and all pages of the dictionary, one behind the other.
//! The parent module has the bytes.

use super::varint::Reader;

/// Bytes as they are, and the copy behind them.
struct Step<'a> {
    bytes: &'a [u8],
    /// Address and length; none at the page's end.
    copy: Option<(usize, usize)>,
}

/// The steps of an encoded page.
struct Steps<'a> {
    rest: Reader<'a>,
    page_bytes: usize,
    at: usize,
    expected: i64,
}

impl<'a> Steps<'a> {
    fn new(encoded: &'a [u8], slot: usize, page_bytes: usize) -> Steps<'a> {
        Steps { rest: Reader(encoded), page_bytes, at: 0, expected: ((slot + 1) * page_bytes) as i64 }
    }

    /// The next step; none where it leads outside of the page, or of a page of a dictionary of so many.
    fn next_step(&mut self, dictionary: usize) -> Option<Step<'a>> {
        let length = self.rest.varint()?;
        let bytes = self.rest.bytes(length)?;
        self.at = self.at.checked_add(bytes.len()).filter(|at| *at <= self.page_bytes)?;
        if self.at == self.page_bytes {
            return Some(Step { bytes, copy: None });
        }
        let (length, distance) = (self.rest.varint()? as usize, self.rest.varint()?);
        let distance = i64::from(distance >> 1) ^ -i64::from(distance & 1);
        let source = usize::try_from(self.expected + bytes.len() as i64 + distance).ok()?;
        let offset = source % self.page_bytes;
        let is_known = match source / self.page_bytes {
            0 => source < self.at,
            page => page <= dictionary && length <= self.page_bytes - offset,
        };
        if !is_known || length == 0 || length > self.page_bytes - self.at {
            return None;
        }
        self.at += length;
        self.expected = (source + length) as i64;
        Some(Step { bytes, copy: Some((source, length)) })
    }
}

/// True if `encoded` is a page of so many bytes, of a dictionary of so many pages.
pub fn fit(encoded: &[u8], slot: usize, dictionary: usize, page_bytes: usize) -> bool {
    let mut steps = Steps::new(encoded, slot, page_bytes);
    while steps.at < page_bytes {
        if steps.next_step(dictionary).is_none() {
            return false;
        }
    }
    steps.rest.0.is_empty()
}

/// Makes `page` of `encoded`, with the pages of `dictionary` one behind the other; none if it leads outside.
pub fn apply(encoded: &[u8], slot: usize, dictionary: &[u8], page: &mut [u8]) -> Option<()> {
    let page_bytes = page.len();
    let mut steps = Steps::new(encoded, slot, page_bytes);
    let mut at = 0;
    while at < page_bytes {
        let step = steps.next_step(dictionary.len() / page_bytes)?;
        page.get_mut(at..)?.get_mut(..step.bytes.len())?.copy_from_slice(step.bytes);
        at += step.bytes.len();
        let Some((source, length)) = step.copy else { break };
        if source >= page_bytes {
            let from = dictionary.get(source - page_bytes..)?.get(..length)?;
            page.get_mut(at..)?.get_mut(..length)?.copy_from_slice(from);
        } else if source + length <= at {
            page.copy_within(source..source + length, at);
        } else {
            // A copy that overlaps itself repeats what it has copied.
            for byte in 0..length {
                page[at + byte] = page[source + byte];
            }
        }
        at += length;
    }
    Some(())
}
