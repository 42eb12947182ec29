//! The ranges of bytes in which a page differs from another.
//!
//! Most of a changed page is as before. So pages are compared in blocks first, then in words. A range ends where a whole
//! word is equal: fewer equal bytes cost less than another range.

use super::varint::{self, Reader};

const WORD_BYTES: usize = 8;
/// Bytes that are compared at a time.
pub const BLOCK_BYTES: usize = 64;

/// Bytes that differ, from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// Appends the ranges in which `after` differs from `before`; answers the bytes that they take when they are encoded.
/// Both have the same length, a multiple of a block.
pub fn find(before: &[u8], after: &[u8], spans: &mut Vec<Span>) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        return unsafe { find_with_avx2(before, after, spans) };
    }
    find_anywhere(before, after, spans)
}

/// The same, compiled for vectors of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn find_with_avx2(before: &[u8], after: &[u8], spans: &mut Vec<Span>) -> usize {
    find_anywhere(before, after, spans)
}

#[inline(always)]
fn find_anywhere(before: &[u8], after: &[u8], spans: &mut Vec<Span>) -> usize {
    let first = spans.len();
    // The range that may go on, with the word at `next`, and the bits in which its last word differs.
    let (mut start, mut next, mut last) = (0, u32::MAX, 0_u64);
    let span = |start, next: u32, last: u64| Span { start, end: next - last.leading_zeros() / 8 };
    let blocks = before.as_chunks().0.iter().zip(after.as_chunks().0);
    for ((old, new), block) in blocks.zip((0..).step_by(BLOCK_BYTES)) {
        if is_equal(old, new) {
            continue;
        }
        let words = old.as_chunks::<WORD_BYTES>().0.iter().zip(new.as_chunks::<WORD_BYTES>().0);
        for ((old, new), at) in words.zip((block..).step_by(WORD_BYTES)) {
            let difference = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
            if difference == 0 {
                continue;
            }
            if at != next {
                if last != 0 {
                    spans.push(span(start, next, last));
                }
                start = at + difference.trailing_zeros() / 8;
            }
            (next, last) = (at + WORD_BYTES as u32, difference);
        }
    }
    if last != 0 {
        spans.push(span(start, next, last));
    }
    let mut written = 0;
    let bytes = spans[first..].iter().map(|span| {
        let Span { start, end } = *span;
        let gap = start - std::mem::replace(&mut written, end);
        varint::bytes(gap) + varint::bytes(end - start) + (end - start) as usize
    });
    bytes.sum()
}

/// True if two blocks are equal: without a branch for each word, and so by the processor's vectors.
#[inline(always)]
pub fn is_equal(old: &[u8; BLOCK_BYTES], new: &[u8; BLOCK_BYTES]) -> bool {
    let words = old.as_chunks().0.iter().zip(new.as_chunks().0);
    words.fold(0, |differs, (old, new)| differs | (u64::from_ne_bytes(*old) ^ u64::from_ne_bytes(*new))) == 0
}

/// Appends ranges of `after`.
pub fn encode(spans: &[Span], after: &[u8], out: &mut Vec<u8>) {
    let mut written = 0;
    for Span { start, end } in spans {
        varint::put(out, start - written);
        varint::put(out, end - start);
        out.extend_from_slice(&after[*start as usize..*end as usize]);
        written = *end;
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
