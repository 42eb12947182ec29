//! Which statements made a transaction, exactly.
//!
//! # Why
//! A transaction can be logged as its statements only if they are known to the last bit and do the same when
//! they are run again. SQLite tells of each statement as it starts and as it ends (`sqlite3_trace_v2`); what
//! it was given is read out of its bindings; what it will do is read from its program, on a connection of our own.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | one connection's open transaction |
//! | `replayable` | whether a statement can be replayed |
//! | `encoding` | the bytes of a captured transaction |
//! | `reference` | the connection on which statements are examined, and replayed |
//! | `trace_filter` | what SQLite is asked to tell of |
//!
//! # What it promises
//! 1. [`Capture::take`] answers a transaction only if every page it changed was changed by the statements in
//!    it: between them the connection has not asked its cache for a single page, and no other statement was
//!    open.
//! 2. What cannot be vouched for is a [`FallbackCause`], never a guess. Each is counted by name.
//!
//! # Invariants
//! 1. Callbacks of one connection come one at a time, from the thread that uses it. What they do themselves on
//!    the connection (reading bindings) calls them again; those calls return at once.
//! 2. While SQLite is not asked for the ends of statements, the open transaction has a cause, and until it is known that
//!    none is left open, so has every other (`trace_filter`).
//! 3. No statement of ours outlives a callback: an application can close its connection at any moment that
//!    it could without us. None looks at a database: no lock is taken, and no busy handler called.
//! 4. Nothing of ours is compiled where the authorizer of the connection is the application's. Ours has been there since
//!    the connection was opened; where it is not called any more, another is in its place, and nothing is captured again.

pub(crate) mod encoding;
pub(crate) mod reference;
mod replayable;
mod trace_filter;

use crate::capture::encoding::{Captured, Checks, MOST_TIME, Settings, Text, put_value};
use crate::capture::reference::{Surroundings, first_text, has_foreign_keys, is_large, mentions_large};
use crate::capture::replayable::Program;
use crate::capture::trace_filter::Rest;
pub(crate) use crate::capture::trace_filter::Subscription;
use crate::ffi::api::Api;
use crate::ffi::authorizer::{SQLITE_CREATE_TEMP_INDEX, SQLITE_CREATE_TEMP_VIEW, SQLITE_PRAGMA};
use crate::ffi::connection::{Connection, TransactionState};
use crate::ffi::statement::{RunningStatement, Statement};
use crate::open::database::Database;
use crate::stats::FallbackCause;
use crate::sync::lock_table::Seat;
use crate::sync::writer_queue::WriterId;
use litefoot_storage::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Verdicts that are kept.
const VERDICTS: usize = 512;
/// Frames after which SQLite checkpoints by itself, unless told otherwise.
const DEFAULT_AUTOCHECKPOINT: &str = "1000";
/// Pages are mostly of this size.
const TYPICAL_PAGE_BYTES: usize = 4096;
/// Times that a difference is taken for one that passes.
const DIFFERENCES: u32 = 8;
/// Bytes of statements beyond which pages are written.
const MOST_BYTES: usize = 256 << 10;

/// By how many bits that is less after each transaction that had more, at most by so many, and after how many such it is tried
/// in full again.
const LESS_BITS: u32 = 2;
const MOST_LESS_BITS: u32 = 5;
const RETRIED: u32 = 16;

/// PRAGMAs whose values change nothing that a statement does to the database.
const HARMLESS: [&str; 38] = [
    "analysis_limit",
    "application_id",
    "auto_vacuum",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "checkpoint_fullfsync",
    "data_version",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    // SQLite tells of this one.
    "foreign_keys",
    "fullfsync",
    "incremental_vacuum",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "journal_mode",
    "journal_size_limit",
    "locking_mode",
    "mmap_size",
    "optimize",
    "page_size",
    "quick_check",
    "secure_delete",
    "synchronous",
    "table_info",
    "table_list",
    "table_xinfo",
    "temp_store",
    "threads",
    "trusted_schema",
    "user_version",
    "wal_autocheckpoint",
    "wal_checkpoint",
    "shrink_memory",
    "recursive_triggers",
];

/// What one connection has done in its open transaction.
pub(crate) struct Capture {
    api: &'static Api,
    db: Connection,
    database: Arc<Database>,
    writer: WriterId,
    /// How far the connection has locked the database.
    seat: Arc<Seat>,
    state: Mutex<State>,
    /// Whether a callback is at work.
    busy: AtomicBool,
    /// Whether the statement that runs writes and returns no rows, so that nothing it reads is seen before its
    /// own commit.
    shows_nothing: AtomicBool,
    /// The commit that must be durable before the application sees what was read.
    owes: AtomicU64,
    /// Whether a lock or a failure was met below.
    disturbed: AtomicBool,
    /// Why the connection must not be captured any more.
    barred: OnceLock<FallbackCause>,
    /// Whether the authorizer of ours was called since that was asked last.
    authorized: AtomicBool,
    /// Whether triggers fire triggers, where the application has said so.
    recursive_triggers: AtomicU8,
    /// What SQLite is asked to tell of.
    rest: Rest,
    /// Whether the state is such that a query need not be noted in it.
    ready: AtomicBool,
    /// The query that runs without being noted there; 0 for none. Whoever looks at the state notes it first.
    quick: AtomicUsize,
    /// Whether the transaction that is under way writes, and is to be written as pages: its other statements that write
    /// need not be noted.
    lost: AtomicBool,
    /// The one of these that runs; 0 for none.
    unnoted: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Statements that have started and not ended.
    open: Vec<usize>,
    /// What the statement that started last is.
    kind: Kind,
    /// Whether the write lock was held when it started.
    writing: bool,
    captured: Captured,
    cause: Option<FallbackCause>,
    /// Changes and rowid when the transaction began.
    changes_before: i32,
    rowid_before: i64,
    /// Changes after the last statement.
    changes_after: i32,
    /// Statements and bytes of values that were captured before the last one.
    captured_before: (usize, usize),
    /// When the transaction began.
    begun: Option<Instant>,
    /// Root pages of tables that get rows with new numbers.
    makes_rows_in: Vec<i64>,
    /// Whether a number was given that is close to the largest of these.
    has_large: bool,
    /// Whether a value may have become the number of a row, and whether that may have been one which is stored.
    numbers_rows: bool,
    numbers_by_rows: bool,
    /// The last statement, if it changed nothing: it may have to be prepared anew, and then it starts again.
    idle: Option<usize>,
    /// Transactions in a row whose statements were too long.
    oversized: u32,
    /// Verdicts that the two programs differ.
    differences: u32,
    /// Page accesses when the last statement ended; unknown where that was a query, and nothing was written.
    accesses: Option<i64>,
    /// The transaction logged last, while its number of changes is not known to the log.
    unchecked: Option<u64>,
    verdicts: Verdicts,
    /// The schema that the verdicts are for.
    schema: u32,
    settings: Option<Settings>,
    /// Whether SQLite was told to leave checkpoints to us.
    told: bool,
    /// The text of a query that was found to be nothing else.
    query: Vec<u8>,
    /// The query that runs outside of any transaction, while no other statement has started.
    alone: Option<usize>,
}

/// Bytes of statements beyond which pages are written, after so many transactions in a row that had more: who loads data in
/// large transactions does so again and again.
fn most_bytes(oversized: u32) -> usize {
    match oversized % RETRIED {
        0 => MOST_BYTES,
        times => MOST_BYTES >> (times * LESS_BITS).min(MOST_LESS_BITS),
    }
}

impl State {
    /// Whether no statement runs, and nothing of the transaction was captured.
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.captured.statements.is_empty()
    }

    /// A query runs of which nothing else has to be noted.
    fn run_alone(&mut self, statement: usize) {
        self.open.push(statement);
        self.alone = Some(statement);
        self.idle = None;
        self.accesses = None;
    }
}

/// What was found out about texts.
#[derive(Default)]
struct Verdicts {
    known: HashMap<Box<str>, Arc<Examined>>,
    /// The one that was asked for last, mostly asked for again.
    last: Option<(Kind, Arc<Examined>)>,
}

/// A text, and what it does, or why that cannot be repeated.
struct Examined {
    text: Arc<Text>,
    program: Result<Program, FallbackCause>,
    has_large: bool,
}

/// What `recursive_triggers` says.
const UNSAID: u8 = 2;

impl Verdicts {
    fn clear(&mut self) {
        self.known.clear();
        self.last = None;
    }

    /// What the text asked for last means, if it is this one.
    fn last_kind(&self, sql: &str) -> Option<Kind> {
        self.last.as_ref().filter(|(_, examined)| examined.text.sql == sql).map(|(kind, _)| *kind)
    }
}

/// What a statement means for the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Writes nothing.
    #[default]
    Read,
    /// BEGIN, COMMIT, ROLLBACK.
    Boundary,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// Changes rows.
    Write,
}

impl Capture {
    /// Whether its database was opened by this process, not by one that has forked since.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.database.is_of_this_process()
    }

    /// Watches a connection whose main database is `database`.
    pub fn new(
        api: &'static Api,
        db: Connection,
        database: Arc<Database>,
        writer: WriterId,
        seat: Arc<Seat>,
    ) -> Capture {
        Capture {
            api,
            db,
            writer,
            seat,
            state: Mutex::default(),
            busy: AtomicBool::new(false),
            shows_nothing: AtomicBool::new(false),
            owes: AtomicU64::new(0),
            disturbed: AtomicBool::new(false),
            barred: OnceLock::new(),
            authorized: AtomicBool::new(false),
            recursive_triggers: AtomicU8::new(UNSAID),
            rest: Rest::default(),
            ready: AtomicBool::new(false),
            quick: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
            unnoted: AtomicUsize::new(0),
            database,
        }
    }

    /// Whether a callback is at work: what it does itself is not watched.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The connection.
    pub fn db(&self) -> Connection {
        self.db
    }

    /// The functions of the connection's SQLite.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// A lock or a failure was met: what the statement made of it cannot be replayed.
    pub fn disturb(&self) {
        self.disturbed.store(true, Ordering::Relaxed);
    }

    /// The connection is such that no replay knows of it.
    pub fn bar(&self, cause: FallbackCause) {
        let _ = self.barred.set(cause);
    }

    /// The connection compiles something: what SQLite asks to be authorized. It is asked of all that can be compiled, run or
    /// not, and of what statements of statements compile.
    pub fn compiles(&self, action: i32, name: &[u8], value: Option<&[u8]>) {
        self.authorized.store(true, Ordering::Relaxed);
        match (action, value) {
            // What has a name there is found first.
            (SQLITE_CREATE_TEMP_INDEX..=SQLITE_CREATE_TEMP_VIEW, _) => self.bar(FallbackCause::OtherDatabase),
            (SQLITE_PRAGMA, Some(value)) if !self.is_busy() => self.note_pragma(name, value),
            _ => {}
        }
    }

    /// The application gives a setting a value.
    fn note_pragma(&self, name: &[u8], value: &[u8]) {
        let is =
            |words: &[&str], text: &[u8]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
        if is(&["recursive_triggers"], name) {
            let says = if is(&["1", "on", "yes", "true"], value) {
                1
            } else if is(&["0", "off", "no", "false"], value) {
                0
            } else {
                return self.bar(FallbackCause::Settings);
            };
            self.recursive_triggers.store(says, Ordering::Relaxed);
        }
        if !is(&HARMLESS, name) && !name.starts_with(b"litefoot_") {
            self.bar(FallbackCause::Settings);
        }
    }

    /// Whether the statement that runs shows nothing of what it reads before it has committed. If so, `commit`
    /// is what it must wait for before it does.
    pub fn shows_nothing(&self, commit: u64) -> bool {
        let nothing = self.shows_nothing.load(Ordering::Relaxed);
        if nothing {
            self.owes.fetch_max(commit, Ordering::Relaxed);
        }
        nothing
    }

    /// Begins a callback. It is the connection's thread that finds one at work, if any does.
    fn enter(&self) -> bool {
        let free = !self.busy.load(Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        free
    }

    /// A statement starts: whether the connection rests, and nothing is to be known of it. This is the way of every point
    /// query of a connection that only reads.
    ///
    /// # Safety
    /// `sql` is a text that ends with a zero.
    #[inline]
    pub unsafe fn sleeps_on(&self, sql: *const u8) -> bool {
        // SAFETY: by contract.
        unsafe { self.rest.lasts(self.database.wal_generation(), sql) }
    }

    /// The same where the connection does not rest, or perhaps no longer: `true` where that is all there is to be known of
    /// the statement.
    ///
    /// # Safety
    /// As above.
    #[inline]
    pub unsafe fn started_quickly(&self, statement: RunningStatement, sql: *const u8) -> bool {
        if !self.rest.is_over() {
            return false;
        }
        let has_log = self.database.has_wal();
        if self.lost.load(Ordering::Relaxed) && self.is_of_no_account(statement) {
            self.unnoted.store(statement.id(), Ordering::Relaxed);
            return true;
        }
        let is_ready = has_log
            && self.ready.load(Ordering::Relaxed)
            && !self.rest.is_logless()
            && self.quick.load(Ordering::Relaxed) == 0
            && self.owes.load(Ordering::Relaxed) == 0;
        // SAFETY: by contract.
        let is_query = is_ready && unsafe { begins_with_select(sql) } && statement.is_read_only();
        let alone = is_query && self.rest.count_query(self.database.queries_before_rest());
        if alone {
            self.quick.store(statement.id(), Ordering::Relaxed);
        }
        alone
    }

    /// Whether a statement only adds to a transaction that is lost, and runs to its end at once: nothing can come between.
    fn is_of_no_account(&self, statement: RunningStatement) -> bool {
        !self.db.is_autocommit()
            && self.owes.load(Ordering::Relaxed) == 0
            && !statement.is_read_only()
            && !statement.has_columns()
    }

    /// A statement has ended: `true` where that is all.
    #[inline]
    pub fn ended_quickly(&self, statement: RunningStatement) -> bool {
        if self.unnoted.load(Ordering::Relaxed) == statement.id() {
            self.unnoted.store(0, Ordering::Relaxed);
            return true;
        }
        let alone =
            self.quick.load(Ordering::Relaxed) == statement.id() && self.owes.load(Ordering::Relaxed) == 0;
        if alone {
            self.quick.store(0, Ordering::Relaxed);
        }
        alone
    }

    /// The state, with the query that runs.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        self.note_quick(&mut state);
        state
    }

    fn note_quick(&self, state: &mut State) {
        let quick = self.quick.load(Ordering::Relaxed);
        if quick != 0 {
            self.quick.store(0, Ordering::Relaxed);
            state.run_alone(quick);
        }
    }

    /// The state was looked at, and perhaps changed.
    fn note_ready(&self, state: &mut State) {
        let ready = state.is_idle() && state.idle.is_none() && state.accesses.is_none();
        self.ready.store(ready && !self.shows_nothing.load(Ordering::Relaxed), Ordering::Relaxed);
        self.lost.store(state.writing && state.cause.is_some(), Ordering::Relaxed);
    }

    /// A statement starts. Answers what SQLite should tell of from now on, where that changes.
    pub fn started(&self, statement: RunningStatement, sql: &[u8]) -> Option<Subscription> {
        if !self.enter() {
            return None;
        }
        // Should its end never have been told, this may be another at its address.
        self.unnoted.store(0, Ordering::Relaxed);
        // Looked at once: all must see the same mode.
        let generation = self.database.wal_generation();
        let has_log = generation & 1 == 1;
        let hears = match self.rests_or_wakes(statement, sql, generation) {
            Some(hears) => hears,
            None => {
                if !self.is_without_log(has_log) {
                    let mut state = self.state();
                    self.start(&mut state, statement, sql);
                    self.note_ready(&mut state);
                }
                None
            }
        };
        self.busy.store(false, Ordering::Relaxed);
        hears
    }

    /// A statement has ended.
    pub fn ended(&self, statement: RunningStatement) {
        if self.rest.is_logless() || !self.enter() {
            return;
        }
        let mut state = self.state();
        self.end(&mut state, statement);
        self.note_ready(&mut state);
        drop(state);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// The transaction that is about to commit, or why it must be written as pages. `number` is its own.
    pub fn take(&self, number: u64) -> Result<Captured, FallbackCause> {
        let Some(mut state) = self.state.try_lock() else { return Err(FallbackCause::Untracked) };
        self.note_quick(&mut state);
        let taken = self.take_from(&mut state, number);
        self.note_ready(&mut state);
        taken
    }

    fn take_from(&self, state: &mut State, number: u64) -> Result<Captured, FallbackCause> {
        // The hook was taken by the application.
        if state.open.is_empty() && !self.rest.is_logless() {
            state.cause = Some(FallbackCause::Untracked);
        }
        if state.open.len() > 1 {
            state.cause.get_or_insert(FallbackCause::Interleaved);
        }
        // No query commits: what does was not told, as when the application has taken the hook.
        if state.kind == Kind::Read {
            state.cause.get_or_insert(FallbackCause::Untracked);
        }
        if self.disturbed.load(Ordering::Relaxed) {
            state.cause.get_or_insert(FallbackCause::Disturbed);
        }
        if state.captured.statements.is_empty() {
            state.cause.get_or_insert(FallbackCause::Untracked);
        }
        if let Some(cause) = self.barred.get() {
            state.cause.get_or_insert(*cause);
        }
        if state.cause.is_none() && self.database.wal().is_none_or(|wal| wal.schema() != state.schema) {
            state.cause = Some(FallbackCause::Schema);
        }
        // Nobody else can write until this has committed.
        if state.cause.is_none()
            && !state.makes_rows_in.is_empty()
            && (state.numbers_by_rows
                || state.has_large && state.numbers_rows
                || self.database.has_large_rowid(&state.makes_rows_in))
        {
            state.cause = Some(FallbackCause::RowOrder);
        }
        if let Some(cause) = state.cause {
            if self.rest.has_cost() {
                self.database.rest_later();
            }
            return Err(cause);
        }
        state.oversized = 0;
        let rowid = self.db.last_insert_rowid();
        let mut captured = std::mem::take(&mut state.captured);
        captured.took = state.begun.map_or(MOST_TIME, |begun| begun.elapsed());
        captured.checks.rowid = (rowid != state.rowid_before).then_some(rowid);
        // A statement that commits by itself is counted only when it has ended.
        captured.checks.changes =
            (state.kind != Kind::Write).then(|| self.db.total_changes().wrapping_sub(state.changes_before));
        state.unchecked = captured.checks.changes.is_none().then_some(number);
        Ok(captured)
    }

    /// A query of a transaction that has written nothing, known from the last time: nothing has to be noted of
    /// it but that it runs.
    fn start_alone(&self, state: &mut State, statement: RunningStatement, sql: &[u8]) -> bool {
        let alone = state.query == sql
            && state.is_idle()
            && !self.shows_nothing.load(Ordering::Relaxed)
            && self.nothing_is_written(state)
            && statement.is_read_only();
        if alone {
            state.run_alone(statement.id());
            self.settle();
        }
        alone
    }

    /// Whether no transaction of writes has begun, as far as statements tell. What does not come by a statement is
    /// noticed by the next one that writes: [`Capture::was_touched`].
    fn nothing_is_written(&self, state: &State) -> bool {
        // Nothing was written when the last query started, and since then only queries have run.
        state.accesses.is_none()
            || self.db.is_autocommit()
            || self.db.transaction() != TransactionState::Writing
    }

    /// Whether pages were touched since the last statement of the transaction has ended.
    fn was_touched(&self, state: &mut State) -> bool {
        match state.accesses {
            Some(accesses) => self.db.page_accesses() != accesses,
            // Nothing was written when the last query started, and it wrote nothing.
            None => self.db.transaction() == TransactionState::Writing,
        }
    }

    /// Notes a text whose statements may run alone.
    fn note_query(&self, state: &mut State, statement: RunningStatement, sql: &[u8]) {
        if statement.is_read_only() && state.query != sql && std::str::from_utf8(sql).is_ok_and(is_query) {
            state.query = sql.to_vec();
        }
    }

    fn start(&self, state: &mut State, statement: RunningStatement, sql: &[u8]) {
        if self.start_alone(state, statement, sql) {
            return;
        }
        state.alone = None;
        self.note_query(state, statement, sql);
        if state.open.last() == Some(&statement.id()) && sql.starts_with(b"--") {
            // A trigger of the statement.
            return;
        }
        if self.rest.is_unsure() && sql.starts_with(b"--") {
            // Perhaps one of a statement whose end is not told.
            state.cause.get_or_insert(FallbackCause::Untracked);
            return;
        }
        let Some(wal) = self.database.wal() else {
            self.begin(state);
            state.cause = Some(FallbackCause::Opening);
            state.open.push(statement.id());
            return;
        };
        // For a statement of ours a connection that has read nothing would have to lock the database.
        if !state.told && self.seat.reads() && self.is_authorized_by_us() {
            state.told = true;
            self.take_over_checkpoints();
        }
        let outermost = state.open.is_empty() && !self.may_meet_others(statement);
        let autocommit = self.db.is_autocommit();
        let fresh = autocommit && outermost;
        if fresh {
            self.begin_fresh(state);
        } else if !autocommit && outermost && state.cause.is_none() && self.was_touched(state) {
            state.cause = Some(FallbackCause::Untracked);
        }
        if !outermost {
            state.cause.get_or_insert(FallbackCause::Interleaved);
        }
        if !autocommit && state.idle.take() == Some(statement.id()) {
            state.cause.get_or_insert(FallbackCause::Untracked);
        }
        if !state.open.contains(&statement.id()) {
            state.open.push(statement.id());
        }
        // SQLite skips the mark of a byte order.
        let Some(sql) = std::str::from_utf8(sql).ok().filter(|sql| !sql.contains('\u{feff}')) else {
            state.kind = Kind::Write;
            state.cause.get_or_insert(FallbackCause::Encoding);
            return;
        };
        let read_only = statement.is_read_only();
        if !read_only {
            self.rest.note_writer();
        }
        if state.schema != wal.schema() {
            state.schema = wal.schema();
            state.verdicts.clear();
        }
        state.kind = match state.verdicts.last_kind(sql) {
            Some(kind) => kind,
            None => kind_of(sql, read_only),
        };
        let shows_nothing = outermost && !statement.has_columns() && (state.kind != Kind::Read || !read_only);
        self.shows_nothing.store(shows_nothing, Ordering::Relaxed);
        if !shows_nothing {
            self.settle();
        }
        if is_pragma(sql) && !autocommit {
            state.cause.get_or_insert(FallbackCause::Pragma);
        }
        if !read_only && outermost {
            // Where a read has fixed what the transaction sees, waiting would only make it stale.
            let transaction = if fresh { TransactionState::None } else { self.db.transaction() };
            state.writing = transaction == TransactionState::Writing;
            if transaction == TransactionState::None {
                self.database.writers().enter(self.writer, self.database.options().busy_wait);
            }
        }
        if state.cause.is_none() && matches!(state.kind, Kind::Write | Kind::Savepoint) {
            self.add(state, statement, sql);
        }
    }

    fn end(&self, state: &mut State, statement: RunningStatement) {
        if state.alone.take_if(|alone| *alone == statement.id()).is_some() {
            state.open.clear();
            self.settle();
            return;
        }
        let before = state.open.len();
        state.open.retain(|open| *open != statement.id());
        // What one that was not captured has touched must be noticed.
        if !state.open.is_empty() || before == 0 {
            return;
        }
        state.accesses = Some(self.db.page_accesses());
        let changes = self.db.total_changes();
        // A statement that changed nothing may have told so by an error, of what it found.
        let silent = state.kind == Kind::Write && changes == state.changes_after;
        if silent && before == 1 {
            // It may have failed for a reason that is not there when it is run again.
            let (statements, values) = state.captured_before;
            state.captured.statements.truncate(statements);
            state.captured.values.truncate(values);
        }
        state.changes_after = changes;
        state.idle = silent.then(|| statement.id());
        let over = self.db.is_autocommit();
        if silent || over {
            self.settle();
        }
        self.shows_nothing.store(false, Ordering::Relaxed);
        if over || !state.writing {
            self.database.writers().leave_unless_writing(self.writer);
        }
    }

    /// Tells SQLite to leave checkpoints to our thread, unless the application has set something. This cannot be
    /// done when the connection is opened: SQLite sets its default after everything else.
    fn take_over_checkpoints(&self) {
        if first_text(self.db, "PRAGMA wal_autocheckpoint").as_deref() == Some(DEFAULT_AUTOCHECKPOINT) {
            let frames = self.database.wal_bytes() / TYPICAL_PAGE_BYTES;
            self.db.set_autocheckpoint(frames.clamp(1000, 1 << 30) as i32);
        }
    }

    /// A transaction begins with a statement, as far as is known. If something writes already, its start was not told: one
    /// that has to be prepared anew ends, and starts again in silence.
    fn begin_fresh(&self, state: &mut State) {
        self.begin(state);
        if self.db.transaction() == TransactionState::Writing {
            state.cause = Some(FallbackCause::Untracked);
        }
    }

    /// A transaction begins.
    fn begin(&self, state: &mut State) {
        self.rest.begin();
        let changes = self.db.total_changes();
        let earlier =
            state.unchecked.take().map(|number| (number, changes.wrapping_sub(state.changes_before)));
        state.captured.statements.clear();
        state.captured.values.clear();
        state.captured_before = (0, 0);
        state.begun = Some(Instant::now());
        state.makes_rows_in.clear();
        state.has_large = false;
        state.numbers_rows = false;
        state.numbers_by_rows = false;
        state.captured.checks = Checks { earlier, ..Checks::default() };
        state.cause = self.barred.get().copied();
        state.writing = false;
        state.changes_before = changes;
        state.changes_after = changes;
        state.rowid_before = self.db.last_insert_rowid();
        self.disturbed.store(false, Ordering::Relaxed);
    }

    /// Waits until what was read and is about to be shown is durable. A failure latches the database; whoever
    /// reads on meets it there.
    fn settle(&self) {
        if self.owes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let owed = self.owes.swap(0, Ordering::Relaxed);
        if let Some(wal) = self.database.wal() {
            let _ = wal.wait(owed);
        }
    }

    /// Adds a statement to the transaction.
    fn add(&self, state: &mut State, statement: RunningStatement, sql: &str) {
        let added = self.try_add(state, statement, sql);
        state.cause = added.err().or_else(|| self.barred.get().copied());
    }

    fn try_add(
        &self,
        state: &mut State,
        statement: RunningStatement,
        sql: &str,
    ) -> Result<(), FallbackCause> {
        let parameters = statement.parameters();
        if parameters > 0 && !self.db.can_lend_bindings() {
            return Err(FallbackCause::Bindings);
        }
        // Should the application have an authorizer, that is asked for this, once.
        let mut helper =
            (parameters > 0 || self.seat.reads()).then(|| self.prepare_helper(parameters)).transpose()?;
        let examined = self.judge(state, sql)?;
        let program = examined.program.as_ref().map_err(|cause| *cause)?;
        for root in &program.makes_rows_in {
            if !state.makes_rows_in.contains(root) {
                state.makes_rows_in.push(*root);
            }
        }
        state.has_large |= examined.has_large || program.has_large;
        state.numbers_rows |= program.numbers_rows;
        state.numbers_by_rows |= program.numbers_by_rows;
        state.captured_before = (state.captured.statements.len(), state.captured.values.len());
        state.captured.begin_statement(examined.text.clone(), parameters);
        if let Some(helper) = helper.as_mut().filter(|_| parameters > 0) {
            let State { captured, has_large, .. } = state;
            let read = statement.read_bindings(helper, |row| {
                for column in 0..row.columns() {
                    let value = row.value(column);
                    *has_large |= is_large(value);
                    put_value(&mut captured.values, value);
                }
            });
            if !read {
                return Err(FallbackCause::Unavailable);
            }
        }
        if state.captured.values.len() > most_bytes(state.oversized) {
            state.oversized += 1;
            return Err(FallbackCause::Size);
        }
        Ok(())
    }

    /// A statement on the application's connection that selects so many parameters, if that is ours to make.
    fn prepare_helper(&self, parameters: usize) -> Result<Statement, FallbackCause> {
        if let Some(cause) = self.barred.get() {
            return Err(*cause);
        }
        self.authorized.store(false, Ordering::Relaxed);
        let helper = self.db.prepare_parameters(parameters.max(1));
        if !self.authorized.load(Ordering::Relaxed) {
            self.bar(FallbackCause::Settings);
            return Err(FallbackCause::Settings);
        }
        helper.map_err(|_| FallbackCause::Unavailable)
    }

    /// Whether the connection has no authorizer but ours. If it has, that was asked, and never will be again.
    fn is_authorized_by_us(&self) -> bool {
        self.prepare_helper(1).is_ok()
    }

    /// What a text does.
    fn judge(&self, state: &mut State, sql: &str) -> Result<Arc<Examined>, FallbackCause> {
        // Looked at each time: SQLite tells nobody that they have changed.
        let settings = self.database.with_reference(|reference| {
            let triggers = match self.recursive_triggers.load(Ordering::Relaxed) {
                UNSAID => reference.recursive_triggers(),
                says => says == 1,
            };
            let settings = Settings { foreign_keys: has_foreign_keys(self.db), recursive_triggers: triggers };
            reference.is_like(Surroundings::of(self.db)).then_some(settings)
        });
        let settings = settings.ok_or(FallbackCause::Unavailable)?.ok_or(FallbackCause::Settings)?;
        if state.settings != Some(settings) {
            state.verdicts.clear();
            state.settings = Some(settings);
        }
        if let Some((_, examined)) = state.verdicts.last.as_ref().filter(|(_, last)| last.text.sql == sql) {
            return Ok(examined.clone());
        }
        if let Some(examined) = state.verdicts.known.get(sql) {
            let examined = examined.clone();
            state.verdicts.last = Some((state.kind, examined.clone()));
            return Ok(examined);
        }
        let program = if state.kind == Kind::Savepoint {
            Ok(Program::default())
        } else {
            let examined = self.database.with_reference(|reference| reference.examine(sql, settings));
            examined.flatten().unwrap_or(Err(FallbackCause::Settings))
        };
        let text = Arc::new(Text { sql: sql.to_owned(), settings });
        let has_large = mentions_large(sql.as_bytes());
        let examined = Arc::new(Examined { text, program, has_large });
        if matches!(examined.program, Err(FallbackCause::Settings)) {
            // A schema that our connection has not loaded yet passes; anything else stays.
            state.differences += 1;
            if state.differences < DIFFERENCES {
                return Ok(examined);
            }
        }
        if state.verdicts.known.len() >= VERDICTS {
            state.verdicts.clear();
        }
        state.verdicts.known.insert(sql.into(), examined.clone());
        Ok(examined)
    }
}

/// Whether a text of a log is one that changes rows, or a savepoint; what else it is, nobody has captured.
pub(crate) fn is_savepoint(sql: &str) -> bool {
    kind_of(sql, true) == Kind::Savepoint
}

/// What a statement means.
fn kind_of(sql: &str, read_only: bool) -> Kind {
    let word = first_word(sql);
    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
    if is("BEGIN") || is("COMMIT") || is("END") || is("ROLLBACK") && !rolls_back_to(sql) {
        return Kind::Boundary;
    }
    if is("SAVEPOINT") || is("RELEASE") || is("ROLLBACK") {
        return Kind::Savepoint;
    }
    if read_only { Kind::Read } else { Kind::Write }
}

/// Whether it is a `SELECT`, as most are written: with nothing in front of it, and what mostly follows.
///
/// # Safety
/// `sql` is a text that ends with a zero.
#[inline]
unsafe fn begins_with_select(sql: *const u8) -> bool {
    // SAFETY: by contract; all before was a letter, and not the end.
    let is = |place: usize, letter: u8| unsafe { *sql.add(place) | 0x20 == letter };
    let word = is(0, b's') && is(1, b'e') && is(2, b'l') && is(3, b'e') && is(4, b'c') && is(5, b't');
    // SAFETY: as above. What else may follow is rare, and looked at more closely.
    word && unsafe { matches!(*sql.add(6), b' ' | b'\n' | b'*' | b'\0') }
}

fn is_query(sql: &str) -> bool {
    let word = first_word(sql);
    ["SELECT", "WITH", "VALUES"].iter().any(|query| word.eq_ignore_ascii_case(query))
}

/// Whether a statement that begins with this may change how others compile.
fn may_change_settings(word: &str) -> bool {
    ["PRAGMA", "ATTACH", "DETACH"].iter().any(|one| word.eq_ignore_ascii_case(one))
}

fn is_pragma(sql: &str) -> bool {
    first_word(sql).eq_ignore_ascii_case("PRAGMA")
}

/// `ROLLBACK [TRANSACTION] TO …`
fn rolls_back_to(sql: &str) -> bool {
    let mut words = words(sql).skip(1);
    match words.next() {
        Some(word) if word.eq_ignore_ascii_case("TRANSACTION") => {
            words.next().is_some_and(|word| word.eq_ignore_ascii_case("TO"))
        }
        Some(word) => word.eq_ignore_ascii_case("TO"),
        None => false,
    }
}

fn first_word(sql: &str) -> &str {
    words(sql).next().unwrap_or_default()
}

/// The words of a statement, without its comments.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';');
            if let Some(comment) = rest.strip_prefix("--") {
                rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
            } else {
                break;
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, behind) =
            rest.split_at(end.max(usize::from(!rest.is_empty() && rest.is_char_boundary(1))));
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_known_by_their_first_word() {
        for (sql, is_one) in [
            (c"SELECT 1", true),
            (c"select*from t", true),
            (c"Select", true),
            (c"SELECT(1)", false),
            (c"SELECT_1", false),
            (c"SELECTs", false),
            (c"SELECT\u{e9}", false),
            (c"SELEC", false),
            (c"", false),
            (c" SELECT 1", false),
            (c"-- SELECT", false),
            (c"WITH a AS (SELECT 1) DELETE FROM t", false),
        ] {
            // SAFETY: it ends with a zero.
            assert_eq!(unsafe { begins_with_select(sql.as_ptr().cast()) }, is_one, "{sql:?}");
            assert!(!is_one || is_query(sql.to_str().unwrap()), "{sql:?}");
        }
    }

    #[test]
    fn statements_are_told_apart_by_their_words() {
        let cases = [
            ("BEGIN IMMEDIATE", false, Kind::Boundary),
            (" /* a */ -- b\n commit;", true, Kind::Boundary),
            ("ROLLBACK", true, Kind::Boundary),
            ("ROLLBACK TRANSACTION TO SAVEPOINT x", true, Kind::Savepoint),
            ("rollback to x", true, Kind::Savepoint),
            ("RELEASE x", true, Kind::Savepoint),
            ("SELECT 1", true, Kind::Read),
            ("", true, Kind::Read),
            ("é", true, Kind::Read),
            ("INSERT INTO t VALUES(1)", false, Kind::Write),
            ("WITH a AS (SELECT 1) DELETE FROM t", false, Kind::Write),
        ];
        for (sql, read_only, kind) in cases {
            assert_eq!(kind_of(sql, read_only), kind, "{sql}");
        }
    }
}
