//! Group by: how often each byte value occurs (SMILE, algorithm 3).

use super::parallel::fold;
use super::{Extents, Pages, Result};
use crate::task::Workers;

/// Occurrences of each byte value.
pub type Groups = [u64; 256];

/// Tables counted side by side, so that a run of one value does not wait for its own counter.
const TABLES: usize = 4;

/// Counts the bytes of all pages by value.
///
/// # Errors
/// Errors of the pages and of the workers.
pub fn group_by<P: Pages>(workers: &Workers, pages: &P, extents: &Extents) -> Result<Groups> {
    let add = |total: &mut Groups, part: Groups| {
        total.iter_mut().zip(part).for_each(|(total, count)| *total += count);
    };
    let step = |groups: &mut Groups, page: &[u8]| {
        let mut tables = [[0u64; 256]; TABLES];
        for (place, byte) in page.iter().enumerate() {
            tables[place % TABLES][usize::from(*byte)] += 1;
        }
        tables.into_iter().for_each(|table| add(groups, table));
    };
    fold(workers, pages, extents, || [0; 256], step, add)
}
