//! Capture: which statements made a transaction, exactly.
//!
//! # Why
//! A transaction can be logged as its statements only if they are known to the last bit, and do the same in a replay.
//! SQLite's trace hook tells of each statement as it starts and as it ends (`sqlite3_trace_v2`). The values are read
//! out of its bindings, and its effects from its program, on the reference connection.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the capture of one connection: what SQLite's callbacks and the commit call |
//! | `transition` | the state machine: state and event to state and action |
//! | `recorder` | the state of one connection's open transaction |
//! | `tracking`, `recording` | the effects of the state machine; the copy of a statement's text and values |
//! | `running` | the statements that run |
//! | `shortcut` | the way of frequent statements past the recorder |
//! | `trace_filter`, `subscription` | what SQLite is asked to tell of; the effects of a change |
//! | `transaction` | the record of the open transaction |
//! | `statement_text`, `app_settings` | the meaning of texts, and of the application's settings |
//! | `replayable`, `instructions`, `large_numbers` | whether a statement can be replayed |
//! | `replay_cache` | what is known of texts |
//! | `deferred_wait` | the wait for commits that a silent statement has read |
//! | `encoding` | the bytes of a captured transaction |
//! | `changed_pages` | what a transaction has left, so that its replay is believed only where it leaves the same |
//! | `host` | what capture asks of the database, and what its connections share |
//! | `reference` | the connection on which statements are examined, and replayed |
//!
//! # What it promises
//! 1. [`Capture::take`] answers a transaction only if the statements in it changed every page that the transaction
//!    changed. Between them the connection has asked its cache for no page, and no other statement was open.
//! 2. Where that cannot be vouched for, the answer is a [`FallbackCause`], never a guess. Each is counted by name.
//!
//! # Invariants
//! 1. Callbacks of one connection come one at a time, from the thread that uses the connection. Internal statements on the
//!    connection (reading bindings) cause callbacks, too; those return at once.
//! 2. While SQLite is not asked for the ends of statements, the open transaction is lost. So is every other, until SQLite
//!    has said that no statement is left open (`trace_filter`).
//! 3. No internal statement outlives a callback: an application can close its connection at any moment that it could
//!    without us. None looks at a database: no lock is taken, and no busy handler called.
//! 4. No internal statement is compiled under an authorizer of the application. Ours has been there since the connection
//!    was opened. Where it is not called any more, another is in its place, and nothing is captured again.
//! 5. A panic leaves the callback marked as busy: nothing is captured any more, and pages are written.

mod app_settings;
pub(crate) mod changed_pages;
mod deferred_wait;
pub(crate) mod encoding;
#[cfg(test)]
mod fake;
mod host;
mod instructions;
mod large_numbers;
mod recorder;
mod recording;
pub(crate) mod reference;
mod replay_cache;
mod replayable;
mod running;
mod shortcut;
mod statement_text;
mod subscription;
mod trace_filter;
mod tracking;
mod transaction;
mod transition;

use crate::capture::app_settings::{Consequence, UNSAID, consequence};
use crate::capture::deferred_wait::DeferredWait;
use crate::capture::encoding::Captured;
pub(crate) use crate::capture::host::{Host, SharedCapture};
use crate::capture::recorder::Recorder;
use crate::capture::shortcut::{Shortcut, ShortcutWord, fits};
use crate::capture::statement_text::begins_with_select;
pub(crate) use crate::capture::statement_text::{first_word_of, is_savepoint};
pub(crate) use crate::capture::trace_filter::Subscription;
use crate::capture::trace_filter::{TraceFilter, is_log};
use crate::ffi::connection::Connection;
use crate::ffi::statement::RunningStatement;
use crate::stats::FallbackCause;
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The capture of one connection.
pub(crate) struct Capture<H: Host> {
    db: Connection,
    host: H,
    recorder: Mutex<Recorder>,
    /// Statements that pass the recorder by.
    shortcut: ShortcutWord,
    /// The events that SQLite is asked for.
    filter: TraceFilter,
    wait: DeferredWait,
    /// True while a callback is at work.
    busy: AtomicBool,
    /// True once a lock or a failure was met below.
    disturbed: AtomicBool,
    /// The cause for which the connection is not captured any more.
    barred: OnceLock<FallbackCause>,
    /// True once our authorizer was called, until that is asked.
    authorized: AtomicBool,
    /// The application's `recursive_triggers`: 0, 1, or [`UNSAID`].
    recursive_triggers: AtomicU8,
}

impl<H: Host> Capture<H> {
    /// The capture of a connection whose main database is the host's.
    pub fn new(db: Connection, host: H) -> Capture<H> {
        Capture {
            db,
            host,
            recorder: Mutex::default(),
            shortcut: ShortcutWord::default(),
            filter: TraceFilter::default(),
            wait: DeferredWait::default(),
            busy: AtomicBool::new(false),
            disturbed: AtomicBool::new(false),
            barred: OnceLock::new(),
            authorized: AtomicBool::new(false),
            recursive_triggers: AtomicU8::new(UNSAID),
        }
    }

    /// True if this process has opened the connection's database, not a parent that has forked since.
    pub fn is_of_this_process(&self) -> bool {
        self.host.is_of_this_process()
    }

    /// True while a callback is at work: its own statements are not captured.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The connection.
    pub fn db(&self) -> Connection {
        self.db
    }

    /// A lock or a failure was met: what the statement made of it cannot be replayed.
    pub fn disturb(&self) {
        self.disturbed.store(true, Ordering::Relaxed);
    }

    /// The connection is never captured again: no replay can know what it does.
    pub fn bar(&self, cause: FallbackCause) {
        let _ = self.barred.set(cause);
    }

    /// The connection compiles an action, and SQLite asks for leave. SQLite asks for all that is compiled, executed or not,
    /// also by statements of statements.
    pub fn compiles(&self, action: i32, name: &[u8], value: Option<&[u8]>) {
        self.authorized.store(true, Ordering::Relaxed);
        match consequence(action, name, value, self.is_busy()) {
            Consequence::Nothing => {}
            Consequence::Bar(cause) => self.bar(cause),
            Consequence::RecursiveTriggers(says) => {
                self.recursive_triggers.store(u8::from(says), Ordering::Relaxed);
            }
        }
    }

    /// True if the running statement shows nothing of what it reads before its own commit. If so, the wait for `commit` is
    /// deferred to then.
    pub fn defers_wait(&self, commit: u64) -> bool {
        self.wait.defer(commit)
    }

    /// Begins a callback; `false` inside another one, which the connection's own thread began.
    fn enter(&self) -> bool {
        let free = !self.busy.load(Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        free
    }

    fn leave(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// A statement starts: whether the subscription to starts goes on, and nothing is to be known of the statement. Every
    /// point query of a connection that only reads comes here.
    ///
    /// # Safety
    /// `sql` is a text that ends with a zero.
    #[inline]
    pub unsafe fn skips(&self, sql: *const u8) -> bool {
        // SAFETY: by contract.
        unsafe { self.filter.skips(self.host.log_generation(), sql) }
    }

    /// A statement starts that is not skipped: `true` where it takes the shortcut past the recorder.
    ///
    /// # Safety
    /// As above.
    #[inline]
    pub unsafe fn started_quickly(&self, statement: RunningStatement, sql: *const u8) -> bool {
        if !self.filter.is_subscribed_to_all() {
            return false;
        }
        let shortcut = self.shortcut.get();
        if shortcut.takes_writers() {
            let takes = fits(statement.id()) && !self.wait.is_owed() && is_plain_writer(self.db, statement);
            if takes {
                self.shortcut.set(Shortcut::Writer(statement.id()));
            }
            return takes;
        }
        let is_open = shortcut == Shortcut::Queries
            && is_log(self.host.log_generation())
            && !self.filter.is_without_log()
            && !self.wait.is_owed()
            && fits(statement.id());
        // SAFETY: by contract.
        let is_query = is_open && unsafe { begins_with_select(sql) } && statement.is_read_only();
        let takes = is_query && self.filter.count_query(self.host.shared().reader_queries());
        if takes {
            self.shortcut.set(Shortcut::Query(statement.id()));
        }
        takes
    }

    /// A statement has ended: `true` where it had taken the shortcut, and nothing is left to do.
    #[inline]
    pub fn ended_quickly(&self, statement: RunningStatement) -> bool {
        let next = self.shortcut.get().after_end(statement.id());
        match next {
            Some(next) if next == Shortcut::Writers || !self.wait.is_owed() => {
                self.shortcut.set(next);
                true
            }
            _ => false,
        }
    }

    /// The recorder, with the query that has taken the shortcut.
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        let mut recorder = self.recorder.lock();
        self.close_shortcut(&mut recorder);
        recorder
    }

    fn close_shortcut(&self, recorder: &mut Recorder) {
        if let Shortcut::Query(query) = self.shortcut.get() {
            self.shortcut.set(Shortcut::Closed);
            recorder.start_lone_query(query);
        }
    }

    /// The recorder was used: which statements may pass it by.
    fn open_shortcut(&self, recorder: &Recorder) {
        let is_blank = recorder.is_blank() && !self.wait.is_silent();
        self.shortcut.set(Shortcut::of(recorder.state, is_blank));
    }

    /// A statement starts. Answers the new subscription, where that changes.
    pub fn started(&self, statement: RunningStatement, sql: &[u8]) -> Option<Subscription> {
        if !self.enter() {
            return None;
        }
        self.shortcut.set(self.shortcut.get().after_noted_start());
        // Read once: all must see the same mode.
        let generation = self.host.log_generation();
        let subscription = match self.filter_start(statement, sql, generation) {
            Some(subscription) => subscription,
            None => {
                if !self.is_without_log(is_log(generation)) {
                    let mut recorder = self.recorder();
                    self.start(&mut recorder, statement, sql);
                    self.open_shortcut(&recorder);
                }
                None
            }
        };
        self.leave();
        subscription
    }

    /// A statement has ended.
    pub fn ended(&self, statement: RunningStatement) {
        if self.filter.is_without_log() || !self.enter() {
            return;
        }
        let mut recorder = self.recorder();
        self.end(&mut recorder, statement);
        self.open_shortcut(&recorder);
        drop(recorder);
        self.leave();
    }

    /// The transaction that is about to commit, or the cause for which it must be written as pages. `number` is its own.
    pub fn take(&self, number: u64) -> Result<Captured, FallbackCause> {
        let Some(mut recorder) = self.recorder.try_lock() else { return Err(FallbackCause::Untracked) };
        self.close_shortcut(&mut recorder);
        let taken = self.commit(&mut recorder, number);
        self.open_shortcut(&recorder);
        taken
    }
}

/// True if a statement only adds to a transaction, and runs to its end at once: nothing can come between.
fn is_plain_writer(db: Connection, statement: RunningStatement) -> bool {
    !db.is_autocommit() && !statement.is_read_only() && !statement.has_columns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fake::{Fake, FakeHost, sql, with};

    fn capture() -> Capture<FakeHost> {
        with(|fake| *fake = Fake::default());
        crate::capture::fake::capture()
    }

    #[test]
    fn a_query_takes_the_shortcut_where_nothing_is_known_that_it_makes_stale() {
        let capture = capture();
        let query = sql(4, c"SELECT 1");
        // The first makes the recorder known to be blank.
        assert_eq!(query.start(&capture), (None, false));
        assert!(!query.end(&capture));
        query.run(&capture);
        assert_eq!(query.start(&capture), (None, true), "nothing runs, and nothing was written");
        assert_eq!(sql(8, c"SELECT 2").start(&capture), (None, false), "another runs");
        sql(8, c"SELECT 2").end(&capture);
        assert!(!query.end(&capture), "the recorder knows of it");
        assert_eq!(query.start(&capture), (None, false), "the last end left page accesses");
        query.end(&capture);
        assert_eq!(sql(6, c"SELECT 1").start(&capture), (None, false), "an address that does not fit");
    }

    #[test]
    fn a_statement_of_a_lost_transaction_takes_the_shortcut() {
        let capture = capture();
        capture.bar(FallbackCause::Settings);
        sql(4, c"BEGIN").run(&capture);
        with(|fake| (fake.autocommit, fake.transaction) = (false, 2));
        let insert = sql(8, c"INSERT INTO t VALUES(1)");
        insert.run(&capture);
        assert_eq!(insert.start(&capture), (None, true));
        assert!(insert.end(&capture));
        assert_eq!(insert.start(&capture), (None, true));
        assert_eq!(sql(12, c"SELECT 1").start(&capture), (None, false), "a query is noted");
        assert!(!insert.end(&capture), "its address may have been another's since");
        assert_eq!(sql(16, c"COMMIT").start(&capture), (None, false));
        assert!(capture.take(1).is_err());
    }

    #[test]
    fn the_first_bar_counts_and_the_authorizer_sets_it() {
        let capture = capture();
        capture.compiles(21, b"", None);
        assert!(capture.barred.get().is_none());
        capture.compiles(19, b"recursive_triggers", Some(b"on"));
        assert_eq!(capture.recursive_triggers.load(Ordering::Relaxed), 1);
        capture.compiles(19, b"ignore_check_constraints", Some(b"1"));
        capture.bar(FallbackCause::Interleaved);
        assert_eq!(capture.barred.get(), Some(&FallbackCause::Settings));
    }

    #[test]
    fn a_callback_inside_a_callback_returns_at_once() {
        let capture = capture();
        assert!(!capture.is_busy() && capture.enter());
        assert!(capture.is_busy());
        let query = sql(4, c"SELECT 1");
        query.run(&capture);
        assert!(capture.recorder.lock().running.is_idle());
        capture.leave();
        assert!(!capture.is_busy());
    }

    #[test]
    fn a_commit_while_the_recorder_is_in_use_is_untracked() {
        let capture = capture();
        let recorder = capture.recorder.lock();
        assert_eq!(capture.take(1).err(), Some(FallbackCause::Untracked));
        drop(recorder);
    }
}
