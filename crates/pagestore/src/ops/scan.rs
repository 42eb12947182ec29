//! Sequential scans: every page, every 32-bit little-endian integer.

use super::parallel::fold;
use super::{Extents, Pages, Result};
use crate::task::Workers;
use std::ops::RangeInclusive;

/// The integers of a page; bytes behind the last whole one are no integer.
fn integers(page: &[u8]) -> impl Iterator<Item = u32> {
    page.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Counts the integers above a threshold (SMILE, algorithm 2).
///
/// # Errors
/// Errors of the pages and of the workers.
pub fn scan<P: Pages>(workers: &Workers, pages: &P, extents: &Extents, threshold: u32) -> Result<u64> {
    let step = |count: &mut u64, page: &[u8]| *count += above(page, threshold);
    fold(workers, pages, extents, || 0, step, |total, part| *total += part)
}

/// The integers of one page above a threshold: the scan's inner loop, for comparison with flat memory.
pub fn above(page: &[u8], threshold: u32) -> u64 {
    // Partial sums that fit 32 bits let the compiler count in vectors.
    page.chunks(1 << 20)
        .map(|chunk| u64::from(integers(chunk).map(|value| u32::from(value > threshold)).sum::<u32>()))
        .sum()
}

/// The figures of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Integers in the range.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest.
    pub min: Option<u32>,
    /// The largest.
    pub max: Option<u32>,
}

/// Finds the integers in a range, and what they come to.
///
/// # Errors
/// Errors of the pages and of the workers.
pub fn filter<P: Pages>(
    workers: &Workers,
    pages: &P,
    extents: &Extents,
    range: RangeInclusive<u32>,
) -> Result<Filtered> {
    let step = |found: &mut Filtered, page: &[u8]| {
        for value in integers(page).filter(|value| range.contains(value)) {
            found.count += 1;
            found.sum += u64::from(value);
            found.min = Some(found.min.map_or(value, |min| min.min(value)));
            found.max = found.max.max(Some(value));
        }
    };
    fold(workers, pages, extents, Filtered::default, step, |total, part| {
        total.count += part.count;
        total.sum += part.sum;
        total.min = total.min.into_iter().chain(part.min).min();
        total.max = total.max.max(part.max);
    })
}
