//! One pass over pages by all workers.

use super::{Extents, Pages, Result};
use crate::task::Workers;

/// Parts per worker: so many that a slow part delays the others little, and so few that each is a long sequential run.
const PARTS_PER_WORKER: u64 = 8;

/// Folds all pages, each part of the sequence into a value of its own, and merges the values in the order of
/// the parts.
pub(super) fn fold<P: Pages, T: Send>(
    workers: &Workers,
    pages: &P,
    extents: &Extents,
    start: impl Fn() -> T + Sync,
    step: impl Fn(&mut T, &[u8]) + Sync,
    mut merge: impl FnMut(&mut T, T),
) -> Result<T> {
    let parts = (workers.threads() as u64 * PARTS_PER_WORKER).min(extents.len());
    let part_of = |part: u64| extents.len() * part / parts.max(1);
    let folded: Vec<Result<T>> = workers.each(parts as usize, |part| {
        let part = part as u64;
        let mut value = start();
        for place in part_of(part)..part_of(part + 1) {
            if let Some(page) = extents.get(place) {
                step(&mut value, &pages.page(page)?);
            }
        }
        Ok(value)
    })?;
    let mut total = start();
    for value in folded {
        merge(&mut total, value?);
    }
    Ok(total)
}
