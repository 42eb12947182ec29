//! Hash join of the first sixteenth of the pages with the rest (SMILE, section 5.1.3).
//!
//! A page is a table of rows of two bytes, key and value. As SQL:
//!
//! ```sql
//! SELECT key, count(*), sum(probe.value) FROM build JOIN probe USING (key)
//! WHERE key % 2 = 0 GROUP BY key
//! ```
//!
//! The thesis' program built its table from all pages; this one from the build side, as its text says.

use super::parallel::fold;
use super::{Extents, Pages, Result};
use crate::task::Workers;
use std::collections::{BTreeMap, HashMap};

/// The build side is one page in so many.
const BUILD_SHARE: u64 = 16;

/// One key of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// Pairs of rows with this key.
    pub pairs: u64,
    /// The sum of the probe side's values over all pairs.
    pub sum: u128,
}

/// Rows of a key on the probe side.
#[derive(Clone, Copy, Default)]
struct Probed {
    rows: u64,
    sum: u64,
}

fn rows(page: &[u8]) -> impl Iterator<Item = (u8, u8)> {
    page.chunks_exact(2).map(|row| (row[0], row[1]))
}

/// Joins; keys in order.
///
/// # Errors
/// Errors of the pages and of the workers.
pub fn hash_join<P: Pages>(workers: &Workers, pages: &P, extents: &Extents) -> Result<BTreeMap<u8, Join>> {
    let (build, probe) = extents.split_at(extents.len().div_ceil(BUILD_SHARE));
    let step = |table: &mut HashMap<u8, u64>, page: &[u8]| {
        for (key, _) in rows(page).filter(|(key, _)| key % 2 == 0) {
            *table.entry(key).or_default() += 1;
        }
    };
    let built = fold(workers, pages, &build, HashMap::new, step, |table, part| {
        part.into_iter().for_each(|(key, count)| *table.entry(key).or_default() += count);
    })?;
    let step = |found: &mut HashMap<u8, Probed>, page: &[u8]| {
        for (key, value) in rows(page).filter(|(key, _)| built.contains_key(key)) {
            let probed = found.entry(key).or_default();
            probed.rows += 1;
            probed.sum += u64::from(value);
        }
    };
    let found = fold(workers, pages, &probe, HashMap::new, step, |total, part| {
        for (key, probed) in part {
            let sum = total.entry(key).or_default();
            sum.rows += probed.rows;
            sum.sum += probed.sum;
        }
    })?;
    let joined = found.into_iter().map(|(key, probed)| {
        let count = built.get(&key).copied().unwrap_or(0);
        let join = Join { pairs: count * probed.rows, sum: u128::from(count) * u128::from(probed.sum) };
        (key, join)
    });
    Ok(joined.collect())
}
