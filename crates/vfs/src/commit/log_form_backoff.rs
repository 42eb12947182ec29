//! Log form backoff: after a transaction that had to be logged as pages, the next ones are, too.
//!
//! # Why
//! A transaction is logged as statements or as pages. Each change from statements to pages materializes the commit log, which
//! costs two syncs. An application that mixes both kinds is served better by pages alone.
//!
//! # Promises
//! 1. Each change to pages doubles the number of transactions that follow as pages: 0, 1, 2, 4, up to 256.
//! 2. The number returns to 0 after more than 64 transactions as statements without a change.

/// Largest number of transactions that are logged as pages by choice.
const MAX_BACKOFF: u32 = 256;
/// Transactions logged as statements after which the backoff is reset.
const STATEMENTS_TO_RESET: u32 = 64;

/// Decides which form a transaction gets that could have both.
#[derive(Default)]
pub(crate) struct LogFormBackoff {
    /// Transactions to be logged as pages after the next change to pages.
    next: u32,
    /// Transactions still to be logged as pages.
    left: u32,
    /// Transactions logged as statements since the last change.
    statements_in_a_row: u32,
}

impl LogFormBackoff {
    /// A transaction had to be logged as pages, behind statements.
    pub fn note_pages(&mut self) {
        self.left = self.next;
        self.next = (self.next * 2).clamp(1, MAX_BACKOFF);
        self.statements_in_a_row = 0;
    }

    /// True when the next transaction is to be logged as pages, and counts that transaction.
    pub fn prefers_pages(&mut self) -> bool {
        let pages = self.left > 0;
        self.left -= u32::from(pages);
        self.statements_in_a_row += u32::from(!pages);
        if self.statements_in_a_row > STATEMENTS_TO_RESET {
            self.next = 0;
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the next transactions are logged as pages, before one that is logged as statements.
    fn pages_in_a_row(backoff: &mut LogFormBackoff) -> u32 {
        (0..).find(|_| !backoff.prefers_pages()).unwrap()
    }

    #[test]
    fn each_change_doubles_the_pages_that_follow() {
        let mut backoff = LogFormBackoff::default();
        assert_eq!(pages_in_a_row(&mut backoff), 0);
        for expected in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            backoff.note_pages();
            assert_eq!(pages_in_a_row(&mut backoff), expected);
        }
    }

    #[test]
    fn many_statements_reset_the_backoff() {
        for (statements, expected) in [(STATEMENTS_TO_RESET, 2), (STATEMENTS_TO_RESET + 1, 0)] {
            let mut backoff = LogFormBackoff::default();
            (0..2).for_each(|_| backoff.note_pages());
            assert_eq!(backoff.left, 1);
            assert!(backoff.prefers_pages());
            (0..statements).for_each(|_| assert!(!backoff.prefers_pages()));
            backoff.note_pages();
            assert_eq!(pages_in_a_row(&mut backoff), expected, "{statements} statements");
        }
    }
}
