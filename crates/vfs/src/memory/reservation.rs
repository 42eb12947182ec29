//! Memory reservation: memory for bytes that must not be lost, such as a transaction's dirty pages or a log in memory.
//!
//! The memory comes out of the process budget, and pools give way to it. A part of the budget stays with the pools, so that
//! reads go on during a large transaction.

use crate::memory::process_budget::BudgetShare;
use litefoot_storage::budget::Reservation;
use litefoot_storage::reserve;

/// Part of the budget that all reservations together may take; the rest is for the pools.
const SHARE: f64 = 0.75;
/// Unit in which memory is taken from the budget.
const STEP_BYTES: usize = 64 << 10;
/// Bytes that a reservation may have however little is free.
const LEAST_BYTES: usize = 256 << 10;

/// Memory reservation of one transaction, log or file.
pub struct MemoryReservation {
    /// The part of the budget that it has.
    taken: Reservation,
    /// Most bytes, whatever is free; `None` where that depends on the budget.
    fixed: Option<usize>,
    /// Bytes in use.
    bytes: usize,
}

impl MemoryReservation {
    /// Nothing yet, of a database's share.
    pub fn new(share: &BudgetShare) -> MemoryReservation {
        MemoryReservation {
            taken: Reservation::nothing(share.budget().clone()),
            fixed: share.write_bytes(),
            bytes: 0,
        }
    }

    /// At most so many bytes, of a budget of its own.
    #[cfg(test)]
    pub fn fixed(bytes: usize) -> MemoryReservation {
        let budget = std::sync::Arc::new(litefoot_storage::budget::Budget::new(bytes));
        MemoryReservation { taken: Reservation::nothing(budget), fixed: Some(bytes), bytes: 0 }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that may be in use now. They are few where the system is short of memory.
    pub fn most(&self) -> usize {
        limit(self.fixed, || self.taken.most(SHARE), reserve::is_short())
    }

    /// Says how many bytes are in use now.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        set_in_steps(&mut self.taken, bytes);
    }
}

/// The limit of a reservation, by its fixed limit, the budget's free part, and whether the system is short of memory.
#[inline]
fn limit(fixed: Option<usize>, free: impl FnOnce() -> usize, is_short: bool) -> usize {
    let most = fixed.unwrap_or_else(|| free().max(LEAST_BYTES));
    if is_short { most.min(LEAST_BYTES) } else { most }
}

/// Takes bytes from the budget, in steps: few small changes reach the budget.
pub(super) fn set_in_steps(taken: &mut Reservation, bytes: usize) {
    let counted = bytes.next_multiple_of(STEP_BYTES);
    if counted != taken.bytes() {
        taken.set(counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_has_a_limit_whatever_is_free() {
        const MANY: usize = 8 << 20;
        // (fixed limit, free bytes, short of memory, limit)
        for (fixed, free, is_short, most) in [
            (None, MANY, false, MANY),
            (None, 0, false, LEAST_BYTES),
            (None, MANY, true, LEAST_BYTES),
            (Some(MANY), 0, false, MANY),
            (Some(MANY), 0, true, LEAST_BYTES),
            (Some(5), MANY, false, 5),
            (Some(5), MANY, true, 5),
        ] {
            assert_eq!(limit(fixed, || free, is_short), most, "{fixed:?} {free} {is_short}");
        }
    }

    #[test]
    fn memory_is_taken_in_steps_and_given_back() {
        let mut reservation = MemoryReservation::fixed(1 << 20);
        for (bytes, taken) in
            [(0, 0), (1, STEP_BYTES), (STEP_BYTES, STEP_BYTES), (STEP_BYTES + 1, 2 * STEP_BYTES), (0, 0)]
        {
            reservation.set(bytes);
            assert_eq!((reservation.bytes(), reservation.taken.bytes()), (bytes, taken));
        }
    }
}
