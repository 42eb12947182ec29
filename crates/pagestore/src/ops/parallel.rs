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
    let nodes = pages.nodes() as u64;
    // Each run of the sequence is one part for each memory node: the pages of the run that lie there.
    let runs = (workers.threads() as u64 * PARTS_PER_WORKER).div_ceil(nodes).min(extents.len());
    let run_of = |run: u64| extents.len() * run / runs.max(1);
    let node_of = |part: usize| (part as u64 % nodes) as usize;
    let folded: Vec<Result<T>> =
        workers.each_near((runs * nodes) as usize, nodes as usize, node_of, |part| {
            let run = part as u64 / nodes;
            let mut value = start();
            for place in run_of(run)..run_of(run + 1) {
                if let Some(page) = extents.get(place).filter(|page| pages.node_of(*page) == node_of(part)) {
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
