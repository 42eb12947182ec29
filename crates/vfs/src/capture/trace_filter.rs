//! What SQLite is asked to tell of: less where there is nothing to capture.
//!
//! # Why
//! To be told of the end of a statement costs every statement the time, twice. Without a write-ahead log nothing is
//! captured, and a connection that has read for long will mostly read on: neither has to be told.
//!
//! # How it stays true
//! - The hook is changed only where SQLite has just called it: there it is ours. An application may take it at any time,
//!   and it is never taken back.
//! - While ends are not told, the transaction that may be open is lost: nothing is captured, and a cause is set. Whatever
//!   commits, told or not, is written as pages. No statement counts as one that shows nothing.
//! - With a log, a statement that starts and is not a query ends the rest, before it runs ([`Capture::wake`]). Its own end
//!   is not told either, since SQLite notes the time when a statement starts; so it is not captured. A BEGIN that only
//!   promises to read is: it touches no page, and whether something else did is asked when the first statement writes.
//! - Which statements were left open meanwhile is not known. Until SQLite was asked, and none was, no statement is alone.
//! - Whether there is a log, and whether it is another, is part of what is looked at when a statement starts.

use crate::capture::{Capture, Kind, State, first_word, is_query, kind_of, may_change_settings};
use crate::ffi::connection::TransactionState;
use crate::ffi::statement::RunningStatement;
use crate::stats::FallbackCause;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Statements without a log after which SQLite is asked for less; and queries with one, after a rest was ended by what
/// only reads.
const FEW: u32 = 16;

/// No generation of logs.
const LOUD: u64 = u64::MAX;

/// How long a writer keeps its turn whose end is not told: until it has the write lock, mostly.
const TURN: Duration = Duration::from_millis(50);

/// What SQLite is to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// Statements that start and that end.
    All,
    /// Statements that start.
    Starts,
}

/// What one connection is asked to tell of.
pub(super) struct Rest {
    /// While the ends of statements are not told, for which log or want of one that is so; else [`LOUD`].
    quiet: AtomicU64,
    /// Statements that started since there is nothing to capture: the database has no write-ahead log.
    logless: AtomicU32,
    /// Queries that started since a statement that could write.
    queries: AtomicU32,
    /// Whether there may be open statements that nothing is known of.
    unsure: AtomicBool,
    /// Whether the transaction is lost by a rest that has ended.
    woken: AtomicBool,
}

impl Default for Rest {
    fn default() -> Rest {
        Rest {
            quiet: AtomicU64::new(LOUD),
            logless: AtomicU32::new(0),
            queries: AtomicU32::new(0),
            unsure: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        }
    }
}

impl Rest {
    /// Whether there was no log when the last statement started.
    pub fn is_logless(&self) -> bool {
        self.logless.load(Ordering::Relaxed) > 0
    }

    /// A statement starts: whether the connection rests, and goes on to.
    ///
    /// # Safety
    /// `sql` is a text that ends with a zero.
    #[inline]
    pub unsafe fn lasts(&self, generation: u64, sql: *const u8) -> bool {
        // SAFETY: by contract.
        self.quiet.load(Ordering::Relaxed) == generation
            && (generation & 1 == 0 || unsafe { can_only_select(sql) })
    }

    /// Whether SQLite tells of ends.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.quiet.load(Ordering::Relaxed) == LOUD
    }

    /// A query starts whose end is told. Whether there were few.
    #[inline]
    pub fn count_query(&self, most: u32) -> bool {
        let queries = self.queries.load(Ordering::Relaxed);
        self.queries.store(queries.saturating_add(1), Ordering::Relaxed);
        queries < most
    }

    /// A statement starts that may write.
    pub fn note_writer(&self) {
        self.queries.store(0, Ordering::Relaxed);
    }

    /// A transaction begins of which everything is told.
    pub fn begin(&self) {
        self.woken.store(false, Ordering::Relaxed);
    }

    /// Whether the transaction that commits was lost by a rest.
    pub fn has_cost(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    /// There may be open statements that nothing is known of.
    pub fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }
}

impl Capture {
    /// A statement starts: what SQLite should tell of from now on, where that changes or stays less than all; then nothing
    /// else is noted of it.
    pub(super) fn rests_or_wakes(
        &self,
        statement: RunningStatement,
        sql: &[u8],
        generation: u64,
    ) -> Option<Option<Subscription>> {
        let (quiet, has_log) = (self.rest.quiet.load(Ordering::Relaxed), generation & 1 == 1);
        if quiet == LOUD {
            let rests = if has_log {
                self.may_rest(statement, sql)
            } else {
                self.rest.logless.load(Ordering::Relaxed) > FEW
            };
            return rests.then(|| {
                self.rest.quiet.store(generation, Ordering::Relaxed);
                Some(Subscription::Starts)
            });
        }
        let sleeps_on = match quiet & 1 {
            // Still no log, or none again.
            0 => !has_log,
            _ => quiet == generation && self.is_slept_through(statement, sql),
        };
        if sleeps_on {
            self.rest.quiet.store(generation, Ordering::Relaxed);
            return Some(None);
        }
        self.wake(statement, sql, quiet & 1 == 1);
        Some(Some(Subscription::All))
    }

    /// A query starts, and it is one of so many that the connection rests.
    fn may_rest(&self, statement: RunningStatement, sql: &[u8]) -> bool {
        let may = self.rest.queries.load(Ordering::Relaxed) >= self.database.queries_before_rest()
            && self.ready.load(Ordering::Relaxed)
            && !self.rest.is_logless()
            && self.quick.load(Ordering::Relaxed) == 0
            && self.owes.load(Ordering::Relaxed) == 0
            && std::str::from_utf8(sql).is_ok_and(is_query)
            && statement.is_read_only();
        if may {
            let mut state = self.state();
            self.lose(&mut state, FallbackCause::Untracked);
            self.note_ready(&mut state);
        }
        may
    }

    /// Whether a statement that starts during a rest changes nothing that matters: a query, in the middle of another one,
    /// too, or the end of a transaction that has only read.
    fn is_slept_through(&self, statement: RunningStatement, sql: &[u8]) -> bool {
        let Ok(sql) = std::str::from_utf8(sql) else { return false };
        // What looks like the text of an inner statement can be a comment in front of another.
        let inner = sql.strip_prefix("-- ").filter(|_| !may_change_settings(first_word(sql))).unwrap_or(sql);
        let is_end = || kind_of(sql, true) == Kind::Boundary && !self.db.is_autocommit();
        statement.is_read_only() && (is_query(inner) || is_end())
    }

    /// From now on everything is told again. The statement that starts is not captured, and neither is the transaction that
    /// it is part of, unless it begins one by a mere promise to read.
    fn wake(&self, statement: RunningStatement, sql: &[u8], had_log: bool) {
        self.rest.quiet.store(LOUD, Ordering::Relaxed);
        self.rest.logless.store(0, Ordering::Relaxed);
        self.rest.unsure.store(true, Ordering::Relaxed);
        let read_only = statement.is_read_only();
        let few = self.database.queries_before_rest().saturating_sub(FEW);
        self.rest.queries.store(if read_only { few } else { 0 }, Ordering::Relaxed);
        let (mut state, fresh) = (self.state(), self.db.is_autocommit());
        self.lose(&mut state, if had_log { FallbackCause::Untracked } else { FallbackCause::Opening });
        state.kind = std::str::from_utf8(sql).map_or(Kind::Write, |sql| kind_of(sql, read_only));
        if had_log && fresh && read_only && state.kind == Kind::Boundary {
            self.begin_fresh(&mut state);
        } else {
            self.rest.woken.store(had_log, Ordering::Relaxed);
        }
        self.note_ready(&mut state);
        drop(state);
        if had_log && !read_only && self.db.transaction() == TransactionState::None {
            // Should it fail before it has the write lock, nobody would hear that its turn is over.
            self.database.writers().enter_for(self.writer, self.database.options().busy_wait, TURN);
        }
    }

    /// Nothing is known of the transaction from here on.
    fn lose(&self, state: &mut State, cause: FallbackCause) {
        self.begin(state);
        state.cause = Some(cause);
        (state.accesses, state.idle, state.alone) = (None, None, None);
        state.open.clear();
        self.shows_nothing.store(false, Ordering::Relaxed);
    }

    /// A statement starts: whether there is nothing to capture, and nothing was left over. Others may make a
    /// write-ahead log, or remove it, at any time between transactions.
    #[inline]
    pub(super) fn is_without_log(&self, has_log: bool) -> bool {
        if !has_log {
            return self.note_without_log();
        }
        if self.rest.is_logless() {
            self.rest.logless.store(0, Ordering::Relaxed);
        }
        false
    }

    fn note_without_log(&self) -> bool {
        if !self.rest.is_logless() {
            let mut state = self.state();
            if !state.open.is_empty() {
                return false;
            }
            self.lose(&mut state, FallbackCause::Opening);
            self.note_ready(&mut state);
        }
        self.rest.logless.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Whether statements may be open that were not told, beside one that starts.
    pub(super) fn may_meet_others(&self, statement: RunningStatement) -> bool {
        self.rest.is_unsure() && {
            let others = self.db.has_open_statement_but(statement);
            self.rest.unsure.store(others, Ordering::Relaxed);
            others
        }
    }
}

/// Whether a statement that was compiled is a query by its first letters: no other begins with them.
///
/// # Safety
/// `sql` is a text that ends with a zero.
#[inline]
unsafe fn can_only_select(sql: *const u8) -> bool {
    // SAFETY: by contract; all before was a letter, and not the end.
    let is = |place: usize, letter: u8| unsafe { *sql.add(place) | 0x20 == letter };
    is(0, b's') && is(1, b'e') && is(2, b'l')
}
