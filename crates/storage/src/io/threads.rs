//! Positioned reads and writes through the file, on a thread.

use super::Counters;
use super::lane::Lane;

/// Works until the lane is closed and empty.
pub(super) fn run(lane: &Lane, counters: &Counters) {
    while let Some(mut batch) = lane.next() {
        let result = batch.perform(0);
        batch.answer(result, counters);
    }
}
