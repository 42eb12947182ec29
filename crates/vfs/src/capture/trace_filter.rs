//! The trace filter: what SQLite is asked to tell of, less where there is nothing to capture.
//!
//! # Why
//! The event at a statement's end costs every statement the time, twice. Without a write-ahead log nothing is captured, and
//! a connection that has read for long will mostly read on: both are subscribed to starts only.
//!
//! # How it stays true
//! - The hook is changed only where SQLite has just called it: there it is ours. An application may take it at any time,
//!   and it is never taken back.
//! - While a connection is subscribed to starts, its open transaction is lost: nothing is captured, and a cause is set. A
//!   commit is written as pages, told or not. No statement counts as silent.
//! - With a log, a statement that starts and is not a query restores the whole subscription before it runs. Its own end is
//!   not told, since SQLite notes the time when a statement starts; so it is not captured. A deferred BEGIN is: it touches
//!   no page, and the first statement that writes looks for others that did.
//! - Which statements were left open meanwhile is not known. Until SQLite was asked, and none was, no statement is alone.
//! - The presence of a log, and its number, are part of each look at a starting statement.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::capture::statement_text::can_only_select;

/// Statements without a log after which the subscription shrinks; and queries with a log, after a statement that only reads
/// has restored the subscription.
pub(super) const FEW: u32 = 16;

/// Number of no log: SQLite tells of everything.
const ALL: u64 = u64::MAX;

/// The events that SQLite is to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// Statements that start and that end.
    All,
    /// Statements that start.
    Starts,
}

/// State of a connection's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterState {
    /// Subscribed to all.
    All,
    /// Subscribed to starts: the database has no log.
    WithoutLog,
    /// Subscribed to starts: the connection reads, and this is the number of the log.
    Reader(u64),
}

/// Action of the filter when a statement starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterAction {
    /// Note the statement.
    Note,
    /// Nothing.
    Skip,
    /// Subscribe to starts, and nothing else.
    SubscribeToStarts,
    /// Subscribe to all; `had_log` says that the connection was a reader.
    SubscribeToAll {
        /// True if a log was in use before.
        had_log: bool,
    },
}

/// True for the number of a log, false for that of the want of one.
pub(super) fn is_log(generation: u64) -> bool {
    generation & 1 == 1
}

/// The next state when a statement starts, and what is to be done. `is_reader` says that the connection has read for long and
/// goes on; `is_harmless` that the statement changes nothing that matters to a reader. Each is asked only where it counts.
pub(super) fn on_start(
    state: FilterState,
    generation: u64,
    starts_without_log: u32,
    is_reader: impl FnOnce() -> bool,
    is_harmless: impl FnOnce() -> bool,
) -> (FilterState, FilterAction) {
    let has_log = is_log(generation);
    match state {
        FilterState::All if has_log && is_reader() => {
            (FilterState::Reader(generation), FilterAction::SubscribeToStarts)
        }
        FilterState::All if !has_log && starts_without_log > FEW => {
            (FilterState::WithoutLog, FilterAction::SubscribeToStarts)
        }
        FilterState::All => (FilterState::All, FilterAction::Note),
        FilterState::WithoutLog if !has_log => (state, FilterAction::Skip),
        FilterState::Reader(log) if log == generation && is_harmless() => (state, FilterAction::Skip),
        FilterState::WithoutLog => (FilterState::All, FilterAction::SubscribeToAll { had_log: false }),
        FilterState::Reader(_) => (FilterState::All, FilterAction::SubscribeToAll { had_log: true }),
    }
}

/// The trace filter of one connection. Only the thread that uses the connection changes it.
pub(super) struct TraceFilter {
    /// The number of the log, or of the want of one, that a subscription to starts is for; else [`ALL`].
    starts_for: AtomicU64,
    /// Statements that started since the database has no log.
    without_log: AtomicU32,
    /// Queries that started since a statement that could write.
    queries: AtomicU32,
    /// True while statements may be open that were not told.
    is_unsure: AtomicBool,
    /// True while the open transaction is lost because a reader writes.
    has_cost: AtomicBool,
}

impl Default for TraceFilter {
    fn default() -> TraceFilter {
        TraceFilter {
            starts_for: AtomicU64::new(ALL),
            without_log: AtomicU32::new(0),
            queries: AtomicU32::new(0),
            is_unsure: AtomicBool::new(false),
            has_cost: AtomicBool::new(false),
        }
    }
}

impl TraceFilter {
    /// The state.
    pub fn state(&self) -> FilterState {
        match self.starts_for.load(Ordering::Relaxed) {
            ALL => FilterState::All,
            log if is_log(log) => FilterState::Reader(log),
            _ => FilterState::WithoutLog,
        }
    }

    /// Enters a state, at this number of the log.
    pub fn set_state(&self, state: FilterState, generation: u64) {
        let starts_for = if state == FilterState::All { ALL } else { generation };
        self.starts_for.store(starts_for, Ordering::Relaxed);
    }

    /// True if a starting statement is one of those that a subscription to starts skips, by its first letters.
    ///
    /// # Safety
    /// `sql` is a text that ends with a zero.
    #[inline]
    pub unsafe fn skips(&self, generation: u64, sql: *const u8) -> bool {
        // SAFETY: by contract.
        self.starts_for.load(Ordering::Relaxed) == generation
            && (!is_log(generation) || unsafe { can_only_select(sql) })
    }

    /// True while SQLite tells of ends.
    #[inline]
    pub fn is_subscribed_to_all(&self) -> bool {
        self.starts_for.load(Ordering::Relaxed) == ALL
    }

    /// Restores the counters with the whole subscription: a statement that only reads leaves `queries` of its row.
    pub fn restart(&self, queries: u32) {
        self.without_log.store(0, Ordering::Relaxed);
        self.queries.store(queries, Ordering::Relaxed);
        self.is_unsure.store(true, Ordering::Relaxed);
    }

    /// Counts a query whose end is told; whether so many are not yet a reader's.
    #[inline]
    pub fn count_query(&self, reader_queries: u32) -> bool {
        let queries = self.queries.load(Ordering::Relaxed);
        self.queries.store(queries.saturating_add(1), Ordering::Relaxed);
        queries < reader_queries
    }

    /// True once the connection has read for so long.
    pub fn has_counted(&self, reader_queries: u32) -> bool {
        self.queries.load(Ordering::Relaxed) >= reader_queries
    }

    /// A statement starts that may write.
    pub fn note_writer(&self) {
        self.queries.store(0, Ordering::Relaxed);
    }

    /// Statements that started since the database has no log.
    pub fn starts_without_log(&self) -> u32 {
        self.without_log.load(Ordering::Relaxed)
    }

    /// True if the last statement started without a log.
    #[inline]
    pub fn is_without_log(&self) -> bool {
        self.starts_without_log() > 0
    }

    /// A statement starts without a log.
    pub fn count_without_log(&self) {
        self.without_log.fetch_add(1, Ordering::Relaxed);
    }

    /// A statement starts with a log.
    #[inline]
    pub fn note_log(&self) {
        if self.is_without_log() {
            self.without_log.store(0, Ordering::Relaxed);
        }
    }

    /// Sets whether the transaction that is lost now counts as the cost of a smaller subscription.
    pub fn set_cost(&self, has_cost: bool) {
        self.has_cost.store(has_cost, Ordering::Relaxed);
    }

    /// True if the transaction that commits as pages is the cost of a smaller subscription; counted once.
    pub fn take_cost(&self) -> bool {
        self.has_cost.swap(false, Ordering::Relaxed)
    }

    /// True while statements may be open that were not told.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure.load(Ordering::Relaxed)
    }

    /// SQLite was asked for open statements.
    pub fn set_unsure(&self, is_unsure: bool) {
        self.is_unsure.store(is_unsure, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::FilterAction::*;
    use super::FilterState::{Reader, WithoutLog};
    use super::*;

    #[test]
    fn every_state_answers_every_start() {
        const LOG: u64 = 7;
        const OTHER_LOG: u64 = 9;
        const NO_LOG: u64 = 8;
        // State; number of the log; starts without one; a reader; a harmless statement.
        for (state, generation, starts, reader, harmless, next, action) in [
            (FilterState::All, LOG, 0, false, true, FilterState::All, Note),
            (FilterState::All, LOG, FEW + 1, false, true, FilterState::All, Note),
            (FilterState::All, LOG, 0, true, true, Reader(LOG), SubscribeToStarts),
            (FilterState::All, NO_LOG, 0, true, true, FilterState::All, Note),
            (FilterState::All, NO_LOG, FEW, true, true, FilterState::All, Note),
            (FilterState::All, NO_LOG, FEW + 1, false, false, WithoutLog, SubscribeToStarts),
            (WithoutLog, NO_LOG, 0, false, false, WithoutLog, Skip),
            (WithoutLog, LOG, 0, true, true, FilterState::All, SubscribeToAll { had_log: false }),
            (Reader(LOG), LOG, 0, false, true, Reader(LOG), Skip),
            (Reader(LOG), LOG, 0, true, false, FilterState::All, SubscribeToAll { had_log: true }),
            (Reader(LOG), OTHER_LOG, 0, true, true, FilterState::All, SubscribeToAll { had_log: true }),
            (Reader(LOG), NO_LOG, 0, true, true, FilterState::All, SubscribeToAll { had_log: true }),
        ] {
            let found = on_start(state, generation, starts, || reader, || harmless);
            assert_eq!(found, (next, action), "{state:?} {generation} {starts} {reader} {harmless}");
            let filter = TraceFilter::default();
            filter.set_state(found.0, generation);
            assert_eq!(filter.state(), found.0, "the word keeps the state");
            assert_eq!(filter.is_subscribed_to_all(), found.0 == FilterState::All);
        }
    }

    #[test]
    fn a_smaller_subscription_skips_by_the_first_letters() {
        for (state, number, generation, sql, skips) in [
            (FilterState::All, 7, 7, c"SELECT 1", false),
            (Reader(7), 7, 7, c"SELECT 1", true),
            (Reader(7), 7, 7, c"select 1", true),
            (Reader(7), 7, 7, c"INSERT INTO t VALUES(1)", false),
            (Reader(7), 7, 9, c"SELECT 1", false),
            (Reader(7), 7, 8, c"SELECT 1", false),
            (WithoutLog, 8, 8, c"INSERT INTO t VALUES(1)", true),
            (WithoutLog, 8, 9, c"SELECT 1", false),
            (WithoutLog, 8, 10, c"SELECT 1", false),
        ] {
            let filter = TraceFilter::default();
            filter.set_state(state, number);
            // SAFETY: the text ends with a zero.
            assert_eq!(unsafe { filter.skips(generation, sql.as_ptr().cast()) }, skips, "{state:?} {sql:?}");
        }
    }

    #[test]
    fn queries_in_a_row_make_a_reader() {
        let filter = TraceFilter::default();
        let counted = |times: u32| (0..times).filter(|_| filter.count_query(10)).count();
        assert_eq!(counted(9), 9);
        assert!(!filter.has_counted(10));
        assert_eq!(counted(5), 1);
        assert!(filter.has_counted(10));
        filter.note_writer();
        assert!(!filter.has_counted(10));
        filter.restart(10);
        assert!(filter.has_counted(10) && filter.is_unsure());
        filter.set_unsure(false);
        assert!(!filter.is_unsure());
    }

    #[test]
    fn starts_without_a_log_are_counted_until_there_is_one_and_a_cost_is_counted_once() {
        let filter = TraceFilter::default();
        assert!(!filter.is_without_log());
        filter.count_without_log();
        filter.count_without_log();
        assert_eq!(filter.starts_without_log(), 2);
        filter.note_log();
        assert!(!filter.is_without_log());
        assert!(!filter.take_cost());
        filter.set_cost(true);
        assert!(filter.take_cost() && !filter.take_cost());
        filter.set_cost(true);
        filter.set_cost(false);
        assert!(!filter.take_cost());
    }
}
