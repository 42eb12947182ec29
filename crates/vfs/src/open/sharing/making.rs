//! Making: a visitor waits for the statements by which this process makes the database.
//!
//! # Why
//! Programs ask if there is a schema, and then make it by several transactions. A visitor that came in between would find half of it.
//!
//! # Promises
//! 1. A visitor waits for a pause of [`PAUSE`] between two transactions, and for [`YIELD_AFTER`] at most.
//! 2. A database is new for [`IS_NEW_FOR`], and for [`IS_NEW_FOR_COMMITS`] commits. Later visitors wait for no pause.

use super::YIELD_AFTER;
use std::time::{Duration, Instant};

const IS_NEW_FOR: Duration = Duration::from_secs(1);
const IS_NEW_FOR_COMMITS: u64 = 16;
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// A database that may be new.
#[derive(Default)]
pub(super) struct Making {
    /// When this process has found the file empty.
    found_empty: Option<Instant>,
    /// Until when the visitor waits for the next statement.
    until: Option<Instant>,
}

impl Making {
    /// This process has found the file empty.
    pub(super) fn begin(&mut self, now: Instant) {
        self.found_empty = Some(now);
    }

    /// A visitor waits since `asked`; so many commits were made before.
    pub(super) fn meet(&mut self, asked: Option<Instant>, commits: u64, now: Instant) {
        self.found_empty = self.found_empty.filter(|_| commits <= IS_NEW_FOR_COMMITS);
        self.await_next(asked, now);
    }

    /// A transaction has ended, while a visitor waits since `asked`.
    pub(super) fn note_end(&mut self, asked: Option<Instant>, now: Instant) {
        if self.until.is_some() {
            self.await_next(asked, now);
        }
    }

    fn await_next(&mut self, asked: Option<Instant>, now: Instant) {
        let is_new = self.found_empty.is_some_and(|begun| now < begun + IS_NEW_FOR);
        self.until = asked.filter(|_| is_new).map(|asked| (asked + YIELD_AFTER).min(now + PAUSE));
    }

    /// The visitor was let in, or has left.
    pub(super) fn settle(&mut self) {
        self.until = None;
    }

    /// True while the visitor waits for the next statement.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::sharing::Change;

    #[test]
    fn a_visitor_waits_for_the_statements_that_make_a_database_and_not_for_ever() {
        let (begin, mut change) = (Instant::now(), Change::default());
        let ms = |ms| begin + Duration::from_millis(ms);
        change.asked = Some(begin);
        change.making.meet(change.asked, 0, ms(0));
        assert!(!change.making.goes_on(ms(0)), "it was there before");
        change.making.begin(begin);
        change.making.meet(change.asked, IS_NEW_FOR_COMMITS, ms(0));
        assert!(change.making.goes_on(ms(9)) && !change.making.goes_on(ms(10)));
        assert_eq!(change.awaited_until(), None, "its statements go on");
        for at in (5..245).step_by(5) {
            change.making.note_end(change.asked, ms(at));
            assert!(change.making.goes_on(ms(at + 9).min(ms(249))));
        }
        change.making.note_end(change.asked, ms(249));
        assert!(!change.making.goes_on(ms(250)), "the visitor has waited for long enough");
        change.making.settle();
        change.asked = Some(ms(1_000));
        change.making.meet(change.asked, 0, ms(1_000));
        assert!(!change.making.goes_on(ms(1_000)), "it is not new any more");
        change.making.begin(ms(1_000));
        change.making.meet(change.asked, IS_NEW_FOR_COMMITS + 1, ms(1_000));
        assert!(!change.making.goes_on(ms(1_000)), "it has many commits");
    }
}
